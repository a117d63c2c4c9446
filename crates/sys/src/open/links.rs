//! Absolute paths with symbolic links: followed one by one, with a bound.
//!
//! The kernel follows 40 links, each of up to 4,095 bytes: a path of a few bytes then takes it
//! milliseconds, again at every look. A site's owner can make such links, so no path that an owner
//! can influence is left to the kernel's own walk.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{Access, Lookup, cached, cached_at_hand, link_target, open_at, openat2, step};
use crate::credentials::own_user;
use crate::stat::{FileType, Stat};

/// The links that one path may lead through.
#[derive(Debug, Default)]
pub struct LinkBound {
    links: usize,
    names: usize,
}

/// A path that leads through too many links, or through links with too many names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyNames;

impl LinkBound {
    /// Counts a link with that target, which is about to be followed.
    ///
    /// # Errors
    /// The path leads through more than [`MOST_LINKS`], or their targets have more than
    /// [`MOST_LINK_NAMES`] together.
    pub fn follow(&mut self, target: &[u8]) -> Result<(), TooManyNames> {
        self.links += 1;
        self.names += names(target).count();
        match self.links > MOST_LINKS || self.names > MOST_LINK_NAMES {
            true => Err(TooManyNames),
            false => Ok(()),
        }
    }
}

impl From<TooManyNames> for io::Error {
    fn from(_: TooManyNames) -> io::Error {
        io::Error::from_raw_os_error(libc::ELOOP)
    }
}

/// Opens what is at `path`, with `follows` through a link at its end. Adds to `steps` how many were
/// taken along links.
///
/// # Errors
/// `ELOOP` beyond the bound of links, or the error of `openat2(2)`. With [`Lookup::Cached`]
/// `WouldBlock` as with [`folder()`](super::folder).
pub fn counted(
    path: &CStr,
    (access, follows): (Access, bool),
    lookup: Lookup,
    steps: &mut u64,
) -> io::Result<OwnedFd> {
    let flags = access.flags() | if follows { 0 } else { libc::O_NOFOLLOW };
    let found = match lookup {
        Lookup::Cached => open_cached(path, flags),
        Lookup::Full => None,
    };
    let resolve = libc::RESOLVE_NO_SYMLINKS;
    let found = found.unwrap_or_else(|| openat2(libc::AT_FDCWD, path, flags, resolve));
    match found.as_ref().err().and_then(io::Error::raw_os_error) {
        // A link is on the way; or the kernel or a sandbox does not know the call.
        Some(libc::ELOOP | libc::ENOSYS | libc::EPERM) => {
            LinkedWalk::new(path, lookup)?.run(access, follows, steps)
        }
        _ => found,
    }
}

/// Opens a path without links by what the kernel has in memory. `None`: the kernel or a sandbox
/// does not know how.
fn open_cached(path: &CStr, flags: libc::c_int) -> Option<io::Result<OwnedFd>> {
    let resolve = libc::RESOLVE_NO_SYMLINKS;
    // A file that is only pointed to is not opened by its file system.
    let kept = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    match cached_at_hand(path, libc::O_PATH | flags & kept, resolve)? {
        Ok(_) if flags & libc::O_PATH == 0 => cached(libc::AT_FDCWD, path, flags, resolve),
        found => Some(found),
    }
}

/// A walk along a path, through its links.
struct LinkedWalk {
    at: OwnedFd,
    /// The names left, the next one last.
    left: Vec<Vec<u8>>,
    bound: LinkBound,
    lookup: Lookup,
}

