//! Questions of directives about the file system: about any path, and from within any folder.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use howdah_htaccess::host::{Probe, ProbeKind};
use howdah_site::DocumentPath;
use howdah_sys::folder;
use howdah_sys::open::{self, Access};
use howdah_sys::stat::{FileType, Stat};

use crate::content;
use crate::entry::{EntryKind, is_settled, now};
use crate::locate::{ReadAccess, locate};
use crate::store::FileStore;

/// Files that directives name.
#[derive(Default)]
pub(crate) struct NamedFiles {
    read: HashMap<Box<[u8]>, NamedFile>,
    /// Bytes of the files that were read.
    memory: usize,
}

/// A file that was read as a whole.
struct NamedFile {
    stat: Stat,
    settled: bool,
    content: Arc<[u8]>,
}

/// Something in a folder that is to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedName {
    /// Its name.
    pub name: Box<[u8]>,
    /// The type, size and times, links followed.
    pub probe: Probe,
}

impl FileStore {
    /// Returns what is at an absolute path, links followed: asked of the disk, past every rule.
    /// `None`: nothing is there, or the disk would have to be waited for.
    pub(crate) fn probe_path(&mut self, absolute: &[u8]) -> Option<Probe> {
        Some(probe(&self.stat_path(&CString::new(absolute).ok()?, true)?))
    }

    /// Returns what is at an absolute path, without following a link at its end. `None`: nothing is
    /// there, or the disk would have to be waited for.
    pub(crate) fn probe_link_path(&mut self, absolute: &[u8]) -> Option<Probe> {
        Some(probe(&self.stat_path(&CString::new(absolute).ok()?, false)?))
    }

    /// Returns the numbers of the owner and the group of what is at an absolute path, links
    /// followed. `None`: nothing is there, or the disk would have to be waited for.
    pub fn owners_of_path(&mut self, absolute: &[u8]) -> Option<(u32, u32)> {
        let stat = self.stat_path(&CString::new(absolute).ok()?, true)?;
        Some((stat.owner, stat.group))
    }

    /// Asks what is at a path, with `follows` at the end of a link there. `None`: nothing, or the
    /// disk would have to be waited for, which is noted.
    pub(crate) fn stat_path(&mut self, path: &CStr, follows: bool) -> Option<Stat> {
        self.note_unrepeatable();
        let found = self.open_path(path, Access::Point, follows)?;
        Stat::of(found.as_fd()).ok()
    }

    /// Opens an absolute path, with `follows` through a link at its end. The steps along links
    /// count. `None`: it cannot be opened, the steps are used up, or the disk would have to be
    /// waited for, which are both noted.
    pub(crate) fn open_path(&self, path: &CStr, access: Access, follows: bool) -> Option<OwnedFd> {
        self.disk.take_steps(0).ok()?;
        let mut steps = 0;
        let opened = open::counted(path, (access, follows), self.disk.lookup(), &mut steps);
        self.disk.take_steps(steps).ok()?;
        opened.map_err(|error| self.disk.obstacle(error)).ok()
    }

    /// Returns the content of a file, compared with the disk every time. `None`: the file cannot be
    /// read or is too long.
    pub(crate) fn read_path(&mut self, absolute: &[u8]) -> Option<Arc<[u8]>> {
        self.read_with_stat(absolute).map(|(content, _)| content)
    }

    /// Reads as [`read_path`](Self::read_path) does. Also returns the state of the file that was
    /// read. `None`: the file cannot be read or is too long.
    pub(crate) fn read_with_stat(&mut self, absolute: &[u8]) -> Option<(Arc<[u8]>, Stat)> {
        let name = CString::new(absolute).ok()?;
        let present = self.stat_path(&name, true)?;
        if let Some(read) = self.named.read.get(absolute)
            && read.settled
            && present == read.stat
        {
            return Some((Arc::clone(&read.content), read.stat));
        }
        let (began, lookup) = (now(), self.disk.lookup());
        let file = self.open_path(&name, Access::Read, true)?;
        let stat = Stat::of(file.as_fd()).ok()?;
        if stat.file_type() != FileType::Regular {
            return None;
        }
        let read = content::read(&File::from(file), stat, MOST_READ, lookup);
        let (content, stat) = read.map_err(|error| self.disk.obstacle(error)).ok()?;
        let content: Arc<[u8]> = content?.into();
        self.named.keep(
            absolute,
            NamedFile {
                settled: is_settled(&stat, began),
                stat,
                content: Arc::clone(&content),
            },
        );
        Some((content, stat))
    }

