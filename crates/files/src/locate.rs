//! Opens what a path names below a document root, through the links that the site's rule allows.
//!
//! Without links on the way one `openat2` does it. With links, the path is walked: one descriptor
//! per component, none ever opened through a link, each link read by its own descriptor. The file
//! that is checked is the file that is opened, whatever is renamed meanwhile; a `..` in a link goes
//! back to the descriptor before it, not to where the folder may have been moved to.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use howdah_site::{PathKind, Symlinks};
use howdah_sys::open::errno::{
    EACCES, ELOOP, ENAMETOOLONG, ENODEV, ENOENT, ENOTDIR, ENXIO, EPERM, EXDEV,
};
use howdah_sys::open::{self, Access, LinkBound, Lookup};
use howdah_sys::stat::{FileType, Stat};

use crate::disk_access::DiskAccess;
use crate::open_root::OpenRoot;

/// Something below a root.
#[derive(Debug)]
pub(crate) struct LocatedFile {
    /// The file, open for reading; only a pointer where it is no regular file or [`ReadAccess::No`]
    /// was asked.
    pub file: OwnedFd,
    pub stat: Stat,
    /// Whether `file` can be read.
    pub readable: bool,
}

/// The reason why a path cannot be opened.
#[derive(Debug)]
pub(crate) enum PathObstacle {
    /// Nothing is there.
    Missing,
    /// The path may not be reached.
    Forbidden,
    /// The path leads through too many links, or through links with too many names.
    TooManyNames,
    /// A link leads into a folder of another site.
    OtherSite,
    /// A failure: no descriptors left, a broken disk.
    Failed(io::Error),
    /// Another store has to look first: the disk would have to be waited for, a file of directives
    /// compiled, or many links followed.
    Postponed,
}

/// The wish for a regular file that is open for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    Yes,
    No,
}

/// Called where the walk leaves the path because of a link, so that those folders can be watched as
/// well: with the folder, the name looked up in it, and the path below the root up to the link.
pub(crate) type LinkTrail<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, &[u8], &[u8]);

