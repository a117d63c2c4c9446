//! The first orders of names on demand in the last hour, and the shares of it.
//!
//! An hour has room for a number of orders, which visitors use up: of names that the owner of a
//! folder, or of a domain, can think of. Therefore everybody leaves a part to the others:
//!
//! ```text
//!   the hour ─▶ a site: three quarters, where several sites have names on demand
//!                └─▶ the owner of a name's folder: three quarters of these
//!                     └─▶ a domain: half of what the owner's other domains have left of these
//! ```
//! Among those that wait and have a share left, the next one is of the site, the owner and the
//! domain that had the fewest orders.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ClockReading;

/// The time over which first orders on demand are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// The parties that a name on demand belongs to, as numbers that the caller gives out. A number of
/// an owner is for one site, and a number of a domain for one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The site that has the name.
    pub site: usize,
    /// The owner of the name's folder; `None` where it is no customer's.
    pub owner: Option<usize>,
    /// The domain.
    pub domain: usize,
}

/// The reason why a first order on demand has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// The orders of the hour.
    Hour,
    /// The site's share of them.
    Site,
    /// The share of the folder's owner.
    Owner,
    /// The domain's share.
    Domain,
}

/// The first orders on demand that have begun.
#[derive(Debug, Default)]
pub(super) struct FirstOrders {
    /// Orders that may begin in an hour.
    pub(super) per_hour: usize,
    /// Whether several sites have names on demand.
    pub(super) has_several_sites: bool,
    /// Steady times of orders, those of the last hour at the end.
    begun: VecDeque<(Duration, Claimant)>,
    /// By domain, what [`FirstOrders::room`] has found since the last order.
    rooms: RefCell<HashMap<usize, Duration>>,
}

/// Orders of the hour: of all, of a site, of an owner, and of a domain.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Served {
    site: usize,
    owner: usize,
    domain: usize,
    all: usize,
}

impl FirstOrders {
    /// Records that an order begins.
    pub(super) fn begin(&mut self, claimant: Claimant, now: ClockReading) {
        while self.begun.front().is_some_and(|(at, _)| *at + HOUR <= now.steady) {
            self.begun.pop_front();
        }
        self.begun.push_back((now.steady, claimant));
        self.rooms.borrow_mut().clear();
    }

    /// Returns the orders that the claimant's parties had in the last hour.
    pub(super) fn served(&self, claimant: Claimant, now: ClockReading) -> Served {
        let mut served = Served::default();
        let recent = self.begun.iter().filter(|(at, _)| *at + HOUR > now.steady);
        recent.for_each(|(_, other)| served.count(claimant, *other, 1));
        served
    }

    /// Returns why the claimant's next order has to wait; `None` if it may begin.
    pub(super) fn used_up(&self, claimant: Claimant, now: ClockReading) -> Option<UsedUp> {
        self.limit(claimant, self.served(claimant, now))
    }

    /// Steady time from which on the claimant's next order may begin, if no other one does.
    pub(super) fn room(&self, claimant: Claimant) -> Duration {
        let mut rooms = self.rooms.borrow_mut();
        *rooms.entry(claimant.domain).or_insert_with(|| self.find_room(claimant))
    }

    fn find_room(&self, claimant: Claimant) -> Duration {
        let mut served = Served::default();
        self.begun.iter().for_each(|(_, other)| served.count(claimant, *other, 1));
        let mut room = Duration::ZERO;
        let mut oldest = self.begun.iter();
        while self.limit(claimant, served).is_some() {
            // Without any allowed, there is no such time.
            let Some((at, other)) = oldest.next() else {
                return Duration::MAX;
            };
            served.count(claimant, *other, -1);
            room = *at + HOUR;
        }
        room
    }

    fn limit(&self, claimant: Claimant, served: Served) -> Option<UsedUp> {
        let of_site = match self.has_several_sites {
            true => three_quarters(self.per_hour),
            false => self.per_hour,
        };
        let of_owner = match claimant.owner {
            Some(_) => three_quarters(of_site),
            None => of_site,
        };
        let others = served.owner - served.domain;
        let of_domain = (of_owner.saturating_sub(others) / 2).max(1);
        if served.all >= self.per_hour {
            Some(UsedUp::Hour)
        } else if served.site >= of_site {
            Some(UsedUp::Site)
        } else if served.owner >= of_owner {
            Some(UsedUp::Owner)
        } else {
            (served.domain >= of_domain).then_some(UsedUp::Domain)
        }
    }
}

impl Served {
    /// Adds orders of `other`.
    fn count(&mut self, claimant: Claimant, other: Claimant, orders: isize) {
        let is_site = claimant.site == other.site;
        let is_owner = is_site && claimant.owner == other.owner;
        let add = |number: &mut usize, is_its| {
            if is_its {
                *number = number.saturating_add_signed(orders);
            }
        };
        add(&mut self.all, true);
        add(&mut self.site, is_site);
        add(&mut self.owner, is_owner);
        add(&mut self.domain, is_owner && claimant.domain == other.domain);
    }
}

/// Returns all but a quarter.
fn three_quarters(number: usize) -> usize {
    number - number / 4
}
