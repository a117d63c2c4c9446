//! The watched folders, and the paths that depend on them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use howdah_sys::inotify::{Inotify, LEAST_BUFFER, WatchEvent, WatchId};

use crate::directive_cache::DirectiveOwner;
use crate::path_changes::{PathChange, PathChanges};
use crate::site_shares::SiteShares;

/// The meaning of a change in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchPlace {
    /// The number of the document root.
    pub root: u32,
    /// A path below the root.
    pub path: Rc<[u8]>,
}

/// The names in a watched folder whose changes matter for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchedNames<'n> {
    /// The folder is at the path of the place, so a change of a name in it is a change of
    /// `path/name`.
    All,
    /// The folder is on the way of a link at the path of the place, and only a change of this name
    /// in it matters: it is a change of that path.
    Step(&'n [u8]),
}

/// The watched folders.
///
/// A folder reached by several paths, through links or from several roots, is one watch with
/// several places. The number of places is bounded, so that a change in a folder takes a bounded
/// time: a site can have any number of links to one folder.
#[derive(Debug)]
pub(crate) struct Watches {
    /// `None`: the user has no inotify queue left, or the limit is 0, and nothing is watched.
    inotify: Option<Inotify>,
    folders: HashMap<WatchId, WatchedFolder>,
    /// The folders by the site that wanted the watch first.
    shares: SiteShares<DirectiveOwner>,
    buffer: Box<[u8]>,
}

/// The places that a watched folder has.
#[derive(Debug)]
struct WatchedFolder {
    /// The site that wanted the watch first.
    payer: DirectiveOwner,
    /// The paths that lead to the folder.
    paths: Places,
    /// The links that lead through the folder, by the name in it.
    steps: HashMap<Box<[u8]>, Places>,
    /// Number of places of each root.
    counts: HashMap<u32, usize>,
}

/// Paths by the number of their root.
type Places = HashMap<u32, HashSet<Rc<[u8]>>>;

impl Watches {
    /// Returns no watches, with room for as many folders as `shares` has.
    pub(crate) fn new(shares: SiteShares<DirectiveOwner>) -> Watches {
        Watches {
            inotify: (shares.most() > 0).then(Inotify::new).and_then(Result::ok),
            folders: HashMap::new(),
            shares,
            buffer: vec![0; BUFFER].into(),
        }
    }

    /// Returns the descriptor that is readable when [`read`](Self::read) has something to return.
    /// `None` where no watches are possible.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Watches an open folder for `place`, a path of the site `payer`. Returns whether the folder
    /// is watched now: the user's watches or the site's may be used up, the folder may have too
    /// many places, or may not be read.
    pub(crate) fn add(
        &mut self,
        folder: BorrowedFd<'_>,
        (place, payer): (WatchPlace, DirectiveOwner),
        names: WatchedNames<'_>,
    ) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let Ok(watch) = inotify.watch(folder) else {
            return false;
        };
        let folder = match self.folders.entry(watch) {
            Entry::Occupied(folder) => folder.into_mut(),
            Entry::Vacant(_) if !self.shares.has_room(&payer, 1) => {
                let _ = inotify.remove(watch);
                return false;
            }
            Entry::Vacant(entry) => {
                self.shares.take(payer);
                entry.insert(WatchedFolder::of(payer))
            }
        };
        folder.add(place, names)
    }

    /// Returns whether a site may have `count` more folders.
    pub(crate) fn has_room(&self, site: &DirectiveOwner, count: usize) -> bool {
        self.shares.has_room(site, count)
    }

    /// Forgets the places that `keep` rejects, and stops watching folders without any. `keep` is
    /// told whether the place is a link's.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&WatchPlace, bool) -> bool) {
        let Watches { inotify, folders, shares, .. } = self;
        folders.retain(|watch, folder| {
            folder.retain(&mut keep);
            if !folder.counts.is_empty() {
                return true;
            }
            shares.give_back(&folder.payer);
            // This fails only where the kernel has ended the watch already.
            let _ = inotify.as_ref().map(|inotify| inotify.remove(*watch));
            false
        });
    }

    /// Returns the changes since the last call. `None`: the kernel had too many, so anything may
    /// have changed.
    pub(crate) fn read(&mut self) -> Option<Vec<PathChange>> {
        let mut changes = PathChanges::default();
        let Watches {
            inotify: Some(inotify),
            folders,
            shares,
            buffer,
        } = self
        else {
            return Some(Vec::new());
        };
        let mut lost = false;
        // Until the queue is empty. If changes come faster than they are read, those beyond the
        // bound are read next time: they make the descriptor readable again.
        for _ in 0..MOST_READS {
            // Any other error of our own queue would occur again and again.
            let mut events = inotify.read(buffer).ok()?.peekable();
            if events.peek().is_none() {
                return (!lost).then(|| changes.into_list());
            }
            for event in events {
                lost = lost || event == WatchEvent::Overflow;
                if !lost {
                    hear(event, (folders, shares), &mut changes);
                }
            }
        }
        None
    }

    /// Folders that are watched.
    pub(crate) fn len(&self) -> usize {
        self.folders.len()
    }
}

