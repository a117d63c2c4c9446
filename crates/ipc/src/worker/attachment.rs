//! The zygote's attachment to its pool's region.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU16;

use howdah_sys::eventfd::EventFd;
use howdah_sys::futex;
use howdah_sys::seqpacket::SeqPacket;

use super::Worker;
use crate::control::{AttachMessage, SlotCleaning};
use crate::layout::{Geometry, INCARNATIONS};
use crate::region::Region;
use crate::sync::Ordering;

/// The region as the zygote attached it. Each worker creates its [`Worker`] from it after the fork.
#[derive(Debug)]
pub struct Attachment {
    pub(super) region: Region,
    pub(super) bells: Vec<EventFd>,
    pub(super) body_sockets: Vec<SeqPacket>,
    /// By worker: number of deaths at this index, modulo [`INCARNATIONS`]. Each fork copies these
    /// counts of the zygote.
    pub(crate) incarnations: Vec<AtomicU16>,
}

impl Attachment {
    /// Maps the region that the front sent.
    ///
    /// # Errors
    /// The descriptors are not those of a region of this geometry, or mapping failed.
    pub fn new(attach: AttachMessage) -> io::Result<Attachment> {
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the front sent the wrong number of descriptors",
            )
        };
        let AttachMessage { geometry, descriptors } = attach;
        let mut descriptors = descriptors.into_iter();
        // The memory file is closed here: scripts do not find it among the descriptors.
        let region = Region::map(descriptors.next().ok_or_else(wrong)?, geometry)?;
        let bells: Vec<_> =
            descriptors.by_ref().take(geometry.threads).map(EventFd::from).collect();
        let body_sockets: Vec<_> = descriptors.map(SeqPacket::from).collect();
        // Where a doorbell is missing, all sockets are.
        if body_sockets.len() != geometry.slots {
            return Err(wrong());
        }
        Ok(Attachment {
            region,
            bells,
            body_sockets,
            incarnations: (0..geometry.workers).map(|_| AtomicU16::new(0)).collect(),
        })
    }

    /// The sizes of the region.
    pub fn geometry(&self) -> &Geometry {
        self.region.geometry()
    }

    /// Zygote: forgets what the former worker in this place has published. Call it before the next
    /// worker is forked.
    pub fn prepare(&self, worker: usize) {
        let words = self.region.worker(worker);
        words.requests.store(0, Ordering::Relaxed);
        words.processor.store(0, Ordering::Relaxed);
        words.proportional.store(0, Ordering::Relaxed);
        words.resident.store(0, Ordering::Relaxed);
        words.last_slot.store(0, Ordering::Relaxed);
        words.last_peak.store(0, Ordering::Relaxed);
        words.last_processor.store(0, Ordering::Relaxed);
        words.last_took.store(0, Ordering::Relaxed);
    }

    /// Zygote: whether the worker, or the last one in this place, has taken a request.
    pub fn has_worked(&self, worker: usize) -> bool {
        self.region.worker(worker).last_slot.load(Ordering::Relaxed) > 0
    }

    /// Zygote: wakes a sleeping worker to make it check its stop flag.
    pub fn wake(&self, worker: usize) {
        let wake = self.region.worker(worker).wake;
        wake.store(1, Ordering::Release);
        futex::wake(wake);
    }

    /// Zygote: records the death of a worker. Call it once per death, before the front is told and
    /// before the successor is forked. Afterwards no process wakes the dead worker, and the front
    /// can tell the successor's slots from those of the dead worker.
    pub fn record_death(&self, worker: usize) {
        let incarnation = self.incarnations[worker].load(Ordering::Relaxed);
        self.incarnations[worker].store((incarnation + 1) % INCARNATIONS, Ordering::Relaxed);
        self.region.idle().withdraw(worker);
        self.region.worker(worker).wake.store(0, Ordering::Release);
    }

    /// Zygote: cleans a slot that no worker uses.
    ///
    /// # Errors
    /// There is no such slot, or the memory was not released. The slot can still be used.
    pub fn clean(&self, cleaning: SlotCleaning) -> io::Result<()> {
        let slot = usize::try_from(cleaning.slot).unwrap_or(usize::MAX);
        let socket = self.body_sockets.get(slot).ok_or(io::ErrorKind::InvalidInput)?;
        while socket.receive_now(&mut [0; 4]).is_ok_and(|message| message.length > 0) {}
        self.region
            .release_ring(slot, usize::try_from(cleaning.kept).unwrap_or(usize::MAX))
    }

    /// Worker: its side of the region. Called once after the fork. Child processes of the worker
    /// do not have the region.
    ///
    /// # Errors
    /// The kernel cannot keep the region from child processes.
    pub fn worker(self, index: usize) -> io::Result<Worker> {
        assert!(index < self.region.geometry().workers);
        self.region.keep_from_children()?;
        Ok(Worker::new(self, index))
    }

    /// The descriptors that lead to the front. A child process of a worker closes them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let bells = self.bells.iter().map(AsFd::as_fd);
        bells.chain(self.body_sockets.iter().map(AsFd::as_fd))
    }
}

#[cfg(all(test, not(miri)))] // Miri has no memory files.
mod tests {
    use super::*;
    use crate::front::FrontRegion;

    #[test]
    fn an_attachment_has_all_descriptors() {
        let geometry = Geometry::for_pool(1, 2);
        for left in [0, 1, 2, 3 + geometry.slots - 1] {
            let (_front, mut attach) = FrontRegion::create(geometry).unwrap();
            attach.descriptors.truncate(left);
            assert!(Attachment::new(attach).is_err(), "{left}");
        }
        let (_front, mut attach) = FrontRegion::create(geometry).unwrap();
        attach.descriptors.extend(attach.descriptors[0].try_clone());
        assert!(Attachment::new(attach).is_err(), "one too many");
    }
}
