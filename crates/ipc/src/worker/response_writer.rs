//! The writer of a response: bytes into the slot's ring, and news to the front.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use howdah_sys::futex;
use howdah_sys::schedule::CpuTimes;
use howdah_sys::usage;

use super::Attachment;
use super::meter::CpuMeter;
use crate::layout::SlotState;
use crate::response::{HeadEncoder, HeadKind};
use crate::sync::Ordering;
use crate::time_grant::TimeGrant;

/// Bytes after which the front is notified of new output, to let the front send while the script
/// runs.
const NEWS_BYTES: u64 = 256 * 1024;
/// Interval at which a worker that waits for space checks again. A hostile process of the pool may
/// have removed its wake-up.
pub(super) const SPACE_CHECK: Duration = Duration::from_secs(1);

/// The rest of the response is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseAborted;

/// Writes a response to the front. Dropping the writer finishes the response, whatever its state
/// is.
#[derive(Debug)]
pub struct ResponseWriter<'w> {
    pub(super) shared: &'w Attachment,
    pub(super) head: &'w mut HeadEncoder,
    pub(super) slot: usize,
    pub(super) state: SlotState,
    pub(super) thread: usize,
    pub(super) written: u64,
    /// The last value read. The front may have consumed more.
    pub(super) consumed: u64,
    /// Bytes of `written` that the front was notified of.
    pub(super) told: u64,
    pub(super) meter: &'w mut CpuMeter,
    pub(super) spent: Option<CpuTimes>,
    /// Index of the worker.
    pub(super) index: usize,
    /// Time at which the request began, in nanoseconds.
    pub(super) began: u64,
    /// The worker's processor time at the beginning, if the front wants to know that of the
    /// request.
    pub(super) processor: Option<u64>,
    /// Bytes of memory that the script had at most.
    pub(super) peak: Option<u64>,
}

