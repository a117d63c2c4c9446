//! The atomics of the standard library, or those of the model checker.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Changes a flag from 1 to 0. Returns `false`, and leaves the flag alone, if it was not 1.
///
/// This is not a `swap`: a process that loses the race for the flag writes nothing, therefore its
/// write cannot collide with another process's.
pub fn clear(flag: &AtomicU32) -> bool {
    flag.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
