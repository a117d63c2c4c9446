//! Pools that cannot start anew: a site's owner can break what PHP needs for its start, and must
//! not keep the other sites from a reload.
//!
//! Such a pool goes on with the zygote that stood by in the former generation, in which PHP has
//! started before: its settings are the former ones, and the front's are new. Where none stood by,
//! the zygote that serves forks a twin for the new generation, so that any number of reloads leaves
//! the site its PHP. Where there is no such zygote either, the pool is left out, and started again
//! and again. A pool whose keys in the configuration have changed is not among these: the mistake
//! may be the administrator's, and the reload is refused. Nor is a pool whose user has replaced its
//! state folder: he would keep the former settings as long as he likes.
//!
//! A former zygote goes on only with the files of its own release. Where a site's link leads to
//! another one by now, the reload begins again with the former release of the site
//! ([`HeldRelease`](super::held_releases::HeldRelease)).
//!
//! A new program (SIGUSR2) has the twin of a zygote that the former one has started, if both are
//! built from the same sources and the keys of the pool are the same.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::path::Path;
use std::time::Duration;

use howdah_config::Config;
use howdah_ipc::control::BUILD;
use howdah_sys::credentials::Identity;

use super::Supervisor;
use super::change::ChangeCause;
use super::generation::{Generation, GenerationPhase, LATE_AFTER};
use super::generation_plan::GenerationPlan;
use super::pool::{LentTwin, PoolProcesses, SpareZygote};
use super::releases::Releases;
use super::state::{self, FolderIdentity};
use crate::log::{ErrorLog, Level, LogTarget};

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

    /// Returns the time that pools of a new generation have after another one has started, by pool.
    /// At a reload it depends on what their PHP took before, also with a new release: its owner can
    /// change the link right before the reload, and what he serves goes on. Those without which the
    /// generation does not start are not among them, nor those that another program has started:
    /// nothing is known about them. After the death of a front, pools have no time, since nothing
    /// is served until the next front starts.
    pub(super) fn patience(
        &self,
        cause: ChangeCause,
        plan: &GenerationPlan,
        required: &HashSet<String>,
    ) -> HashMap<String, Duration> {
        let serving = self.generations.iter().find(|one| one.phase == GenerationPhase::Serving);
        let held = self.current.iter().flat_map(|current| &current.held);
        let held: HashSet<&String> = held.map(|held| &held.site).collect();
        let of = |name: &String| {
            let Some(serving) = serving else {
                let is_start = cause == ChangeCause::Start;
                return Some(if is_start { LATE_AFTER } else { Duration::ZERO });
            };
            let former = serving.pools.iter().find(|pool| pool.name == *name)?;
            let is_new = cause != ChangeCause::Reload
                && self.releases.moved_in(plan, name).is_some()
                && !held.contains(name);
            (!is_new && !former.is_adopted()).then(|| LATE_AFTER + former.usual_start() * 4)
        };
        let names = plan.pools.iter().map(|pool| &pool.settings.pool);
        let bounded = names.filter(|name| !required.contains(*name));
        bounded.filter_map(|name| Some((name.clone(), of(name)?))).collect()
    }

    /// Goes on with the start of a generation, without the pools in which PHP has not started in
    /// time. Where another generation serves, their former PHP goes on.
    pub(super) fn go_on_without_late(&mut self, number: u64) {
        let serves = self.generations.iter().any(|one| one.phase == GenerationPhase::Serving);
        let Some(generation) = self.generation(number) else {
            return;
        };
        if serves {
            // The deaths of their zygotes are handled as those of others.
            generation.give_up_late_pools();
            return;
        }
        let late = generation.set_late_aside();
        late.into_iter().for_each(|position| self.tell_late(number, position));
        self.advance();
    }

    /// Lets the pools that a starting generation has left out, or `only` this one, go on with
    /// former zygotes or their twins, where there are some. Logs what became of each pool; of one
    /// that awaits a twin, when that has reported.
    pub(super) fn settle_left_out(
        &mut self,
        number: u64,
        only: Option<usize>,
        (cause, plan): (ChangeCause, &GenerationPlan),
    ) {
        let generation = self.generations.iter().find(|one| one.number == number);
        let pools = generation.into_iter().flat_map(|generation| &generation.pools);
        let left_out: Vec<(usize, String, bool)> = pools
            .enumerate()
            .filter(|(position, pool)| {
                pool.is_left_out && only.is_none_or(|only| only == *position)
            })
            .map(|(position, pool)| (position, pool.name.clone(), pool.has_had_twin))
            .collect();
        let ours = self.environment.identity.clone();
        for (position, name, has_had_twin) in left_out {
            if self.held_by_reload((cause, plan), &name).is_some() {
                self.tell_held_by_reload(number, position);
                continue;
            }
            let former = self.lender(&name, plan).and_then(|pool| pool.state.folder);
            let pool = self.generation(number).and_then(|it| it.pools.get(position));
            if pool.is_some_and(|pool| pool.has_replaced_state(former, &ours)) {
                self.tell_of_left_out(number, position, REPLACED);
                continue;
            }
            let log = self.log.clone();
            let spare = self.lender(&name, plan).and_then(PoolProcesses::lend_spare);
            let generation = self.generation(number);
            let is_kept = generation
                .zip(spare)
                .is_some_and(|(generation, spare)| generation.keep_zygote(position, spare, &log));
            if is_kept {
                self.tell_kept(number, position);
                continue;
            }
            let lender = self.lender(&name, plan).filter(|_| !has_had_twin);
            let twin = lender.and_then(|pool| pool.lend_twin());
            match self.generation(number).zip(twin) {
                Some((generation, twin)) => generation.await_twin(position, twin, &log),
                None => self.tell_left_out(number, position),
            }
        }
    }

    /// Returns whether PHP of a site serves with the keys that `plan` has.
    pub(super) fn has_php_to_lend(&self, name: &str, plan: &GenerationPlan) -> bool {
        let serving = self.generations.iter().find(|one| one.phase == GenerationPhase::Serving);
        self.current.as_ref().is_some_and(|current| has_same_pool(current, plan, name))
            && serving.is_some_and(|serving| !serving.is_without(name))
    }

    /// Returns a pool of the generation that serves, if PHP has started there with the keys and the
    /// release that `plan` has.
    fn lender(&mut self, name: &str, plan: &GenerationPlan) -> Option<&mut PoolProcesses> {
        if self.releases.moved_in(plan, name).is_some() {
            return None;
        }
        let current = self.current.as_ref();
        let is_same = current.is_some_and(|current| has_same_pool(current, plan, name));
        let mut generations = self.generations.iter_mut();
        let serving = generations.find(|one| one.phase == GenerationPhase::Serving)?;
        let pool = serving.pools.iter_mut().find(|pool| pool.name == name)?;
        let has_same_settings = match &pool.inherited_settings {
            Some(former) => settings_number(&plan.config, name).as_ref() == Some(former),
            None => is_same,
        };
        has_same_settings.then_some(pool)
    }

    /// Says that a pool goes on with a former zygote or its twin.
    pub(super) fn tell_kept(&self, number: u64, position: usize) {
        let what = "the site goes on with the PHP of the former configuration; the next reload \
                    tries again";
        self.tell_of_left_out(number, position, what);
    }

    /// Says that a reload goes on with a site's former release.
    fn tell_held_by_reload(&self, number: u64, position: usize) {
        let what = "the reload begins again with the site's former release";
        self.tell_of_left_out(number, position, what);
    }

    /// Says that a pool is left out.
    pub(super) fn tell_left_out(&self, number: u64, position: usize) {
        let generation = self.generations.iter().find(|one| one.number == number);
        let pool = generation.and_then(|generation| generation.pools.get(position));
        let what = match pool.is_some_and(PoolProcesses::is_silent) {
            true => "the other sites are served, and this pool is started when the root answers",
            false => "the other sites are served, and this pool is started again and again",
        };
        self.tell_of_left_out(number, position, what);
    }

    /// Says that a pool starts more slowly than the others of a cold start.
    pub(super) fn tell_late(&self, number: u64, position: usize) {
        self.tell_of_left_out(number, position, "the other sites are served");
    }

    fn tell_of_left_out(&self, number: u64, position: usize, what: &str) {
        let generation = self.generations.iter().find(|one| one.number == number);
        let Some(generation) = generation else { return };
        let Some(pool) = generation.pools.get(position) else {
            return;
        };
        let told = format!("{}; {what}", pool.start_failure.as_deref().unwrap_or_default());
        self.say_of(Level::Error, &pool.name, &told);
        // At the start of a program, messages go to the terminal until the generation serves.
        let place = |log: &ErrorLog| {
            let target: &LogTarget = log.target();
            (discriminant(target), target.path().map(Path::to_owned))
        };
        if let Some((coming, _)) =
            generation.logs.as_ref().filter(|(log, _)| place(log) != place(&self.log))
        {
            coming.say(Level::Error, Some(&pool.name), &told);
        }
    }
}

