//! The work of a thread that is due every second, with requests or without.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Thread;

impl Thread {
    /// Enforces time-outs, and gives back what is not needed any more. To be called about once a
    /// second.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.shared.pulse.tick(self.number);
        #[cfg(debug_assertions)]
        if self.number == 1 {
            crate::front::pulse::hang_if_told();
        }
        self.watches.sweep();
        self.follow_evictions();
        self.kept.sweep(now, self.is_draining());
        if self.number == 0 {
            self.shared.log.report_repeats(now);
            self.shared.accept_errors.report(&self.shared.log, now);
            self.end_unused_pools(now);
            let loads = self.shared.loads.iter();
            let present = loads.map(|load| load.load(Ordering::Relaxed)).sum();
            if self.most_connections.have_gone(present) {
                self.shared.directives.freed().note();
            }
        }
        for handle in self.handles.iter().flatten() {
            handle.sweep(now);
        }
    }

    /// Lets go of the rules of a site whose directives had to give memory.
    fn follow_evictions(&self) {
        let mut store = self.store();
        store.forget_evicted();
        if self.evictions.replace(store.evictions()) != store.evictions() {
            self.resolution_cache().clear();
        }
    }
}
