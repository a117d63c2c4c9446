//! The mapped region: atomics are accessed in place, bytes by copying.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::memory::{self, Mapping};

use crate::doorbell::Doorbell;
use crate::figures::{CacheNumber, SUMMARY_BYTES};
use crate::flow_control::FlowControl;
use crate::idle_set::IdleSet;
use crate::layout::{Geometry, Layout, slot_line, thread_line, worker_line};
use crate::queue::Queue;
use crate::slot::StateWord;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A pool's shared memory, mapped into one process.
#[derive(Debug)]
pub(crate) struct Region {
    mapping: Mapping,
    geometry: Geometry,
    layout: Layout,
}

impl Region {
    /// Creates a region of zeros: every slot is Free, and everything is empty. Also returns the
    /// memory file, for the other processes.
    pub(crate) fn create(geometry: Geometry) -> io::Result<(Region, OwnedFd)> {
        check_sizes(&geometry)?;
        let file = memory::sealed_file(c"howdah-pool", geometry.length())?;
        Ok((Region::map(file.as_fd(), geometry)?, file))
    }

    /// Maps a region that another process created. The mapping stays when `file` is closed.
    pub(crate) fn map(file: impl AsFd, geometry: Geometry) -> io::Result<Region> {
        check_sizes(&geometry)?;
        Ok(Region {
            mapping: Mapping::new(file.as_fd(), geometry.length())?,
            geometry,
            layout: Layout::of(&geometry),
        })
    }

    /// Keeps later child processes of this process from having the region.
    pub(crate) fn keep_from_children(&self) -> io::Result<()> {
        self.mapping.keep_from_children()
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn queue(&self) -> Queue<'_> {
        Queue {
            head: self.word(Layout::QUEUE_HEAD),
            tail: self.word(Layout::QUEUE_TAIL),
            entries: self.words(Layout::QUEUE_ENTRY, self.geometry.queue_entries()),
        }
    }

    /// The largest number of workers that should be awake; 0: all.
    pub(crate) fn awake_limit(&self) -> &AtomicU32 {
        self.word(Layout::AWAKE_LIMIT)
    }

    /// The number of workers that live and are not told to end.
    pub(crate) fn present(&self) -> &AtomicU32 {
        self.word(Layout::PRESENT)
    }

    /// 1 if workers measure the processor time of each request.
    pub(crate) fn metering(&self) -> &AtomicU32 {
        self.word(Layout::METERING)
    }

    /// The time of the last measurement of PHP's caches, in nanoseconds; 0 for none. Then the
    /// numbers, each plus one.
    pub(crate) fn caches(&self) -> (&AtomicU64, &[AtomicU64]) {
        const { assert!(Layout::CACHES + (1 + CacheNumber::COUNT) * 8 <= Layout::QUEUE_ENTRY) };
        let all = self.longs(Layout::CACHES, 1 + CacheNumber::COUNT);
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

    pub(crate) fn worker(&self, worker: usize) -> WorkerWords<'_> {
        assert!(worker < self.geometry.workers);
        let line = self.layout.worker(worker);
        WorkerWords {
            wake: self.word(line + worker_line::WAKE),
            requests: self.long(line + worker_line::REQUESTS),
            processor: self.long(line + worker_line::PROCESSOR),
            proportional: self.word(line + worker_line::PROPORTIONAL),
            resident: self.word(line + worker_line::RESIDENT),
            last: self.long(line + worker_line::LAST),
            last_slot: self.word(line + worker_line::LAST_SLOT),
            last_peak: self.word(line + worker_line::LAST_PEAK),
            last_processor: self.long(line + worker_line::LAST_PROCESSOR),
            last_took: self.long(line + worker_line::LAST_TOOK),
        }
    }

