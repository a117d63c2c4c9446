//! Releases that are not served, though a site's link leads to them: PHP does not start with them,
//! or they answer with server errors on probation.
//!
//! The link is the site's. So a new generation serves the former release by the path that the link
//! has led to, with the zygotes that stood by, in which PHP had started before. It does so until
//! the link changes again, or a reload tries the release again.

use std::collections::HashMap;
use std::path::PathBuf;

use howdah_config::{Config, RootTemplate};

use super::Supervisor;
use super::change::{ChangeCause, WantedPlan};
use super::generation::{Generation, GenerationPhase};
use super::pool::SpareZygote;
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
    /// The reason, for the operator.
    pub(super) why: String,
    /// Whether the files come from the former release as well, and not PHP alone.
    pub(super) is_whole: bool,
}

impl HeldRelease {
    /// Says for the operator what is served, without the site's name.
    pub(super) fn sentence(&self) -> String {
        let HeldRelease { root, served, refused, why, .. } = self;
        let (root, served, refused) = (root.display(), served.display(), refused.display());
        let why = why.replace('\n', "; ");
        match self.is_whole {
            true => format!(
                "{refused} is not served: {why}; {served} is served until {root} leads to another \
                 folder, or a reload tries again"
            ),
            false => format!(
                "PHP of {served} goes on, and files are those of {refused}, with which PHP does \
                 not start: {why}; let {root} lead to a release that starts"
            ),
        }
    }

    /// Has the former release served with `config`.
    fn pin(&self, config: &mut Config) {
        self.set_root(config, &self.served);
    }

    /// Has the release served that the link leads to.
    fn unpin(&self, config: &mut Config) {
        self.set_root(config, &self.root);
    }

    fn set_root(&self, config: &mut Config, root: &std::path::Path) {
        for site in config.sites.iter_mut().filter(|site| site.name == self.site) {
            site.root = RootTemplate::Fixed(root.to_owned());
        }
    }
}

impl Supervisor {
    /// The configuration for a new release: as that which is served, but for the releases that are
    /// held, if their links lead to others by now.
    pub(super) fn with_new_releases(&self, config: &Config) -> WantedPlan {
        let mut wanted = WantedPlan::of(config.clone());
        for held in self.current.iter().flat_map(|current| &current.held) {
            match self.releases.leads_to(&held.site, &held.refused) {
                true => wanted.held.push(held.clone()),
                false => held.unpin(&mut wanted.config),
            }
        }
        wanted
    }

    /// Has the former releases served where new ones keep a generation from starting, because of
    /// `why`. Returns whether there are any.
    pub(super) fn hold_unstarted(&mut self, why: &str) -> bool {
        let mut held = self.releases.changed();
        let Some(config) = self.current.as_ref().map(|current| Config::clone(&current.config))
        else {
            return false;
        };
        if held.is_empty() || self.stopping {
            return false;
        }
        held.iter_mut().for_each(|one| why.clone_into(&mut one.why));
        self.holding.clone_from(&held);
        self.hold(config, held, None);
        true
    }

    /// Has the releases `held` replaced by their former ones, in `config`. The zygotes that stand
    /// by come from the generation `spares_of`, or from the one that serves.
    pub(super) fn hold(&mut self, config: Config, held: Vec<HeldRelease>, spares_of: Option<u64>) {
        let mut wanted = WantedPlan { config, held, spares_of };
        let former = self.current.iter().flat_map(|current| &current.held);
        let is_other = |one: &&HeldRelease| wanted.held.iter().all(|new| new.site != one.site);
        let others: Vec<HeldRelease> = former.filter(is_other).cloned().collect();
        wanted.held.extend(others);
        for held in &wanted.held {
            held.pin(&mut wanted.config);
        }
        self.held_plan = Some(wanted);
        self.begin(ChangeCause::HeldRelease);
    }

    /// Takes the zygotes that stand by in that generation, or in the one that serves.
    pub(super) fn spares_of(&mut self, number: Option<u64>) -> HashMap<String, SpareZygote> {
        match number {
            Some(number) => self.generation(number).map(Generation::take_spares),
            None => {
                let mut generations = self.generations.iter_mut();
                let serving = generations.find(|one| one.phase == GenerationPhase::Serving);
                serving.map(Generation::lend_spares)
            }
        }
        .unwrap_or_default()
    }

    /// No generation starts with the former releases: their PHP goes on, if it was a start that has
    /// failed, but files are those of the new ones.
    pub(super) fn note_half_served(&mut self) {
        let mut held = std::mem::take(&mut self.holding);
        held.iter_mut().for_each(|one| one.is_whole = false);
        if let Some(current) = &mut self.current {
            current.held.retain(|one| held.iter().all(|new| new.site != one.site));
            current.held.extend(held);
        }
        self.tell_held();
    }

    /// Tells the front which releases are held.
    pub(super) fn tell_held(&self) {
        let Some(current) = &self.current else { return };
        for held in &current.held {
            let mut sites = current.config.sites.iter();
            if let Some(site) = sites.position(|site| site.name == held.site) {
                self.tell_reason(ReasonTopic::HeldRelease, site, Some(&held.sentence()));
            }
        }
    }

    /// Describes the releases that are held, for `howdah status`.
    pub(super) fn describe_held(&self) -> impl Iterator<Item = String> {
        let held = self.current.iter().flat_map(|current| &current.held);
        held.map(|one| format!("site {}: {}", one.site, one.sentence()))
    }
}