    /// Returns the content of the file at `path`, to which the site's rule for symbolic links has
    /// to lead. `None`: the file cannot be read or is too long.
    pub(crate) fn read_below(&mut self, path: &DocumentPath) -> Option<Arc<[u8]>> {
        self.note_unrepeatable();
        let root = self.root(path).ok()?;
        let relative = CString::new(path.relative()).ok()?;
        let found =
            locate(&root, &relative, ReadAccess::Yes, &self.disk, &mut |_, _, _| {}).ok()?;
        if !found.readable {
            return None;
        }
        let lookup = self.disk.lookup();
        let read = content::read(&File::from(found.file), found.stat, MOST_READ, lookup);
        let (content, _) = read.map_err(|error| self.disk.obstacle(error)).ok()?;
        Some(content?.into())
    }

    /// Returns the names in a folder, in no order: at most [`MOST_NAMES`], and none where there are
    /// more than may be read, which is noted as for links.
    pub(crate) fn names_in(&mut self, absolute: &[u8]) -> Vec<Box<[u8]>> {
        self.note_unrepeatable();
        let names = || {
            let folder = CString::new(absolute).ok()?;
            let folder = self.open_path(&folder, Access::Folder, true)?;
            let most = self.disk.most_names().min(MOST_NAMES);
            let names = folder::names(folder.as_fd(), most);
            let names = names.map_err(|error| self.disk.obstacle(error)).ok()?;
            self.disk.take_names(names.len()).ok()?;
            Some(names)
        };
        names().unwrap_or_default()
    }

    /// Returns the entries of the folder at `path`, in no order, without those that may not be
    /// reached. `None`: the folder may not be read.
    pub fn list(&mut self, path: &DocumentPath) -> Option<Vec<ListedName>> {
        let root = self.root(path).ok()?;
        let open = |path: &[u8]| {
            let path = CString::new(path).ok()?;
            locate(&root, &path, ReadAccess::No, &self.disk, &mut |_, _, _| {}).ok()
        };
        let relative = path.relative();
        let found = open(if relative.is_empty() { b"." } else { relative })?;
        let names = folder::names(found.file.as_fd(), MOST_LISTED);
        let names = names.map_err(|error| self.disk.obstacle(error)).ok()?;
        let mut listed = Vec::with_capacity(names.len());
        let mut at = relative.to_vec();
        if !at.is_empty() {
            at.push(b'/');
        }
        let length = at.len();
        for name in names {
            at.truncate(length);
            at.extend_from_slice(&name);
            if let Some(found) = open(&at) {
                let probe = probe(&found.stat);
                listed.push(ListedName { name, probe });
            }
        }
        Some(listed)
    }

    /// Returns what is at `path`, by its entry. `None`: the disk has to be asked past the site's
    /// rule for links.
    pub(crate) fn probe_below(&mut self, path: &DocumentPath) -> Option<Option<Probe>> {
        let place = self.place(path).ok()?;
        let entry = self.entries.at(place)?;
        match (&entry.kind, &entry.stat) {
            (EntryKind::Missing, _) => Some(None),
            (_, Some(stat)) => Some(Some(probe(stat))),
            (_, None) => None,
        }
    }
}

impl NamedFiles {
    fn keep(&mut self, path: &[u8], read: NamedFile) {
        if self.read.len() >= MOST_KEPT || self.memory + read.content.len() > MOST_MEMORY {
            self.read.clear();
            self.memory = 0;
        }
        self.memory += read.content.len();
        if let Some(before) = self.read.insert(path.into(), read) {
            self.memory -= before.content.len();
        }
    }
}

fn probe(stat: &Stat) -> Probe {
    Probe {
        kind: match stat.file_type() {
            FileType::Regular => ProbeKind::File,
            FileType::Directory => ProbeKind::Directory,
            FileType::Link => ProbeKind::Link,
            FileType::Special => ProbeKind::Special,
        },
        size: stat.size,
        modified: stat.modified.seconds.saturating_mul(1_000_000)
            + i64::from(stat.modified.nanoseconds / 1000),
        mode: stat.mode & 0o7777,
    }
}

/// Bytes of a file that a directive names. A longer file is treated as unreadable.
const MOST_READ: u64 = 10 << 20;

/// Files that are kept. Beyond, all are forgotten.
const MOST_KEPT: usize = 64;

/// Bytes of the files that are kept. Beyond, all are forgotten.
const MOST_MEMORY: usize = 16 << 20;

/// Names in a folder that are listed. The rest is left out: a longer page is of no use, and making
/// it takes time.
const MOST_LISTED: usize = 10_000;

/// Names in a folder that are read. The rest is left out.
const MOST_NAMES: usize = 65_536;
