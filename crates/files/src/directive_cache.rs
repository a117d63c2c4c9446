//! The directive cache: compiled directives, shared by all threads; each content is compiled once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use howdah_htaccess::compile::compile_asking;
use howdah_htaccess::{CompileContext, Compiled, Mistake, MistakeKind, Place, Settings};
use howdah_site::{Site, Sites};
use howdah_sys::allocator;
use howdah_sys::stat::Stat;

/// Called with a flaw in a site's directives.
pub type ReportFlaw = Box<dyn Fn(&Site, &Flaw) + Send + Sync>;

/// A flaw in a file of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The first mistake in the file.
    Mistake(Box<Mistake>),
    /// The file cannot be read.
    Unreadable(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Mistake(mistake) => mistake.fmt(f),
            Flaw::Unreadable(what) => f.write_str(what),
        }
    }
}

/// The directives that the threads of a front have compiled, each content once.
///
/// Bounded in files and in bytes of their content; where room is needed, files that no thread asked
/// for since room was last made go first. A thread keeps what it uses: an entry that is evicted is
/// compiled again only when another thread asks for it.
pub struct DirectiveCache {
    /// The first site of each scope.
    scopes: Vec<Site>,
    shards: Vec<Mutex<CacheShard>>,
    /// The keys are random: an author of files cannot make two of them look alike.
    hashers: [foldhash::quality::RandomState; 2],
    tell: ReportFlaw,
    /// Bytes of a `.htaccess` file at most.
    most: u64,
}

/// A part of the cache, by scope and folder.
#[derive(Default)]
struct CacheShard {
    entries: HashMap<Box<[u8]>, CachedDirectives>,
    /// Bytes of the contents that the entries were compiled from.
    bytes: usize,
}

struct CachedDirectives {
    digest: u128,
    /// The state of the file that had the content; `None` where a later change might not show.
    stat: Option<Stat>,
    /// Bytes of the content.
    size: usize,
    /// Whether a thread has asked for it since room was last made.
    was_asked: bool,
    compiled: Arc<Compiled>,
}

impl DirectiveCache {
    /// An empty cache for these sites. A `.htaccess` file of more than `most` bytes is a mistake.
    pub fn new(sites: &Sites, most: u64, tell: ReportFlaw) -> DirectiveCache {
        let mut scopes: Vec<Site> = Vec::new();
        for site in sites.iter() {
            if site.scope() as usize == scopes.len() {
                scopes.push(site.clone());
            }
        }
        DirectiveCache {
            scopes,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hashers: Default::default(),
            tell,
            most,
        }
    }

    /// Whether `.htaccess` files are read in that scope.
    pub(crate) fn reads_htaccess(&self, scope: u32) -> bool {
        self.scopes.get(scope as usize).is_some_and(Site::reads_htaccess)
    }

    /// Bytes of a `.htaccess` file at most.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// Returns the directives of `content`, the content of the `.htaccess` file in `folder`, which
    /// is absolute with a slash at its end. `stat` is the state of the file, where every later
    /// change shows in it.
    pub(crate) fn htaccess(
        &self,
        scope: u32,
        folder: &[u8],
        content: &[u8],
        stat: Option<Stat>,
    ) -> Option<Arc<Compiled>> {
        let site = self.scopes.get(scope as usize)?;
        let context = || site.htaccess_context(folder);
        Some(self.compiled(site, scope, folder, (content, stat), context))
    }

    /// Returns the directives of `content`, if a thread has compiled them.
    pub(crate) fn known(&self, scope: u32, folder: &[u8], content: &[u8]) -> Option<Arc<Compiled>> {
        let digest = self.digest(content);
        self.find(&key(scope, folder), |entry| entry.digest == digest)
    }

    /// Returns the directives of the `.htaccess` file in `folder`, if a thread has compiled the
    /// file in this state.
    pub(crate) fn known_file(
        &self,
        scope: u32,
        folder: &[u8],
        stat: &Stat,
    ) -> Option<Arc<Compiled>> {
        self.find(&key(scope, folder), |entry| entry.stat.as_ref() == Some(stat))
    }

    /// Returns the directives of the configuration itself. `root` is the document root, with a
    /// slash at its end.
    pub(crate) fn rules(&self, scope: u32, root: &[u8]) -> Option<Arc<Compiled>> {
        let site = self.scopes.get(scope as usize)?;
        let (rules, context) = site.rules(root)?;
        // No folder begins like this.
        let key = [b"rules", root].concat();
        Some(self.compiled(site, scope, &key, (rules.as_bytes(), None), || context))
    }

