//! The thread that gives freed memory back to the kernel.
//!
//! The allocator keeps what connections and streams have freed, because a block behind it is in
//! use. Giving it back holds the lock of one thread's memory for about a millisecond per 5 MB, and
//! asking the allocator how much is free may take as long. Therefore only the kernel is asked: it
//! knows how much memory the process has. Where that is much more than it was at its least, an
//! attempt is made, and the time to the next one grows as long as attempts bring nothing.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use howdah_files::DirectiveCache;
use howdah_sys::allocator;
use howdah_sys::usage::OwnMemoryMeter;

/// Time between two looks at the memory, and for rules that no thread has any more.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which memory is given back again at the earliest.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes beyond the least memory that the process had, from which on it is worth an attempt.
const MUCH: u64 = 16 << 20;
/// Time between an attempt and the next one, at first and after attempts that brought nothing.
const SOON: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_secs(600);
/// Bytes of the thread's stack, of which it uses a few pages.
const STACK: usize = 128 * 1024;

/// Starts a thread that frees rules which were removed from the cache and that no thread has any
/// more, and that gives much freed memory back to the kernel. It ends after the cache.
///
/// # Errors
/// The system has no resources for a thread.
pub(super) fn start(directives: &Arc<DirectiveCache>) -> io::Result<()> {
    let directives = Arc::downgrade(directives);
    let builder = thread::Builder::new().name("front-memory".to_owned());
    let started = builder.stack_size(STACK).spawn(move || {
        // Without it, only what was noted is given back.
        let meter = OwnMemoryMeter::of_this_process().ok();
        let read = || meter.as_ref()?.read().ok();
        // The first clients may come before the first look.
        let mut attempts = Attempts::new(read().unwrap_or(u64::MAX), Instant::now());
        while let Some(directives) = directives.upgrade() {
            let is_noted = directives.freed().wait(LOOK);
            if directives.has_removed() {
                directives.free_removed();
            }
            drop(directives);
            let before = read();
            if is_noted || before.is_some_and(|memory| attempts.is_due(memory, Instant::now())) {
                allocator::give_back();
                if let (Some(before), Some(after)) = (before, read()) {
                    attempts.note(before, after, Instant::now());
                }
                thread::sleep(PAUSE);
            }
        }
    });
    started.map(drop)
}

/// The attempts to give memory back.
#[derive(Debug)]
struct Attempts {
    /// Bytes that the process had when it had the fewest.
    least: u64,
    /// Bytes after the last attempt.
    left: u64,
    /// The time of the next attempt, and of that after it if the next one brings nothing.
    next: Instant,
    pause: Duration,
}

impl Attempts {
    /// No attempt yet, of a process that has `memory` bytes.
    fn new(memory: u64, now: Instant) -> Attempts {
        Attempts {
            least: memory,
            left: memory,
            next: now,
            pause: SOON,
        }
    }

    /// Returns whether an attempt is due where the process has `memory` bytes.
    fn is_due(&mut self, memory: u64, now: Instant) -> bool {
        self.least = self.least.min(memory);
        if memory > self.left.saturating_add(MUCH) {
            // Memory that was taken since the last attempt may be free soon.
            self.left = memory;
            self.pause = SOON;
            self.next = self.next.min(now + SOON);
        }
        memory > self.least.saturating_add(MUCH) && now >= self.next
    }

    /// Notes an attempt that has left `after` of `before` bytes.
    fn note(&mut self, before: u64, after: u64, now: Instant) {
        self.least = self.least.min(after);
        self.left = after;
        self.pause = match before > after + MUCH / 2 {
            true => SOON,
            false => (self.pause * 2).min(LATE),
        };
        self.next = now + self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// Looks once a second, and returns the seconds of attempts. `used` returns the bytes in use.
    fn attempts(seconds: u64, used: impl Fn(u64) -> u64) -> Vec<u64> {
        let start = Instant::now();
        let mut attempts = Attempts::new(used(0), start);
        let (mut made, mut memory) = (Vec::new(), 0);
        for second in 0..seconds {
            let now = start + Duration::from_secs(second);
            // The process keeps what it has freed.
            memory = used(second).max(memory);
            if attempts.is_due(memory, now) {
                attempts.note(memory, used(second), now);
                memory = used(second);
                made.push(second);
            }
        }
        made
    }

    #[test]
    fn memory_that_an_attack_has_left_is_given_back_soon() {
        // 300 MB are in use for ten seconds, then 10 MB.
        let made = attempts(100, |second| match second {
            5..15 => 300 * MB,
            _ => 10 * MB,
        });
        let after: Vec<u64> = made.into_iter().filter(|second| *second >= 15).collect();
        assert_eq!(after.len(), 1, "{after:?}");
        assert!(after[0] <= 15 + 10, "{after:?}");
    }

    #[test]
    fn memory_in_use_costs_few_attempts() {
        let made = attempts(3600, |second| if second < 5 { 10 * MB } else { 500 * MB });
        assert!(made.len() <= 16, "{made:?}");
        let steady = attempts(3600, |second| (10 + second % 15) * MB);
        assert!(steady.is_empty(), "{steady:?}: little is kept for the next connections");
    }
}
