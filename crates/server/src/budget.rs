//! Budgets of what all sites share: bytes of temporary files, and descriptors.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Returns the free bytes of the file system; `None` if it does not tell.
pub(crate) type FreeSpace = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// The time that a measured free space is used.
const MEASURED: Duration = Duration::from_secs(1);

/// The things that are counted, of all sites and of each one, and their limits. All threads count
/// with atomic additions.
pub(crate) struct Budget {
    of: BudgetUnit,
    /// The configured limit; `None` where it follows from the free space.
    configured: Option<u64>,
    limit: AtomicU64,
    used: AtomicU64,
    sites: Box<[SiteBudget]>,
    free: FreeSpace,
    began: Instant,
    /// Milliseconds after `began` at which the free space is measured again.
    due: AtomicU64,
}

#[derive(Debug, Default)]
struct SiteBudget {
    /// `None`: half of what is still free.
    limit: Option<u64>,
    used: AtomicU64,
}

/// The things that a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetUnit {
    /// Bytes of temporary files.
    Bytes,
    /// Temporary files: each is an open one.
    Files,
    /// Connections to upstreams.
    Connections,
    /// Files that are being sent.
    SentFiles,
    /// Bytes that directives have set for requests.
    Variables,
}

/// The budget that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetUsedUp {
    /// The one of the client.
    Client(BudgetUnit),
    /// The one of the site.
    Site(BudgetUnit),
    /// The one of all sites together.
    Total(BudgetUnit),
}

