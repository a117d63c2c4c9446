//! Memory of connections that are gone.

use std::cell::Cell;

/// Connections whose memory is worth the milliseconds that it takes to give it back.
const MANY: usize = 500;

/// The most connections since memory was last given back to the kernel.
#[derive(Debug, Default)]
pub(super) struct MostConnections {
    most: Cell<usize>,
}

impl MostConnections {
    /// Notes how many connections there are. Returns whether most of many have gone, and says so
    /// once: their memory should go back to the kernel.
    pub(super) fn have_gone(&self, present: usize) -> bool {
        let most = self.most.get().max(present);
        let has_gone = most >= MANY && present <= most / 4;
        self.most.set(if has_gone { present } else { most });
        has_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_go_once() {
        let connections = MostConnections::default();
        let looks = [(400, false), (10, false), (800, false), (201, false), (200, true)];
        for (present, gone) in looks.into_iter().chain([(0, false), (600, false), (3, true)]) {
            assert_eq!(connections.have_gone(present), gone, "{present}");
        }
    }
}