    pub(crate) fn slot(&self, slot: usize) -> SlotWords<'_> {
        assert!(slot < self.geometry.slots);
        let line = self.layout.slot(slot);
        SlotWords {
            state: StateWord(self.long(line + slot_line::STATE)),
            written: self.long(line + slot_line::WRITTEN),
            printed: self.word(line + slot_line::PRINTED),
            ended: self.word(line + slot_line::ENDED),
            took: self.word(line + slot_line::TOOK),
            share: self.word(line + slot_line::SHARE),
            began: self.long(line + slot_line::BEGAN),
            peak: self.word(line + slot_line::PEAK),
            processor: self.word(line + slot_line::PROCESSOR),
            queued: self.long(line + slot_line::QUEUED),
            grant: self.long(line + slot_line::GRANT),
            asked: self.word(line + slot_line::ASKED),
            answered: self.word(line + slot_line::ANSWERED),
            flow_control: FlowControl {
                consumed: self.long(line + slot_line::CONSUMED),
                starved: self.word(line + slot_line::STARVED),
                aborted: self.word(line + slot_line::ABORTED),
            },
            thread: self.word(line + slot_line::THREAD),
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
    pub(crate) fn release_ring(&self, slot: usize, kept: usize) -> io::Result<()> {
        assert!(slot < self.geometry.slots);
        let length = self.geometry.ring_bytes.saturating_sub(kept);
        if length == 0 {
            return Ok(());
        }
        self.mapping.release(self.layout.ring(slot) + kept, length)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words(offset, 1)[0]
    }

    fn long(&self, offset: usize) -> &AtomicU64 {
        &self.longs(offset, 1)[0]
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
        self.ended.store(0, Ordering::Relaxed);
        self.grant.store(0, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
        self.flow_control.reset();
    }
}

/// Miri knows no mapping of a file.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const GEOMETRY: Geometry = Geometry {
        slots: 3,
        workers: 2,
        threads: 2,
        request_bytes: 4096,
        ring_bytes: 8192,
    };

    fn region() -> Region {
        Region::create(GEOMETRY).expect("memory for a small region").0
    }

    #[test]
    fn no_place_beyond_the_region_is_accessed() {
        let region = region();
        let is_refused = |access: &dyn Fn()| catch_unwind(AssertUnwindSafe(access)).is_err();
        type Access = fn(&Region, usize);
        let by_number: [(&str, Access, usize); 7] = [
            ("slot", |region, slot| _ = region.slot(slot), 3),
            ("worker", |region, worker| _ = region.worker(worker), 2),
            ("doorbell", |region, thread| _ = region.doorbell(thread), 2),
            ("write_request", |region, slot| region.write_request(slot, b"x"), 3),
            ("read_request", |region, slot| region.read_request(slot, &mut [0]), 3),
            ("ring_parts", |region, slot| _ = region.ring_parts(slot, 0, 1), 3),
            ("release_ring", |region, slot| region.release_ring(slot, 0).unwrap(), 3),
        ];
        for (name, access, count) in by_number {
            assert!(!is_refused(&|| access(&region, count - 1)), "{name}: the last one");
            assert!(is_refused(&|| access(&region, count)), "{name} {count}");
            assert!(is_refused(&|| access(&region, usize::MAX / 4096)), "{name} far away");
        }
        let end = region.mapping.length();
        let by_size: [(&str, Access, usize, usize); 7] = [
            ("write_request", |region, size| region.write_request(0, &vec![0; size]), 4096, 4097),
            ("read_request", |region, size| region.read_request(0, &mut vec![0; size]), 4096, 4097),
            ("ring_parts", |region, size| _ = region.ring_parts(0, 5, size), 8192, 8193),
            ("word", |region, offset| _ = region.word(offset), end - 4, end),
            ("long", |region, offset| _ = region.long(offset), end - 8, end),
            ("words", |region, offset| _ = region.words(offset, 2), end - 8, end - 4),
            ("longs", |region, offset| _ = region.longs(offset, 2), end - 16, end - 8),
        ];
        for (name, access, good, bad) in by_size {
            assert!(!is_refused(&|| access(&region, good)), "{name} {good}");
            assert!(is_refused(&|| access(&region, bad)), "{name} {bad}");
        }
        let unaligned: [(&str, Access, usize); 2] = [
            ("word", |region, offset| _ = region.word(offset), 2),
            ("long", |region, offset| _ = region.long(offset), 4),
        ];
        for (name, access, offset) in unaligned {
            assert!(is_refused(&|| access(&region, offset)), "{name} {offset}");
        }
    }

    /// All words of the region, each as often as the layout has it.
    fn words(region: &Region) -> (Vec<&AtomicU32>, Vec<&AtomicU64>) {
        let queue = region.queue();
        let mut short = vec![queue.head, queue.tail, region.awake_limit(), region.present()];
        short.push(region.metering());
        short.extend(queue.entries);
        let (measured, numbers) = region.caches();
        let mut long = vec![measured];
        long.extend(numbers);
        long.extend(region.idle().0);
        for doorbell in (0..GEOMETRY.threads).map(|thread| region.doorbell(thread)) {
            short.push(doorbell.sleeping);
            long.extend(doorbell.ready);
        }
        for words in (0..GEOMETRY.workers).map(|worker| region.worker(worker)) {
            short.extend([words.wake, words.proportional, words.resident]);
            short.extend([words.last_slot, words.last_peak]);
            long.extend([words.requests, words.processor, words.last]);
            long.extend([words.last_processor, words.last_took]);
        }
        for words in (0..GEOMETRY.slots).map(|slot| region.slot(slot)) {
            let room = words.flow_control;
            short.extend([words.printed, words.ended, words.took, words.share, words.peak]);
            short.extend([words.processor, words.asked, words.answered, words.thread]);
            short.extend([room.starved, room.aborted]);
            long.extend([words.state.0, words.written, words.began, words.queued, words.grant]);
            long.push(room.consumed);
        }
        (short, long)
    }

