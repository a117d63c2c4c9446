//! A front and workers over one region: what the tests of real shared memory are written with.
#![allow(dead_code)] // Each test binary uses its own part of this.

pub mod driver;
pub mod process;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use howdah_ipc::Geometry;
use howdah_ipc::control::AttachMessage;
use howdah_ipc::front::{FrontRegion, Slot};
use howdah_ipc::request::{BodyLocation, DecodedRequest, RequestEncoder};
use howdah_ipc::response::HeadKind;
use howdah_ipc::worker::{Attachment, ResponseAborted, ResponseWriter, Worker, WorkerJob};
use howdah_sys::eventfd::EventFd;

/// A small region, so that every edge is near.
pub fn small_geometry(workers: usize, threads: usize) -> Geometry {
    Geometry {
        slots: workers * 2,
        workers,
        threads,
        request_bytes: 8192,
        ring_bytes: 64 * 1024,
    }
}

/// A second end for another worker: what the zygote's forks have in common, in one process.
pub fn attach_again(attach: &AttachMessage) -> Attachment {
    let descriptors = attach.descriptors.iter().map(|fd| fd.as_fd().try_clone_to_owned().unwrap());
    let copy = AttachMessage {
        geometry: attach.geometry,
        descriptors: descriptors.collect(),
    };
    Attachment::new(copy).unwrap()
}

/// Gives a slot back, without a zygote that would clean it.
pub fn give_back(front: &FrontRegion, slot: Slot) {
    if let Some(cleaning) = front.release(slot) {
        assert!(front.cleaned(cleaning.slot as usize));
    }
}

/// Wakes a front thread as a worker does.
pub fn ring(front: &FrontRegion, thread: usize) {
    let bell = EventFd::from(front.bell(thread).try_clone_to_owned().unwrap());
    bell.ring().unwrap();
}

/// A test's order to a worker: it is in the inline body, or in the file's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Names the request; the response's bytes follow from it.
    pub seed: u32,
    /// Bytes of the response's body.
    pub size: u32,
    /// Bytes per `write`.
    pub chunk: u32,
    /// Further work.
    pub extra: Extra,
}

/// The work of a worker besides answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Extra {
    /// Nothing.
    None = 0,
    /// `flush` after each write.
    Flush = 1,
    /// `end` before the script ends.
    EndEarly = 2,
}

impl Order {
    /// Bytes of an order on the way.
    pub const LENGTH: usize = 16;

    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let words = [self.seed, self.size, self.chunk, self.extra as u32];
        let mut bytes = [0; Self::LENGTH];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Order {
        let word = |at: usize| u32::from_ne_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap());
        Order {
            seed: word(0),
            size: word(1),
            chunk: word(2),
            extra: match word(3) {
                0 => Extra::None,
                1 => Extra::Flush,
                _ => Extra::EndEarly,
            },
        }
    }

    /// The body that answers it.
    pub fn answer(&self) -> &'static [u8] {
        &noise()[self.seed as usize % NOISE_STARTS..][..self.size as usize]
    }

    /// The request, encoded.
    pub fn encode<'e>(&self, encoder: &'e mut RequestEncoder, file: bool) -> &'e [u8] {
        encoder.begin(0, [None; 9]);
        encoder.entries().variable(b"REQUEST_METHOD", b"POST");
        if file {
            encoder.finish_file(Order::LENGTH as u64)
        } else {
            encoder.finish_inline(&self.to_bytes())
        }
    }
}

/// The largest body that a test asks for.
pub const MOST_SIZE: u32 = 3 << 20;
const NOISE_STARTS: usize = 65_521;

/// Bytes without a period that a wrong offset could hide behind.
fn noise() -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    NOISE.get_or_init(|| {
        let mut random = Random(7);
        let words = (MOST_SIZE as usize + NOISE_STARTS) / 8 + 1;
        (0..words).flat_map(|_| random.next().to_ne_bytes()).collect()
    })
}

/// Fills what children only read, before they are forked.
pub fn prepare() {
    noise();
}

/// The same numbers on each run.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Orders of mixed sizes; most are small, some are larger than any ring.
    pub fn orders(&mut self, count: usize) -> Vec<Order> {
        (0..count)
            .map(|seed| {
                let size = match self.below(20) {
                    0 => self.below(MOST_SIZE as usize + 1),
                    1..4 => self.below(200_000),
                    4 => 0,
                    _ => self.below(2_000),
                };
                Order {
                    seed: seed as u32,
                    size: size as u32,
                    chunk: 1 + self.below(100_000) as u32,
                    extra: [Extra::None, Extra::Flush, Extra::EndEarly][self.below(3)],
                }
            })
            .collect()
    }
}

/// Raises flags and wakes the workers at the end, also if the test fails: threads that go on until
/// then would keep the failure from being told.
pub struct Raised<'f> {
    pub flags: &'f [&'f AtomicBool],
    pub workers: Option<&'f AttachMessage>,
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
        if let Some(attach) = self.workers {
            let zygote = attach_again(attach);
            (0..attach.geometry.workers).for_each(|worker| zygote.wake(worker));
        }
    }
}

/// A worker's whole life: answers orders until told to stop.
pub fn serve(mut worker: Worker, stop: &AtomicBool) {
    let mut served = 0;
    loop {
        match worker.next(stop) {
            Ok(Some(job)) => answer(job),
            _ => return,
        }
        served += 1;
        worker.publish_requests(served);
    }
}

fn answer(job: WorkerJob<'_>) {
    let WorkerJob { request, mut writer, .. } = job;
    let request = DecodedRequest::decode(request).expect("a front encodes well");
    let order = match request.body {
        BodyLocation::File => {
            let mut bytes = [0; Order::LENGTH];
            match writer.take_body() {
                Ok(file) => File::from(file).read_exact(&mut bytes).unwrap(),
                // The client is gone meanwhile, and the front took the file back.
                Err(_) => return,
            }
            Order::from_bytes(&bytes)
        }
        _ => Order::from_bytes(request.inline_body()),
    };
    // A client that is gone is no error.
    let _ = respond(&mut writer, order);
}

fn respond(writer: &mut ResponseWriter<'_>, order: Order) -> Result<(), ResponseAborted> {
    let size = order.size.to_string();
    let fields = [(&b"Size"[..], size.as_bytes())];
    writer
        .send_head(HeadKind::Final, 200, b"", fields.into_iter())
        .map_err(|error| error.expect("a short head"))?;
    for chunk in order.answer().chunks(order.chunk as usize) {
        writer.write(chunk)?;
        if order.extra == Extra::Flush {
            writer.flush();
        }
    }
    if order.extra == Extra::EndEarly {
        writer.end();
        std::thread::yield_now();
    }
    Ok(())
}
