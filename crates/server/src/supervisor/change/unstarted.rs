//! Releases with which PHP does not start at a reload: their sites' former releases are served.

use super::super::generation::Generation;
use super::super::held_releases::HeldRelease;
use super::super::{GenerationPhase, Supervisor};
use super::{ChangeCause, GenerationChange, GenerationPlan, WantedPlan};

impl Supervisor {
    /// Begins a reload again with the former releases of the sites with whose new ones PHP has not
    /// started: PHP that has started goes on with its own files alone. Returns `change` if there
    /// are no such sites, or it is not known yet. `None`: the reload has begun again.
    pub(super) fn hold_unstarted_of_reload(
        &mut self,
        change: GenerationChange,
    ) -> Option<GenerationChange> {
        let held = self.unstarted_releases(&change);
        if held.is_empty() {
            return Some(change);
        }
        if let Some(generation) = self.generation(change.generation) {
            generation.kill();
        }
        // The generation that is given up may have taken some.
        let serving = self.generations.iter_mut();
        serving
            .filter(|one| one.phase == GenerationPhase::Serving)
            .for_each(Generation::prepare_for_deaths);
        let mut wanted = WantedPlan::again(&change.generation_plan);
        wanted.hold(held);
        if let Err(refusal) = self.prepare(change.cause, wanted) {
            self.refuse(change.cause, refusal);
        }
        None
    }

    /// The releases with which PHP does not start at a reload, where PHP of former ones serves.
    fn unstarted_releases(&self, change: &GenerationChange) -> Vec<HeldRelease> {
        let generation = self.generations.iter().find(|one| one.number == change.generation);
        let is_settled = |one: &&Generation| one.front.is_none() && one.has_php();
        let Some(generation) = generation.filter(is_settled) else {
            return Vec::new();
        };
        let left_out = generation.pools.iter().filter(|pool| pool.is_left_out);
        left_out
            .filter_map(|pool| {
                let held = self.held_by_reload(change.plan(), &pool.name)?;
                let why = pool.start_failure.clone().unwrap_or_default();
                Some(HeldRelease { why, ..held })
            })
            .collect()
    }

    /// The release of a site that is to be held if PHP does not start with it, because PHP of a
    /// former one serves. `None` if the site is left out then.
    pub(in crate::supervisor) fn held_by_reload(
        &self,
        (cause, plan): (ChangeCause, &GenerationPlan),
        site: &str,
    ) -> Option<HeldRelease> {
        let moved = self.releases.moved_in(plan, site)?;
        (cause == ChangeCause::Reload && self.has_php_to_lend(site, plan)).then_some(moved)
    }
}
