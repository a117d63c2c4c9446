//! A file's representation: its head, and the key of its compressed content. Both are dropped with
//! the file's entry.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use howdah_http::{ResponseHead, SharedHead};
use howdah_site::ContentCoding;

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

/// A keyed digest of content, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ContentDigest {
    halves: [u64; 2],
    length: usize,
}

/// The compressed content of files, which all threads share: each content is compressed and held
/// once. The key is the plain content itself, by a keyed digest, so a changed file has another key
/// and equal files have one. Where room is needed, the site that has brought the most gives it: a
/// site with many files takes no other site's place.
#[derive(Debug)]
pub struct CompressedCache {
    /// Bytes in all, each entry with [`ENTRY`] bytes beside its content.
    most: usize,
    keys: [RandomState; 2],
    kept: Mutex<CompressedEntries>,
}

/// Plain content and a coding.
type CompressedKey = (ContentDigest, ContentCoding);

#[derive(Debug, Default)]
struct CompressedEntries {
    by_key: HashMap<CompressedKey, Arc<[u8]>>,
    /// By number of the site.
    sites: HashMap<usize, SiteShare>,
    bytes: usize,
}

/// The content that a site has brought.
#[derive(Debug, Default)]
struct SiteShare {
    oldest_first: VecDeque<CompressedKey>,
    bytes: usize,
}

/// The memory of an entry without its content: its key, three times, and its places.
const ENTRY: usize = 256;

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
    pub fn find(&self, of: &Representation, coding: ContentCoding) -> Option<Arc<[u8]>> {
        self.get((of.digest.get()?, coding))
    }

    /// Returns `plain`, the whole content of `of`, in `coding`, if another file or thread has
    /// brought it here. From here on, [`find`](Self::find) knows the digest of `of`. `None` if
    /// neither has.
    pub fn share(
        &self,
        of: &Representation,
        coding: ContentCoding,
        plain: &[u8],
    ) -> Option<Arc<[u8]>> {
        let halves = [0, 1].map(|half: usize| self.keys[half].hash_one(plain));
        let digest = ContentDigest { halves, length: plain.len() };
        of.digest.set(Some(digest));
        self.get((digest, coding))
    }

    /// Keeps `content`, the content of `of` in `coding`, after [`share`](Self::share) has not found
    /// it. `site` is the number of the site that has brought it. If there is no room, the oldest
    /// content of the site that has the most is dropped first. Content larger than the whole cache
    /// is not kept.
    pub fn keep(
        &self,
        site: usize,
        of: &Representation,
        coding: ContentCoding,
        content: &Arc<[u8]>,
    ) {
        let size = content.len() + ENTRY;
        let Some(digest) = of.digest.get().filter(|_| size <= self.most) else {
            return;
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_key.insert((digest, coding), Arc::clone(content)).is_some() {
            return; // Equal content, made by two threads at once.
        }
        kept.bytes += size;
        let share = kept.sites.entry(site).or_default();
        share.bytes += size;
        share.oldest_first.push_back((digest, coding));
        kept.evict(self.most);
    }

    fn get(&self, key: (ContentDigest, ContentCoding)) -> Option<Arc<[u8]>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_key.get(&key).cloned()
    }
}

impl CompressedEntries {
    /// Drops content until at most `most` bytes are left.
    fn evict(&mut self, most: usize) {
        while self.bytes > most
            && let Some(share) = self.sites.values_mut().max_by_key(|share| share.bytes)
        {
            while self.bytes > most
                && let Some(key) = share.oldest_first.pop_front()
                && let Some(content) = self.by_key.remove(&key)
            {
                share.bytes -= content.len() + ENTRY;
                self.bytes -= content.len() + ENTRY;
            }
        }
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
        let cache = CompressedCache::new(10_000);
        let (one, two, other) = (file(), file(), file());
        assert!(cache.find(&one, ContentCoding::Gzip).is_none());
        assert!(cache.share(&one, ContentCoding::Gzip, b"same").is_none());
        cache.keep(0, &one, ContentCoding::Gzip, &vec![1; 10].into());
        assert!(cache.find(&one, ContentCoding::Gzip).is_some());
        assert!(cache.find(&one, ContentCoding::Brotli).is_none());
        assert!(cache.find(&one, ContentCoding::Zstandard).is_none());
        assert!(cache.share(&other, ContentCoding::Gzip, b"else").is_none());
        assert!(cache.share(&two, ContentCoding::Gzip, b"same").is_some());
        assert!(cache.find(&two, ContentCoding::Gzip).is_some());
    }

    #[test]
    fn compressed_content_is_bounded() {
        let cache = CompressedCache::new(2 * (ENTRY + 10) + 5);
        let files: Vec<_> = (0_u8..5).map(|number| (file(), [number])).collect();
        for (file, plain) in &files {
            assert!(cache.share(file, ContentCoding::Gzip, plain).is_none());
            cache.keep(0, file, ContentCoding::Gzip, &vec![0; 10].into());
            cache.keep(0, file, ContentCoding::Gzip, &vec![0; 10].into());
            assert!(cache.find(file, ContentCoding::Gzip).is_some());
            let held =
                files.iter().filter(|(file, _)| cache.find(file, ContentCoding::Gzip).is_some());
            assert!(held.count() <= 2);
        }
        let (large, plain) = (file(), b"large");
        assert!(cache.share(&large, ContentCoding::Gzip, plain).is_none());
        cache.keep(0, &large, ContentCoding::Gzip, &vec![0; 2 * (ENTRY + 10)].into());
        assert!(cache.find(&large, ContentCoding::Gzip).is_none());
    }

    #[test]
    fn a_site_with_many_files_takes_no_place_of_another_site() {
        let cache = CompressedCache::new(10 * (ENTRY + 10));
        let keep = |site: usize, number: u32| {
            let of = file();
            cache.share(&of, ContentCoding::Gzip, &number.to_be_bytes());
            cache.keep(site, &of, ContentCoding::Gzip, &vec![0; 10].into());
            of
        };
        let is_kept = |of: &Representation| cache.find(of, ContentCoding::Gzip).is_some();
        let small: Vec<_> = (0..3).map(|number| keep(1, number)).collect();
        let many: Vec<_> = (100..1_000).map(|number| keep(2, number)).collect();
        assert!(small.iter().all(is_kept));
        assert_eq!(many.iter().filter(|of| is_kept(of)).count(), 7);
        assert!(many[893..].iter().all(is_kept), "the oldest content makes room");
        // A site that has more by and by gets its part.
        let grown: Vec<_> = (0..10).map(|number| keep(1, 10_000 + number)).collect();
        assert_eq!(many.iter().filter(|of| is_kept(of)).count(), 5);
        assert!(grown[5..].iter().all(is_kept));
    }
}