impl Generation {
    /// Lets a pool that was left out go on with the zygote that stood by in the former generation.
    /// Returns whether that is possible.
    fn keep_zygote(&mut self, position: usize, spare: SpareZygote, log: &ErrorLog) -> bool {
        let (Some(pool), Some(channel)) =
            (self.pools.get_mut(position), self.channels.get_mut(position))
        else {
            return false;
        };
        channel.zygote = pool.go_on_with(spare, log).ok();
        channel.zygote.is_some()
    }

    /// Lets a pool that was left out wait for the twin of the former generation's zygote.
    fn await_twin(&mut self, position: usize, twin: LentTwin, log: &ErrorLog) {
        let (pool, channel) = (self.pools.get_mut(position), self.channels.get_mut(position));
        if let (Some(pool), Some(channel)) = (pool, channel) {
            channel.zygote = Some(pool.await_twin(twin, log));
        }
    }
}

/// The words about a pool whose user has replaced its state folder.
const REPLACED: &str = "its user keeps PHP from its state folder; the pool does not keep the PHP \
    of the former configuration; the other sites are served; the start of this pool is repeated";

/// Returns a number of the settings of a site's pool, as text. Two programs that are built from the
/// same sources have the same number for the same settings, and others do not: a twin of a zygote
/// that the former program has started must understand the new one, and must have its settings.
/// `None`: there is no such site, or it has no PHP.
pub(super) fn settings_number(config: &Config, name: &str) -> Option<String> {
    let site = config.sites.iter().find(|site| site.name == name)?;
    let mut hasher = DefaultHasher::new();
    BUILD.hash(&mut hasher);
    format!("{:?}", site.php.as_ref()?).hash(&mut hasher);
    Some(format!("{:016x}", hasher.finish()))
}

