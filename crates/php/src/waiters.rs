//! The waiter table: what one thread knows of the slots that it has out.

mod sweep;
mod untold;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use howdah_ipc::SlotPhase;
use howdah_ipc::flow_control::AbortReason;
use howdah_sys::readiness::Readable;
use tokio::task::JoinHandle;

pub(crate) use self::untold::SlotNews;
use self::untold::UntoldOutput;
use crate::counters::{PoolCounter, PoolCounters};
use crate::deadlines::{Deadlines, MissedDeadline};
use crate::exchange::AskedQuestion;
use crate::pool::PoolLimits;
use crate::zygote::{Lease, Zygote};
use crate::{AskingConnection, ExchangeError, QuestionHandler};

/// The time that workers take nothing from the queue until the requests there that came while
/// scripts were short wait in turn with those of other clients instead.
const RECALL_AFTER: Duration = Duration::from_millis(10);

/// One thread's table of the slots that it has leased from one zygote.
#[derive(Debug)]
pub(crate) struct Waiters {
    pub(crate) zygote: Arc<Zygote>,
    thread: usize,
    limits: PoolLimits,
    counters: PoolCounters,
    /// Answers what scripts ask while they run.
    pub(crate) answers: Option<Rc<QuestionHandler>>,
    /// By slot: for whom the script may ask.
    pub(crate) askers: RefCell<Vec<Option<AskingConnection>>>,
    /// By slot.
    entries: RefCell<Vec<SlotWaiter>>,
    /// Slots that this thread has handed over and not got back.
    pub(crate) open: Cell<usize>,
    /// A task watches the queue, because a request was queued and no worker woken.
    watching: Cell<bool>,
    /// A task looks for output that no worker has told of.
    showing: Cell<bool>,
    /// Time of the last sweep.
    swept: Cell<Option<Instant>>,
    /// Number of requests that had been taken from the queue at the last sweep.
    taken: Cell<u32>,
    /// Number of requests that had been answered at the last sweep.
    answered: Cell<usize>,
}

/// The state of one slot, as its thread sees it.
#[derive(Debug, Default)]
enum SlotWaiter {
    #[default]
    Unused,
    /// An exchange has the slot.
    Waiting {
        waker: Option<Waker>,
        deadlines: Deadlines,
        overdue: Option<MissedDeadline>,
        untold: UntoldOutput,
    },
    /// The exchange was dropped while a worker ran the script. The script keeps its deadlines.
    Abandoned {
        lease: Lease,
        asked: AskedQuestion,
        /// `None` once the script was told to end.
        deadlines: Option<Deadlines>,
        kill_at: Option<Instant>,
        /// Number of times that the worker was killed.
        kills: u32,
    },
}

impl Waiters {
    /// Makes the table, and starts two tasks of this thread: one listens to the thread's bell, the
    /// other one to the alarms.
    ///
    /// # Errors
    /// The event loop cannot watch the thread's bell: the error of `epoll_ctl(2)`.
    pub(crate) fn open(
        zygote: Arc<Zygote>,
        thread: usize,
        limits: PoolLimits,
        counters: PoolCounters,
        answers: Option<Rc<QuestionHandler>>,
    ) -> io::Result<Rc<Waiters>> {
        let slots = zygote.front.geometry().slots;
        let entries = RefCell::new((0..slots).map(|_| SlotWaiter::Unused).collect());
        let waiters = Rc::new(Waiters {
            zygote,
            thread,
            limits,
            counters,
            answers,
            askers: RefCell::new(vec![None; slots]),
            entries,
            open: Cell::new(0),
            watching: Cell::new(false),
            showing: Cell::new(false),
            swept: Cell::new(None),
            taken: Cell::new(0),
            answered: Cell::new(0),
        });
        let bell = Readable::new(waiters.zygote.front.bell(thread))?;
        let listener = tokio::task::spawn_local(listen(Rc::downgrade(&waiters), bell));
        tokio::task::spawn_local(watch_alarms(Rc::downgrade(&waiters), listener));
        Ok(waiters)
    }

    /// Wakes a worker for a request that was just queued, or leaves the request to the workers that
    /// are awake. Watches the queue where the request may wait there.
    #[inline]
    pub(crate) fn wake_for_request(self: &Rc<Self>) {
        let holds_back = self.zygote.holds_back();
        if holds_back || self.zygote.is_deep() {
            self.watch_queue();
        }
        if !holds_back {
            self.zygote.wake_worker();
        }
    }

