//! The ends of a site's authorities of clients, which come while the file stays as it is.

use crate::tls::{self, PassedEnds};

/// The ends of a site's authorities of clients, up to the last look.
#[derive(Debug, Clone)]
pub(super) struct AuthorityEnds {
    /// The second, since 1970, from which on ends were not looked at.
    since: i64,
    /// The last second in which there is nothing to look at, since 1970.
    next: i64,
}

impl AuthorityEnds {
    /// The ends of authorities that are read now, or soon: earlier ends are told then.
    pub(super) fn from_now() -> AuthorityEnds {
        AuthorityEnds { since: tls::now(), next: i64::MIN }
    }

    /// Looks at the authorities, which are in PEM, if one may have ended since the last look.
    /// `None`: none can have ended.
    pub(super) fn look(&mut self, authorities: &[u8]) -> Option<PassedEnds> {
        let now = tls::now();
        if now <= self.next {
            return None;
        }
        // They were understood before.
        let passed = tls::passed_ends(authorities, self.since, now).ok()?;
        self.since = now;
        self.next = passed.next.unwrap_or(i64::MAX);
        Some(passed)
    }
}
