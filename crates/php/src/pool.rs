//! A pool, over all its zygotes.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_sys::readiness::Readable;
use howdah_sys::seqpacket::SeqPacket;
use tokio::sync::Notify;

use crate::link::{Lease, Link, Report};

/// A site's PHP processes, as all threads of the front share them.
#[derive(Debug)]
pub struct Pool {
    name: String,
    limits: PoolLimits,
    threads: usize,
    link: Mutex<Option<Arc<Link>>>,
    /// Counts the links, so that a thread sees cheaply that there is a new one.
    version: AtomicU64,
    renewed: Notify,
}

/// What a pool allows.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Workers kept alive.
    pub workers: usize,
    /// Requests that may wait for a worker; one more is refused.
    pub queue: usize,
    /// How long a request waits for a worker before it is refused.
    pub queue_timeout: Duration,
    /// How long a worker may take for one request, by the clock on the wall, whether or not anybody
    /// waits for it.
    pub request_timeout: Duration,
}

/// Why a request got no slot. The answer is 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// As many wait as may wait.
    QueueFull,
    /// It waited too long.
    QueueTimeout,
    /// The request, without its body, is larger than a slot's request area. The answer is 431.
    TooLarge,
}

/// What the front knows of a worker, for `howdah status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerFacts {
    /// Its process.
    pub pid: u64,
    /// Requests that it says it has served.
    pub requests: u64,
}

impl Pool {
    /// A pool without a zygote yet.
    pub fn new(name: String, limits: PoolLimits, threads: usize) -> Arc<Pool> {
        Arc::new(Pool {
            name,
            limits,
            threads,
            link: Mutex::new(None),
            version: AtomicU64::new(0),
            renewed: Notify::new(),
        })
    }

    /// The pool's name, as in logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the pool allows.
    pub fn limits(&self) -> &PoolLimits {
        &self.limits
    }

    /// Attaches to a zygote and follows it until it is gone, calling `report` with a line for a
    /// person about all that matters. Returns when the link is dead; the supervisor then brings
    /// another zygote.
    pub async fn follow(
        &self,
        zygote: SeqPacket,
        mut report: impl FnMut(PoolEvent),
    ) -> io::Result<()> {
        let link = Link::attach(zygote, self.limits.workers, self.threads, self.limits.queue)?;
        let previous = {
            let mut present = self.lock();
            // Under the lock, so that a version always means the same link.
            self.version.fetch_add(1, Ordering::Release);
            present.replace(link.clone())
        };
        if let Some(previous) = previous {
            previous.condemn();
        }
        let socket = Readable::new(link.zygote().as_fd())?;
        let mut started = 0;
        loop {
            let mut ready = tokio::select! {
                ready = socket.ready() => ready?,
                () = link.condemned.notified() => return Err(io::Error::other(NONSENSE)),
            };
            match ready.try_io(|_| link.hear()) {
                Ok(Ok(Report::Ready { php_version, opcache })) => {
                    report(PoolEvent::Ready { php_version, opcache });
                }
                Ok(Ok(Report::Started)) => {
                    started += 1;
                    if started == self.limits.workers {
                        report(PoolEvent::Complete);
                    }
                    // Who waited for the pool to come back can be served from the first worker on.
                    self.renewed.notify_waiters();
                }
                Ok(Ok(Report::Died { pid, status })) => {
                    report(PoolEvent::WorkerDied { pid, status })
                }
                Ok(Ok(Report::Gone)) => return Ok(()),
                Ok(Err(error)) => {
                    link.condemn();
                    return Err(error);
                }
                Err(_not_yet) => {}
            }
        }
    }

    /// Lets all workers end after their present request.
    pub fn stop(&self) {
        if let Some(link) = self.lock().as_ref() {
            link.stop();
        }
    }

    /// The living workers.
    pub fn workers(&self) -> Vec<WorkerFacts> {
        let Some(link) = self.lock().clone() else {
            return Vec::new();
        };
        let pids = link.workers().into_iter().enumerate().filter(|(_, pid)| *pid != 0);
        pids.map(|(worker, pid)| WorkerFacts {
            pid,
            requests: link.front.requests_served(worker),
        })
        .collect()
    }

    /// Workers that sleep, and requests that wait for a worker.
    pub fn load(&self) -> (usize, usize) {
        self.lock()
            .as_ref()
            .map_or((0, 0), |link| (link.front.idle_workers(), link.waiting()))
    }

    /// Number of the present link, and the link, if it lives.
    pub(crate) fn link(&self) -> (u64, Option<Arc<Link>>) {
        let link = self.lock();
        (self.version.load(Ordering::Acquire), link.clone().filter(|link| !link.is_dead()))
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Waits in the queue of whatever link there is, until there is a slot.
    pub(crate) async fn wait_for_lease(&self) -> Result<Lease, Refused> {
        let wait = async {
            loop {
                let renewed = self.renewed.notified();
                let (_, link) = self.link();
                let Some(link) = link else {
                    renewed.await;
                    continue;
                };
                let Some(place) = link.join_queue() else {
                    return Err(Refused::QueueFull);
                };
                if let Ok(lease) = place.await {
                    return Ok(lease);
                }
            }
        };
        tokio::time::timeout(self.limits.queue_timeout, wait)
            .await
            .unwrap_or(Err(Refused::QueueTimeout))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NONSENSE: &str = "its shared memory or its sockets were tampered with";

/// What happened to a pool.
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
    /// A worker ended. A status of 0 is one that ended by itself, after its number of requests.
    WorkerDied {
        /// The process that it was.
        pid: u64,
        /// As `wait(2)` gives it.
        status: u32,
    },
}
