//! The directive cache: compiled directives, shared by all threads; each content is compiled once.

mod flaw;
mod removed;
mod roots;
mod shard;

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use howdah_htaccess::compile::compile_asking;
use howdah_htaccess::{
    CompileContext, Compiled, DirectivePlace, DirectiveSettings, Mistake, MistakeKind,
};
use howdah_site::{Site, Sites};
use howdah_sys::open::{self, Access, Lookup};
use howdah_sys::stat::Stat;

pub use self::flaw::{DirectiveFlaw, ReportFlaw};
use self::removed::{RemovedEntries, RemovedRules};
use self::roots::SiteRoots;
use self::shard::{CacheShard, CachedDirectives, SHARDS};
use crate::disk_access::DiskAccess;
use crate::freed_memory::FreedMemory;
use crate::site_folders::SiteFolders;

/// The directives that the threads of a front have compiled, each content once.
///
/// Bounded in files and in memory, that of an owner and of all. An owner is a document root, or all
/// document roots of a site that has one for each host. Where room is needed, the owner that has
/// the most gives it: a site with large or with many files takes no other site's place. Those files
/// go first that no thread asked for since room was last made. A thread keeps what it uses: an
/// entry that is evicted for another file is compiled again only when another thread asks for it.
/// Of an owner that gave memory, threads keep nothing: they ask for the evictions since their last
/// look.
pub struct DirectiveCache {
    roots: SiteRoots,
    shards: Vec<Mutex<CacheShard>>,
    /// Bytes of memory that all entries may take.
    most_memory: usize,
    /// The sum of the weights of all entries.
    weight: AtomicUsize,
    /// Evictions for memory so far.
    evictions: AtomicU64,
    /// The last eviction of each owner that had one, by its number from 1 on.
    evicted: Mutex<HashMap<DirectiveOwner, u64>>,
    removed: RemovedRules,
    freed: FreedMemory,
    site_folders: Arc<SiteFolders>,
    /// The keys are random: an author of files cannot make two of them look alike.
    hashers: [foldhash::quality::RandomState; 2],
    tell: ReportFlaw,
    /// Bytes of a `.htaccess` file at most.
    most: u64,
}

/// The document root whose directives they are, or the site that has a root for each host: a hash
/// of the path, or of the site's number.
pub(crate) type DirectiveOwner = u64;

impl DirectiveCache {
    /// An empty cache for these sites. A `.htaccess` file of more than `most` bytes is a mistake.
    pub fn new(sites: &Sites, most: u64, tell: ReportFlaw) -> DirectiveCache {
        DirectiveCache::of(SiteRoots::new(sites), most, tell)
    }

    /// Lets the directives take a part of `memory`, the bytes that the server may use, if that is
    /// more than one root may have.
    pub fn in_memory(self, memory: u64) -> DirectiveCache {
        let part = usize::try_from(memory / PART_OF_MEMORY).unwrap_or(usize::MAX);
        DirectiveCache {
            most_memory: part.max(MOST_OF_ROOT),
            ..self
        }
    }

    /// Lets links of a site lead into no folder of another one.
    pub fn with_site_folders(self, folders: SiteFolders) -> DirectiveCache {
        DirectiveCache { site_folders: Arc::new(folders), ..self }
    }

    /// The folders of all sites.
    pub(crate) fn site_folders(&self) -> Arc<SiteFolders> {
        Arc::clone(&self.site_folders)
    }

    fn of(roots: SiteRoots, most: u64, tell: ReportFlaw) -> DirectiveCache {
        DirectiveCache {
            roots,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            most_memory: MOST_OF_ROOT,
            weight: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
            evicted: Mutex::default(),
            removed: RemovedRules::default(),
            freed: FreedMemory::default(),
            site_folders: Arc::default(),
            hashers: Default::default(),
            tell,
            most,
        }
    }

    /// Returns whether `.htaccess` files are read in that scope.
    pub(crate) fn reads_htaccess(&self, scope: u32) -> bool {
        self.roots.first_of(scope).is_some_and(Site::reads_htaccess)
    }

