//! The state of a pool, for display.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use howdah_ipc::control::OpcacheWarmup;
use howdah_ipc::figures::{CacheNumbers, WorkerFigures};

use super::Pool;
use crate::lanes::LaneFigures;
use crate::memory::MemorySum;

/// A worker that lives, for display.
#[derive(Debug, Clone)]
pub struct LivingWorker {
    /// The worker's place in its pool.
    pub index: usize,
    /// Its process.
    pub pid: u64,
    /// The time at which the process started.
    pub started: SystemTime,
    /// The worker's own figures.
    pub figures: WorkerFigures,
}

/// A zygote, for display.
#[derive(Debug, Clone, Default)]
pub struct ZygoteFacts {
    /// The time at which it was attached; `None` before the first.
    pub started: Option<SystemTime>,
    /// Version of PHP, for example `8.2.29`; empty until PHP has started.
    pub php_version: String,
    /// `on`, or the reason why opcache is off.
    pub opcache: String,
    /// The scripts of the former generation that were compiled before the first request; `None`
    /// without any.
    pub warmup: Option<OpcacheWarmup>,
}

/// The state of a pool, for display.
#[derive(Debug, Clone, Default)]
pub struct PoolFigures {
    /// The workers that live.
    pub workers: Vec<LivingWorker>,
    /// Number of workers that the pool wants at this moment.
    pub wanted: usize,
    /// The sum that says how many workers the memory has room for; `None` where their number does
    /// not depend on memory.
    pub memory_sum: Option<MemorySum>,
    /// Number of requests that wait for a worker.
    pub waiting: usize,
    /// The use of each of [`Pool::lanes`]; empty without a zygote.
    pub lanes: Vec<LaneFigures>,
    /// The highest number of requests that were seen waiting.
    pub most_waiting: usize,
    /// The highest number of requests that were seen running.
    pub most_active: usize,
    /// The zygote that the workers belong to.
    pub zygote: ZygoteFacts,
    /// The use of PHP's caches; `None` without a zygote.
    pub caches: Option<CacheNumbers>,
}

impl Pool {
    /// Returns the figures of the pool and of the workers that live.
    pub fn figures(&self) -> PoolFigures {
        let mut figures = PoolFigures {
            waiting: self.stranded.count(),
            most_active: self.most_active.load(Ordering::Relaxed),
            most_waiting: self.most_waiting.load(Ordering::Relaxed),
            zygote: self.facts().clone(),
            ..PoolFigures::default()
        };
        let Some(zygote) = self.lock().clone() else {
            return figures;
        };
        figures.most_active = figures.most_active.max(zygote.most_running());
        figures.waiting += zygote.waiting();
        figures.lanes = zygote.lane_figures();
        figures.wanted = zygote.wanted();
        figures.memory_sum = zygote.memory_sum();
        figures.caches = Some(zygote.front.cache_numbers());
        let workers = zygote.worker_figures().into_iter().enumerate();
        let facts = workers.map(|(index, (pid, started, figures))| LivingWorker {
            index,
            pid,
            started,
            figures,
        });
        figures.workers = facts.filter(|worker| worker.pid != 0).collect();
        figures
    }
}