impl ResponseWriter<'_> {
    /// Receives the file that holds the request's body. Call it if the request says that there is
    /// one.
    ///
    /// # Errors
    /// The slot's socket contains no descriptor for this request.
    pub fn take_body(&mut self) -> io::Result<OwnedFd> {
        let missing = || {
            io::Error::new(io::ErrorKind::NotFound, "the file with the request's body did not come")
        };
        loop {
            let mut tag = [0; 4];
            let mut received = self.shared.body_sockets[self.slot].receive_now(&mut tag)?;
            if received.length == 0 {
                return Err(missing());
            }
            // A descriptor of an earlier use of the slot: its worker died before it took the
            // descriptor.
            if received.length == 4 && u32::from_ne_bytes(tag) == self.state.generation {
                return received.descriptors.pop().ok_or_else(missing);
            }
        }
    }

    /// Sends a head.
    ///
    /// # Errors
    /// `None`: the head is too long, and nothing was sent. `Some`: the response is aborted.
    pub fn send_head<'f>(
        &mut self,
        kind: HeadKind,
        status: u16,
        reason: &[u8],
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<(), Option<ResponseAborted>> {
        let mut head = std::mem::take(self.head);
        head.begin(kind, status, reason);
        for (name, value) in fields {
            head.field(name, value);
        }
        let sent = match head.finish() {
            Some(bytes) => self.write(bytes).map_err(Some),
            None => Err(None),
        };
        *self.head = head;
        if kind == HeadKind::Interim && sent.is_ok() {
            self.flush();
        }
        sent
    }

    /// Writes bytes of the body. Waits for space as long as the front consumes bytes.
    ///
    /// A front that looks before it is notified sees nothing of a response that has just begun:
    /// whether such a response is complete, and thus how long, does not depend on chance. Output
    /// that has waited for long it finds by the count of what was printed.
    ///
    /// # Errors
    /// The response is aborted.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), ResponseAborted> {
        let ring = self.shared.geometry().ring_bytes as u64;
        let words = self.shared.region.slot(self.slot);
        while !bytes.is_empty() {
            if self.is_aborted() {
                return Err(ResponseAborted);
            }
            if self.written - self.consumed >= ring {
                self.consumed = words
                    .flow_control
                    .consumed
                    .load(Ordering::Acquire)
                    .clamp(self.consumed, self.written);
                if self.written - self.consumed >= ring {
                    self.wait_for_room();
                    continue;
                }
            }
            let room = (ring - (self.written - self.consumed)) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.shared.region.write_ring(self.slot, self.written, now);
            self.written += now.len() as u64;
            words.printed.store(self.written as u32, Ordering::Release);
            if self.told > 0 {
                self.publish();
            }
            if self.written - self.told >= NEWS_BYTES {
                self.flush();
            }
            bytes = later;
        }
        Ok(())
    }

    /// Notifies the front of everything written until now.
    pub fn flush(&mut self) {
        if self.told < self.written {
            self.tell();
        }
    }

    /// Marks the response as complete although the script continues (`fastcgi_finish_request`).
    pub fn end(&mut self) {
        // Before the end is seen: a complete response has all of its bytes.
        self.publish();
        self.shared.region.slot(self.slot).ended.store(1, Ordering::Release);
        self.tell();
    }

    /// Tells the front that the script lives, beside the output that the front sees.
    pub fn show_life(&mut self) {
        let word = self.shared.region.slot(self.slot).shown;
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Tells the front the time limit that the script has set; 0 and less is no limit.
    pub fn grant(&mut self, seconds: i64) {
        let word = self.shared.region.slot(self.slot).grant;
        let former = TimeGrant::unpack(word.load(Ordering::Relaxed));
        word.store(former.followed_by(seconds).pack(), Ordering::Relaxed);
    }

    /// Returns whether the response is aborted.
    pub fn is_aborted(&self) -> bool {
        self.shared.region.slot(self.slot).flow_control.is_aborted()
    }

    /// Returns whether the response is aborted because the script has missed its deadline.
    pub fn is_late(&self) -> bool {
        self.shared.region.slot(self.slot).flow_control.is_late()
    }

    /// Notes how many bytes of memory the script had at most.
    pub fn note_peak(&mut self, bytes: u64) {
        self.peak = Some(bytes);
    }

    /// Publishes what the request has used.
    fn publish_figures(&self, took: u64) {
        let microseconds = |before| usage::processor_time().saturating_sub(before) / 1000;
        let processor = self.processor.map(microseconds);
        let narrow = |number: Option<u64>| {
            number.and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX)
        };
        let words = self.shared.region.slot(self.slot);
        words.peak.store(narrow(self.peak.map(|peak| peak / 1024)), Ordering::Relaxed);
        words.processor.store(narrow(processor), Ordering::Relaxed);
        let words = self.shared.region.worker(self.index);
        let peak = narrow(Some(self.peak.unwrap_or(0) / 1024));
        words.last_peak.store(peak, Ordering::Relaxed);
        words
            .last_processor
            .store(processor.map_or(0, |spent| spent + 1), Ordering::Relaxed);
        words.last_took.store(took, Ordering::Relaxed);
    }

    /// The time at which the request began, and how long it had waited for that, in nanoseconds.
    pub fn times(&self) -> (u64, u64) {
        let queued = self.shared.region.slot(self.slot).queued.load(Ordering::Relaxed);
        (self.began, self.began.saturating_sub(queued))
    }

    /// Bytes written until now, heads included.
    pub fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn tell(&mut self) {
        self.publish();
        self.told = self.written;
        self.notify();
    }

    fn notify(&self) {
        if self.shared.region.doorbell(self.thread).mark(self.slot) {
            // Ringing fails only if the front is dead. The zygote ends this process then.
            let _ = self.shared.bells[self.thread].ring();
        }
    }

    fn publish(&self) {
        self.shared
            .region
            .slot(self.slot)
            .written
            .store(self.written, Ordering::Release);
    }

    fn wait_for_room(&mut self) {
        let room = self.shared.region.slot(self.slot).flow_control;
        let seen = self.consumed;
        // Every reason to return is a reason to check again.
        let sleep = |word: &_| drop(futex::wait(word, 1, Some(SPACE_CHECK)));
        room.wait(seen, || self.tell(), sleep);
    }
}

impl Drop for ResponseWriter<'_> {
    fn drop(&mut self) {
        let words = self.shared.region.slot(self.slot);
        self.meter.ended = usage::monotonic();
        let took = self.meter.ended.saturating_sub(self.began);
        let share = self.meter.end(took, self.spent);
        self.publish_figures(took);
        words.took.store(u32::try_from(took).unwrap_or(u32::MAX), Ordering::Relaxed);
        words.share.store(share.unwrap_or(u32::MAX), Ordering::Relaxed);
        self.publish();
        words.state.finish(self.state);
        // The slot may have another request from here on.
        self.notify();
    }
}
