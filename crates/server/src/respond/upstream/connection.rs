//! A connection to an upstream, which has a place among all of them.

use std::fmt;
use std::sync::Arc;

use crate::body::Duplex;
use crate::budget::{Budget, BudgetUsedUp};

/// A connection to an upstream. Its descriptor is closed before its place is given back.
pub(super) struct UpstreamConnection {
    pub(super) stream: Box<dyn Duplex>,
    pub(super) place: UpstreamPlace,
}

/// The place of a connection among those that its site and all sites may have to upstreams, until
/// dropped.
#[derive(Debug)]
pub(super) struct UpstreamPlace {
    places: Arc<Budget>,
    site: usize,
}

impl UpstreamPlace {
    /// Takes a place for the site with this number.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take(places: &Arc<Budget>, site: usize) -> Result<UpstreamPlace, BudgetUsedUp> {
        places.reserve(site, 1)?;
        Ok(UpstreamPlace { places: Arc::clone(places), site })
    }
}

impl Drop for UpstreamPlace {
    fn drop(&mut self) {
        self.places.give_back(self.site, 1);
    }
}

impl fmt::Debug for UpstreamConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamConnection")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
