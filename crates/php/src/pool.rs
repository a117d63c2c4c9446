//! The pool of a site, for as long as the front runs.

mod figures;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::Notify;

pub use self::figures::{LivingWorker, PoolFigures, ZygoteFacts};
use crate::control::{FrontSocket, ZygoteMessages};
use crate::lanes::{LaneLimits, QueuePlace};
use crate::memory::{MemoryRecord, MemoryWatch};
use crate::scaling::Scaling;
use crate::stranded::StrandedRequests;
use crate::zygote::{Lease, Zygote, ZygoteEvent};

/// A site's PHP processes. All threads of the front share it.
#[derive(Debug)]
pub struct Pool {
    name: String,
    limits: PoolLimits,
    /// The pool's lanes; empty if it has none of its own.
    lanes: Vec<LaneLimits>,
    threads: usize,
    memory: Arc<MemoryWatch>,
    zygote: Mutex<Option<Arc<Zygote>>>,
    /// Number of zygotes so far. A thread compares it to see that there is a new one.
    version: AtomicU64,
    /// The highest numbers of running requests and of waiting ones that were seen.
    most_active: AtomicUsize,
    most_waiting: AtomicUsize,
    /// The present zygote, for display.
    facts: Mutex<ZygoteFacts>,
    renewed: Notify,
    /// The time since which PHP does not start in the pool's zygotes, also one to come.
    failing: Mutex<Option<Instant>>,
    /// The requests that wait for `renewed`.
    stranded: StrandedRequests,
    /// Nanoseconds on a processor of workers of former zygotes, to be counted.
    processor: AtomicU64,
    /// The front drains: workers that sleep end at once.
    drains: AtomicBool,
    /// Requests are refused, because the front ends.
    is_cut_off: AtomicBool,
    /// The place for what is measured of the workers' memory; unset where nobody keeps it.
    record: OnceLock<MemoryRecord>,
}

/// The limits of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Workers at most.
    pub workers: usize,
    /// The way the number of workers follows the load.
    pub scaling: Scaling,
    /// Requests that may wait for a worker. Further ones are refused.
    pub queue: usize,
    /// The time that a request waits for a worker before it is refused.
    pub queue_timeout: Duration,
    /// The time that a script may run without a sign of life, in wall-clock time, even if the
    /// client has gone. Output is a sign of life, and so are `flush()` and `set_time_limit()`.
    pub request_timeout: Duration,
    /// The time that a script may run, whatever its signs of life.
    pub request_terminate_timeout: Duration,
    /// The time that a script runs that is counted as slow.
    pub slow_after: Option<Duration>,
    /// Workers measure the processor time of each request.
    pub meters_processor: bool,
}

/// The reason why a request was not handed over. The answer is 503 unless a variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchError {
    /// [`PoolLimits::queue`] requests wait already.
    QueueFull,
    /// The lane of the request is full.
    LaneFull,
    /// The request waited for [`PoolLimits::queue_timeout`].
    QueueTimeout,
    /// The pool does not start.
    DoesNotStart,
    /// The time for requests is over, because the front ends.
    CutOff,
    /// The request, without its body, is larger than a slot's request area. The answer is 431.
    TooLarge,
}

impl Pool {
    /// Makes a pool without a zygote, for a front of `threads` threads. All pools share `memory`.
    /// The first of `lanes` is for the requests of no other; without any, all requests are equal.
    pub fn new(
        name: String,
        (limits, lanes): (PoolLimits, Vec<LaneLimits>),
        threads: usize,
        memory: Arc<MemoryWatch>,
    ) -> Arc<Pool> {
        let stranded = StrandedRequests::new(limits.queue, &lanes);
        Arc::new(Pool {
            name,
            limits,
            lanes,
            threads,
            memory,
            zygote: Mutex::new(None),
            version: AtomicU64::new(0),
            most_active: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
            facts: Mutex::default(),
            renewed: Notify::new(),
            failing: Mutex::new(None),
            stranded,
            processor: AtomicU64::new(0),
            drains: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            record: OnceLock::new(),
        })
    }

    /// Lets the pool begin with what is in `record`, and write there what it measures of the memory
    /// of its workers. Call it before the first zygote.
    pub fn remember(&self, record: MemoryRecord) {
        let _ = self.record.set(record);
    }

