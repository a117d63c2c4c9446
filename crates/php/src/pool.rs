//! The pool of a site, for as long as the front runs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::Notify;

use crate::control::Messages;
use crate::zygote::{Lease, Zygote, ZygoteEvent};

/// A site's PHP processes. All threads of the front share it.
#[derive(Debug)]
pub struct Pool {
    name: String,
    limits: PoolLimits,
    threads: usize,
    zygote: Mutex<Option<Arc<Zygote>>>,
    /// Number of zygotes so far. A thread compares it to see that there is a new one.
    version: AtomicU64,
    renewed: Notify,
}

/// The limits of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Workers kept alive.
    pub workers: usize,
    /// Requests that may wait for a worker. Further ones are refused.
    pub queue: usize,
    /// How long a request waits for a worker before it is refused.
    pub queue_timeout: Duration,
    /// How long a script may run without a sign of life, in wall-clock time, even if the client
    /// has gone. Output is a sign of life, and so is `set_time_limit()`.
    pub request_timeout: Duration,
    /// How long a script may run, whatever its signs of life.
    pub request_terminate_timeout: Duration,
}

/// Why a request was not handed over. The answer is 503 unless a variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchError {
    /// [`PoolLimits::queue`] requests wait already.
    QueueFull,
    /// It waited for [`PoolLimits::queue_timeout`].
    QueueTimeout,
    /// The request, without its body, is larger than a slot's request area. The answer is 431.
    TooLarge,
}

/// A worker as the front knows it, for `howdah status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Its process.
    pub pid: u64,
    /// Requests that it says it has served.
    pub requests: u64,
}

impl Pool {
    /// Makes a pool without a zygote, for a front of `threads` threads.
    pub fn new(name: String, limits: PoolLimits, threads: usize) -> Arc<Pool> {
        Arc::new(Pool {
            name,
            limits,
            threads,
            zygote: Mutex::new(None),
            version: AtomicU64::new(0),
            renewed: Notify::new(),
        })
    }

    /// The pool's name, as in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits of the pool.
    pub fn limits(&self) -> &PoolLimits {
        &self.limits
    }

    /// Attaches to the zygote at the other end of `control`, and passes its events to `report`
    /// until it has ended. The supervisor then brings another zygote.
    ///
    /// # Errors
    /// The pool was given up: the zygote cannot be reached, or a worker wrote nonsense.
    pub async fn follow(
        &self,
        control: SeqPacket,
        mut report: impl FnMut(PoolEvent),
    ) -> io::Result<()> {
        let zygote = Zygote::attach(control, self.limits.workers, self.threads, self.limits.queue)?;
        let previous = {
            let mut present = self.lock();
            // Under the lock, so that a version always means the same zygote.
            self.version.fetch_add(1, Ordering::Release);
            present.replace(zygote.clone())
        };
        if let Some(previous) = previous {
            previous.condemn();
        }
        let mut messages = Messages::of(zygote.control())?;
        let mut started = 0;
        loop {
            let message = tokio::select! {
                message = messages.next() => message.inspect_err(|_| zygote.condemn())?,
                () = zygote.condemned.notified() => return Err(io::Error::other(zygote.reason())),
            };
            match zygote.hear(message) {
                Some(ZygoteEvent::Ready { php_version, opcache }) => {
                    report(PoolEvent::Ready { php_version, opcache });
                }
                Some(ZygoteEvent::Started) => {
                    started += 1;
                    if started == self.limits.workers {
                        report(PoolEvent::Complete);
                    }
                    // The first worker is enough for requests that waited for the pool.
                    self.renewed.notify_waiters();
                }
                Some(ZygoteEvent::Died { pid, status }) => {
                    report(PoolEvent::WorkerDied { pid, status })
                }
                Some(ZygoteEvent::Gone) => return Ok(()),
                None => {}
            }
        }
    }

    /// Lets all workers end after their present request.
    pub fn stop(&self) {
        if let Some(zygote) = self.lock().as_ref() {
            zygote.stop();
        }
    }

    /// The workers that live.
    pub fn workers(&self) -> Vec<WorkerFacts> {
        let Some(zygote) = self.lock().clone() else {
            return Vec::new();
        };
        let pids = zygote.workers().into_iter().enumerate().filter(|(_, pid)| *pid != 0);
        pids.map(|(worker, pid)| WorkerFacts {
            pid,
            requests: zygote.front.requests_served(worker),
        })
        .collect()
    }

    /// Workers that sleep, and requests that wait for a worker.
    pub fn load(&self) -> (usize, usize) {
        self.lock()
            .as_ref()
            .map_or((0, 0), |zygote| (zygote.front.idle_workers(), zygote.waiting()))
    }

    /// The number of the present zygote, and the zygote if it lives.
    pub(crate) fn zygote(&self) -> (u64, Option<Arc<Zygote>>) {
        let zygote = self.lock();
        (self.version.load(Ordering::Acquire), zygote.clone().filter(|zygote| !zygote.is_dead()))
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Waits until a slot is free, also across the death of a zygote.
    pub(crate) async fn wait_for_lease(&self) -> Result<Lease, DispatchError> {
        let wait = async {
            loop {
                let renewed = self.renewed.notified();
                let (_, zygote) = self.zygote();
                let Some(zygote) = zygote else {
                    renewed.await;
                    continue;
                };
                let Some(place) = zygote.join_queue() else {
                    return Err(DispatchError::QueueFull);
                };
                if let Ok(lease) = place.await {
                    return Ok(lease);
                }
            }
        };
        tokio::time::timeout(self.limits.queue_timeout, wait)
            .await
            .unwrap_or(Err(DispatchError::QueueTimeout))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Zygote>>> {
        self.zygote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    /// All workers are there.
    Complete,
    /// A worker ended. With status 0 it ended by itself, after its number of requests.
    WorkerDied {
        /// Its process id.
        pid: u64,
        /// Its status from `wait(2)`.
        status: u32,
    },
}
