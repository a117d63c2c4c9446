//! Reasons why something of a site is not as it should be, for the front that serves and for
//! `howdah status`.

use super::Supervisor;
use super::front_protocol::ToFront;
use crate::front::ReasonTopic;

impl Supervisor {
    /// Tells the front that serves the reason of a site, or that there is none any more.
    pub(super) fn tell_reason(&self, topic: ReasonTopic, site: usize, why: Option<&str>) {
        let why = why.map(|why| why.replace('\n', "; "));
        // A front that does not read is replaced.
        let _ = self.tell_serving(&ToFront::Reason { topic, site, why }, None);
    }

    /// Tells a front that has just begun to serve all reasons.
    pub(super) fn tell_reasons(&self) {
        self.tell_held();
        self.tell_missing_roots();
        let kept = self.current.iter().flat_map(|current| &current.kept_files).enumerate();
        for (site, why) in kept.filter(|(_, why)| why.is_some()) {
            self.tell_reason(ReasonTopic::KeptFiles, site, why.as_deref());
        }
    }

    /// Tells the front that serves which document roots are missing, and which are not.
    pub(super) fn tell_missing_roots(&self) {
        let Some(current) = &self.current else { return };
        for (name, why) in self.releases.roots() {
            if let Some(site) = current.config.sites.iter().position(|site| site.name == name) {
                self.tell_reason(ReasonTopic::MissingRoot, site, why);
            }
        }
    }

    /// Notes why files of a site are not used, and former ones are or none; `None`: all are used.
    pub(super) fn note_kept_files(&mut self, site: usize, why: Option<String>) {
        let current = self.current.as_mut();
        let place = current.and_then(|current| current.kept_files.get_mut(site));
        if let Some(place) = place.filter(|place| **place != why) {
            place.clone_from(&why);
            self.tell_reason(ReasonTopic::KeptFiles, site, why.as_deref());
        }
    }

    /// Describes for `howdah status` the roots that are missing and the files that are not used.
    pub(super) fn describe_reasons(&self) -> Vec<String> {
        let roots = self.releases.roots().filter_map(|(name, why)| Some((name, why?)));
        let sites = self.current.iter().flat_map(|current| {
            let sites = current.config.sites.iter().zip(&current.kept_files);
            sites.filter_map(|(site, why)| Some((site.name.as_str(), why.as_deref()?)))
        });
        roots.chain(sites).map(|(name, why)| format!("site {name}: {why}")).collect()
    }
}
