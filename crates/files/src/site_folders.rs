//! The folders that belong to one site, where others must not lead the front by a link.
//!
//! The pools of several sites may have one user. Then a link in one site's root to a file of
//! another one has the owner of the file, and the front, which is in no pool's sandbox, would read
//! the file for anybody.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders of sites, and the document roots from which links into each may be followed.
#[derive(Debug, Clone, Default)]
pub struct SiteFolders {
    by_path: HashMap<PathBuf, FolderOwners>,
}

/// The sites that have a folder.
#[derive(Debug, Clone, Default)]
struct FolderOwners {
    own: Vec<RootName>,
    /// The sites that the configuration puts around it.
    around: Vec<RootName>,
}

/// The document roots of a site, as the configuration has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootName {
    /// One folder.
    Is(PathBuf),
    /// The folders whose paths begin so.
    Begins(PathBuf),
}

impl SiteFolders {
    /// Adds a folder, whose path has no links, of the site with this root. Several sites may have
    /// the same folder.
    pub fn add(&mut self, folder: PathBuf, root: RootName) {
        self.by_path.entry(folder).or_default().own.push(root);
    }

    /// Adds that `folder`, the root of a site with the name `root`, has folders of others in it, as
    /// the configuration wants it.
    pub fn add_around(&mut self, folder: &Path, root: &RootName) {
        let inside = self.by_path.iter_mut().filter(|(path, _)| path.starts_with(folder));
        inside.for_each(|(_, owners)| owners.around.push(root.clone()));
    }

    /// Adds a folder, whose path has no links, that is closed to those who have not added it.
    pub fn close(&mut self, folder: PathBuf) {
        self.by_path.entry(folder).or_default();
    }

    /// Returns whether `target`, a path without links, is in a folder that belongs to other sites
    /// than the one with the document root `root`. Of folders within each other, the innermost
    /// counts.
    pub(crate) fn closes(&self, target: &Path, root: &[u8]) -> bool {
        let owners = target.ancestors().find_map(|above| self.by_path.get(above));
        owners.is_some_and(|owners| !owners.own.iter().any(|owner| owner.has(root)))
    }

    /// Returns whether folders that belong to other sites than the one with the document root
    /// `root` are in `folder`, a path without links.
    pub(crate) fn has_others_in(&self, folder: &Path, root: &[u8]) -> bool {
        let mut inside = self.by_path.iter().filter(|(path, _)| path.starts_with(folder));
        inside.any(|(_, owners)| {
            let mut names = owners.own.iter().chain(&owners.around);
            !names.any(|owner| owner.has(root))
        })
    }
}

impl RootName {
    fn has(&self, root: &[u8]) -> bool {
        let without_end = |path: &Path| {
            let path = path.as_os_str().as_bytes();
            let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
            path[..end].to_vec()
        };
        match self {
            RootName::Is(path) => without_end(path) == without_end(Path::new(as_os(root))),
            RootName::Begins(before) => root.starts_with(before.as_os_str().as_bytes()),
        }
    }
}

fn as_os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::ffi::OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_folder_decides() {
        let mut folders = SiteFolders::default();
        for (folder, root) in [
            ("/srv/one", RootName::Is("/srv/one/public/".into())),
            ("/srv/one/public/blog", RootName::Is("/srv/one/public/blog".into())),
            ("/srv/two", RootName::Is("/srv/two/current".into())),
            ("/srv/two", RootName::Is("/srv/alias".into())),
            ("/srv/hosts", RootName::Begins("/srv/hosts/".into())),
        ] {
            folders.add(folder.into(), root);
        }
        for (target, root, expected) in [
            ("/srv/one/settings", "/srv/one/public", false),
            ("/srv/one", "/srv/one/public", false),
            ("/srv/one/settings", "/srv/two/current", true),
            ("/srv/one/settings", "/srv/one/public/blog", true),
            ("/srv/one/public/blog/a", "/srv/one/public/blog", false),
            ("/srv/one/public/blog/a", "/srv/one/public", true),
            ("/srv/two/a", "/srv/alias", false),
            ("/srv/two/a", "/srv/hosts/a", true),
            ("/srv/hosts/b/a", "/srv/hosts/a", false),
            ("/srv/hosts/b/a", "/srv/one/public", true),
            ("/srv/other", "/srv/one/public", false),
            ("/srv/one-more", "/srv/two/current", false),
        ] {
            let found = folders.closes(Path::new(target), root.as_bytes());
            assert_eq!(found, expected, "{target} {root}");
        }
        folders.add_around(Path::new("/srv/hosts"), &RootName::Is("/srv/hosts".into()));
        for (folder, root, expected) in [
            ("/srv", "/srv/two/current", true),
            ("/srv/one", "/srv/two/current", true),
            ("/srv/one/public", "/srv/one/public", true),
            ("/srv/hosts", "/srv/hosts", false),
            ("/srv/two", "/srv/alias", false),
            ("/srv/o", "/srv/two/current", false),
        ] {
            let found = folders.has_others_in(Path::new(folder), root.as_bytes());
            assert_eq!(found, expected, "{folder} {root}");
        }
        assert!(!folders.closes(Path::new("/srv/silent/a"), b"/srv/alias"));
        folders.close("/srv/silent".into());
        assert!(folders.closes(Path::new("/srv/silent/a"), b"/srv/alias"));
    }
}
