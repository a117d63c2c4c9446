//! Tasks that do one job after the other, and run in the turn of the task that gives them a job.
//!
//! Most jobs need not wait. Done in place, they cost no turns of the event loop, and find their
//! data in the processor's caches.

use std::cell::{OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A task, and the place where it gets its next job.
pub(super) struct JobTask<J> {
    job: RefCell<Option<J>>,
    /// Does one job after the other. `None`: the task has ended.
    service: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    /// The waker of the task, once it has run.
    waker: OnceCell<Waker>,
}

/// The time that the tasks have had which ran in the present turn of another task.
#[derive(Debug, Default)]
pub(super) struct TurnTime {
    /// `None`: none has run.
    began: Option<Instant>,
    runs: usize,
    is_over: bool,
}

/// The time for which tasks run in place, before others have their turn. Further ones run in their
/// own turns.
const TURN: Duration = Duration::from_micros(250);
/// Tasks that run between two looks at the clock.
const LOOK: usize = 4;

impl TurnTime {
    /// Returns whether another task may run in this turn.
    fn take(&mut self) -> bool {
        if !self.is_over && self.runs.is_multiple_of(LOOK) {
            let now = Instant::now();
            self.is_over = now.duration_since(*self.began.get_or_insert(now)) > TURN;
        }
        self.runs += 1;
        !self.is_over
    }
}

impl<J: 'static> JobTask<J> {
    /// Begins a task with its first job. `service` gets the task, does the jobs that come there,
    /// and ends when there is to be no further one.
    pub(super) fn spawn<S: Future<Output = ()> + 'static>(
        job: J,
        service: impl FnOnce(Weak<JobTask<J>>) -> S,
    ) {
        let task = Rc::new_cyclic(|task| JobTask {
            job: RefCell::new(Some(job)),
            // In a box: the runtime moves a task when it begins and when it ends.
            service: RefCell::new(Some(Box::pin(service(task.clone())))),
            waker: OnceCell::new(),
        });
        drop(tokio::task::spawn_local(poll_fn(move |context| {
            task.waker.get_or_init(|| context.waker().clone());
            task.poll(context)
        })));
    }

    /// Waits for the next job.
    pub(super) async fn next(task: &Weak<JobTask<J>>) -> J {
        poll_fn(|_| match task.upgrade().and_then(|task| task.job.take()) {
            Some(job) => Poll::Ready(job),
            None => Poll::Pending,
        })
        .await
    }
}

impl<J> JobTask<J> {
    /// Gives a job to the task, which waits for one. It runs at once until it waits, as far as the
    /// turn has time.
    pub(super) fn give(&self, job: J, time: &mut TurnTime) {
        *self.job.borrow_mut() = Some(job);
        let waker = self.waker.get().expect("a task that waits has run");
        if time.take() {
            self.run(waker);
        } else {
            waker.wake_by_ref();
        }
    }

    /// Runs the task outside its turn. Events that it waits for wake the task. A panic ends it
    /// alone, as it would in its turn.
    fn run(&self, waker: &Waker) {
        let run = AssertUnwindSafe(|| self.poll(&mut Context::from_waker(waker)));
        match panic::catch_unwind(run) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(())) => {}
            Err(_) => drop(self.service.take()),
        }
        waker.wake_by_ref();
    }

    /// Ready: the task has ended.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut service = self.service.borrow_mut();
        let Some(future) = &mut *service else {
            return Poll::Ready(());
        };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            *service = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::yield_now;

    use super::*;

    type Log = Rc<RefCell<Vec<String>>>;

    /// A job that is logged, with the time that it takes.
    struct TestJob(&'static str, Duration);

    /// Runs `test` with tasks that wait for jobs, as many as there are names.
    fn with_tasks(names: &[&'static str], test: impl AsyncFnOnce(Vec<Rc<JobTask<TestJob>>>, Log)) {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let (tasks, log) = (Rc::new(RefCell::new(Vec::new())), Log::default());
            for &name in names {
                let (tasks, log) = (Rc::clone(&tasks), Rc::clone(&log));
                JobTask::spawn(TestJob("first", Duration::ZERO), |task| async move {
                    tasks.borrow_mut().extend(task.upgrade());
                    loop {
                        let TestJob(job, time) = JobTask::next(&task).await;
                        log.borrow_mut().push(format!("{name}: {job}"));
                        std::thread::sleep(time);
                        assert_ne!(job, "panic");
                        if job == "wait" {
                            yield_now().await;
                            log.borrow_mut().push(format!("{name}: waited"));
                        }
                    }
                });
            }
            yield_now().await;
            log.borrow_mut().clear();
            let tasks = tasks.take();
            test(tasks, log).await;
        });
    }

    #[test]
    fn jobs_are_done_in_place_and_go_on_in_their_own_turn_where_they_wait() {
        with_tasks(&["a", "b"], async |tasks, log| {
            let mut time = TurnTime::default();
            for (task, job) in tasks.iter().zip(["wait", "next"]) {
                task.give(TestJob(job, Duration::ZERO), &mut time);
            }
            assert_eq!(*log.borrow(), ["a: wait", "b: next"]);
            yield_now().await;
            yield_now().await;
            assert_eq!(*log.borrow(), ["a: wait", "b: next", "a: waited"]);
        });
    }

    #[test]
    fn a_panic_ends_its_task_alone() {
        with_tasks(&["a", "b"], async |tasks, log| {
            let mut time = TurnTime::default();
            for (task, job) in tasks.iter().zip(["panic", "next"]) {
                task.give(TestJob(job, Duration::ZERO), &mut time);
            }
            assert_eq!(*log.borrow(), ["a: panic", "b: next"]);
            yield_now().await;
            // The event loop has dropped the task.
            assert_eq!(Rc::strong_count(&tasks[0]), 1);
            assert_eq!(Rc::strong_count(&tasks[1]), 2);
        });
    }

    #[test]
    fn jobs_beyond_a_turn_are_done_in_turns_of_their_own() {
        let names = ["a", "b", "c", "d", "e", "f"];
        with_tasks(&names, async |tasks, log| {
            let mut time = TurnTime::default();
            for task in &tasks {
                task.give(TestJob("long", TURN), &mut time);
            }
            assert_eq!(log.borrow().len(), LOOK);
            yield_now().await;
            assert_eq!(log.borrow().len(), names.len());
        });
    }
}
