//! The wall clock, and the Date field, which is formatted once a second.

use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock with its second already formatted.
#[derive(Debug)]
pub(crate) struct Clock {
    last: Cell<WallTime>,
    second: Cell<u64>,
    date: RefCell<[u8; 29]>,
}

/// A point in time of the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WallTime {
    /// Microseconds since 1970.
    pub(crate) microseconds: u64,
}

impl WallTime {
    /// Seconds since 1970.
    pub(crate) fn seconds(self) -> u64 {
        self.microseconds / 1_000_000
    }
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            last: Cell::new(WallTime { microseconds: 0 }),
            second: Cell::new(0),
            date: RefCell::new(howdah_http::date::format(0)),
        }
    }

    /// Reads the clock. A clock set before 1970 reads as 1970.
    pub(crate) fn now(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = WallTime {
            microseconds: since.as_secs() * 1_000_000 + u64::from(since.subsec_micros()),
        };
        self.last.set(now);
        now
    }

    /// Returns the time of the last reading.
    pub(crate) fn last(&self) -> WallTime {
        self.last.get()
    }

    /// Returns the value of a Date field.
    pub(crate) fn date(&self, now: WallTime) -> [u8; 29] {
        if self.second.replace(now.seconds()) != now.seconds() {
            *self.date.borrow_mut() = howdah_http::date::format(now.seconds());
        }
        *self.date.borrow()
    }
}
