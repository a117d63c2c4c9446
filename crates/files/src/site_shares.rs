//! The shares that sites have in things of which there is a limited number.

use std::collections::HashMap;
use std::hash::Hash;

/// Things of which there is a limited number, counted by site. A site takes half of those that are
/// left: however many sites take all that they may, the next one finds room. A site that is alone
/// takes all.
#[derive(Debug)]
pub(crate) struct SiteShares<S> {
    most: usize,
    /// Whether there is more than one site.
    is_shared: bool,
    used: usize,
    by_site: HashMap<S, usize>,
}

impl<S: Hash + Eq> SiteShares<S> {
    /// Room for `most` things.
    pub(crate) fn of(most: usize, is_shared: bool) -> SiteShares<S> {
        SiteShares {
            most,
            is_shared,
            used: 0,
            by_site: HashMap::new(),
        }
    }

    /// The number of things for which there is room.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns whether `site` may have `count` more.
    pub(crate) fn has_room(&self, site: &S, count: usize) -> bool {
        let Some(left) = self.most.checked_sub(self.used + count) else {
            return false;
        };
        let own = self.by_site.get(site).copied().unwrap_or_default() + count;
        !self.is_shared || own <= left / 2
    }

    /// Counts one more of `site`.
    pub(crate) fn take(&mut self, site: S) {
        self.used += 1;
        *self.by_site.entry(site).or_default() += 1;
    }

    /// Counts one of `site` no longer.
    pub(crate) fn give_back(&mut self, site: &S) {
        if let Some(own) = self.by_site.get_mut(site) {
            self.used -= 1;
            *own -= 1;
            if *own == 0 {
                self.by_site.remove(site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(shares: &mut SiteShares<u32>, site: u32) -> usize {
        let mut count = 0;
        while shares.has_room(&site, 1) {
            shares.take(site);
            count += 1;
        }
        count
    }

    #[test]
    fn a_site_takes_half_of_what_is_left() {
        let mut shares = SiteShares::of(900, true);
        assert_eq!([1, 2, 3].map(|site| taken(&mut shares, site)), [300, 200, 133]);
        assert!(!shares.has_room(&4, 90) && shares.has_room(&4, 89));
        (0..300).for_each(|_| shares.give_back(&1));
        assert_eq!(taken(&mut shares, 2), 55);
        shares.give_back(&1);
        assert_eq!(shares.used, 388, "it has none");
    }

    #[test]
    fn a_site_that_is_alone_takes_all() {
        assert_eq!(taken(&mut SiteShares::of(900, false), 1), 900);
        assert!(!SiteShares::of(0, false).has_room(&1, 1));
    }
}
