//! The changes that modules make to a response's head before it is sent, in the order of Apache's
//! output filters.
//!
//! ```text
//! r->headers_out       RequestState::fields, then the handler's (file, script): ResponseHead
//! r->err_headers_out   RequestState::error_fields, which errors and redirects get too
//! mod_substitute, mod_deflate, mod_brotli   filter::choose
//! mod_expires                               expires::response
//! mod_headers                               headers::response
//! both tables become one                    Vary once, charset by AddDefaultCharset
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use howdah_http::{ResponseHead, Status, members};

use crate::DirectiveSettings;
use crate::evaluation_context::EvaluationContext;
use crate::modules::core::DefaultCharset;
use crate::modules::filter::{ContentProperties, Filter, InForce};
use crate::modules::headers::HeadExtent;
use crate::modules::{expires, filter, headers};
use crate::transaction::{RequestState, Transaction};
use crate::transform::ContentFilter;
use crate::work;

/// Properties of a response besides its head.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseProperties {
    /// Whether the server itself makes the page: for an error or a redirect. Then `Header` without
    /// `always` does not apply, and nothing is compressed. A page of ErrorDocument or of a script
    /// is no such page, whatever its status.
    pub is_error: bool,
    /// The modification time of the file, in microseconds since 1970; `None` where the response is
    /// no file.
    pub modified: Option<i64>,
    /// The content, before it passes filters.
    pub content: ContentProperties,
}

/// Changes a head as Apache's modules do. Returns the filters that the content passes, the first
/// one first. `head` has the handler's fields, with Content-Type. Content-Encoding and
/// Content-Language of the transaction, and the fields of modules, are added here.
///
/// # Errors
/// 500 where Apache sends an error instead: see [`headers::response`]. Also where the directives
/// take too much work, which is logged with its place.
pub fn respond(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    about: ResponseProperties,
) -> Result<Vec<Filter>, Status> {
    let filters = change(tx, settings, context, head, about);
    match tx.client.meter().failure() {
        None => filters,
        Some(complaint) => {
            tx.state.complaints.push(complaint);
            Err(Status::INTERNAL_SERVER_ERROR)
        }
    }
}

fn change(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    about: ResponseProperties,
) -> Result<Vec<Filter>, Status> {
    gather(tx, head, about.is_error);
    let filters = match about.is_error {
        true => Vec::new(),
        false => choose_filters(tx, settings, context, head, about.content),
    };
    if let Some(config) = &settings.expires {
        expires::response(tx, config, context, head, about.modified);
    }
    if let Some(config) = &settings.headers {
        headers::response(tx, config, context, head, about.is_error)?;
    }
    join(tx, settings, head, about.is_error);
    Ok(filters)
}

/// Chooses the filters that the content passes, the first one first, and changes the head
/// accordingly.
pub(crate) fn choose_filters(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    content: ContentProperties,
) -> Vec<Filter> {
    let core = settings.core.as_ref();
    let substitutions = settings.substitute.clone();
    let substitutions = substitutions.map(|config| config as Arc<dyn ContentFilter>);
    let in_force = InForce {
        named: core.and_then(|core| core.output_filters.as_deref()),
        chain: settings.filter.as_deref(),
        substitutions: substitutions.as_ref(),
    };
    filter::choose(tx, &in_force, context, head, content)
}

/// Returns whether [`respond`] may take long: there are patterns or expressions to evaluate, values
/// of any length to put together, long fields, or many fields or media types to compare.
pub fn may_take_long(
    state: &RequestState,
    settings: &DirectiveSettings,
    head: &ResponseHead,
) -> bool {
    let tables = [&head.fields, &state.fields, &state.error_fields];
    let extent = HeadExtent {
        names: state.env.len() + tables.iter().map(|fields| fields.len()).sum::<usize>(),
        bytes: tables.iter().map(|fields| fields.length()).sum(),
    };
    let headers = settings.headers.as_ref();
    is_long(head)
        || headers.is_some_and(|headers| headers.response_may_take_long(extent))
        || settings.filter.as_ref().is_some_and(|filter| filter.may_take_long())
}

