//! The figures of a zygote's workers, within the bounds of what can be true.

use std::time::{Instant, SystemTime};

use howdah_ipc::figures::WorkerFigures;
use howdah_sys::usage::{self, Machine};

use super::Zygote;
use crate::roster::FigureBounds;

impl Zygote {
    /// Notes the time on a processor of a worker that has died.
    pub(super) fn note_end(&self, worker: usize, pid: u64, total: u64) {
        let bounds = self.figure_bounds();
        let mut state = self.state();
        if state.roster.pid(worker) == pid {
            let news = state.roster.note_processor(worker, total, bounds);
            state.processor = state.processor.saturating_add(news);
        }
    }

    /// Returns the nanoseconds that workers were on a processor and that were not returned before.
    /// Workers may tell any number: all of them together had no more time than the processors.
    pub(crate) fn take_processor(&self) -> u64 {
        let bounds = self.figure_bounds();
        let mut state = self.state();
        let living: Vec<usize> = state.roster.living().collect();
        let mut news = std::mem::take(&mut state.processor);
        for worker in living {
            let told = self.front.processor_of(worker);
            let total = match self.front.is_idle(worker) {
                true => told,
                false => told.max(present_processor(state.roster.pid(worker))),
            };
            news = news.saturating_add(state.roster.note_processor(worker, total, bounds));
        }
        let rest = bounds.processor_since(self.attached).saturating_sub(state.counted_processor);
        let news = news.min(rest);
        state.counted_processor = state.counted_processor.saturating_add(news);
        news
    }

    /// By worker: the process, 0 where there is none, the time at which it started, and its
    /// figures.
    pub(crate) fn worker_figures(&self) -> Vec<(u64, SystemTime, WorkerFigures)> {
        let mut figures = self.front.worker_figures();
        let bounds = self.figure_bounds();
        let mut state = self.state();
        for (worker, figures) in figures.iter_mut().enumerate() {
            if figures.is_running {
                let present = present_processor(state.roster.pid(worker));
                figures.processor = figures.processor.max(present);
            }
            state.roster.check_figures(worker, figures, bounds);
        }
        let processes = state.roster.processes().into_iter().zip(figures);
        processes.map(|((pid, started), figures)| (pid, started, figures)).collect()
    }

    fn figure_bounds(&self) -> FigureBounds {
        FigureBounds {
            now: Instant::now(),
            processors: Machine::present().processors,
            requests: self.front.checkouts(),
        }
    }
}

/// Nanoseconds that a process was on a processor, as the kernel knows; 0 if there is no such
/// process. A worker with a request says nothing of it before the end of the request. A pool may
/// name any process: the figure is one of those that are bounded.
fn present_processor(pid: u64) -> u64 {
    usage::processor_time_of(pid).unwrap_or(0)
}
