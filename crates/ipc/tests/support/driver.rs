//! One front thread: hands orders over, reads the answers, checks each byte.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use howdah_ipc::front::{FrontRegion, Slot, SubmitError};
use howdah_ipc::request::RequestEncoder;
use howdah_ipc::response::{self, DecodedHead};
use howdah_ipc::{Corrupt, SlotPhase};
use howdah_sys::eventfd::EventFd;

use super::{Order, give_back};

/// The result of a driver's orders.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Orders answered, byte for byte.
    pub answered: usize,
    /// Orders given again because their worker died over them.
    pub retried: usize,
}

/// A front thread.
pub struct Driver<'f> {
    front: &'f FrontRegion,
    thread: usize,
    bell: EventFd,
    encoder: RequestEncoder,
    exchanges: Vec<Option<Exchange>>,
    /// Slots that died with their worker, as the test's zygote tells.
    pub lost: &'f Mutex<Vec<usize>>,
    /// Every so manieth body goes by file; 0: none.
    pub files: usize,
    given: usize,
    /// Exchanges begun and not over.
    out: usize,
    until: Instant,
    gives_up: bool,
}

struct Exchange {
    slot: Slot,
    order: Order,
    head_seen: bool,
    received: usize,
    ended: bool,
}

/// No test waits longer.
pub fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(300)
}

/// Runs `orders` over one front thread, `in_flight` at a time.
pub fn run(
    front: &FrontRegion,
    thread: usize,
    orders: &[Order],
    in_flight: usize,
    lost: &Mutex<Vec<usize>>,
) -> Outcome {
    let mut driver = Driver::new(front, thread, lost);
    driver.files = 3;
    driver.run(orders, in_flight).unwrap_or_else(|error| panic!("{error}"))
}

