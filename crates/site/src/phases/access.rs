//! Who may see it: names that are never served, then what the directives say.

use std::sync::Arc;

use howdah_htaccess::modules::setenvif;
use howdah_htaccess::phases::access;
use howdah_htaccess::transaction::Denial;
use howdah_http::Status;

use super::world::RequestWorld;
use super::{Asked, Stop, Walk, shown, step};
use crate::documents::DocumentHost;
use crate::ruled::Passed;

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// SetEnvIf and its relatives.
    pub(super) fn parse_headers(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        if let Some(config) = asked.settings.setenvif.clone() {
            let mut world = RequestWorld::new(self, &asked.path, asked.kind);
            setenvif::header_parser(&mut asked.tx, &config, &mut world)?;
        }
        Ok(())
    }

    /// Whether the request may go on. `before` is what was in force for the request that this one
    /// comes from.
    pub(super) fn check_access(
        &mut self,
        asked: &mut Asked<'r>,
        before: Option<&Passed>,
    ) -> Result<(), Stop> {
        if let Some(status) = self.refusal(asked) {
            asked.tx.trace(|| {
                step("access", "the site's names that are not served", status.to_string())
            });
            return Err(Stop::Status(status));
        }
        if let Some(mistake) = asked.settings.refused.clone() {
            let place = Arc::new(mistake.place.clone());
            asked.tx.complain(Some(&place), mistake.message.clone());
            return Err(Stop::FAILED);
        }
        if before.is_some_and(|before| before.is_same(&self.passed(asked))) {
            // Who asked under the same rules has been let through; so a rule may lead where the URL
            // alone would not.
            if let Some(previous) = asked.tx.state.previous.take() {
                access::inherit(&mut asked.tx.state, &previous);
                asked.tx.state.previous = Some(previous);
            }
            return Ok(());
        }
        asked.tx.state.user = None;
        asked.tx.state.auth_type = None;
        let settings = Arc::clone(&asked.settings);
        let mut world =
            RequestWorld::new(self, &asked.path, asked.kind).under(&settings, asked.slash);
        access::check(&mut asked.tx, &settings, &mut world).map_err(|denial| match denial {
            Denial::Status(status) => Stop::Status(status),
            Denial::Later => Stop::Later,
        })
    }

    /// What a name gets that is not served: as a `<Files>` section with `Require all denied` in the
    /// server's own configuration would, and 404 for names with a dot that the client itself asks
    /// for.
    fn refusal(&self, asked: &mut Asked<'r>) -> Option<Status> {
        let refusal = self.site.names.refusal(asked.path.relative(), asked.dotted);
        let (_, status) = refusal?;
        if status == Status::NOT_FOUND && !asked.is_first {
            return self.site.names.denies(asked.path.relative()).then_some(Status::FORBIDDEN);
        }
        let filename = shown(&asked.tx.state.filename);
        asked.tx.complain(None, format!("{filename} is not served, by its name"));
        Some(status)
    }
}
