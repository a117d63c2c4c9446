//! The time limits of requests that have slots.

use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use howdah_ipc::SlotPhase;
use howdah_ipc::front::SlotStatus;

use super::{SlotWaiter, Waiters};
use crate::deadlines::{Deadlines, MissedDeadline};
use crate::{KILL_SIGNAL, SOFT_TIMEOUT_SIGNAL};

/// The time between the soft time-out and the end of the worker by a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Time between two sweeps, usually half a second, from which on a sweep is late.
const LATE: Duration = Duration::from_secs(2);

/// Attempts to kill a worker. After them the zygote is given up: it does not do what it is told.
const MOST_KILLS: u32 = 3;
/// The reasons to give a zygote up.
const DISOBEYS: &str = "a worker that was killed does not end; the zygote may be stopped";
const STUCK: &str = "no worker took a request within `queue_timeout`, and none runs a script; the \
                     workers may be stopped";

/// The time that the request of a slot has waited for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkerWait {
    /// The request does not wait.
    None,
    InTime,
    /// The request has waited for its whole time limit, or longer.
    TooLong,
}

impl Waiters {
    /// Enforces all time limits, and looks after a queue from which nothing is taken.
    pub(crate) fn sweep(self: &Rc<Self>, now: Instant) {
        let before = self.swept.replace(Some(now)).unwrap_or(now);
        if self.open.get() == 0 {
            return;
        }
        let pause = now.saturating_duration_since(before);
        if pause >= LATE {
            self.forgive(pause);
        }
        let slots = 0..self.zygote.front.geometry().slots;
        let waits = slots.map(|slot| self.sweep_slot(slot, now)).max();
        let (_, taken) = self.zygote.front.queued();
        let is_moving = self.taken.replace(taken) != taken;
        let answered = self.zygote.answered();
        let has_answered = self.answered.replace(answered) != answered;
        match waits {
            // The queue alone proves nothing: a hostile thread may empty it, and answer nobody.
            Some(WorkerWait::TooLong)
                if !has_answered
                    && !self.zygote.front.is_any_taken()
                    && self.zygote.has_settled() =>
            {
                self.zygote.give_up(STUCK)
            }
            _ if is_moving => {}
            // Resting workers are woken only if the others take nothing from the queue.
            Some(WorkerWait::InTime | WorkerWait::TooLong) => {
                self.zygote.front.wake_all();
                self.zygote.unstick(self.zygote.front.queued().0);
            }
            Some(WorkerWait::None) | None => {}
        }
    }

    /// Enforces the deadlines of scripts that run, between two sweeps. Not after a pause of this
    /// thread, which only a sweep makes up for.
    pub(super) fn sweep_scripts(self: &Rc<Self>, now: Instant) {
        let is_late = |swept| now.saturating_duration_since(swept) >= LATE;
        if self.swept.get().is_none_or(is_late) {
            return;
        }
        for slot in 0..self.zygote.front.geometry().slots {
            // The sweep looks at requests that wait in the queue.
            if !self.zygote.front.is_queued(slot) {
                self.sweep_slot(slot, now);
            }
        }
    }

    /// Makes up for a time in which this thread did not look, since it was held or got no
    /// processor. The work that workers have done meanwhile is seen after this sweep.
    fn forgive(&self, pause: Duration) {
        for entry in &mut *self.entries.borrow_mut() {
            match entry {
                SlotWaiter::Unused => {}
                SlotWaiter::Waiting { deadlines, .. } => deadlines.forgive(pause),
                SlotWaiter::Abandoned { deadlines, .. } => {
                    deadlines.iter_mut().for_each(|deadlines| deadlines.forgive(pause));
                }
            }
        }
    }

    /// Enforces the slot's deadlines. Returns whether its request waits for a worker.
    pub(super) fn sweep_slot(self: &Rc<Self>, slot: usize, now: Instant) -> WorkerWait {
        let mut entries = self.entries.borrow_mut();
        match &mut entries[slot] {
            SlotWaiter::Unused => WorkerWait::None,
            SlotWaiter::Waiting { waker, deadlines, overdue, .. } => {
                let waits = self.zygote.front.is_queued(slot);
                let late = if waits {
                    deadlines.postpone(now)
                } else {
                    deadlines.begin(|| self.zygote.front.began(slot), &self.limits);
                    let signs = self.zygote.front.signs_of_life(slot);
                    deadlines.count(signs, now, &self.limits)
                };
                if late.is_some() && *overdue != late {
                    *overdue = late;
                    waker.iter().for_each(Waker::wake_by_ref);
                }
                match late {
                    Some(MissedDeadline::Waiting) => WorkerWait::TooLong,
                    _ if waits => WorkerWait::InTime,
                    _ => WorkerWait::None,
                }
            }
            SlotWaiter::Abandoned { .. } => {
                drop(entries);
                self.sweep_abandoned(slot, now);
                WorkerWait::None
            }
        }
    }

    /// Enforces the deadlines of a script whose response nobody reads.
    fn sweep_abandoned(self: &Rc<Self>, slot: usize, now: Instant) {
        let mut entries = self.entries.borrow_mut();
        let SlotWaiter::Abandoned { lease, deadlines, kill_at, kills, .. } = &mut entries[slot]
        else {
            return;
        };
        let (phase, worker) = match self.zygote.front.slot_status(lease.slot()) {
            Ok(SlotStatus { phase, worker: Some(worker), .. }) => (phase, worker),
            // A worker had begun the request, and no correct one puts it back. Nothing else would
            // ever end the use of such a slot.
            Ok(_) | Err(_) => {
                drop(entries); // All exchanges hear of it.
                return self.zygote.condemn();
            }
        };
        if phase == SlotPhase::Done {
            drop(entries); // The slot goes back.
            return self.news(slot);
        }
        let pid = self.zygote.pid(worker);
        let is_late = |deadlines: &mut Deadlines| {
            deadlines.begin(|| self.zygote.front.began(slot), &self.limits);
            let signs = self.zygote.front.signs_of_life(slot);
            deadlines.count(signs, now, &self.limits).is_some()
        };
        if deadlines.take_if(is_late).is_some() {
            self.zygote.kill(worker, pid, SOFT_TIMEOUT_SIGNAL);
            *kill_at = Some(now + GRACE);
        } else if kill_at.take_if(|at| *at <= now).is_some() {
            if *kills == MOST_KILLS {
                drop(entries); // All exchanges hear of it.
                return self.zygote.give_up(DISOBEYS);
            }
            *kills += 1;
            self.zygote.kill(worker, pid, KILL_SIGNAL);
            // A hostile worker may have named another one. Then the next attempt counts.
            *kill_at = Some(now + GRACE);
        }
    }
}
