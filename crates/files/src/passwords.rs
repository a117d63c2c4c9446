//! Files of passwords and groups that directives name: whose they may be.
//!
//! The front reads what web servers on Debian may read, the files of all sites. A site's owner who
//! names the file of another site could guess its passwords there, past the queue of that site.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use howdah_htaccess::host::PasswordFileError;
use howdah_sys::credentials::{self, FileRight, Identity};
use howdah_sys::open::Access;
use howdah_sys::stat::Stat;

use crate::store::FileStore;

/// The user of a site, who may have directives ask for passwords in certain files only.
#[derive(Clone, Copy, Debug)]
pub enum SiteUser<'u> {
    /// The user of this process, or the operator: every file counts that this process may read.
    Own,
    /// Another one. Files of root, of this process's user, of the pool's user and of the document
    /// root's owner count, and those that the user may read.
    Other {
        /// The user of the site's scripts; `None` if it has none.
        pool: Option<&'u Identity>,
        /// The document root; empty if each host has another one.
        root: &'u [u8],
    },
}

impl FileStore {
    /// Returns the content of a file of passwords or groups for the site with the document root
    /// `root`, or whose roots begin so. `opened` are the folders and files of other sites that the
    /// configuration opens to it; `None` if it may name all of them.
    ///
    /// # Errors
    /// It cannot be read or is too long, or it is none of the site's.
    pub fn read_passwords(
        &mut self,
        path: &[u8],
        user: SiteUser<'_>,
        root: &Path,
        opened: Option<&[&Path]>,
    ) -> Result<Arc<[u8]>, PasswordFileError> {
        let (content, stat) = self.read_with_stat(path).ok_or(PasswordFileError::Unreadable)?;
        if opened.is_some_and(|opened| self.is_of_other_site(path, &stat, root, opened)) {
            return Err(PasswordFileError::OtherSite);
        }
        match user {
            SiteUser::Other { pool, root } if !self.may_name(path, &stat, pool, root) => {
                Err(PasswordFileError::Foreign)
            }
            _ => Ok(content),
        }
    }

    fn may_name(&mut self, path: &[u8], stat: &Stat, pool: Option<&Identity>, root: &[u8]) -> bool {
        let ours = credentials::own_user();
        if [0, ours].contains(&stat.owner) || pool.is_some_and(|user| user.uid == stat.owner) {
            return true;
        }
        let owner = match root {
            b"" => None,
            root => self.owners_of_path(root).map(|(owner, _)| owner),
        };
        match (pool, owner) {
            // Root gives tenants their roots, too.
            (Some(user), owner) => {
                owner == Some(stat.owner) || self.is_readable_for(path, stat, user)
            }
            (None, Some(owner)) if owner != 0 && owner != ours => {
                let user = Identity {
                    name: String::new(),
                    uid: owner,
                    gid: u32::MAX,
                    groups: Vec::new(),
                };
                owner == stat.owner || self.is_readable_for(path, stat, &user)
            }
            // A site without scripts whose files are the operator's.
            (None, _) => true,
        }
    }

    /// Returns whether the file, which has that state, and the folders that lead to it can be read
    /// by a user, by permission bits. With an access control list the bits do not tell: then it
    /// cannot.
    fn is_readable_for(&mut self, path: &[u8], stat: &Stat, user: &Identity) -> bool {
        let has_list = CString::new(path).is_ok_and(|name| Stat::has_access_list(&name));
        if has_list || !user.may(FileRight::Read, stat) {
            return false;
        }
        let Some(place) = self.place_of(path, stat) else {
            return false;
        };
        place.ancestors().skip(1).all(|folder| {
            let folder = CString::new(folder.as_os_str().as_bytes());
            let stat = folder.ok().and_then(|folder| self.stat_path(&folder, true));
            stat.is_some_and(|stat| user.may(FileRight::Enter, &stat))
        })
    }

    /// Returns whether the file, which has that state, is in a folder that belongs to other sites,
    /// or is another one by now.
    fn is_of_other_site(
        &mut self,
        path: &[u8],
        stat: &Stat,
        root: &Path,
        opened: &[&Path],
    ) -> bool {
        let Some(folders) = self.directives.as_ref().map(|directives| directives.site_folders())
        else {
            return false;
        };
        let place = self.place_of(path, stat);
        place.is_none_or(|place| {
            !opened.iter().any(|opened| place.starts_with(opened))
                && folders.closes(&place, root.as_os_str().as_bytes())
        })
    }

    /// Returns the path without links, those on the way being the site's own, of the file that has
    /// that state. `None` if it is another one by now.
    fn place_of(&mut self, path: &[u8], stat: &Stat) -> Option<PathBuf> {
        let file = self.open_path(&CString::new(path).ok()?, Access::Point, true)?;
        let is_same = Stat::of(file.as_fd()).is_ok_and(|found| found == *stat);
        let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        is_same.then(|| std::fs::read_link(link).ok())?
    }
}