impl fmt::Display for BudgetUsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BudgetUsedUp::Site(BudgetUnit::Bytes) => {
                "the site's temporary files have as many bytes as its `spill_total` allows"
            }
            BudgetUsedUp::Total(BudgetUnit::Bytes) => {
                "the temporary files of all sites have as many bytes as `spill_total` of \
                 `[limits]` allows"
            }
            BudgetUsedUp::Site(BudgetUnit::Files) => {
                "the site has as many temporary files as its share of the limit of open files \
                 (`ulimit -n`)"
            }
            BudgetUsedUp::Total(BudgetUnit::Files) => {
                "there are as many temporary files as the limit of open files (`ulimit -n`) allows"
            }
            BudgetUsedUp::Site(BudgetUnit::Connections) => {
                "the site has as many connections to its upstreams as its share of the limit of \
                 open files (`ulimit -n`)"
            }
            BudgetUsedUp::Total(BudgetUnit::Connections) => {
                "there are as many connections to upstreams as the limit of open files (`ulimit \
                 -n`) allows"
            }
            BudgetUsedUp::Site(BudgetUnit::SentFiles) => {
                "as many of the site's files are being sent as its share of the limit of open \
                 files (`ulimit -n`)"
            }
            BudgetUsedUp::Total(BudgetUnit::SentFiles) => {
                "as many files are being sent as the limit of open files (`ulimit -n`) allows"
            }
            BudgetUsedUp::Site(BudgetUnit::Variables) => {
                "the variables, notes and added fields of the site's requests take as much memory \
                 as those of a site may"
            }
            BudgetUsedUp::Total(BudgetUnit::Variables) => {
                "the variables, notes and added fields of all requests take as much memory as they \
                 may"
            }
            BudgetUsedUp::Client(_) => {
                "as many files are being sent to the client as its share of the limit of open \
                 files (`ulimit -n`)"
            }
        })
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Budget {
    /// A budget with the limits `total`, `None` for half of what is `free`, and `sites`, `None` for
    /// half of what the others leave.
    pub(crate) fn of_bytes(total: Option<u64>, sites: Vec<Option<u64>>, free: FreeSpace) -> Budget {
        Budget::new(BudgetUnit::Bytes, total, sites, free)
    }

    /// A budget of `total` descriptors. `takers` says of each site whether the site takes any: one
    /// that is alone shares with no other.
    pub(crate) fn of_descriptors(of: BudgetUnit, total: u64, takers: &[bool]) -> Budget {
        let is_shared = takers.iter().filter(|takes| **takes).count() > 1;
        let shares = vec![(!is_shared).then_some(u64::MAX); takers.len()];
        Budget::new(of, Some(total), shares, Box::new(|| None))
    }

    /// A budget of `total` bytes that directives set for requests, of that number of sites.
    pub(crate) fn of_variables(total: u64, sites: usize) -> Budget {
        Budget::new(BudgetUnit::Variables, Some(total), vec![None; sites], Box::new(|| None))
    }

    fn new(of: BudgetUnit, total: Option<u64>, sites: Vec<Option<u64>>, free: FreeSpace) -> Budget {
        let site = |limit| SiteBudget { limit, ..SiteBudget::default() };
        let budget = Budget {
            of,
            configured: total,
            limit: AtomicU64::new(total.unwrap_or(0)),
            used: AtomicU64::new(0),
            sites: sites.into_iter().map(site).collect(),
            free,
            began: Instant::now(),
            due: AtomicU64::new(0),
        };
        budget.refresh();
        budget
    }

    /// Counts `number` more of a site's.
    ///
    /// # Errors
    /// A budget has no room; nothing was counted.
    pub(crate) fn reserve(&self, site: usize, number: u64) -> Result<(), BudgetUsedUp> {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.fetch_add(number, Ordering::Relaxed).saturating_add(number);
        let Some(site) = self.sites.get(site) else {
            return self.refuse_unless(used <= limit, None, number, BudgetUsedUp::Total(self.of));
        };
        let own = site.used.fetch_add(number, Ordering::Relaxed).saturating_add(number);
        self.refuse_unless(used <= limit, Some(site), number, BudgetUsedUp::Total(self.of))?;
        // Twice as much is left for the others: however many sites take all they may, the next one
        // finds room.
        let most = site.limit.unwrap_or((limit - used) / 2);
        self.refuse_unless(own <= most, Some(site), number, BudgetUsedUp::Site(self.of))
    }

    /// Returns whether the site could have one more now.
    pub(crate) fn has_room(&self, site: usize) -> bool {
        let has_room = self.reserve(site, 1).is_ok();
        if has_room {
            self.give_back(site, 1);
        }
        has_room
    }

    fn refuse_unless(
        &self,
        has_room: bool,
        site: Option<&SiteBudget>,
        number: u64,
        no_room: BudgetUsedUp,
    ) -> Result<(), BudgetUsedUp> {
        if has_room {
            return Ok(());
        }
        self.used.fetch_sub(number, Ordering::Relaxed);
        if let Some(site) = site {
            site.used.fetch_sub(number, Ordering::Relaxed);
        }
        Err(no_room)
    }

    /// Counts `number` of a site's no longer.
    pub(crate) fn give_back(&self, site: usize, number: u64) {
        self.used.fetch_sub(number, Ordering::Relaxed);
        if let Some(site) = self.sites.get(site) {
            site.used.fetch_sub(number, Ordering::Relaxed);
        }
    }

    /// Returns whether [`Budget::refresh`] would measure.
    pub(crate) fn is_due(&self) -> bool {
        self.configured.is_none() && self.milliseconds() >= self.due.load(Ordering::Relaxed)
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Measures the free space, where the limit follows from it and was not measured within the
    /// last second. The files may take half of what is free without them. May wait for the disk.
    pub(crate) fn refresh(&self) {
        if self.configured.is_some() {
            return;
        }
        let now = self.milliseconds();
        let due = self.due.load(Ordering::Relaxed);
        let next = now + MEASURED.as_millis() as u64;
        let is_ours = now >= due
            && self
                .due
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_ours && let Some(free) = (self.free)() {
            let all = free.saturating_add(self.used.load(Ordering::Relaxed));
            self.limit.store(all / 2, Ordering::Relaxed);
        }
    }

    /// Returns the limit and what is counted.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.limit.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::BudgetUnit::Bytes;
    use super::*;

    fn budget(total: Option<u64>, sites: &[Option<u64>], free: u64) -> Budget {
        Budget::of_bytes(total, sites.to_vec(), Box::new(move || Some(free)))
    }

    #[test]
    fn a_site_takes_what_it_may_and_no_more() {
        let budget = budget(Some(100), &[Some(30), Some(90)], 0);
        assert_eq!(budget.reserve(0, 30), Ok(()));
        assert_eq!(budget.reserve(0, 1), Err(BudgetUsedUp::Site(Bytes)));
        assert_eq!(budget.reserve(1, 71), Err(BudgetUsedUp::Total(Bytes)));
        assert_eq!(budget.reserve(1, 70), Ok(()));
        assert_eq!(budget.usage(), (100, 100));
        budget.give_back(0, 30);
        budget.give_back(1, 70);
        assert_eq!(budget.usage(), (100, 0));
        assert!(budget.sites.iter().all(|site| site.used.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn however_many_sites_are_greedy_the_next_one_finds_room() {
        let budget = budget(Some(1 << 20), &[None; 11], 0);
        for site in 0..10 {
            while budget.reserve(site, 64).is_ok() {}
        }
        let (limit, used) = budget.usage();
        assert!(limit - used >= limit / 60, "{used} of {limit}");
        for _ in 0..50 {
            assert_eq!(budget.reserve(10, 64), Ok(()));
        }
    }

    #[test]
    fn without_a_configured_limit_half_of_the_free_space_may_be_taken() {
        let budget = budget(None, &[Some(u64::MAX)], 1000);
        assert_eq!(budget.usage(), (500, 0));
        assert_eq!(budget.reserve(0, 500), Ok(()));
        assert_eq!(budget.reserve(0, 1), Err(BudgetUsedUp::Total(Bytes)));
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let budget = budget(Some(10_000), &[Some(6000), Some(6000)], 0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..10_000 {
                        let (site, bytes) = (thread % 2, 1 + round % 7 * 500);
                        if budget.reserve(site, bytes).is_ok() {
                            assert!(budget.sites[site].used.load(Ordering::Relaxed) < 30_000);
                            budget.give_back(site, bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.usage().1, 0);
    }
}