/// Returns whether the pool of a site has the same keys in two plans.
fn has_same_pool(former: &GenerationPlan, plan: &GenerationPlan, name: &str) -> bool {
    let php = |plan: &GenerationPlan| {
        let site = plan.config.sites.iter().find(|site| site.name == name)?;
        site.php.clone()
    };
    let former = php(former);
    former.is_some() && former == php(plan)
}

impl PoolProcesses {
    /// Returns whether the site's owner has made something of the state folder that keeps the pool
    /// from starting. `ours` is this process's user.
    pub(super) fn has_spoilt_state(&self, ours: &Identity) -> bool {
        self.plan.as_ref().is_some_and(|plan| {
            let owner = plan.identity.as_ref().unwrap_or(ours);
            let folder = plan.settings.state_dir.as_ref();
            state::is_spoilt(folder, self.state.fault, owner, ours)
        })
    }

    /// The time that PHP's start took in the zygote that serves; none where PHP did not start with
    /// the present settings.
    fn usual_start(&self) -> Duration {
        let zygote = self.zygote.as_ref().filter(|_| self.start_failure.is_none());
        zygote.and_then(|zygote| zygote.took).unwrap_or_default()
    }

    /// Returns whether the site's owner has replaced the state folder `former`, with which PHP has
    /// started before, so that it does not start now. `ours` is this process's user.
    fn has_replaced_state(&self, former: Option<FolderIdentity>, ours: &Identity) -> bool {
        self.plan.as_ref().is_some_and(|plan| {
            let owner = plan.identity.as_ref().unwrap_or(ours);
            let folder = plan.settings.state_dir.as_ref();
            state::is_replaced(folder, former, &self.state, owner, ours)
        })
    }

    /// Says for the operator that PHP does not start in the pool with the present settings. `None`:
    /// it starts.
    pub(super) fn describe_start_failure(&self) -> Option<String> {
        let failure = self.start_failure.as_ref()?;
        let goes_on = self.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some());
        let state = match goes_on {
            true => "has the PHP of the former configuration",
            false => "has no PHP",
        };
        Some(format!("site {}: {state}: {failure}", self.name))
    }
}
