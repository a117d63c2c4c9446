//! Hands the list of the scripts that a pool has used most to the pool that takes its place, which
//! compiles them before it serves. The supervisor gives both ends of a pipe away and reads nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use howdah_ipc::control::PoolSettings;

use super::Supervisor;
use super::change::ChangeCause;
use super::generation::GenerationPhase;
use super::generation_plan::{GenerationPlan, PoolPlan};
use super::releases::Releases;

/// The list of a pool of the former generation, for the pool that takes its place.
#[derive(Debug)]
pub(super) struct ScriptList {
    /// The end of a pipe that the former pool writes to. What comes out of it is the site's.
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
    /// Asks the pools that serve for their lists, by site. Pools whose users change get none, and
    /// nobody waits for a list where there is no front.
    pub(super) fn script_lists(
        &self,
        cause: ChangeCause,
        plan: &GenerationPlan,
        releases: &Releases,
    ) -> HashMap<String, ScriptList> {
        let mut generations = self.generations.iter();
        let former = generations.find(|one| one.phase == GenerationPhase::Serving);
        let Some(former) = former.filter(|_| cause != ChangeCause::FrontDied) else {
            return HashMap::new();
        };
        let pools = plan.pools.iter().filter(|pool| pool.warms_opcache);
        let list = |pool: &PoolPlan| {
            let name = &pool.settings.pool;
            let former = former.pools.iter().find(|former| former.name == *name)?;
            let (reader, writer) = io::pipe().ok()?;
            // A zygote that does not read its messages has no list.
            let is_asked = former.has_user_of(pool) && former.list_scripts(writer.into());
            let list = ScriptList {
                pipe: reader.into(),
                moved: releases
                    .moved(&self.releases, name)
                    .and_then(|(from, to)| differing(from, to)),
            };
            is_asked.then(|| (name.clone(), list))
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
