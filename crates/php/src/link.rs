//! One zygote with its workers, as the front sees them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_ipc::control::{FromZygote, ToZygote};
use howdah_ipc::front::{Front, Slot};
use howdah_ipc::{Corrupt, Geometry};
use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::{Notify, oneshot};

use crate::KILL_SIGNAL;

/// A zygote, its region and its control socket. It lives until the last exchange over it has ended.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) front: Front,
    zygote: SeqPacket,
    /// Nothing comes through here any more: the zygote died, or a worker wrote nonsense.
    dead: AtomicBool,
    /// For each slot: the wait status of the worker that died with it, plus one; 0 for none.
    lost: Vec<AtomicU32>,
    /// Length of the queue for a slot, to be read without the lock.
    waiting: AtomicUsize,
    /// Slots that are out.
    out: AtomicUsize,
    /// How many requests may wait for a worker, with a slot or without.
    most_waiting: usize,
    /// Counts what all threads must look at: deaths.
    alarms: AtomicU32,
    /// Nanoseconds that scripts took lately, on average; `u32::MAX` while nothing is known.
    service: AtomicU32,
    /// As `service`, but without a bound.
    wall: AtomicU32,
    /// Per mille of a script's time, without waiting for a processor, that it is on one; likewise.
    share: AtomicU32,
    /// How many workers should be awake at most; 0 while nothing is known.
    limit: AtomicUsize,
    processors: usize,
    /// Told when the link dies.
    pub(crate) condemned: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that wait for a slot, in order.
    waiting: VecDeque<oneshot::Sender<Lease>>,
    /// Process ids by worker, 0 where there is none.
    workers: Vec<u64>,
}

/// A slot checked out of a link; goes back on drop, to who waits the longest.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) link: Arc<Link>,
    slot: Option<Slot>,
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
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.link.hand_back(slot);
        }
    }
}

/// Takes `value` into a running average over about sixteen, which is `u32::MAX` before the first.
fn average(word: &AtomicU32, value: u32) -> u32 {
    let average = match word.load(Ordering::Relaxed) {
        u32::MAX => value,
        average => average - average / 16 + value / 16,
    };
    // Of two threads at once one value may get lost, which an average survives.
    word.store(average, Ordering::Relaxed);
    average
}

/// Bounds of [`Link::patience`].
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
const MOST_PATIENCE: Duration = Duration::from_millis(100);
/// Nanoseconds up to which a script is short. One that asks a database is not.
const SHORT: u32 = 100_000;
/// So that one script that was interrupted, or slow for once, does not count as a hundred.
const LONGEST_NOTED: u32 = 1_000_000;

/// What a message of the zygote meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// PHP has started there.
    Ready {
        php_version: String,
        opcache: String,
    },
    Started,
    Died {
        pid: u64,
        status: u32,
    },
    /// The zygote is gone.
    Gone,
}

