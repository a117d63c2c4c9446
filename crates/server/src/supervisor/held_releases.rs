//! Releases that are not served, though a site's link leads to them: PHP does not start with them,
//! they answer with server errors on probation, or they have to wait.
//!
//! The link is the site's. So a new generation serves the former release by the path that the link
//! has led to, with the zygotes that stood by, in which PHP had started before. It does so until
//! the link changes again, a reload tries the release again, or the wait is over.

pub(super) mod handover;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use howdah_config::{Config, RootTemplate};
use howdah_ipc::control::PoolSettings;
use howdah_watch::printed::visible;

use super::Supervisor;
use super::change::{ChangeCause, WantedPlan};
use super::generation::{Generation, GenerationPhase};
use super::generation_plan::GenerationPlan;
use super::pool::{PoolProcesses, SpareZygote};
use crate::front::ReasonTopic;

/// A release that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldRelease {
    pub(super) site: String,
    /// The document root as configured, which leads to the release.
    pub(super) root: PathBuf,
    /// The document root in the former release.
    pub(super) served: PathBuf,
    /// The document root in the release that is not served.
    pub(super) refused: PathBuf,
    /// The reason, for the operator. Empty where the release waits.
    pub(super) why: String,
    pub(super) kind: HoldKind,
}

/// The release that is served in place of another one, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldKind {
    /// The former release, until the link leads to another one.
    Refused,
    /// PHP of the former release, with the files of this one: no generation starts otherwise.
    HalfRefused,
    /// The former release, until this one may be served.
    Waiting,
}

impl HeldRelease {
    /// The folder that the link is known to lead to: another one is a new release.
    pub(super) fn known(&self) -> &Path {
        match self.kind {
            HoldKind::Refused | HoldKind::HalfRefused => &self.refused,
            HoldKind::Waiting => &self.served,
        }
    }

    /// Says for the operator what is served, without the site's name.
    pub(super) fn sentence(&self) -> String {
        let HeldRelease { root, served, refused, why, .. } = self;
        // Names are the tenant's: one with a line feed would make lines of its own.
        let [root, served, refused] =
            [root, served, refused].map(|path| visible(&path.display().to_string()));
        let why = why.replace('\n', "; ");
        match self.kind {
            HoldKind::Refused | HoldKind::Waiting => format!(
                "{refused} is not served: {why}; {served} is served until {root} leads to another \
                 folder, or a reload tries again"
            ),
            HoldKind::HalfRefused => format!(
                "PHP of {served} goes on, and files are those of {refused}, with which PHP does \
                 not start: {why}; let {root} lead to a release that starts"
            ),
        }
    }

    /// The part of `root` that ends with the link, or behind it, and the folder of the former
    /// release that it has led to: `/srv/current` and `/srv/releases/7` of `/srv/current/public`.
    fn link(&self) -> Option<(&str, &str)> {
        let (root, served) = (&self.root, &self.served);
        let same = root.iter().rev().zip(served.iter().rev());
        let same = same.take_while(|(one, other)| one == other).count();
        let cut = |same| root.ancestors().nth(same).zip(served.ancestors().nth(same));
        // A folder that the release is in is no link to it.
        let is_link = |(link, folder): &(&Path, &Path)| !folder.starts_with(link);
        let (link, folder) = (0..=same).rev().filter_map(cut).find(is_link)?;
        link.to_str().zip(folder.to_str())
    }

    /// Replaces paths behind the link in the settings of PHP by those in the former release.
    fn lead_back(&self, settings: &mut PoolSettings) {
        let Some((link, folder)) = self.link() else {
            return;
        };
        let led_back = |path: &str| match path.strip_prefix(link) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{folder}{rest}"),
            _ => path.to_owned(),
        };
        let single = [&mut settings.ini_file, &mut settings.working_directory];
        let ini = settings.ini.iter_mut().chain(&mut settings.admin_ini);
        for value in ini.map(|(_, value)| value).chain(single) {
            // Some settings have several paths.
            *value = value.split(':').map(led_back).collect::<Vec<_>>().join(":");
        }
    }

    /// Makes `config` serve the former release.
    fn pin(&self, config: &mut Config) {
        self.set_root(config, &self.served);
    }

    /// Makes `config` serve the release that the link leads to.
    fn unpin(&self, config: &mut Config) {
        self.set_root(config, &self.root);
    }

    fn set_root(&self, config: &mut Config, root: &Path) {
        for site in config.sites.iter_mut().filter(|site| site.name == self.site) {
            site.root = RootTemplate::Fixed(root.to_owned());
        }
    }
}

