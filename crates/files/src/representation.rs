//! A file's representation: its head, and the key of its compressed content. Both are dropped with
//! the file's entry.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use howdah_http::{ResponseHead, SharedHead};

/// A file as it is sent whole (RFC 9110 §3.2).
#[derive(Debug)]
pub struct Representation {
    head: SharedHead,
    modified: u64,
    digest: Cell<Option<ContentDigest>>,
}

impl Representation {
    pub(crate) fn new(head: ResponseHead, length: u64, modified: u64) -> Representation {
        let head = SharedHead::new(head, length);
        Representation { head, modified, digest: Cell::new(None) }
    }

    /// The head of the plain 200.
    #[inline]
    pub fn head(&self) -> &SharedHead {
        &self.head
    }

    /// Returns when the file was modified, in seconds since 1970.
    pub fn modified(&self) -> u64 {
        self.modified
    }
}

/// A content coding whose result depends on nothing but the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheableCoding {
    /// gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstandard,
}

/// A keyed digest of content, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ContentDigest {
    halves: [u64; 2],
    length: usize,
}

/// The compressed content of files, which all threads share: each content is compressed and held
/// once. The key is the plain content itself, by a keyed digest, so a changed file has another key
/// and equal files have one.
#[derive(Debug)]
pub struct CompressedCache {
    /// Bytes in all. Beyond, everything is dropped.
    most: usize,
    keys: [RandomState; 2],
    kept: Mutex<CompressedEntries>,
}

#[derive(Debug, Default)]
struct CompressedEntries {
    by_key: HashMap<(ContentDigest, CacheableCoding), Arc<[u8]>>,
    bytes: usize,
}

impl CompressedCache {
    /// Returns an empty cache with room for `most` bytes.
    pub fn new(most: usize) -> CompressedCache {
        CompressedCache {
            most,
            keys: Default::default(),
            kept: Mutex::default(),
        }
    }

    /// Returns the content of `of` in `coding`. `None`: it has to be compressed; if another thread
    /// has done so, [`share`](Self::share) finds it.
    pub fn find(&self, of: &Representation, coding: CacheableCoding) -> Option<Arc<[u8]>> {
        self.get((of.digest.get()?, coding))
    }

    /// Returns `plain`, the whole content of `of`, in `coding`, if another file or thread has
    /// brought it here. From here on, [`find`](Self::find) knows the digest of `of`. `None` if
    /// neither has.
    pub fn share(
        &self,
        of: &Representation,
        coding: CacheableCoding,
        plain: &[u8],
    ) -> Option<Arc<[u8]>> {
        let halves = [0, 1].map(|half: usize| self.keys[half].hash_one(plain));
        let digest = ContentDigest { halves, length: plain.len() };
        of.digest.set(Some(digest));
        self.get((digest, coding))
    }

    /// Keeps `content`, the content of `of` in `coding`, after [`share`](Self::share) has not found
    /// it. If there is no room, everything is dropped first. Content larger than the whole cache is
    /// not kept.
    pub fn keep(&self, of: &Representation, coding: CacheableCoding, content: &Arc<[u8]>) {
        let Some(digest) = of.digest.get().filter(|_| content.len() <= self.most) else {
            return;
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + content.len() > self.most {
            *kept = CompressedEntries::default();
        }
        if kept.by_key.insert((digest, coding), Arc::clone(content)).is_none() {
            kept.bytes += content.len();
        }
    }

    fn get(&self, key: (ContentDigest, CacheableCoding)) -> Option<Arc<[u8]>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_key.get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::Status;

    fn file() -> Representation {
        Representation::new(ResponseHead::new(Status::OK), 100, 0)
    }

    #[test]
    fn compressed_content_is_shared_by_files_of_equal_content() {
        let cache = CompressedCache::new(100);
        let (one, two, other) = (file(), file(), file());
        assert!(cache.find(&one, CacheableCoding::Gzip).is_none());
        assert!(cache.share(&one, CacheableCoding::Gzip, b"same").is_none());
        cache.keep(&one, CacheableCoding::Gzip, &vec![1; 10].into());
        assert!(cache.find(&one, CacheableCoding::Gzip).is_some());
        assert!(cache.find(&one, CacheableCoding::Brotli).is_none());
        assert!(cache.find(&one, CacheableCoding::Zstandard).is_none());
        assert!(cache.share(&other, CacheableCoding::Gzip, b"else").is_none());
        assert!(cache.share(&two, CacheableCoding::Gzip, b"same").is_some());
        assert!(cache.find(&two, CacheableCoding::Gzip).is_some());
    }

    #[test]
    fn compressed_content_is_bounded() {
        let cache = CompressedCache::new(25);
        let files: Vec<_> = (0_u8..5).map(|number| (file(), [number])).collect();
        for (file, plain) in &files {
            assert!(cache.share(file, CacheableCoding::Gzip, plain).is_none());
            cache.keep(file, CacheableCoding::Gzip, &vec![0; 10].into());
            cache.keep(file, CacheableCoding::Gzip, &vec![0; 10].into());
            assert!(cache.find(file, CacheableCoding::Gzip).is_some());
            let held = files
                .iter()
                .filter(|(file, _)| cache.find(file, CacheableCoding::Gzip).is_some());
            assert!(held.count() <= 2);
        }
        let (large, plain) = (file(), b"large");
        assert!(cache.share(&large, CacheableCoding::Gzip, plain).is_none());
        cache.keep(&large, CacheableCoding::Gzip, &vec![0; 26].into());
        assert!(cache.find(&large, CacheableCoding::Gzip).is_none());
    }
}
