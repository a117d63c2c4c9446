//! The reasons why something of a site is not as it should be, as the supervisor tells them. Only
//! the status and `/readyz` ask for them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reasons, by index of the site.
#[derive(Debug, Default)]
pub(crate) struct SiteReasons(Mutex<HashMap<usize, String>>);

impl SiteReasons {
    /// Notes a site's reason; `None` where there is none any more.
    pub(super) fn note(&self, site: usize, why: Option<String>) {
        let mut all = self.lock();
        match why {
            Some(why) => all.insert(site, why),
            None => all.remove(&site),
        };
    }

    /// Returns a site's reason; `None` where all is well, or nothing is known.
    pub(crate) fn of(&self, site: usize) -> Option<String> {
        self.lock().get(&site).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
