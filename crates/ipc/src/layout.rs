//! Offsets of everything in the region.

/// Bytes of a cache line. Words with different writers never share a cache line.
pub(crate) const LINE: usize = 64;
/// Bytes of a slot's words: two cache lines.
pub(crate) const SLOT: usize = 2 * LINE;
/// Bytes of a page. Every area starts at a page boundary, therefore untouched areas use no memory.
const PAGE: usize = 4096;

/// Largest number of workers in a pool. A pool that asks for more gets this number.
pub const MOST_WORKERS: usize = 1024;
/// Largest number of slots in a pool. It is enough for four slots for each worker. A region with
/// more is refused.
pub const MOST_SLOTS: usize = 4096;
/// Largest number of front threads. A front that asks for more gets a region for this number.
pub const MOST_THREADS: usize = 256;

/// The sizes of a pool's region. The front chooses them and sends them to the zygote together with
/// the region's descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Number of slots: requests that workers can see at the same time.
    pub slots: usize,
    /// Largest number of workers that the pool may have.
    pub workers: usize,
    /// Number of front threads.
    pub threads: usize,
    /// Bytes of each request area.
    pub request_bytes: usize,
    /// Bytes of each response ring, a power of two.
    pub ring_bytes: usize,
}

/// Default bytes of a request area: enough for a request's field lines, variables and a small body.
pub const REQUEST_BYTES: usize = 192 * 1024;
/// Default bytes of a response ring. The worker is free after writing a response up to this size,
/// without waiting for the front. Responses of 1 MiB reach a 17 % higher rate with this size than
/// with 256 KiB. Untouched pages use no memory, and [`FrontRegion::trim`] releases the pages that
/// large responses have touched.
///
/// [`FrontRegion::trim`]: crate::front::FrontRegion::trim
pub const RING_BYTES: usize = 1024 * 1024;

impl Geometry {
    /// The default geometry for a pool of `workers`, served by `threads` front threads.
    ///
    /// There are four times as many slots as workers: while a worker runs one request, the next
    /// ones are already in the queue, the more of them the shorter scripts are. With eight workers
    /// and 32 connections, scripts that take some microseconds reach a rate that is a fifth higher
    /// than with twice as many slots as workers.
    pub fn for_pool(workers: usize, threads: usize) -> Geometry {
        let workers = workers.clamp(1, MOST_WORKERS);
        Geometry {
            slots: (workers * 4).clamp(8, MOST_SLOTS),
            workers,
            threads: threads.clamp(1, MOST_THREADS),
            request_bytes: REQUEST_BYTES,
            ring_bytes: RING_BYTES,
        }
    }

    /// Returns whether every size is within its limits, which guarantees that offsets cannot
    /// overflow.
    pub fn is_valid(&self) -> bool {
        (1..=MOST_SLOTS).contains(&self.slots)
            && (1..=MOST_WORKERS).contains(&self.workers)
            && (1..=MOST_THREADS).contains(&self.threads)
            && (PAGE..=1 << 24).contains(&self.request_bytes)
            && self.request_bytes.is_multiple_of(PAGE)
            && (PAGE..=1 << 24).contains(&self.ring_bytes)
            && self.ring_bytes.is_power_of_two()
    }

    /// Number of entries in the queue. No slot is in the queue twice.
    pub(crate) fn queue_entries(&self) -> usize {
        self.slots.next_power_of_two()
    }

    /// Number of 64-bit words in the idle set.
    pub(crate) fn idle_words(&self) -> usize {
        self.workers.div_ceil(64)
    }

    /// Number of 64-bit words in a thread's ready set.
    pub(crate) fn ready_words(&self) -> usize {
        self.slots.div_ceil(64)
    }

    /// Bytes of the whole region.
    pub fn length(&self) -> usize {
        RegionLayout::of(self).length
    }
}

/// The offset of each part of a region, in bytes. Computed once per region, because a request needs
/// offsets dozens of times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegionLayout {
    /// The idle set.
    pub(crate) idle: usize,
    worker: usize,
    thread: usize,
    thread_bytes: usize,
    slot: usize,
    request: usize,
    request_bytes: usize,
    ring: usize,
    ring_bytes: usize,
    length: usize,
}

impl RegionLayout {
    pub(crate) const QUEUE_HEAD: usize = 0;
    pub(crate) const QUEUE_TAIL: usize = LINE;
    pub(crate) const AWAKE_LIMIT: usize = LINE + 4;
    pub(crate) const METERING: usize = LINE + 8;
    pub(crate) const PRESENT: usize = LINE + 12;
    /// Time at which a worker began to measure the use of PHP's caches; the numbers follow.
    pub(crate) const CACHES: usize = 2 * LINE;
    pub(crate) const QUEUE_ENTRY: usize = 4 * LINE;

