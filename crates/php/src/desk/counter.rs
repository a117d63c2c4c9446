//! The part of a [`Desk`](super::Desk) that belongs to one link: what becomes of each slot that a
//! thread has out.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use howdah_ipc::Phase;
use howdah_sys::readiness::Readable;

use crate::link::{Lease, Link};
use crate::{KILL_SIGNAL, SOFT_TIMEOUT_SIGNAL};

/// How long after the soft time-out a worker is killed.
const GRACE: Duration = Duration::from_secs(2);

/// The part of a desk that belongs to one link.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) link: Arc<Link>,
    thread: usize,
    /// By slot: who waits for it.
    places: RefCell<Vec<Place>>,
    /// Slots of this thread that are with a worker.
    pub(super) open: Cell<usize>,
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
pub(super) struct Times {
    /// The end of its waiting for a worker.
    pub(super) begun_by: Instant,
    /// The end of its running, counted from when it was last seen waiting.
    pub(super) done_by: Instant,
}

/// What a request has taken too long for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No worker began it.
    Waiting,
    /// Its worker is not through with it.
    Running,
}

impl Counter {
    /// Opens a counter and sets a task of this thread to listen for its bells.
    pub(super) fn open(link: Arc<Link>, thread: usize) -> io::Result<Rc<Counter>> {
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

    /// Sees to it that a request that was left to the workers awake does not wait for those that
    /// are stuck: if none was taken from the queue for the link's patience, others are woken.
    pub(super) fn watch_queue(self: &Rc<Self>) {
        if self.watching.replace(true) {
            return;
        }
        let counter = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            let mut before = None;
            loop {
                let Some(patience) = counter.upgrade().map(|counter| counter.link.patience())
                else {
                    return;
                };
                tokio::time::sleep(patience).await;
                let Some(counter) = counter.upgrade() else {
                    return;
                };
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

    pub(super) fn attend(&self, slot: usize, times: Times) {
        self.places.borrow_mut()[slot] = Place::Attended { waker: None, times, overdue: None };
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
        self.places.borrow_mut()[slot] = Place::Abandoned { lease, soft_at, kill_at: None };
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
            self.places.borrow_mut()[slot] = Place::Abandoned { lease, soft_at, kill_at: None };
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

    pub(super) fn drain(&self) {
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
                    // Its lease goes back to the pool, which may wake others of this thread, so let
                    // go first.
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

    pub(super) fn sweep(&self, now: Instant, request_timeout: Duration) {
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
            Place::Attended { waker, times, overdue } => {
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
            Place::Abandoned { lease, soft_at, kill_at } => {
                let worker = self.link.front.look(lease.slot()).ok().and_then(|look| look.worker);
                let Some(worker) = worker else { return false };
                let pid = self.link.pid(worker);
                if soft_at.take_if(|at| *at <= now).is_some() {
                    self.link.kill(worker, pid, SOFT_TIMEOUT_SIGNAL);
                    *kill_at = Some(now + GRACE);
                } else if kill_at.take_if(|at| *at <= now).is_some() {
                    self.link.kill(worker, pid, KILL_SIGNAL);
                    // Should that be the wrong one, because a hostile worker lied about who it is,
                    // try again.
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
    link.front.look(lease.slot()).is_ok_and(|look| look.phase == Phase::Done)
}

/// Wakes who has news whenever the bell rings, until the counter is closed or the link is dead.
async fn listen(counter: Weak<Counter>, link: Arc<Link>, bell: Readable) {
    let mut alarms = 0;
    while let Ok(mut ready) = bell.ready().await {
        // The edge was the message; the count is never read.
        ready.clear_ready();
        let Some(counter) = counter.upgrade() else {
            return;
        };
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
