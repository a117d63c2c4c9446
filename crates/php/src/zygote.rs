//! A zygote with its workers, as the front sees them: shared memory, control socket, slots.

mod cut_off;
mod figures;
mod leases;
mod lost;
mod staff;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use howdah_ipc::control::{FromZygote, OpcacheWarmup, SlotCleaning, ToZygote};
use howdah_ipc::front::FrontRegion;
use howdah_ipc::worker_set::WorkerSet;
use howdah_ipc::{Corrupt, Geometry};
use howdah_sys::process::Exit;
use tokio::sync::{Notify, oneshot};

use crate::KILL_SIGNAL;
use crate::awake::AwakeLimit;
use crate::control::FrontSocket;
use crate::lanes::{LaneFigures, LaneLimits};
use crate::memory::{MemoryRecord, MemoryWatch};
use crate::pool::{DispatchError, PoolLimits};
use crate::roster::WorkerRoster;
use crate::scaling::Scaling;

use cut_off::CutOff;
pub(crate) use leases::Lease;
pub use lost::LostWorker;
use state::ZygoteState;

/// One zygote of a pool. Dropped when its last exchange has ended.
#[derive(Debug)]
pub(crate) struct Zygote {
    pub(crate) front: FrontRegion,
    control: FrontSocket,
    /// The zygote died, or a worker wrote nonsense: nothing is dispatched here any more.
    dead: AtomicBool,
    /// For each slot: the worker that died with it, as [`LostWorker::pack`] makes it; 0 for none.
    lost: Vec<AtomicU64>,
    /// Length of the queue for a slot, to be read without the lock.
    waiting: AtomicUsize,
    /// Number of leased slots.
    out: AtomicUsize,
    /// Number of workers that are wanted, to be read without the lock.
    wanted: AtomicUsize,
    /// The highest number of requests that workers have had.
    most_running: AtomicUsize,
    /// Number of requests whose scripts have ended, as the front has seen it.
    answered: AtomicUsize,
    /// The number of requests that may wait for a worker, with a slot or without.
    most_waiting: usize,
    /// The number of these that may wait with a slot. The others wait in lanes, where a full queue
    /// still has a place for another client.
    most_behind: usize,
    /// The pool has lanes of its own: each request asks whether its lane has room.
    has_lanes: bool,
    /// One for each front thread: after a death the thread looks at all of its slots. Doorbells
    /// are not used for that, because the pool has them as well.
    alarms: Vec<Notify>,
    awake: AwakeLimit,
    scaling: Scaling,
    /// Workers that sleep end at once, whatever `scaling` says.
    drains: AtomicBool,
    cut_off: CutOff,
    /// Number of workers at the start.
    pub(crate) first: usize,
    /// The memory that all pools share.
    memory: Arc<MemoryWatch>,
    /// The place for what is measured of the workers' memory; unset where nobody keeps it.
    record: OnceLock<MemoryRecord>,
    /// The number of PHP's settings, once the zygote has told it.
    settings: OnceLock<u64>,
    /// The number of cuts of the limits of memory that the workers have followed.
    cuts: AtomicU64,
    /// Fewer workers are wanted than the pool may have.
    may_grow: AtomicBool,
    /// Requests that found no sleeping worker since the last look at the number of workers.
    lacking: AtomicUsize,
    /// Awake workers take nothing from the queue: others are needed, whatever the limit is.
    is_stuck: AtomicBool,
    /// Time at which PHP had started there.
    ready: OnceLock<Instant>,
    /// Time at which the zygote got its region.
    attached: Instant,
    /// Notified when a request found no sleeping worker.
    pub(crate) lacked: Notify,
    /// Notified when the zygote dies.
    pub(crate) condemned: Notify,
    replaced: AtomicBool,
    /// The zygote was told to end.
    stopped: AtomicBool,
    /// The reason why the zygote was given up, if it was not for nonsense.
    reason: OnceLock<&'static str>,
    state: Mutex<ZygoteState>,
}

/// Time that workers have to take a request, from the last start or death of one. A shorter
/// `queue_timeout` would otherwise end one zygote after the other where workers start slowly.
const SETTLING: Duration = Duration::from_secs(5);
/// Time for a zygote without workers to start one. It waits for up to 10 s where workers die early.
const SUCCESSION: Duration = Duration::from_secs(20);

/// A request that waits for a slot. It gets the slot, or the reason why it is refused.
type LeaseSender = oneshot::Sender<Result<Lease, DispatchError>>;

const CLEANS_NOTHING: &str = "the zygote returns no slot that it was told to clean; it may be \
                              stopped";
const NONSENSE: &str = "its shared memory or its sockets were tampered with";

/// The content of a zygote's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ZygoteEvent {
    /// PHP has started there.
    Ready {
        php_version: String,
        opcache: String,
        warmup: Option<OpcacheWarmup>,
    },
    Started,
    Died {
        pid: u64,
        status: u32,
        /// The kernel has probably ended it, because memory ran out.
        is_out_of_memory: bool,
        /// The time that it was on a processor, as its zygote says.
        processor: Duration,
        /// The worker was told to end.
        is_dismissed: bool,
    },
    /// The zygote is gone.
    Gone,
}