/// Opens what `path` names below `root`. `path` is normalised; `.` is the root itself.
///
/// # Errors
/// The obstacle on the way, or at the path itself.
pub(crate) fn locate(
    root: &OpenRoot,
    path: &CStr,
    reading: ReadAccess,
    disk: &DiskAccess,
    trail: LinkTrail<'_>,
) -> Result<LocatedFile, PathObstacle> {
    match plain(root, path, reading, disk.lookup()) {
        Err(error) if error.raw_os_error() == Some(ELOOP) => {}
        other => return other.map_err(|error| disk.obstacle(error)),
    }
    for _ in 1..ATTEMPTS {
        match LinkWalk::new(root, path, disk).run(reading, trail) {
            Err(PathObstacle::Failed(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
    LinkWalk::new(root, path, disk).run(reading, trail)
}

/// For paths without links; else `ELOOP`.
fn plain(
    root: &OpenRoot,
    path: &CStr,
    reading: ReadAccess,
    lookup: Lookup,
) -> io::Result<LocatedFile> {
    if reading == ReadAccess::Yes {
        match open::beneath(root.folder(), path, Access::Read, lookup) {
            Ok(file) => {
                let stat = Stat::of(file.as_fd())?;
                return Ok(LocatedFile {
                    file,
                    stat,
                    readable: stat.file_type() == FileType::Regular,
                });
            }
            // A file without read permission, a folder that may be entered but not listed, or a
            // socket, which cannot be opened.
            Err(error) if matches!(error.raw_os_error(), Some(EACCES | ENXIO)) => {}
            Err(error) => return Err(error),
        }
    }
    let file = open::beneath(root.folder(), path, Access::Point, lookup)?;
    let stat = Stat::of(file.as_fd())?;
    Ok(LocatedFile { file, stat, readable: false })
}

/// A walk from the root to what a path names.
struct LinkWalk<'a> {
    root: &'a OpenRoot,
    disk: &'a DiskAccess,
    /// The folders from where the walk began (the root, or `/` after a link that left it) to where
    /// it is.
    folders: Vec<OpenFolder>,
    /// The steps left; the next one last.
    steps: Vec<PathStep>,
    /// The part of the path that was walked outside links, including the link that is being
    /// followed.
    path: Vec<u8>,
    bound: LinkBound,
    /// Links that are being followed.
    depth: usize,
    /// Whether a link that is not root's has led out of the root. Names after it may lead into a
    /// folder of another site, too.
    has_left: bool,
    /// The end of the walk, if that is no folder.
    end: Option<(CString, LocatedFile)>,
}

struct OpenFolder {
    fd: OwnedFd,
    stat: Stat,
    /// Its name; empty for the folder where the walk began.
    name: Vec<u8>,
    /// Whether this is the root or below it.
    inside: bool,
}

enum PathStep {
    Name(Vec<u8>),
    /// `..` in a link.
    Up,
    /// `/` at the beginning of a link.
    Top,
    /// A link of this owner has been followed to its end.
    EndOfLink {
        owner: u32,
    },
}

impl<'a> LinkWalk<'a> {
    fn new(root: &'a OpenRoot, path: &CStr, disk: &'a DiskAccess) -> LinkWalk<'a> {
        let mut walk = LinkWalk {
            root,
            disk,
            folders: Vec::new(),
            steps: Vec::new(),
            path: Vec::new(),
            bound: LinkBound::default(),
            depth: 0,
            has_left: false,
            end: None,
        };
        walk.push_steps(path.to_bytes());
        walk
    }

    fn run(
        mut self,
        reading: ReadAccess,
        trail: LinkTrail<'_>,
    ) -> Result<LocatedFile, PathObstacle> {
        let fd = self.step(self.root.folder(), c".", Access::Folder)?;
        self.enter(fd)?;
        while let Some(step) = self.steps.pop() {
            self.disk.take_steps(1)?;
            match step {
                PathStep::Name(name) => self.name(name, trail)?,
                PathStep::Up => self.up()?,
                PathStep::Top => self.top()?,
                PathStep::EndOfLink { owner } => self.end_of_link(owner)?,
            }
        }
        self.finish(reading)
    }

    fn name(&mut self, name: Vec<u8>, trail: LinkTrail<'_>) -> Result<(), PathObstacle> {
        if self.end.is_some() {
            return Err(PathObstacle::Missing); // a file on the way
        }
        if self.depth == 0 {
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&name);
        }
        let folder = self.here()?.fd.as_fd();
        if self.depth > 0 {
            trail(folder, &name, &self.path);
        }
        let name = CString::new(name).map_err(|_| PathObstacle::Missing)?;
        let fd = self.step(folder, &name, Access::Point)?;
        let stat = Stat::of(fd.as_fd())?;
        match stat.file_type() {
            FileType::Directory => self.push_folder(fd, stat, name.into_bytes()),
            FileType::Link => self.follow(&open::link_target(fd.as_fd())?, stat.owner)?,
            _ => self.end = Some((name, LocatedFile { file: fd, stat, readable: false })),
        }
        Ok(())
    }

    fn follow(&mut self, target: &[u8], owner: u32) -> Result<(), PathObstacle> {
        self.refuse_other_site()?;
        self.bound.follow(target).map_err(|_| PathObstacle::TooManyNames)?;
        self.depth += 1;
        self.steps.push(PathStep::EndOfLink { owner });
        self.push_steps(target);
        Ok(())
    }

    /// Goes back to the folder before this one. Above the root there is none, so from there the
    /// walk begins at `/`.
    fn up(&mut self) -> Result<(), PathObstacle> {
        if self.end.is_some() {
            return Err(PathObstacle::Missing);
        }
        if self.folders.len() > 1 {
            self.folders.pop();
        } else if self.here()?.inside {
            // `/` has nothing above it, and is what is above it.
            let above = self.root.real_path().parent().unwrap_or(Path::new("/"));
            self.push_steps(above.as_os_str().as_bytes());
        }
        Ok(())
    }

    fn top(&mut self) -> Result<(), PathObstacle> {
        if self.end.is_some() {
            return Err(PathObstacle::Missing);
        }
        self.folders.clear();
        self.enter(open::folder(c"/", Lookup::Full)?)?;
        Ok(())
    }

    /// Applies the site's rule at the end of a link.
    fn end_of_link(&mut self, owner: u32) -> Result<(), PathObstacle> {
        self.depth -= 1;
        let here = self.here()?;
        let target = self.end.as_ref().map_or(&here.stat, |(_, end)| &end.stat);
        let allowed = match self.root.symlinks() {
            Symlinks::Follow => true,
            Symlinks::Inside => here.inside,
            // Links of root are the administrator's decision; another owner can only give away its
            // own files.
            Symlinks::Owner if here.inside || owner == 0 => true,
            Symlinks::Owner if owner != target.owner => false,
            Symlinks::Owner => {
                self.has_left = true;
                return self.refuse_other_site();
            }
        };
        if allowed { Ok(()) } else { Err(PathObstacle::Forbidden) }
    }

    /// Refuses a folder of another site to which a link that is not root's has led.
    fn refuse_other_site(&self) -> Result<(), PathObstacle> {
        let is_outside = self.has_left && !self.here()?.inside;
        match is_outside && self.root.is_closed_to_it(&self.real_path()) {
            true => Err(PathObstacle::OtherSite),
            false => Ok(()),
        }
    }

    /// The path of the folder where the walk is. It has no links, since the walk follows them
    /// itself.
    fn real_path(&self) -> PathBuf {
        let begins_inside = self.folders.first().is_some_and(|first| first.inside);
        let began = if begins_inside {
            self.root.real_path()
        } else {
            Path::new("/")
        };
        let names = self.folders.iter().skip(1).map(|folder| OsStr::from_bytes(&folder.name));
        began.components().map(Component::as_os_str).chain(names).collect()
    }

    fn finish(self, reading: ReadAccess) -> Result<LocatedFile, PathObstacle> {
        self.refuse_other_site()?;
        let Some(here) = self.folders.into_iter().next_back() else {
            return Err(PathObstacle::Missing);
        };
        let Some((name, pointer)) = self.end else {
            return Ok(LocatedFile {
                file: here.fd,
                stat: here.stat,
                readable: false,
            });
        };
        if reading == ReadAccess::No || pointer.stat.file_type() != FileType::Regular {
            return Ok(pointer);
        }
        let lookup = self.disk.lookup();
        let file = match open::step(here.fd.as_fd(), &name, Access::Read, lookup) {
            Err(error) if error.raw_os_error() == Some(EACCES) => return Ok(pointer),
            other => other.map_err(|error| self.disk.obstacle(error))?,
        };
        let stat = Stat::of(file.as_fd())?;
        if stat.identity() != pointer.stat.identity() {
            // Replaced between the two calls: what was checked is not what was opened.
            return Err(PathObstacle::Failed(io::ErrorKind::Interrupted.into()));
        }
        Ok(LocatedFile { file, stat, readable: true })
    }

    fn step(
        &self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        access: Access,
    ) -> Result<OwnedFd, PathObstacle> {
        let opened = open::step(folder, name, access, self.disk.lookup());
        opened.map_err(|error| self.disk.obstacle(error))
    }

    fn here(&self) -> Result<&OpenFolder, PathObstacle> {
        self.folders.last().ok_or(PathObstacle::Missing)
    }

    fn enter(&mut self, fd: OwnedFd) -> Result<(), PathObstacle> {
        let stat = Stat::of(fd.as_fd())?;
        self.push_folder(fd, stat, Vec::new());
        Ok(())
    }

    fn push_folder(&mut self, fd: OwnedFd, stat: Stat, name: Vec<u8>) {
        let above = self.folders.last().is_some_and(|above| above.inside);
        let inside = above || stat.identity() == self.root.identity();
        self.folders.push(OpenFolder { fd, stat, name, inside });
    }

    fn push_steps(&mut self, path: &[u8]) {
        for name in path.rsplit(|&byte| byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => self.steps.push(PathStep::Up),
                name => self.steps.push(PathStep::Name(name.to_vec())),
            }
        }
        if path.first() == Some(&b'/') {
            self.steps.push(PathStep::Top);
        }
    }
}

impl PathObstacle {
    /// Returns what resolving is told of the path.
    pub(crate) fn kind(&self) -> PathKind {
        match self {
            PathObstacle::Missing => PathKind::Missing,
            PathObstacle::Forbidden
            | PathObstacle::TooManyNames
            | PathObstacle::OtherSite
            | PathObstacle::Postponed => PathKind::Forbidden,
            // Then the store is asked for its answer, which is none: neither 404 nor 403 would be
            // true.
            PathObstacle::Failed(_) => PathKind::File,
        }
    }
}

impl From<io::Error> for PathObstacle {
    fn from(error: io::Error) -> PathObstacle {
        match error.raw_os_error() {
            Some(ENOENT | ENOTDIR | ENAMETOOLONG) => PathObstacle::Missing,
            Some(EACCES | EPERM | ELOOP | EXDEV | ENXIO | ENODEV) => PathObstacle::Forbidden,
            _ => PathObstacle::Failed(error),
        }
    }
}

/// Walks that are begun where a file is replaced meanwhile.
const ATTEMPTS: usize = 3;
