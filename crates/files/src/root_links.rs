//! Links in the paths of the configuration, such as the document root `current -> releases/7`.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use howdah_sys::credentials;
use howdah_sys::folder;
use howdah_sys::open::{self, Access, LinkBound, Lookup};
use howdah_sys::stat::{FileType, Stat};

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
    /// The first link on the way that is not root's. The owner of a site's files may have made it.
    pub first_link: Option<PathBuf>,
    /// The links on the way up to that one; all if each is root's.
    pub links: Vec<PathBuf>,
    /// The path up to that link as root has laid it, and from there on as it is written.
    pub laid: PathBuf,
    /// The part of [`LinkedPath::real`] that exists.
    pub known: PathBuf,
    /// The reason why the rest is not known. `None`: the whole path exists.
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

    /// Looks up a path as [`LinkedPath::of`] does, and tells `note` each path before the disk is
    /// asked about it: the last one is where a file system hangs. Its folders are no links.
    ///
    /// # Errors
    /// Those of [`LinkedPath::of`].
    pub fn noting(path: &Path, note: &mut dyn FnMut(&Path)) -> io::Result<LinkedPath> {
        let walk = walk(path, note)?;
        let owner = walk.here().1.owner;
        let number = walk.links.iter().position(|link| link.owner != 0);
        let first = number.map(|number| &walk.links[number]);
        let links = walk.links.iter().take(number.map_or(walk.links.len(), |number| number + 1));
        Ok(LinkedPath {
            links: links.map(|link| link.path.clone()).collect(),
            foreign_link: walk.foreign_to(owner),
            first_link: first.map(|link| link.path.clone()),
            laid: first.map_or_else(|| walk.end.clone(), |link| link.laid.clone()),
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

/// The place of a folder that is made with this process's rights, and may belong to another user.
/// The place is kept as an open folder: whatever is exchanged later on the way, nothing is made
/// elsewhere.
#[derive(Debug)]
pub struct FolderPlace {
    /// The path without symbolic links.
    pub real: PathBuf,
    /// The folder's own name.
    pub name: CString,
    /// The last folder above that exists.
    above: OwnedFd,
    /// The names of the folders between these two.
    missing: Vec<CString>,
}

impl FolderPlace {
    /// Follows the links of an absolute path. Makes nothing.
    ///
    /// # Errors
    /// A link on the way is not the administrator's, or could be exchanged by somebody else; or as
    /// of [`LinkedPath::of`].
    pub fn of(path: &Path) -> io::Result<FolderPlace> {
        let mut walk = walk(path, &mut |_| {})?;
        if let Some(link) = walk.links.iter().find(|link| !link.is_kept) {
            return Err(io::Error::other(format!(
                "the link {}, which belongs to user {}, is not followed, because others than root \
                 can change it; give the path without the link, or let root own the link, and \
                 nobody else write to the folders above it",
                link.path.display(),
                link.owner
            )));
        }
        if walk.missing.is_none() {
            walk.opened.pop();
            walk.known.pop();
        }
        let (above, _) = walk.opened.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let rest = walk.end.strip_prefix(&walk.known).map_err(|_| io::ErrorKind::NotFound)?;
        let mut missing = rest
            .iter()
            .map(|name| CString::new(name.as_bytes()))
            .collect::<Result<Vec<CString>, _>>()?;
        Ok(FolderPlace {
            name: missing.pop().ok_or(io::ErrorKind::InvalidInput)?,
            real: walk.end,
            above,
            missing,
        })
    }

    /// Opens the folder above. Makes those that are missing, with mode 0755.
    ///
    /// # Errors
    /// A folder cannot be made, or something else is in its place by now.
    pub fn parent(&self) -> io::Result<OwnedFd> {
        let mut folder = self.above.try_clone()?;
        for name in &self.missing {
            folder = folder::make_shared(folder.as_fd(), name)?;
        }
        Ok(folder)
    }
}

/// The way of a document root to the folder at its end.
#[derive(Debug)]
pub(crate) struct RootWay {
    /// The path without symbolic links.
    pub(crate) real: PathBuf,
    /// Whether each link on the way belongs to root, to the server's user or to the owner of the
    /// folder. A link's owner can otherwise publish what the server may read and the owner may not.
    pub(crate) may_lead: bool,
    /// Whether each link on the way is root's. Another one may be a site's own.
    pub(crate) is_of_root: bool,
}

/// Returns the way of the document root `path` to `folder`, which was opened there. `None` where
/// the path leads to another folder by now: what was opened was not checked then.
///
/// # Errors
/// Where a part of the path cannot be looked up.
pub(crate) fn root_way(path: &Path, folder: &Stat) -> io::Result<Option<RootWay>> {
    let walk = walk(path, &mut |_| {})?.complete()?;
    let leads_there = walk.here().1.identity() == folder.identity();
    Ok(leads_there.then(|| RootWay {
        may_lead: walk.foreign_to(folder.owner).is_none(),
        is_of_root: walk.links.iter().all(|link| link.owner == 0),
        real: walk.end,
    }))
}

/// The way of a path through its links. Each step is opened from the folder before it, and no
/// step through a link: what is exchanged meanwhile leads to no place that was not looked at.
struct Walk {
    /// The path without links.
    end: PathBuf,
    /// The part of `end` that exists.
    known: PathBuf,
    /// The folders from `/` to `known`, and the file there if it is none.
    opened: Vec<(OwnedFd, Stat)>,
    links: Vec<LinkOnWay>,
    /// The reason why the rest of the path is not known.
    missing: Option<io::Error>,
    bound: LinkBound,
}

/// A symbolic link on the way.
struct LinkOnWay {
    path: PathBuf,
    owner: u32,
    /// Its path, and the rest as it is written.
    laid: PathBuf,
    /// The result of [`Walk::is_kept`].
    is_kept: bool,
}

fn walk(path: &Path, note: &mut dyn FnMut(&Path)) -> io::Result<Walk> {
    let top = open::folder(c"/", Lookup::Full)?;
    let stat = Stat::of(top.as_fd())?;
    let mut walk = Walk {
        end: PathBuf::from("/"),
        known: PathBuf::from("/"),
        opened: vec![(top, stat)],
        links: Vec::new(),
        missing: None,
        bound: LinkBound::default(),
    };
    let mut steps: Vec<PathBuf> = steps_of(path);
    while let Some(step) = steps.pop() {
        match step.components().next() {
            Some(Component::Normal(name)) => walk.enter(name, &mut steps, note)?,
            Some(Component::ParentDir) => walk.go_up(),
            Some(Component::RootDir) => walk.go_to_top(),
            _ => {}
        }
        if walk.missing.is_none() {
            walk.known.clone_from(&walk.end);
        }
    }
    Ok(walk)
}

impl Walk {
    /// # Errors
    /// A part of the path does not exist.
    fn complete(mut self) -> io::Result<Walk> {
        self.missing.take().map_or(Ok(self), Err)
    }

    /// The end of the part that exists.
    fn here(&self) -> &(OwnedFd, Stat) {
        self.opened.last().expect("the walk begins at `/`, which is never left")
    }

    /// The first link that belongs neither to root nor to the server's user nor to `owner`.
    fn foreign_to(&self, owner: u32) -> Option<PathBuf> {
        // The server may read no more than its own user.
        let trusted = [0, owner, credentials::own_user()];
        let found = self.links.iter().find(|link| !trusted.contains(&link.owner));
        found.map(|link| link.path.clone())
    }

    /// Returns whether `link`, in the folder that was reached, belongs to root or to the server's
    /// user. Where the server's user is root, no other user may be able to move the link, or a
    /// folder above it, either.
    fn is_kept(&self, link: &Stat) -> bool {
        let own = credentials::own_user();
        let is_kept = |(_, folder): &(OwnedFd, Stat)| {
            folder.owner == 0 && (folder.mode & WRITABLE == 0 || folder.mode & STICKY != 0)
        };
        [0, own].contains(&link.owner) && (own != 0 || self.opened.iter().all(is_kept))
    }

    fn go_up(&mut self) {
        self.end.pop();
        if self.missing.is_none() && self.opened.len() > 1 {
            self.opened.pop();
        }
    }

    fn go_to_top(&mut self) {
        self.end = PathBuf::from("/");
        if self.missing.is_none() {
            self.opened.truncate(1);
        }
    }

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
        let name = CString::new(name.as_bytes())?;
        match step(self.here().0.as_fd(), &name) {
            Ok((link, stat)) if stat.file_type() == FileType::Link => {
                let target = open::link_target(link.as_fd())?;
                if self.bound.follow(&target).is_err() {
                    return Err(io::Error::other("the links on the way are too many or too long"));
                }
                self.links.push(LinkOnWay {
                    laid: rest(&next, steps),
                    path: next,
                    owner: stat.owner,
                    is_kept: self.is_kept(&stat),
                });
                steps.append(&mut steps_of(Path::new(OsStr::from_bytes(&target))));
            }
            Ok(opened) => {
                self.end = next;
                self.opened.push(opened);
            }
            Err(error) => {
                self.end = next;
                self.missing = Some(error);
            }
        }
        Ok(())
    }
}

/// The rights of group and others to make files in a folder, and to remove and rename them.
const WRITABLE: u32 = 0o022;
/// In a folder with this mode bit, each user removes and renames the own files only.
const STICKY: u32 = 0o1000;

/// Opens what is at `name`, which may be a link.
fn step(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<(OwnedFd, Stat)> {
    // A folder that is mounted on demand is mounted for those who ask for a folder.
    let file = match open::step(folder, name, Access::Folder, Lookup::Full) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            open::step(folder, name, Access::Point, Lookup::Full)?
        }
        folder => folder?,
    };
    let stat = Stat::of(file.as_fd())?;
    Ok((file, stat))
}

/// `begin` with the `steps` after it, as they are written.
fn rest(begin: &Path, steps: &[PathBuf]) -> PathBuf {
    let mut path = begin.to_owned();
    for step in steps.iter().rev() {
        match step.components().next() {
            Some(Component::ParentDir) => drop(path.pop()),
            Some(Component::CurDir) | None => {}
            Some(_) => path.push(step),
        }
    }
    path
}

/// The steps of a path, the next one last.
fn steps_of(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

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
        symlink("folder/none", place.join("second")).unwrap();
        assert_eq!(
            (of("second/a/..").real, of("folder/../x").real),
            (folder.join("none"), place.join("x"))
        );
        assert_eq!(
            (of("second/a").first_link, of("second/a").laid),
            match own.owner {
                0 => (None, folder.join("none/a")),
                _ => (Some(place.join("second")), place.join("second/a")),
            }
        );
        assert_eq!((of("link/no/such").known, of("link").missing), (folder.clone(), None));
        let mut noted = Vec::new();
        LinkedPath::noting(&link, &mut |path| noted.push(path.to_owned())).unwrap();
        assert_eq!(noted[noted.len() - 2..], [link.clone(), folder.clone()]);
        symlink("circle", place.join("circle")).unwrap();
        assert!(LinkedPath::of(&place.join("circle")).is_err());
        if own.owner == 0 {
            lchown(&link, Some(7), None).unwrap();
            for name in ["link", "link/no/such"] {
                assert_eq!(of(name).foreign_link.as_ref(), Some(&link), "{name}");
                assert_eq!(of(name).first_link.as_ref(), Some(&link), "{name}");
                assert_eq!(of(name).laid, place.join(name), "{name}");
            }
            lchown(&folder, Some(7), None).unwrap();
            assert_eq!(of("link").foreign_link, None);
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn only_the_administrators_links_lead_to_the_place_of_a_folder() {
        let top = std::env::temp_dir().join(format!("howdah-place-{}", std::process::id()));
        let top = fs::create_dir_all(top.join("a/b")).and_then(|()| top.canonicalize()).unwrap();
        symlink("a/b", top.join("link")).unwrap();
        let of = |name: &str| FolderPlace::of(&top.join(name));
        let place = of("link/c/../d/e").unwrap();
        assert_eq!((&*place.real, &*place.name), (&*top.join("a/b/d/e"), c"e"));
        assert!(!top.join("a/b/d").exists());
        place.parent().unwrap();
        assert!(top.join("a/b/d").is_dir() && !top.join("a/b/d/e").exists());
        // A folder that exists is the end of its path.
        assert_eq!(of("link").unwrap().name.as_c_str(), c"b");
        assert!(FolderPlace::of(Path::new("/")).is_err());
        assert!(of("link/c/../../x").is_err());
        if fs::metadata(&top).unwrap().uid() == 0 {
            let refused = || of("link/d").unwrap_err().to_string();
            lchown(top.join("a"), Some(7), None).unwrap();
            assert!(of("link/d").is_ok(), "the folder that the link leads to may be anybody's");
            lchown(&top, Some(7), None).unwrap();
            assert!(refused().contains("link, which belongs to user 0, is not followed"));
            lchown(&top, Some(0), None).unwrap();
            fs::set_permissions(&top, fs::Permissions::from_mode(0o775)).unwrap();
            assert!(refused().contains("is not followed"));
            fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
            assert!(of("link/d").is_ok());
            lchown(top.join("link"), Some(7), None).unwrap();
            assert!(refused().contains("link, which belongs to user 7, is not followed"));
        }
        fs::remove_dir_all(&top).unwrap();
    }
}
