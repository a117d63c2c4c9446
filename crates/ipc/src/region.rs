//! The mapped region: atomics are accessed in place, bytes by copying.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::memory::{self, Mapping};

use crate::doorbell::Doorbell;
use crate::figures::{CacheNumber, SUMMARY_BYTES};
use crate::flow_control::FlowControl;
use crate::idle_set::IdleSet;
use crate::layout::{Geometry, LINE, RegionLayout, SLOT, slot_line, thread_line, worker_line};
use crate::queue::Queue;
use crate::slot::StateWord;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A pool's shared memory, mapped into one process.
#[derive(Debug)]
pub(crate) struct Region {
    mapping: Mapping,
    geometry: Geometry,
    layout: RegionLayout,
}

impl Region {
    /// Creates a region of zeros: every slot is Free, and everything is empty. Also returns the
    /// memory file, for the other processes.
    ///
    /// # Errors
    /// `InvalidInput` for sizes out of bounds, or the error of a system call, such as `ENOMEM`.
    pub(crate) fn create(geometry: Geometry) -> io::Result<(Region, OwnedFd)> {
        check_sizes(&geometry)?;
        let file = memory::sealed_file(c"howdah-pool", geometry.length())?;
        Ok((Region::map(file.as_fd(), geometry)?, file))
    }

    /// Maps a region that another process created. The mapping stays when `file` is closed.
    ///
    /// # Errors
    /// `InvalidInput` for sizes out of bounds, or the error of `mmap(2)`.
    pub(crate) fn map(file: impl AsFd, geometry: Geometry) -> io::Result<Region> {
        check_sizes(&geometry)?;
        Ok(Region {
            mapping: Mapping::new(file.as_fd(), geometry.length())?,
            geometry,
            layout: RegionLayout::of(&geometry),
        })
    }

