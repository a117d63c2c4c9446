//! Output that a script leaves in its slot: the worker tells of it at a flush, at the end and when
//! there is much of it, and the script computes or sleeps meanwhile.
//!
//! A worker that had to look at the clock would pay for it with each `echo`. The front looks at the
//! slots instead, while any are out.

use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::{SlotWaiter, Waiters};
use crate::deadlines::MissedDeadline;

/// The interval at which output is looked for that no worker has told of. Output that was there the
/// last time goes to the client, thus within two intervals of its print.
const SHOW: Duration = Duration::from_millis(90);

/// The output that the worker has printed and perhaps not told of: bytes modulo 2^32,
/// counted from the start of the response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UntoldOutput {
    /// Printed when the slot was last looked at.
    printed: u32,
    /// Printed when the exchange was last woken for it; 0: never.
    shown: u32,
}

/// The news of a slot that its exchange cannot see in the slot itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlotNews {
    /// The deadline that the request has missed.
    pub overdue: Option<MissedDeadline>,
    /// Output waits that the worker has not told of.
    pub shows: bool,
}

impl Waiters {
    /// Looks at the slots from now on, until none is out: for output which a script leaves in its
    /// slot, since the script computes or sleeps and its client waits for what was printed before;
    /// and for scripts that have missed their deadline, which [`Waiters::sweep`] would see late.
    pub(crate) fn watch_slots(self: &Rc<Self>) {
        if self.showing.replace(true) {
            return;
        }
        let waiters = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(SHOW).await;
                let Some(waiters) = waiters.upgrade() else {
                    return;
                };
                if waiters.open.get() == 0 {
                    waiters.showing.set(false);
                    return;
                }
                for (slot, entry) in waiters.entries.borrow_mut().iter_mut().enumerate() {
                    if let SlotWaiter::Waiting { waker, untold, .. } = entry
                        && untold.look(waiters.zygote.front.signs_of_life(slot).printed)
                    {
                        waker.iter().for_each(Waker::wake_by_ref);
                    }
                }
                waiters.sweep_scripts(Instant::now());
            }
        });
    }
}

impl UntoldOutput {
    /// Notes how much is printed now. Returns whether output waits that was printed before the last
    /// look, and that the exchange was not woken for.
    pub(super) fn look(&mut self, printed: u32) -> bool {
        let waits = self.printed != self.shown;
        if waits {
            self.shown = printed;
        }
        self.printed = printed;
        waits
    }

    /// The news of a slot with this output.
    pub(super) fn news(self, overdue: Option<MissedDeadline>) -> SlotNews {
        SlotNews { overdue, shows: self.shown != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_was_there_at_the_last_look_is_news_once() {
        let mut untold = UntoldOutput::default();
        for (printed, waits) in
            [(0, false), (5, false), (5, true), (5, false), (9, false), (9, true)]
        {
            assert_eq!(untold.look(printed), waits, "{printed}");
        }
        assert!(untold.news(None).shows && !UntoldOutput::default().news(None).shows);
    }
}
