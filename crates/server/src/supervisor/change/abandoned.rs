//! Changes that are given up: by the death of the front, since nothing is served, and another front
//! waits neither for the paths of a configuration nor for a pool; and by a reload, which serves a
//! site's new release as well.

use super::super::Supervisor;
use super::super::generation::{Generation, GenerationPhase};
use super::ChangeCause;

impl Supervisor {
    /// Gives up what is prepared, and the generation of a reload or of a new release that has no
    /// front yet. A reload follows later; a new release is noticed again. Call it when the front
    /// has died that serves.
    pub(in crate::supervisor) fn abandon_change(&mut self) {
        let mut abandoned = self.preparation.take().map(|one| one.cause);
        abandoned = self.abandon(&[ChangeCause::Reload, ChangeCause::NewRelease]).or(abandoned);
        if abandoned == Some(ChangeCause::Reload) {
            self.reload_wanted = true;
            self.put_off_reload_of_clients();
        }
    }

    /// Gives up what is prepared for a new release, and its generation if that has no front yet.
    /// The generation that serves keeps its zygotes that stand by.
    pub(super) fn abandon_new_release(&mut self) {
        self.preparation.take_if(|one| one.cause == ChangeCause::NewRelease);
        if self.abandon(&[ChangeCause::NewRelease]).is_some() {
            // The generation that is given up may have taken some.
            let serving = self.generations.iter_mut();
            serving
                .filter(|one| one.phase == GenerationPhase::Serving)
                .for_each(Generation::prepare_for_deaths);
        }
    }

    /// Kills the generation that starts for one of these causes and has no front yet. Returns the
    /// cause; `None` if there is no such generation.
    fn abandon(&mut self, causes: &[ChangeCause]) -> Option<ChangeCause> {
        let is_starting = |number: u64| {
            let mut generations = self.generations.iter().filter(|one| one.number == number);
            generations.any(|one| one.front.is_none())
        };
        let change = self
            .change
            .take_if(|change| causes.contains(&change.cause) && is_starting(change.generation))?;
        self.generation(change.generation).into_iter().for_each(Generation::kill);
        Some(change.cause)
    }

    /// Makes the generation that starts, if there is one, wait for no pool. Call it when no front
    /// serves.
    pub(in crate::supervisor) fn hurry_change(&mut self) {
        let starting = self.generations.iter_mut();
        starting
            .filter(|one| matches!(one.phase, GenerationPhase::Starting { .. }))
            .for_each(Generation::hurry);
        self.advance();
    }
}