    /// Keeps later child processes of this process from having the region.
    ///
    /// # Errors
    /// The error of `madvise(2)`.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        self.mapping.keep_from_children()
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn queue(&self) -> Queue<'_> {
        Queue {
            head: self.word(RegionLayout::QUEUE_HEAD),
            tail: self.word(RegionLayout::QUEUE_TAIL),
            entries: self.words(RegionLayout::QUEUE_ENTRY, self.geometry.queue_entries()),
        }
    }

    /// The largest number of workers that should be awake; 0: all.
    pub(crate) fn awake_limit(&self) -> &AtomicU32 {
        self.word(RegionLayout::AWAKE_LIMIT)
    }

    /// The number of workers that live and are not told to end.
    pub(crate) fn present(&self) -> &AtomicU32 {
        self.word(RegionLayout::PRESENT)
    }

    /// 1 if workers measure the processor time of each request.
    pub(crate) fn metering(&self) -> &AtomicU32 {
        self.word(RegionLayout::METERING)
    }

    /// The time of the last measurement of PHP's caches, in nanoseconds; 0 for none. Then the
    /// numbers, each plus one.
    pub(crate) fn caches(&self) -> (&AtomicU64, &[AtomicU64]) {
        const {
            assert!(
                RegionLayout::CACHES + (1 + CacheNumber::COUNT) * 8 <= RegionLayout::QUEUE_ENTRY
            )
        };
        let all = self.longs(RegionLayout::CACHES, 1 + CacheNumber::COUNT);
        (&all[0], &all[1..])
    }

    pub(crate) fn idle(&self) -> IdleSet<'_> {
        IdleSet(self.longs(self.layout.idle, self.geometry.idle_words()))
    }

    pub(crate) fn doorbell(&self, thread: usize) -> Doorbell<'_> {
        assert!(thread < self.geometry.threads);
        let line = self.layout.thread(thread);
        Doorbell {
            sleeping: self.word(line + thread_line::SLEEPING),
            ready: self.longs(line + thread_line::READY, self.geometry.ready_words()),
        }
    }

    #[inline]
    pub(crate) fn worker(&self, worker: usize) -> WorkerWords<'_> {
        assert!(worker < self.geometry.workers);
        let line = self.record::<LINE>(self.layout.worker(worker));
        WorkerWords {
            wake: line.word::<{ worker_line::WAKE }>(),
            requests: line.long::<{ worker_line::REQUESTS }>(),
            processor: line.long::<{ worker_line::PROCESSOR }>(),
            proportional: line.word::<{ worker_line::PROPORTIONAL }>(),
            resident: line.word::<{ worker_line::RESIDENT }>(),
            last: line.long::<{ worker_line::LAST }>(),
            last_slot: line.word::<{ worker_line::LAST_SLOT }>(),
            last_peak: line.word::<{ worker_line::LAST_PEAK }>(),
            last_processor: line.long::<{ worker_line::LAST_PROCESSOR }>(),
            last_took: line.long::<{ worker_line::LAST_TOOK }>(),
        }
    }

    // Inlined, so that words that the caller does not use cost nothing.
    #[inline]
    pub(crate) fn slot(&self, slot: usize) -> SlotWords<'_> {
        assert!(slot < self.geometry.slots);
        let line = self.record::<SLOT>(self.layout.slot(slot));
        SlotWords {
            state: StateWord(line.long::<{ slot_line::STATE }>()),
            written: line.long::<{ slot_line::WRITTEN }>(),
            printed: line.word::<{ slot_line::PRINTED }>(),
            shown: line.word::<{ slot_line::SHOWN }>(),
            ended: line.word::<{ slot_line::ENDED }>(),
            took: line.word::<{ slot_line::TOOK }>(),
            share: line.word::<{ slot_line::SHARE }>(),
            began: line.long::<{ slot_line::BEGAN }>(),
            peak: line.word::<{ slot_line::PEAK }>(),
            processor: line.word::<{ slot_line::PROCESSOR }>(),
            queued: line.long::<{ slot_line::QUEUED }>(),
            grant: line.long::<{ slot_line::GRANT }>(),
            asked: line.word::<{ slot_line::ASKED }>(),
            answered: line.word::<{ slot_line::ANSWERED }>(),
            flow_control: FlowControl {
                consumed: line.long::<{ slot_line::CONSUMED }>(),
                starved: line.word::<{ slot_line::STARVED }>(),
                aborted: line.word::<{ slot_line::ABORTED }>(),
            },
            thread: line.word::<{ slot_line::THREAD }>(),
        }
    }

    /// Copies `bytes` to the start of a slot's request area. The caller has checked that they fit.
    pub(crate) fn write_request(&self, slot: usize, bytes: &[u8]) {
        self.write_area(slot, 0, bytes);
    }

    /// Copies the start of a slot's request area into `into`.
    pub(crate) fn read_request(&self, slot: usize, into: &mut [u8]) {
        self.read_area(slot, 0, into);
    }

    /// Copies a text, behind its length, to the part of a slot's request area that no
    /// [`RequestSummary`](crate::figures::RequestSummary) is read from. The caller has checked that
    /// it fits.
    pub(crate) fn write_text(&self, slot: usize, text: &[u8]) {
        let length = u32::try_from(text.len()).expect("a request area is smaller");
        self.write_area(slot, self.text_at(), &[&length.to_ne_bytes(), text].concat());
    }

    /// Copies the text out that [`Region::write_text`] has written. `None` if it has more than
    /// `most` bytes.
    pub(crate) fn read_text(&self, slot: usize, most: usize) -> Option<Vec<u8>> {
        let mut start = [0; TEXT_START];
        self.read_area(slot, self.text_at(), &mut start);
        let length = u32::from_ne_bytes(start) as usize;
        if length > most.min(self.longest_text()) {
            return None;
        }
        let mut text = vec![0; TEXT_START + length];
        self.read_area(slot, self.text_at(), &mut text);
        Some(text.split_off(TEXT_START))
    }

    /// The most bytes of a text.
    pub(crate) fn longest_text(&self) -> usize {
        self.geometry.request_bytes - self.text_at() - TEXT_START
    }

    /// The position of texts in a request area.
    fn text_at(&self) -> usize {
        SUMMARY_BYTES.min(self.geometry.request_bytes / 2)
    }

    fn write_area(&self, slot: usize, at: usize, bytes: &[u8]) {
        let room = self.geometry.request_bytes - at;
        assert!(slot < self.geometry.slots && bytes.len() <= room);
        // SAFETY: this part of the area lies inside the mapping (asserted), and `bytes` is memory
        // of our own, not part of it.
        unsafe {
            self.at(self.layout.request(slot) + at)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }

    fn read_area(&self, slot: usize, at: usize, into: &mut [u8]) {
        let room = self.geometry.request_bytes - at;
        assert!(slot < self.geometry.slots && into.len() <= room);
        // SAFETY: as in `write_area`; a concurrent write by a broken peer yields wrong bytes, which
        // the decoder checks.
        unsafe {
            self.at(self.layout.request(slot) + at)
                .copy_to_nonoverlapping(into.as_mut_ptr(), into.len())
        };
    }

    /// Copies `bytes` into a slot's ring. `position` counts bytes from the start of the response.
    /// The copy continues at the start of the ring if it reaches the end.
    pub(crate) fn write_ring(&self, slot: usize, position: u64, bytes: &[u8]) {
        let [first, second] = self.ring_parts(slot, position, bytes.len());
        // SAFETY: `ring_parts` lie inside the mapping; their lengths add up to `bytes.len()`.
        unsafe {
            first.0.copy_from_nonoverlapping(bytes.as_ptr(), first.1);
            second.0.copy_from_nonoverlapping(bytes.as_ptr().add(first.1), second.1);
        }
    }

    /// Copies bytes of a slot's ring into `into`. `position` counts bytes from the start of the
    /// response.
    pub(crate) fn read_ring(&self, slot: usize, position: u64, into: &mut [u8]) {
        let [first, second] = self.ring_parts(slot, position, into.len());
        // SAFETY: as in `write_ring`.
        unsafe {
            first.0.copy_to_nonoverlapping(into.as_mut_ptr(), first.1);
            second.0.copy_to_nonoverlapping(into.as_mut_ptr().add(first.1), second.1);
        }
    }

    /// Returns the parts of a slot's ring that hold `length` bytes from `position`: one part, or
    /// two if the bytes continue at the start of the ring.
    pub(crate) fn ring_parts(
        &self,
        slot: usize,
        position: u64,
        length: usize,
    ) -> [(*mut u8, usize); 2] {
        assert!(slot < self.geometry.slots && length <= self.geometry.ring_bytes);
        let start = (position & (self.geometry.ring_bytes as u64 - 1)) as usize;
        let first = length.min(self.geometry.ring_bytes - start);
        let ring = self.layout.ring(slot);
        [(self.at(ring + start), first), (self.at(ring), length - first)]
    }

    /// Releases the pages of a slot's ring behind its first `kept` bytes to the kernel. They read
    /// as zeros afterwards.
    ///
    /// # Errors
    /// The error of `madvise(2)`.
    pub(crate) fn release_ring(&self, slot: usize, kept: usize) -> io::Result<()> {
        assert!(slot < self.geometry.slots);
        let length = self.geometry.ring_bytes.saturating_sub(kept);
        if length == 0 {
            return Ok(());
        }
        self.mapping.release(self.layout.ring(slot) + kept, length)
    }

    /// The record of `BYTES` bytes at `offset`.
    #[inline]
    fn record<const BYTES: usize>(&self, offset: usize) -> RegionRecord<'_, BYTES> {
        assert!(offset.is_multiple_of(8) && offset + BYTES <= self.mapping.length());
        RegionRecord {
            start: self.at(offset),
            region: PhantomData,
        }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words(offset, 1)[0]
    }

    fn words(&self, offset: usize, count: usize) -> &[AtomicU32] {
        assert!(offset.is_multiple_of(4) && offset + count * 4 <= self.mapping.length());
        // SAFETY: in bounds and aligned (asserted; the mapping starts at a page). Atomics allow
        // writers elsewhere, and this part of the region is only ever accessed as these atomics.
        unsafe { std::slice::from_raw_parts(self.at(offset).cast(), count) }
    }

    fn longs(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset + count * 8 <= self.mapping.length());
        // SAFETY: as in `words`.
        unsafe { std::slice::from_raw_parts(self.at(offset).cast(), count) }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.mapping.length());
        // SAFETY: inside the mapping (asserted).
        unsafe { self.mapping.base().as_ptr().add(offset) }
    }
}