    pub(crate) fn of(geometry: &Geometry) -> RegionLayout {
        let idle =
            (RegionLayout::QUEUE_ENTRY + geometry.queue_entries() * 4).next_multiple_of(LINE);
        let worker = (idle + geometry.idle_words() * 8).next_multiple_of(LINE);
        let thread = worker + geometry.workers * LINE;
        let thread_bytes = (LINE + geometry.ready_words() * 8).next_multiple_of(LINE);
        let slot = thread + geometry.threads * thread_bytes;
        let request = (slot + geometry.slots * SLOT).next_multiple_of(PAGE);
        let ring = request + geometry.slots * geometry.request_bytes;
        RegionLayout {
            idle,
            worker,
            thread,
            thread_bytes,
            slot,
            request,
            request_bytes: geometry.request_bytes,
            ring,
            ring_bytes: geometry.ring_bytes,
            length: ring + geometry.slots * geometry.ring_bytes,
        }
    }

    #[inline]
    pub(crate) fn worker(&self, worker: usize) -> usize {
        self.worker + worker * LINE
    }

    #[inline]
    pub(crate) fn thread(&self, thread: usize) -> usize {
        self.thread + thread * self.thread_bytes
    }

    #[inline]
    pub(crate) fn slot(&self, slot: usize) -> usize {
        self.slot + slot * SLOT
    }

    #[inline]
    pub(crate) fn request(&self, slot: usize) -> usize {
        self.request + slot * self.request_bytes
    }

    #[inline]
    pub(crate) fn ring(&self, slot: usize) -> usize {
        self.ring + slot * self.ring_bytes
    }
}

/// Offsets within a worker's cache line.
pub(crate) mod worker_line {
    pub(crate) const WAKE: usize = 0;
    pub(crate) const REQUESTS: usize = 8;
    /// Nanoseconds that the worker was on a processor.
    pub(crate) const PROCESSOR: usize = 16;
    /// KiB, 0 for unknown.
    pub(crate) const PROPORTIONAL: usize = 24;
    pub(crate) const RESIDENT: usize = 28;
    /// State word of the slot of the last request, at the time when the worker took it.
    pub(crate) const LAST: usize = 32;
    /// Index of that slot, plus one; 0 for none.
    pub(crate) const LAST_SLOT: usize = 40;
    /// Of the last request that has ended: KiB at the peak, microseconds on a processor,
    /// nanoseconds from beginning to end.
    pub(crate) const LAST_PEAK: usize = 44;
    pub(crate) const LAST_PROCESSOR: usize = 48;
    pub(crate) const LAST_TOOK: usize = 56;
}

/// Offsets inside a thread line.
pub(crate) mod thread_line {
    pub(crate) const SLEEPING: usize = 0;
    pub(crate) const READY: usize = 64;
}

/// Offsets within a slot's two cache lines. Workers write the first line while they hold the slot.
/// The front writes the second line.
pub(crate) mod slot_line {
    pub(crate) const STATE: usize = 0;
    pub(crate) const WRITTEN: usize = 8;
    pub(crate) const ENDED: usize = 16;
    pub(crate) const STARVED: usize = 20;
    pub(crate) const TOOK: usize = 24;
    pub(crate) const SHARE: usize = 28;
    pub(crate) const BEGAN: usize = 32;
    pub(crate) const PEAK: usize = 40;
    pub(crate) const PROCESSOR: usize = 44;
    pub(crate) const GRANT: usize = 48;
    pub(crate) const ASKED: usize = 56;
    pub(crate) const PRINTED: usize = 60;
    pub(crate) const CONSUMED: usize = 64;
    pub(crate) const ABORTED: usize = 72;
    pub(crate) const THREAD: usize = 76;
    pub(crate) const QUEUED: usize = 80;
    pub(crate) const ANSWERED: usize = 88;
    pub(crate) const SHOWN: usize = 92;
}

/// The phase of a slot. The crate's documentation says which process may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotPhase {
    /// Unused, or being prepared by the front.
    Free = 0,
    /// In the queue; no worker has taken the slot.
    Queued = 1,
    /// A worker runs the request.
    Taken = 2,
    /// The worker has finished and does not access the slot any more.
    Done = 3,
}

/// The state word of a slot, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotState {
    /// Number of this use of the slot.
    pub generation: u32,
    /// The worker that took the slot in the phases Taken and Done, otherwise 0.
    pub worker: u16,
    /// The process of that worker, less than [`INCARNATIONS`]. In the phases Taken and Done,
    /// otherwise 0.
    pub incarnation: u16,
    /// The slot's phase.
    pub phase: SlotPhase,
}

/// The number of incarnations of a worker after which the count starts at 0 again. An incarnation
/// is one process in the worker's place.
pub const INCARNATIONS: u16 = 1 << 12;

/// Returns whether `incarnation` follows `dead`, in a count that wraps.
pub(crate) fn is_later_incarnation(incarnation: u16, dead: u16) -> bool {
    let ahead = incarnation.wrapping_sub(dead) % INCARNATIONS;
    (1..INCARNATIONS / 2).contains(&ahead)
}