impl LinkedWalk {
    fn new(path: &CStr, lookup: Lookup) -> io::Result<LinkedWalk> {
        let path = path.to_bytes();
        if path.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if names(path).count() > MOST_NAMES {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let mut walk = LinkedWalk {
            // A server's own folder may be closed to its user; an absolute path does not need it.
            at: open_at(
                libc::AT_FDCWD,
                if path.starts_with(b"/") { c"/" } else { c"." },
                Access::Folder.flags(),
            )?,
            left: Vec::new(),
            bound: LinkBound::default(),
            lookup,
        };
        walk.add(path)?;
        Ok(walk)
    }

    fn run(mut self, access: Access, follows: bool, steps: &mut u64) -> io::Result<OwnedFd> {
        while let Some(name) = self.left.pop() {
            *steps += 1;
            if name == b"." || name == b".." {
                // The path so far has to be a folder, as in `file/.`.
                let name = if name == b"." { c"." } else { c".." };
                self.at = open_at(self.at.as_raw_fd(), name, Access::Folder.flags())?;
                continue;
            }
            let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
            let found = step(self.at.as_fd(), &name, Access::Point, self.lookup)?;
            let stat = Stat::of(found.as_fd())?;
            let is_link = stat.file_type() == FileType::Link;
            if is_link && (follows || !self.left.is_empty()) {
                self.check_owner(&stat)?;
                let target = link_target(found.as_fd())?;
                self.bound.follow(&target)?;
                self.add(&target)?;
            } else if self.left.is_empty() && access != Access::Point {
                return step(self.at.as_fd(), &name, access, self.lookup);
            } else if !self.left.is_empty() {
                // Unlike a file that is pointed to, a folder that is opened is mounted where the
                // system mounts it on demand.
                self.at = step(self.at.as_fd(), &name, Access::Folder, self.lookup)?;
            } else {
                self.at = found;
            }
        }
        match access {
            Access::Point | Access::Folder => Ok(self.at),
            Access::Read => step(self.at.as_fd(), c".", access, self.lookup),
        }
    }

    /// Refuses a link in a folder such as `/tmp`, where everybody may put one, unless it belongs to
    /// this process's user or to the folder's owner: as the kernel does with
    /// `fs.protected_symlinks`.
    fn check_owner(&self, link: &Stat) -> io::Result<()> {
        let folder = Stat::of(self.at.as_fd())?;
        let is_shared = folder.mode & SHARED == SHARED;
        match is_shared && link.owner != own_user() && link.owner != folder.owner {
            true => Err(io::Error::from_raw_os_error(libc::EACCES)),
            false => Ok(()),
        }
    }

    /// Adds the names of a path, and goes to `/` where it begins there.
    fn add(&mut self, path: &[u8]) -> io::Result<()> {
        // A path with a slash at its end names a folder.
        if path.ends_with(b"/") {
            self.left.push(b".".to_vec());
        }
        self.left.extend(names(path).map(<[u8]>::to_vec));
        if path.starts_with(b"/") {
            self.at = open_at(libc::AT_FDCWD, c"/", Access::Folder.flags())?;
        }
        Ok(())
    }
}

/// The names of a path, the last one first.
fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.rsplit(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// The rights of a folder in which everybody may make files, and remove their own.
const SHARED: u32 = libc::S_ISVTX | libc::S_IWOTH;

/// The number of links that Linux follows. A path with more of them fails with `ELOOP`.
pub const MOST_LINKS: usize = 40;

/// Names in the targets of all links on one path. A path beyond the bound leads nowhere.
pub const MOST_LINK_NAMES: usize = 256;

/// Names in a path with links, without those in the links. A path with more leads nowhere.
const MOST_NAMES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::{Path, PathBuf};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("howdah-links-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("a/b")).unwrap();
            fs::write(path.join("a/b/file"), "x").unwrap();
            let path = path.canonicalize().unwrap();
            for (target, link) in [
                ("b", "a/link"),
                ("link/file", "a/file-link"),
                ("../a/link/", "a/slash"),
                ("file-link/", "a/file-slash"),
                ("circle", "circle"),
                ("missing", "dangling"),
            ] {
                symlink(target, path.join(link)).unwrap();
            }
            symlink(path.join("a"), path.join("absolute")).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn both(path: &Path, follows: bool) -> [Result<(u64, u64), Option<i32>>; 2] {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let kernel = match follows {
            true => fs::metadata(path),
            false => fs::symlink_metadata(path),
        };
        let ours = counted(&name, (Access::Point, follows), Lookup::Full, &mut 0)
            .and_then(|found| Stat::of(found.as_fd()));
        let identities =
            [kernel.map(|file| (file.dev(), file.ino())), ours.map(|file| file.identity())];
        identities.map(|found| found.map_err(|error| error.raw_os_error()))
    }

    #[test]
    fn a_walk_ends_where_the_kernels_ends() {
        let folder = Folder::new("walk");
        for name in [
            "",
            "/",
            "a",
            "a/",
            "a/.",
            "a/link",
            "a/link/",
            "a/link/.",
            "a/link/..",
            "a/link/file",
            "a/file-link",
            "a/file-link/",
            "a/file-link/.",
            "a/file-link/..",
            "a/slash",
            "a/slash/file",
            "a/file-slash",
            "circle",
            "circle/x",
            "dangling",
            "dangling/x",
            "absolute",
            "absolute/link/../b/file",
            "absolute/b/file/x",
            "absolute/none",
        ] {
            for follows in [true, false] {
                let path = PathBuf::from(format!("{}/{name}", folder.0.display()));
                let [kernel, ours] = both(&path, follows);
                assert_eq!(ours, kernel, "{name} {follows}");
            }
        }
    }

    #[test]
    fn links_with_too_many_names_lead_nowhere() {
        let folder = Folder::new("names");
        let to = |link: &str, target: &str| {
            symlink(target, folder.0.join(link)).unwrap();
            both(&folder.0.join(link), true)
        };
        let [kernel, ours] = to("most", &format!("{}a/b/file", "a/../".repeat(126)));
        assert!(ours.is_ok() && ours == kernel, "{ours:?}");
        let [kernel, ours] = to("more", &format!("{}a/b/file", "a/../".repeat(127)));
        assert!(kernel.is_ok());
        assert_eq!(ours, Err(Some(libc::ELOOP)));
        let half = format!("{}a/b", "a/../".repeat(70));
        assert!(to("half", &half).iter().all(Result::is_ok));
        let [kernel, ours] = to("whole", &format!("{}half/file", "a/../".repeat(70)));
        assert!(kernel.is_ok());
        assert_eq!(ours, Err(Some(libc::ELOOP)));
    }
}
