//! What a file is: a variant that is to be chosen, then what its extensions say.

use super::{Asked, Stop, Walk};
use crate::disk::Disk;

impl<'r, D: Disk> Walk<'_, 'r, D> {
    /// Media type, charset, encoding, languages and the handler that goes with an extension.
    pub(super) fn find_type(&mut self, _asked: &mut Asked<'r>) -> Result<(), Stop> {
        Ok(())
    }
}