    /// Bytes of a `.htaccess` file at most.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Returns whether directives have several owners.
    pub(crate) fn has_several_sites(&self) -> bool {
        self.roots.has_several_owners()
    }

    /// Returns the owner of directives below a document root.
    pub(crate) fn owner(&self, root: &[u8]) -> DirectiveOwner {
        self.roots.owner(root)
    }

    /// Returns the directives of `content`, the content of the `.htaccess` file in `folder`, which
    /// is absolute with a slash at its end, below `root`. `stat` is the state of the file, where
    /// every later change shows in it. `None` if no site has the scope.
    pub(crate) fn htaccess(
        &self,
        scope: u32,
        (root, folder): (&[u8], &[u8]),
        (content, stat): (&[u8], Option<Stat>),
    ) -> Option<Arc<Compiled>> {
        let site = self.roots.site(scope, root)?;
        let context = || site.htaccess_context(folder);
        let key = key(scope, folder);
        Some(self.compiled((site, root), key, (content, stat), context))
    }

    /// Returns the directives of `content`, if a thread has compiled them. With
    /// [`Lookup::Cached`] `None` also where an `<IfFile>` would have to wait for the disk.
    pub(crate) fn known(
        &self,
        scope: u32,
        folder: &[u8],
        content: &[u8],
        disk: &DiskAccess,
    ) -> Option<Arc<Compiled>> {
        let digest = self.digest(content);
        self.find(&key(scope, folder), disk, |entry| entry.digest == digest)
    }

    /// Returns the directives of the `.htaccess` file in `folder`, if a thread has compiled the
    /// file in this state. `None` as with [`known`](Self::known).
    pub(crate) fn known_file(
        &self,
        scope: u32,
        folder: &[u8],
        stat: &Stat,
        disk: &DiskAccess,
    ) -> Option<Arc<Compiled>> {
        self.find(&key(scope, folder), disk, |entry| entry.stat.as_ref() == Some(stat))
    }

    /// Returns the directives of the configuration itself. `root` is the document root, with a
    /// slash at its end. `None` if the configuration has none.
    pub(crate) fn rules(&self, scope: u32, root: &[u8]) -> Option<Arc<Compiled>> {
        let site = self.roots.site(scope, root)?;
        let (rules, context) = site.rules(root)?;
        // No folder begins like this.
        let key = key(scope, &[b"rules", root].concat());
        Some(self.compiled((site, root), key, (rules.as_bytes(), None), || context))
    }

    /// Returns a mistake in place of a `.htaccess` file that is too large. `None` if no site has
    /// the scope.
    pub(crate) fn too_large(
        &self,
        scope: u32,
        (root, folder): (&[u8], &[u8]),
    ) -> Option<Arc<Compiled>> {
        let site = self.roots.site(scope, root)?;
        let file = site.htaccess_context(folder).file;
        let mistake = Mistake {
            place: DirectivePlace {
                file: Arc::clone(&file),
                line: 1,
                column: 1,
            },
            line: String::new(),
            message: format!(
                "the file is larger than the {} bytes that `htaccess_size` in [limits] allows",
                self.most
            ),
            hint: None,
            kind: MistakeKind::Refused,
        };
        let mistake = Box::new(mistake);
        (self.tell)(site, &DirectiveFlaw::Mistake(mistake.clone()));
        Some(Arc::new(Compiled {
            is_server: false,
            file,
            settings: DirectiveSettings::default(),
            mistake: Some(mistake),
            remarks: Vec::new(),
            asked: Vec::new(),
        }))
    }