impl Zygote {
    /// Makes a region and sends it to the zygote at the other end of `control`, which forks the
    /// first workers.
    ///
    /// # Errors
    /// The region cannot be made, or the zygote is gone.
    pub(crate) fn attach(
        control: FrontSocket,
        (limits, lanes): (&PoolLimits, &[LaneLimits]),
        threads: usize,
        memory: Arc<MemoryWatch>,
    ) -> io::Result<Arc<Zygote>> {
        let PoolLimits {
            workers, queue: most_waiting, scaling, ..
        } = *limits;
        let (front, attach) = FrontRegion::create(Geometry::for_pool(workers, threads))?;
        attach.send(&control)?;
        let most = front.geometry().workers;
        let first = scaling.first(most, memory.figures());
        control.send_now(&ToZygote::Keep(WorkerSet::first(first)).encode(), &[])?;
        let slots = front.geometry().slots;
        Ok(Arc::new(Zygote {
            front,
            control,
            dead: AtomicBool::new(false),
            lost: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            wanted: AtomicUsize::new(first),
            most_running: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            most_waiting,
            most_behind: most_waiting.div_ceil(2),
            has_lanes: !lanes.is_empty(),
            state: Mutex::new(ZygoteState::new(lanes, WorkerRoster::new(most, first))),
            alarms: (0..threads).map(|_| Notify::new()).collect(),
            awake: AwakeLimit::new(std::thread::available_parallelism().map_or(1, usize::from)),
            scaling,
            drains: AtomicBool::new(false),
            cut_off: CutOff::default(),
            first,
            cuts: AtomicU64::new(memory.cuts(Instant::now())),
            memory,
            record: OnceLock::new(),
            settings: OnceLock::new(),
            may_grow: AtomicBool::new(!scaling.is_fixed() && first < most),
            lacking: AtomicUsize::new(0),
            is_stuck: AtomicBool::new(false),
            ready: OnceLock::new(),
            attached: Instant::now(),
            lacked: Notify::new(),
            condemned: Notify::new(),
            replaced: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            reason: OnceLock::new(),
        }))
    }

    /// The control socket, for [`crate::control::ZygoteMessages`].
    pub(crate) fn control(&self) -> &FrontSocket {
        &self.control
    }

    /// Returns the notice of deaths for one front thread, which then looks at all its slots.
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

