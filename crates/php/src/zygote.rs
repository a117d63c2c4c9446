//! A zygote with its workers, as the front sees them: shared memory, control socket, slots.

mod staff;

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use howdah_ipc::control::{Cleaning, FromZygote, ToZygote};
use howdah_ipc::figures::RequestFigures;
use howdah_ipc::front::{Front, Slot};
use howdah_ipc::worker_set::WorkerSet;
use howdah_ipc::{Corrupt, Geometry};
use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::{Notify, oneshot};

use crate::KILL_SIGNAL;
use crate::awake::AwakeLimit;
use crate::memory::{Footprint, MemorySum, MemoryWatch};
use crate::pool::PoolLimits;
use crate::roster::Roster;
use crate::scaling::Scaling;

/// One zygote of a pool. Dropped when its last exchange has ended.
#[derive(Debug)]
pub(crate) struct Zygote {
    pub(crate) front: Front,
    control: SeqPacket,
    /// The zygote died, or a worker wrote nonsense: nothing is dispatched here any more.
    dead: AtomicBool,
    /// For each slot: the wait status of the worker that died with it, plus one; 0 for none.
    lost: Vec<AtomicU32>,
    /// Length of the queue for a slot, to be read without the lock.
    waiting: AtomicUsize,
    /// Number of leased slots.
    out: AtomicUsize,
    /// How many requests may wait for a worker, with a slot or without.
    most_waiting: usize,
    /// One for each front thread: after a death the thread looks at all of its slots. Doorbells
    /// are not used for that, because the pool has them as well.
    alarms: Vec<Notify>,
    awake: AwakeLimit,
    scaling: Scaling,
    /// Number of workers at the start.
    pub(crate) first: usize,
    /// The memory that all pools share.
    memory: Arc<MemoryWatch>,
    /// Fewer workers are wanted than the pool may have.
    may_grow: AtomicBool,
    /// Requests that found no sleeping worker since the last look at the number of workers.
    lacking: AtomicUsize,
    /// The workers that are awake take nothing from the queue: others are needed, whatever the
    /// limit of those awake.
    is_stuck: AtomicBool,
    /// Time at which PHP had started there.
    ready: OnceLock<Instant>,
    /// Time at which the zygote got its region.
    attached: Instant,
    /// Told when a request found no sleeping worker.
    pub(crate) lacked: Notify,
    /// Told when the zygote dies.
    pub(crate) condemned: Notify,
    replaced: AtomicBool,
    /// Why the zygote was given up, if it was not for nonsense.
    reason: OnceLock<&'static str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests that wait for a slot, in order.
    waiting: VecDeque<oneshot::Sender<Lease>>,
    roster: Roster,
    /// The zygote does not know yet which workers are wanted.
    is_untold: bool,
    /// The memory that the workers need.
    footprint: Footprint,
    /// The sum of memory that the last look has made.
    memory: Option<MemorySum>,
    /// Looks in a row that found more workers than the memory has room for.
    excess: u32,
}

/// Time that the first workers of a zygote have to take a request. A `queue_timeout` that is shorter
/// would otherwise end one zygote after the other on a machine on which workers start slowly.
const SETTLING: Duration = Duration::from_secs(5);
const NONSENSE: &str = "its shared memory or its sockets were tampered with";

/// A slot of a zygote. On drop it goes to the request that has waited the longest.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) zygote: Arc<Zygote>,
    slot: Option<Slot>,
    /// The figures of the request, once its script has ended and it was counted.
    pub(crate) figures: Option<RequestFigures>,
    /// A value that the slot's worker uses; dropped with the lease.
    kept: Option<Box<dyn Any + Send>>,
}

impl Lease {
    pub(crate) fn slot(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("a lease holds its slot until it is dropped")
    }

    pub(crate) fn slot_ref(&self) -> &Slot {
        self.slot.as_ref().expect("a lease holds its slot until it is dropped")
    }

    pub(crate) fn index(&self) -> usize {
        self.slot_ref().index()
    }

