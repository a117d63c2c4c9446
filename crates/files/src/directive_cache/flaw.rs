//! Flaws in the directives of a site, which are reported.

use std::fmt;
use std::os::unix::ffi::OsStrExt;

use howdah_htaccess::Mistake;
use howdah_site::{DocumentPath, Site};
use howdah_sys::open::{MOST_LINK_NAMES, MOST_LINKS};

use super::DirectiveCache;

/// Reports a flaw in a site's directives.
pub type ReportFlaw = Box<dyn Fn(&Site, &DirectiveFlaw) + Send + Sync>;

/// A flaw in a file of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectiveFlaw {
    /// The first mistake in the file.
    Mistake(Box<Mistake>),
    /// The file cannot be read.
    Unreadable(String),
    /// A path leads through symbolic links that are too long.
    TooManyNames(String),
    /// A symbolic link leads into a folder of another site.
    OtherSite(String),
}

impl fmt::Display for DirectiveFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectiveFlaw::Mistake(mistake) => mistake.fmt(f),
            DirectiveFlaw::Unreadable(what)
            | DirectiveFlaw::TooManyNames(what)
            | DirectiveFlaw::OtherSite(what) => f.write_str(what),
        }
    }
}

impl DirectiveCache {
    /// The site that has the path's document root.
    fn site(&self, path: &DocumentPath) -> Option<&Site> {
        self.roots.site(path.scope(), path.root().as_os_str().as_bytes())
    }

    /// Reports that a `.htaccess` file cannot be read.
    pub(crate) fn unreadable(&self, path: &DocumentPath, why: &str) {
        if let Some(site) = self.site(path) {
            let file = path.absolute().display();
            let what = format!(
                "{file}: it cannot be read ({why}), so what it covers is answered with 403"
            );
            (self.tell)(site, &DirectiveFlaw::Unreadable(what));
        }
    }

    /// Reports that a path leads through symbolic links that are too long.
    pub(crate) fn too_many_names(&self, path: &DocumentPath) {
        if let Some(site) = self.site(path) {
            let what = format!(
                "{}: the symbolic links on the way are more than {MOST_LINKS}, or their targets \
                 have more than {MOST_LINK_NAMES} names together, so it is answered with 403; \
                 shorten the links",
                path.absolute().display()
            );
            (self.tell)(site, &DirectiveFlaw::TooManyNames(what));
        }
    }

    /// Reports a symbolic link to a folder of another site.
    pub(crate) fn link_to_other_site(&self, path: &DocumentPath) {
        if let Some(site) = self.site(path) {
            let what = format!(
                "{}: a symbolic link on the way leads into a folder of another site, so it is \
                 answered with 403; if the site may show that folder, make root the link's owner \
                 with `chown -h root`",
                path.absolute().display()
            );
            (self.tell)(site, &DirectiveFlaw::OtherSite(what));
        }
    }
}
