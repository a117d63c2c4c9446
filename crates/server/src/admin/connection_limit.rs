//! The connections of the admin listener: how many there may be, and which gives its place up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::{Notify, oneshot};

/// The connections that are served.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimit(Rc<ConnectionLimitState>);

#[derive(Debug)]
struct ConnectionLimitState {
    most: usize,
    count: Cell<usize>,
    /// The connections that have sent no request, the oldest first: number, and what tells them to
    /// end.
    silent: RefCell<VecDeque<(u64, oneshot::Sender<()>)>>,
    next: Cell<u64>,
    left: Notify,
}

/// The place of a connection, until dropped.
#[derive(Debug)]
pub(super) struct AdminPlace {
    limit: Rc<ConnectionLimitState>,
    number: u64,
    /// Ends when the place is needed for another connection.
    needed: oneshot::Receiver<()>,
}

impl ConnectionLimit {
    /// Room for `most` connections.
    pub(super) fn new(most: usize) -> ConnectionLimit {
        ConnectionLimit(Rc::new(ConnectionLimitState {
            most,
            count: Cell::new(0),
            silent: RefCell::default(),
            next: Cell::new(0),
            left: Notify::new(),
        }))
    }

    /// Takes a place. Where there is none, the connection that has been silent for the longest time
    /// gives up its own.
    pub(super) async fn enter(&self) -> AdminPlace {
        let limit = &self.0;
        while limit.count.get() >= limit.most {
            // Dropping the sender ends the connection.
            drop(limit.silent.borrow_mut().pop_front());
            limit.left.notified().await;
        }
        limit.count.set(limit.count.get() + 1);
        let number = limit.next.replace(limit.next.get() + 1);
        let (sender, needed) = oneshot::channel();
        limit.silent.borrow_mut().push_back((number, sender));
        AdminPlace { limit: Rc::clone(limit), number, needed }
    }
}

impl AdminPlace {
    /// Waits for the request. `None`: the place is needed for another connection.
    pub(super) async fn hear<T>(&mut self, request: impl Future<Output = T>) -> Option<T> {
        let heard = tokio::select! {
            // A request that is there is answered.
            biased;
            heard = request => heard,
            _ = &mut self.needed => return None,
        };
        self.forget();
        Some(heard)
    }

    fn forget(&self) {
        self.limit.silent.borrow_mut().retain(|(number, _)| *number != self.number);
    }
}

impl Drop for AdminPlace {
    fn drop(&mut self) {
        self.forget();
        self.limit.count.set(self.limit.count.get() - 1);
        self.limit.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_oldest_silent_connection_gives_its_place_up() {
        let limit = ConnectionLimit::new(2);
        let mut asking = limit.enter().await;
        assert_eq!(asking.hear(ready(1)).await, Some(1));
        let mut silent = limit.enter().await;
        let ends = async {
            assert_eq!(silent.hear(pending::<()>()).await, None);
            drop(silent);
        };
        let ((), last) = tokio::join!(ends, limit.enter());
        drop((asking, last));
        assert_eq!((limit.0.count.get(), limit.0.silent.borrow().len()), (0, 0));
    }
}
