//! The fixups: the last changes of directives, once the file is known and access is granted.

use howdah_htaccess::modules::core::{self, Options};
use howdah_htaccess::modules::{alias, auth, env, headers, negotiation, rewrite};
use howdah_htaccess::transaction::FileKind;
use howdah_http::Scheme;

use super::evaluation_context::PhaseContext;
use super::handler::options_of;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step, target};
use crate::documents::{PathKind, SiteHost};

/// The handler of PHP scripts, as mod_php calls it.
pub(super) const PHP: &[u8] = b"application/x-httpd-php";

/// The handler of requests for upstreams, as mod_proxy calls it.
pub(super) const PROXY: &[u8] = b"proxy-server";

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// All fixups, in the order of a Debian Apache's modules.
    ///
    /// # Errors
    /// The request ends with the status of a rule, a redirect or an error.
    pub(super) fn fix_up(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        self.set_handler(request)?;
        self.rewrite(request)?;
        self.redirect(request)?;
        self.set_environment(request)?;
        mark_encrypted(request);
        negotiation::fixup(&mut request.tx);
        self.fake_authorization(request)?;
        self.fix_up_folder(request)?;
        self.change_request(request)
    }

    /// The fixups of a request that the site's own rules hand on to an upstream.
    ///
    /// # Errors
    /// The request ends with the status of an error.
    pub(super) fn fix_up_proxied(
        &mut self,
        request: &mut PhaseRequest<'r>,
    ) -> Result<(), PhaseEnd> {
        request.tx.state.handler = Some(PROXY.to_vec());
        self.set_environment(request)?;
        mark_encrypted(request);
        self.fake_authorization(request)?;
        self.change_request(request)
    }

    /// SetHandler and ForceType. Debian's Apache gives PHP its files by a `<FilesMatch>` with
    /// SetHandler, which comes before the folders' handlers and after those of their sections.
    fn set_handler(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let settings = request.settings.clone();
        if let Some(config) = &settings.core {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            core::fixup(&mut request.tx, config, &mut context)?;
        }
        let is_name = request.kind != PathKind::Directory || !request.slash;
        if is_name
            && !request.section_sets_handler
            && self.site.names.runs(request.path.file_name())
        {
            let mime = request.settings.mime.as_ref();
            let is_taken_away =
                mime.is_some_and(|mime| mime.takes_handler_away(request.path.file_name()));
            // Apache runs the file anyway, under a `<FilesMatch>`. The author of RemoveHandler did
            // not mean that.
            if !is_taken_away {
                request.tx.state.handler = Some(PHP.to_vec());
            }
        }
        Ok(())
    }

    /// RewriteRule. The new URL takes effect after the other fixups, and only if none of them
    /// objects.
    fn rewrite(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        force(request);
        let Some(config) = request.settings.rewrite.clone() else {
            return Ok(());
        };
        let options = options_of(request);
        request.tx.state.links_forbidden = !options.has(Options::FOLLOW_SYM_LINKS)
            && !options.has(Options::SYM_LINKS_IF_OWNER_MATCH);
        let mut context = PhaseContext::new(self, &request.path, request.kind)
            .under(&request.settings, request.slash);
        match rewrite::fixup(&mut request.tx, &config, &mut context) {
            rewrite::RewriteOutcome::Declined => Ok(()),
            rewrite::RewriteOutcome::Continue => {
                // With `H=` a rule leads to that handler and to a file that is not there.
                if request.tx.state.found == FileKind::Missing {
                    request.kind = PathKind::Missing;
                }
                Ok(())
            }
            rewrite::RewriteOutcome::Internal { uri, args, .. } => {
                request.internal = Some((uri, args));
                Ok(())
            }
            rewrite::RewriteOutcome::Redirect { status, location } => {
                request.redirect_by_rule(location);
                Err(PhaseEnd::Status(status))
            }
            rewrite::RewriteOutcome::Status(status) => Err(PhaseEnd::Status(status)),
            rewrite::RewriteOutcome::Proxy { url, .. } => {
                request.proxied = Some(self.upstream_of(request, &url)?);
                request.tx.state.handler = Some(PROXY.to_vec());
                Ok(())
            }
        }
    }

    /// Returns the upstream of a URL, and the target to ask it for.
    ///
    /// # Errors
    /// 403: the URL is for none of the `upstreams`.
    pub(super) fn upstream_of(
        &self,
        request: &mut PhaseRequest<'r>,
        url: &[u8],
    ) -> Result<(usize, Vec<u8>), PhaseEnd> {
        let upstreams = self.site.config().upstreams.iter();
        let found = upstreams.map(|upstream| upstream.path_of(url));
        let found = found.enumerate().find_map(|(number, path)| Some((number, path?)));
        let Some((upstream, path)) = found else {
            let text = format!(
                "RewriteRule [P]: {} is for none of the site's `upstreams` in the configuration",
                shown(url)
            );
            request.tx.complain(None, text);
            return Err(PhaseEnd::FORBIDDEN);
        };
        let target = target::for_upstream(path);
        request.tx.trace(|| {
            step("proxy", shown(url), self.site.config().upstreams[upstream].to_string())
        });
        Ok((upstream, target))
    }

    /// Redirect and RedirectMatch.
    fn redirect(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        match request.settings.alias.clone() {
            Some(config) => self.redirect_by(request, &config),
            None => Ok(()),
        }
    }

    /// Applies these redirects.
    ///
    /// # Errors
    /// The status of the redirect that applies, whose Location is in the state.
    pub(super) fn redirect_by(
        &mut self,
        request: &mut PhaseRequest<'r>,
        config: &alias::Config,
    ) -> Result<(), PhaseEnd> {
        let mut context = PhaseContext::new(self, &request.path, request.kind);
        match alias::fixup(&mut request.tx, config, &mut context) {
            None => Ok(()),
            Some(alias::RedirectOutcome::Status(status)) => Err(PhaseEnd::Status(status)),
            Some(alias::RedirectOutcome::Redirect { status, location }) => {
                request.tx.state.fields.set(b"Location", &location);
                Err(PhaseEnd::Status(status))
            }
        }
    }

    /// SetEnv, PassEnv, UnsetEnv.
    fn set_environment(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if let Some(config) = request.settings.env.clone() {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            env::fixup(&mut request.tx, &config, &mut context)?;
        }
        Ok(())
    }

    /// AuthBasicFake.
    fn fake_authorization(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if let Some(config) = request.settings.auth.clone() {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            auth::fixup(&mut request.tx, &config, &mut context)?;
        }
        Ok(())
    }

    /// RequestHeader.
    fn change_request(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let settings = request.settings.clone();
        if let Some(config) = settings.headers.as_ref().filter(|config| config.changes_requests()) {
            let mut context = PhaseContext::new(self, &request.path, request.kind);
            headers::request_fixup(&mut request.tx, config, &mut context)?;
        }
        Ok(())
    }
}

/// Sets the variable HTTPS of a request over https, as mod_ssl's fixup does: after RewriteRule and
/// SetEnv, before RequestHeader.
fn mark_encrypted(request: &mut PhaseRequest<'_>) {
    if request.tx.client.scheme() == Scheme::Https {
        request.tx.state.set_variable(b"HTTPS", b"on");
    }
}

/// Sets the handler and the type that the site's own rules have forced.
fn force(request: &mut PhaseRequest<'_>) {
    let Some(forced) = request.forced.take() else {
        return;
    };
    let state = &mut request.tx.state;
    if forced.handler.is_some() {
        state.handler = forced.handler;
    }
    if forced.content_type.is_some() {
        state.content_type = forced.content_type;
        state.charset = forced.charset;
    }
}
