//! The work of a thread beside its requests: what is due every second, and changes of files.

use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use howdah_site::SiteHost;
use howdah_sys::readiness::Readable;

use super::FrontThread;

impl FrontThread {
    /// Tells pools and connections that the front serves no further ones. Ends idle connections
    /// where the stage says so.
    pub(super) fn begin_draining(&self) {
        self.drain_pools();
        self.stage_changes.notify_waiters();
        if self.closes_idle() {
            self.watches.expire_idle();
        }
    }

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
        self.tell_store_figures();
        self.follow_evictions();
        self.free_former_resolutions();
        self.kept.sweep(now, self.is_draining(), &self.shared.upstream_places);
        self.look_at_requests();
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

    /// Handles changes of files before the requests that follow them.
    pub(super) async fn follow_changes(self: Rc<Self>, changes: Readable) {
        while let Ok(mut ready) = changes.ready().await {
            ready.clear_ready();
            self.store().drain_events();
        }
    }

    /// Lets the store forget what it has evicted, and shows the others what it has.
    fn tell_store_figures(&self) {
        let mut store = self.store();
        store.forget_evicted();
        let mut figures =
            self.shared.stores[self.number].lock().unwrap_or_else(PoisonError::into_inner);
        *figures = store.figures();
    }

    /// Lets go of the rules that the store has let go of.
    fn follow_evictions(&self) {
        self.forget_resolutions(self.store().evictions());
    }

    /// Frees the resolutions that no request will find any more. After a second without a request
    /// these are all.
    fn free_former_resolutions(&self) {
        let mut store = self.store();
        store.tick(self.clock.now().seconds());
        if let Some(epoch) = store.epoch() {
            self.resolution_cache().free_former(epoch);
        }
    }

    /// Forgets all resolutions, and with them the rules that requests met, if the store had not
    /// this number of evictions before.
    #[inline]
    pub(crate) fn forget_resolutions(&self, evictions: u64) {
        if self.evictions.replace(evictions) != evictions {
            self.resolution_cache().clear();
        }
    }
}
