//! One front thread's access to a pool.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_ipc::front::SubmitError;
use howdah_sys::usage;

use crate::RequestEncoder;
use crate::counters::{PoolCounter, PoolCounters};
use crate::deadlines::Deadlines;
use crate::exchange::{AskingConnection, QuestionHandler, ScriptExchange};
use crate::lanes::QueuePlace;
use crate::pool::{DispatchError, Pool};
use crate::waiters::Waiters;
use crate::zygote::{Lease, Zygote};

/// The interval at which the pool's unused memory is given back.
const TRIM: Duration = Duration::from_secs(5);

/// One front thread's access to one pool: dispatches requests and wakes the exchanges that wait.
#[derive(Debug)]
pub struct PoolHandle {
    pool: Arc<Pool>,
    thread: usize,
    /// This thread's counters of the pool.
    counters: PoolCounters,
    answers: OnceCell<Rc<QuestionHandler>>,
    waiters: RefCell<Option<Rc<Waiters>>>,
    version: Cell<u64>,
    trimmed: Cell<Option<Instant>>,
    /// The waiter tables of former zygotes that still have slots out.
    former: RefCell<Vec<Rc<Waiters>>>,
}

impl PoolHandle {
    /// Returns the handle of thread number `thread`, which counts in `counters`.
    pub fn new(pool: Arc<Pool>, thread: usize, counters: PoolCounters) -> Rc<PoolHandle> {
        Rc::new(PoolHandle {
            pool,
            thread,
            counters,
            answers: OnceCell::new(),
            waiters: RefCell::new(None),
            version: Cell::new(0),
            trimmed: Cell::new(None),
            former: RefCell::new(Vec::new()),
        })
    }

    /// Chooses who answers what scripts ask while they run. The first choice before the first
    /// request holds.
    pub fn answer_with(&self, answers: QuestionHandler) {
        let _ = self.answers.set(Rc::new(answers));
    }

    /// The pool that requests are dispatched to.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Waits for a slot in `place` and hands the request over. `encode` writes everything except
    /// the body; `body` is appended, or handed over as a file. The script may ask questions for
    /// `asker`; without one they get empty answers.
    ///
    /// Dropping the future gives the request up.
    ///
    /// # Errors
    /// The request was not handed over: the pool has no room for it, or it has no room in a slot.
    pub async fn dispatch(
        &self,
        place: QueuePlace,
        asker: Option<AskingConnection>,
        encoder: &RefCell<RequestEncoder>,
        encode: impl Fn(&mut RequestEncoder),
        body: RequestBody<'_>,
    ) -> Result<Box<ScriptExchange>, DispatchError> {
        let waiting = WaitingRequest { handle: self, place };
        let dispatched = self.try_dispatch(place, asker, encoder, encode, body).await;
        std::mem::forget(waiting);
        let count = |event| self.counters.count(place.lane, event);
        match &dispatched {
            Ok(_) => self.count_taken(place),
            // One that waits once more has been taken already.
            Err(
                DispatchError::QueueFull | DispatchError::LaneFull | DispatchError::DoesNotStart,
            ) => match place.since {
                None => count(PoolCounter::QueueFull),
                Some(_) => count(PoolCounter::QueueTimeouts),
            },
            Err(DispatchError::QueueTimeout | DispatchError::CutOff) => {
                self.count_taken(place);
                count(PoolCounter::QueueTimeouts);
            }
            Err(DispatchError::TooLarge) => {}
        }
        dispatched
    }

    /// Counts a request that was handed over, or has waited in vain; one that waits once more was
    /// counted the first time.
    fn count_taken(&self, place: QueuePlace) {
        if place.since.is_none() {
            self.counters.count(place.lane, PoolCounter::Requests);
        }
    }

