//! A file's representation: its head and its compressed content. Both are dropped with the file's
//! entry.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use howdah_http::{ResponseHead, SharedHead};

/// A file as it is sent whole (RFC 9110 §3.2).
#[derive(Debug)]
pub struct Representation {
    head: SharedHead,
    modified: u64,
    compressed: RefCell<[Option<Arc<[u8]>>; CODINGS]>,
}

/// A content coding whose result depends on nothing but the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
}

/// The number of codings.
const CODINGS: usize = 2;

impl Representation {
    pub(crate) fn new(head: ResponseHead, length: u64, modified: u64) -> Representation {
        let head = SharedHead::new(head, length);
        Representation {
            head,
            modified,
            compressed: RefCell::default(),
        }
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

    /// Returns the content in that coding, if a [`CompressedBudget`] kept it.
    pub fn compressed(&self, coding: Coding) -> Option<Arc<[u8]>> {
        self.compressed.borrow()[coding as usize].clone()
    }
}

/// The memory that compressed content may take on one thread. The [`Representation`] of a file
/// keeps the content, which is dropped with it.
#[derive(Debug)]
pub struct CompressedBudget {
    /// Bytes in all.
    most: usize,
    kept: Cell<usize>,
    holders: RefCell<Vec<Weak<Representation>>>,
}

impl CompressedBudget {
    /// Room for `most` bytes.
    pub fn new(most: usize) -> CompressedBudget {
        CompressedBudget {
            most,
            kept: Cell::new(0),
            holders: RefCell::default(),
        }
    }

    /// Keeps `content`, the content of `of` in `coding`. If there is no room, all compressed
    /// content is dropped first. Content larger than the whole budget is not kept.
    pub fn keep(&self, of: &Rc<Representation>, coding: Coding, content: &Arc<[u8]>) {
        if content.len() > self.most {
            return;
        }
        if self.kept.get() + content.len() > self.most {
            for holder in self.holders.take().iter().filter_map(Weak::upgrade) {
                holder.compressed.take();
            }
            self.kept.set(0);
        }
        let mut slots = of.compressed.borrow_mut();
        if slots.iter().all(Option::is_none) {
            self.holders.borrow_mut().push(Rc::downgrade(of));
        }
        let before = slots[coding as usize].replace(Arc::clone(content));
        let kept = self.kept.get() + content.len();
        self.kept.set(kept - before.map_or(0, |before| before.len()));
    }
}

/// Compressed content that all threads share, so that each content is compressed and held once. Its
/// key is the content itself, by a keyed digest: a changed file has another key, and equal files
/// have one.
#[derive(Debug)]
pub struct CompressedCache {
    /// Bytes in all. Beyond, everything is dropped.
    most: usize,
    digests: [RandomState; 2],
    kept: Mutex<KeptContent>,
}

/// The key of plain content and a coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompressedKey {
    digests: [u64; 2],
    length: usize,
    coding: Coding,
}

#[derive(Debug, Default)]
struct KeptContent {
    by_key: HashMap<CompressedKey, Arc<[u8]>>,
    bytes: usize,
}

impl CompressedCache {
    /// Room for `most` bytes.
    pub fn new(most: usize) -> CompressedCache {
        CompressedCache {
            most,
            digests: Default::default(),
            kept: Mutex::default(),
        }
    }

    /// The key of `plain` content in `coding`.
    pub fn key(&self, plain: &[u8], coding: Coding) -> CompressedKey {
        let digests = [0, 1].map(|number: usize| self.digests[number].hash_one(plain));
        CompressedKey { digests, length: plain.len(), coding }
    }

    /// The compressed content; `None` where no thread has kept it.
    pub fn find(&self, key: CompressedKey) -> Option<Arc<[u8]>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_key.get(&key).cloned()
    }

    /// Keeps compressed content for all threads.
    pub fn keep(&self, key: CompressedKey, content: &Arc<[u8]>) {
        if content.len() > self.most {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + content.len() > self.most {
            *kept = KeptContent::default();
        }
        if kept.by_key.insert(key, Arc::clone(content)).is_none() {
            kept.bytes += content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::Status;

    #[test]
    fn compressed_content_is_bounded_and_dropped_with_its_file() {
        let budget = CompressedBudget::new(40);
        let file = || Rc::new(Representation::new(ResponseHead::new(Status::OK), 100, 0));
        let content: Arc<[u8]> = vec![0; 10].into();
        let files: Vec<_> = (0..10).map(|_| file()).collect();
        for file in &files {
            budget.keep(file, Coding::Gzip, &content);
            budget.keep(file, Coding::Gzip, &content);
            let held = files.iter().filter(|file| file.compressed(Coding::Gzip).is_some());
            assert!(held.count() * content.len() <= 40);
            assert!(file.compressed(Coding::Gzip).is_some());
            assert!(file.compressed(Coding::Brotli).is_none());
        }
        assert!(files[0].compressed(Coding::Gzip).is_none());
        let large: Arc<[u8]> = vec![0; 41].into();
        budget.keep(&files[0], Coding::Gzip, &large);
        assert!(files[0].compressed(Coding::Gzip).is_none());
        drop(files);
        assert!(budget.holders.borrow().iter().all(|holder| holder.upgrade().is_none()));
    }

    #[test]
    fn what_threads_share_is_found_by_content_and_bounded() {
        let cache = CompressedCache::new(25);
        let content: Arc<[u8]> = vec![0; 10].into();
        let keys = [b"one", b"two", b"six"].map(|plain| cache.key(plain, Coding::Gzip));
        cache.keep(keys[0], &content);
        cache.keep(keys[0], &content);
        cache.keep(keys[1], &content);
        assert!(cache.find(cache.key(b"one", Coding::Gzip)).is_some());
        assert!(cache.find(cache.key(b"one", Coding::Brotli)).is_none());
        cache.keep(keys[2], &content);
        assert!(cache.find(keys[0]).is_none() && cache.find(keys[2]).is_some());
        let large: Arc<[u8]> = vec![0; 26].into();
        cache.keep(keys[1], &large);
        assert!(cache.find(keys[1]).is_none());
    }
}
