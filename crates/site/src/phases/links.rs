//! Symbolic links where `Options` does not say FollowSymLinks (`resolve_symlink`).

use howdah_config::Symlinks;
use howdah_htaccess::host::ProbeKind;
use howdah_htaccess::modules::core::Options;
use memchr::memchr;

use super::handler::ABOVE;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown};
use crate::documents::{FileHandle, SiteHost};
use crate::rules::Rules;

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Checks that every link on the way may be followed under the options of the folder that it is
    /// in. Directives can only forbid: a link that the site's own `symlinks` does not allow is
    /// never followed. A link with another owner than its target is followed under
    /// SymLinksIfOwnerMatch if it stays below the root, where it reveals nothing.
    ///
    /// # Errors
    /// 403: a link must not be followed.
    pub(super) fn check_links(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if !request.rules.as_ref().is_some_and(|rules| rules.restricts_links()) {
            return Ok(());
        }
        let whole = request.path.relative().to_vec();
        let mut outcome = Ok(());
        let mut start = 0;
        request.path.truncate_relative(0);
        while start < whole.len() && outcome.is_ok() {
            let options = options_of(self.host.look(&request.path).rules.as_deref());
            let end = memchr(b'/', &whole[start..]).map_or(whole.len(), |at| start + at);
            request.path.push_component(&whole[start..end]);
            outcome = self.check_link(request, options);
            start = end + 1;
        }
        request.path.truncate_relative(0);
        request.path.push_component(&whole);
        outcome
    }

    /// Checks that the last component of the path is no link, or one that `options` allow.
    fn check_link(
        &mut self,
        request: &mut PhaseRequest<'r>,
        options: Options,
    ) -> Result<(), PhaseEnd> {
        if options.has(Options::FOLLOW_SYM_LINKS) {
            return Ok(());
        }
        let by_owner = options.has(Options::SYM_LINKS_IF_OWNER_MATCH);
        if by_owner {
            if self.site.config().symlinks == Symlinks::Follow {
                request.path.restrict_symlinks(Symlinks::Owner);
                // The handle was found under a weaker rule.
                request.file = FileHandle::NONE;
            }
            return Ok(());
        }
        let found = self.host.probe_link(request.path.absolute_bytes());
        if found.is_none_or(|found| found.kind != ProbeKind::Link) {
            return Ok(());
        }
        let path = shown(request.path.absolute_bytes());
        request.tx.complain(
            None,
            format!("Symbolic link not allowed or link target not accessible: {path}"),
        );
        Err(PhaseEnd::FORBIDDEN)
    }
}

fn options_of(rules: Option<&Rules>) -> Options {
    let core = rules.and_then(|rules| rules.settings().core.as_ref());
    core.map_or(ABOVE, |core| core.options(ABOVE))
}
