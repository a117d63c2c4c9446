//! Pools that cannot start anew: a site's owner can break what PHP needs for its start, and must
//! not keep the other sites from a reload.
//!
//! Such a pool goes on with the zygote that stood by in the former generation, in which PHP has
//! started before: its settings are the former ones, and the front's are new. Where none stood by,
//! the pool is left out, and started again and again. A pool whose keys in the configuration have
//! changed is not among these: the mistake may be the administrator's, and the reload is refused.

use std::collections::HashSet;

use super::Supervisor;
use super::change::ChangeCause;
use super::generation::GenerationPhase;
use super::generation_plan::GenerationPlan;
use super::pool::SpareZygote;
use super::releases::Releases;
use crate::log::Level;

impl Supervisor {
    /// Returns the pools without which a new generation does not start: new ones, changed ones, and
    /// those with a new release; but none that the former generation goes on without.
    pub(super) fn required_pools(
        &self,
        cause: ChangeCause,
        plan: &GenerationPlan,
        releases: &Releases,
    ) -> HashSet<String> {
        if matches!(cause, ChangeCause::Start | ChangeCause::FrontDied) {
            return HashSet::new();
        }
        let former = self.generations.iter().find(|one| one.phase == GenerationPhase::Serving);
        let is_required = |name: &&String| {
            let is_new_release = cause == ChangeCause::NewRelease
                && releases.moved(&self.releases, name).is_some_and(|(from, to)| from != to);
            let is_unchanged = match &self.current {
                Some(current) => has_same_pool(current, plan, name),
                // Another program has started the former generation. The program that took over
                // does not serve less than that one by itself, but where it is told to reload.
                None => cause != ChangeCause::TakeOver,
            };
            !former.is_some_and(|former| former.is_without(name))
                && (is_new_release || !is_unchanged)
        };
        let names = plan.pools.iter().map(|pool| &pool.settings.pool);
        names.filter(is_required).cloned().collect()
    }

    /// Lets the pools that a starting generation has left out go on with former zygotes, where
    /// there are some, and logs what became of each pool.
    pub(super) fn settle_left_out(&mut self, number: u64, plan: &GenerationPlan) {
        let generation = self.generations.iter().find(|one| one.number == number);
        let pools = generation.into_iter().flat_map(|generation| &generation.pools);
        let left_out: Vec<(usize, String, String)> = pools
            .enumerate()
            .filter(|(_, pool)| pool.is_left_out && !pool.is_reported)
            .map(|(position, pool)| {
                (position, pool.name.clone(), pool.trouble.clone().unwrap_or_default())
            })
            .collect();
        for (position, name, trouble) in left_out {
            let log = self.log.clone();
            let spare = self.lend_spare(&name, plan);
            let generation = self.generation(number);
            let kept = generation
                .zip(spare)
                .is_some_and(|(generation, spare)| generation.keep_zygote(position, spare, &log));
            if let Some(generation) = self.generation(number) {
                generation.pools[position].is_reported = true;
            }
            let what = match kept {
                true => {
                    "the site goes on with the PHP of the former configuration; the next \
                         reload tries again, and leaves the site out if PHP does not start then"
                }
                false => "the other sites are served, and this pool is started again and again",
            };
            self.say_of(Level::Error, &name, &format!("{trouble}; {what}"));
        }
    }

    /// Takes the zygote that stands by for a pool in the generation that serves, if PHP has started
    /// there with the keys that `plan` has.
    fn lend_spare(&mut self, name: &str, plan: &GenerationPlan) -> Option<SpareZygote> {
        self.current.as_ref().filter(|current| has_same_pool(current, plan, name))?;
        let mut generations = self.generations.iter_mut();
        let serving = generations.find(|one| one.phase == GenerationPhase::Serving)?;
        let pool = serving.pools.iter_mut().find(|pool| pool.name == name)?;
        pool.lend_spare()
    }
}

/// Whether the pool of a site has the same keys in two plans.
fn has_same_pool(former: &GenerationPlan, plan: &GenerationPlan, name: &str) -> bool {
    let php = |plan: &GenerationPlan| {
        let site = plan.config.sites.iter().find(|site| site.name == name)?;
        site.php.clone()
    };
    let former = php(former);
    former.is_some() && former == php(plan)
}
