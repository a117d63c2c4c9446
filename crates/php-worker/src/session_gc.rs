//! Selects the requests that delete expired sessions.
//!
//! PHP selects requests at random (`session.gc_probability`), and each of them examines every
//! session. The cost per request grows with the number of a site's clients. For a pool with its own
//! session folder, time decides instead: one request every ten minutes deletes old sessions, with
//! the lifetime (`session.gc_maxlifetime`) and the save handler of its script.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Interval between deletions of old sessions in a pool.
const EVERY: Duration = Duration::from_secs(600);

/// Time for which a worker that starts a deletion keeps the other workers from starting one. A
/// deletion takes one second per 100,000 sessions.
const CLAIM: Duration = Duration::from_secs(60);

/// Delay before the next attempt if the selected request had no session. A worker doubles its delay
/// after each such request, up to [`EVERY`]. Therefore the attempts cost almost nothing on a site
/// without sessions.
const AGAIN: Duration = Duration::from_secs(1);

/// One worker's schedule of deletions.
#[derive(Debug)]
pub struct SessionGc {
    /// The file whose modification time is the time of the pool's last deletion. `None`: PHP
    /// decides on its own.
    stamp: Option<PathBuf>,
    next: Instant,
    /// Delay after a request without a session.
    again: Duration,
}

impl SessionGc {
    /// Creates the schedule for the sessions in `folder`. The file with the time is next to the
    /// folder.
    pub fn new(folder: Option<&Path>) -> SessionGc {
        SessionGc {
            stamp: folder.map(|folder| folder.with_extension("collected")),
            next: Instant::now(),
            again: AGAIN,
        }
    }

    /// Returns whether the next request should delete old sessions. The other workers skip this
    /// deletion then.
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

    /// Records the result of a request that was selected: whether it had a session and therefore
    /// deleted old ones.
    pub fn tried(&mut self, collected: bool) {
        let now = Instant::now();
        if collected {
            self.leave_alone_for(EVERY);
            self.next = now + EVERY;
            self.again = AGAIN;
        } else {
            // The next request of another worker may have a session.
            self.leave_alone_for(AGAIN);
            self.next = now + self.again;
            self.again = EVERY.min(self.again * 2);
        }
    }

    /// Delays the next attempt of all workers by `time`.
    fn leave_alone_for(&self, time: Duration) {
        let Some(stamp) = &self.stamp else {
            return;
        };
        // If the file cannot be written, each worker keeps its own schedule.
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
        // The time passes here, and for all of them.
        let age = |stamp: &Path, age: Duration| {
            let stamp = File::options().write(true).open(stamp).unwrap();
            stamp.set_modified(SystemTime::now() - age).unwrap();
        };
        let began = Instant::now();
        one.tried(false);
        assert!(one.next >= began + AGAIN, "not with each request of a site without sessions");
        (one.next, other.next) = (Instant::now(), Instant::now() + CLAIM);
        age(&path, EVERY);
        assert!(one.is_due());
        let began = Instant::now();
        one.tried(false);
        assert!(one.next >= began + 2 * AGAIN, "it asks less and less often");
        one.next = began + CLAIM;
        age(&path, EVERY);
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
        // A clock that was set back.
        stamp.set_modified(SystemTime::now() + EVERY * 5).unwrap();
        one.next = Instant::now();
        assert!(one.is_due());
        fs::remove_file(&path).unwrap();
    }
}
