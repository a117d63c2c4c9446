//! Compiled directives, shared by all threads: each content is compiled once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use howdah_htaccess::compile::compile_asking;
use howdah_htaccess::{Compiled, Mistake, MistakeKind, Place, Settings, Surroundings};
use howdah_site::{Site, Sites};

/// Hears what is wrong with a site's directives.
pub type Tell = Box<dyn Fn(&Site, &Flaw) + Send + Sync>;

/// What is wrong with a file of directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The first mistake in it.
    Mistake(Box<Mistake>),
    /// It cannot be read.
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

/// The directives that the threads of a front have compiled. A file's stay known for as long as a
/// thread uses them.
pub struct Library {
    /// Sites on which directives mean the same are one realm; this is the first of each.
    realms: Vec<Site>,
    /// The realm of every site.
    of_site: Vec<u32>,
    shards: Vec<Mutex<Shard>>,
    /// With keys that nobody outside knows: who writes files cannot make two of them look alike.
    hashers: [foldhash::quality::RandomState; 2],
    tell: Tell,
}

/// A part of what is known, by realm and folder.
#[derive(Default)]
struct Shard {
    known: HashMap<Box<[u8]>, Known>,
    /// At so many entries those that nobody uses any more are forgotten.
    full: usize,
}

struct Known {
    digest: u128,
    compiled: Weak<Compiled>,
}

impl Library {
    /// An empty library for these sites.
    pub fn new(sites: &Sites, tell: Tell) -> Library {
        let mut realms: Vec<Site> = Vec::new();
        let of_site = sites.iter().map(|site| {
            let known = realms.iter().position(|realm| realm.has_directives_of(site));
            let number = known.unwrap_or_else(|| {
                realms.push(site.clone());
                realms.len() - 1
            });
            number as u32
        });
        Library {
            of_site: of_site.collect(),
            realms,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hashers: Default::default(),
            tell,
        }
    }

    /// The realm of a site, by the site's number.
    pub(crate) fn realm(&self, site: usize) -> u32 {
        self.of_site.get(site).copied().unwrap_or(0)
    }

    /// Whether `.htaccess` files are read there.
    pub(crate) fn reads_htaccess(&self, realm: u32) -> bool {
        self.realms.get(realm as usize).is_some_and(Site::reads_htaccess)
    }

    /// The directives of `content`, which is that of the `.htaccess` file in `folder`: absolute,
    /// with a slash at its end.
    pub(crate) fn htaccess(
        &self,
        realm: u32,
        folder: &[u8],
        content: &[u8],
    ) -> Option<Arc<Compiled>> {
        let site = self.realms.get(realm as usize)?;
        Some(self.compiled(site, realm, folder, content, || site.htaccess_surroundings(folder)))
    }

    /// The directives of the configuration itself, where `root` is the document root, with a slash
    /// at its end.
    pub(crate) fn rules(&self, realm: u32, root: &[u8]) -> Option<Arc<Compiled>> {
        let site = self.realms.get(realm as usize)?;
        let (rules, surroundings) = site.rules(root)?;
        // No folder begins like this.
        let key = [b"rules", root].concat();
        Some(self.compiled(site, realm, &key, rules.as_bytes(), || surroundings))
    }

    /// What stands for a `.htaccess` file that is larger than any that is meant.
    pub(crate) fn too_large(&self, realm: u32, folder: &[u8], most: u64) -> Option<Arc<Compiled>> {
        let site = self.realms.get(realm as usize)?;
        let file = site.htaccess_surroundings(folder).file;
        let mistake = Mistake {
            place: Place {
                file: Arc::clone(&file),
                line: 1,
                column: 1,
            },
            line: String::new(),
            message: format!("the file is larger than {} MiB", most >> 20),
            hint: None,
            kind: MistakeKind::Refused,
        };
        let mistake = Box::new(mistake);
        (self.tell)(site, &Flaw::Mistake(mistake.clone()));
        Some(Arc::new(Compiled {
            file,
            settings: Settings::default(),
            mistake: Some(mistake),
            remarks: Vec::new(),
            asked: Vec::new(),
        }))
    }

    /// Tells that a `.htaccess` file cannot be read.
    pub(crate) fn unreadable(&self, realm: u32, file: &Path, why: &str) {
        if let Some(site) = self.realms.get(realm as usize) {
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
        realm: u32,
        folder: &[u8],
        content: &[u8],
        surroundings: impl FnOnce() -> Surroundings,
    ) -> Arc<Compiled> {
        let key: Box<[u8]> = [&realm.to_ne_bytes(), folder].concat().into();
        let digest = self.digest(content);
        // Compiling takes place under the lock: who else wants this waits for less time than it
        // would take itself.
        let mut shard = self.shard(&key);
        if let Some(known) = shard.known.get(&key)
            && known.digest == digest
            && let Some(compiled) = known.compiled.upgrade()
            && still_holds(&compiled)
        {
            return compiled;
        }
        let compiled = Arc::new(compile_asking(content, &surroundings(), &mut exists));
        let known = Known {
            digest,
            compiled: Arc::downgrade(&compiled),
        };
        shard.insert(key, known);
        drop(shard);
        if let Some(mistake) = &compiled.mistake {
            (self.tell)(site, &Flaw::Mistake(mistake.clone()));
        }
        compiled
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

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let number = self.hashers[0].hash_one(key) as usize % self.shards.len();
        // What is in a shard is whole at any moment: an entry is put in when it is complete.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `<IfFile>` would still be told the same.
pub(crate) fn still_holds(compiled: &Compiled) -> bool {
    compiled.asked.iter().all(|(path, there)| exists(path) == *there)
}

fn exists(path: &[u8]) -> bool {
    Path::new(OsStr::from_bytes(path)).exists()
}

impl Shard {
    fn insert(&mut self, key: Box<[u8]>, known: Known) {
        if self.known.len() >= self.full {
            self.known.retain(|_, known| known.compiled.strong_count() > 0);
            self.full = (2 * self.known.len()).max(LEAST_FULL);
        }
        self.known.insert(key, known);
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("realms", &self.realms.len())
            .finish_non_exhaustive()
    }
}

/// Parts that are locked separately.
const SHARDS: usize = 16;

/// So many entries of a shard are kept without a look at whether anybody uses them.
const LEAST_FULL: usize = 256;
