//! The limit of open files, beside what the processes of a plan need.

use howdah_config::{Php, SiteSettings};
use howdah_ipc::Geometry;
use howdah_sys::process;

use super::PlanFinder;
use crate::descriptor_needs::DescriptorNeeds;

impl PlanFinder<'_> {
    /// Looks whether the processes of the plan may have as many files open as they need at least.
    /// The limit of this process is raised for that, as the front raises its own, and never
    /// lowered.
    pub(super) fn look_at_open_files(&mut self) {
        let needs = DescriptorNeeds::of(self.config, self.environment.processors);
        let (_, of_pools) = self.environment.descriptor_limit;
        // Without a known limit, the front meets it.
        if let Ok(limit) = process::raise_descriptor_limit(needs.server())
            && let Some(why) = needs.refusal(limit, of_pools)
        {
            self.errors.push(why);
        }
    }

    /// Warns of a limit for scripts that is beyond the hard limit of this process.
    pub(super) fn look_at_nofile(&mut self, site: &SiteSettings, php: &Php, workers: usize) {
        let Some(wanted) = php.rlimits.nofile else {
            return;
        };
        let (_, hard) = self.environment.descriptor_limit;
        let own = of_pool(workers, self.environment.processors);
        let left = hard.saturating_sub(own);
        if wanted > left {
            self.warnings.push(format!(
                "site {}: `php.rlimits.nofile` = {wanted}: scripts get {left}, because the hard \
                 limit of open files is {hard} here and the pool itself needs {own}; raise that \
                 limit (`ulimit -Hn`, `LimitNOFILE=` of systemd), or give at most {left}",
                site.name
            ));
        }
    }
}

/// The descriptors that a process of a pool has for itself: those of the doorbells and sockets, and
/// of the pipes of the workers.
pub(crate) fn of_pool(workers: usize, processors: usize) -> u64 {
    let slots = Geometry::for_pool(workers, processors).slots as u64;
    let pipes = (workers as u64).saturating_mul(4);
    pipes.saturating_add(slots).saturating_add(processors as u64 + 64)
}
