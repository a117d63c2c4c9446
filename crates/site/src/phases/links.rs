//! Symbolic links where `Options` does not say FollowSymLinks (`resolve_symlink`).

use howdah_config::Symlinks;
use howdah_htaccess::host::ProbeKind;
use howdah_htaccess::modules::core::Options;
use memchr::memchr;

use super::handler::ABOVE;
use super::{Asked, Stop, Walk, shown};
use crate::documents::{DocumentHost, FileHandle};
use crate::rules::Rules;

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// Whether every link on the way may be followed under the options of the folder that it is in.
    /// Directives can only forbid: what the site's own `symlinks` does not allow is never followed.
    /// A link with another owner than its target is followed under SymLinksIfOwnerMatch if it stays
    /// below the root, where it gives away nothing.
    pub(super) fn check_links(&mut self, asked: &mut Asked<'r>) -> Result<(), Stop> {
        if !asked.rules.as_ref().is_some_and(|rules| rules.restricts_links()) {
            return Ok(());
        }
        let whole = asked.path.relative().to_vec();
        let mut outcome = Ok(());
        let mut start = 0;
        asked.path.truncate_relative(0);
        while start < whole.len() && outcome.is_ok() {
            let options = options_of(self.host.look(&asked.path).rules.as_deref());
            let end = memchr(b'/', &whole[start..]).map_or(whole.len(), |at| start + at);
            asked.path.push_component(&whole[start..end]);
            outcome = self.check_link(asked, options);
            start = end + 1;
        }
        asked.path.truncate_relative(0);
        asked.path.push_component(&whole);
        outcome
    }

    /// Whether the last component of the path is no link, or one that `options` let follow.
    fn check_link(&mut self, asked: &mut Asked<'r>, options: Options) -> Result<(), Stop> {
        if options.has(Options::FOLLOW_SYM_LINKS) {
            return Ok(());
        }
        let by_owner = options.has(Options::SYM_LINKS_IF_OWNER_MATCH);
        if by_owner {
            if self.site.config().symlinks == Symlinks::Follow {
                asked.path.restrict_symlinks(Symlinks::Owner);
                // What was found was found under a weaker rule.
                asked.file = FileHandle::NONE;
            }
            return Ok(());
        }
        let found = self.host.probe_link(asked.path.absolute_bytes());
        if found.is_none_or(|found| found.kind != ProbeKind::Link) {
            return Ok(());
        }
        let path = shown(asked.path.absolute_bytes());
        asked.tx.complain(
            None,
            format!("Symbolic link not allowed or link target not accessible: {path}"),
        );
        Err(Stop::FORBIDDEN)
    }
}

fn options_of(rules: Option<&Rules>) -> Options {
    let core = rules.and_then(|rules| rules.settings().core.as_ref());
    core.map_or(ABOVE, |core| core.options(ABOVE))
}
