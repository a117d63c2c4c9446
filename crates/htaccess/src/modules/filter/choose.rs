//! The choice of a response's filters, and their changes to its head.

use std::sync::Arc;

use howdah_http::{Fields, ResponseHead};

use super::accept::accepts;
use super::{
    Filter, FilterKind, FilterProtocol, MOST_PASSED, Provider, ProviderCondition, SmartFilter,
};
use crate::evaluation_context::EvaluationContext;
use crate::fields::{append, token};
use crate::modules::filter;
use crate::pattern::Captures;
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::transform::ContentFilter;
use crate::work;

/// The directives in force that name filters.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'s> {
    /// SetOutputFilter: names, separated by `;`.
    pub named: Option<&'s [u8]>,
    /// mod_filter's chain.
    pub chain: Option<&'s filter::Config>,
    /// The filter SUBSTITUTE.
    pub substitutions: Option<&'s Arc<dyn ContentFilter>>,
}

/// Properties of the content that filters are chosen for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentProperties {
    /// Its length in bytes, where it is known.
    pub length: Option<u64>,
    /// Bytes of memory that filters may take, so that one that compresses can be among them.
    /// `None`: as many as they need.
    pub memory: Option<usize>,
    /// The client has the content, so that the response is a 304. It gets the fields that the
    /// filters give the 200 (RFC 9110 §15.4.5).
    pub is_known: bool,
}

impl ContentProperties {
    /// Returns the properties behind a filter, whose output has an unknown length.
    fn behind(self, filter: &Filter) -> ContentProperties {
        ContentProperties {
            length: None,
            memory: self.memory.map(|memory| memory.saturating_sub(filter.memory())),
            ..self
        }
    }

    /// Returns `filter`, which compresses, if there is memory for it. Nothing in the head may have
    /// told of it before.
    fn admit(self, filter: Filter) -> Considered {
        match self.memory {
            Some(memory) if memory < filter.memory() => Err("the client has no memory left for it"),
            _ => Ok(filter),
        }
    }
}

/// A filter that may act on the response.
enum Candidate {
    /// A name from AddOutputFilter or SetOutputFilter.
    Named(FilterKind),
    /// A filter of mod_filter's chain, by its name.
    SmartFilter(Box<[u8]>, Arc<SmartFilter>),
}

impl Candidate {
    fn rank(&self) -> u8 {
        match self {
            Candidate::Named(kind) => kind.rank(),
            Candidate::SmartFilter(_, smart) => smart.rank,
        }
    }
}

/// Chooses the filters that the content passes, the first one first. Changes `head` accordingly:
/// Vary, Content-Encoding, ETag, and no Content-Length where the length changes. Not for pages that
/// the server itself makes for errors and redirects.
pub fn choose(
    tx: &mut Transaction<'_>,
    in_force: &InForce<'_>,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    mut content: ContentProperties,
) -> Vec<Filter> {
    let mut candidates = candidates(tx, in_force);
    candidates.sort_by_key(Candidate::rank);
    let mut filters = Vec::new();
    for candidate in candidates {
        if tx.client.meter().spend(work::RULE).is_err() {
            break;
        }
        if filters.len() >= MOST_PASSED {
            let what = format!("more than {MOST_PASSED} output filters: the others are not used");
            tx.complain(None, what);
            break;
        }
        let outcome = consider(tx, in_force, context, head, content, &candidate);
        tx.trace(|| TraceEvent {
            step: "filter",
            place: None,
            text: match &candidate {
                Candidate::Named(kind) => kind.to_string(),
                Candidate::SmartFilter(name, _) => String::from_utf8_lossy(name).into_owned(),
            },
            facts: Vec::new(),
            outcome: match &outcome {
                Ok(_) => "the content passes it".to_owned(),
                Err(reason) => format!("not used: {reason}"),
            },
        });
        if let Ok(filter) = outcome {
            content = content.behind(&filter);
            filters.push(filter);
        }
    }
    filters
}

fn candidates(tx: &mut Transaction<'_>, in_force: &InForce<'_>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let by_extension = std::mem::take(&mut tx.state.output_filters);
    let by_folder = in_force.named.into_iter().flat_map(|names| names.split(|&byte| byte == b';'));
    for name in by_extension
        .iter()
        .map(|name| &**name)
        .chain(by_folder)
        .filter(|name| !name.is_empty())
    {
        match FilterKind::of(name) {
            Some(kind) => candidates.push(Candidate::Named(kind)),
            None => {
                let name = String::from_utf8_lossy(name);
                tx.complain(None, format!("there is no output filter {name}: it was not added"));
            }
        }
    }
    tx.state.output_filters = by_extension;
    let Some(config) = in_force.chain else {
        return candidates;
    };
    for name in config.chain() {
        match config.smart(name) {
            Some(smart) => candidates.push(Candidate::SmartFilter(name.into(), smart.clone())),
            None => {
                let name = String::from_utf8_lossy(name);
                tx.complain(None, format!("FilterChain names {name}, which is not declared"));
            }
        }
    }
    candidates
}