    pub(crate) fn keep(&mut self, kept: Box<dyn Any + Send>) {
        self.kept = Some(kept);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.zygote.hand_back(slot);
        }
    }
}

/// The content of a zygote's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ZygoteEvent {
    /// PHP has started there.
    Ready {
        php_version: String,
        opcache: String,
    },
    Started,
    Died {
        pid: u64,
        status: u32,
        /// The worker was told to end.
        is_dismissed: bool,
    },
    /// The zygote is gone.
    Gone,
}

impl Zygote {
    /// Makes a region and sends it to the zygote at the other end of `control`, which forks the
    /// first workers.
    pub(crate) fn attach(
        control: SeqPacket,
        limits: &PoolLimits,
        threads: usize,
        memory: Arc<MemoryWatch>,
    ) -> io::Result<Arc<Zygote>> {
        let PoolLimits {
            workers, queue: most_waiting, scaling, ..
        } = *limits;
        let (front, attach) = Front::create(Geometry::for_pool(workers, threads))?;
        attach.send(&control)?;
        let most = front.geometry().workers;
        let first = scaling.first(most, memory.figures());
        control.send_now(&ToZygote::Keep(WorkerSet::first(first)).encode(), &[])?;
        let slots = front.geometry().slots;
        Ok(Arc::new(Zygote {
            front,
            control,
            dead: AtomicBool::new(false),
            lost: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            most_waiting,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                roster: Roster::new(most, first),
                is_untold: false,
                footprint: Footprint::default(),
                memory: None,
                excess: 0,
            }),
            alarms: (0..threads).map(|_| Notify::new()).collect(),
            awake: AwakeLimit::new(std::thread::available_parallelism().map_or(1, usize::from)),
            scaling,
            first,
            memory,
            may_grow: AtomicBool::new(!scaling.is_fixed() && first < most),
            lacking: AtomicUsize::new(0),
            is_stuck: AtomicBool::new(false),
            ready: OnceLock::new(),
            attached: Instant::now(),
            lacked: Notify::new(),
            condemned: Notify::new(),
            replaced: AtomicBool::new(false),
            reason: OnceLock::new(),
        }))
    }

    /// The control socket, for [`crate::control::Messages`].
    pub(crate) fn control(&self) -> &SeqPacket {
        &self.control
    }

    /// Told with every death of a worker or of the zygote, for one front thread. The thread then
    /// looks at all its slots.
    pub(crate) fn alarm(&self, thread: usize) -> &Notify {
        &self.alarms[thread]
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Gives the zygote up for a reason that the log tells.
    pub(crate) fn give_up(&self, reason: &'static str) {
        let _ = self.reason.set(reason); // The first reason counts.
        self.condemn();
    }

    /// Gives the zygote up because another one has taken its place, as after its death.
    pub(crate) fn replace(&self) {
        self.replaced.store(true, Ordering::Release);
        self.condemn();
    }

    /// Whether another zygote has taken its place.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Why the zygote was given up.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason.get().copied().unwrap_or(NONSENSE)
    }

    /// Gives the zygote up: waiting requests go on to wait for the next one, exchanges in flight
    /// fail, workers are killed.
    pub(crate) fn condemn(&self) {
        if self.dead.swap(true, Ordering::AcqRel) {
            return;
        }
        self.condemned.notify_one();
        let workers = {
            let mut state = self.state();
            state.waiting.clear();
            let own = std::mem::take(&mut state.footprint.own);
            self.memory.account(own, 0);
            self.waiting.store(0, Ordering::Relaxed);
            state.roster.processes()
        };
        for (worker, (pid, _)) in workers.into_iter().enumerate().filter(|(_, (pid, _))| *pid != 0)
        {
            self.kill(worker, pid, KILL_SIGNAL);
        }
        self.raise_alarm();
    }

    /// Leases a free slot. `None` if there is none, if others wait for one already, or if as many
    /// requests wait for a worker as may.
    pub(crate) fn try_lease(self: &Arc<Self>) -> Option<Lease> {
        if self.waiting.load(Ordering::Relaxed) > 0 || self.is_full(0) {
            None
        } else {
            self.checkout()
        }
    }

    /// Joins the queue for a slot; `None` if as many wait already as may. The receiver fails when
    /// the zygote dies.
    pub(crate) fn join_queue(self: &Arc<Self>) -> Option<oneshot::Receiver<Lease>> {
        let mut state = self.state();
        state.waiting.retain(|waiting| !waiting.is_closed());
        if self.is_full(state.waiting.len()) {
            self.waiting.store(state.waiting.len(), Ordering::Relaxed);
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if !self.is_dead() {
            state.waiting.push_back(sender);
            // Counted before the search for a free slot: either the search finds a slot that comes
            // back at this moment, or the thread that brings it back finds this request. The
            // front's own lock orders the two.
            self.waiting.store(state.waiting.len(), Ordering::Relaxed);
            self.serve(&mut state);
        }
        Some(receiver)
    }

    /// Whether as many wait for a worker as may: `waiting` for a slot, and those whose slots are
    /// more than there are workers.
    fn is_full(&self, waiting: usize) -> bool {
        let out = self.out.load(Ordering::Relaxed);
        match out.checked_sub(self.front.geometry().workers) {
            Some(behind) => behind + waiting >= self.most_waiting,
            None => waiting > 0 && waiting >= self.most_waiting,
        }
    }

    fn hand_back(self: &Arc<Self>, slot: Slot) {
        self.take_back(slot);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.serve(&mut self.state());
        }
    }

    /// Gives free slots to the requests that wait, in order.
    fn serve(self: &Arc<Self>, state: &mut State) {
        while let Some(first) = state.waiting.pop_front() {
            let Some(lease) = self.checkout() else {
                state.waiting.push_front(first);
                break;
            };
            if let Err(mut unwanted) = first.send(lease) {
                // Not by dropping it: that would come back here while we hold the lock.
                unwanted.slot.take().into_iter().for_each(|slot| self.take_back(slot));
            }
        }
        self.waiting.store(state.waiting.len(), Ordering::Relaxed);
    }

    fn checkout(self: &Arc<Self>) -> Option<Lease> {
        let slot = self.front.checkout()?;
        self.out.fetch_add(1, Ordering::Relaxed);
        self.lost[slot.index()].store(0, Ordering::Relaxed);
        Some(Lease {
            zygote: self.clone(),
            slot: Some(slot),
            figures: None,
            kept: None,
        })
    }

    fn take_back(&self, slot: Slot) {
        let cleaning = self.front.release(slot);
        self.out.fetch_sub(1, Ordering::Relaxed);
        cleaning.into_iter().for_each(|cleaning| self.clean(cleaning));
    }

    /// Gives back memory that the pool does not need any more.
    pub(crate) fn trim(&self) {
        self.front.trim().into_iter().for_each(|cleaning| self.clean(cleaning));
    }

    /// Has the zygote clean a slot, if the zygote reads its messages.
    fn clean(&self, cleaning: Cleaning) {
        if self.control.send_now(&ToZygote::Clean(cleaning).encode(), &[]).is_err() {
            // The memory stays in use. Workers discard the descriptors of earlier requests.
            self.front.cleaned(usize::try_from(cleaning.slot).unwrap_or(usize::MAX));
        }
    }

    /// Notes that a script took `took` nanoseconds, and which share of them it worked.
    pub(crate) fn note_service(&self, took: u32, share: Option<u32>) {
        if let Some(limit) = self.awake.note(took, share) {
            self.front.limit_awake(limit);
        }
    }

    /// Whether a new request is left to the workers that are awake, because more of them would only
    /// take turns on the processors.
    pub(crate) fn holds_back(&self) -> bool {
        self.awake.is_reached_by(self.front.awake_workers())
    }

    /// How long a request that was held back may wait while none is taken from the queue.
    pub(crate) fn patience(&self) -> Duration {
        self.awake.patience()
    }

    /// Whether PHP has started in the zygote.
    pub(crate) fn has_php(&self) -> bool {
        self.ready.get().is_some()
    }

    /// Whether the first workers have had the time to start, also on a busy machine. Before that, a
    /// worker that takes no request is not thought to be stopped.
    pub(crate) fn has_settled(&self) -> bool {
        self.ready.get().unwrap_or(&self.attached).elapsed() >= SETTLING
    }

    /// Number of requests that workers have, at most one each.
    pub(crate) fn running(&self) -> usize {
        self.out.load(Ordering::Relaxed).min(self.front.present())
    }

    /// Number of requests that wait for a worker, with a slot or without.
    pub(crate) fn waiting(&self) -> usize {
        let behind = self.out.load(Ordering::Relaxed).saturating_sub(self.front.present());
        behind + self.waiting.load(Ordering::Relaxed)
    }

    /// The wait status of the worker that died with this slot.
    pub(crate) fn lost(&self, slot: usize) -> Option<u32> {
        self.lost[slot].load(Ordering::Acquire).checked_sub(1)
    }

    /// By worker: the process, 0 where there is none, and the time at which it started.
    pub(crate) fn processes(&self) -> Vec<(u64, SystemTime)> {
        self.state().roster.processes()
    }

    /// The process of a worker, 0 if there is none.
    pub(crate) fn pid(&self, worker: usize) -> u64 {
        self.state().roster.pid(worker)
    }

    /// Has the zygote signal a worker, if it is still the process that is meant.
    pub(crate) fn kill(&self, worker: usize, pid: u64, signal: u64) {
        let message = ToZygote::Kill { worker: worker as u64, pid, signal };
        // A zygote that cannot be told is dying, and takes its workers along.
        let _ = self.control.send_now(&message.encode(), &[]);
    }

    /// Lets the workers end after their present request.
    pub(crate) fn stop(&self) {
        let _ = self.control.send_now(&ToZygote::Stop.encode(), &[]);
    }

    /// Acts on a message of the zygote. `None` as the message: the zygote is gone. Returns what the
    /// pool reports of it, if anything.
    pub(crate) fn hear(self: &Arc<Self>, message: Option<FromZygote>) -> Option<ZygoteEvent> {
        match message {
            None | Some(FromZygote::Failed { .. }) => {
                self.condemn();
                Some(ZygoteEvent::Gone)
            }
            Some(FromZygote::Ready { php_version, opcache }) => {
                let _ = self.ready.set(Instant::now()); // The first time counts.
                Some(ZygoteEvent::Ready { php_version, opcache })
            }
            Some(FromZygote::Started { worker, pid }) => {
                let mut state = self.state();
                state.roster.started(worker as usize, pid);
                self.front.set_present(state.roster.present());
                drop(state);
                Some(ZygoteEvent::Started)
            }
            Some(FromZygote::Died { worker, pid, status }) => {
                let was_wanted = self.record_death(worker as usize, pid, status as u32);
                Some(ZygoteEvent::Died {
                    pid,
                    status: status as u32,
                    is_dismissed: !was_wanted,
                })
            }
            Some(FromZygote::Cleaned { slot }) => {
                if self.front.cleaned(usize::try_from(slot).unwrap_or(usize::MAX)) {
                    self.serve(&mut self.state());
                }
                None
            }
        }
    }

    /// Returns whether the worker was wanted.
    fn record_death(&self, worker: usize, pid: u64, status: u32) -> bool {
        let was_wanted = {
            let mut state = self.state();
            let was_wanted = state.roster.died(worker, pid);
            self.front.set_present(state.roster.present());
            was_wanted
        };
        let Some(was_wanted) = was_wanted else {
            return true;
        };
        match self.front.worker_died(worker) {
            Ok(slots) => {
                for slot in slots {
                    self.lost[slot].store(status.saturating_add(1), Ordering::Release);
                }
                self.raise_alarm();
            }
            Err(Corrupt(_)) => self.condemn(),
        }
        if self.front.idle_workers() == 0 && self.front.queued().0 > 0 {
            self.lack_workers(self.front.queued().0);
        }
        was_wanted
    }

    fn raise_alarm(&self) {
        self.alarms.iter().for_each(Notify::notify_one);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