impl Link {
    /// Makes a region and sends it to the zygote at the other end of `zygote`, which forks
    /// `workers` workers.
    pub(crate) fn attach(
        zygote: SeqPacket,
        workers: usize,
        threads: usize,
        most_waiting: usize,
    ) -> io::Result<Arc<Link>> {
        let (front, attach) = Front::create(Geometry::for_pool(workers, threads))?;
        attach.send(&zygote)?;
        zygote.send(&ToZygote::Scale { count: workers as u64 }.encode(), &[])?;
        zygote.set_nonblocking(true)?;
        let slots = front.geometry().slots;
        Ok(Arc::new(Link {
            front,
            zygote,
            dead: AtomicBool::new(false),
            lost: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            most_waiting,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                workers: vec![0; workers],
            }),
            alarms: AtomicU32::new(0),
            service: AtomicU32::new(u32::MAX),
            wall: AtomicU32::new(u32::MAX),
            share: AtomicU32::new(u32::MAX),
            limit: AtomicUsize::new(0),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            condemned: Notify::new(),
        }))
    }

    /// The control socket, for the event loop to watch.
    pub(crate) fn zygote(&self) -> &SeqPacket {
        &self.zygote
    }

    /// Grows whenever a thread must look at all its exchanges of this link: a worker, or the link,
    /// died.
    pub(crate) fn alarms(&self) -> u32 {
        self.alarms.load(Ordering::Acquire)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Ends the link: who waits is sent away to wait for the next one, exchanges in flight fail,
    /// workers are killed.
    pub(crate) fn condemn(&self) {
        if self.dead.swap(true, Ordering::AcqRel) {
            return;
        }
        self.condemned.notify_one();
        let workers = {
            let mut state = self.state();
            state.waiting.clear();
            self.waiting.store(0, Ordering::Relaxed);
            state.workers.clone()
        };
        for (worker, pid) in workers.into_iter().enumerate().filter(|(_, pid)| *pid != 0) {
            self.kill(worker, pid, KILL_SIGNAL);
        }
        self.raise_alarm();
    }

    /// A free slot, unless others wait for one already, or as many wait for a worker as may.
    pub(crate) fn try_lease(self: &Arc<Self>) -> Option<Lease> {
        if self.waiting.load(Ordering::Relaxed) > 0 || self.is_full(0) {
            None
        } else {
            self.checkout()
        }
    }

    /// Joins the queue for a slot; `None` if as many wait already as may. The receiver fails when
    /// the link dies.
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
            // Counted before the look for a free slot: either we find the one that comes back just
            // now, or who brings it back finds us. The front's own lock orders the two.
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

    /// Gives free slots to those who wait.
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
        Some(Lease { link: self.clone(), slot: Some(slot) })
    }

    fn take_back(&self, slot: Slot) {
        self.front.release(slot);
        self.out.fetch_sub(1, Ordering::Relaxed);
    }

    /// A script took so many nanoseconds, and worked for that share of them, per mille, as far as
    /// it is known.
    pub(crate) fn note_service(&self, took: u32, share: Option<u32>) {
        let service = average(&self.service, took.min(LONGEST_NOTED));
        let wall = average(&self.wall, took);
        let share = share.map(|share| average(&self.share, share));
        let limit = if service < SHORT {
            self.processors.div_ceil(2)
        } else {
            match share {
                Some(share) if wall >= SHORT => {
                    (self.processors * 1500).div_ceil(share.max(1) as usize)
                }
                _ => return,
            }
        };
        self.limit.store(limit, Ordering::Relaxed);
        self.front.limit_awake(limit);
    }

    /// Whether a new request is better left to the workers that are awake, because more of them
    /// would only take turns on the processors.
    ///
    /// Scripts below 100 µs: half as many workers as processors are enough, since the front needs
    /// as much again, and they will be free before another could be woken. Longer ones: half as
    /// many again as would keep the processors busy with the share of their time that scripts work
    /// and do not wait, for a database for example.
    pub(crate) fn holds_back(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit > 0 && self.front.awake_workers() >= limit
    }

    /// How long a request that was held back may wait while none is taken from the queue.
    pub(crate) fn patience(&self) -> Duration {
        let wall = Duration::from_nanos(self.wall.load(Ordering::Relaxed).into());
        (2 * wall).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    /// Number of requests that wait for a worker, with a slot or without.
    pub(crate) fn waiting(&self) -> usize {
        let workers = self.front.geometry().workers;
        let behind = self.out.load(Ordering::Relaxed).saturating_sub(workers);
        behind + self.waiting.load(Ordering::Relaxed)
    }

    /// The wait status of the worker that died with this slot.
    pub(crate) fn lost(&self, slot: usize) -> Option<u32> {
        self.lost[slot].load(Ordering::Acquire).checked_sub(1)
    }

    /// Process ids by worker, 0 where there is none.
    pub(crate) fn workers(&self) -> Vec<u64> {
        self.state().workers.clone()
    }

    /// The process of a worker, 0 if there is none.
    pub(crate) fn pid(&self, worker: usize) -> u64 {
        self.state().workers.get(worker).copied().unwrap_or(0)
    }

    /// Has the zygote signal a worker, if it is still the process that is meant.
    pub(crate) fn kill(&self, worker: usize, pid: u64, signal: u64) {
        let message = ToZygote::Kill { worker: worker as u64, pid, signal };
        // A zygote that cannot be told is dying, and takes its workers along.
        let _ = self.zygote.send(&message.encode(), &[]);
    }

    /// Lets the workers end after their present request.
    pub(crate) fn stop(&self) {
        let _ = self.zygote.send(&ToZygote::Stop.encode(), &[]);
    }

    /// Takes one message of the zygote and acts on it. `WouldBlock` if there is none.
    pub(crate) fn hear(&self) -> io::Result<Report> {
        let mut room = [0; 4096];
        let received = match self.zygote.receive(&mut room) {
            Ok(received) if received.length > 0 => received,
            Ok(_) => return Ok(self.gone()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => return Ok(self.gone()),
        };
        match FromZygote::decode(&room[..received.length])? {
            FromZygote::Ready { php_version, opcache } => {
                Ok(Report::Ready { php_version, opcache })
            }
            FromZygote::Failed { .. } => Ok(self.gone()),
            FromZygote::Started { worker, pid } => {
                if let Some(known) = self.state().workers.get_mut(worker as usize) {
                    *known = pid;
                }
                Ok(Report::Started)
            }
            FromZygote::Died { worker, pid, status } => {
                self.bury(worker as usize, pid, status as u32);
                Ok(Report::Died { pid, status: status as u32 })
            }
        }
    }

    fn bury(&self, worker: usize, pid: u64, status: u32) {
        match self.state().workers.get_mut(worker) {
            Some(known) if *known == pid => *known = 0,
            Some(_) => {}
            None => return,
        }
        match self.front.worker_died(worker) {
            Ok(slots) if slots.is_empty() => {}
            Ok(slots) => {
                for slot in slots {
                    self.lost[slot].store(status.saturating_add(1), Ordering::Release);
                }
                self.raise_alarm();
            }
            Err(Corrupt(_)) => self.condemn(),
        }
    }

    fn gone(&self) -> Report {
        self.condemn();
        Report::Gone
    }

    fn raise_alarm(&self) {
        self.alarms.fetch_add(1, Ordering::AcqRel);
        for thread in 0..self.front.geometry().threads {
            self.front.ring(thread);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