    /// Starts a task that wakes further workers if no request was taken from the queue for
    /// [`Zygote::patience`]: the workers that are awake may be stuck. Recalls requests after
    /// [`RECALL_AFTER`].
    fn watch_queue(self: &Rc<Self>) {
        if self.watching.replace(true) {
            return;
        }
        let waiters = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            let (mut before, mut since) = (None, Instant::now());
            loop {
                let Some(patience) = waiters.upgrade().map(|waiters| waiters.zygote.patience())
                else {
                    return;
                };
                tokio::time::sleep(patience).await;
                let Some(waiters) = waiters.upgrade() else {
                    return;
                };
                let (queued, taken) = waiters.zygote.front.queued();
                if queued == 0 {
                    waiters.watching.set(false);
                    return;
                }
                if before.replace(taken) != Some(taken) {
                    since = Instant::now();
                    continue;
                }
                waiters.zygote.unstick(queued);
                if since.elapsed() >= RECALL_AFTER && waiters.zygote.is_deep() {
                    waiters.recall();
                }
            }
        });
    }

    /// Makes the requests of this thread that no worker has begun leave their slots, and wait in
    /// turn with those of other clients.
    fn recall(&self) {
        self.zygote.note_long();
        for (slot, entry) in self.entries.borrow_mut().iter_mut().enumerate() {
            if let SlotWaiter::Waiting { waker, overdue, .. } = entry
                && self.zygote.front.is_queued(slot)
            {
                *overdue = Some(MissedDeadline::Recalled);
                waker.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    /// Registers a slot that was just queued, and for whom its script may ask.
    pub(crate) fn register(
        &self,
        slot: usize,
        deadlines: Deadlines,
        asker: Option<AskingConnection>,
    ) {
        self.askers.borrow_mut()[slot] = asker;
        self.entries.borrow_mut()[slot] = SlotWaiter::Waiting {
            waker: None,
            deadlines,
            overdue: None,
            untold: UntoldOutput::default(),
        };
        self.open.set(self.open.get() + 1);
    }

    /// Registers the waker of the slot's exchange. Returns what has happened without the slot.
    pub(crate) fn wait(&self, slot: usize, who: &Waker) -> SlotNews {
        match &mut self.entries.borrow_mut()[slot] {
            SlotWaiter::Waiting { waker, overdue, untold, .. } => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(who)) {
                    *waker = Some(who.clone());
                }
                untold.news(*overdue)
            }
            _ => SlotNews::default(),
        }
    }

    /// Gives the slot back as soon as no worker can touch it. The worker is told that nobody reads
    /// the response; `kill` ends it. A request that no worker has begun is none for them any more.
    pub(crate) fn leave(self: &Rc<Self>, mut lease: Lease, kill: bool) {
        let slot = lease.index();
        if self.zygote.front.cancel(lease.slot_ref()) {
            self.count_abandoned(lease.lane);
            return self.leave_cancelled(lease);
        }
        let mut deadlines = self.vacate(slot);
        if is_over(&mut lease) {
            return self.close(lease);
        }
        let reason = if kill { AbortReason::Late } else { AbortReason::Unread };
        self.zygote.front.abort(lease.slot_ref(), reason);
        let now = Instant::now();
        if kill {
            deadlines.iter_mut().for_each(|deadlines| deadlines.expire(now));
        }
        self.entries.borrow_mut()[slot] = SlotWaiter::Abandoned {
            lease,
            asked: AskedQuestion::no_more(),
            deadlines,
            kill_at: None,
            kills: 0,
        };
        if kill {
            self.sweep_slot(slot, now);
        }
    }

    /// Gives back a slot whose request was cancelled before a worker began it.
    pub(crate) fn leave_cancelled(&self, lease: Lease) {
        self.vacate(lease.index());
        self.close(lease);
    }

    /// Gives the slot back when its script has ended. The worker is told nothing; its questions are
    /// answered as before.
    pub(crate) fn leave_running(self: &Rc<Self>, mut lease: Lease, asked: AskedQuestion) {
        let slot = lease.index();
        let deadlines = self.vacate(slot);
        if is_over(&mut lease) {
            self.close(lease);
        } else {
            self.entries.borrow_mut()[slot] = SlotWaiter::Abandoned {
                lease,
                asked,
                deadlines,
                kill_at: None,
                kills: 0,
            };
            // The worker may wait for space already.
            self.news(slot);
        }
    }

    /// Removes the slot's entry. Returns its deadlines.
    fn vacate(&self, slot: usize) -> Option<Deadlines> {
        match std::mem::take(&mut self.entries.borrow_mut()[slot]) {
            SlotWaiter::Waiting { deadlines, .. } => Some(deadlines),
            _ => None,
        }
    }

    /// Gives the slot back to the pool, which may wake other tasks of this thread.
    fn close(&self, mut lease: Lease) {
        self.count_figures(&mut lease);
        // A worker that died with its script has told no figures.
        if lease.figures.is_none() && self.zygote.lost(lease.index()).is_some() {
            let (_, ran) = self.zygote.front.times(lease.slot_ref());
            self.count_slow(lease.lane, ran);
        }
        self.open.set(self.open.get() - 1);
        drop(lease);
    }

    /// Counts the request of a lease, once, when its script has ended.
    pub(crate) fn count_figures(&self, lease: &mut Lease) {
        if lease.figures.is_none()
            && let Some(figures) = self.zygote.front.figures(lease.slot_ref())
        {
            lease.figures = Some(figures);
            self.zygote.count_answer();
            self.counters.count_figures(lease.lane, &figures);
            self.count_slow(lease.lane, figures.took);
        }
    }

    /// Counts a script that ran for that many nanoseconds, if it was slow.
    fn count_slow(&self, lane: usize, took: u64) {
        let is_slow = |after: Duration| u128::from(took) >= after.as_nanos();
        if self.limits.slow_after.is_some_and(is_slow) {
            self.counters.count(lane, PoolCounter::Slow);
        }
    }

    /// Counts a request whose client was gone before a worker began it.
    pub(crate) fn count_abandoned(&self, lane: usize) {
        self.counters.count(lane, PoolCounter::Abandoned);
    }

    /// Counts the failure of a request of a lane.
    pub(crate) fn count_failure(&self, lane: usize, failure: ExchangeError) {
        let count = |event| self.counters.count(lane, event);
        match failure {
            ExchangeError::NotBegun => count(PoolCounter::QueueTimeouts),
            // Its script is counted as slow when it has ended.
            ExchangeError::Silent | ExchangeError::TimedOut | ExchangeError::CutOff => {
                count(PoolCounter::Timeouts);
            }
            ExchangeError::WorkerDied(_) | ExchangeError::PoolDied => {
                count(PoolCounter::Lost);
            }
            ExchangeError::NotTaken | ExchangeError::Malformed(_) => {}
        }
    }

    pub(crate) fn drain(self: &Rc<Self>) {
        self.zygote.front.drain(self.thread, |slot| self.news(slot));
    }

    fn news(self: &Rc<Self>, slot: usize) {
        let mut entries = self.entries.borrow_mut();
        match &mut entries[slot] {
            SlotWaiter::Unused => {}
            SlotWaiter::Waiting { waker, .. } => {
                if let Some(waker) = waker {
                    waker.wake_by_ref();
                }
            }
            SlotWaiter::Abandoned { lease, asked, .. } => {
                if is_over(lease) {
                    let over = std::mem::take(&mut entries[slot]);
                    // Its lease goes back to the pool, which may wake other tasks of this thread:
                    // the table must not be borrowed then.
                    drop(entries);
                    if let SlotWaiter::Abandoned { lease, .. } = over {
                        self.close(lease);
                    }
                } else {
                    // The rest of the response is not wanted; the worker must not wait for space.
                    if self.zygote.front.slot_status(lease.slot()).is_ok() {
                        self.zygote.front.consume(lease.slot(), u64::MAX >> 1);
                    }
                    self.attend_unread(lease, asked);
                }
            }
        }
    }

    /// Answers a question of that use of a slot, if the script still runs without a reader.
    pub(crate) fn answer_unread(&self, slot: usize, generation: u32, number: u32, answer: &[u8]) {
        if let SlotWaiter::Abandoned { lease, asked, .. } = &mut self.entries.borrow_mut()[slot]
            && lease.slot_ref().generation() == generation
        {
            asked.note_answer();
            self.zygote.front.answer(lease.slot_ref(), number, answer);
        }
    }

    fn all_news(self: &Rc<Self>) {
        for slot in 0..self.zygote.front.geometry().slots {
            self.news(slot);
        }
    }
}

