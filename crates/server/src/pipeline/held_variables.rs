//! The memory of what directives have set for a request: variables, notes and fields. A request
//! that waits for a worker, an upstream or its client has it until it is answered.

use std::sync::Arc;

use howdah_site::{RuledRequest, Site};

use crate::budget::{Budget, BudgetUsedUp};
use crate::front::FrontShared;

/// Bytes of a request's state in its site's account, until dropped.
#[derive(Debug)]
pub(super) struct HeldVariables<'t> {
    shared: &'t FrontShared,
    site: usize,
    bytes: u64,
}

impl<'t> HeldVariables<'t> {
    /// Counts the state of a request. `None`: there is little of it, as nearly always.
    ///
    /// # Errors
    /// The requests of the site, or of all sites, have too much already.
    #[inline]
    pub(super) fn of(
        shared: &'t Arc<FrontShared>,
        site: &Site,
        ruled: Option<&RuledRequest>,
    ) -> Result<Option<HeldVariables<'t>>, BudgetUsedUp> {
        let bytes = ruled.map_or(0, |ruled| ruled.state.weight());
        if bytes <= LITTLE {
            return Ok(None);
        }
        let (site, bytes) = (site.number(), bytes as u64);
        shared.variables.reserve(site, bytes)?;
        Ok(Some(HeldVariables { shared, site, bytes }))
    }
}

impl Drop for HeldVariables<'_> {
    fn drop(&mut self) {
        self.shared.variables.give_back(self.site, self.bytes);
    }
}

/// Bytes of a state that are not counted. The variables of applications, and the fields of
/// browsers, take less than a fourth of them.
const LITTLE: usize = 16 << 10;

/// Bytes that directives may have set for the requests of all sites at a time. A site has half of
/// what is left, 32 MiB: 80 requests with as many variables and fields as a request may have.
/// Further ones get 503.
const MOST: u64 = 96 << 20;

/// Returns the budget of what directives set for the requests of that number of sites.
pub(crate) fn variables_budget(sites: usize) -> Budget {
    Budget::of_variables(MOST, sites)
}
