//! The tasks of requests, which are used again.
//!
//! A task has room for all that serving a request may need, some kilobytes. A task that has served
//! its request takes the next one of any connection of its thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use ::h2::RecvStream;
use ::h2::server::SendResponse;
use http::Request;

use super::outbox::OutboxChunk;
use super::shared::H2Shared;
use super::stream;
use crate::front::ArrivingRequest;
use crate::streams::OpenRequest;

/// A request that a task serves.
pub(super) struct RequestJob {
    pub(super) shared: Rc<H2Shared>,
    pub(super) request: Request<RecvStream>,
    pub(super) respond: SendResponse<OutboxChunk>,
    /// The request came in early data.
    pub(super) is_early: bool,
    pub(super) arriving: ArrivingRequest,
    pub(super) open: OpenRequest,
}

/// The place where a task without a request gets the next one.
#[derive(Default)]
struct TaskSeat {
    job: RefCell<Option<RequestJob>>,
    waker: RefCell<Option<Waker>>,
}

/// Tasks of a thread that wait for a request. Further ones end.
const MOST_WAITING: usize = 64;

thread_local! {
    /// The seats of the tasks that wait. A seat ends with its task.
    static WAITING: RefCell<Vec<Weak<TaskSeat>>> = const { RefCell::new(Vec::new()) };
}

/// Hands the request to a task, which serves it.
pub(super) fn begin(job: RequestJob) {
    let waiting = WAITING.with_borrow_mut(Vec::pop);
    match waiting.and_then(|seat| seat.upgrade()) {
        Some(seat) => seat.give(job),
        // In a box: the runtime moves a task when it begins and when it ends.
        None => drop(tokio::task::spawn_local(Box::pin(run(job)))),
    }
}

async fn run(mut job: RequestJob) {
    let seat = Rc::new(TaskSeat::default());
    loop {
        let RequestJob {
            shared,
            request,
            respond,
            is_early,
            arriving,
            open,
        } = job;
        stream::serve(&shared, (request, arriving), respond, is_early).await;
        open.end_unsent();
        drop(shared);
        let waits = WAITING.with_borrow_mut(|waiting| {
            let has_room = waiting.len() < MOST_WAITING;
            if has_room {
                waiting.push(Rc::downgrade(&seat));
            }
            has_room
        });
        if !waits {
            return;
        }
        job = poll_fn(|context| seat.poll_job(context)).await;
    }
}

impl TaskSeat {
    fn give(&self, job: RequestJob) {
        *self.job.borrow_mut() = Some(job);
        self.waker.borrow().iter().for_each(Waker::wake_by_ref);
    }

    fn poll_job(&self, context: &Context<'_>) -> Poll<RequestJob> {
        match self.job.borrow_mut().take() {
            Some(job) => Poll::Ready(job),
            None => {
                self.waker.borrow_mut().get_or_insert_with(|| context.waker().clone());
                Poll::Pending
            }
        }
    }
}