    /// Leases a slot, at once or after a wait, submits the request in it and begins its exchange.
    /// Tries again with the next zygote where the zygote fails meanwhile.
    async fn try_dispatch(
        &self,
        place: QueuePlace,
        asker: Option<AskingConnection>,
        encoder: &RefCell<RequestEncoder>,
        encode: impl Fn(&mut RequestEncoder),
        body: RequestBody<'_>,
    ) -> Result<Box<ScriptExchange>, DispatchError> {
        let mut asked = place.since;
        loop {
            if self.pool.is_cut_off() {
                return Err(DispatchError::CutOff);
            }
            let mut now = Instant::now();
            let lease = match self.lease_at_once(place.lane, now) {
                Some(lease) => lease,
                None => {
                    let since = *asked.get_or_insert(now);
                    let lease = self.pool.wait_for_lease(place, since).await?;
                    now = Instant::now();
                    lease
                }
            };
            let Some(waiters) = self.waiters_of(&lease.zygote) else {
                drop(lease);
                self.wait_for_table(place.lane, &mut asked).await?;
                continue;
            };
            if let Some(asked) = asked {
                let waited = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
                lease.slot_ref().waits_since(usage::monotonic().saturating_sub(waited));
            }
            let mut encoder = encoder.borrow_mut();
            encode(&mut encoder);
            // `now` is before the worker begins: its time would not be believed otherwise.
            match self.submit(&waiters.zygote, &lease, &mut encoder, body) {
                Ok(()) => {
                    waiters.wake_for_request();
                    let since = asked.unwrap_or(now);
                    let begun_by = since + self.pool.queue_timeout(place.lane);
                    let deadlines = Deadlines::new(begun_by, now, self.pool.limits());
                    waiters.register(lease.index(), deadlines, asker);
                    waiters.watch_slots();
                    return Ok(ScriptExchange::new(waiters, lease, since));
                }
                Err(SubmitError::TooLarge) => return Err(DispatchError::TooLarge),
                // The socket is full because nobody reads it, or the region is corrupt: the zygote
                // cannot be used any more.
                Err(SubmitError::Io(_) | SubmitError::Corrupt(_)) => waiters.zygote.condemn(),
            }
        }
    }

    /// Leases a slot of the present zygote. `None`: the request has to wait for one.
    #[inline]
    fn lease_at_once(&self, lane: usize, now: Instant) -> Option<Lease> {
        let here = self.present()?;
        here.zygote.heed_limits(now);
        here.zygote.try_lease(lane)
    }

    /// Waits a little where the waiter table of the present zygote could not be opened. `asked`:
    /// the begin of the whole wait, which is noted here if there was none yet.
    ///
    /// # Errors
    /// The whole wait was as long as the queue's time-out.
    async fn wait_for_table(
        &self,
        lane: usize,
        asked: &mut Option<Instant>,
    ) -> Result<(), DispatchError> {
        if self.lacks_table() {
            let since = *asked.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.pool.queue_timeout(lane) {
                return Err(DispatchError::QueueTimeout);
            }
            tokio::time::sleep(LACKING).await;
        }
        Ok(())
    }

    /// Appends the body to the request that `encoder` has begun, writes both to the slot and queues
    /// the slot. No worker is woken.
    #[inline]
    fn submit(
        &self,
        zygote: &Zygote,
        lease: &Lease,
        encoder: &mut RequestEncoder,
        body: RequestBody<'_>,
    ) -> Result<(), SubmitError> {
        let (request, file) = match body {
            RequestBody::Memory(bytes) => (encoder.finish_inline(bytes), None),
            RequestBody::File(file, length) => (encoder.finish_file(length), Some(file)),
        };
        zygote.front.enqueue(lease.slot_ref(), self.thread, request, file)
    }

    /// Wakes the exchanges whose slots have changed. The thread must call this each time before it
    /// sleeps, and [`PoolHandle::woke`] after.
    pub fn before_sleep(&self) {
        self.each_table(|waiters| {
            // A slot that has changed need not wake an exchange: then the thread sleeps
            // nevertheless, and must not do so without being heard.
            for _ in 0..LOOKS {
                if waiters.open.get() == 0 || waiters.zygote.front.try_sleep(self.thread) {
                    break;
                }
                waiters.drain();
            }
        });
    }