impl GenerationPlan {
    /// Notes the releases that the plan does not serve. PHP of their former ones starts with files
    /// of these, as with their preload scripts, also where the settings name them by the link.
    pub(super) fn hold(&mut self, held: &[HeldRelease]) {
        held.clone_into(&mut self.held);
        for one in held.iter().filter(|one| one.kind != HoldKind::HalfRefused) {
            let pools = self.pools.iter_mut().filter(|pool| pool.settings.pool == one.site);
            pools.for_each(|pool| one.lead_back(&mut pool.settings));
        }
    }
}

impl PoolProcesses {
    /// Returns whether the pool's zygotes were started with the settings that `plan` has, apart
    /// from the preload script, which theirs have run: paths behind the link mean the release that
    /// it leads to.
    fn has_settings_of(&self, plan: &GenerationPlan) -> bool {
        let of = |settings: &PoolSettings| -> Vec<(String, String)> {
            let all = settings.ini.iter().chain(&settings.admin_ini);
            all.filter(|(name, _)| name != "opcache.preload").cloned().collect()
        };
        let wanted = plan.pools.iter().find(|pool| pool.settings.pool == self.name);
        let both = self.plan.as_ref().zip(wanted);
        both.is_some_and(|(own, wanted)| of(&own.settings) == of(&wanted.settings))
    }
}

impl WantedPlan {
    /// The configuration of a generation, with the releases that it holds.
    pub(super) fn again(plan: &GenerationPlan) -> WantedPlan {
        WantedPlan {
            held: plan.held.clone(),
            ..WantedPlan::of(Config::clone(&plan.config))
        }
    }

    /// Replaces the releases `held` by their former ones as well.
    pub(super) fn hold(&mut self, mut held: Vec<HeldRelease>) {
        self.held.retain(|one| held.iter().all(|new| new.site != one.site));
        for one in &mut held {
            one.pin(&mut self.config);
            if one.kind == HoldKind::HalfRefused {
                one.kind = HoldKind::Refused;
            }
        }
        self.held.extend(held);
    }
}

impl Supervisor {
    /// The configuration for a new release: as that which is served, but for the releases that are
    /// held, if their links lead to others by now.
    pub(super) fn with_new_releases(&self, current: &GenerationPlan) -> WantedPlan {
        let mut wanted = WantedPlan::again(current);
        let WantedPlan { config, held, .. } = &mut wanted;
        held.retain(|one| {
            let is_known = self.releases.leads_to(&one.site, one.known());
            if !is_known {
                one.unpin(config);
            }
            is_known
        });
        wanted.hold(self.releases.waiting());
        wanted
    }

    /// Serves the former releases where new ones keep a generation from starting, because of `why`.
    /// Returns whether there are any.
    pub(super) fn hold_unstarted(&mut self, why: &str) -> bool {
        let mut held = self.releases.changed();
        if held.is_empty() || self.stopping {
            return false;
        }
        held.iter_mut().for_each(|one| why.clone_into(&mut one.why));
        self.holding.clone_from(&held);
        self.hold(held)
    }

    /// Serves the former releases while new ones have to wait.
    pub(super) fn hold_waiting(&mut self) {
        self.hold(self.releases.waiting());
    }

    /// Replaces the releases `held` by their former ones. Returns `false` if nothing is served.
    fn hold(&mut self, held: Vec<HeldRelease>) -> bool {
        let Some(mut wanted) = self.current.as_ref().map(WantedPlan::again) else {
            return false;
        };
        wanted.hold(held);
        self.begin_held(wanted);
        true
    }

    /// Starts a generation that serves former releases.
    pub(super) fn begin_held(&mut self, wanted: WantedPlan) {
        self.held_plan = Some(wanted);
        self.begin(ChangeCause::HeldRelease);
    }