    fn compiled(
        &self,
        (site, root): (&Site, &[u8]),
        key: Box<[u8]>,
        (content, stat): (&[u8], Option<Stat>),
        context: impl FnOnce() -> CompileContext,
    ) -> Arc<Compiled> {
        let digest = self.digest(content);
        let is_same = |entry: &mut CachedDirectives| {
            let is_same = entry.digest == digest;
            if is_same && stat.is_some() {
                entry.stat = stat;
            }
            is_same
        };
        if let Some(known) = self.find(&key, &DiskAccess::waiting(), is_same) {
            return known;
        }
        // Not under the lock: event loops take it.
        let compiled = Arc::new(compile_asking(content, &context(), &mut |path| {
            exists(path, &DiskAccess::waiting()).unwrap_or_default()
        }));
        let entry = CachedDirectives {
            owner: self.owner(root),
            digest,
            stat,
            weight: weight(content),
            was_asked: false,
            compiled: Arc::clone(&compiled),
        };
        self.keep(key, entry);
        self.free_removed();
        if content.len() >= LARGE {
            self.freed.note();
        }
        if let Some(mistake) = &compiled.mistake {
            (self.tell)(site, &DirectiveFlaw::Mistake(mistake.clone()));
        }
        compiled
    }

    /// Keeps an entry in place of another one with its key.
    fn keep(&self, key: Box<[u8]>, entry: CachedDirectives) {
        let removed = self.shard(&key).remove(&key);
        if self.take_out(removed) >= HEAVY {
            self.note_eviction(entry.owner);
        }
        self.make_room(&entry);
        // Counted first: another thread may evict it as soon as it is there.
        self.weight.fetch_add(entry.weight, Ordering::Relaxed);
        let removed = self.shard(&key).insert(key, entry);
        self.take_out(removed);
    }

    /// Counts what was removed, and keeps it until [`free_removed`](Self::free_removed). Returns
    /// the weight.
    fn take_out(&self, removed: RemovedEntries) -> usize {
        let weight = removed.weight;
        self.weight.fetch_sub(weight, Ordering::Relaxed);
        self.removed.add(removed);
        weight
    }

    /// Frees the removed rules that no thread has any more. Not for event loops.
    pub fn free_removed(&self) {
        if self.removed.free_unused() >= HEAVY {
            self.freed.note();
        }
    }

    /// Returns whether rules were removed that threads had when they were last looked at.
    pub fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Tells when much memory was freed.
    pub fn freed(&self) -> &FreedMemory {
        &self.freed
    }

    /// Evicts entries until there is room for this one: its root's own beyond what a root may have,
    /// then those of the root that has the most.
    fn make_room(&self, entry: &CachedDirectives) {
        if self.weight.load(Ordering::Relaxed) + entry.weight <= MOST_OF_ROOT {
            return;
        }
        let own = self.weights().get(&entry.owner).copied().unwrap_or_default();
        self.evict(entry.owner, (own + entry.weight).saturating_sub(MOST_OF_ROOT));
        let excess = || {
            let all = self.weight.load(Ordering::Relaxed) + entry.weight;
            all.checked_sub(self.most_memory).filter(|excess| *excess > 0)
        };
        while let Some(excess) = excess()
            && let Some((owner, _)) = self.weights().into_iter().max_by_key(|(_, weight)| *weight)
        {
            self.evict(owner, excess);
        }
    }

