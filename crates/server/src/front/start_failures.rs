//! The reasons why PHP does not start in pools, as the supervisor tells them. Only `/readyz` asks.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// By index of the site, why PHP does not start.
#[derive(Debug, Default)]
pub(crate) struct StartFailures(Mutex<HashMap<usize, String>>);

impl StartFailures {
    /// Notes why PHP does not start for a site; `None` if it has started.
    pub(super) fn note(&self, site: usize, why: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => all.insert(site, why),
            None => all.remove(&site),
        };
    }

    /// Returns why PHP does not start for a site; `None` if it does, or if that is not known.
    pub(crate) fn of(&self, site: usize) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&site).cloned()
    }
}