type Considered = Result<Filter, &'static str>;

fn consider(
    tx: &mut Transaction<'_>,
    in_force: &InForce<'_>,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    content: ContentProperties,
    candidate: &Candidate,
) -> Considered {
    let kind = match candidate {
        Candidate::Named(kind) => *kind,
        Candidate::SmartFilter(_, smart) => {
            if !content.is_known
                && !is_whole_or_part(head)
                && !tx.state.env.contains(b"filter-errordocs")
            {
                return Err("the status is not 200");
            }
            let provider = provider(tx, context, head, smart).ok_or("no provider fits")?;
            announce(provider.protocol, &mut head.fields);
            provider.kind
        }
    };
    match kind {
        FilterKind::Deflate => deflate(tx, head, content),
        FilterKind::Brotli => brotli(tx, head, content),
        FilterKind::Inflate => {
            let limits = in_force.chain.map_or_else(Default::default, |chain| chain.inflate);
            inflate(tx, head).map(|()| Filter::Inflate(limits))
        }
        FilterKind::Substitute => {
            head.fields.remove(b"Content-Length");
            let config = in_force.substitutions.ok_or("there are no substitutions")?;
            Ok(Filter::Substitute(config.clone()))
        }
    }
}

/// Unlike in Apache, ranges of files are taken before filters are chosen.
fn is_whole_or_part(head: &ResponseHead) -> bool {
    matches!(head.status.code(), 200 | 206)
}

/// Returns the provider that acts, the last declared first.
fn provider<'s>(
    tx: &mut Transaction<'_>,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    smart: &'s SmartFilter,
) -> Option<&'s Provider> {
    smart.providers.iter().rev().find(|provider| match &provider.when {
        ProviderCondition::Types(types) => {
            head.fields.value(b"content-type").is_some_and(|value| {
                let end =
                    value.iter().position(|byte| b"; \t".contains(byte)).unwrap_or(value.len());
                tx.client.meter().spend(work::comparing(types.len(), &value[..end])).is_ok()
                    && types.iter().any(|media_type| **media_type == value[..end])
            })
        }
        ProviderCondition::Expression(expression) => {
            let outcome = tx.with_head(head, true, |tx| {
                expression.holds(tx, context, &mut Captures::default())
            });
            outcome.unwrap_or_else(|error| {
                tx.complain(None, format!("cannot evaluate FilterProvider's expression: {error}"));
                false
            })
        }
    })
}

/// Changes the head as FilterProtocol says.
fn announce(protocol: FilterProtocol, fields: &mut Fields) {
    if protocol.change {
        fields.remove(b"Content-MD5");
        fields.remove(b"ETag");
    }
    if protocol.change_length {
        fields.remove(b"Content-Length");
    }
    if protocol.no_cache {
        fields.remove(b"Last-Modified");
        fields.push(b"Cache-Control", b"no-cache");
    }
    if protocol.no_ranges {
        fields.set(b"Accept-Ranges", b"none");
    }
}

/// Checks mod_deflate's conditions, in its order. Up to the check of existing codings, the head is
/// not changed.
fn deflate(
    tx: &mut Transaction<'_>,
    head: &mut ResponseHead,
    content: ContentProperties,
) -> Considered {
    if content.length.is_some_and(|length| length <= TOO_SMALL) {
        return Err("the content is too small");
    }
    let env = &tx.state.env;
    let is_html = || {
        head.fields
            .value(b"content-type")
            .is_some_and(|value| value.starts_with(b"text/html"))
    };
    if tx.state.is_subrequest || head.status.code() == 204 {
        return Err("a part of something, or nothing at all");
    }
    if env.contains(b"no-gzip") {
        return Err("no-gzip is set");
    }
    if env.value(b"gzip-only-text/html") == Some(b"1") && !is_html() {
        return Err("gzip-only-text/html is set");
    }
    let coded = coded(tx, head)?;
    vary(head);
    if head.fields.contains(b"content-range") {
        return Err("a range of a file is sent as it is");
    }
    if !tx.state.env.contains(b"force-gzip") && !accepts(tx, b"gzip") {
        return Err("the client does not accept gzip");
    }
    let filter = content.admit(Filter::Deflate)?;
    encode(tx, head, coded, "gzip");
    Ok(filter)
}

