//! A front thread that sleeps, and the workers that have news for it.

use howdah_ipc::doorbell::Doorbell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::model;

/// `eventfd(2)`.
struct Bell {
    count: Mutex<u32>,
    listeners: Condvar,
}

impl Bell {
    fn new() -> Bell {
        Bell {
            count: Mutex::new(0),
            listeners: Condvar::new(),
        }
    }

    fn ring(&self) {
        *self.count.lock().unwrap() += 1;
        self.listeners.notify_one();
    }

    fn wait(&self) {
        let mut count = self.count.lock().unwrap();
        while *count == 0 {
            count = self.listeners.wait(count).unwrap();
        }
        *count = 0;
    }
}

/// Guards: the fences of `Doorbell::mark` and `try_sleep`, and the look at the marks between them;
/// AcqRel of a mark.
#[test]
fn a_front_thread_that_falls_asleep_hears_of_every_slot() {
    model(4, || {
        let words = Arc::new((AtomicU32::new(0), [AtomicU64::new(0)], Bell::new()));
        let written = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let workers: Vec<_> = (0..2)
            .map(|slot| {
                let (words, written) = (words.clone(), written.clone());
                thread::spawn(move || {
                    written[slot].store(1, Ordering::Relaxed);
                    let bell = Doorbell { sleeping: &words.0, ready: &words.1 };
                    if bell.mark(slot) {
                        words.2.ring();
                    }
                })
            })
            .collect();
        let bell = Doorbell { sleeping: &words.0, ready: &words.1 };
        let mut news = 0;
        loop {
            bell.drain(2, |slot| {
                assert_eq!(written[slot].load(Ordering::Relaxed), 1);
                news += 1;
            });
            if news == 2 {
                break;
            }
            if bell.try_sleep() {
                words.2.wait();
                bell.woke();
            }
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
