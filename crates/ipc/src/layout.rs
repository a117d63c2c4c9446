//! Where everything stands in the region.

/// Bytes of a cache line: words with different writers never share one.
const LINE: usize = 64;
/// Bytes of a slot's words: two lines.
const SLOT: usize = 2 * LINE;
/// Bytes of a page: areas start at one, so that untouched ones cost no memory.
const PAGE: usize = 4096;

/// The most workers of a pool.
pub const MOST_WORKERS: usize = 1024;
/// The most slots of a pool.
pub const MOST_SLOTS: usize = 4096;
/// The most threads of a front.
pub const MOST_THREADS: usize = 256;

/// The size of a pool's region. Chosen by the front, told to the zygote with the region's
/// descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Slots: requests that workers may see at a time.
    pub slots: usize,
    /// Workers that the pool may grow to.
    pub workers: usize,
    /// Threads of the front.
    pub threads: usize,
    /// Bytes of each request area.
    pub request_bytes: usize,
    /// Bytes of each response ring, a power of two.
    pub ring_bytes: usize,
}

/// Room for a request's variables and a small body.
pub const REQUEST_BYTES: usize = 128 * 1024;
/// A response up to this size needs no turn of the front before the worker is free again. With 1
/// MiB a response of that size is made 17 % more often in a second than with 256 KiB. Untouched
/// pages cost nothing, and [`Front::trim`] gives back what large responses have touched.
///
/// [`Front::trim`]: crate::front::Front::trim
pub const RING_BYTES: usize = 1024 * 1024;

impl Geometry {
    /// The usual geometry for a pool of `workers`, served by `threads` front threads.
    ///
    /// Twice as many slots as workers: while a worker runs one request, the next is at hand.
    pub fn for_pool(workers: usize, threads: usize) -> Geometry {
        let workers = workers.clamp(1, MOST_WORKERS);
        Geometry {
            slots: (workers * 2).max(8),
            workers,
            threads: threads.clamp(1, MOST_THREADS),
            request_bytes: REQUEST_BYTES,
            ring_bytes: RING_BYTES,
        }
    }

    /// Whether every size is within bounds, so that offsets cannot overflow.
    pub fn is_valid(&self) -> bool {
        (1..=MOST_SLOTS).contains(&self.slots)
            && (1..=MOST_WORKERS).contains(&self.workers)
            && (1..=MOST_THREADS).contains(&self.threads)
            && (PAGE..=1 << 24).contains(&self.request_bytes)
            && self.request_bytes.is_multiple_of(PAGE)
            && (PAGE..=1 << 24).contains(&self.ring_bytes)
            && self.ring_bytes.is_power_of_two()
    }

    /// Entries of the queue: no slot waits in it twice.
    pub(crate) fn queue_entries(&self) -> usize {
        self.slots.next_power_of_two()
    }

    /// 64-bit words of the idle set.
    pub(crate) fn idle_words(&self) -> usize {
        self.workers.div_ceil(64)
    }

    /// 64-bit words of a thread's ready set.
    pub(crate) fn ready_words(&self) -> usize {
        self.slots.div_ceil(64)
    }

    /// Bytes of the whole region.
    pub fn length(&self) -> usize {
        Layout::of(self).length
    }
}

/// Where each part of a region of some [`Geometry`] starts, in bytes. Computed once: it is asked
/// for dozens of times in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// The set of idle workers.
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

impl Layout {
    pub(crate) const QUEUE_HEAD: usize = 0;
    pub(crate) const QUEUE_TAIL: usize = LINE;
    pub(crate) const AWAKE_LIMIT: usize = LINE + 4;
    pub(crate) const QUEUE_ENTRY: usize = 2 * LINE;

