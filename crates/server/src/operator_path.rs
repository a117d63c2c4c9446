//! Paths that the operator wrote and that may lead through the folder of a site's owner: those of
//! logs, of Unix sockets, and of certificates with their keys. The owner could have the server use
//! another place by a link, with more rights than the owner has.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use howdah_files::LinkedPath;
use howdah_sys::credentials;
use howdah_sys::open::{self, Access, Lookup};

/// Returns the path without links, if each of them belongs to root, to the server's user or to the
/// owner of the place that it leads to. A link that is neither root's nor the server's must not
/// lead out of its folder. The file need not exist.
///
/// # Errors
/// A link is another's or leads away, or a part of the path cannot be looked up.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = parts(path)?;
    let folder = LinkedPath::of(&folder)?;
    let file = folder.real.join(name);
    let found = match file.is_symlink() {
        // The file belongs to this process, whoever owns its folder.
        false => LinkedPath { real: file, ..folder },
        true => LinkedPath::of(&file)?,
    };
    checked(found)
}

/// Returns the path of a file that exists without links, if each of them belongs to root, to the
/// server's user or to the owner of that file, wherever it leads.
///
/// # Errors
/// A link is another's, or a part of the path cannot be looked up.
pub(crate) fn owned(path: &Path) -> io::Result<PathBuf> {
    own_links(LinkedPath::of(&std::path::absolute(path)?)?).map(|found| found.real)
}

/// Returns whether a part of the path belongs to neither root nor the server's user: its owner can
/// exchange what is behind it. Parts that do not exist are nobody's.
pub(crate) fn is_anothers(path: &Path) -> bool {
    let is_foreign = |found: io::Result<fs::Metadata>| {
        found.is_ok_and(|found| ![0, credentials::own_user()].contains(&found.uid()))
    };
    let path = std::path::absolute(path).unwrap_or_default();
    path.ancestors()
        .skip(1)
        .any(|part| is_foreign(fs::symlink_metadata(part)) || is_foreign(fs::metadata(part)))
}

fn parts(path: &Path) -> io::Result<(PathBuf, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((std::path::absolute(folder)?, name)),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}

fn own_links(found: LinkedPath) -> io::Result<LinkedPath> {
    match found.foreign_link {
        None => Ok(found),
        Some(link) => Err(io::Error::other(format!(
            "the link {} belongs neither to root nor to the owner of the place that it leads to",
            link.display()
        ))),
    }
}

fn checked(found: LinkedPath) -> io::Result<PathBuf> {
    let found = own_links(found)?;
    // Sites of one user could use each other's files.
    let leads_away = |link: &Path| link.parent().is_none_or(|home| !found.real.starts_with(home));
    let is_others = |link: &Path| {
        fs::symlink_metadata(link).map_or(true, |link| link.uid() != credentials::own_user())
    };
    match found.first_link.filter(|link| leads_away(link) && is_others(link)) {
        None => Ok(found.real),
        Some(link) => Err(io::Error::other(format!(
            "the link {} leads out of its folder, where another site of the same user may be; \
             make root the link's owner with `chown -h root`",
            link.display()
        ))),
    }
}

/// A name in a folder that is open: no link on the way is followed any more, wherever the path
/// leads by now.
#[derive(Debug)]
pub(crate) struct PathInFolder {
    folder: OwnedFd,
    name: CString,
    /// The path without links.
    pub(crate) real: PathBuf,
}

impl PathInFolder {
    /// Opens the folder of `path`. The last part of the path is taken as it is.
    ///
    /// # Errors
    /// The errors of [`resolved`]. The folder does not exist, or has just been exchanged for a
    /// link.
    pub(crate) fn unfollowed(path: &Path) -> io::Result<PathInFolder> {
        let (folder, name) = parts(path)?;
        let folder = checked(LinkedPath::of(&folder)?)?;
        PathInFolder::below(&folder, name)
    }

    /// Opens the folder that the file at `path` is in, after links.
    ///
    /// # Errors
    /// The errors of [`PathInFolder::unfollowed`].
    pub(crate) fn followed(path: &Path) -> io::Result<PathInFolder> {
        let real = resolved(path)?;
        let (folder, name) = parts(&real)?;
        PathInFolder::below(&folder, name)
    }

    fn below(folder: &Path, name: &OsStr) -> io::Result<PathInFolder> {
        let text = CString::new(folder.as_os_str().as_bytes())?;
        Ok(PathInFolder {
            folder: open::unlinked(&text, Access::Folder)?,
            name: CString::new(name.as_bytes())?,
            real: folder.join(name),
        })
    }

    /// Opens the file to refer to it. A link is an error.
    ///
    /// # Errors
    /// The error of `openat2(2)`.
    pub(crate) fn point(&self) -> io::Result<OwnedFd> {
        open::beneath(self.folder.as_fd(), &self.name, Access::Point, Lookup::Full)
    }

    /// A path to the name in the open folder, for this process and as long as `self` lives.
    pub(crate) fn in_process(&self) -> PathBuf {
        path_of(&self.folder).join(OsStr::from_bytes(self.name.as_bytes()))
    }
}

/// A path to the open file, for this process and as long as it is open.
pub(crate) fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn a_folder_that_is_exchanged_for_a_link_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["site/run", "other"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("other/socket"), "").unwrap();
        fs::write(at("site/run/socket"), "").unwrap();
        let place = PathInFolder::unfollowed(&at("site/run/socket")).unwrap();
        let former = fs::metadata(at("site/run/socket")).unwrap().ino();
        fs::rename(at("site/run"), at("site/run0")).unwrap();
        symlink("../other", at("site/run")).unwrap();
        let found = place.point().unwrap();
        assert_eq!(fs::metadata(path_of(&found)).unwrap().ino(), former);
        assert_eq!(fs::metadata(place.in_process()).unwrap().ino(), former);

        symlink("socket", at("site/run0/link")).unwrap();
        let link = at("site/run0/link");
        assert!(PathInFolder::unfollowed(&link).unwrap().point().is_err());
        assert!(PathInFolder::followed(&link).unwrap().point().is_ok());
        if credentials::own_user() != 0 {
            howdah_skip::skip!("only root can give links away");
            return;
        }
        for name in ["site/run", "site", "site/run0"] {
            lchown(at(name), Some(7), None).unwrap();
        }
        let refused = |owner| {
            lchown(at("other"), Some(owner), None).unwrap();
            PathInFolder::unfollowed(&at("site/run/socket")).unwrap_err().to_string()
        };
        assert!(refused(8).contains("belongs neither to root"));
        assert!(refused(7).contains("leads out of its folder"));
    }
}
