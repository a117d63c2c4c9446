//! Comparing passwords with their hashes. A comparison is slow by design, so comparisons run
//! outside the event loops, on threads where the sites take turns, and within a site the clients.
//! Guessing at one site's passwords delays no login of another.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_htaccess::host::PasswordVerdict;

use crate::crew::{Crew, JobOrigin, QueueBounds};

/// The time for which a success is kept. It does not prolong a password's validity: a changed or
/// removed password has another hash, or none.
const KEPT: Duration = Duration::from_secs(60);
/// The most successes that are kept for one site. At this bound, those older than half of [`KEPT`]
/// are dropped; if that makes no room, all of the site are. Only the right passwords enter, so
/// nobody can push them out by guessing.
const MOST_KEPT: usize = 1024;
/// The comparisons that may wait at one site. Further requests get 503.
const MOST_WAITING: usize = 64;
/// The comparisons for one client among them. Its further requests get 503.
const MOST_WAITING_OF_CLIENT: usize = 16;

/// Compares a password with a hash in one of the forms that `htpasswd` writes.
pub(crate) type Compare = fn(hash: &[u8], password: &[u8]) -> bool;

/// The threads that compare passwords, and the results for all threads of the front.
#[derive(Debug)]
pub(crate) struct Passwords {
    compare: Compare,
    crew: Crew<()>,
    /// The successes by site, and by keyed digests of hash and password together; neither is kept.
    known: Mutex<HashMap<usize, HashMap<PasswordKey, Instant>>>,
    keys: [RandomState; 2],
}

/// The digests of a hash and a password.
type PasswordKey = (u64, u64);

/// The results of the comparisons for one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparedPasswords(Vec<(PasswordKey, bool)>);

