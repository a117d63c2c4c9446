//! Pools that cannot start anew: a site's owner can break what PHP needs for its start, and must
//! not keep the other sites from a reload.
//!
//! Such a pool goes on with the zygote that stood by in the former generation, in which PHP has
//! started before: its settings are the former ones, and the front's are new. Where none stood by,
//! the pool is left out, and started again and again. A pool whose keys in the configuration have
//! changed is not among these: the mistake may be the administrator's, and the reload is refused.

use std::collections::HashSet;
use std::sync::Arc;

use super::Supervisor;
use super::change::ChangeCause;
use super::generation::GenerationPhase;
use super::generation_plan::GenerationPlan;
use super::pool::{PoolProcesses, SpareZygote};
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
        // Another program has started what serves before a takeover. One pool that does not start
        // must not keep all other sites from the new program.
        let starts = [ChangeCause::Start, ChangeCause::FrontDied, ChangeCause::TakeOver];
        if starts.contains(&cause) {
            return HashSet::new();
        }
        let former = self.generations.iter().find(|one| one.phase == GenerationPhase::Serving);
        let is_required = |name: &&String| {
            let is_new_release = cause == ChangeCause::NewRelease
                && releases.moved(&self.releases, name).is_some_and(|(from, to)| from != to);
            let is_unchanged = match &self.current {
                Some(current) => has_same_pool(current, plan, name),
                // Another program has started the former generation.
                None => true,
            };
            !former.is_some_and(|former| former.is_without(name))
                && (is_new_release || !is_unchanged)
        };
        let names = plan.pools.iter().map(|pool| &pool.settings.pool);
        names.filter(is_required).cloned().collect()
    }

    /// Lets the pools that a starting generation has left out, or `only` this one, go on with
    /// former zygotes, where there are some. Logs what became of each pool.
    pub(super) fn settle_left_out(
        &mut self,
        number: u64,
        only: Option<usize>,
        plan: &GenerationPlan,
    ) {
        let generation = self.generations.iter().find(|one| one.number == number);
        let pools = generation.into_iter().flat_map(|generation| &generation.pools);
        let left_out: Vec<(usize, String, String)> = pools
            .enumerate()
            .filter(|(position, pool)| {
                pool.is_left_out && only.is_none_or(|only| only == *position)
            })
            .filter_map(|(position, pool)| {
                Some((position, pool.name.clone(), pool.trouble.clone()?))
            })
            .collect();
        // At the start of a program, messages go to the terminal until the generation serves.
        let coming = generation.and_then(|generation| generation.logs.as_ref());
        let coming = coming.map(|(log, _)| Arc::clone(log));
        let coming = coming.filter(|log| log.target().path() != self.log.target().path());
        for (position, name, trouble) in left_out {
            let log = self.log.clone();
            let spare = self.lend_spare(&name, plan);
            let generation = self.generation(number);
            let kept = generation
                .zip(spare)
                .is_some_and(|(generation, spare)| generation.keep_zygote(position, spare, &log));
            let what = match kept {
                true => {
                    "the site goes on with the PHP of the former configuration; the next reload \
                     tries again, and leaves the site out if PHP does not start then"
                }
                false => "the other sites are served, and this pool is started again and again",
            };
            let told = format!("{trouble}; {what}");
            self.say_of(Level::Error, &name, &told);
            if let Some(coming) = &coming {
                coming.say(Level::Error, Some(&name), &told);
            }
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

impl PoolProcesses {
    /// Says for the operator what is wrong with the pool: PHP does not start with the present
    /// settings.
    pub(super) fn describe_trouble(&self) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        let goes_on = self.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some());
        let state = match goes_on {
            true => "has the PHP of the former configuration",
            false => "has no PHP",
        };
        let site = format!("site {}: ", self.name);
        let trouble = trouble.strip_prefix(&site).unwrap_or(trouble);
        Some(format!("{site}{state}: {trouble}"))
    }
}
