//! mod_negotiation's directives.

use super::ForcePriority;
use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, DirectiveResult, Overrides, Support,
};
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::negotiation;

/// `LanguagePriority language…`: several lines in a file add up.
fn language_priority(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<negotiation::Config>,
) -> DirectiveResult {
    let priority = &mut edit(shared).language_priority;
    let mut languages = priority.take().unwrap_or_default().into_vec();
    languages.extend(call.words.iter().map(|word| word[..].into()));
    *priority = Some(languages.into());
    Ok(())
}

/// `ForceLanguagePriority None`, or `Prefer` and `Fallback`.
fn force_language_priority(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<negotiation::Config>,
) -> DirectiveResult {
    let place = &mut edit(shared).force_priority;
    for (index, word) in call.words.iter().enumerate() {
        let is_none = |force: ForcePriority| !force.prefer && !force.fallback;
        let (prefer, fallback) = match word.to_ascii_lowercase().as_slice() {
            b"none" => (false, false),
            b"prefer" => (true, false),
            b"fallback" => (false, true),
            _ => {
                return Err(Complaint::about(index, "there are None, Prefer and Fallback"));
            }
        };
        let word = ForcePriority { prefer, fallback };
        *place = Some(match *place {
            Some(before) if is_none(before) != is_none(word) => {
                return Err(Complaint::about(index, "None does not go together with the others"));
            }
            Some(before) => ForcePriority {
                prefer: before.prefer || prefer,
                fallback: before.fallback || fallback,
            },
            None => word,
        });
    }
    Ok(())
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<negotiation::Config>>] = &[
    Directive {
        name: "CacheNegotiatedDocs",
        module: "mod_negotiation",
        overrides: Overrides::NONE,
        arguments: Arguments::Flag,
        summary: "Whether proxies of HTTP/1.0 may keep negotiated responses.",
        support: Support::Refused("it belongs to the server's own configuration"),
        apply: |_, _| Err(Complaint::new("CacheNegotiatedDocs is not allowed here")),
    },
    Directive {
        name: "ForceLanguagePriority",
        module: "mod_negotiation",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::SOME,
        summary: "Whether LanguagePriority decides between languages that are as good (Prefer), \
            and where none is acceptable (Fallback).",
        support: Support::Full,
        apply: force_language_priority,
    },
    Directive {
        name: "LanguagePriority",
        module: "mod_negotiation",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::SOME,
        summary: "Languages in the order in which they are preferred where the client does not \
            care.",
        support: Support::Full,
        apply: language_priority,
    },
];