    /// The reason why the zygote was given up.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason.get().copied().unwrap_or(NONSENSE)
    }

    /// Gives the zygote up: waiting requests wait for the next one, exchanges fail, workers are
    /// killed.
    pub(crate) fn condemn(&self) {
        if self.dead.swap(true, Ordering::AcqRel) {
            return;
        }
        self.condemned.notify_one();
        let workers = {
            let mut state = self.state();
            state.lanes.clear();
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

    /// Gives back memory that the pool does not need any more.
    pub(crate) fn trim(&self) {
        self.front.trim().into_iter().for_each(|cleaning| self.clean(cleaning));
    }

    /// Asks the zygote to clean a slot, if the zygote reads its messages.
    fn clean(&self, cleaning: SlotCleaning) {
        if self.control.send_now(&ToZygote::Clean(cleaning).encode(), &[]).is_err() {
            // The memory stays in use. Workers discard the descriptors of earlier requests.
            self.front.cleaned(usize::try_from(cleaning.slot).unwrap_or(usize::MAX));
        }
    }

    /// The use of each lane; empty for a pool without lanes of its own.
    pub(crate) fn lane_figures(&self) -> Vec<LaneFigures> {
        match self.has_lanes {
            true => self.state().lanes.figures(),
            false => Vec::new(),
        }
    }

    /// Whether PHP has started in the zygote.
    pub(crate) fn has_php(&self) -> bool {
        self.ready.get().is_some()
    }

    /// Whether the workers have had the time to start, also on a busy machine: the first ones, and
    /// the successors of those that have died. Before that, a worker that takes no request is not
    /// thought to be stopped.
    pub(crate) fn has_settled(&self) -> bool {
        let state = self.state();
        let ready = *self.ready.get().unwrap_or(&self.attached);
        let patience = if state.roster.present() > 0 {
            SETTLING
        } else {
            SUCCESSION
        };
        state.staffed.max(ready).elapsed() >= patience
    }

    /// Counts a request whose script has ended.
    pub(crate) fn count_answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of requests whose scripts have ended.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Gives the zygote up if it has all slots and returns none, for a request that has waited for
    /// a slot as long as it may. No request has a slot then whose time limit would show it.
    pub(crate) fn give_up_without_slots(&self) {
        let is_without = self.out.load(Ordering::SeqCst) == 0 && !self.front.has_free_slots();
        if is_without && self.has_settled() {
            self.give_up(CLEANS_NOTHING);
        }
    }

    /// Number of requests that workers have, at most one each.
    pub(crate) fn running(&self) -> usize {
        self.out.load(Ordering::Relaxed).min(self.front.present())
    }

    /// Notes the requests that workers have now for [`Zygote::most_running`].
    pub(crate) fn note_running(&self) {
        let running = self.running();
        // Mostly it is no more than before, and then nothing is written.
        if running > self.most_running.load(Ordering::Relaxed) {
            self.most_running.fetch_max(running, Ordering::Relaxed);
        }
    }

    /// The highest number of requests that workers have had.
    pub(crate) fn most_running(&self) -> usize {
        self.most_running.load(Ordering::Relaxed)
    }

    /// Number of requests that wait for a worker, with a slot or without.
    pub(crate) fn waiting(&self) -> usize {
        let behind = self.out.load(Ordering::Relaxed).saturating_sub(self.front.present());
        behind + self.waiting.load(Ordering::Relaxed)
    }

    /// The worker that died with this slot. `None` if none did.
    pub(crate) fn lost(&self, slot: usize) -> Option<LostWorker> {
        LostWorker::unpack(self.lost[slot].load(Ordering::Acquire))
    }

    /// By worker: the process, 0 where there is none, and the time at which it started.
    pub(crate) fn processes(&self) -> Vec<(u64, SystemTime)> {
        self.state().roster.processes()
    }

    /// Number of workers whose death the zygote has not told.
    pub(crate) fn living(&self) -> usize {
        self.state().roster.living().count()
    }

    /// The process of a worker, 0 if there is none.
    pub(crate) fn pid(&self, worker: usize) -> u64 {
        self.state().roster.pid(worker)
    }

    /// Asks the zygote to signal a worker, if it is still the process that is meant.
    pub(crate) fn kill(&self, worker: usize, pid: u64, signal: u64) {
        let message = ToZygote::Kill { worker: worker as u64, pid, signal };
        // A zygote that cannot be told is dying, and takes its workers along.
        let _ = self.control.send_now(&message.encode(), &[]);
    }

    /// Lets the workers end after their present request, and then the zygote.
    pub(crate) fn stop(&self) {
        if !self.stopped.swap(true, Ordering::Relaxed) {
            let _ = self.control.send_now(&ToZygote::Stop.encode(), &[]);
        }
    }

    /// Whether no request runs or waits.
    pub(crate) fn is_unused(&self) -> bool {
        self.out.load(Ordering::Relaxed) == 0 && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Acts on a message of the zygote. `None` as the message: the zygote is gone. Returns what the
    /// pool reports of it, if anything.
    pub(crate) fn hear(self: &Arc<Self>, message: Option<FromZygote>) -> Option<ZygoteEvent> {
        match message {
            None | Some(FromZygote::Failed { .. }) => {
                self.condemn();
                Some(ZygoteEvent::Gone)
            }
            Some(FromZygote::Ready { php_version, opcache, settings, warmup }) => {
                self.note_settings(settings);
                let _ = self.ready.set(Instant::now()); // The first time counts.
                Some(ZygoteEvent::Ready { php_version, opcache, warmup })
            }
            Some(FromZygote::Started { worker, pid }) => {
                let mut state = self.state();
                state.roster.started(worker as usize, pid);
                state.staffed = Instant::now();
                self.front.set_present(state.roster.present());
                drop(state);
                self.serve_waiting();
                Some(ZygoteEvent::Started)
            }
            Some(FromZygote::Died { worker, pid, status, processor }) => {
                self.note_end(worker as usize, pid, processor);
                let lost = LostWorker { pid, status: status as u32 };
                let exit = Exit::from_wait(lost.status.cast_signed());
                let is_killed = exit == Exit::Signal(KILL_SIGNAL as i32);
                let is_out_of_memory = is_killed && self.memory.has_run_out();
                if is_out_of_memory {
                    self.note_out_of_memory();
                }
                let was_wanted = self.record_death(worker as usize, lost);
                Some(ZygoteEvent::Died {
                    pid,
                    status: lost.status,
                    is_out_of_memory,
                    processor: Duration::from_nanos(processor),
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
    fn record_death(&self, worker: usize, lost: LostWorker) -> bool {
        let was_wanted = {
            let mut state = self.state();
            let was_wanted = state.roster.died(worker, lost.pid);
            state.staffed = Instant::now();
            self.front.set_present(state.roster.present());
            self.look_at_memory(&mut state, false);
            was_wanted
        };
        let Some(was_wanted) = was_wanted else {
            return true;
        };
        match self.front.worker_died(worker) {
            Ok(slots) => {
                for slot in slots {
                    self.lost[slot].store(lost.pack(), Ordering::Release);
                }
                self.raise_alarm();
            }
            Err(Corrupt(_)) => self.condemn(),
        }
        if self.front.idle_workers() == 0 && self.front.queued().0 > 0 {
            self.lack_workers(self.front.queued().0);
        }
        if !was_wanted {
            // Its memory is there for others.
            self.wake_for_queue();
        }
        was_wanted
    }

    fn raise_alarm(&self) {
        self.alarms.iter().for_each(Notify::notify_one);
    }

    fn state(&self) -> MutexGuard<'_, ZygoteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
