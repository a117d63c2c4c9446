//! Where the connections of one front thread wait for news of their slots.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use howdah_ipc::Phase;
use howdah_ipc::front::SubmitError;
use howdah_sys::readiness::Readable;

use crate::exchange::Exchange;
use crate::link::{Lease, Link};
use crate::pool::{Pool, Refused};
use crate::{Encoder, KILL_SIGNAL, SOFT_TIMEOUT_SIGNAL};

/// How long after the soft time-out a worker is killed.
const GRACE: Duration = Duration::from_secs(2);
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

/// The part of a desk that belongs to one link.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) link: Arc<Link>,
    thread: usize,
    /// By slot: who waits for it.
    places: RefCell<Vec<Place>>,
    /// Slots of this thread that are with a worker.
    open: Cell<usize>,
    /// A task looks after requests for which no worker was woken.
    watching: Cell<bool>,
    /// Requests that had been taken from the queue at the last sweep.
    taken: Cell<u32>,
}

/// What a thread knows of a slot that it has out.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Unused,
    /// An exchange waits here, or works on what it last saw.
    Attended {
        waker: Option<Waker>,
        times: Times,
        overdue: Option<Overdue>,
    },
    /// Nobody waits any more, but a worker still runs it. It has its time, and no longer.
    Abandoned {
        lease: Lease,
        soft_at: Option<Instant>,
        kill_at: Option<Instant>,
    },
}

/// How long a request may wait, and then run.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// The end of its waiting for a worker.
    begun_by: Instant,
    /// The end of its running, counted from when it was last seen waiting.
    done_by: Instant,
}

/// What a request has taken too long for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No worker began it.
    Waiting,
    /// Its worker is not through with it.
    Running,
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

    /// Waits for a slot and hands the request over. `encode` writes all but the body; `body` is put behind it, or handed
    /// over as a file.
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
            match counter
                .link
                .front
                .enqueue(lease.slot_ref(), self.thread, request, file)
            {
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
                // The socket is full of what nobody took, or the region is nonsense: this link is done for.
                Err(SubmitError::Io(_) | SubmitError::Corrupt(_)) => counter.link.condemn(),
            }
        }
    }

    /// Before the thread sleeps: wakes whoever has news. The thread must call this each time, and [`Desk::woke`] after.
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
        let due = self
            .trimmed
            .get()
            .is_none_or(|last| now.duration_since(last) >= TRIM);
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
            self.former
                .borrow_mut()
                .extend(before.filter(|counter| counter.open.get() > 0));
        }
        self.counter
            .borrow()
            .clone()
            .filter(|counter| !counter.link.is_dead())
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

impl Counter {
    /// Opens a counter and sets a task of this thread to listen for its bells.
    fn open(link: Arc<Link>, thread: usize) -> io::Result<Rc<Counter>> {
        let slots = link.front.geometry().slots;
        let places = RefCell::new((0..slots).map(|_| Place::Unused).collect());
        let counter = Rc::new(Counter {
            link,
            thread,
            places,
            open: Cell::new(0),
            watching: Cell::new(false),
            taken: Cell::new(0),
        });
        let bell = Readable::new(counter.link.front.bell(thread))?;
        tokio::task::spawn_local(listen(Rc::downgrade(&counter), counter.link.clone(), bell));
        Ok(counter)
    }