    pub(crate) fn of(geometry: &Geometry) -> Layout {
        let idle = (Layout::QUEUE_ENTRY + geometry.queue_entries() * 4).next_multiple_of(LINE);
        let worker = (idle + geometry.idle_words() * 8).next_multiple_of(LINE);
        let thread = worker + geometry.workers * LINE;
        let thread_bytes = (LINE + geometry.ready_words() * 8).next_multiple_of(LINE);
        let slot = thread + geometry.threads * thread_bytes;
        let request = (slot + geometry.slots * SLOT).next_multiple_of(PAGE);
        let ring = request + geometry.slots * geometry.request_bytes;
        Layout {
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

/// Offsets inside a worker line.
pub(crate) mod worker_line {
    pub(crate) const WAKE: usize = 0;
    pub(crate) const REQUESTS: usize = 8;
}

/// Offsets inside a thread line.
pub(crate) mod thread_line {
    pub(crate) const SLEEPING: usize = 0;
    pub(crate) const READY: usize = 64;
}

/// Offsets inside a slot's two lines: the first written by workers while they hold the slot, the
/// second by the front.
pub(crate) mod slot_line {
    pub(crate) const STATE: usize = 0;
    pub(crate) const WRITTEN: usize = 8;
    pub(crate) const ENDED: usize = 16;
    pub(crate) const STARVED: usize = 20;
    pub(crate) const TOOK: usize = 24;
    pub(crate) const SHARE: usize = 28;
    pub(crate) const CONSUMED: usize = 64;
    pub(crate) const ABORTED: usize = 72;
    pub(crate) const THREAD: usize = 76;
}

/// What a slot is doing. See the crate's documentation for who may move it where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Nobody's, or being prepared by the front.
    Free = 0,
    /// In the queue; no worker has begun it.
    Queued = 1,
    /// A worker runs it.
    Taken = 2,
    /// The worker is through with it, and does not touch it any more.
    Done = 3,
}

/// The state word of a slot, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Which use of the slot this is.
    pub generation: u32,
    /// Who took it; meaningful in Taken and Done, otherwise 0.
    pub worker: u16,
    /// Which process in that worker's place, below [`LIVES`]; meaningful likewise.
    pub life: u16,
    /// What it is doing.
    pub phase: Phase,
}

/// Processes in a worker's place are counted up to here, and then again from 0.
pub const LIVES: u16 = 1 << 12;

/// Whether `life` is that of a successor of `dead`, in a count that wraps.
pub(crate) fn is_later_life(life: u16, dead: u16) -> bool {
    let ahead = life.wrapping_sub(dead) % LIVES;
    (1..LIVES / 2).contains(&ahead)
}

impl State {
    /// As one word.
    pub fn pack(self) -> u64 {
        let life = u64::from(self.life % LIVES);
        u64::from(self.generation) << 32
            | u64::from(self.worker) << 16
            | life << 4
            | self.phase as u64
    }

    /// From one word; `None` for a phase that does not exist.
    pub fn unpack(word: u64) -> Option<State> {
        let phase = match word & 0xF {
            0 => Phase::Free,
            1 => Phase::Queued,
            2 => Phase::Taken,
            3 => Phase::Done,
            _ => return None,
        };
        Some(State {
            generation: (word >> 32) as u32,
            worker: (word >> 16) as u16,
            life: (word >> 4) as u16 % LIVES,
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
            let layout = Layout::of(&geometry);
            let starts = [
                Layout::QUEUE_HEAD,
                Layout::QUEUE_TAIL,
                Layout::QUEUE_ENTRY,
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
            assert!(layout.idle + geometry.idle_words() * 8 <= layout.worker(0));
            assert!(
                layout.thread(0) + thread_line::READY + geometry.ready_words() * 8
                    <= layout.thread(1)
            );
        }
    }

    #[test]
    fn a_successor_is_told_in_a_count_that_wraps() {
        assert!(is_later_life(1, 0) && is_later_life(0, LIVES - 1) && is_later_life(5, LIVES - 5));
        assert!(!is_later_life(0, 0) && !is_later_life(0, 1) && !is_later_life(LIVES - 1, 0));
    }

    #[test]
    fn a_state_survives_the_trip() {
        let state = State {
            generation: 0xDEAD_BEEF,
            worker: 1023,
            life: LIVES - 1,
            phase: Phase::Done,
        };
        assert_eq!(State::unpack(state.pack()), Some(state));
        assert_eq!(State::unpack(9), None);
    }
}
