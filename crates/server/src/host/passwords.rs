//! Comparing passwords with their hashes. A comparison is slow by design, so comparisons run
//! outside the event loops, and their results are kept.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_htaccess::host::Verified;
use tokio::sync::Semaphore;

/// The time for which a result is kept. It does not prolong a password's validity: a changed or
/// removed password has another hash, or none.
const KEPT: Duration = Duration::from_secs(60);
/// The most results that are kept. At this bound, results older than half of [`KEPT`] are dropped;
/// if that makes no room, all are.
const MOST_KEPT: usize = 4096;

/// The most requests that wait for a comparison. Further ones get 503, so that guessing passwords
/// delays no other request for long.
const MOST_WAITING: usize = 64;

/// Compares a password with a hash in one of the forms that `htpasswd` writes.
pub(crate) type Compare = fn(hash: &[u8], password: &[u8]) -> bool;

/// The results of comparisons, for all threads of the front.
#[derive(Debug)]
pub(crate) struct Passwords {
    compare: Compare,
    /// By keyed digests of hash and password together; neither is kept.
    known: Mutex<HashMap<(u64, u64), Answer>>,
    keys: [RandomState; 2],
    /// Bounds the comparisons that run at a time, so that guessing passwords uses only a part of
    /// the machine.
    permits: Semaphore,
    /// The number of requests whose comparison waits or runs.
    waiting: AtomicUsize,
}

/// A request that waits.
struct Waiting<'p>(&'p AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    fits: bool,
    since: Instant,
}

impl Passwords {
    /// Returns an empty cache of results. `at_a_time` bounds the comparisons that run at a time.
    pub(crate) fn new(compare: Compare, at_a_time: usize) -> Passwords {
        Passwords {
            compare,
            known: Mutex::default(),
            keys: Default::default(),
            permits: Semaphore::new(at_a_time.max(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Returns whether the password matches, if it was compared within the last minute.
    pub(crate) fn known(&self, hash: &[u8], password: &[u8], now: Instant) -> Verified {
        let key = self.key(hash, password);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&key) {
            Some(answer) if now.saturating_duration_since(answer.since) < KEPT => {
                if answer.fits {
                    Verified::Yes
                } else {
                    Verified::No
                }
            }
            _ => Verified::Later,
        }
    }

    /// Compares on another thread. Returns `false` where too many requests wait already.
    pub(crate) async fn find_out(&self, hash: Vec<u8>, password: Vec<u8>) -> bool {
        let key = self.key(&hash, &password);
        let Some(_waiting) = self.queue() else {
            return false;
        };
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        // Another request may have asked for the same comparison.
        if self.known(&hash, &password, Instant::now()) != Verified::Later {
            return true;
        }
        let compare = self.compare;
        let compared = tokio::task::spawn_blocking(move || compare(&hash, &password)).await;
        let answer = Answer {
            fits: compared.unwrap_or(false),
            since: Instant::now(),
        };
        self.keep(key, answer);
        true
    }

    fn queue(&self) -> Option<Waiting<'_>> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Waiting(&self.waiting);
        (before < MOST_WAITING).then_some(waiting)
    }

    /// Compares on this thread, for a caller that has nothing else to do.
    pub(crate) fn find_out_now(&self, hash: &[u8], password: &[u8]) {
        let answer = Answer {
            fits: (self.compare)(hash, password),
            since: Instant::now(),
        };
        self.keep(self.key(hash, password), answer);
    }

    fn keep(&self, key: (u64, u64), answer: Answer) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KEPT {
            known.retain(|_, kept| answer.since.saturating_duration_since(kept.since) < KEPT / 2);
        }
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, answer);
    }

    fn key(&self, hash: &[u8], password: &[u8]) -> (u64, u64) {
        let [first, second] = self.keys.each_ref().map(|key| key.hash_one((hash, password)));
        (first, second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COMPARED: AtomicUsize = AtomicUsize::new(0);

    fn compare(hash: &[u8], password: &[u8]) -> bool {
        COMPARED.fetch_add(1, Ordering::Relaxed);
        hash == password
    }

    #[tokio::test]
    async fn each_is_compared_once_a_minute() {
        let passwords = Passwords::new(compare, 2);
        let now = Instant::now();
        assert_eq!(passwords.known(b"a", b"a", now), Verified::Later);
        for _ in 0..3 {
            passwords.find_out(b"a".to_vec(), b"a".to_vec()).await;
            passwords.find_out(b"a".to_vec(), b"b".to_vec()).await;
        }
        assert_eq!(COMPARED.load(Ordering::Relaxed), 2);
        assert_eq!(passwords.known(b"a", b"a", Instant::now()), Verified::Yes);
        assert_eq!(passwords.known(b"a", b"b", Instant::now()), Verified::No);
        assert_eq!(passwords.known(b"ab", b"", Instant::now()), Verified::Later);
        assert_eq!(passwords.known(b"a", b"a", Instant::now() + KEPT), Verified::Later);
    }

    #[tokio::test]
    async fn not_everybody_may_wait() {
        let passwords = Passwords::new(|_, _| true, 1);
        let waiting: Vec<_> = (0..MOST_WAITING).filter_map(|_| passwords.queue()).collect();
        assert_eq!(waiting.len(), MOST_WAITING);
        assert!(!passwords.find_out(b"c".to_vec(), b"c".to_vec()).await);
        drop(waiting);
        assert!(passwords.find_out(b"c".to_vec(), b"c".to_vec()).await);
    }

    #[test]
    fn memory_is_bounded() {
        let passwords = Passwords::new(compare, 1);
        let since = Instant::now();
        for number in 0..3 * MOST_KEPT as u64 {
            passwords.keep((number, 0), Answer { fits: false, since });
            assert!(passwords.known.lock().unwrap().len() <= MOST_KEPT);
        }
    }
}