    /// The pool's name, as in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits of the pool.
    pub fn limits(&self) -> &PoolLimits {
        &self.limits
    }

    /// The lanes of the pool, the one for all other requests first; empty if it has none.
    pub fn lanes(&self) -> &[LaneLimits] {
        &self.lanes
    }

    /// The time that a request of a lane waits for a worker before it is refused.
    pub(crate) fn queue_timeout(&self, lane: usize) -> Duration {
        self.lanes
            .get(lane)
            .map_or(self.limits.queue_timeout, |lane| lane.queue_timeout)
    }

    /// Attaches to the zygote at the other end of `control`, and passes its events to `report`
    /// until it has ended, or another one has taken its place. The supervisor then brings another
    /// zygote. Returns the number of workers that have ended with the zygote.
    ///
    /// # Errors
    /// The pool was given up: the zygote cannot be reached, or a worker wrote nonsense.
    pub async fn follow(
        &self,
        control: SeqPacket,
        mut report: impl FnMut(PoolEvent),
    ) -> (usize, io::Result<()>) {
        let (zygote, mut messages) = match self.attach(control) {
            Ok(attached) => attached,
            Err(error) => return (0, Err(error)),
        };
        let mut has_started = false;
        let noting = |event| {
            if let PoolEvent::Ready { .. } | PoolEvent::WorkerStarted = event {
                has_started = true;
                *self.failing() = None;
            }
            report(event);
        };
        let ended = self.attend(&zygote, &mut messages, noting).await;
        self.processor.fetch_add(zygote.take_processor(), Ordering::Relaxed);
        if !has_started && !zygote.is_replaced() {
            self.note_failed_start();
        }
        (zygote.living(), ended)
    }

    /// Notes that PHP did not start in a zygote of the pool.
    pub fn note_failed_start(&self) {
        self.expect_start(Duration::ZERO);
    }

    /// Notes that PHP has not started in the pool, and that requests wait for that for `grace`.
    pub fn expect_start(&self, grace: Duration) {
        self.failing().get_or_insert_with(|| Instant::now() + grace);
    }

    /// Lets the zygote at the other end of `control` take the place of the former one.
    fn attach(&self, control: SeqPacket) -> io::Result<(Arc<Zygote>, ZygoteMessages)> {
        let limits = (&self.limits, &self.lanes[..]);
        let (control, end) = FrontSocket::of(control);
        let zygote = Zygote::attach(control, limits, self.threads, self.memory.clone())?;
        self.record.get().into_iter().for_each(|record| zygote.remember(record));
        // Before the zygote is taken: where this fails, nobody would listen to it.
        let messages = ZygoteMessages::of(zygote.control(), end)?;
        let previous = {
            let mut present = self.lock();
            // Under the lock, so that a version always means the same zygote.
            self.version.fetch_add(1, Ordering::Release);
            present.replace(zygote.clone())
        };
        self.facts().started = Some(SystemTime::now());
        zygote.front.meter_processor(self.limits.meters_processor);
        if let Some(previous) = previous {
            self.most_active.fetch_max(previous.most_running(), Ordering::Relaxed);
            previous.replace();
        }
        Ok((zygote, messages))
    }

    /// Passes the events of a zygote to `report` until it has ended.
    async fn attend(
        &self,
        zygote: &Arc<Zygote>,
        messages: &mut ZygoteMessages,
        mut report: impl FnMut(PoolEvent),
    ) -> io::Result<()> {
        let mut started = 0;
        loop {
            let message = tokio::select! {
                message = messages.next() => message.inspect_err(|_| zygote.condemn())?,
                () = zygote.condemned.notified() => {
                    // Where another has taken its place, its end is only not read yet.
                    let broken = || io::Error::other(zygote.reason());
                    return if zygote.is_replaced() { Ok(()) } else { Err(broken()) };
                }
                () = zygote.lacked.notified() => {
                    zygote.rescale(None);
                    continue;
                }
            };
            match zygote.hear(message) {
                Some(ZygoteEvent::Ready { php_version, opcache, warmup }) => {
                    self.facts().warmup = warmup;
                    self.facts().php_version.clone_from(&php_version);
                    self.facts().opcache.clone_from(&opcache);
                    report(PoolEvent::Ready { php_version, opcache });
                    if zygote.first == 0 {
                        report(PoolEvent::Complete);
                        self.renewed.notify_waiters();
                    }
                }
                Some(ZygoteEvent::Started) => {
                    zygote.note_running();
                    report(PoolEvent::WorkerStarted);
                    started += 1;
                    if started == zygote.first {
                        report(PoolEvent::Complete);
                    }
                    // The first worker is enough for requests that waited for the pool.
                    self.renewed.notify_waiters();
                }
                Some(ZygoteEvent::Died { status: 0, is_dismissed: true, .. }) => {
                    report(PoolEvent::WorkerDismissed);
                }
                Some(ZygoteEvent::Died {
                    pid, status, is_out_of_memory, processor, ..
                }) => {
                    report(PoolEvent::WorkerDied { pid, status, is_out_of_memory, processor });
                }
                Some(ZygoteEvent::Gone) => return Ok(()),
                None => {}
            }
        }
    }

