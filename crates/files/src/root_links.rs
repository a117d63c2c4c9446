//! Links in the paths of the configuration, such as the document root `current -> releases/7`.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use howdah_sys::credentials;
use howdah_sys::open::LinkBound;
use howdah_sys::stat::Stat;

/// The folder or file that a path of the configuration leads to.
#[derive(Debug, Clone)]
pub struct LinkedPath {
    /// The path without symbolic links, as far as it exists.
    pub real: PathBuf,
    /// The owner of its last part that exists.
    pub owner: u32,
    /// The first link on the way that belongs to none of root, the server's user and
    /// [`LinkedPath::owner`]. The link's owner can lead the path to any place.
    pub foreign_link: Option<PathBuf>,
    /// The part of [`LinkedPath::real`] that exists.
    pub known: PathBuf,
    /// Why the rest is not known; `None` if the whole path exists.
    pub missing: Option<String>,
}

impl LinkedPath {
    /// Follows the links of an absolute path. The rest of a path that does not exist is taken as it
    /// is written.
    ///
    /// # Errors
    /// Too many links follow each other, or a part cannot be looked up.
    pub fn of(path: &Path) -> io::Result<LinkedPath> {
        LinkedPath::noting(path, &mut |_| {})
    }

    /// As [`LinkedPath::of`]. Tells `note` each path before the disk is asked about it: the last
    /// one is where a file system hangs. Its folders are no links.
    ///
    /// # Errors
    /// As of [`LinkedPath::of`].
    pub fn noting(path: &Path, note: &mut dyn FnMut(&Path)) -> io::Result<LinkedPath> {
        let walk = walk(path, note)?;
        let owner = fs::metadata(&walk.known)?.uid();
        Ok(LinkedPath {
            foreign_link: walk.foreign_to(owner),
            real: walk.end,
            owner,
            known: walk.known,
            missing: walk.missing.map(|error| error.to_string()),
        })
    }
}

/// Returns an absolute path without its symbolic links, as `realpath(3)` does, with the bound that
/// all links have.
///
/// # Errors
/// A part of the path does not exist or cannot be looked up, or too many links are on the way.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    Ok(walk(path, &mut |_| {})?.complete()?.end)
}

/// Returns whether a site with the document root `path` may be served from `folder`, which was
/// opened there: each link on the way belongs to root, to the server's user or to the owner of the
/// folder. A link's owner can otherwise publish what the server may read and the owner may not.
///
/// Returns `false`, too, where the path leads to another folder by now: what was opened was not
/// checked then.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub(crate) fn may_lead(path: &Path, folder: &Stat) -> io::Result<bool> {
    let walk = walk(path, &mut |_| {})?.complete()?;
    let end = CString::new(walk.end.as_os_str().as_bytes())?;
    let is_foreign = walk.foreign_to(folder.owner).is_some();
    Ok(!is_foreign && Stat::of_path(&end)?.identity() == folder.identity())
}

/// Returns whether each link in `path` belongs to root or to the server's user.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub(crate) fn are_of_administrator(path: &Path) -> io::Result<bool> {
    // Nothing belongs to that number, which system calls take for "no change".
    Ok(walk(path, &mut |_| {})?.complete()?.foreign_to(u32::MAX).is_none())
}

/// Returns the link in the document root `path` because of which the site is not served, unless
/// its links are followed without a condition: one that belongs to none of root, the server's user
/// and the owner of the folder at the end.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub fn foreign_root_link(path: &Path) -> io::Result<Option<PathBuf>> {
    let owner = fs::metadata(path)?.uid();
    Ok(walk(path, &mut |_| {})?.complete()?.foreign_to(owner))
}

/// The way of a path through its links.
struct Walk {
    /// The path without links.
    end: PathBuf,
    /// The part of `end` that exists.
    known: PathBuf,
    /// The links, with their owners.
    links: Vec<(PathBuf, u32)>,
    /// The reason why the rest of the path is not known.
    missing: Option<io::Error>,
    bound: LinkBound,
}

