//! Document roots that are held open.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use howdah_site::{DocumentPath, MergedCopies, Rules, Symlinks};
use howdah_sys::stat::Stat;
use howdah_sys::{descriptor, open};

use crate::directive_cache::{DirectiveCache, DirectiveOwner};
use crate::disk_access::DiskAccess;
use crate::folders::with_slash;
use crate::locate::PathObstacle;
use crate::root_links::{self, RootWay};
use crate::site_folders::SiteFolders;

/// A document root under one rule for links and one set of directives, held open.
#[derive(Debug)]
pub(crate) struct OpenRoot {
    number: u32,
    path: CString,
    real_path: PathBuf,
    symlinks: Symlinks,
    scope: u32,
    /// The site that it is counted for.
    site: DirectiveOwner,
    /// The directives of the configuration itself.
    base: Option<Rc<Rules>>,
    /// The folders of all sites.
    site_folders: Option<Arc<SiteFolders>>,
    folder: OwnedFd,
    identity: (u64, u64),
}

impl OpenRoot {
    /// Opens the document root of `path`, with its directives and the folders of other sites.
    ///
    /// # Errors
    /// The obstacle on the way, or [`PathObstacle::OtherSite`] where the folder may have been
    /// reached by a link and is that of another site.
    pub(crate) fn open(
        number: u32,
        path: &DocumentPath,
        directives: Option<&DirectiveCache>,
        disk: &DiskAccess,
    ) -> Result<OpenRoot, PathObstacle> {
        let name = path.root();
        let (root, is_of_root) = OpenRoot::by_way(name, path.symlinks(), disk)?;
        let site_folders = directives.map(DirectiveCache::site_folders);
        let is_closed = |folders: &Arc<SiteFolders>| {
            let (real, name) = (&root.real_path, root.path.as_bytes());
            folders.closes(real, name) || folders.has_others_in(real, name)
        };
        if path.symlinks() != Symlinks::Follow
            && !is_of_root
            && site_folders.as_ref().is_some_and(is_closed)
        {
            return Err(PathObstacle::OtherSite);
        }
        Ok(OpenRoot {
            number,
            site_folders,
            scope: path.scope(),
            site: directives.map_or(0, |directives| directives.owner(name.as_os_str().as_bytes())),
            base: directives
                .and_then(|directives| {
                    directives.rules(path.scope(), &with_slash(name.as_os_str().as_bytes()))
                })
                .map(|rules| Rules::below(None, rules, &MergedCopies::default())),
            ..root
        })
    }

    /// Opens a root by its path and the rule for symbolic links below it.
    ///
    /// # Errors
    /// The obstacle on the way.
    pub(crate) fn without_directives(
        name: &Path,
        symlinks: Symlinks,
        disk: &DiskAccess,
    ) -> Result<OpenRoot, PathObstacle> {
        OpenRoot::by_way(name, symlinks, disk).map(|(root, _)| root)
    }

    /// Opens as [`OpenRoot::without_directives`] does. Also returns whether each link on the way is
    /// root's.
    fn by_way(
        name: &Path,
        symlinks: Symlinks,
        disk: &DiskAccess,
    ) -> Result<(OpenRoot, bool), PathObstacle> {
        let path = CString::new(name.as_os_str().as_bytes()).map_err(|_| PathObstacle::Missing)?;
        let opened = || {
            let folder =
                open::folder(&path, disk.lookup()).map_err(|error| disk.obstacle(error))?;
            let stat = Stat::of(folder.as_fd())?;
            let way = root_links::root_way(name, &stat)?;
            Ok::<_, PathObstacle>(way.map(|way| (folder, stat, way)))
        };
        // A link may be exchanged meanwhile.
        let mut attempts = (0..ATTEMPTS).map(|_| opened());
        let found = attempts.find(|opened| !matches!(opened, Ok(None)));
        let (folder, stat, way) = found.transpose()?.flatten().ok_or(PathObstacle::Forbidden)?;
        let RootWay { real, may_lead, is_of_root } = way;
        if symlinks != Symlinks::Follow && !may_lead {
            return Err(PathObstacle::Forbidden);
        }
        let root = OpenRoot {
            number: 0,
            identity: stat.identity(),
            folder,
            path,
            real_path: real,
            symlinks,
            scope: 0,
            site: 0,
            base: None,
            site_folders: None,
        };
        Ok((root, is_of_root))
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The path as configured, without a slash at its end, unless it is `/`.
    pub(crate) fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    /// The path when the root was opened, without symbolic links.
    pub(crate) fn real_path(&self) -> &Path {
        &self.real_path
    }

    pub(crate) fn symlinks(&self) -> Symlinks {
        self.symlinks
    }

    /// The scope of directives of its sites.
    pub(crate) fn scope(&self) -> u32 {
        self.scope
    }

    /// The site that the root is counted for: all document roots of a site with one for each host
    /// are the same site's.
    pub(crate) fn site(&self) -> DirectiveOwner {
        self.site
    }

    /// The directives of the configuration itself. `None` if it has none.
    pub(crate) fn base(&self) -> Option<&Rc<Rules>> {
        self.base.as_ref()
    }

    /// Returns whether a path without links is in a folder of another site.
    pub(crate) fn is_closed_to_it(&self, target: &Path) -> bool {
        self.site_folders
            .as_ref()
            .is_some_and(|folders| folders.closes(target, self.path()))
    }

    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Returns whether the path still leads to the same folder, as far as there is a descriptor to
    /// ask with: what is watched below it stays known.
    ///
    /// # Errors
    /// The disk would have to be waited for.
    pub(crate) fn is_current(&self, disk: &DiskAccess) -> Result<bool, PathObstacle> {
        let opened = open::folder(&self.path, disk.lookup());
        let stat = opened.and_then(|folder| Stat::of(folder.as_fd()));
        match stat.map_err(|error| disk.obstacle(error)) {
            Ok(stat) => Ok(stat.identity() == self.identity),
            Err(PathObstacle::Postponed) => Err(PathObstacle::Postponed),
            Err(PathObstacle::Failed(error)) if descriptor::is_exhausted(&error) => {
                disk.take_shortage();
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }
}

/// Times that a root is opened if its links are exchanged meanwhile.
const ATTEMPTS: usize = 3;
