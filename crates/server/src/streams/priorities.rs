//! The priorities that a client gives its requests after the fact (RFC 9218 §7).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use howdah_http::priority::{Priority, PriorityMembers, PriorityUpdate};

/// The priority of a response, as the request and the response say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponsePriority {
    asked: Priority,
    of_response: PriorityMembers,
}

impl ResponsePriority {
    /// Reads the fields of the request and of the response.
    pub(crate) fn of(request: Option<&[u8]>, response: Option<&[u8]>) -> ResponsePriority {
        ResponsePriority {
            asked: Priority::of_request(request),
            of_response: response.map(PriorityMembers::of).unwrap_or_default(),
        }
    }

    /// Returns the priority after the client's last update. The members of the response count
    /// (RFC 9218 §8), then the update, then the request.
    pub(crate) fn after(&self, update: Option<Priority>) -> Priority {
        update.unwrap_or(self.asked).with(self.of_response)
    }
}

/// The updates of a connection.
#[derive(Debug)]
pub(crate) struct PriorityUpdates {
    /// The most requests that may have an update before they begin.
    most: usize,
    /// By the number of the stream. Those of requests that have ended may be left.
    by_stream: RefCell<BTreeMap<u64, Priority>>,
    /// The number behind that of the last request that has begun.
    next: Cell<u64>,
    /// The number of updates so far.
    count: Cell<u64>,
}

/// More requests than the client may have at a time have an update and have not begun (RFC 9218
/// §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyUpdates;

impl PriorityUpdates {
    /// The updates of a connection that may have `most` requests at a time.
    pub(crate) fn new(most: u64) -> PriorityUpdates {
        PriorityUpdates {
            most: usize::try_from(most).unwrap_or(usize::MAX),
            by_stream: RefCell::default(),
            next: Cell::new(0),
            count: Cell::new(0),
        }
    }

    /// Notes an update.
    ///
    /// # Errors
    /// It is one too many.
    pub(crate) fn note(&self, update: PriorityUpdate) -> Result<(), TooManyUpdates> {
        let mut by_stream = self.by_stream.borrow_mut();
        by_stream.insert(update.stream, update.priority);
        self.count.set(self.count.get() + 1);
        if by_stream.range(self.next.get()..).count() > self.most {
            return Err(TooManyUpdates);
        }
        if by_stream.len() / 2 > self.most {
            // The oldest request has probably ended before its update came.
            by_stream.pop_first();
        }
        Ok(())
    }

    /// Notes that a request has begun.
    pub(crate) fn begin(&self, stream: u64) {
        self.next.set(self.next.get().max(stream + 1));
    }

    /// Notes that a request has ended.
    pub(crate) fn end(&self, stream: u64) {
        self.by_stream.borrow_mut().remove(&stream);
    }

    /// Returns the last update of a request; `None` if it has none.
    pub(crate) fn of(&self, stream: u64) -> Option<Priority> {
        self.by_stream.borrow().get(&stream).copied()
    }

    /// The number of updates so far. While it stays the same, no priority changes.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(stream: u64, urgency: u8) -> PriorityUpdate {
        let priority = Priority { urgency, is_incremental: false };
        PriorityUpdate { stream, priority }
    }

    #[test]
    fn the_last_update_counts_until_the_request_ends() {
        let updates = PriorityUpdates::new(2);
        let urgency = |stream| updates.of(stream).map(|priority| priority.urgency);
        assert_eq!(urgency(1), None);
        for number in [5, 1, 7] {
            assert_eq!(updates.note(update(1, number)), Ok(()));
        }
        assert_eq!((urgency(1), updates.count()), (Some(7), 3));
        updates.end(1);
        assert_eq!(urgency(1), None);
    }

    #[test]
    fn requests_that_have_not_begun_have_as_many_updates_as_may_begin() {
        let updates = PriorityUpdates::new(2);
        for stream in (1..1000).step_by(2) {
            updates.begin(stream);
            assert_eq!(updates.note(update(stream, 1)), Ok(()), "{stream}");
            assert!(updates.by_stream.borrow().len() <= 6, "of requests that have ended");
        }
        assert_eq!(updates.note(update(1001, 1)), Ok(()));
        assert_eq!(updates.note(update(1005, 1)), Ok(()));
        assert_eq!(updates.note(update(1001, 2)), Ok(()));
        assert_eq!(updates.note(update(1003, 1)), Err(TooManyUpdates));
    }

    #[test]
    fn a_response_says_more_than_an_update_and_an_update_more_than_the_request() {
        let rows = [
            (None, None, None, 3, true),
            (Some("u=1"), None, None, 1, false),
            (Some("u=1, i"), None, Some(6), 6, false),
            (Some("u=1"), Some("u=2"), Some(6), 2, false),
            (Some("u=1"), Some("i"), Some(6), 6, true),
        ];
        for (request, response, updated, urgency, is_incremental) in rows {
            let updated = updated.map(|urgency| Priority { urgency, is_incremental: false });
            let [said, answered] = [request, response].map(|field| field.map(str::as_bytes));
            let priority = ResponsePriority::of(said, answered).after(updated);
            let expected = Priority { urgency, is_incremental };
            assert_eq!(priority, expected, "{request:?} {response:?}");
        }
    }
}