    /// Takes the zygotes that stand by in that generation, or in the one that serves, where their
    /// settings are those of `plan`.
    pub(super) fn spares_of(
        &mut self,
        number: Option<u64>,
        plan: &GenerationPlan,
    ) -> HashMap<String, SpareZygote> {
        let is_meant = |one: &&mut Generation| match number {
            Some(number) => one.number == number,
            None => one.phase == GenerationPhase::Serving,
        };
        let generation = self.generations.iter_mut().find(is_meant);
        let pools = generation.into_iter().flat_map(|generation| &mut generation.pools);
        let spare = |pool: &mut PoolProcesses| match number {
            Some(_) => pool.take_spare(),
            None => pool.lend_spare(),
        };
        pools
            .filter(|pool| pool.has_settings_of(plan))
            .filter_map(|pool| Some((pool.name.clone(), spare(pool)?)))
            .collect()
    }

    /// No generation starts with the former releases: their PHP goes on, if it was a start that has
    /// failed, but files are those of the new ones.
    pub(super) fn note_half_served(&mut self) {
        let mut held = std::mem::take(&mut self.holding);
        held.iter_mut().for_each(|one| one.kind = HoldKind::HalfRefused);
        if let Some(current) = &mut self.current {
            current.held.retain(|one| held.iter().all(|new| new.site != one.site));
            current.held.extend(held);
        }
        self.tell_held();
    }

    /// Tells the front which releases are held.
    pub(super) fn tell_held(&self) {
        let Some(current) = &self.current else { return };
        for held in refused(current) {
            let mut sites = current.config.sites.iter();
            if let Some(site) = sites.position(|site| site.name == held.site) {
                self.tell_reason(ReasonTopic::HeldRelease, site, Some(&held.sentence()));
            }
        }
    }

    /// Describes the releases that are held, for `howdah status`.
    pub(super) fn describe_held(&self) -> impl Iterator<Item = String> {
        let held = self.current.iter().flat_map(refused);
        held.map(|one| format!("site {}: {}", one.site, one.sentence()))
    }
}

/// The releases that a plan does not serve for a reason that lasts. Those that wait are told apart.
fn refused(plan: &GenerationPlan) -> impl Iterator<Item = &HeldRelease> {
    plan.held.iter().filter(|one| one.kind != HoldKind::Waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tenant names the folders of its releases.
    #[test]
    fn a_folder_s_name_makes_no_line_of_its_own() {
        let held = HeldRelease {
            site: "shop".to_owned(),
            root: PathBuf::from("/srv/current"),
            served: PathBuf::from("/srv/3"),
            refused: PathBuf::from("/srv/4\nsite blog is not ready\x1b[2J"),
            why: "it has no worker\nfor PHP".to_owned(),
            kind: HoldKind::Refused,
        };
        let sentence = held.sentence();
        assert!(!sentence.contains(char::is_control), "{sentence:?}");
        assert!(sentence.contains("it has no worker; for PHP"), "{sentence}");
    }

    #[test]
    fn paths_behind_the_link_are_those_of_the_former_release() {
        for (root, served, path, expected) in [
            ("/d/current/public", "/d/r/1/public", "/d/current/a.php", "/d/r/1/a.php"),
            ("/d/current", "/d/r/1", "/d/current/a.php", "/d/r/1/a.php"),
            ("/d/current", "/d/r/1", "/d/current:/tmp:/d/current/", "/d/r/1:/tmp:/d/r/1/"),
            ("/d/current", "/d/r/1", "/d/currently:d/current", "/d/currently:d/current"),
            // The link has the name of what it leads to.
            ("/d/shop/web", "/d/r/1/shop/web", "/d/shop/a.php", "/d/r/1/shop/a.php"),
            ("/d/shop/web", "/d/r/1/shop/web", "/d/other/a.php", "/d/other/a.php"),
            ("/d/one", "/d/one", "/d/one/a.php", "/d/one/a.php"),
        ] {
            let held = HeldRelease {
                site: String::new(),
                root: root.into(),
                served: served.into(),
                refused: PathBuf::new(),
                why: String::new(),
                kind: HoldKind::Refused,
            };
            let mut settings = PoolSettings {
                admin_ini: vec![("opcache.preload".to_owned(), path.to_owned())],
                ini_file: path.to_owned(),
                ..PoolSettings::default()
            };
            held.lead_back(&mut settings);
            let found = [&settings.admin_ini[0].1, &settings.ini_file];
            assert_eq!(found, [expected; 2], "{root} {served}");
        }
    }
}
