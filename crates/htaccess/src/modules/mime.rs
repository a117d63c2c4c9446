//! mod_mime: properties of a file by the extensions of its name.
//!
//! Every extension counts, wherever in the name it is: `page.html.en` is an English page,
//! `a.tar.gz` a compressed archive. A handler counts too: where a site has `AddHandler
//! application/x-httpd-php .php`, `upload.php.jpg` is a script, as it is in Apache. (PHP itself is
//! bound to the last extension; only a site's own AddHandler does that.)

mod directives;
mod extension;
mod layers;

use crate::description::FileDescription;
use crate::media_type::MediaType;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::{FileKind, RequestState, Transaction};
use crate::work::Meter;

pub(crate) use directives::DIRECTIVES;
use layers::ExtensionLayers;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    extensions: ExtensionLayers,
    default_language: Option<Box<[u8]>>,
    multiviews_match: MultiviewsMatch,
}

/// The files that MultiViews takes besides those whose extensions all have a meaning (a set).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MultiviewsMatch {
    /// Files with any extension.
    pub any: bool,
    /// `NegotiatedOnly`: the default, but it overrides a folder above.
    pub negotiated: bool,
    /// Files whose extension has a handler.
    pub handlers: bool,
    /// Files whose extension has a filter.
    pub filters: bool,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        Config {
            extensions: ExtensionLayers::merge(&base.extensions, &add.extensions),
            default_language: add
                .default_language
                .clone()
                .or_else(|| base.default_language.clone()),
            multiviews_match: match add.multiviews_match == MultiviewsMatch::default() {
                true => base.multiviews_match,
                false => add.multiviews_match,
            },
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        ExtensionLayers::copied(&base.extensions, &add.extensions)
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] =
    &[ApacheModule::new("mod_mime.c", "mime_module", Some("AddType"), Presence::Debian)];

impl Config {
    /// Returns whether RemoveHandler or RemoveType has removed the handler of the file of that
    /// name, by its last extension.
    pub fn takes_handler_away(&self, name: &[u8]) -> bool {
        let Some(dot) = memchr::memrchr(b'.', name) else {
            return false;
        };
        let name = name[dot + 1..].to_ascii_lowercase();
        let takes_away = self.extensions.merged(&name).is_some_and(|found| found.takes_away());
        self.extensions.find(&name).is_some_and(|extension| {
            let has_no_type =
                extension.media_type.as_ref().is_some_and(|media_type| media_type.is_empty());
            extension.handler.is_none() && (takes_away || has_no_type)
        })
    }

    /// Returns the language of files whose names tell none. `None` if it is not configured.
    pub(crate) fn default_language(&self) -> Option<&[u8]> {
        self.default_language.as_deref()
    }
}

/// Sets media type, charset, encoding, languages, handler and filters from the file's name: the
/// phase of the type checkers. The fixup of core, with ForceType and SetHandler, comes after it.
/// `base` returns the media type of an extension (lower case, without a dot) that no directive
/// names, as Apache's TypesConfig does; `None` if it does not know the extension.
pub fn find_type(
    tx: &mut Transaction<'_>,
    config: Option<&Config>,
    base: &dyn Fn(&[u8]) -> Option<&'static str>,
) {
    let state = &mut tx.state;
    if state.found == FileKind::Directory {
        state.content_type = Some(DIRECTORY.to_vec());
        return;
    }
    let is_configured = config.is_some();
    let nothing = Config::default();
    let config = config.unwrap_or(&nothing);
    let description = describe(config, &state.filename, base, tx.client.meter());
    if tx.is_traced() && is_configured {
        let (name, facts) = (shown(&tx.state.filename), description.facts());
        tx.trace(|| TraceEvent {
            step: "type",
            place: None,
            text: name,
            facts,
            outcome: "found".to_owned(),
        });
    }
    take(&mut tx.state, config, description);
}

/// Sets what the name says; where it says nothing, the state keeps its value.
fn take(state: &mut RequestState, config: &Config, description: FileDescription) {
    let FileDescription {
        handler,
        filters,
        languages,
        encoding,
        charset,
        content_type,
        ..
    } = description;
    if let Some(content_type) = content_type.or_else(|| state.content_type.take()) {
        let (media_type, own) = MediaType::split(&content_type);
        let is_readable = media_type.is_readable;
        state.content_type = Some(media_type.text);
        state.charset = match charset {
            Some(charset) if is_readable => Some(charset.into()),
            _ => own.or_else(|| state.charset.take()),
        };
    }
    if let Some(encoding) = encoding {
        state.encoding = Some(match state.encoding.take() {
            Some(first) => [&first[..], b", ", &encoding].concat(),
            None => encoding,
        });
    }
    state.languages.extend(languages.iter().map(|language| language.to_vec()));
    if state.languages.is_empty()
        && let Some(language) = &config.default_language
    {
        state.languages.push(language.to_vec());
    }
    if let Some(handler) = handler {
        state.handler = Some(handler.into());
    }
    state.output_filters.extend(filters);
}

/// Returns the description that follows from the name of the file at a path, as far as the
/// request's budget allows. `base` is that of [`find_type`].
pub(crate) fn describe(
    config: &Config,
    path: &[u8],
    base: &dyn Fn(&[u8]) -> Option<&'static str>,
    meter: Meter<'_>,
) -> FileDescription {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let dots = name.iter().take_while(|&&byte| byte == b'.').count();
    let stem = name[dots..]
        .iter()
        .position(|&byte| byte == b'.')
        .map_or(name.len(), |end| dots + end);
    let mut description = FileDescription::of(&name[..stem]);
    let extensions = name[stem..]
        .split(|&byte| byte == b'.')
        .filter(|extension| !extension.is_empty());
    for written in extensions {
        let lower = written.to_ascii_lowercase();
        let extension = config.extensions.find(&lower);
        let steps = extension.as_ref().map_or(0, |extension| extension.steps());
        if meter.spend(steps).is_err() {
            break;
        }
        let known = extension.as_ref().is_some_and(|extension| extension.media_type.is_some());
        let mut found = false;
        if !known && let Some(media_type) = base(&lower) {
            description.content_type = Some(media_type.as_bytes().to_vec());
            found = true;
        }
        if let Some(extension) = extension {
            found |= extension.describe(&mut description, config.multiviews_match);
        }
        if found || config.multiviews_match.any {
            description.is_known = true;
        } else {
            description.exceptions.push(written.into());
        }
    }
    description
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Apache's media type for a folder.
const DIRECTORY: &[u8] = b"httpd/unix-directory";

#[cfg(test)]
mod tests;