impl SlotState {
    /// Encodes the state as one word.
    pub fn pack(self) -> u64 {
        let incarnation = u64::from(self.incarnation % INCARNATIONS);
        u64::from(self.generation) << 32
            | u64::from(self.worker) << 16
            | incarnation << 4
            | self.phase as u64
    }

    /// Decodes a word. `None` for a phase that does not exist.
    pub fn unpack(word: u64) -> Option<SlotState> {
        let phase = match word & 0xF {
            0 => SlotPhase::Free,
            1 => SlotPhase::Queued,
            2 => SlotPhase::Taken,
            3 => SlotPhase::Done,
            _ => return None,
        };
        Some(SlotState {
            generation: (word >> 32) as u32,
            worker: (word >> 16) as u16,
            incarnation: (word >> 4) as u16 % INCARNATIONS,
            phase,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_are_aligned() {
        for (workers, threads) in [(1, 1), (4, 2), (65, 3), (1024, 256)] {
            let geometry = Geometry::for_pool(workers, threads);
            assert!(geometry.is_valid());
            let layout = RegionLayout::of(&geometry);
            let starts = [
                RegionLayout::QUEUE_HEAD,
                RegionLayout::QUEUE_TAIL,
                RegionLayout::QUEUE_ENTRY,
                layout.idle,
                layout.worker(0),
                layout.thread(0),
                layout.slot(0),
                layout.request(0),
                layout.ring(0),
                geometry.length(),
            ];
            assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
            assert!(starts.iter().all(|start| start % LINE == 0), "{starts:?}");
            assert!(RegionLayout::QUEUE_ENTRY + geometry.queue_entries() * 4 <= layout.idle);
            assert!(geometry.workers <= geometry.idle_words() * 64);
            assert!(geometry.slots <= geometry.ready_words() * 64);
            assert!(layout.idle + geometry.idle_words() * 8 <= layout.worker(0));
            assert!(layout.request(geometry.slots) <= layout.ring(0));
            assert!(
                layout.thread(0) + thread_line::READY + geometry.ready_words() * 8
                    <= layout.thread(1)
            );
        }
    }

    #[test]
    fn every_size_has_bounds() {
        let good = Geometry::for_pool(4, 2);
        type Size = fn(&mut Geometry) -> &mut usize;
        let sizes: [(Size, &[usize], &[usize]); 5] = [
            (|geometry| &mut geometry.slots, &[1, MOST_SLOTS], &[0, MOST_SLOTS + 1]),
            (|geometry| &mut geometry.workers, &[1, MOST_WORKERS], &[0, MOST_WORKERS + 1]),
            (|geometry| &mut geometry.threads, &[1, MOST_THREADS], &[0, MOST_THREADS + 1]),
            (
                |geometry| &mut geometry.request_bytes,
                &[PAGE, 3 * PAGE, 1 << 24],
                &[0, PAGE + 8, (1 << 24) + PAGE],
            ),
            (|geometry| &mut geometry.ring_bytes, &[PAGE, 1 << 24], &[PAGE / 2, 3 * PAGE, 1 << 25]),
        ];
        for (number, (size, valid, invalid)) in sizes.into_iter().enumerate() {
            for (bytes, is_valid) in valid
                .iter()
                .map(|one| (one, true))
                .chain(invalid.iter().map(|one| (one, false)))
            {
                let mut geometry = good;
                *size(&mut geometry) = *bytes;
                assert_eq!(geometry.is_valid(), is_valid, "size {number}: {bytes}");
            }
        }
    }

    #[test]
    fn a_region_has_the_bytes_of_its_parts() {
        let geometry = Geometry {
            slots: 130,
            workers: 65,
            threads: 3,
            request_bytes: 2 * PAGE,
            ring_bytes: 4 * PAGE,
        };
        let queue = 4 * LINE + 256 * 4;
        let (idle, workers, threads) = (LINE, 65 * LINE, 3 * 2 * LINE);
        let words = (queue + idle + workers + threads + 130 * SLOT).next_multiple_of(PAGE);
        assert_eq!(geometry.length(), words + 130 * (2 + 4) * PAGE);
        assert_eq!(Geometry::for_pool(20, 1).slots, 80);
    }

    #[test]
    fn a_successor_is_told_in_a_count_that_wraps() {
        assert!(
            is_later_incarnation(1, 0)
                && is_later_incarnation(0, INCARNATIONS - 1)
                && is_later_incarnation(5, INCARNATIONS - 5)
        );
        assert!(
            !is_later_incarnation(0, 0)
                && !is_later_incarnation(0, 1)
                && !is_later_incarnation(INCARNATIONS - 1, 0)
        );
    }

    #[test]
    fn a_state_survives_the_trip() {
        let state = SlotState {
            generation: 0xDEAD_BEEF,
            worker: 1023,
            incarnation: INCARNATIONS - 1,
            phase: SlotPhase::Done,
        };
        assert_eq!(SlotState::unpack(state.pack()), Some(state));
        assert_eq!(SlotState::unpack(0).map(|state| state.phase), Some(SlotPhase::Free));
        assert_eq!(SlotState::unpack(9), None);
    }
}
