//! The watched folders, and the paths that depend on them.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use howdah_sys::inotify::{Inotify, LEAST_BUFFER, WatchEvent, WatchId};

/// The meaning of a change in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchPlace {
    /// The number of the document root.
    pub root: u32,
    /// A path below the root.
    pub path: Rc<[u8]>,
    /// `None`: the folder is at `path`, so a change of a name in it is a change of `path/name`.
    /// Otherwise the folder is on the way of a link at `path`, and only a change of this name in it
    /// matters: it is a change of `path`.
    pub name: Option<Box<[u8]>>,
}

/// A path below a root that has changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathChange {
    pub root: u32,
    pub path: Vec<u8>,
    /// Whether everything below may have changed as well. If not, that is so only if `path` was
    /// known to be a folder.
    pub whole: bool,
}

/// The watched folders.
///
/// A folder reached by several paths, through links or from several roots, is one watch with
/// several places.
#[derive(Debug)]
pub(crate) struct Watches {
    /// `None`: the user has no inotify queue left, and nothing is watched.
    inotify: Option<Inotify>,
    places: HashMap<WatchId, HashSet<WatchPlace>>,
    limit: usize,
    buffer: Box<[u8]>,
}

impl Watches {
    /// At most `limit` folders.
    pub(crate) fn new(limit: usize) -> Watches {
        Watches {
            inotify: Inotify::new().ok(),
            places: HashMap::new(),
            limit,
            buffer: vec![0; BUFFER].into(),
        }
    }

    /// Returns the descriptor that is readable when [`read`](Self::read) has something to return.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches an open folder for `place`. Returns whether the folder is watched now: the user's
    /// watches or ours may be used up, or the folder may not be read.
    pub(crate) fn add(&mut self, folder: BorrowedFd<'_>, place: WatchPlace) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let Ok(watch) = inotify.watch(folder) else {
            return false;
        };
        if self.places.len() >= self.limit && !self.places.contains_key(&watch) {
            let _ = inotify.remove(watch);
            return false;
        }
        self.places.entry(watch).or_default().insert(place);
        true
    }

    /// Forgets the places that `keep` rejects, and stops watching folders without any.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&WatchPlace) -> bool) {
        let inotify = &self.inotify;
        self.places.retain(|watch, places| {
            places.retain(&mut keep);
            if let Some(inotify) = inotify
                && places.is_empty()
            {
                // This fails only where the kernel has ended the watch already.
                let _ = inotify.remove(*watch);
            }
            !places.is_empty()
        });
    }

    /// Returns the changes since the last call. `None`: there were too many, so anything may have
    /// changed.
    pub(crate) fn read(&mut self) -> Option<Vec<PathChange>> {
        let mut changes = Vec::new();
        let Watches {
            inotify: Some(inotify), places, buffer, ..
        } = self
        else {
            return Some(changes);
        };
        let mut lost = false;
        // Until the queue is empty. If changes come faster than they are read, those beyond the
        // bound are read next time: they make the descriptor readable again.
        for _ in 0..MOST_READS {
            // Any other error of our own queue would occur again and again.
            let mut events = inotify.read(buffer).ok()?.peekable();
            if events.peek().is_none() {
                return (!lost).then_some(changes);
            }
            for event in events {
                lost = lost || changes.len() > MOST_CHANGES || event == WatchEvent::Overflow;
                if !lost {
                    hear(event, places, &mut changes);
                }
            }
        }
        None
    }

    /// Folders that are watched.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

/// Adds what `event` means to `changes`.
fn hear(
    event: WatchEvent<'_>,
    places: &mut HashMap<WatchId, HashSet<WatchPlace>>,
    changes: &mut Vec<PathChange>,
) {
    match event {
        WatchEvent::Entry { folder, name } => {
            for change in places
                .get(&folder)
                .into_iter()
                .flatten()
                .filter_map(|place| change_of_name(place, name))
            {
                if changes.last() != Some(&change) {
                    changes.push(change);
                }
            }
        }
        WatchEvent::Folder(folder) => {
            changes.extend(places.get(&folder).into_iter().flatten().map(change_of_folder))
        }
        WatchEvent::Ended(folder) => {
            changes.extend(places.remove(&folder).iter().flatten().map(change_of_folder))
        }
        WatchEvent::Overflow => {}
    }
}

fn change_of_name(place: &WatchPlace, name: &[u8]) -> Option<PathChange> {
    let path = match &place.name {
        None if place.path.is_empty() => name.to_vec(),
        None => [&place.path, &b"/"[..], name].concat(),
        Some(step) if **step == *name => place.path.to_vec(),
        Some(_) => return None,
    };
    Some(PathChange { root: place.root, path, whole: false })
}

fn change_of_folder(place: &WatchPlace) -> PathChange {
    PathChange {
        root: place.root,
        path: place.path.to_vec(),
        whole: true,
    }
}

/// Bytes read at once: some 500 events.
const BUFFER: usize = 64 * LEAST_BUFFER;

/// Reads of one [`Watches::read`]: more events than the kernel keeps
/// (`fs.inotify.max_queued_events`, 16384).
const MOST_READS: usize = 1000;

/// Changes at once. Beyond, it is cheaper to forget everything.
const MOST_CHANGES: usize = 10_000;