    #[test]
    fn every_word_has_a_place_of_its_own() {
        let region = region();
        let (short, long) = words(&region);
        assert_eq!((short.len(), long.len()), (5 + 4 + 2 + 10 + 33, 2 + CacheNumber::COUNT + 30));
        for (number, word) in (1..).zip(&short) {
            word.store(number, Ordering::Relaxed);
        }
        for (number, word) in (1000..).zip(&long) {
            word.store(number, Ordering::Relaxed);
        }
        for slot in 0..GEOMETRY.slots {
            region.write_request(slot, &[0xFF; 4096]);
            region.write_ring(slot, 0, &[0xFF; 8192]);
        }
        let (short, long) = words(&region);
        assert!((1..).zip(&short).all(|(number, word)| word.load(Ordering::Relaxed) == number));
        assert!((1000..).zip(&long).all(|(number, word)| word.load(Ordering::Relaxed) == number));
    }

    #[test]
    fn sizes_out_of_bounds_make_no_region() {
        let (_, file) = Region::create(GEOMETRY).unwrap();
        for bad in [Geometry { slots: 0, ..GEOMETRY }, Geometry { ring_bytes: 5000, ..GEOMETRY }] {
            assert!(Region::create(bad).is_err(), "{bad:?}");
            assert!(Region::map(&file, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_text_has_at_most_the_bytes_that_are_asked_for_and_that_its_area_has() {
        let region = region();
        region.write_text(1, b"hello");
        assert_eq!(region.read_text(1, 5).as_deref(), Some(&b"hello"[..]));
        assert_eq!(region.read_text(1, 4), None);
        assert_eq!(region.read_text(0, 5).as_deref(), Some(&b""[..]), "another slot's");
        let mut start = vec![1; region.text_at()];
        region.read_request(1, &mut start);
        assert!(start.iter().all(|byte| *byte == 0), "the request's summary is read from there");
        let most = u32::try_from(region.longest_text()).unwrap();
        for (length, is_read) in [(most, true), (most + 1, false), (u32::MAX, false)] {
            region.write_area(1, region.text_at(), &length.to_ne_bytes());
            let read = region.read_text(1, usize::MAX).map(|text| text.len());
            assert_eq!(read, is_read.then_some(length as usize), "{length}");
        }
    }

    #[test]
    fn a_ring_continues_at_its_start() {
        let region = region();
        let bytes: Vec<u8> = (0..8192_u32).map(|number| number as u8).collect();
        for position in [0, 8191, 3 * 8192 + 100, u64::from(u32::MAX)] {
            region.write_ring(1, position, &bytes);
            let mut read = vec![0; bytes.len()];
            region.read_ring(1, position, &mut read);
            assert!(read == bytes, "{position}");
        }
        let mut others = vec![1; bytes.len()];
        region.read_ring(0, 0, &mut others);
        assert!(others.iter().all(|byte| *byte == 0), "the ring before");
        region.read_ring(2, 0, &mut others);
        assert!(others.iter().all(|byte| *byte == 0), "the ring behind");
    }

    #[test]
    fn the_rest_of_a_ring_goes_back_to_the_kernel() {
        let region = region();
        let read = |slot| {
            let mut bytes = vec![0; 8192];
            region.read_ring(slot, 0, &mut bytes);
            bytes.iter().filter(|byte| **byte == 1).count()
        };
        for slot in 0..3 {
            region.write_ring(slot, 0, &[1; 8192]);
        }
        for (kept, left) in [(usize::MAX, 8192), (8192, 8192), (4096, 4096), (0, 0)] {
            region.release_ring(1, kept).unwrap();
            assert_eq!([read(0), read(1), read(2)], [8192, left, 8192], "{kept}");
        }
    }

    #[test]
    fn nothing_is_left_of_the_last_request() {
        let region = region();
        let words = region.slot(1);
        let dirt = [words.printed, words.ended, words.asked, words.answered];
        let long = [words.written, words.grant, words.flow_control.consumed];
        dirt.iter().for_each(|word| word.store(7, Ordering::Relaxed));
        long.iter().for_each(|word| word.store(7, Ordering::Relaxed));
        words.flow_control.aborted.store(1, Ordering::Relaxed);
        words.reset(1);
        assert!(dirt.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(long.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert_eq!(words.flow_control.aborted.load(Ordering::Relaxed), 0);
        assert_eq!(words.thread.load(Ordering::Relaxed), 1);
    }
}