    /// Makes the threads let go of the owner's rules.
    fn note_eviction(&self, owner: DirectiveOwner) {
        let mut evicted = lock(&self.evicted);
        evicted.insert(owner, self.evictions.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// Number of evictions for memory so far.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// The owners that gave memory after that number of evictions, and the number by now.
    pub(crate) fn evicted_since(&self, number: u64) -> (HashSet<DirectiveOwner>, u64) {
        let evicted = lock(&self.evicted);
        let later = evicted.iter().filter(|(_, last)| **last > number);
        (later.map(|(owner, _)| *owner).collect(), self.evictions())
    }

    /// Evicts entries of an owner that weigh `excess` together, those first that no thread has
    /// asked for since.
    fn evict(&self, owner: DirectiveOwner, excess: usize) {
        if excess == 0 {
            return;
        }
        let mut freed = 0;
        for spares_used in [true, false] {
            for shard in &self.shards {
                let mut removed = RemovedEntries::default();
                lock(shard).retain(&mut removed, |entry| {
                    let is_kept = freed >= excess
                        || entry.owner != owner
                        || spares_used && std::mem::take(&mut entry.was_asked);
                    freed += if is_kept { 0 } else { entry.weight };
                    is_kept
                });
                self.take_out(removed);
            }
        }
        self.note_eviction(owner);
    }

    /// The weight of each owner's entries.
    fn weights(&self) -> HashMap<DirectiveOwner, usize> {
        let mut weights: HashMap<DirectiveOwner, usize> = HashMap::new();
        for shard in &self.shards {
            for entry in lock(shard).entries.values() {
                *weights.entry(entry.owner).or_default() += entry.weight;
            }
        }
        weights
    }

    /// Returns the directives of the entry that `is_wanted`, unless an `<IfFile>` in it would get
    /// another answer now.
    fn find(
        &self,
        key: &[u8],
        disk: &DiskAccess,
        is_wanted: impl FnOnce(&mut CachedDirectives) -> bool,
    ) -> Option<Arc<Compiled>> {
        let compiled = {
            let mut shard = self.shard(key);
            let entry = shard.entries.get_mut(key)?;
            if !is_wanted(entry) {
                return None;
            }
            entry.was_asked = true;
            Arc::clone(&entry.compiled)
        };
        still_holds(&compiled, disk).then_some(compiled)
    }

    fn digest(&self, content: &[u8]) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|hasher| {
            let mut hasher = hasher.build_hasher();
            hasher.write(content);
            hasher.write_usize(content.len());
            u128::from(hasher.finish())
        });
        high << 64 | low
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, CacheShard> {
        let number = self.hashers[0].hash_one(key) as usize % self.shards.len();
        lock(&self.shards[number])
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each part is whole at any moment: an entry is inserted when it is complete.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of memory that the directives of a content take, at most and about: measured, up to 1.1 KB
/// for a rule, 2 KB for a pattern within a section, and a long line twice.
fn weight(content: &[u8]) -> usize {
    let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let directives = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).count();
    2 * content.len() + DIRECTIVE * directives
}

fn key(scope: u32, folder: &[u8]) -> Box<[u8]> {
    [&scope.to_ne_bytes(), folder].concat().into()
}

/// Returns whether every `<IfFile>` would get the same answer again. `false` also where `disk` has
/// no answer for now: it would have to be waited for, or the links on the way are too long.
pub(crate) fn still_holds(compiled: &Compiled, disk: &DiskAccess) -> bool {
    compiled.asked.iter().all(|(path, there)| exists(path, disk) == Some(*there))
}

/// Returns whether something is at a path, links followed. `None`: `disk` has no answer for now.
fn exists(path: &[u8], disk: &DiskAccess) -> Option<bool> {
    let Ok(path) = CString::new(path) else {
        return Some(false);
    };
    let (lookup, mut steps) = (disk.lookup(), 0);
    let found = open::counted(&path, (Access::Point, true), lookup, &mut steps);
    disk.take_steps(steps).ok()?;
    match found {
        Err(error) if lookup == Lookup::Cached && error.kind() == ErrorKind::WouldBlock => None,
        found => Some(found.is_ok()),
    }
}

impl fmt::Debug for DirectiveCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectiveCache")
            .field("scopes", &self.roots.scopes())
            .finish_non_exhaustive()
    }
}

/// Bytes of memory that the entries of one owner may take, see [`weight`], and those of all owners
/// at least. A single entry that takes more is the only one of its owner.
const MOST_OF_ROOT: usize = 64 << 20;

/// The part of the server's memory that all entries may take: one in this number.
const PART_OF_MEMORY: u64 = 32;

/// Bytes of memory of directives that threads let go of as soon as other ones have taken their
/// place in the cache. They keep smaller ones until they meet the new ones.
const HEAVY: usize = 1 << 20;

/// Bytes of memory that one directive takes.
const DIRECTIVE: usize = 1024;

/// Bytes of a content whose compilation takes so much memory for a moment that it is given back to
/// the kernel at once.
const LARGE: usize = 256 << 10;

#[cfg(test)]
mod tests;
