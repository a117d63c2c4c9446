//! The reasons why something of a site is not as it should be, as the supervisor tells them. Only
//! the status and `/readyz` ask for them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The subject of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReasonTopic {
    /// A release that the site's link leads to is not served.
    HeldRelease,
    /// PHP does not start.
    StartFailure,
    /// The files of certificates, or of the authorities of clients, have changed and cannot be
    /// used: the former content stays in use.
    KeptFiles,
    /// The document root is not there.
    MissingRoot,
}

impl ReasonTopic {
    /// All topics, in the order of their numbers.
    pub(crate) const ALL: [ReasonTopic; 4] = [
        ReasonTopic::HeldRelease,
        ReasonTopic::StartFailure,
        ReasonTopic::KeptFiles,
        ReasonTopic::MissingRoot,
    ];
}

/// Reasons, by topic and index of the site.
#[derive(Debug, Default)]
pub(crate) struct SiteReasons(Mutex<HashMap<(ReasonTopic, usize), String>>);

impl SiteReasons {
    /// Notes a site's reason; `None` where there is none any more.
    pub(super) fn note(&self, topic: ReasonTopic, site: usize, why: Option<String>) {
        let mut all = self.lock();
        match why {
            Some(why) => all.insert((topic, site), why),
            None => all.remove(&(topic, site)),
        };
    }

    /// Returns a site's reason; `None` where all is well, or nothing is known.
    pub(crate) fn of(&self, topic: ReasonTopic, site: usize) -> Option<String> {
        self.lock().get(&(topic, site)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(ReasonTopic, usize), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
