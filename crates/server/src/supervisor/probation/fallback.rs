//! The return to a former generation, where a probation fails.

use super::super::Supervisor;
use super::super::change::{ChangeCause, WantedPlan};
use super::super::generation::{Generation, GenerationPhase};
use super::super::generation_plan::GenerationPlan;
use super::super::held_releases::HeldRelease;
use super::super::service_manager::ServiceEvent;
use super::Probation;
use crate::log::Level;
use crate::observe::SiteErrors;

/// The generation that serves again if the probation fails.
#[derive(Debug)]
pub(in crate::supervisor) struct FallbackGeneration {
    /// Its number.
    pub(super) number: u64,
    pub(super) plan: GenerationPlan,
    /// The releases that were served, where there are new ones.
    pub(super) held: Vec<HeldRelease>,
    /// The last responses of its sites.
    pub(super) answers: Vec<SiteErrors>,
}

impl FallbackGeneration {
    /// Notes the releases that are on probation. One that has not passed its own is nothing to
    /// return to.
    pub(super) fn note_releases(&mut self, new: Vec<HeldRelease>) {
        for release in new {
            match self.held.iter_mut().find(|held| held.site == release.site) {
                Some(held) => held.refused = release.refused,
                None => self.held.push(release),
            }
        }
    }
}

impl Supervisor {
    /// The generation that serves; `None` if this program has not started it.
    pub(super) fn fallback(&self) -> Option<FallbackGeneration> {
        let serves = |one: &&Generation| one.phase == GenerationPhase::Serving;
        let serving = self.generations.iter().find(serves)?;
        let present = serving.counters.as_ref()?.server_errors();
        let answers = self.former_answers.lately(serving.number, present);
        Some(FallbackGeneration {
            number: serving.number,
            plan: self.current.clone()?,
            held: Vec::new(),
            answers: answers.into_iter().map(SiteErrors::without_patience).collect(),
        })
    }

    /// Lets the former configuration serve again.
    pub(super) fn roll_back(&mut self, why: &str) {
        let Some(Probation { number, mut fallback, is_reload, .. }) = self.probation.take() else {
            return;
        };
        let former = fallback.number;
        let what = match is_reload {
            true => format!(
                "generation {number} is rolled back to generation {former}: {why}; the \
                 configuration files are as they are: correct them, and reload again"
            ),
            false => format!("generation {number} is rolled back to generation {former}: {why}"),
        };
        self.say(Level::Error, &what);
        self.tell_manager(ServiceEvent::Status, &what);
        fallback.held.iter_mut().for_each(|one| why.clone_into(&mut one.why));
        let held = self.held_after_return(&mut fallback);
        if !held.is_empty() {
            self.rolled_back = Some(what);
            let mut wanted = WantedPlan::again(&fallback.plan);
            wanted.hold(held);
            wanted.spares_of = Some(former);
            return self.begin_held(wanted);
        }
        let former = self.generation(fallback.number);
        let spares = former.map(Generation::take_spares).unwrap_or_default();
        self.end_probation();
        self.rolled_back = Some(what);
        self.roll_back_to = Some(fallback.plan);
        self.begin_with(ChangeCause::RollBack, spares);
    }

    /// The releases that the former configuration must not serve: those that have failed with the
    /// one on probation, and those that have come meanwhile and are not served.
    fn held_after_return(&self, fallback: &mut FallbackGeneration) -> Vec<HeldRelease> {
        let mut held = std::mem::take(&mut fallback.held);
        let present = self.current.iter().flat_map(|current| &current.held);
        let is_new = |one: &&HeldRelease| {
            held.iter().all(|new| new.site != one.site) && !fallback.plan.held.contains(one)
        };
        let others: Vec<HeldRelease> = present.filter(is_new).cloned().collect();
        held.extend(others);
        held
    }
}
