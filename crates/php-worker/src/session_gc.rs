//! Which requests delete the sessions that nobody came back for.
//!
//! PHP has one request in so many (`session.gc_probability`) look at every session there is. The
//! more clients a site has, the more that costs each of its pages. In a pool whose sessions are in
//! its own folder the time decides: one request in ten minutes does it, with the lifetime
//! (`session.gc_maxlifetime`) and the save handler that its script has chosen.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How often a pool's old sessions are deleted.
const EVERY: Duration = Duration::from_secs(600);

/// How long the others leave it to the one that has begun. It takes a second for some 100,000
/// sessions.
const CLAIM: Duration = Duration::from_secs(60);

/// How soon it is tried again when the request that was to do it had no session. A worker waits
/// twice as long each time, up to [`EVERY`], so that a site without sessions is hardly ever
/// troubled.
const AGAIN: Duration = Duration::from_secs(1);

/// One worker's view of when it is time.
#[derive(Debug)]
pub struct SessionGc {
    /// The file whose time says when some worker of the pool did it last. `None`: PHP decides by
    /// itself.
    stamp: Option<PathBuf>,
    next: Instant,
    /// How long to wait after a request without a session.
    again: Duration,
}

impl SessionGc {
    /// For sessions that are in `folder`. The file stands beside it.
    pub fn new(folder: Option<&Path>) -> SessionGc {
        SessionGc {
            stamp: folder.map(|folder| folder.with_extension("collected")),
            next: Instant::now(),
            again: AGAIN,
        }
    }

    /// Whether the next request is to do it. Then the other workers' need not.
    pub fn is_due(&mut self) -> bool {
        let Some(stamp) = &self.stamp else {
            return false;
        };
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        let modified = fs::metadata(stamp).and_then(|stamp| stamp.modified());
        let age = modified.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
        if let Some(age) = age.filter(|age| *age < EVERY) {
            self.next = now + (EVERY - age);
            return false;
        }
        self.leave_alone_for(CLAIM);
        true
    }

    /// To be told after a request that was to do it: whether there was a session, so that it did.
    pub fn tried(&mut self, collected: bool) {
        let now = Instant::now();
        if collected {
            self.leave_alone_for(EVERY);
            self.next = now + EVERY;
            self.again = AGAIN;
        } else {
            // Another worker's next request may be one with a session.
            self.leave_alone_for(AGAIN);
            self.next = now + self.again;
            self.again = EVERY.min(self.again * 2);
        }
    }

    /// For all workers.
    fn leave_alone_for(&self, time: Duration) {
        let Some(stamp) = &self.stamp else {
            return;
        };
        // Where nothing can be written, each worker does it for itself.
        let _ = File::create(stamp)
            .and_then(|stamp| stamp.set_modified(SystemTime::now() + time - EVERY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_does_it_for_all() {
        let folder = std::env::temp_dir().join(format!("howdah-session-gc-{}", std::process::id()));
        let path = folder.with_extension("collected");
        let mut nobody = SessionGc::new(None);
        assert!(!nobody.is_due());
        let [mut one, mut other] = [SessionGc::new(Some(&folder)), SessionGc::new(Some(&folder))];
        assert!(one.is_due(), "nobody has done it yet");
        assert!(!other.is_due(), "one does it");
        one.tried(false);
        assert!(!one.is_due(), "not with each request of a site without sessions");
        std::thread::sleep(AGAIN + AGAIN / 10);
        assert!(one.is_due());
        one.tried(false);
        std::thread::sleep(AGAIN + AGAIN / 10);
        assert!(!one.is_due(), "it asks less and less often");
        other.next = Instant::now();
        assert!(other.is_due(), "which is none of the others' business");
        other.tried(true);
        one.next = Instant::now();
        assert!(!one.is_due() && !other.is_due());

        let stamp = File::options().write(true).open(&path).unwrap();
        stamp.set_modified(SystemTime::now() - EVERY).unwrap();
        assert!(!one.is_due() && !other.is_due(), "both know when to look again");
        other.next = Instant::now();
        assert!(other.is_due());
        // A clock that was put back.
        stamp.set_modified(SystemTime::now() + EVERY * 5).unwrap();
        one.next = Instant::now();
        assert!(one.is_due());
        fs::remove_file(&path).unwrap();
    }
}