/// Checks mod_brotli's conditions. Unlike with Apache, a client that takes gzip and no Brotli gets
/// gzip.
fn brotli(
    tx: &mut Transaction<'_>,
    head: &mut ResponseHead,
    content: ContentProperties,
) -> Considered {
    if tx.state.is_subrequest || head.status.code() == 204 {
        return Err("a part of something, or nothing at all");
    }
    if tx.state.env.contains(b"no-brotli") {
        return Err("no-brotli is set");
    }
    let coded = coded(tx, head)?;
    let is_part = head.fields.contains(b"content-range");
    if !is_part && !accepts(tx, b"br") && accepts(tx, b"gzip") {
        return deflate(tx, head, content).inspect_err(|_| vary(head));
    }
    vary(head);
    if is_part {
        return Err("a range of a file is sent as it is");
    }
    if !accepts(tx, b"br") {
        return Err("the client does not accept br");
    }
    let filter = content.admit(Filter::Brotli)?;
    encode(tx, head, coded, "br");
    Ok(filter)
}

/// Checks INFLATE's conditions. It undoes a script's own compression, so that later filters see
/// text.
fn inflate(tx: &mut Transaction<'_>, head: &mut ResponseHead) -> Result<(), &'static str> {
    let is_gzip =
        |value: &[u8]| value.eq_ignore_ascii_case(b"gzip") || value.eq_ignore_ascii_case(b"x-gzip");
    if tx.state.is_subrequest || head.fields.contains(b"content-range") {
        return Err("a part of something");
    }
    let of_file = tx.state.encoding.as_deref().is_some_and(is_gzip);
    let of_script = head.fields.value(b"content-encoding").is_some_and(is_gzip);
    if !of_file && !of_script {
        return Err("the content is not compressed");
    }
    tx.state.encoding = None;
    for name in ["Content-Encoding", "Content-Length", "Content-MD5"] {
        head.fields.remove(name.as_bytes());
    }
    suffix(&mut head.fields, "gunzip");
    Ok(())
}

/// Returns the existing codings where they do not change the content, such as identity; `None`
/// where there are none.
fn coded(tx: &Transaction<'_>, head: &ResponseHead) -> Result<Option<Vec<u8>>, &'static str> {
    let all: Vec<&[u8]> = head
        .fields
        .value(b"content-encoding")
        .into_iter()
        .chain(tx.state.error_fields.value(b"content-encoding"))
        .chain(tx.state.encoding.as_deref())
        .collect();
    if all.is_empty() {
        return Ok(None);
    }
    let all = all.join(&b',');
    let mut rest = &all[..];
    while !rest.is_empty() {
        let coding = token(&mut rest, false);
        if !coding.is_empty() && !matches!(coding, b"identity" | b"7bit" | b"8bit" | b"binary") {
            return Err("the content is encoded already");
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    Ok(Some(all))
}

/// Adds Accept-Encoding to Vary, whether or not the response is compressed this time.
fn vary(head: &mut ResponseHead) {
    append(&mut head.fields, b"Vary", b"Accept-Encoding");
}

fn encode(tx: &mut Transaction<'_>, head: &mut ResponseHead, coded: Option<Vec<u8>>, coding: &str) {
    let fields = &mut head.fields;
    match coded {
        Some(other) if !other.eq_ignore_ascii_case(b"identity") => {
            append(fields, b"Content-Encoding", coding.as_bytes());
        }
        _ => fields.set(b"Content-Encoding", coding.as_bytes()),
    }
    if let Some(encoding) = &mut tx.state.encoding {
        *encoding = fields.value(b"content-encoding").unwrap_or_default().to_vec();
    }
    fields.remove(b"Content-Length");
    fields.remove(b"Content-MD5");
    suffix(fields, coding);
}

/// Makes the entity tag that of another representation: `"tag-gzip"`.
fn suffix(fields: &mut Fields, transform: &str) {
    let Some(etag) = fields.value(b"etag") else {
        return;
    };
    let [start @ .., b'"'] = etag else { return };
    if start.len() > 1 {
        let etag = [start, b"-", transform.as_bytes(), b"\""].concat();
        fields.set(b"ETag", &etag);
    }
}

/// Content up to this many bytes is not compressed: gzip's own 18 bytes, and 50 for the response
/// fields.
pub const TOO_SMALL: u64 = 68;
