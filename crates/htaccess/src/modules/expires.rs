//! mod_expires: `Expires` and `Cache-Control: max-age` by media type.

mod code;

use std::collections::HashSet;
use std::sync::Arc;

use howdah_http::{ResponseHead, date};

use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::evaluation_context::EvaluationContext;
use crate::fields::append;
use crate::merge::{Merge, SharedConfig, edit};
use crate::mistake::Complaint;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use code::{Code, SpanBase};

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    active: Option<bool>,
    default: Option<Code>,
    by_type: Vec<(Arc<[u8]>, Code)>,
    /// Whether the closest file has a type such as `image/*`; as in Apache, files above do not
    /// count.
    wildcards: bool,
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let closer: HashSet<Vec<u8>> =
            add.by_type.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let is_overridden = |name: &[u8]| closer.contains(&name.to_ascii_lowercase());
        let inherited = base.by_type.iter().filter(|(name, _)| !is_overridden(name));
        Config {
            active: add.active.or(base.active),
            default: add.default.or(base.default),
            by_type: add.by_type.iter().chain(inherited).cloned().collect(),
            wildcards: add.wildcards,
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        false
    }

    fn copied(base: &Config, add: &Config) -> usize {
        base.by_type.len() + add.by_type.len()
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[ApacheModule::new(
    "mod_expires.c",
    "expires_module",
    Some("ExpiresActive"),
    Presence::Hosts,
)];

impl Config {
    /// Returns whether [`response`] may have something to do.
    pub fn is_active(&self) -> bool {
        self.active == Some(true) && (self.default.is_some() || !self.by_type.is_empty())
    }

    /// Returns the expiry in force for a media type, which may have parameters.
    fn code(&self, content_type: &[u8]) -> Option<Code> {
        let end = content_type.iter().position(|&byte| byte == b';').unwrap_or(content_type.len());
        let media_type = content_type[..end].trim_ascii();
        self.entry(|name| name.eq_ignore_ascii_case(media_type))
            .or_else(|| self.wildcard(content_type))
            .or(self.default)
    }

    fn wildcard(&self, content_type: &[u8]) -> Option<Code> {
        let slash = content_type.iter().position(|&byte| byte == b'/')?;
        let major = &content_type[..=slash];
        let matches = |name: &[u8]| match name.split_last() {
            Some((b'*', start)) => start.eq_ignore_ascii_case(major),
            _ => false,
        };
        self.wildcards.then(|| self.entry(matches)).flatten()
    }

    fn entry(&self, matches: impl Fn(&[u8]) -> bool) -> Option<Code> {
        self.by_type.iter().find(|(name, _)| matches(name)).map(|(_, code)| *code)
    }
}

/// Adds Expires and `Cache-Control: max-age` where the response has no Expires yet. Errors (400 and
/// above) get none; redirects get them. `modified` is the modification time of the file, in
/// microseconds since 1970. Where it is `None`, `context` is asked, since a redirect to a folder's
/// slash is dated by the folder.
pub fn response(
    tx: &mut Transaction<'_>,
    config: &Config,
    context: &mut dyn EvaluationContext,
    head: &mut ResponseHead,
    modified: Option<i64>,
) {
    if !config.is_active() || head.status.code() >= 400 || tx.state.is_subrequest {
        return;
    }
    if tx.state.error_fields.contains(b"expires") || head.fields.contains(b"expires") {
        return;
    }
    let Some(code) = config.code(head.fields.value(b"content-type").unwrap_or_default()) else {
        return;
    };
    let now = i64::try_from(tx.client.time()).unwrap_or(i64::MAX);
    let mut dated = || modified.or_else(|| Some(context.probe(&tx.state.filename)?.modified));
    let base = match code.base {
        SpanBase::Access => now,
        SpanBase::Modification => match dated() {
            Some(modified) => modified,
            None => return,
        },
    };
    let expires = base.saturating_add(i64::from(code.seconds) * 1_000_000).max(now);
    let age = format!("max-age={}", (expires - now) / 1_000_000);
    append(&mut head.fields, b"Cache-Control", age.as_bytes());
    let day = date::format(u64::try_from(expires / 1_000_000).unwrap_or_default());
    head.fields.set(b"Expires", &day);
    tx.trace(|| TraceEvent {
        step: "header",
        place: None,
        text: "Expires".to_owned(),
        facts: vec![
            ("rule", code.to_string()),
            ("expires", String::from_utf8_lossy(&day).into_owned()),
        ],
        outcome: age,
    });
}

fn active(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    edit(shared).active = Some(call.flag());
    Ok(())
}

fn default(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let code = code::parse(call.word(0)).map_err(|message| Complaint::about(0, message))?;
    edit(shared).default = Some(code);
    Ok(())
}

/// The media types that a file may name at most; more are a mistake. There are about 2,000.
const MOST_TYPES: usize = 2000;

fn by_type(call: &DirectiveCall<'_>, shared: &mut SharedConfig<Config>) -> Result<(), Complaint> {
    let media_type = call.word(0);
    if !media_type.contains(&b'/') {
        return Err(Complaint::about(0, "a media type has a slash in it"));
    }
    let code = code::parse(call.word(1)).map_err(|message| Complaint::about(1, message))?;
    let config = edit(shared);
    if config.by_type.len() >= MOST_TYPES {
        return Err(Complaint::new(format!("more than {MOST_TYPES} media types")));
    }
    config.wildcards |= media_type.ends_with(b"/*");
    config.by_type.retain(|(name, _)| !name.eq_ignore_ascii_case(media_type));
    config.by_type.push((media_type.into(), code));
    Ok(())
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<Config>>] = &[
    Directive {
        name: "ExpiresActive",
        module: "mod_expires",
        overrides: Overrides::INDEXES,
        arguments: Arguments::Flag,
        summary: "Whether Expires and Cache-Control: max-age are added.",
        support: Support::Full,
        apply: active,
    },
    Directive {
        name: "ExpiresByType",
        module: "mod_expires",
        overrides: Overrides::INDEXES,
        arguments: Arguments::TWO,
        summary: "The age up to which responses of a media type, such as image/*, are fresh.",
        support: Support::Full,
        apply: by_type,
    },
    Directive {
        name: "ExpiresDefault",
        module: "mod_expires",
        overrides: Overrides::INDEXES,
        arguments: Arguments::ONE,
        summary: "The age up to which responses of all other media types are fresh.",
        support: Support::Full,
        apply: default,
    },
];

#[cfg(test)]
mod tests;
