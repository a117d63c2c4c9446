//! Memory of connections that are gone.

use std::cell::Cell;

use howdah_sys::allocator;

/// Connections whose memory is worth the milliseconds that it takes to give it back.
const CROWD: usize = 500;

/// The most connections since memory was last given back to the kernel.
#[derive(Debug, Default)]
pub(super) struct MostConnections {
    most: Cell<usize>,
}

impl MostConnections {
    /// Notes how many connections there are. Gives memory back to the kernel after a crowd of them
    /// has gone.
    pub(super) fn note(&self, present: usize) {
        if self.has_gone(present) {
            allocator::give_back();
        }
    }

    /// Whether most of a crowd has gone. Says so once.
    fn has_gone(&self, present: usize) -> bool {
        let most = self.most.get().max(present);
        let has_gone = most >= CROWD && present <= most / 4;
        self.most.set(if has_gone { present } else { most });
        has_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_goes_once() {
        let crowd = MostConnections::default();
        let looks = [(400, false), (10, false), (800, false), (201, false), (200, true)];
        for (present, gone) in looks.into_iter().chain([(0, false), (600, false), (3, true)]) {
            assert_eq!(crowd.has_gone(present), gone, "{present}");
        }
    }
}
