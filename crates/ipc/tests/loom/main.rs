//! The shared-memory protocol under the loom model checker: every interleaving, and every value
//! that the memory model lets a load see, within a bound on preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p howdah-ipc --release --test loom --target-dir target/loom`
//!
//! Each test says what it guards: with that line taken out of the sources, the test fails. A lost
//! wake-up shows as loom's "deadlock", since the [`Futex`] here sleeps for good where the kernel's
//! would.
#![cfg(loom)]
#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

mod bell;
mod flow_control;
mod pool;

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// Explores `scenario` with at most `preemptions` involuntary switches per run.
fn model(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

/// `futex(2)` on one word: compare and sleep are one step.
struct Futex {
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex {
            lock: Mutex::new(()),
            sleepers: Condvar::new(),
        }
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(guard).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.sleepers.notify_one();
    }
}

/// The model itself: without a fence between the two, each side of such a pair may miss the other.
/// Should loom's notion of fences change, the guards above would be worth nothing, and this would
/// say so.
#[test]
fn fences_are_what_makes_each_side_see_the_other() {
    fn either_sees(fenced: bool) -> bool {
        let both_missed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = both_missed.clone();
        model(4, move || {
            let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
            let other = {
                let words = words.clone();
                thread::spawn(move || {
                    words.0.store(1, Ordering::Release);
                    if fenced {
                        fence(Ordering::SeqCst);
                    }
                    words.1.load(Ordering::Acquire)
                })
            };
            words.1.store(1, Ordering::Release);
            if fenced {
                fence(Ordering::SeqCst);
            }
            let mine = words.0.load(Ordering::Acquire);
            if mine == 0 && other.join().unwrap() == 0 {
                seen.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        !both_missed.load(std::sync::atomic::Ordering::Relaxed)
    }
    assert!(either_sees(true));
    assert!(!either_sees(false));
}