/// Returns whether a head has a list that takes long to look through.
fn is_long(head: &ResponseHead) -> bool {
    head.fields.length() > LONG_HEAD
}

/// The bytes of a head whose lists are looked through on an event loop without counting: some
/// hundred microseconds at worst.
const LONG_HEAD: usize = 16 << 10;

/// Returns whether directives change nothing in any response to this request, except its media
/// type.
pub fn is_left_alone(state: &RequestState, settings: &DirectiveSettings) -> bool {
    let headers = settings.headers.as_ref();
    let expires = settings.expires.as_ref();
    !adds_charset(settings)
        && !headers.is_some_and(|headers| headers.changes_responses())
        && !expires.is_some_and(|expires| expires.is_active())
        && !passes_filters(state, settings)
        && state.fields.is_empty()
        && state.error_fields.is_empty()
        && state.encoding.is_none()
        && state.languages.is_empty()
}

fn adds_charset(settings: &DirectiveSettings) -> bool {
    let core = settings.core.as_ref();
    core.is_some_and(|core| matches!(core.default_charset, Some(DefaultCharset::Named(_))))
}

/// Returns whether the content may have to pass a filter.
pub fn passes_filters(state: &RequestState, settings: &DirectiveSettings) -> bool {
    let core = settings.core.as_ref();
    let by_folder = core.is_some_and(|core| core.output_filters.is_some());
    settings.filter.is_some() || by_folder || !state.output_filters.is_empty()
}

/// Returns the part of a request's state that a response's head can depend on: all of it, unless
/// the directives' values are constant. Then most of it need not be copied.
pub fn part_for_response(state: &RequestState, settings: &DirectiveSettings) -> RequestState {
    let headers = settings.headers.as_ref();
    if !headers.is_none_or(|headers| headers.is_constant()) || passes_filters(state, settings) {
        return state.clone();
    }
    RequestState {
        status: state.status,
        // ExpiresDefault may ask for the file's age.
        filename: state.filename.clone(),
        fields: state.fields.clone(),
        error_fields: state.error_fields.clone(),
        encoding: state.encoding.clone(),
        languages: state.languages.clone(),
        ..RequestState::default()
    }
}

/// Does what [`respond`] does where the result depends only on the head and the directives only set
/// and unset fields, as on most sites. Returns `false`, and changes nothing, where more is needed.
pub fn respond_plainly(
    state: &RequestState,
    settings: &DirectiveSettings,
    head: &mut ResponseHead,
    is_error: bool,
) -> bool {
    let is_bare = state.fields.is_empty()
        && state.error_fields.is_empty()
        && state.encoding.is_none()
        && state.languages.is_empty()
        && state.trace.is_none();
    let expires = settings.expires.as_ref();
    let is_simple = is_bare
        && !adds_charset(settings)
        && !expires.is_some_and(|expires| expires.is_active())
        && !passes_filters(state, settings);
    let headers = settings.headers.as_ref();
    if is_long(head)
        || !is_simple
        || !headers.is_none_or(|headers| headers.apply_plainly(head, is_error))
    {
        return false;
    }
    one_vary(head);
    drop_description(head);
    true
}

/// Merges the fields that modules set before the handler ran with the handler's fields, which win.
fn gather(tx: &mut Transaction<'_>, head: &mut ResponseHead, is_error: bool) {
    let state = &mut tx.state;
    // An error has only the fields that every response gets.
    let set = match is_error {
        true => std::mem::take(&mut state.error_fields),
        false => std::mem::take(&mut state.fields),
    };
    // The handler's fields win. Of the modules' fields all lines of one name are kept, such as
    // those of Set-Cookie.
    let own = head.fields.len();
    for (name, value) in set.iter() {
        let is_said = head.fields.iter().take(own).any(|(said, _)| said.eq_ignore_ascii_case(name));
        if !is_said {
            head.fields.push(name, value);
        }
    }
}

