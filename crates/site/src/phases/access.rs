//! Access: names that are never served, then the directives.

use std::sync::Arc;

use howdah_htaccess::modules::setenvif;
use howdah_htaccess::phases::access;
use howdah_htaccess::transaction::Denial;
use howdah_http::Status;

use super::evaluation_context::PhaseContext;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step};
use crate::documents::SiteHost;
use crate::ruled_request::PassedAccess;

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// SetEnvIf and its relatives.
    ///
    /// # Errors
    /// 500, where a pattern takes too much work or a value is too long.
    pub(super) fn parse_headers(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if let Some(config) = request.settings.setenvif.clone() {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            setenvif::header_parser(&mut request.tx, &config, &mut context)?;
        }
        Ok(())
    }

    /// Checks access. `before`: the rules under which the request was let through that this one
    /// comes from.
    ///
    /// # Errors
    /// The request is refused, or a password has to be compared first.
    pub(super) fn check_access(
        &mut self,
        request: &mut PhaseRequest<'r>,
        before: Option<&PassedAccess>,
    ) -> Result<(), PhaseEnd> {
        if let Some(status) = self.refusal(request) {
            request.tx.trace(|| {
                step("access", "the site's names that are not served", status.to_string())
            });
            return Err(PhaseEnd::Status(status));
        }
        if let Some(mistake) = request.settings.refused.clone() {
            let place = Arc::new(mistake.place.clone());
            request.tx.complain(Some(&place), mistake.message.clone());
            return Err(PhaseEnd::FAILED);
        }
        if before.is_some_and(|before| before.is_same(&self.passed(request))) {
            // Access is granted under the same rules already, so a rule may lead where the URL
            // alone would not.
            if let Some(previous) = request.tx.state.previous.take() {
                access::inherit(&mut request.tx.state, &previous);
                request.tx.state.previous = Some(previous);
            }
            return Ok(());
        }
        request.tx.state.user = None;
        request.tx.state.auth_type = None;
        let settings = Arc::clone(&request.settings);
        let mut context =
            PhaseContext::new(self, &request.path, request.kind).under(&settings, request.slash);
        access::check(&mut request.tx, &settings, &mut context).map_err(|denial| match denial {
            Denial::Status(status) => PhaseEnd::Status(status),
            Denial::Later => PhaseEnd::Later,
        })
    }

    /// Returns the status for a name that is never served: that of a `<Files>` section with
    /// `Require all denied` in the server's own configuration, and 404 for names with a dot that
    /// the client itself asks for.
    fn refusal(&self, request: &mut PhaseRequest<'r>) -> Option<Status> {
        let refusal = self.site.names.refusal(request.path.relative(), request.dotted);
        let (_, status) = refusal?;
        if status == Status::NOT_FOUND && !request.is_first {
            return self.site.names.denies(request.path.relative()).then_some(Status::FORBIDDEN);
        }
        let filename = shown(&request.tx.state.filename);
        request.tx.complain(None, format!("{filename} is not served, by its name"));
        Some(status)
    }
}