/// A record of `BYTES` bytes in a region, all of which are atomics.
#[derive(Clone, Copy)]
struct RegionRecord<'r, const BYTES: usize> {
    /// A multiple of 8.
    start: *mut u8,
    region: PhantomData<&'r Region>,
}

impl<'r, const BYTES: usize> RegionRecord<'r, BYTES> {
    #[inline]
    fn word<const OFFSET: usize>(self) -> &'r AtomicU32 {
        const { assert!(OFFSET.is_multiple_of(4) && OFFSET + 4 <= BYTES) };
        // SAFETY: in bounds and aligned (asserted, here and where the record was made). Atomics
        // allow writers elsewhere, and the word is only ever accessed as this atomic.
        unsafe { &*self.start.add(OFFSET).cast() }
    }

    #[inline]
    fn long<const OFFSET: usize>(self) -> &'r AtomicU64 {
        const { assert!(OFFSET.is_multiple_of(8) && OFFSET + 8 <= BYTES) };
        // SAFETY: as in `word`.
        unsafe { &*self.start.add(OFFSET).cast() }
    }
}

/// Bytes before a text in a request area: its length.
const TEXT_START: usize = 4;

fn check_sizes(geometry: &Geometry) -> io::Result<()> {
    if geometry.is_valid() {
        return Ok(());
    }
    let what = "sizes of the shared memory are out of bounds";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// The words of a worker's cache line.
pub(crate) struct WorkerWords<'r> {
    pub(crate) wake: &'r AtomicU32,
    pub(crate) requests: &'r AtomicU64,
    pub(crate) processor: &'r AtomicU64,
    pub(crate) proportional: &'r AtomicU32,
    pub(crate) resident: &'r AtomicU32,
    pub(crate) last: &'r AtomicU64,
    pub(crate) last_slot: &'r AtomicU32,
    pub(crate) last_peak: &'r AtomicU32,
    pub(crate) last_processor: &'r AtomicU64,
    pub(crate) last_took: &'r AtomicU64,
}