    /// Ends the zygote and its workers if no request runs or waits. Call it when no request comes
    /// any more.
    pub fn stop_if_unused(&self) {
        let zygote = self.lock().clone().filter(|zygote| !zygote.is_dead());
        zygote
            .filter(|zygote| zygote.is_unused())
            .iter()
            .for_each(|zygote| zygote.stop());
    }

    /// Number of workers that live; 0 while there is no zygote that can be used.
    pub fn worker_count(&self) -> usize {
        let zygote = self.lock().clone().filter(|zygote| !zygote.is_dead());
        zygote.map_or(0, |zygote| zygote.processes().iter().filter(|(pid, _)| *pid != 0).count())
    }

    /// Whether requests find a worker, or one is started for them.
    pub fn is_ready(&self) -> bool {
        let zygote = self.lock().clone().filter(|zygote| !zygote.is_dead());
        zygote.is_some_and(|zygote| {
            let has_worker = zygote.processes().iter().any(|(pid, _)| *pid != 0);
            has_worker || zygote.first == 0 && zygote.has_php()
        })
    }

    /// Ends the workers that sleep, and from now on each one that has nothing to do: the pool gets
    /// no further requests, but for those that connections of before still bring. They get workers
    /// of their own.
    pub fn drain(&self) {
        self.drains.store(true, Ordering::Relaxed);
        self.rescale(Instant::now());
    }

    /// Ends the requests that no worker has begun, and refuses all that still come.
    pub fn cut_off_waiting(&self) {
        // First, for requests that look for the next zygote.
        self.is_cut_off.store(true, Ordering::SeqCst);
        let zygote = self.lock().clone();
        zygote.iter().for_each(|zygote| zygote.cut_off_waiting());
        self.renewed.notify_waiters();
    }

    /// Ends the scripts that run, and their requests. Call it a moment after
    /// [`Pool::cut_off_waiting`]: a worker that becomes free would begin the next request.
    pub fn cut_off_running(&self) {
        let zygote = self.lock().clone();
        zygote.iter().for_each(|zygote| zygote.cut_off_running());
    }