    /// Wakes the exchanges whose slots have changed, while the thread is awake.
    pub fn look(&self) {
        self.each_table(|waiters| {
            if waiters.open.get() > 0 {
                waiters.drain();
            }
        });
    }

    /// Wakes the exchanges whose slots changed while the thread slept.
    pub fn woke(&self) {
        self.each_table(|waiters| {
            if waiters.open.get() > 0 {
                waiters.zygote.front.woke(self.thread);
                waiters.drain();
            }
        });
    }

    /// Enforces time-outs, also those of slots whose exchange was dropped. To be called about twice
    /// a second.
    pub fn sweep(&self, now: Instant) {
        self.trim(now);
        if self.thread == 0 {
            self.pool.rescale(now);
            self.counters.add_processor(self.pool.take_processor());
            if self.pool.note_load() {
                self.counters.all.count(PoolCounter::Exhausted);
            }
        }
        self.each_table(|waiters| waiters.sweep(now));
        self.former.borrow_mut().retain(|waiters| waiters.open.get() > 0);
    }

    /// Gives back memory that the pool does not need any more. The first thread does that for all.
    fn trim(&self, now: Instant) {
        let due = self.trimmed.get().is_none_or(|last| now.duration_since(last) >= TRIM);
        if self.thread == 0
            && due
            && let Some(waiters) = self.waiters.borrow().as_ref()
        {
            self.trimmed.set(Some(now));
            waiters.zygote.trim();
        }
    }

    /// Whether no slot of this thread is with a worker.
    pub fn is_idle(&self) -> bool {
        let mut open = 0;
        self.each_table(|waiters| open += waiters.open.get());
        open == 0
    }

    fn each_table(&self, mut each: impl FnMut(&Rc<Waiters>)) {
        if let Some(waiters) = self.waiters.borrow().as_ref() {
            each(waiters);
        }
        for waiters in self.former.borrow().iter() {
            each(waiters);
        }
    }

    /// The waiter table of the present zygote; `None` while there is none that lives.
    fn present(&self) -> Option<Rc<Waiters>> {
        if self.pool.version() != self.version.get() {
            let (version, zygote) = self.pool.zygote();
            let (limits, counters) = (*self.pool.limits(), self.counters.clone());
            let answers = self.answers.get().cloned();
            let opened =
                zygote.map(|zygote| Waiters::open(zygote, self.thread, limits, counters, answers));
            // Without a descriptor for it, the table is opened at the next call.
            let Ok(waiters) = opened.transpose() else {
                return None;
            };
            self.version.set(version);
            let before = std::mem::replace(&mut *self.waiters.borrow_mut(), waiters);
            self.former.borrow_mut().extend(before.filter(|waiters| waiters.open.get() > 0));
        }
        self.waiters.borrow().clone().filter(|waiters| !waiters.zygote.is_dead())
    }

    /// Returns whether the table of the present zygote could not be opened.
    fn lacks_table(&self) -> bool {
        self.present().is_none() && self.pool.version() != self.version.get()
    }

    fn waiters_of(&self, zygote: &Arc<Zygote>) -> Option<Rc<Waiters>> {
        self.present().filter(|waiters| Arc::ptr_eq(&waiters.zygote, zygote))
    }
}

/// A request that waits for a slot. Dropping it gives its place in the queue to others: the client
/// is gone.
struct WaitingRequest<'h> {
    handle: &'h PoolHandle,
    place: QueuePlace,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.handle.count_taken(self.place);
        self.handle.counters.count(self.place.lane, PoolCounter::Abandoned);
        self.handle.pool.forget_abandoned();
    }
}

/// Looks at the slots before a thread sleeps. More are needed only where workers mark their slots
/// without end; such a pool is looked at when it is swept.
const LOOKS: usize = 8;
/// The time until a thread that could not open a table, for lack of descriptors, tries it again.
const LACKING: Duration = Duration::from_millis(20);

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub enum RequestBody<'b> {
    /// In memory; empty for none.
    Memory(&'b [u8]),
    /// In a file, from its start; with its length in bytes.
    File(BorrowedFd<'b>, u64),
}