/// The words of a slot's two cache lines.
pub(crate) struct SlotWords<'r> {
    pub(crate) state: StateWord<'r>,
    /// Bytes that the front may read, counted from the start of the response.
    pub(crate) written: &'r AtomicU64,
    /// Bytes of output modulo 2^32, of which the front may not know yet.
    pub(crate) printed: &'r AtomicU32,
    /// Number of signs of life beside the output, modulo 2^32.
    pub(crate) shown: &'r AtomicU32,
    pub(crate) ended: &'r AtomicU32,
    pub(crate) took: &'r AtomicU32,
    pub(crate) share: &'r AtomicU32,
    pub(crate) began: &'r AtomicU64,
    pub(crate) peak: &'r AtomicU32,
    pub(crate) processor: &'r AtomicU32,
    pub(crate) queued: &'r AtomicU64,
    pub(crate) grant: &'r AtomicU64,
    /// Number of questions that the worker has asked in this request.
    pub(crate) asked: &'r AtomicU32,
    /// Number of the question that was answered last: the futex that the worker sleeps on.
    pub(crate) answered: &'r AtomicU32,
    pub(crate) flow_control: FlowControl<'r>,
    pub(crate) thread: &'r AtomicU32,
}

impl SlotWords<'_> {
    /// Front: prepares the words for a request whose events go to a front thread. The slot must be
    /// free.
    pub(crate) fn reset(&self, thread: usize) {
        self.thread.store(thread as u32, Ordering::Relaxed);
        self.written.store(0, Ordering::Relaxed);
        self.printed.store(0, Ordering::Relaxed);
        self.shown.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
        self.grant.store(0, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
        self.flow_control.reset();
    }
}

// Miri knows no mapping of a file.
#[cfg(all(test, not(miri)))]
mod tests;
