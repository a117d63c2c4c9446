//! Turns of an event loop. In each turn it runs the tasks that are ready, up to some dozens, and then
//! looks at its sockets.
//!
//! A task that always has more to do, and wakes itself, takes all of these places. Then the loop
//! looks at its sockets every 61 runs of a task. Work that strangers can cause without end is
//! therefore done in small parts, one in each turn.

use std::pin::pin;
use std::task::{Context, Waker};

/// Wakes `waker` when the event loop of this thread has looked at its sockets again.
pub(crate) fn wake_at_next_turn(waker: &Waker) {
    let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
}