impl WatchedFolder {
    /// A folder without places, which `payer` wants to be watched.
    fn of(payer: DirectiveOwner) -> WatchedFolder {
        WatchedFolder {
            payer,
            paths: Places::new(),
            steps: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// Adds a place. Returns whether the folder has it now.
    fn add(&mut self, place: WatchPlace, names: WatchedNames<'_>) -> bool {
        let known = match names {
            WatchedNames::All => Some(&self.paths),
            WatchedNames::Step(name) => self.steps.get(name),
        };
        let known = known.and_then(|places| places.get(&place.root));
        if known.is_some_and(|paths| paths.contains(&place.path)) {
            return true;
        }
        let all: usize = self.counts.values().sum();
        let of_root = self.counts.get(&place.root).copied().unwrap_or_default();
        if known.is_some_and(|paths| paths.len() >= MOST_AT_ONCE)
            || of_root >= MOST_OF_ROOT
            || all >= MOST_PLACES
        {
            return false;
        }
        *self.counts.entry(place.root).or_default() += 1;
        let places = match names {
            WatchedNames::All => &mut self.paths,
            WatchedNames::Step(name) => self.steps.entry(name.into()).or_default(),
        };
        places.entry(place.root).or_default().insert(place.path)
    }

    fn retain(&mut self, mut keep: impl FnMut(&WatchPlace, bool) -> bool) {
        let counts = &mut self.counts;
        counts.clear();
        let mut retain = |places: &mut Places, is_of_link: bool| {
            places.retain(|&root, paths| {
                paths.retain(|path| {
                    let path = Rc::clone(path);
                    keep(&WatchPlace { root, path }, is_of_link)
                });
                if !paths.is_empty() {
                    *counts.entry(root).or_default() += paths.len();
                }
                !paths.is_empty()
            });
            !places.is_empty()
        };
        retain(&mut self.paths, false);
        self.steps.retain(|_, places| retain(places, true));
    }

    /// Adds what a change of this name in the folder means. Returns whether everything has changed
    /// of all its roots.
    fn hear_name(&self, name: &[u8], changes: &mut PathChanges) -> bool {
        let add_all = |changes: &mut PathChanges, places: &Places, name: &[u8]| {
            let mut all = true;
            for (&root, paths) in places {
                all &= paths.iter().any(|path| changes.add(root, (path, name), false));
            }
            all
        };
        let all = add_all(changes, &self.paths, name);
        if let Some(places) = self.steps.get(name) {
            add_all(changes, places, b"");
        }
        all && self.steps.is_empty()
    }

    /// Adds what a change of the folder itself means. Of a root with many places, everything has
    /// changed.
    fn hear_all(&self, changes: &mut PathChanges) {
        let has_many = |root: &u32| self.counts.get(root).is_some_and(|many| *many > MOST_AT_ONCE);
        self.roots().filter(has_many).for_each(|root| changes.add_root(root));
        for (&root, paths) in std::iter::once(&self.paths).chain(self.steps.values()).flatten() {
            let _ = paths.iter().any(|path| changes.add(root, (path, b""), true));
        }
    }

    /// The roots that a change in the folder may concern.
    fn roots(&self) -> impl Iterator<Item = u32> {
        self.counts.keys().copied()
    }
}

/// Adds what `event` means to `changes`.
fn hear(
    event: WatchEvent<'_>,
    (folders, shares): (&mut HashMap<WatchId, WatchedFolder>, &mut SiteShares<DirectiveOwner>),
    changes: &mut PathChanges,
) {
    let (id, name) = match event {
        WatchEvent::Entry { folder, name } => (folder, Some(name)),
        WatchEvent::Folder(folder) | WatchEvent::Ended(folder) => (folder, None),
        WatchEvent::Overflow => return,
    };
    if let Some(folder) = folders.get(&id)
        && !changes.know_all_of(id)
    {
        let all = match name {
            _ if changes.are_many() => true,
            Some(name) => folder.hear_name(name, changes),
            None => {
                folder.hear_all(changes);
                false
            }
        };
        if all {
            changes.exhaust(id, folder.roots());
        }
    }
    if event == WatchEvent::Ended(id)
        && let Some(folder) = folders.remove(&id)
    {
        shares.give_back(&folder.payer);
    }
}

/// Bytes read at once: some 500 events.
const BUFFER: usize = 64 * LEAST_BUFFER;

/// Reads of one [`Watches::read`]: several times the events that the kernel keeps
/// (`fs.inotify.max_queued_events`, 16384).
const MOST_READS: usize = 200;

/// Paths below one root that one change can concern. Paths beyond are compared with the disk at
/// every request.
const MOST_AT_ONCE: usize = 256;

/// Places of one root that a watched folder has. Paths beyond are compared with the disk at every
/// request.
const MOST_OF_ROOT: usize = 4096;

/// Places of all roots that a watched folder has, such as `/`, which every absolute link leads
/// through. Paths beyond are compared with the disk at every request.
const MOST_PLACES: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    fn add_link(
        watches: &mut Watches,
        folder: &File,
        (root, link): (u32, usize),
        names: WatchedNames<'_>,
    ) -> bool {
        let path = format!("link{link}").into_bytes().into();
        watches.add(folder.as_fd(), (WatchPlace { root, path }, root.into()), names)
    }

    #[test]
    fn a_change_in_a_folder_with_tens_of_thousands_of_links_to_it_concerns_a_bounded_number() {
        let path = std::env::temp_dir().join(format!("howdah-places-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = File::open(&path).unwrap();
        let mut watches = Watches::new(SiteShares::of(10, false));
        let add = |watches: &mut Watches, root, link, names: WatchedNames<'_>| {
            add_link(watches, &folder, (root, link), names)
        };
        let added = |watches: &mut Watches, names| {
            (0..20_000).filter(|link| add(watches, 1, *link, names)).count()
        };
        assert_eq!(added(&mut watches, WatchedNames::All), MOST_AT_ONCE);
        assert_eq!(added(&mut watches, WatchedNames::Step(b"file")), MOST_AT_ONCE);
        assert!(add(&mut watches, 1, 0, WatchedNames::All), "a place that is known is still there");
        // Another root has its own places.
        assert!((0..100).all(|link| add(&mut watches, 2, link, WatchedNames::Step(b"file"))));
        fs::write(path.join("file"), "x").unwrap();
        let changes = watches.read().unwrap();
        let of = |root: u32| changes.iter().filter(|change| change.root == root).count();
        // Creating and writing are two events.
        assert!((2 * MOST_AT_ONCE..=4 * MOST_AT_ONCE).contains(&of(1)), "{}", of(1));
        assert!(of(2) >= 100);
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&path, rights).unwrap();
        let changes = watches.read().unwrap();
        assert!(changes.contains(&PathChange { root: 1, path: Vec::new(), whole: true }));
        assert_eq!(changes.len(), 101);
        watches.retain(|place, _| place.root == 2);
        assert!(add(&mut watches, 1, 1_000, WatchedNames::All), "there is room again");
        let names: Vec<String> = (0..10_000).map(|number| format!("name{number}")).collect();
        let with_names = |(link, name): (usize, &String)| {
            add_link(&mut watches, &folder, (1, link), WatchedNames::Step(name.as_bytes()))
        };
        let added = names.iter().enumerate().map(with_names).filter(|added| *added).count();
        assert_eq!(added, MOST_OF_ROOT - 1);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn many_changes_in_a_folder_with_many_paths_are_one_of_each_root() {
        const ROOTS: u32 = 300;
        let path = std::env::temp_dir().join(format!("howdah-flood-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = File::open(&path).unwrap();
        let mut watches = Watches::new(SiteShares::of(10, false));
        for root in 1..=ROOTS {
            assert!(add_link(&mut watches, &folder, (root, 1), WatchedNames::All));
        }
        let write = |name: &str| fs::write(path.join(name), "x").unwrap();
        write("a");
        assert!(watches.read().unwrap().iter().all(|change| !change.whole));
        (0..100).for_each(|number| write(&format!("{number}")));
        let mut changed: Vec<u32> = watches
            .read()
            .unwrap()
            .into_iter()
            .map(|change| {
                assert!(change.whole && change.path.is_empty(), "{change:?}");
                change.root
            })
            .collect();
        changed.sort_unstable();
        assert!(changed.into_iter().eq(1..=ROOTS));
        fs::remove_dir_all(path).unwrap();
    }
}