    /// Whether requests are refused, because the front ends.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::SeqCst)
    }

    /// Starts and ends workers as the load needs it. To be called about once a second.
    pub(crate) fn rescale(&self, now: Instant) {
        let drains = self.drains.load(Ordering::Relaxed);
        if self.limits.scaling.is_fixed() && !drains {
            return;
        }
        let Some(zygote) = self.lock().clone() else {
            return;
        };
        if drains {
            zygote.drain();
        }
        zygote.rescale(Some(now));
    }

    /// Workers that sleep, and requests that wait for a worker.
    pub fn load(&self) -> (usize, usize) {
        self.lock()
            .as_ref()
            .map_or((0, 0), |zygote| (zygote.front.idle_workers(), zygote.waiting()))
    }

    /// Returns the nanoseconds that workers were on a processor and that were not returned before.
    pub(crate) fn take_processor(&self) -> u64 {
        let of_former = self.processor.swap(0, Ordering::Relaxed);
        let zygote = self.lock().clone().filter(|zygote| !zygote.is_dead());
        of_former.saturating_add(zygote.map_or(0, |zygote| zygote.take_processor()))
    }

    /// Notes the load of this moment for the highest figures. Returns whether every worker is busy
    /// and requests wait.
    pub(crate) fn note_load(&self) -> bool {
        let Some(zygote) = self.lock().clone() else {
            return false;
        };
        let (active, waiting) = (zygote.running(), zygote.waiting());
        self.most_active.fetch_max(zygote.most_running().max(active), Ordering::Relaxed);
        self.most_waiting.fetch_max(waiting, Ordering::Relaxed);
        let room = zygote.memory_sum().map_or(usize::MAX, |sum| sum.room);
        waiting > 0 && active >= self.limits.workers.min(room)
    }

    /// The number of the present zygote, and the zygote if it lives.
    pub(crate) fn zygote(&self) -> (u64, Option<Arc<Zygote>>) {
        let zygote = self.lock();
        (self.version.load(Ordering::Acquire), zygote.clone().filter(|zygote| !zygote.is_dead()))
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Waits until a slot is free, also across the death of a zygote. The request has waited since
    /// `since`. It is refused if as many wait as may, for a zygote or for a worker of one.
    ///
    /// # Errors
    /// The request is not begun: as many wait as may, `queue_timeout` is over, PHP does not start,
    /// or the pool is cut off.
    pub(crate) async fn wait_for_lease(
        &self,
        mut place: QueuePlace,
        since: Instant,
    ) -> Result<Lease, DispatchError> {
        let begun_by = since + self.queue_timeout(place.lane);
        let wait = async {
            loop {
                let renewed = self.renewed.notified();
                if self.is_cut_off() {
                    return Err(DispatchError::CutOff);
                }
                let (_, zygote) = self.zygote();
                let Some(zygote) = zygote else {
                    let Ok(displaced) = self.stranded.join(place) else {
                        return Err(DispatchError::QueueFull);
                    };
                    tokio::select! {
                        () = renewed => {}
                        _ = displaced => return Err(DispatchError::QueueFull),
                        () = self.is_given_up(since) => return Err(DispatchError::DoesNotStart),
                    }
                    place.since.get_or_insert(since);
                    continue;
                };
                let answer = zygote.join_queue(place)?;
                if let Ok(answer) = answer.await {
                    return answer;
                }
                // It had a place, and keeps it with the next zygote.
                place.since.get_or_insert(since);
            }
        };
        let waited = tokio::time::timeout_at(begun_by.into(), wait).await;
        waited.unwrap_or_else(|_| {
            let (_, zygote) = self.zygote();
            if let Some(zygote) = zygote {
                zygote.forget_abandoned();
                zygote.give_up_without_slots();
            }
            Err(DispatchError::QueueTimeout)
        })
    }

    /// Waits until a request that has waited since then need not wait for a zygote any longer: PHP
    /// has not started for a while, and a zygote that is only replaced would be there by now.
    async fn is_given_up(&self, since: Instant) {
        tokio::time::sleep_until((since + REPLACING).into()).await;
        while self.failing().is_none_or(|failing| failing.elapsed() < REPLACING) {
            tokio::time::sleep(REPLACING / 4).await;
        }
    }

    /// Forgets the requests in the queue that nobody waits for any more.
    pub(crate) fn forget_abandoned(&self) {
        let (_, zygote) = self.zygote();
        zygote.iter().for_each(|zygote| zygote.forget_abandoned());
    }

    fn failing(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn facts(&self) -> MutexGuard<'_, ZygoteFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Zygote>>> {
        self.zygote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time in which a zygote is replaced, also if its start fails a few times. Requests wait for so
/// long before the start of a pool counts as failed.
const REPLACING: Duration = Duration::from_secs(1);

/// An event of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEvent {
    /// PHP has started in its zygote.
    Ready {
        /// For example `8.2.29`.
        php_version: String,
        /// `on`, or why it is off.
        opcache: String,
    },
    /// A worker has started.
    WorkerStarted,
    /// All workers are there that the pool has at its start.
    Complete,
    /// A worker ended because it was not needed.
    WorkerDismissed,
    /// A worker ended. With status 0 it ended by itself, after its number of requests.
    WorkerDied {
        /// Its process id.
        pid: u64,
        /// Its status from `wait(2)`.
        status: u32,
        /// The kernel has probably ended it, because memory ran out.
        is_out_of_memory: bool,
        /// The time that it was on a processor, as its zygote says.
        processor: Duration,
    },
}
