//! The directives of the site's configuration that act before those of any folder: SetEnvIf,
//! RewriteRule and Redirect, as in `<VirtualHost>`. No `.htaccess` file can switch them off.

use std::rc::Rc;

use howdah_config::EncodedSlashes;
use howdah_htaccess::modules::{rewrite, setenvif};
use howdah_htaccess::settings::ServerSettings;

use super::evaluation_context::PhaseContext;
use super::request::ForcedHandler;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step, target};
use crate::documents::SiteHost;

/// A URL that rules have changed.
struct NewUrl {
    /// The path, decoded.
    uri: Vec<u8>,
    args: Option<Vec<u8>>,
    /// Whether Redirect acts on the URL: the rule has `PT`.
    is_passed_through: bool,
}

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Applies the site's own rules. They may lead to another path, which is that of the same
    /// request: the rules do not see it again.
    ///
    /// # Errors
    /// A rule or a redirect answers. Only the configuration's own settings are in force then.
    pub(super) fn obey_site(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let Some(rules) = request.rules.clone() else {
            return Ok(());
        };
        let Some(server) = rules.server() else {
            return Ok(());
        };
        request.settings.clone_from(rules.outermost().settings());
        request.tx.trace(|| {
            let text = rules.outermost().own().file.to_string();
            step("site", text, "acts before every .htaccess file, which cannot switch it off")
        });
        if let Some(config) = server.setenvif.as_ref().filter(|_| !request.tx.state.is_subrequest) {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            setenvif::header_parser(&mut request.tx, config, &mut context)?;
        }
        let url = self.rewrite_site(request, server)?;
        // As in `<VirtualHost>`: the first module that finds the request's file or upstream ends
        // the search, and mod_rewrite comes before mod_alias.
        let is_redirected = match &url {
            Some(url) => url.is_passed_through,
            None => request.proxied.is_none(),
        };
        if let Some(url) = url {
            self.change_path(request, url)?;
        }
        match is_redirected {
            true => self.redirect_site(request, server),
            false => Ok(()),
        }
    }

    /// RewriteRule. Returns the URL that the rules lead to.
    fn rewrite_site(
        &mut self,
        request: &mut PhaseRequest<'r>,
        server: &Rc<ServerSettings>,
    ) -> Result<Option<NewUrl>, PhaseEnd> {
        let Some(config) = &server.rewrite else {
            return Ok(None);
        };
        let mut context = PhaseContext::new(self, &request.path, request.kind);
        let outcome = rewrite::translate(&mut request.tx, config, &mut context);
        let state = &mut request.tx.state;
        let forced = ForcedHandler {
            handler: state.handler.take(),
            content_type: state.content_type.take(),
            charset: state.charset.take(),
        };
        if forced.handler.is_some() || forced.content_type.is_some() {
            request.forced = Some(Box::new(forced));
        }
        match outcome {
            rewrite::RewriteOutcome::Declined | rewrite::RewriteOutcome::Continue => Ok(None),
            rewrite::RewriteOutcome::Internal { uri, args, is_passed_through } => {
                Ok(Some(NewUrl { uri, args, is_passed_through }))
            }
            rewrite::RewriteOutcome::Redirect { status, location } => {
                request.redirect_by_rule(location);
                Err(PhaseEnd::Status(status))
            }
            rewrite::RewriteOutcome::Status(status) => Err(PhaseEnd::Status(status)),
            rewrite::RewriteOutcome::Proxy { mut url, is_escaped } => {
                if is_escaped && self.site.encoded_slashes() == EncodedSlashes::Keep {
                    url = target::with_kept_slashes(&url);
                }
                request.proxied = Some(self.upstream_of(request, &url)?);
                Ok(None)
            }
        }
    }

    /// Redirect and RedirectMatch.
    fn redirect_site(
        &mut self,
        request: &mut PhaseRequest<'r>,
        server: &Rc<ServerSettings>,
    ) -> Result<(), PhaseEnd> {
        match &server.alias {
            Some(config) => self.redirect_by(request, config),
            None => Ok(()),
        }
    }

    /// Takes the path that the rules have found. Scripts find the former one in REDIRECT_URL.
    fn change_path(
        &mut self,
        request: &mut PhaseRequest<'r>,
        NewUrl { uri, args, .. }: NewUrl,
    ) -> Result<(), PhaseEnd> {
        let mut escaped = Vec::with_capacity(uri.len());
        target::escape(&uri, &mut escaped);
        request
            .tx
            .trace(|| step("site", shown(&uri), "is what the site's rules lead to"));
        let (was_dotted, before) = (request.dotted, request.tx.state.uri.clone());
        let old = request.take_path();
        self.scratch.reuse(old);
        self.translate(request, &escaped)?;
        // A name with a dot that the client sent stays refused; the operator may name another.
        request.is_first &= was_dotted;
        let state = &mut request.tx.state;
        state.args = args;
        rewrite::note_path_by_site(state);
        if !state.is_subrequest {
            state.env.set(b"REDIRECT_STATUS", b"200");
            state.env.set(b"REDIRECT_URL", &before);
        }
        self.find_file(request);
        Ok(())
    }
}
