//! The sums over all fronts, also those that have ended.

use std::sync::Arc;

use super::{FrontCounters, Totals};

/// The counters of all fronts since the start of the server. A front is forked with those of its
/// predecessors, which may still be counting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// The sums of fronts that have ended.
    ended: Arc<Totals>,
    fronts: Vec<Arc<FrontCounters>>,
}

impl Ledger {
    /// Adds the counters of a new front.
    pub(crate) fn add(&mut self, front: Arc<FrontCounters>) {
        self.fronts.push(front);
    }

    /// Makes sums of the counters that only this ledger has: their fronts have ended.
    pub(crate) fn fold(&mut self, is_ended: impl Fn(&Arc<FrontCounters>) -> bool) {
        let ended: Vec<_> = self.fronts.extract_if(.., |front| is_ended(front)).collect();
        if !ended.is_empty() {
            let totals = Arc::make_mut(&mut self.ended);
            ended.iter().for_each(|front| front.add_to(totals));
        }
    }

    /// Returns the sums over all fronts.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::clone(&self.ended);
        self.fronts.iter().for_each(|front| front.add_to(&mut totals));
        totals
    }

    /// Returns the sums of one site over all fronts, without those of its lanes. The numbers of
    /// other sites are not read: a host may have thousands of them.
    pub(crate) fn site(&self, name: &str) -> Totals {
        let mut totals = Totals::default();
        if let Some(ended) = self.ended.sites.get(name) {
            totals.words_of(name).clone_from(ended);
        }
        self.fronts.iter().for_each(|front| front.add_site_to(name, &mut totals));
        totals
    }

    /// A ledger that begins with these sums.
    pub(crate) fn inherit(totals: Totals) -> Ledger {
        Ledger {
            ended: Arc::new(totals),
            fronts: Vec::new(),
        }
    }
}
