//! Document roots, and the folders below them: which exist, and which are watched.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use howdah_site::{DocumentPath, Symlinks};
use howdah_sys::stat::FileType;

use crate::changed_trees::ChangedTrees;
use crate::directive_cache::{DirectiveCache, DirectiveOwner};
use crate::disk_access::DiskAccess;
use crate::limits::StoreLimits;
use crate::locate::{self, PathObstacle, ReadAccess};
use crate::open_root::OpenRoot;
use crate::path_changes::PathChange;
use crate::site_shares::SiteShares;
use crate::watches::{WatchPlace, WatchedNames, Watches};

/// A folder below a root, or the first component of a path that is no folder.
#[derive(Debug)]
pub(crate) struct FolderBelow {
    /// Whether the folder exists. If not, nothing exists below it either, until the folder above
    /// changes.
    exists: bool,
    /// Whether this folder and every folder on the way is watched.
    pub watched: bool,
    made: u64,
    site: DirectiveOwner,
}

/// All roots and folders of one store.
pub(crate) struct Folders {
    limits: StoreLimits,
    roots: HashMap<(Box<[u8]>, Symlinks, u32), KnownRoot>,
    /// The same roots by number.
    numbers: HashMap<u32, Rc<OpenRoot>>,
    next_root: u32,
    /// By the root's number, four bytes, and the path below it.
    known: HashMap<Box<[u8]>, Rc<FolderBelow>>,
    /// The known folders by site.
    shares: SiteShares<DirectiveOwner>,
    /// The number of times that a folder had no room among those that are known and watched.
    unwatched: u64,
    /// Folders that are neither watched nor kept for longer than a second.
    passing: PassingFolders,
    watches: Watches,
    /// The time when room was last made.
    swept: u64,
}

/// Folders of one second, by the same keys.
#[derive(Default)]
struct PassingFolders {
    second: u64,
    known: HashMap<Box<[u8]>, Rc<FolderBelow>>,
}

/// The folders that lead to entries of the store, by the same keys. Watching an entry is worth
/// nothing without them.
#[derive(Default)]
pub(crate) struct UsedFolders(HashSet<Box<[u8]>>);

struct KnownRoot {
    root: Rc<OpenRoot>,
    /// The second in which the path was last compared with the open folder.
    checked: u64,
}

impl Folders {
    /// No folders. `is_shared`: they will be those of several sites.
    pub(crate) fn new(limits: StoreLimits, is_shared: bool) -> Folders {
        let shares = || SiteShares::of(limits.folders, is_shared);
        Folders {
            limits,
            roots: HashMap::new(),
            numbers: HashMap::new(),
            next_root: 0,
            known: HashMap::new(),
            shares: shares(),
            unwatched: 0,
            passing: PassingFolders::default(),
            watches: Watches::new(shares()),
            swept: 0,
        }
    }

