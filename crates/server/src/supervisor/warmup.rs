//! Hands the list of the scripts that a pool has used most to the pool that takes its place, which
//! compiles them before it serves. The supervisor gives both ends of a pipe away and reads nothing.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use howdah_ipc::control::PoolSettings;

use super::Supervisor;
use super::change::ChangeCause;
use super::generation::GenerationPhase;
use super::generation_plan::{GenerationPlan, PoolPlan};
use super::pool::PoolProcesses;
use super::releases::Releases;
use super::takeover::InheritedList;

/// The list of a pool of the former generation, for the pool that takes its place.
#[derive(Debug)]
pub(super) struct ScriptList {
    /// The end of a pipe that the former pool writes to. Its content is the site's.
    pub(super) pipe: OwnedFd,
    /// The folder of the release that the former pool serves, and that of the present one; `None`
    /// if they are the same.
    moved: Option<(String, String)>,
}

impl ScriptList {
    /// Notes in a pool's settings where the scripts of the list are now.
    pub(super) fn note(&self, settings: &mut PoolSettings) {
        if let Some((from, to)) = &self.moved {
            settings.former_release.clone_from(from);
            settings.release.clone_from(to);
        }
    }
}

impl Supervisor {
    /// Asks the pools that serve for their lists, by site, or takes those that the former program
    /// has asked for. Pools whose users change get none, and nobody waits for a list where there is
    /// no front.
    pub(super) fn script_lists(
        &mut self,
        cause: ChangeCause,
        plan: &GenerationPlan,
        releases: &Releases,
    ) -> HashMap<String, ScriptList> {
        let inherited = std::mem::take(&mut self.inherited_lists);
        let lists = match cause {
            ChangeCause::TakeOver => inherited,
            ChangeCause::FrontDied => Vec::new(),
            _ => self.asked_lists(),
        };
        let user =
            |pool: &PoolPlan| pool.identity.as_ref().unwrap_or(&self.environment.identity).uid;
        let pools = plan.pools.iter().filter(|pool| pool.warms_opcache);
        let mut wanted: HashMap<&str, &PoolPlan> =
            pools.map(|pool| (pool.settings.pool.as_str(), pool)).collect();
        let list = |list: InheritedList| {
            let InheritedList { site, uid, pipe } = list;
            wanted.remove(site.as_str()).filter(|pool| user(pool) == uid)?;
            let moved = releases.moved(&self.releases, &site);
            let moved = moved.and_then(|(from, to)| differing(from, to));
            Some((site, ScriptList { pipe, moved }))
        };
        lists.into_iter().filter_map(list).collect()
    }

    /// Asks the pools that serve for their lists. A zygote that does not read its messages has
    /// none.
    pub(super) fn asked_lists(&self) -> Vec<InheritedList> {
        let mut generations = self.generations.iter();
        let serving = generations.find(|one| one.phase == GenerationPhase::Serving);
        let pools = serving.into_iter().flat_map(|serving| &serving.pools);
        let list = |pool: &PoolProcesses| {
            Some(InheritedList {
                site: pool.name.clone(),
                uid: pool.uid(&self.environment),
                pipe: pool.list_scripts()?,
            })
        };
        pools.filter_map(list).collect()
    }
}

/// Returns two paths without what is the same at their ends: `/srv/7` and `/srv/8` of
/// `/srv/7/public` and `/srv/8/public`. `None` if they are the same, or no text.
fn differing(from: &Path, to: &Path) -> Option<(String, String)> {
    let same = from.iter().rev().zip(to.iter().rev()).take_while(|(one, other)| one == other);
    let same = same.count();
    let cut = |path: &Path| path.ancestors().nth(same)?.to_str().map(str::to_owned);
    (from != to).then(|| Some((cut(from)?, cut(to)?))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_differ_in_one_folder() {
        for (from, to, expected) in [
            ("/srv/7/public", "/srv/8/public", Some(("/srv/7", "/srv/8"))),
            ("/srv/7", "/srv/8", Some(("/srv/7", "/srv/8"))),
            ("/srv/7/a/web", "/srv/7/b/web", Some(("/srv/7/a", "/srv/7/b"))),
            ("/srv/7", "/srv/7", None),
        ] {
            let found = differing(Path::new(from), Path::new(to));
            let found = found.as_ref().map(|(from, to)| (from.as_str(), to.as_str()));
            assert_eq!(found, expected, "{from} {to}");
        }
    }
}
