//! The requests of a connection that have not ended.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Counts the requests of a connection whose tasks have not ended.
#[derive(Debug)]
pub(crate) struct OpenRequests {
    count: Cell<u64>,
    /// The connection's task, which wakes when nothing is left.
    task: Waker,
}

/// A request in the count, until it is dropped. A panic drops it as well.
#[derive(Debug)]
pub(crate) struct OpenRequest(Rc<OpenRequests>);

impl OpenRequests {
    pub(crate) fn new(task: Waker) -> OpenRequests {
        OpenRequests { count: Cell::new(0), task }
    }

    /// Counts a request.
    pub(crate) fn begin(self: &Rc<OpenRequests>) -> OpenRequest {
        self.count.set(self.count.get() + 1);
        OpenRequest(Rc::clone(self))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Waits, in the connection's task, until all requests have ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|_| match self.count.get() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        if self.0.count.get() == 0 {
            self.0.task.wake_by_ref();
        }
    }
}