impl Walk {
    /// # Errors
    /// A part of the path does not exist.
    fn complete(mut self) -> io::Result<Walk> {
        self.missing.take().map_or(Ok(self), Err)
    }

    /// The first link that belongs neither to root nor to the server's user nor to `owner`.
    fn foreign_to(&self, owner: u32) -> Option<PathBuf> {
        // The server may read no more than its own user.
        let trusted = [0, owner, credentials::own_user()];
        let mut links = self.links.iter();
        links.find(|(_, owner)| !trusted.contains(owner)).map(|(link, _)| link.clone())
    }
}

fn walk(path: &Path, note: &mut dyn FnMut(&Path)) -> io::Result<Walk> {
    let mut walk = Walk {
        end: PathBuf::from("/"),
        known: PathBuf::from("/"),
        links: Vec::new(),
        missing: None,
        bound: LinkBound::default(),
    };
    let mut steps: Vec<PathBuf> = steps_of(path);
    while let Some(step) = steps.pop() {
        match step.components().next() {
            Some(Component::Normal(name)) => walk.enter(name, &mut steps, note)?,
            Some(Component::ParentDir) => drop(walk.end.pop()),
            Some(Component::RootDir) => walk.end = PathBuf::from("/"),
            _ => {}
        }
        if walk.missing.is_none() {
            walk.known.clone_from(&walk.end);
        }
    }
    Ok(walk)
}

impl Walk {
    /// Goes on to `name`, or adds the target of a link to `steps`.
    fn enter(
        &mut self,
        name: &OsStr,
        steps: &mut Vec<PathBuf>,
        note: &mut dyn FnMut(&Path),
    ) -> io::Result<()> {
        let next = self.end.join(name);
        if self.missing.is_some() {
            self.end = next;
            return Ok(());
        }
        note(&next);
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&next)?;
                if self.bound.follow(target.as_os_str().as_bytes()).is_err() {
                    return Err(io::Error::other("the links on the way are too many or too long"));
                }
                steps.append(&mut steps_of(&target));
                self.links.push((next, found.uid()));
            }
            Ok(_) => self.end = next,
            Err(error) => {
                self.end = next;
                self.missing = Some(error);
            }
        }
        Ok(())
    }
}

/// The steps of a path, the next one last.
fn steps_of(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn a_link_is_foreign_where_it_leads_to_a_folder_of_somebody_else() {
        let place = std::env::temp_dir().join(format!("howdah-linked-{}", std::process::id()));
        let place = fs::create_dir_all(&place).and_then(|()| place.canonicalize()).unwrap();
        let folder = place.join("folder");
        fs::create_dir(&folder).unwrap();
        let link = place.join("link");
        symlink("folder", &link).unwrap();
        let of = |name: &str| LinkedPath::of(&place.join(name)).unwrap();
        let own = of("link");
        assert_eq!((own.real, own.foreign_link), (folder.clone(), None));
        // The part that does not exist is taken as it is.
        assert_eq!(of("link/no/such").real, folder.join("no/such"));
        assert_eq!(of("link/no/../such").real, folder.join("such"));
        assert_eq!((of("link/no/such").known, of("link").missing), (folder.clone(), None));
        let mut noted = Vec::new();
        LinkedPath::noting(&link, &mut |path| noted.push(path.to_owned())).unwrap();
        assert_eq!(noted[noted.len() - 2..], [link.clone(), folder.clone()]);
        symlink("circle", place.join("circle")).unwrap();
        assert!(LinkedPath::of(&place.join("circle")).is_err());
        assert!(foreign_root_link(&place.join("link/no")).is_err());
        if own.owner == 0 {
            lchown(&link, Some(7), None).unwrap();
            for name in ["link", "link/no/such"] {
                assert_eq!(of(name).foreign_link.as_ref(), Some(&link), "{name}");
            }
            lchown(&folder, Some(7), None).unwrap();
            assert_eq!(of("link").foreign_link, None);
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
