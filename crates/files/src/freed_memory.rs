//! Memory that was freed and that the kernel should get back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tells one thread that much memory was freed. To give it back takes milliseconds, under locks of
/// the allocator that other threads need meanwhile. Event loops and those that compile therefore
/// only leave a note.
#[derive(Debug, Default)]
pub struct FreedMemory {
    is_noted: Mutex<bool>,
    news: Condvar,
}

impl FreedMemory {
    /// Notes that much was freed.
    pub fn note(&self) {
        *self.lock() = true;
        self.news.notify_one();
    }

    /// Waits for a note, for at most `timeout`, and takes it. Returns whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let waited = self.news.wait_timeout_while(self.lock(), timeout, |noted| !*noted);
        let (mut noted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *noted)
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_taken_once() {
        let freed = FreedMemory::default();
        assert!(!freed.wait(Duration::ZERO));
        freed.note();
        freed.note();
        assert!(freed.wait(Duration::ZERO));
        assert!(!freed.wait(Duration::from_millis(1)));
    }

    #[test]
    fn a_note_ends_the_wait() {
        let freed = FreedMemory::default();
        std::thread::scope(|scope| {
            scope.spawn(|| freed.note());
            assert!(freed.wait(Duration::from_secs(600)));
        });
    }
}
