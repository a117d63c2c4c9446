//! The atomics of the standard library, or those of the model checker.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Sets a flag from 1 to 0. `false`: it was not 1, and is left alone.
///
/// Not a `swap`: who loses the race for a flag writes nothing, so there is no such write for others
/// to run into.
pub fn clear(flag: &AtomicU32) -> bool {
    flag.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
