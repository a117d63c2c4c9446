//! The requests of a connection that have not ended.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::front::FrontThread;
use crate::net::{ClientStreams, DeadlineWatch};

/// Counts the requests of a connection whose tasks have not ended, also in the client's account.
#[derive(Debug)]
pub(crate) struct OpenRequests {
    count: Cell<u64>,
    /// Requests whose tasks have ended, and whose responses the client may not have been sent.
    unsent: Cell<u64>,
    /// The client's account; `None` for a connection that is no client's.
    account: Option<ClientStreams>,
    /// The number in the account: all but one.
    counted: Cell<usize>,
    /// The most that there were at a time.
    most: Cell<u64>,
    /// The memory of the connection in the account.
    memory: Cell<usize>,
    /// The connection's task, which wakes when nothing is left.
    task: Waker,
}

/// A request in the count, until it is dropped. A panic drops it as well.
#[derive(Debug)]
pub(crate) struct OpenRequest(Rc<OpenRequests>);

impl OpenRequests {
    pub(crate) fn new(task: Waker, account: Option<ClientStreams>) -> OpenRequests {
        OpenRequests {
            count: Cell::new(0),
            unsent: Cell::new(0),
            account,
            counted: Cell::new(0),
            most: Cell::new(0),
            memory: Cell::new(0),
            task,
        }
    }

    /// Counts the connection in the client's account. Where that has no room, connections of the
    /// client end that have waited for a request for longest. Returns `false` where there are none.
    pub(crate) fn count_connection(&self, thread: &FrontThread, watch: &DeadlineWatch) -> bool {
        let Some(account) = &self.account else {
            return true;
        };
        watch.set_has_streams();
        let memory = ClientStreams::connection(0);
        let end_some = || {
            thread
                .watches()
                .expire_longest_idle_with_streams(account.tag(), account.recycled())
        };
        let is_counted =
            account.hold_connection(0, memory) || account.replace_connection(memory, end_some);
        if is_counted {
            self.memory.set(memory);
        }
        is_counted
    }

    /// Counts a request. `None`: the client has as many as it may have.
    pub(crate) fn begin(self: &Rc<OpenRequests>) -> Option<OpenRequest> {
        self.count.set(self.count.get() + 1);
        if !self.count_in_account() || !self.count_memory() {
            self.count.set(self.count.get() - 1);
            self.count_in_account();
            return None;
        }
        Some(OpenRequest(Rc::clone(self)))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Returns whether responses whose tasks have ended may not be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent.get() > 0
    }

    /// Notes that this many responses were sent to their ends; more than there are mean all.
    pub(crate) fn note_sent(&self, responses: u64) {
        let unsent = self.unsent.get();
        if unsent > 0 && responses > 0 {
            self.unsent.set(unsent.saturating_sub(responses));
            self.count_in_account();
        }
    }

    /// Waits, in the connection's task, until all requests have ended.
    pub(crate) async fn ended(&self) {
        poll_fn(|_| match self.count.get() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
    }

    /// Counts the requests in the client's account. Returns `false` where the account has no room
    /// for more.
    fn count_in_account(&self) -> bool {
        let Some(account) = &self.account else {
            return true;
        };
        let all = usize::try_from(self.count.get() + self.unsent.get()).unwrap_or(usize::MAX);
        let (former, number) = (self.counted.get(), all.saturating_sub(1));
        let is_counted = former == number || account.hold(former, number);
        if is_counted {
            self.counted.set(number);
        }
        is_counted
    }

    /// Counts what the connection keeps because it has more requests at a time than ever before.
    /// Returns `false` where the account has no room for that.
    #[inline]
    fn count_memory(&self) -> bool {
        let count = self.count.get();
        if count <= self.most.get() {
            return true;
        }
        let (former, memory) = (self.memory.get(), ClientStreams::connection(count));
        if let Some(account) = self.account.as_ref().filter(|_| former > 0 && memory > former) {
            if !account.hold_connection(former, memory) {
                return false;
            }
            self.memory.set(memory);
        }
        self.most.set(count);
        true
    }
}

impl OpenRequest {
    /// Ends a request whose response the protocol's library may not have sent.
    pub(crate) fn end_unsent(self) {
        self.0.unsent.set(self.0.unsent.get() + 1);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.count_in_account();
        if self.0.count.get() == 0 {
            self.0.task.wake_by_ref();
        }
    }
}

impl Drop for OpenRequests {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.hold(self.counted.get(), 0);
            account.hold_connection(self.memory.get(), 0);
        }
    }
}

/// The reason why a connection is closed at its beginning.
pub(crate) const TOO_MUCH: &str = "the client's connections of HTTP/2 and HTTP/3 take as much \
    memory as `client_memory` allows, and none is idle";

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use howdah_config::Config;

    use super::*;
    use crate::net::Clients;

    #[test]
    fn all_requests_of_a_connection_but_one_count_until_their_responses_were_sent() {
        let clients = Clients::new(&Config::default());
        let client = IpAddr::from([192, 0, 2, 1]);
        let _connection = clients.connect(client, 0, 100).expect("there is room");
        let account = || clients.streams(client).expect("the connection is counted");
        let counted = || account().open();
        let requests = Rc::new(OpenRequests::new(Waker::noop().clone(), Some(account())));
        let begin = || requests.begin().expect("there is room");
        let mut open = [begin(), begin(), begin()].map(Some);
        assert_eq!((requests.count(), counted()), (3, 2));
        for (place, is_unsent) in [(1, true), (0, true), (2, false)] {
            let request = open[place].take().expect("it is open");
            match is_unsent {
                true => request.end_unsent(),
                false => drop(request),
            }
        }
        assert_eq!((requests.count(), counted()), (0, 1));
        let again = begin();
        assert_eq!((requests.count(), counted()), (1, 2));
        requests.note_sent(1);
        assert_eq!((requests.has_unsent(), counted()), (true, 1));
        requests.note_sent(u64::MAX);
        assert_eq!((requests.has_unsent(), counted()), (false, 0));
        let others: Vec<_> = std::iter::from_fn(|| requests.begin()).collect();
        assert_eq!(others.len(), counted());
        drop((again, others));
        assert_eq!((requests.count(), counted()), (0, 0));
        drop(begin());
        let two = [begin(), begin()];
        two.into_iter().for_each(OpenRequest::end_unsent);
        drop(requests);
        assert_eq!(account().open(), 0);
    }
}
