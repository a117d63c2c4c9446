//! The signs that a script is not stuck.

use crate::front::Front;
use crate::sync::Ordering;
use crate::time_grant::TimeGrant;

/// The signs of life of a running request. Nothing is checked: a hostile worker may store any
/// value, therefore the caller limits what a sign can win.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignsOfLife {
    /// Bytes of output modulo 2^32, counted from the start of the response.
    pub printed: u32,
    /// The time limit that the script has set last.
    pub grant: TimeGrant,
}

impl Front {
    /// Reads the signs of life of the request in the slot at this index.
    pub fn signs_of_life(&self, slot: usize) -> SignsOfLife {
        let words = self.region.slot(slot);
        SignsOfLife {
            printed: words.printed.load(Ordering::Relaxed),
            grant: TimeGrant::unpack(words.grant.load(Ordering::Relaxed)),
        }
    }
}
