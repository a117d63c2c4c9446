//! The releases that are not served, as the supervisor tells them. Only the status asks for them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// By index of the site, what is served in place of a release, and why.
#[derive(Debug, Default)]
pub(crate) struct HeldReleases(Mutex<HashMap<usize, String>>);

impl HeldReleases {
    /// Notes a site's release that is not served.
    pub(super) fn note(&self, site: usize, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(site, why);
    }

    /// Returns why a site's release is not served; `None` if it is.
    pub(crate) fn of(&self, site: usize) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&site).cloned()
    }
}