    /// Sees to it that a request that was left to the workers awake does not wait for those that are stuck: if none was taken
    /// from the queue for the link's patience, others are woken.
    fn watch_queue(self: &Rc<Self>) {
        if self.watching.replace(true) {
            return;
        }
        let counter = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            let mut before = None;
            loop {
                let Some(patience) = counter.upgrade().map(|counter| counter.link.patience()) else {
                    return;
                };
                tokio::time::sleep(patience).await;
                let Some(counter) = counter.upgrade() else { return };
                let (queued, taken) = counter.link.front.queued();
                if queued == 0 {
                    counter.watching.set(false);
                    return;
                }
                if before.replace(taken) == Some(taken) {
                    (0..queued).for_each(|_| counter.link.front.wake_worker());
                }
            }
        });
    }

    fn attend(&self, slot: usize, times: Times) {
        self.places.borrow_mut()[slot] = Place::Attended {
            waker: None,
            times,
            overdue: None,
        };
        self.open.set(self.open.get() + 1);
    }

    /// Leaves word whom to wake when there is news. Says whether the request is overdue.
    pub(crate) fn wait(&self, slot: usize, who: &Waker) -> Option<Overdue> {
        match &mut self.places.borrow_mut()[slot] {
            Place::Attended { waker, overdue, .. } => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(who)) {
                    *waker = Some(who.clone());
                }
                *overdue
            }
            _ => None,
        }
    }

    /// The exchange is over: its slot goes back as soon as no worker can touch it.
    pub(crate) fn leave(&self, mut lease: Lease, kill: bool) {
        let slot = lease.index();
        let done_by = self.vacate(slot);
        if is_over(&mut lease) || self.link.front.cancel(lease.slot_ref()) {
            self.close(lease);
            return;
        }
        self.link.front.abort(lease.slot_ref());
        let soft_at = if kill { Some(Instant::now()) } else { done_by };
        self.places.borrow_mut()[slot] = Place::Abandoned {
            lease,
            soft_at,
            kill_at: None,
        };
        if kill {
            self.sweep_slot(slot, Instant::now(), Duration::ZERO);
        }
    }

    /// The exchange is over before it began: its slot was taken back.
    pub(crate) fn leave_cancelled(&self, lease: Lease) {
        self.vacate(lease.index());
        self.close(lease);
    }

    /// The response is complete, but its script goes on: nobody is told to stop.
    pub(crate) fn leave_running(&self, mut lease: Lease) {
        let slot = lease.index();
        if is_over(&mut lease) {
            self.leave(lease, false);
        } else {
            let soft_at = self.vacate(slot);
            self.places.borrow_mut()[slot] = Place::Abandoned {
                lease,
                soft_at,
                kill_at: None,
            };
        }
    }

    /// Nobody attends the slot any more. Answers with the time that its script has.
    fn vacate(&self, slot: usize) -> Option<Instant> {
        match std::mem::take(&mut self.places.borrow_mut()[slot]) {
            Place::Attended { times, .. } => Some(times.done_by),
            _ => None,
        }
    }

    /// The slot goes back to the pool, which may wake others of this thread.
    fn close(&self, lease: Lease) {
        self.open.set(self.open.get() - 1);
        drop(lease);
    }

    fn drain(&self) {
        self.link.front.drain(self.thread, |slot| self.news(slot));
    }

    fn news(&self, slot: usize) {
        let mut places = self.places.borrow_mut();
        match &mut places[slot] {
            Place::Unused => {}
            Place::Attended { waker, .. } => {
                if let Some(waker) = waker {
                    waker.wake_by_ref();
                }
            }
            Place::Abandoned { lease, .. } => {
                if is_over(lease) {
                    let over = std::mem::take(&mut places[slot]);
                    // Its lease goes back to the pool, which may wake others of this thread, so let go first.
                    drop(places);
                    drop(over);
                    self.open.set(self.open.get() - 1);
                } else {
                    // Nobody reads what it still writes; it must not wait for room.
                    if self.link.front.look(lease.slot()).is_ok() {
                        self.link.front.consume(lease.slot(), u64::MAX >> 1);
                    }
                }
            }
        }
    }

    fn all_news(&self) {
        for slot in 0..self.link.front.geometry().slots {
            self.news(slot);
        }
    }

    fn sweep(&self, now: Instant, request_timeout: Duration) {
        if self.open.get() == 0 {
            return;
        }
        let mut waits = false;
        for slot in 0..self.link.front.geometry().slots {
            waits |= self.sweep_slot(slot, now, request_timeout);
        }
        // Workers that are held back are not to be woken as long as the others get on.
        let (_, taken) = self.link.front.queued();
        if self.taken.replace(taken) == taken && waits {
            self.link.front.wake_all();
        }
    }

    /// Says whether no worker has begun what somebody waits for here.
    fn sweep_slot(&self, slot: usize, now: Instant, request_timeout: Duration) -> bool {
        let mut places = self.places.borrow_mut();
        match &mut places[slot] {
            Place::Unused => false,
            Place::Attended {
                waker,
                times,
                overdue,
            } => {
                let waits = self.link.front.is_queued(slot);
                let late = if waits {
                    times.done_by = now + request_timeout;
                    (times.begun_by <= now).then_some(Overdue::Waiting)
                } else {
                    (times.done_by <= now).then_some(Overdue::Running)
                };
                if late.is_some() && *overdue != late {
                    *overdue = late;
                    waker.iter().for_each(Waker::wake_by_ref);
                }
                waits
            }
            Place::Abandoned {
                lease,
                soft_at,
                kill_at,
            } => {
                let worker = self
                    .link
                    .front
                    .look(lease.slot())
                    .ok()
                    .and_then(|look| look.worker);
                let Some(worker) = worker else { return false };
                let pid = self.link.pid(worker);
                if soft_at.take_if(|at| *at <= now).is_some() {
                    self.link.kill(worker, pid, SOFT_TIMEOUT_SIGNAL);
                    *kill_at = Some(now + GRACE);
                } else if kill_at.take_if(|at| *at <= now).is_some() {
                    self.link.kill(worker, pid, KILL_SIGNAL);
                    // Should that be the wrong one, because a hostile worker lied about who it is, try again.
                    *kill_at = Some(now + GRACE);
                }
                false
            }
        }
    }
}

/// Whether no worker can touch the slot any more.
fn is_over(lease: &mut Lease) -> bool {
    let slot = lease.index();
    if lease.link.is_dead() || lease.link.lost(slot).is_some() {
        return true;
    }
    let link = lease.link.clone();
    link.front
        .look(lease.slot())
        .is_ok_and(|look| look.phase == Phase::Done)
}

/// Wakes who has news whenever the bell rings, until the counter is closed or the link is dead.
async fn listen(counter: Weak<Counter>, link: Arc<Link>, bell: Readable) {
    let mut alarms = 0;
    while let Ok(mut ready) = bell.ready().await {
        // The edge was the message; the count is never read.
        ready.clear_ready();
        let Some(counter) = counter.upgrade() else { return };
        let dead = link.is_dead();
        if std::mem::replace(&mut alarms, link.alarms()) == link.alarms() {
            counter.drain();
        } else {
            counter.all_news();
        }
        if dead {
            return;
        }
    }
}
