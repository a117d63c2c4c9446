//! mod_negotiation: Options MultiViews. A name that does not exist means the files that have this
//! name with extensions; the client's preferences decide which of them is sent.

mod accept;
mod answer;
mod best;
mod directives;
mod quality;
mod variants;

use howdah_http::Status;

use crate::evaluation_context::EvaluationContext;
use crate::merge::Merge;
use crate::module::{ApacheModule, ModuleConfig, Presence};
use crate::trace::TraceEvent;
use crate::transaction::Transaction;
use crate::work::Exhausted;

use accept::Preferences;
pub(crate) use directives::DIRECTIVES;
pub(crate) use variants::FolderFiles;

/// The module's configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    language_priority: Option<Box<[Box<[u8]>]>>,
    force_priority: Option<ForcePriority>,
}

/// ForceLanguagePriority; with neither it is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ForcePriority {
    /// Among languages that are equally good, LanguagePriority decides.
    prefer: bool,
    /// If none is acceptable, LanguagePriority decides, and there is no 406.
    fallback: bool,
}

impl Config {
    fn force_priority(&self) -> ForcePriority {
        self.force_priority.unwrap_or(ForcePriority { prefer: true, fallback: false })
    }

    fn priority(&self) -> &[Box<[u8]>] {
        self.language_priority.as_deref().unwrap_or_default()
    }
}

impl Merge for Config {
    fn merge(base: &Config, add: &Config) -> Config {
        let priority = add.language_priority.as_ref().or(base.language_priority.as_ref());
        Config {
            language_priority: priority.cloned(),
            force_priority: add.force_priority.or(base.force_priority),
        }
    }
}

impl ModuleConfig for Config {
    fn is_silent(&self) -> bool {
        true
    }
}

/// Apache's module.
pub(crate) const APACHE_MODULES: &[ApacheModule] = &[ApacheModule::new(
    "mod_negotiation.c",
    "negotiation_module",
    Some("LanguagePriority"),
    Presence::Debian,
)];

/// Returns the name, within the folder, of the file that the missing `filename` of the transaction
/// means. Only for folders with Options MultiViews. Vary, TCN, Content-Location and Alternates go
/// into `error_fields`, the list of variants for an error's page into the note `variant-list`.
///
/// `Ok(None)` where no file has that name with extensions.
///
/// # Errors
/// 404 where there are such files and none can be sent, 406 where none is acceptable, 300 where the
/// client wants to choose, 500 where the request's budget is used up.
pub(crate) fn choose(
    tx: &mut Transaction<'_>,
    config: Option<&Config>,
    files: &FolderFiles<'_>,
    context: &mut dyn EvaluationContext,
) -> Result<Option<Vec<u8>>, Status> {
    let Some(mut variants) = variants::gather(tx, files, context)? else {
        return Ok(None);
    };
    let nothing = Config::default();
    let config = config.unwrap_or(&nothing);
    let accepted = Preferences::of(tx);
    let best = best::best(tx, config, &accepted, &mut variants);
    let best = best.map_err(|Exhausted| too_much_work(tx))?;
    tx.trace(|| TraceEvent {
        step: "negotiation",
        place: None,
        text: "MultiViews".to_owned(),
        facts: variants.iter().map(|variant| ("variant", variant.to_string())).collect(),
        outcome: match best {
            Some(index) => String::from_utf8_lossy(&variants[index].name).into_owned(),
            None => "none is acceptable".to_owned(),
        },
    });
    answer::fields(tx, &accepted, &variants, best);
    match best {
        Some(index) => Ok(Some(variants.swap_remove(index).name)),
        None if accepted.supports_choice => Err(Status::MULTIPLE_CHOICES),
        None => {
            tx.complain(None, "MultiViews: no variant is acceptable to the client");
            Err(Status::NOT_ACCEPTABLE)
        }
    }
}

/// Returns the status of a request that negotiation takes too much work for.
fn too_much_work(tx: &mut Transaction<'_>) -> Status {
    tx.complain(None, "MultiViews: too much work on this request");
    Status::INTERNAL_SERVER_ERROR
}

/// Spells Content-Encoding as the client does: `x-gzip` or `gzip`. In the phase of the fixups,
/// after rewriting.
pub fn fixup(tx: &mut Transaction<'_>) {
    let Some(encoding) = &tx.state.encoding else {
        return;
    };
    let plain = encoding.strip_prefix(b"x-").unwrap_or(encoding);
    let Some(items) = accept::items(tx, b"accept-encoding") else {
        return;
    };
    let said = items
        .iter()
        .find(|item| item.name == plain)
        .or_else(|| items.iter().rfind(|item| item.name.strip_prefix(b"x-") == Some(plain)));
    if let Some(item) = said {
        tx.state.encoding = Some(item.name.clone());
    }
}

#[cfg(test)]
mod tests;
