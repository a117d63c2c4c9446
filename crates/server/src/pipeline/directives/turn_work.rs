//! The work of each site's directives in one turn of an event loop. An evaluation takes less than
//! the loop can bear; many of them at once, of many connections, would take more.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};

use crate::net::wake_at_next_turn;

/// Steps of all evaluations of one site in a turn: some two milliseconds. Beyond them a crew
/// evaluates the site's directives until the loop has looked at its sockets.
pub(super) const MOST_IN_TURN: u64 = 1_000_000;
/// Steps of an evaluation that are not worth counting: a turn has some dozens of them at most.
const FEW: u64 = 1000;

/// The steps of this turn, by the number of the site.
#[derive(Debug, Default)]
pub(super) struct TurnWork {
    sites: RefCell<Vec<SiteWork>>,
    clock: Arc<TurnClock>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteWork {
    turn: u64,
    steps: u64,
}

/// Counts the turns in which there was work.
#[derive(Debug, Default)]
struct TurnClock {
    turn: AtomicU64,
    /// Whether the event loop begins the next turn.
    is_waiting: AtomicBool,
}

impl TurnWork {
    /// Returns whether the site has had as many steps in this turn as it may.
    #[inline]
    pub(super) fn is_over(&self, site: usize) -> bool {
        let sites = self.sites.borrow();
        sites.get(site).is_some_and(|work| {
            work.steps >= MOST_IN_TURN && work.turn == self.clock.turn.load(Ordering::Relaxed)
        })
    }

    /// Counts the steps of an evaluation.
    pub(super) fn add(&self, site: usize, steps: u64) {
        if steps < FEW {
            return;
        }
        let turn = self.clock.turn.load(Ordering::Relaxed);
        let mut sites = self.sites.borrow_mut();
        if sites.len() <= site {
            sites.resize(site + 1, SiteWork::default());
        }
        let work = &mut sites[site];
        if work.turn != turn {
            *work = SiteWork { turn, steps: 0 };
        }
        work.steps += steps;
        if !self.clock.is_waiting.swap(true, Ordering::Relaxed) {
            wake_at_next_turn(&Waker::from(Arc::clone(&self.clock)));
        }
    }
}

impl Wake for TurnClock {
    fn wake(self: Arc<Self>) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::{spawn_local, yield_now};

    use super::*;

    #[test]
    fn the_evaluations_of_a_site_have_a_sum_in_each_turn() {
        const STEPS: u64 = 150_000;
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let work = Rc::new(TurnWork::default());
            for _ in 0..3 {
                // As many connections as are served in one turn.
                let connections: Vec<_> = (0..40)
                    .map(|_| {
                        let work = Rc::clone(&work);
                        spawn_local(async move {
                            let is_here = !work.is_over(3);
                            if is_here {
                                work.add(3, STEPS);
                            }
                            assert!(!work.is_over(2), "another site");
                            is_here
                        })
                    })
                    .collect();
                let mut here = 0;
                for connection in connections {
                    here += u64::from(connection.await.unwrap());
                }
                assert_eq!(here, MOST_IN_TURN.div_ceil(STEPS));
                yield_now().await;
                assert!(!work.is_over(3), "another turn");
            }
            (0..10_000).for_each(|_| work.add(1, FEW - 1));
            assert!(!work.is_over(1));
        });
    }
}
