//! The type of a file: a variant that is chosen, then its extensions.

use std::sync::Arc;

use howdah_htaccess::modules::core::Options;
use howdah_htaccess::modules::mime;
use howdah_htaccess::phases;
use howdah_http::Status;

use super::evaluation_context::PhaseContext;
use super::handler::options_of;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, target};
use crate::documents::{PathKind, SiteHost};

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Sets media type, charset, encoding, languages and the handler of an extension. Where no
    /// directive is about extensions, the sender of the file knows its type.
    ///
    /// # Errors
    /// The status of MultiViews: 300, 404 or 406.
    pub(super) fn find_type(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if request.kind == PathKind::Missing
            && options_of(request).has(Options::MULTI_VIEWS)
            && self.choose(request)?
        {
            return Ok(());
        }
        if request.settings.mime.is_some() {
            mime::find_type(&mut request.tx, request.settings.mime.as_deref(), &H::media_type);
        }
        Ok(())
    }

    /// MultiViews: returns whether a file with more extensions has replaced the requested one.
    fn choose(&mut self, request: &mut PhaseRequest<'r>) -> Result<bool, PhaseEnd> {
        let settings = Arc::clone(&request.settings);
        let fields = request.tx.state.error_fields.clone();
        let mut context =
            PhaseContext::new(self, &request.path, request.kind).under(&settings, request.slash);
        let name =
            phases::negotiation::choose(&mut request.tx, &settings, &mut context, &H::media_type)?;
        let Some(name) = name else { return Ok(false) };
        let uri = target::join(&variant(request, &name), request.tx.state.args.as_deref());
        let passed = self.passed(request);
        let (found, status) = self.sub_request(&mut request.tx.state, &uri, Some(&passed));
        if status != Status::OK {
            // A file that may not be served is no variant.
            self.scratch.reuse(found.path);
            request.tx.state.error_fields = fields;
            return Err(PhaseEnd::Status(Status::NOT_FOUND));
        }
        let args = request.tx.state.args.take();
        self.become_other(request, found);
        request.tx.state.args = args;
        Ok(true)
    }
}

/// The URL of a file in the folder of the request's, with the same PATH_INFO.
fn variant(request: &PhaseRequest<'_>, name: &[u8]) -> Vec<u8> {
    let state = &request.tx.state;
    let page = state.uri.strip_suffix(&state.path_info[..]).unwrap_or(&state.uri);
    let mut escaped = Vec::new();
    target::escape(name, &mut escaped);
    let mut uri = target::relative_to(page, &escaped);
    target::escape(&state.path_info, &mut uri);
    uri
}
