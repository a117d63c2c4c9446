//! The limit of open files, beside what the processes of a plan need.

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
}
