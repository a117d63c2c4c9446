//! MultiViews: the file that a missing name means, by the client's preferences (`handle_multi` of
//! mod_negotiation).

use howdah_http::Status;

use crate::evaluation_context::EvaluationContext;
use crate::modules::negotiation::FolderFiles;
use crate::modules::{mime, negotiation};
use crate::settings::DirectiveSettings;
use crate::transaction::Transaction;

/// Returns the name, within the folder, of the file that the missing `filename` of the transaction
/// means. Only for folders with Options MultiViews; `settings` are the folder's. `base` knows the
/// media types of extensions, as for [`find_type`](crate::modules::mime::find_type). Vary, TCN,
/// Content-Location and Alternates go into `error_fields`, the list of variants for an error's page
/// into the note `variant-list`.
///
/// `Ok(None)` where no file has that name with extensions.
///
/// # Errors
/// 404 where there are such files and none can be sent, 406 where none is acceptable, 300 where the
/// client wants to choose, 500 where the request's budget is used up.
pub fn choose(
    tx: &mut Transaction<'_>,
    settings: &DirectiveSettings,
    context: &mut dyn EvaluationContext,
    base: &dyn Fn(&[u8]) -> Option<&'static str>,
) -> Result<Option<Vec<u8>>, Status> {
    let nothing = mime::Config::default();
    let mime = settings.mime.as_deref().unwrap_or(&nothing);
    let meter = tx.client.meter();
    let files = FolderFiles {
        describe: &|name| mime::describe(mime, name, base, meter),
        force_type: settings.core.as_ref().and_then(|core| core.force_type()),
        default_language: mime.default_language(),
        have_sections: !settings.files.is_empty() || !settings.conditions.is_empty(),
    };
    negotiation::choose(tx, settings.negotiation.as_deref(), &files, context)
}
