//! The tasks of requests, which are used again.
//!
//! A task has room for all that serving a request may need, some kilobytes. A task that has served
//! its request takes the next one of any connection of its thread.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use ::h2::RecvStream;
use ::h2::server::SendResponse;
use http::Request;

use super::job_tasks::{JobTask, TurnTime};
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

/// Tasks of a thread that wait for a request. Further ones end.
const MOST_WAITING: usize = 64;

thread_local! {
    /// The tasks that wait for a request.
    static WAITING: RefCell<Vec<Weak<JobTask<RequestJob>>>> = const { RefCell::new(Vec::new()) };
}

/// Hands the request to a task, which serves it: to one that waits, and serves it at once as far as
/// the turn has `time`, or to a new one.
pub(super) fn begin(job: RequestJob, time: &mut TurnTime) {
    let waiting = WAITING.with_borrow_mut(Vec::pop);
    match waiting.and_then(|task| task.upgrade()) {
        Some(task) => task.give(job, time),
        None => JobTask::spawn(job, run),
    }
}

async fn run(task: Weak<JobTask<RequestJob>>) {
    loop {
        let RequestJob {
            shared,
            request,
            respond,
            is_early,
            arriving,
            open,
        } = JobTask::next(&task).await;
        stream::serve(&shared, (request, arriving), respond, is_early).await;
        open.end_unsent();
        drop(shared);
        let waits = WAITING.with_borrow_mut(|waiting| {
            let has_room = waiting.len() < MOST_WAITING;
            if has_room {
                waiting.push(Weak::clone(&task));
            }
            has_room
        });
        if !waits {
            return;
        }
    }
}