    /// Returns the descriptor that is readable when [`read_changes`](Self::read_changes) has
    /// something to return. `None` where no watches are possible.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watches.descriptor()
    }

    /// Returns the changes below watched folders since the last call. `None` if events were lost,
    /// so that anything may have changed.
    pub(crate) fn read_changes(&mut self) -> Option<Vec<PathChange>> {
        self.watches.read()
    }

    /// Returns the root of `path`, opened if it is not open yet. Also returns the open roots that
    /// have to make room, and that root if its path does not lead to it any more: what else is
    /// known of these has to be forgotten.
    pub(crate) fn root(
        &mut self,
        path: &DocumentPath,
        directives: Option<&DirectiveCache>,
        (disk, now): (&DiskAccess, u64),
    ) -> (Result<Rc<OpenRoot>, PathObstacle>, Option<ChangedTrees>) {
        let key = (Box::from(path.root().as_os_str().as_bytes()), path.symlinks(), path.scope());
        let mut closed = None;
        if let Some(known) = self.roots.get_mut(&key) {
            let is_current = match known.checked == now {
                true => Ok(true),
                false => known.root.is_current(disk),
            };
            match is_current {
                Ok(true) => {
                    known.checked = now;
                    return (Ok(Rc::clone(&known.root)), None);
                }
                Ok(false) => {}
                Err(obstacle) => return (Err(obstacle), None),
            }
            closed = Some(ChangedTrees::of_roots([known.root.number()]));
        }
        let opened = OpenRoot::open(self.next_root, path, directives, disk).map(Rc::new);
        if let Ok(root) = &opened
            && closed.is_none()
            && self.roots.len() >= self.limits.roots.max(1)
        {
            closed = Some(self.roots_to_close(root.site()));
        }
        if let Some(closed) = &closed {
            self.forget(closed);
        }
        if let Ok(root) = &opened {
            self.next_root = self.next_root.wrapping_add(1);
            self.numbers.insert(root.number(), Rc::clone(root));
            self.roots.insert(key, KnownRoot { root: Rc::clone(root), checked: now });
        }
        (opened, closed)
    }

    /// Returns a quarter of the open roots, which make room for one of `site`. Forgetting looks at
    /// everything that is known, therefore it is done for many at a time.
    fn roots_to_close(&self, site: DirectiveOwner) -> ChangedTrees {
        let root = |known: &KnownRoot| (known.root.site(), known.checked, known.root.number());
        let count = (self.limits.roots / 4).max(1);
        ChangedTrees::of_roots(roots_to_close(self.roots.values().map(root).collect(), site, count))
    }

    /// Returns the open root with that number. `None` if it is not open any more.
    pub(crate) fn root_by_number(&self, number: u32) -> Option<Rc<OpenRoot>> {
        self.numbers.get(&number).map(Rc::clone)
    }

    /// Returns the folder at `path`, or the first component on the way that is no folder, watched
    /// as far as possible.
    pub(crate) fn folder(
        &mut self,
        root: &Rc<OpenRoot>,
        path: &[u8],
        asked: (&DiskAccess, u64),
    ) -> Rc<FolderBelow> {
        let mut folder = self.enter(root, b"", true, asked);
        let mut end = 0;
        while folder.exists && end < path.len() {
            let from = if end == 0 { 0 } else { end + 1 };
            end = path[from..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |at| from + at);
            folder = self.enter(root, &path[..end], folder.watched, asked);
        }
        folder
    }

    /// Returns the length of the longest part of `path` that is a folder; 0 for the root itself.
    pub(crate) fn deepest(
        &mut self,
        root: &Rc<OpenRoot>,
        path: &[u8],
        asked: (&DiskAccess, u64),
    ) -> usize {
        let mut folder = self.enter(root, b"", true, asked);
        let mut deepest = 0;
        for end in memchr::memchr_iter(b'/', path).chain([path.len()]).filter(|&end| end > 0) {
            folder = self.enter(root, &path[..end], folder.watched, asked);
            if !folder.exists {
                break;
            }
            deepest = end;
        }
        deepest
    }

    /// Watches a folder on the way of the link at `path`. Returns whether the folder is watched
    /// now.
    pub(crate) fn watch_step(
        &mut self,
        root: &OpenRoot,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> bool {
        let place = WatchPlace { root: root.number(), path: path.into() };
        self.watches.add(folder, (place, root.site()), WatchedNames::Step(name))
    }

    /// Returns whether the folder at that path, or the missing one, is known.
    pub(crate) fn knows(&self, root: u32, path: &[u8]) -> bool {
        self.known.contains_key(&*key(root, path))
    }

    /// Forgets everything at these paths and below, and the watches.
    pub(crate) fn forget(&mut self, trees: &ChangedTrees) {
        self.passing.known.clear();
        self.keep_known(|key| {
            let (root, path) = split(key);
            !trees.cover(root, path)
        });
        self.watches.retain(|place, _| !trees.cover(place.root, &place.path));
        self.roots.retain(|_, known| !trees.have_root(known.root.number()));
        self.numbers.retain(|number, _| !trees.have_root(*number));
    }

    pub(crate) fn forget_all(&mut self) {
        self.roots.clear();
        self.numbers.clear();
        self.keep_known(|_| false);
        self.passing.known.clear();
        self.watches.retain(|_, _| false);
    }

    /// Forgets the known folders that `keep` rejects.
    fn keep_known(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let shares = &mut self.shares;
        self.known.retain(|key, folder| {
            let is_kept = keep(key);
            if !is_kept {
                shares.give_back(&folder.site);
            }
            is_kept
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn watched(&self) -> usize {
        self.watches.len()
    }

    /// The number of times that a folder was not watched for want of room.
    pub(crate) fn unwatched(&self) -> u64 {
        self.unwatched
    }

    /// Returns one folder. `is_way_watched`: whether the folders above are watched.
    fn enter(
        &mut self,
        root: &Rc<OpenRoot>,
        path: &[u8],
        is_way_watched: bool,
        (disk, now): (&DiskAccess, u64),
    ) -> Rc<FolderBelow> {
        let key = key(root.number(), path);
        if let Some(known) = self.known.get(&key)
            && !known.wants_another_try(now)
        {
            return Rc::clone(known);
        }
        if let Some(known) = self.passing.at(now).get(&key) {
            return Rc::clone(known);
        }
        let site = root.site();
        let has_room = self.has_room(site, 1);
        self.unwatched += u64::from(!has_room);
        let mut is_known = true;
        let mut watched = has_room && is_way_watched;
        let exists = match self.open_folder(root, path, disk, &mut watched) {
            Ok(folder) => {
                let place = WatchPlace { root: root.number(), path: path.into() };
                let place = (place, site);
                watched = watched && self.watches.add(folder.as_fd(), place, WatchedNames::All);
                true
            }
            Err(
                PathObstacle::Missing
                | PathObstacle::Forbidden
                | PathObstacle::TooManyNames
                | PathObstacle::OtherSite,
            ) => false,
            Err(PathObstacle::Failed(_) | PathObstacle::Postponed) => {
                watched = false;
                is_known = false;
                false
            }
        };
        let folder = Rc::new(FolderBelow { exists, watched, made: now, site });
        if has_room && is_known {
            self.shares.take(site);
            let former = self.known.insert(key, Rc::clone(&folder));
            former.iter().for_each(|former| self.shares.give_back(&former.site));
        } else if is_known && self.passing.known.len() < self.limits.passing_folders {
            self.passing.known.insert(key, Rc::clone(&folder));
        }
        folder
    }

    fn open_folder(
        &mut self,
        root: &OpenRoot,
        path: &[u8],
        disk: &DiskAccess,
        watched: &mut bool,
    ) -> Result<OwnedFd, PathObstacle> {
        let name = CString::new(if path.is_empty() { b"." } else { path })
            .map_err(|_| PathObstacle::Missing)?;
        let located =
            locate::locate(root, &name, ReadAccess::No, disk, &mut |folder, name, path| {
                *watched = *watched && self.watch_step(root, folder, name, path);
            })?;
        match located.stat.file_type() {
            FileType::Directory => Ok(located.file),
            _ => Err(PathObstacle::Missing),
        }
    }

    /// Returns whether `count` more folders of a site can be remembered and watched.
    fn has_room(&self, site: DirectiveOwner, count: usize) -> bool {
        self.shares.has_room(&site, count) && self.watches.has_room(&site, count)
    }

    /// Returns whether room has to be made before the folders on the way to `path` below a root are
    /// entered. At most once a second, since making room looks at every entry.
    pub(crate) fn wants_room(&mut self, root: &OpenRoot, path: &[u8], now: u64) -> bool {
        let folders = 2 + memchr::memchr_iter(b'/', path).count();
        if self.has_room(root.site(), folders) || self.swept == now {
            return false;
        }
        self.swept = now;
        true
    }

    /// Forgets the folders in which no entry is, and what was watched for their sake.
    pub(crate) fn keep_only(&mut self, used: &UsedFolders) {
        self.keep_known(|key| used.0.contains(key));
        let known = &self.known;
        self.watches.retain(|place, is_of_link| {
            // The way of a link to a file is kept for the folder that the link is in.
            let path = if is_of_link { parent(&place.path) } else { &*place.path };
            known.contains_key(&*key(place.root, path))
                || known.contains_key(&*key(place.root, &place.path))
        });
    }
}

impl PassingFolders {
    /// Returns the folders that are known in this second.
    fn at(&mut self, now: u64) -> &HashMap<Box<[u8]>, Rc<FolderBelow>> {
        if self.second != now {
            self.second = now;
            self.known.clear();
        }
        &self.known
    }
}

impl UsedFolders {
    /// Adds every folder on the way to a path below a root.
    pub(crate) fn add(&mut self, root: u32, path: &[u8]) {
        let mut folder = parent(path);
        // Where a folder is known to be used, those above it are as well.
        while self.0.insert(key(root, folder)) && !folder.is_empty() {
            folder = parent(folder);
        }
    }
}

impl FolderBelow {
    /// Returns whether the folder has to be tried again: it could not be watched, which may have
    /// been a passing state.
    pub(crate) fn wants_another_try(&self, now: u64) -> bool {
        !self.watched && now.abs_diff(self.made) >= RETRY
    }

    pub(crate) fn exists(&self) -> bool {
        self.exists
    }
}

impl PathChange {
    /// Returns whether that path is the changed one or below it.
    pub(crate) fn covers(&self, root: u32, path: &[u8]) -> bool {
        self.root == root
            && (self.path.is_empty()
                || path
                    .strip_prefix(&*self.path)
                    .is_some_and(|rest| rest.is_empty() || rest[0] == b'/'))
    }
}

/// Returns the numbers of `count` roots, which make room for one of `site`: of the sites that have
/// the most, those that were checked longest ago. `roots`: the site of each, the second in which it
/// was checked, and its number.
fn roots_to_close(
    mut roots: Vec<(DirectiveOwner, u64, u32)>,
    site: DirectiveOwner,
    count: usize,
) -> Vec<u32> {
    let mut counts = HashMap::from([(site, 1)]);
    for (site, ..) in &roots {
        *counts.entry(*site).or_insert(0) += 1;
    }
    roots
        .sort_unstable_by_key(|(site, checked, number)| (Reverse(counts[site]), *checked, *number));
    roots.into_iter().take(count).map(|(.., number)| number).collect()
}

/// Returns a folder's path with a slash at its end.
pub(crate) fn with_slash(folder: &[u8]) -> Vec<u8> {
    let mut folder = folder.to_vec();
    if folder.last() != Some(&b'/') {
        folder.push(b'/');
    }
    folder
}

/// The part before the last slash.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)]
}

fn key(root: u32, path: &[u8]) -> Box<[u8]> {
    [&root.to_ne_bytes()[..], path].concat().into()
}

fn split(key: &[u8]) -> (u32, &[u8]) {
    let (root, path) = key.split_first_chunk().expect("every key begins with a root's number");
    (u32::from_ne_bytes(*root), path)
}

/// Seconds after which an unwatched folder is tried again.
const RETRY: u64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_the_site_with_the_most_make_room_and_the_oldest_first() {
        // Four of site 1, two of site 2, one of site 3.
        let sites: [DirectiveOwner; 7] = [1, 2, 1, 3, 2, 1, 1];
        let root = |number: u32| (sites[number as usize], u64::from(9 - number), number);
        let closed = |site, count| roots_to_close((0..7).map(root).collect(), site, count);
        assert_eq!(closed(9, 3), [6, 5, 2]);
        assert_eq!(closed(9, 6), [6, 5, 2, 0, 4, 1]);
        // The new root counts.
        assert_eq!(closed(2, 7), [6, 5, 2, 0, 4, 1, 3]);
        assert_eq!(roots_to_close(Vec::new(), 1, 3), [0; 0]);
    }
}
