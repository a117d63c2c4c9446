//! A worker of a pool, for display.

use howdah_php::LivingWorker;
use howdah_sys::usage;
use serde::{Deserialize, Serialize};

use super::{Snapshot, seconds};

/// The activity of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WorkerState {
    #[default]
    Idle,
    Running,
}

/// A worker of a pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct WorkerSnapshot {
    pub(crate) index: usize,
    pub(crate) pid: u64,
    pub(crate) state: WorkerState,
    /// Seconds since 1970 at the start of the process.
    pub(crate) started: f64,
    /// Requests that the worker has finished.
    pub(crate) requests: u64,
    /// The request that runs, or the last one.
    pub(crate) method: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) script: Option<String>,
    pub(crate) content_length: u64,
    /// Seconds that the request has run until now, or until its end.
    pub(crate) time: f64,
    /// Bytes of memory where shared pages count in parts; `null` before the first request.
    pub(crate) pss: Option<u64>,
    /// Bytes of memory where shared pages count in full.
    pub(crate) rss: Option<u64>,
    /// Seconds on a processor since the start of the process.
    pub(crate) cpu: f64,
    /// Bytes that PHP had at most for the last script that has ended.
    pub(crate) last_peak: u64,
    /// Seconds on a processor of the last script that has ended, if it was measured.
    pub(crate) last_cpu: Option<f64>,
}

impl WorkerSnapshot {
    /// Asks the kernel for the present memory of a worker that runs a script: it tells its own only
    /// between requests. Not for an event loop, because it reads a file.
    fn measure_running(&mut self) {
        if self.state == WorkerState::Running {
            // The figure of before stays where the kernel hides the processes of other users.
            self.rss = usage::resident_memory(self.pid).ok().or(self.rss);
        }
    }

    pub(super) fn of(worker: &LivingWorker) -> WorkerSnapshot {
        let figures = &worker.figures;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let request = figures.request.as_ref();
        WorkerSnapshot {
            index: worker.index,
            pid: worker.pid,
            state: match figures.is_running {
                true => WorkerState::Running,
                false => WorkerState::Idle,
            },
            started: seconds(worker.started),
            requests: figures.requests,
            method: request.map(|request| text(&request.method)),
            url: request.map(|request| text(&request.uri)),
            script: request.map(|request| text(&request.script)),
            content_length: request.map_or(0, |request| request.content_length),
            time: figures.took as f64 / 1e9,
            pss: figures.proportional,
            rss: figures.resident,
            cpu: figures.processor as f64 / 1e9,
            last_peak: figures.last_peak,
            last_cpu: figures.last_processor.map(|spent| spent as f64 / 1e6),
        }
    }
}

impl Snapshot {
    /// Measures the memory of the workers that run a script. Not for an event loop.
    pub(crate) fn measure_running(&mut self) {
        let pools = self.sites.iter_mut().filter_map(|site| site.pool.as_mut());
        pools
            .flat_map(|pool| &mut pool.workers)
            .for_each(WorkerSnapshot::measure_running);
    }
}
