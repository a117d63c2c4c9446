//! The end of a zygote's requests, because the front ends and gives them no more time.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Zygote;

/// The requests that are to end.
#[derive(Debug, Default)]
pub(super) struct CutOff {
    /// Whether the requests that no worker has begun are to end.
    waiting: AtomicBool,
    /// Whether the requests whose scripts run are to end.
    running: AtomicBool,
}

impl Zygote {
    /// Ends the requests that wait for a slot, and has the exchanges that wait for a worker see
    /// that their time is over.
    pub(crate) fn cut_off_waiting(&self) {
        self.cut_off.waiting.store(true, Ordering::SeqCst);
        let mut state = self.state();
        state.lanes.clear();
        self.waiting.store(0, Ordering::Relaxed);
        drop(state);
        self.raise_alarm();
    }

    /// Tells the exchanges whose scripts run that their time is over.
    pub(crate) fn cut_off_running(&self) {
        self.cut_off.running.store(true, Ordering::SeqCst);
        self.raise_alarm();
    }

    /// Whether requests that no worker has begun are to end.
    pub(crate) fn cuts_off_waiting(&self) -> bool {
        self.cut_off.waiting.load(Ordering::SeqCst)
    }

    /// Whether requests whose scripts run are to end.
    pub(crate) fn cuts_off_running(&self) -> bool {
        self.cut_off.running.load(Ordering::SeqCst)
    }
}
