//! The fixups: what directives still change once it is clear what is asked for, and that it may be.

use howdah_htaccess::modules::core::{self, Options};
use howdah_htaccess::modules::{alias, auth, env, headers, negotiation, rewrite};
use howdah_htaccess::transaction::Found;

use super::handler::options_of;
use super::world::RequestWorld;
use super::{Asked, Stop, Walk, shown, step, target};
use crate::documents::{DocumentHost, PathKind};

/// The handler of PHP scripts, as mod_php calls it.
pub(super) const PHP: &[u8] = b"application/x-httpd-php";

/// The handler of what is handed on, as mod_proxy calls it.
pub(super) const PROXY: &[u8] = b"proxy-server";

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// All fixups, in the order of a Debian Apache's modules.
    pub(super) fn fix_up(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        self.set_handler(asked)?;
        self.rewrite(asked)?;
        self.redirect(asked)?;
        self.set_environment(asked);
        negotiation::fixup(&mut asked.tx);
        self.fake_authorization(asked)?;
        self.fix_up_folder(asked)?;
        self.change_request(asked)
    }

    /// SetHandler and ForceType. Debian's Apache gives PHP its files by a `<FilesMatch>` with
    /// SetHandler, which stands before what folders say, and behind what sections of theirs say.
    fn set_handler(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        let settings = asked.settings.clone();
        if let Some(config) = &settings.core {
            let mut world = RequestWorld::new(self, &asked.path, asked.kind);
            core::fixup(&mut asked.tx, config, &mut world)?;
        }
        let is_name = asked.kind != PathKind::Directory || !asked.slash;
        if is_name && !asked.section_sets_handler && self.site.names.runs(asked.path.file_name()) {
            let mime = asked.settings.mime.as_ref();
            let is_taken_away =
                mime.is_some_and(|mime| mime.takes_handler_away(asked.path.file_name()));
            // Apache runs it all the same, under a `<FilesMatch>`. Whoever wrote RemoveHandler did
            // not mean that.
            if !is_taken_away {
                asked.tx.state.handler = Some(PHP.to_vec());
            }
        }
        Ok(())
    }

    /// RewriteRule. What it makes of the URL takes effect when the other fixups are through, and if
    /// none of them objects.
    fn rewrite(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        let Some(config) = asked.settings.rewrite.clone() else {
            return Ok(());
        };
        let options = options_of(asked);
        asked.tx.state.links_forbidden = !options.has(Options::FOLLOW_SYM_LINKS)
            && !options.has(Options::SYM_LINKS_IF_OWNER_MATCH);
        let mut world =
            RequestWorld::new(self, &asked.path, asked.kind).under(&asked.settings, asked.slash);
        match rewrite::fixup(&mut asked.tx, &config, &mut world) {
            rewrite::Outcome::Declined => Ok(()),
            rewrite::Outcome::Continue => {
                // With `H=` a rule leads to that handler and to a file that is not there.
                if asked.tx.state.found == Found::Missing {
                    asked.kind = PathKind::Missing;
                }
                Ok(())
            }
            rewrite::Outcome::Internal { uri, args } => {
                asked.internal = Some((uri, args));
                Ok(())
            }
            rewrite::Outcome::Redirect { status, location } => {
                asked.tx.state.fields.set(b"Location", &location);
                Err(Stop::Status(status))
            }
            rewrite::Outcome::Status(status) => Err(Stop::Status(status)),
            rewrite::Outcome::Proxy { url } => {
                asked.proxied = Some(self.upstream_of(asked, &url)?);
                asked.tx.state.handler = Some(PROXY.to_vec());
                Ok(())
            }
        }
    }

    /// Which of the site's upstreams a URL is for, and what it asks for there.
    fn upstream_of(&self, asked: &mut Asked<'r>, url: &[u8]) -> Result<(usize, Vec<u8>), Stop> {
        let upstreams = self.site.config().upstreams.iter();
        let found = upstreams.map(|upstream| upstream.path_of(url));
        let found = found.enumerate().find_map(|(number, path)| Some((number, path?)));
        let Some((upstream, path)) = found else {
            let text = format!(
                "RewriteRule [P]: {} is for none of the site's `upstreams` in the configuration",
                shown(url)
            );
            asked.tx.complain(None, text);
            return Err(Stop::FORBIDDEN);
        };
        let target = target::for_upstream(path);
        asked.tx.trace(|| {
            step("proxy", shown(url), self.site.config().upstreams[upstream].to_string())
        });
        Ok((upstream, target))
    }

    /// Redirect and RedirectMatch.
    fn redirect(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        let Some(config) = asked.settings.alias.clone() else {
            return Ok(());
        };
        let mut world = RequestWorld::new(self, &asked.path, asked.kind);
        match alias::fixup(&mut asked.tx, &config, &mut world) {
            None => Ok(()),
            Some(alias::Outcome::Status(status)) => Err(Stop::Status(status)),
            Some(alias::Outcome::Redirect { status, location }) => {
                asked.tx.state.fields.set(b"Location", &location);
                Err(Stop::Status(status))
            }
        }
    }

    /// SetEnv, PassEnv, UnsetEnv.
    fn set_environment(&mut self, asked: &mut Asked<'r>) {
        if let Some(config) = asked.settings.env.clone() {
            let mut world = RequestWorld::new(self, &asked.path, asked.kind);
            env::fixup(&mut asked.tx, &config, &mut world);
        }
    }

    /// AuthBasicFake.
    fn fake_authorization(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        if let Some(config) = asked.settings.auth.clone() {
            let mut world = RequestWorld::new(self, &asked.path, asked.kind);
            auth::fixup(&mut asked.tx, &config, &mut world)?;
        }
        Ok(())
    }

    /// RequestHeader.
    fn change_request(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        let settings = asked.settings.clone();
        if let Some(config) = settings.headers.as_ref().filter(|config| config.changes_requests()) {
            let mut world = RequestWorld::new(self, &asked.path, asked.kind);
            headers::request_fixup(&mut asked.tx, config, &mut world)?;
        }
        Ok(())
    }
}
