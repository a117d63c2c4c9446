//! `futex(2)`: sleeping on a word of shared memory.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The reason why [`wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// [`wake`] was called, or the kernel woke the thread without a reason. Read the word again.
    Woken,
    /// The word did not have the expected value.
    Changed,
    /// The timeout is over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` is `expected`, for at most `timeout`.
///
/// The word may be shared with other processes (no `FUTEX_PRIVATE_FLAG`).
///
/// # Errors
/// Another error of `futex(2)`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> io::Result<Wake> {
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word; `limit` is null or points to a timespec that
    // outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, limit) };
    if result == 0 {
        return Ok(Wake::Woken);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(Wake::Changed),
        Some(libc::ETIMEDOUT) => Ok(Wake::TimedOut),
        Some(libc::EINTR) => Ok(Wake::Interrupted),
        _ => Err(error),
    }
}

/// Wakes one thread that sleeps on `word`. Returns whether there was one.
pub fn wake(word: &AtomicU32) -> bool {
    // SAFETY: FUTEX_WAKE only uses the address as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_does_not_sleep() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None).unwrap(), Wake::Changed);
    }

    #[test]
    fn gives_up_after_the_timeout() {
        let timeout = Some(Duration::from_millis(1));
        assert_eq!(wait(&AtomicU32::new(0), 0, timeout).unwrap(), Wake::TimedOut);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, Some(Duration::from_secs(5))).unwrap();
                }
            });
            word.store(1, Ordering::Release);
            wake(&word);
        });
    }
}
