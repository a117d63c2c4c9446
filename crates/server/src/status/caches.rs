//! The use of caches: PHP's, as a pool's workers measure it every few seconds, and the front's own.

use std::sync::{Mutex, PoisonError};

use howdah_files::StoreFigures;
use howdah_php::{CacheNumber, CacheNumbers};
use serde::{Deserialize, Serialize};

/// The use of a pool's opcache. Counts are since the start of its zygote, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpcacheUse {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// The share of hits; `null` before the first script.
    pub(crate) hit_rate: Option<f64>,
    /// Scripts that the cache has.
    pub(crate) scripts: u64,
    pub(crate) used: u64,
    pub(crate) free: u64,
    /// Memory of scripts that have changed.
    pub(crate) wasted: u64,
    /// Whether the cache takes no more scripts.
    pub(crate) full: bool,
}

/// The use of a pool's APCu. Counts are since the start of its zygote, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApcuUse {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// The share of hits; `null` before the first question.
    pub(crate) hit_rate: Option<f64>,
    /// The number of times that entries were thrown away because the cache was full.
    pub(crate) expunged: u64,
    pub(crate) free: u64,
    pub(crate) size: u64,
}

/// The files and folders that the front's threads know, as of the last second. Counts are since the
/// start of the front, sizes in bytes. A file that several threads know counts for each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileCacheUse {
    /// Paths that are known, also those where nothing is.
    pub(crate) entries: u64,
    /// Content of small files in memory.
    pub(crate) memory: u64,
    /// Files that are kept open.
    pub(crate) open: u64,
    /// Folders whose changes the kernel tells.
    pub(crate) watched: u64,
    /// Folders of which that may be so, of all sites. A site takes half of what is left.
    #[serde(default)]
    pub(crate) watched_limit: u64,
    /// The number of times that a folder was looked at on the disk because its site has as many
    /// as it may.
    #[serde(default)]
    pub(crate) unwatched: u64,
    /// Files that are watched for writes while they are sent.
    #[serde(default)]
    pub(crate) watched_files: u64,
    /// Files of which that may be so, of all sites. A site takes half of what is left.
    #[serde(default)]
    pub(crate) watched_files_limit: u64,
    /// The number of times that a file was sent without a watch because its site has as many as it
    /// may.
    #[serde(default)]
    pub(crate) unwatched_files: u64,
    /// The number of times that a path was looked up.
    pub(crate) lookups: u64,
    /// The number of times that the disk was asked for a path that was not known.
    pub(crate) loads: u64,
    /// The number of times that a known path was compared with the disk.
    pub(crate) checks: u64,
    /// Paths that were forgotten because something changed.
    pub(crate) changes: u64,
}

impl FileCacheUse {
    /// Adds up the figures of all threads. Each may watch `files` files that are sent.
    pub(super) fn of(stores: &[Mutex<StoreFigures>], files: usize) -> FileCacheUse {
        let mut sum = FileCacheUse {
            watched_files_limit: (files as u64).saturating_mul(stores.len() as u64),
            ..FileCacheUse::default()
        };
        for store in stores {
            let figures = *store.lock().unwrap_or_else(PoisonError::into_inner);
            sum.entries += figures.entries as u64;
            sum.memory += figures.memory as u64;
            sum.open += figures.descriptors as u64;
            sum.watched += figures.watched as u64;
            sum.watched_limit += figures.most_watched as u64;
            sum.unwatched += figures.unwatched;
            sum.watched_files += figures.watched_files as u64;
            sum.unwatched_files += figures.unwatched_files;
            sum.lookups += figures.lookups;
            sum.loads += figures.loads;
            sum.checks += figures.checks;
            sum.changes += figures.changes;
        }
        sum
    }
}

/// The scripts that a pool has compiled before its first request, because the former generation
/// used them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WarmupSnapshot {
    pub(crate) scripts: u64,
    /// Time that it took.
    pub(crate) seconds: f64,
}

impl OpcacheUse {
    /// Returns the use that a worker has published. `None`: opcache is off, or may not be asked.
    pub(crate) fn of(numbers: &CacheNumbers) -> Option<OpcacheUse> {
        let number = |which| known(numbers, which);
        let (hits, misses) =
            (number(CacheNumber::OpcacheHits)?, number(CacheNumber::OpcacheMisses)?);
        Some(OpcacheUse {
            hits,
            misses,
            hit_rate: rate(hits, misses),
            scripts: number(CacheNumber::OpcacheScripts)?,
            used: number(CacheNumber::OpcacheUsed)?,
            free: number(CacheNumber::OpcacheFree)?,
            wasted: number(CacheNumber::OpcacheWasted)?,
            full: number(CacheNumber::OpcacheFull)? > 0,
        })
    }
}

impl ApcuUse {
    /// Returns the use that a worker has published. `None`: APCu is not there, or off.
    pub(crate) fn of(numbers: &CacheNumbers) -> Option<ApcuUse> {
        let number = |which| known(numbers, which);
        let (hits, misses) = (number(CacheNumber::ApcuHits)?, number(CacheNumber::ApcuMisses)?);
        Some(ApcuUse {
            hits,
            misses,
            hit_rate: rate(hits, misses),
            expunged: number(CacheNumber::ApcuExpunged)?,
            free: number(CacheNumber::ApcuFree)?,
            size: number(CacheNumber::ApcuSize)?,
        })
    }
}

fn known(numbers: &CacheNumbers, which: CacheNumber) -> Option<u64> {
    u64::try_from(numbers[which as usize]).ok()
}

fn rate(hits: u64, misses: u64) -> Option<f64> {
    let all = hits as f64 + misses as f64;
    (all > 0.0).then(|| hits as f64 / all)
}
