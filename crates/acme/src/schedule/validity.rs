//! Points in time, and the times for which certificates are valid.

use std::time::Duration;

/// A moment by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Seconds since 1970 of the calendar, which may be set.
    pub calendar: u64,
    /// A clock that only runs forward, from any beginning.
    pub steady: Duration,
}

/// The time for which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: u64,
    /// The last second.
    pub not_after: u64,
}

impl Validity {
    /// The time from the begin to the end, in seconds.
    pub fn length(self) -> u64 {
        self.not_after.saturating_sub(self.not_before)
    }
}

/// A certificate that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldCertificate {
    /// The time for which the certificate is valid.
    pub validity: Validity,
    /// Index of the authority that has issued the certificate; `None` if it is not configured.
    pub directory: Option<usize>,
}

/// The time in which an authority wants a certificate to be renewed (RFC 9773), in seconds since
/// 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewalWindow {
    /// The begin.
    pub start: u64,
    /// The end.
    pub end: u64,
}