/// Joins both tables into one head.
fn join(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    head: &mut ResponseHead,
    is_error: bool,
) {
    let error_fields = std::mem::take(&mut tx.state.error_fields);
    for (name, value) in error_fields.iter() {
        let is_single = SINGLE.iter().any(|single| single.eq_ignore_ascii_case(name));
        if !is_single || !head.fields.contains(name) {
            head.fields.push(name, value);
        }
    }
    let vary = head.fields.values(b"vary").map(<[u8]>::len).sum::<usize>();
    let content_language = head.fields.value(b"content-language").unwrap_or_default().len();
    // There is a name every other byte at worst.
    tx.client.meter().note((vary + content_language) as u64 * work::RULE / 2);
    one_vary(head);
    if drop_description(head) {
        return;
    }
    default_charset(settings, head);
    if is_error {
        return;
    }
    if let Some(encoding) = &tx.state.encoding {
        head.fields.set(b"Content-Encoding", encoding);
    }
    languages(&tx.state.languages, head);
}

/// Fields of which a response has one: that of the handler wins.
const SINGLE: [&[u8]; 3] = [b"content-type", b"allow", b"content-range"];

/// Removes the description of the content from a response without content. Returns whether it is
/// one.
fn drop_description(head: &mut ResponseHead) -> bool {
    let has_none = matches!(head.status.code(), 204 | 304);
    if has_none {
        head.fields.remove(b"Content-Type");
        head.fields.remove(b"Content-Length");
    }
    has_none
}

/// Sets Content-Language: the languages of mod_mime or mod_negotiation, then those of a script or
/// of `Header`.
fn languages(found: &[Vec<u8>], head: &mut ResponseHead) {
    if found.is_empty() {
        return;
    }
    let named = head.fields.value(b"content-language").unwrap_or_default();
    let all = found.iter().map(Vec::as_slice).chain(members(named));
    let value = distinct(all).join(&b',');
    head.fields.set(b"Content-Language", &value);
}

/// Makes Vary one line with each name once.
fn one_vary(head: &mut ResponseHead) {
    let is_one = {
        let mut values = head.fields.values(b"vary");
        let first = values.next();
        values.next().is_none()
            && first.is_none_or(|first| !first.iter().any(|byte| b", \t".contains(byte)))
    };
    if is_one {
        return;
    }
    let words = head
        .fields
        .values(b"vary")
        .flat_map(|value| value.split(|byte| b", \t".contains(byte)));
    let value = distinct(words.filter(|name| !name.is_empty())).join(&b',');
    head.fields.set(b"Vary", &value);
}

/// Returns each name once, without regard to case. The time grows with the number of names, which a
/// script decides.
fn distinct<'n>(names: impl Iterator<Item = &'n [u8]>) -> Vec<&'n [u8]> {
    let (mut found, mut known): (Vec<&[u8]>, HashSet<Vec<u8>>) = (Vec::new(), HashSet::new());
    for name in names {
        let is_new = if found.len() < FEW_NAMES {
            !found.iter().any(|known| known.eq_ignore_ascii_case(name))
        } else {
            if known.is_empty() {
                known.extend(found.iter().map(|name| name.to_ascii_lowercase()));
            }
            known.insert(name.to_ascii_lowercase())
        };
        if is_new {
            found.push(name);
        }
    }
    found
}

/// The names that are compared one by one.
const FEW_NAMES: usize = 16;

/// Applies AddDefaultCharset to plain text and HTML without a charset.
fn default_charset(settings: &DirectiveSettings, head: &mut ResponseHead) {
    let Some(DefaultCharset::Named(charset)) =
        settings.core.as_ref().and_then(|core| core.default_charset.as_ref())
    else {
        return;
    };
    let Some(media_type) = head.fields.value(b"content-type") else {
        return;
    };
    let lower = media_type.to_ascii_lowercase();
    let holds = |part: &[u8]| memchr::memmem::find(&lower, part).is_some();
    if !holds(b"charset=") && (holds(b"text/plain") || holds(b"text/html")) {
        let value = [media_type, b"; charset=", charset].concat();
        head.fields.set(b"Content-Type", &value);
    }
}

#[cfg(test)]
mod tests;
