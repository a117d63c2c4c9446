//! Where the connections of one front thread wait for news of their slots.

mod counter;

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_ipc::front::SubmitError;

use crate::Encoder;
use crate::exchange::Exchange;
use crate::link::Link;
use crate::pool::{Pool, Refused};
use counter::Times;
pub(crate) use counter::{Counter, Overdue};

/// How often memory is given back.
const TRIM: Duration = Duration::from_secs(5);

/// One front thread's desk of one pool.
#[derive(Debug)]
pub struct Desk {
    pool: Arc<Pool>,
    thread: usize,
    counter: RefCell<Option<Rc<Counter>>>,
    version: Cell<u64>,
    trimmed: Cell<Option<Instant>>,
    /// Counters of former links at which somebody still waits.
    former: RefCell<Vec<Rc<Counter>>>,
}

impl Desk {
    /// A thread's desk.
    pub fn new(pool: Arc<Pool>, thread: usize) -> Rc<Desk> {
        Rc::new(Desk {
            pool,
            thread,
            counter: RefCell::new(None),
            version: Cell::new(0),
            trimmed: Cell::new(None),
            former: RefCell::new(Vec::new()),
        })
    }

    /// The pool behind it.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits for a slot and hands the request over. `encode` writes all but the body; `body` is put
    /// behind it, or handed over as a file.
    pub async fn dispatch(
        &self,
        encoder: &RefCell<Encoder>,
        encode: impl Fn(&mut Encoder),
        body: Body<'_>,
    ) -> Result<Exchange, Refused> {
        let mut asked = None;
        loop {
            let lease = match self.present().and_then(|counter| counter.link.try_lease()) {
                Some(lease) => lease,
                None => {
                    asked.get_or_insert_with(Instant::now);
                    self.pool.wait_for_lease().await?
                }
            };
            let Some(counter) = self.counter_of(&lease.link) else {
                continue;
            };
            let mut encoder = encoder.borrow_mut();
            encode(&mut encoder);
            let request = match body {
                Body::Memory(bytes) => encoder.finish_inline(bytes),
                Body::File(_, length) => encoder.finish_file(length),
            };
            let file = match body {
                Body::Memory(_) => None,
                Body::File(file, _) => Some(file),
            };
            match counter.link.front.enqueue(lease.slot_ref(), self.thread, request, file) {
                Ok(()) => {
                    if counter.link.holds_back() {
                        counter.watch_queue();
                    } else {
                        counter.link.front.wake_worker();
                    }
                    let (now, limits) = (Instant::now(), self.pool.limits());
                    let times = Times {
                        begun_by: asked.unwrap_or(now) + limits.queue_timeout,
                        done_by: now + limits.request_timeout,
                    };
                    counter.attend(lease.index(), times);
                    return Ok(Exchange::new(counter, lease));
                }
                Err(SubmitError::TooLarge) => return Err(Refused::TooLarge),
                // The socket is full of what nobody took, or the region is nonsense: this link is
                // done for.
                Err(SubmitError::Io(_) | SubmitError::Corrupt(_)) => counter.link.condemn(),
            }
        }
    }

    /// Before the thread sleeps: wakes whoever has news. The thread must call this each time, and
    /// [`Desk::woke`] after.
    pub fn before_sleep(&self) {
        self.each_counter(|counter| {
            if counter.open.get() > 0 && !counter.link.front.try_sleep(self.thread) {
                counter.drain();
            }
        });
    }

    /// After the thread slept.
    pub fn woke(&self) {
        self.each_counter(|counter| {
            if counter.open.get() > 0 {
                counter.link.front.woke(self.thread);
                counter.drain();
            }
        });
    }

    /// Once a second or so: time-outs, and slots that nobody attends any more.
    pub fn sweep(&self, now: Instant) {
        self.trim(now);
        let request_timeout = self.pool.limits().request_timeout;
        self.each_counter(|counter| counter.sweep(now, request_timeout));
        self.former.borrow_mut().retain(|counter| counter.open.get() > 0);
    }

    /// Now and then, and for all threads, gives memory back that the pool does not need any more.
    fn trim(&self, now: Instant) {
        let due = self.trimmed.get().is_none_or(|last| now.duration_since(last) >= TRIM);
        if self.thread == 0
            && due
            && let Some(counter) = self.counter.borrow().as_ref()
        {
            self.trimmed.set(Some(now));
            // A kernel that cannot do it keeps the memory; nothing else depends on it.
            let _ = counter.link.front.trim();
        }
    }

    /// Whether no slot of this thread is with a worker.
    pub fn is_idle(&self) -> bool {
        let mut open = 0;
        self.each_counter(|counter| open += counter.open.get());
        open == 0
    }

    fn each_counter(&self, mut each: impl FnMut(&Rc<Counter>)) {
        if let Some(counter) = self.counter.borrow().as_ref() {
            each(counter);
        }
        for counter in self.former.borrow().iter() {
            each(counter);
        }
    }

    /// The counter of the present link.
    fn present(&self) -> Option<Rc<Counter>> {
        if self.pool.version() != self.version.get() {
            let (version, link) = self.pool.link();
            let counter = link.and_then(|link| Counter::open(link, self.thread).ok());
            self.version.set(version);
            let before = std::mem::replace(&mut *self.counter.borrow_mut(), counter);
            self.former.borrow_mut().extend(before.filter(|counter| counter.open.get() > 0));
        }
        self.counter.borrow().clone().filter(|counter| !counter.link.is_dead())
    }

    fn counter_of(&self, link: &Arc<Link>) -> Option<Rc<Counter>> {
        self.present().filter(|counter| Arc::ptr_eq(&counter.link, link))
    }
}

/// A request's content.
#[derive(Debug, Clone, Copy)]
pub enum Body<'b> {
    /// In memory; empty for none.
    Memory(&'b [u8]),
    /// In a file, from its start, so many bytes.
    File(BorrowedFd<'b>, u64),
}
