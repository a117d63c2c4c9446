//! The waker of a connection's task, which it can silence.
//!
//! The library wakes the task for each batch of responses, also where the task itself runs those
//! that make them, and looks at its work next in any case. Another turn for that would find
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Wakes a task, unless it is silent.
pub(super) struct TurnWaker {
    task: Waker,
    is_silent: AtomicBool,
}

impl TurnWaker {
    pub(super) fn new(task: Waker) -> Arc<TurnWaker> {
        Arc::new(TurnWaker { task, is_silent: AtomicBool::new(false) })
    }

    /// Does `work`, for which nothing wakes the task. The task must look at all that the work may
    /// have caused before it waits.
    pub(super) fn silently<R>(&self, work: impl FnOnce() -> R) -> R {
        self.is_silent.store(true, Ordering::Relaxed);
        let result = work();
        self.is_silent.store(false, Ordering::Relaxed);
        result
    }
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_silent.load(Ordering::Relaxed) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_not_woken_for_its_own_work() {
        let wakes = Arc::new(CountedWakes::default());
        let turn = TurnWaker::new(Waker::from(Arc::clone(&wakes)));
        let waker = Waker::from(Arc::clone(&turn));
        waker.wake_by_ref();
        turn.silently(|| waker.wake_by_ref());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        waker.wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    }
}