/// Whether no worker can touch the slot any more.
fn is_over(lease: &mut Lease) -> bool {
    let slot = lease.index();
    if lease.zygote.is_dead() || lease.zygote.lost(slot).is_some() {
        return true;
    }
    let (zygote, slot) = lease.parts();
    zygote.front.slot_status(slot).is_ok_and(|look| look.phase == SlotPhase::Done)
}

/// Wakes the exchanges whose slots have changed whenever the bell rings, until the table is
/// dropped.
async fn listen(waiters: Weak<Waiters>, bell: Readable) {
    while let Ok(mut ready) = bell.ready().await {
        // The edge was the message; the count is never read.
        ready.clear_ready();
        let Some(waiters) = waiters.upgrade() else {
            return;
        };
        waiters.drain();
    }
}

/// Wakes all exchanges after each death, until the zygote is dead. Then ends the `listener`, whose
/// bell no worker rings any more.
async fn watch_alarms(waiters: Weak<Waiters>, listener: JoinHandle<()>) {
    let Some((zygote, thread)) =
        waiters.upgrade().map(|waiters| (waiters.zygote.clone(), waiters.thread))
    else {
        return;
    };
    let mut is_dead = false;
    while !is_dead {
        zygote.alarm(thread).notified().await;
        // Read before the slots are looked at: a later death raises another alarm.
        is_dead = zygote.is_dead();
        match waiters.upgrade() {
            Some(waiters) => waiters.all_news(),
            None => break,
        }
    }
    listener.abort();
}