/// A file that holds an order.
pub fn file_of(order: Order) -> OwnedFd {
    let memory = howdah_sys::memory::sealed_file(c"order", Order::LENGTH).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(&order.to_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file.into()
}

impl<'f> Driver<'f> {
    pub fn new(front: &'f FrontRegion, thread: usize, lost: &'f Mutex<Vec<usize>>) -> Driver<'f> {
        Driver {
            front,
            thread,
            bell: EventFd::from(front.bell(thread).try_clone_to_owned().unwrap()),
            encoder: RequestEncoder::default(),
            exchanges: (0..front.geometry().slots).map(|_| None).collect(),
            lost,
            files: 0,
            given: 0,
            out: 0,
            until: deadline(),
            gives_up: false,
        }
    }

    /// From then on, a run that is not through comes back with what it has.
    pub fn give_up_at(&mut self, until: Instant) {
        self.until = until;
        self.gives_up = true;
    }

    /// Until every order was answered once.
    pub fn run(&mut self, orders: &[Order], in_flight: usize) -> Result<Outcome, Corrupt> {
        let mut waiting: VecDeque<Order> = orders.iter().copied().collect();
        let mut outcome = Outcome::default();
        while outcome.answered < orders.len() {
            if Instant::now() >= self.until {
                if self.gives_up {
                    return Ok(outcome);
                }
                let slots = self.describe();
                panic!(
                    "thread {}: {outcome:?} of {}, {} wait;{slots}",
                    self.thread,
                    orders.len(),
                    waiting.len()
                );
            }
            let mut busy = false;
            while self.out < in_flight && !waiting.is_empty() {
                let Some(slot) = self.front.checkout() else {
                    break;
                };
                let order = waiting.pop_front().expect("not empty");
                self.give(slot, order)?;
                busy = true;
            }
            for order in self.take_back_the_lost() {
                outcome.retried += 1;
                waiting.push_back(order);
                busy = true;
            }
            let mut marked = Vec::new();
            self.front.drain(self.thread, |slot| marked.push(slot));
            for slot in marked {
                busy = true;
                outcome.answered += usize::from(self.advance(slot)?);
            }
            if !busy {
                self.sleep();
            }
        }
        Ok(outcome)
    }

    fn give(&mut self, slot: Slot, order: Order) -> Result<(), Corrupt> {
        self.given += 1;
        let file =
            (self.files > 0 && self.given.is_multiple_of(self.files)).then(|| file_of(order));
        let encoded = order.encode(&mut self.encoder, file.is_some());
        let given = self.front.submit(&slot, self.thread, encoded, file.as_ref().map(AsFd::as_fd));
        let index = slot.index();
        assert!(self.exchanges[index].is_none(), "a slot was given out twice");
        self.out += 1;
        self.exchanges[index] = Some(Exchange {
            slot,
            order,
            head_seen: false,
            received: 0,
            ended: false,
        });
        match given {
            Ok(()) => Ok(()),
            Err(SubmitError::Corrupt(corrupt)) => Err(corrupt),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn take_back_the_lost(&mut self) -> Vec<Order> {
        let mut again = Vec::new();
        self.lost.lock().unwrap().retain(|&slot| {
            let Some(exchange) = self.exchanges[slot].take() else {
                return true;
            };
            // Dead in Taken: nobody will touch it any more.
            self.out -= 1;
            give_back(self.front, exchange.slot);
            again.push(exchange.order);
            false
        });
        again
    }

    /// Reads what there is. `true`: the answer is complete and the slot released.
    fn advance(&mut self, index: usize) -> Result<bool, Corrupt> {
        let Some(exchange) = &mut self.exchanges[index] else {
            return Ok(false); // A false alarm, for a former use or another thread.
        };
        let look = self.front.slot_status(&mut exchange.slot)?;
        let available = (exchange.slot.written() - exchange.slot.consumed()) as usize;
        let mut taken = 0;
        if !exchange.head_seen {
            taken = exchange.read_head(self.front, available)?;
        }
        if exchange.head_seen {
            let mut bytes = vec![0; available - taken];
            let got = self.front.copy(&exchange.slot, taken as u64, &mut bytes);
            assert_eq!(got, bytes.len());
            let answer = exchange.order.answer();
            let expected = answer.get(exchange.received..exchange.received + got);
            if expected != Some(&bytes) {
                return Err(Corrupt("an answer has other bytes"));
            }
            exchange.received += got;
            taken += got;
        }
        self.front.consume(&mut exchange.slot, taken as u64);
        exchange.ended |= look.ended;
        if exchange.ended && exchange.received != exchange.order.size as usize {
            return Err(Corrupt("an answer is too short"));
        }
        if look.phase != SlotPhase::Done {
            return Ok(false);
        }
        let exchange = self.exchanges[index].take().expect("looked at above");
        self.out -= 1;
        give_back(self.front, exchange.slot);
        Ok(true)
    }

    fn sleep(&self) {
        if self.front.try_sleep(self.thread) {
            let mut poll = libc::pollfd {
                fd: self.bell.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live pollfd.
            unsafe { libc::poll(&raw mut poll, 1, 100) };
            self.bell.take().unwrap();
            self.front.woke(self.thread);
        }
    }

    fn describe(&mut self) -> String {
        let mut text = String::new();
        for exchange in self.exchanges.iter_mut().flatten() {
            let look = self.front.slot_status(&mut exchange.slot);
            text += &format!(
                "\n slot {}: {:?}, {} of {} bytes, {look:?}",
                exchange.slot.index(),
                exchange.order,
                exchange.received,
                exchange.order.size
            );
        }
        text
    }
}

impl Exchange {
    /// Answers with the bytes of the head, once it is there.
    fn read_head(&mut self, front: &FrontRegion, available: usize) -> Result<usize, Corrupt> {
        let mut prefix = [0; response::PREFIX];
        if front.copy(&self.slot, 0, &mut prefix) < prefix.len() {
            return Ok(0);
        }
        let (_, length) = response::decode_prefix(prefix)?;
        if available < prefix.len() + length {
            return Ok(0);
        }
        let mut bytes = vec![0; length];
        front.copy(&self.slot, prefix.len() as u64, &mut bytes);
        let head = DecodedHead::decode(&bytes)?;
        let size = self.order.size.to_string();
        let fields: Vec<_> = head.fields().collect();
        if (head.status, fields.as_slice()) != (200, &[(&b"Size"[..], size.as_bytes())][..]) {
            return Err(Corrupt("an answer has another head"));
        }
        self.head_seen = true;
        Ok(prefix.len() + length)
    }
}