impl Passwords {
    /// Starts `threads` threads, at least two: one site never has all of them.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub(crate) fn start(compare: Compare, threads: usize) -> io::Result<Passwords> {
        let threads = threads.max(2);
        let bounds = QueueBounds {
            site: MOST_WAITING,
            client: MOST_WAITING_OF_CLIENT,
            at_a_time: threads - 1,
        };
        Ok(Passwords {
            compare,
            crew: Crew::start_each(
                "passwords",
                threads,
                bounds,
                || (),
                || {
                    // Guessing at passwords must not slow down requests that need none.
                    let _ = howdah_sys::schedule::yield_to_other_threads();
                },
            )?,
            known: Mutex::default(),
            keys: Default::default(),
        })
    }

    /// Returns whether the password matches, if it was compared for this request, or matched within
    /// the last minute.
    pub(crate) fn known(
        &self,
        site: usize,
        compared: &ComparedPasswords,
        (hash, password): (&[u8], &[u8]),
        now: Instant,
    ) -> PasswordVerdict {
        let key = self.key(hash, password);
        if let Some((_, fits)) = compared.0.iter().find(|(known, _)| *known == key) {
            return if *fits {
                PasswordVerdict::Yes
            } else {
                PasswordVerdict::No
            };
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.get(&site).and_then(|known| known.get(&key));
        match since {
            Some(since) if now.saturating_duration_since(*since) < KEPT => PasswordVerdict::Yes,
            _ => PasswordVerdict::Later,
        }
    }

    /// Compares on another thread, and adds the result to `compared`. Returns `false` where too
    /// many requests wait already.
    pub(crate) async fn find_out(
        &self,
        origin: JobOrigin,
        compared: &mut ComparedPasswords,
        hash: Vec<u8>,
        password: Vec<u8>,
    ) -> bool {
        let key = self.key(&hash, &password);
        let compare = self.compare;
        let Ok(fits) = self.crew.run(origin, move |()| compare(&hash, &password)).await else {
            return false;
        };
        compared.0.push((key, fits));
        if fits {
            self.keep(origin.site, key, Instant::now());
        }
        true
    }

    /// Compares on this thread, for a caller that has nothing else to do.
    pub(crate) fn find_out_now(
        &self,
        compared: &mut ComparedPasswords,
        hash: &[u8],
        password: &[u8],
    ) {
        compared.0.push((self.key(hash, password), (self.compare)(hash, password)));
    }

    fn keep(&self, site: usize, key: PasswordKey, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(site).or_default();
        if known.len() >= MOST_KEPT {
            known.retain(|_, since| now.saturating_duration_since(*since) < KEPT / 2);
        }
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, now);
    }

    fn key(&self, hash: &[u8], password: &[u8]) -> PasswordKey {
        let [first, second] = self.keys.each_ref().map(|key| key.hash_one((hash, password)));
        (first, second)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::crew::ClientNetwork;

    fn origin(site: usize, client: u8) -> JobOrigin {
        let network = ClientNetwork::of(IpAddr::from([192, 0, 2, client]));
        JobOrigin { site, network }
    }

    async fn find_out(
        passwords: &Passwords,
        origin: JobOrigin,
        hash: &str,
        password: &str,
    ) -> ComparedPasswords {
        let mut compared = ComparedPasswords::default();
        let (hash, password) = (hash.as_bytes().to_vec(), password.as_bytes().to_vec());
        assert!(passwords.find_out(origin, &mut compared, hash, password).await);
        compared
    }

    #[tokio::test]
    async fn only_successes_are_kept_and_each_for_its_site() {
        static COMPARED: AtomicUsize = AtomicUsize::new(0);
        let compare: Compare = |hash, password| {
            COMPARED.fetch_add(1, Ordering::Relaxed);
            hash == password
        };
        let passwords = Passwords::start(compare, 2).unwrap();
        let none = ComparedPasswords::default();
        let now = Instant::now();
        let known = |site, compared: &ComparedPasswords, pair: (&str, &str), now| {
            passwords.known(site, compared, (pair.0.as_bytes(), pair.1.as_bytes()), now)
        };
        assert_eq!(known(1, &none, ("a", "a"), now), PasswordVerdict::Later);
        let right = find_out(&passwords, origin(1, 1), "a", "a").await;
        let wrong = find_out(&passwords, origin(1, 1), "a", "b").await;
        assert_eq!(COMPARED.load(Ordering::Relaxed), 2);
        let now = Instant::now();
        assert_eq!(known(1, &right, ("a", "a"), now), PasswordVerdict::Yes);
        assert_eq!(known(1, &wrong, ("a", "b"), now), PasswordVerdict::No, "for this request");
        assert_eq!(known(1, &none, ("a", "a"), now), PasswordVerdict::Yes);
        assert_eq!(
            known(1, &none, ("a", "b"), now),
            PasswordVerdict::Later,
            "for the next request"
        );
        assert_eq!(known(2, &none, ("a", "a"), now), PasswordVerdict::Later, "at another site");
        assert_eq!(known(1, &none, ("aa", ""), now), PasswordVerdict::Later);
        assert_eq!(known(1, &none, ("a", "a"), now + KEPT), PasswordVerdict::Later);
    }

    #[tokio::test]
    async fn guessing_at_one_site_leaves_the_logins_of_another() {
        static HOLD: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);
        let (release, held) = mpsc::channel();
        *HOLD.lock().unwrap() = Some(held);
        let compare: Compare = |hash, password| {
            if hash == b"slow" {
                // An error ends the comparisons of the test that is over.
                let _ = HOLD.lock().unwrap().as_ref().unwrap().recv();
            }
            hash == password
        };
        let passwords = Arc::new(Passwords::start(compare, 1).unwrap());
        let guess = |client: u8, number: usize| {
            let passwords = Arc::clone(&passwords);
            tokio::spawn(async move {
                let password = format!("{number}").into_bytes();
                let mut compared = ComparedPasswords::default();
                let slow = b"slow".to_vec();
                passwords.find_out(origin(1, client), &mut compared, slow, password).await
            })
        };
        let guesses: Vec<_> = (0..20).map(|number| guess(1, number)).collect();
        let others: Vec<_> = (2..8)
            .flat_map(|client| (0..12).map(move |number| (client, number)))
            .map(|(client, number)| guess(client, number))
            .collect();
        // The site's own queue fills up. A thread that begins late makes room in it again.
        let mut late = Vec::new();
        loop {
            let next = guess(9, late.len());
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            if next.is_finished() {
                assert!(!next.await.unwrap());
                break;
            }
            late.push(next);
            assert!(late.len() < 1_000, "the queue has no end");
        }
        let found = find_out(&passwords, origin(2, 1), "y", "y").await;
        let verified = passwords.known(2, &found, (b"y", b"y"), Instant::now());
        assert_eq!(verified, PasswordVerdict::Yes);
        drop(release);
        let mut refused = 0;
        for guess in guesses.into_iter().chain(others).chain(late) {
            refused += usize::from(!guess.await.unwrap());
        }
        assert!(refused > 0, "some found the queue full");
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let passwords = Passwords::start(|_, _| true, 1).unwrap();
        let since = Instant::now();
        for number in 0..3 * MOST_KEPT as u64 {
            passwords.keep(1, (number, 0), since);
            passwords.keep(2, (7, 7), since);
            let known = passwords.known.lock().unwrap();
            assert!(known[&1].len() <= MOST_KEPT && known[&2].len() == 1);
        }
    }

    #[tokio::test]
    async fn comparisons_yield_to_the_event_loops() {
        fn nice() -> i64 {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let after_name = stat.rsplit_once(") ").unwrap().1;
            after_name.split(' ').nth(16).unwrap().parse().unwrap()
        }
        static NICE: Mutex<Option<i64>> = Mutex::new(None);
        let compare: Compare = |_, _| {
            *NICE.lock().unwrap() = Some(nice());
            true
        };
        let passwords = Passwords::start(compare, 2).unwrap();
        find_out(&passwords, origin(1, 1), "a", "a").await;
        assert_eq!(NICE.lock().unwrap().unwrap(), (nice() + 5).min(19));
    }
}
