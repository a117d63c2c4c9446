//! The use of PHP's caches, which one worker of a pool measures from time to time.

use super::ResponseWriter;
use crate::figures::{CacheNumber, CacheNumbers, UNKNOWN};
use crate::region::Region;
use crate::sync::Ordering;

/// Nanoseconds between two measurements of PHP's caches, each of which takes a request of the pool
/// about a fifth of a millisecond.
const CACHE_INTERVAL: u64 = 2_000_000_000;

/// Returns whether it is time to measure PHP's caches. Says so to one worker of the pool.
pub(super) fn is_due(region: &Region, now: u64) -> bool {
    let (measured, _) = region.caches();
    let last = measured.load(Ordering::Relaxed);
    let is_due = last == 0 || now.saturating_sub(last) >= CACHE_INTERVAL;
    is_due
        && measured
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

impl ResponseWriter<'_> {
    /// Publishes the use of PHP's caches. Returns the pool's former numbers.
    pub fn note_caches(&mut self, numbers: &CacheNumbers) -> CacheNumbers {
        let (_, words) = self.shared.region.caches();
        let mut former = [UNKNOWN; CacheNumber::COUNT];
        for ((word, number), former) in words.iter().zip(numbers).zip(&mut former) {
            let number = number.wrapping_add(1).cast_unsigned();
            *former = word.swap(number, Ordering::Relaxed).cast_signed().wrapping_sub(1);
        }
        former
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use super::*;
    use crate::layout::Geometry;

    #[test]
    fn one_worker_measures_the_caches_at_a_time() {
        let (region, _) = Region::create(Geometry::for_pool(1, 1)).unwrap();
        let again = 7 + CACHE_INTERVAL;
        for (now, is_time) in [(7, true), (7, false), (again - 1, false), (again, true)] {
            assert_eq!(is_due(&region, now), is_time, "{now}");
        }
    }
}
