//! A document root as the server sees it, for those who look at all of it (`howdah check`).

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use howdah_site::Symlinks;
use howdah_sys::folder;
use howdah_sys::open::Lookup;
use howdah_sys::stat::FileType;

use crate::content;
use crate::disk_access::DiskAccess;
use crate::locate::{LocatedFile, PathObstacle, ReadAccess, locate};
use crate::open_root::OpenRoot;

/// A document root with the rule of its site for symbolic links. A link that the rule
/// forbids is neither followed nor read, as in the server.
#[derive(Debug)]
pub struct DocumentTree {
    root: OpenRoot,
    disk: DiskAccess,
}

/// An open folder of a tree.
#[derive(Debug)]
pub struct TreeFolder {
    file: OwnedFd,
    /// The numbers of the device and of the inode.
    pub identity: (u64, u64),
}

impl DocumentTree {
    /// Opens a document root. `None`: it cannot be opened, or the rule forbids a link in its path.
    pub fn open(root: &Path, symlinks: Symlinks) -> Option<DocumentTree> {
        let disk = DiskAccess::waiting();
        let root = OpenRoot::without_directives(root, symlinks, &disk).ok()?;
        Some(DocumentTree { root, disk })
    }

    /// Opens a folder. `relative` is its path below the root, without a slash at either end. `None`
    /// where there is none, and where the rule forbids it.
    pub fn folder(&self, relative: &[u8]) -> Option<TreeFolder> {
        let LocatedFile { file, stat, .. } = self.locate(relative, ReadAccess::No).ok()?;
        let is_folder = stat.file_type() == FileType::Directory;
        is_folder.then_some(TreeFolder { file, identity: stat.identity() })
    }

    /// Returns whether something is at `relative`, be it forbidden.
    pub fn has(&self, relative: &[u8]) -> bool {
        !matches!(self.locate(relative, ReadAccess::No), Err(PathObstacle::Missing))
    }

    /// Returns the content of a file of at most `most` bytes.
    ///
    /// # Errors
    /// The reason why the server would not read it.
    pub fn read(&self, relative: &[u8], most: u64) -> Result<Vec<u8>, String> {
        let cannot = |why: &dyn std::fmt::Display| format!("it cannot be read: {why}");
        let located =
            self.locate(relative, ReadAccess::Yes).map_err(|obstacle| match obstacle {
                PathObstacle::Missing => cannot(&"it is gone, or a link leads nowhere"),
                PathObstacle::Forbidden => {
                    "the site's rule for symbolic links, or a permission, forbids it".to_owned()
                }
                PathObstacle::TooManyNames => {
                    cannot(&"the symbolic links on the way are too many or too long")
                }
                PathObstacle::OtherSite => {
                    "a symbolic link on the way leads into a folder of another site".to_owned()
                }
                PathObstacle::Failed(error) => cannot(&error),
                PathObstacle::Postponed => cannot(&"the disk does not answer"),
            })?;
        if located.stat.file_type() != FileType::Regular {
            return Err("it is not a regular file".to_owned());
        }
        if !located.readable {
            return Err(cannot(&"permission denied"));
        }
        let file = File::from(located.file);
        let (content, _) = content::read(&file, located.stat, most, Lookup::Full)
            .map_err(|error| cannot(&error))?;
        content.ok_or_else(|| {
            format!("it is larger than the {most} bytes that `htaccess_size` in [limits] allows")
        })
    }

    fn locate(&self, relative: &[u8], reading: ReadAccess) -> Result<LocatedFile, PathObstacle> {
        let path = if relative.is_empty() { b"." } else { relative };
        let path = CString::new(path).map_err(|_| PathObstacle::Missing)?;
        locate(&self.root, &path, reading, &self.disk, &mut |_, _, _| {})
    }
}

impl TreeFolder {
    /// Returns at most `most` names of what may be folders in it, in no order.
    pub fn folders(&self, most: usize) -> Vec<Box<[u8]>> {
        folder::names_of_folders(self.file.as_fd(), most).unwrap_or_default()
    }
}