    /// Returns a mistake in place of a `.htaccess` file that is too large.
    pub(crate) fn too_large(&self, scope: u32, folder: &[u8]) -> Option<Arc<Compiled>> {
        let site = self.scopes.get(scope as usize)?;
        let file = site.htaccess_context(folder).file;
        let mistake = Mistake {
            place: Place {
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
        (self.tell)(site, &Flaw::Mistake(mistake.clone()));
        Some(Arc::new(Compiled {
            is_server: false,
            file,
            settings: Settings::default(),
            mistake: Some(mistake),
            remarks: Vec::new(),
            asked: Vec::new(),
        }))
    }

    /// Reports that a `.htaccess` file cannot be read.
    pub(crate) fn unreadable(&self, scope: u32, file: &Path, why: &str) {
        if let Some(site) = self.scopes.get(scope as usize) {
            let file = file.display();
            let what = format!(
                "{file}: it cannot be read ({why}), so what it covers is answered with 403"
            );
            (self.tell)(site, &Flaw::Unreadable(what));
        }
    }

    fn compiled(
        &self,
        site: &Site,
        scope: u32,
        folder: &[u8],
        (content, stat): (&[u8], Option<Stat>),
        context: impl FnOnce() -> CompileContext,
    ) -> Arc<Compiled> {
        let key = key(scope, folder);
        let digest = self.digest(content);
        let is_same = |entry: &mut CachedDirectives| {
            let is_same = entry.digest == digest;
            if is_same && stat.is_some() {
                entry.stat = stat;
            }
            is_same
        };
        if let Some(known) = self.find(&key, is_same) {
            return known;
        }
        // Not under the lock: event loops take it.
        let compiled = Arc::new(compile_asking(content, &context(), &mut exists));
        let entry = CachedDirectives {
            digest,
            stat,
            size: content.len(),
            was_asked: false,
            compiled: Arc::clone(&compiled),
        };
        self.shard(&key).insert(key, entry);
        if content.len() >= LARGE {
            allocator::give_back();
        }
        if let Some(mistake) = &compiled.mistake {
            (self.tell)(site, &Flaw::Mistake(mistake.clone()));
        }
        compiled
    }

    /// Returns the directives of the entry that `is_wanted`, unless an `<IfFile>` in it would get
    /// another answer now.
    fn find(
        &self,
        key: &[u8],
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
        still_holds(&compiled).then_some(compiled)
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
        // A shard is whole at any moment: an entry is inserted when it is complete.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(scope: u32, folder: &[u8]) -> Box<[u8]> {
    [&scope.to_ne_bytes(), folder].concat().into()
}

/// Whether every `<IfFile>` would get the same answer again.
pub(crate) fn still_holds(compiled: &Compiled) -> bool {
    compiled.asked.iter().all(|(path, there)| exists(path) == *there)
}

fn exists(path: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path)).exists()
}

impl CacheShard {
    fn insert(&mut self, key: Box<[u8]>, entry: CachedDirectives) {
        self.remove(&key);
        if !self.has_room(entry.size) {
            self.retain(|entry| std::mem::take(&mut entry.was_asked));
        }
        if !self.has_room(entry.size) {
            self.retain(|_| false);
        }
        self.bytes += entry.size;
        self.entries.insert(key, entry);
    }

    fn has_room(&self, size: usize) -> bool {
        self.entries.len() < MOST_FILES / SHARDS && self.bytes + size <= MOST_BYTES / SHARDS
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.size;
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut CachedDirectives) -> bool) {
        self.entries.retain(|_, entry| keep(entry));
        self.bytes = self.entries.values().map(|entry| entry.size).sum();
    }
}

impl fmt::Debug for DirectiveCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectiveCache")
            .field("scopes", &self.scopes.len())
            .finish_non_exhaustive()
    }
}

/// Parts that are locked separately.
const SHARDS: usize = 16;

/// Files that are kept, of all shards together.
const MOST_FILES: usize = 4096;

/// Bytes of their contents, of all shards together. A single content that is larger than a shard's
/// share is kept alone in its shard.
const MOST_BYTES: usize = 32 << 20;

/// Bytes of a content whose compilation takes so much memory for a moment that it is given back to
/// the kernel at once.
const LARGE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: usize) -> CachedDirectives {
        CachedDirectives {
            digest: 0,
            stat: None,
            size,
            was_asked: false,
            compiled: Arc::new(compile_asking(b"", &CompileContext::default(), &mut |_| false)),
        }
    }

    fn key(number: usize) -> Box<[u8]> {
        number.to_ne_bytes().into()
    }

    #[test]
    fn a_shard_is_bounded_in_files_and_bytes() {
        let mut shard = CacheShard::default();
        for number in 0..3 * MOST_FILES / SHARDS {
            shard.insert(key(number), entry(10));
            assert!(shard.entries.len() <= MOST_FILES / SHARDS);
            assert_eq!(shard.bytes, 10 * shard.entries.len());
            shard.insert(key(number), entry(10));
            assert_eq!(shard.bytes, 10 * shard.entries.len(), "replaced");
        }
        for number in 0..10 {
            shard.insert(key(number), entry(MOST_BYTES / SHARDS / 3));
            assert!(shard.bytes <= MOST_BYTES / SHARDS);
        }
        shard.insert(key(1), entry(MOST_BYTES));
        assert_eq!(shard.entries.len(), 1);
    }

    #[test]
    fn used_directives_are_kept() {
        let mut shard = CacheShard::default();
        for number in 0..2 * MOST_FILES / SHARDS {
            shard.insert(key(number), entry(1));
            if let Some(entry) = shard.entries.get_mut(&key(7)) {
                entry.was_asked = true;
            }
        }
        assert!(shard.entries.contains_key(&key(7)));
        assert!(!shard.entries.contains_key(&key(8)));
    }
}
