//! Changes that the death of the front ends: nothing is served, and another front waits neither for
//! the paths of a configuration nor for a pool.

use super::super::Supervisor;
use super::super::generation::{Generation, GenerationPhase};
use super::ChangeCause;

impl Supervisor {
    /// Gives up what is prepared, and the generation of a reload or of a new release that has no
    /// front yet. A reload follows later; a new release is noticed again. Call it when the front
    /// has died that serves.
    pub(in crate::supervisor) fn abandon_change(&mut self) {
        let mut abandoned = self.preparation.take().map(|one| one.cause);
        let is_starting = |number: u64| {
            let mut generations = self.generations.iter().filter(|one| one.number == number);
            generations.any(|one| one.front.is_none())
        };
        let comes_again = [ChangeCause::Reload, ChangeCause::NewRelease];
        let change = self.change.take_if(|change| {
            comes_again.contains(&change.cause) && is_starting(change.generation)
        });
        if let Some(change) = change {
            abandoned = Some(change.cause);
            self.generation(change.generation).into_iter().for_each(Generation::kill);
        }
        if abandoned == Some(ChangeCause::Reload) {
            self.reload_wanted = true;
            self.put_off_reload_of_clients();
        }
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
