//! The packets that an endpoint takes in one turn of its event loop.
//!
//! The library takes packets for as long as there are any: a flood of them would leave the loop no
//! time for its other sockets. A packet of a client that has no connection costs the most: its keys
//! are derived, and a handshake or a Retry follows.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::net::wake_at_next_turn;

/// Messages of the system, each with one packet or a bundle, that are taken in one turn. Further
/// ones wait in the socket.
const MESSAGES: usize = 64;
/// Packets of clients without a connection that are taken in one turn. Where they are answered with
/// Retry, that takes about half a millisecond.
pub(super) const STRANGERS: usize = 8;

/// The packets that were taken since the socket was empty, or since the turn began.
#[derive(Debug)]
pub(super) struct PacketTurn(Arc<TurnState>);

#[derive(Debug)]
struct TurnState {
    /// Called before each turn of a thread that packets keep from sleeping.
    between: fn(),
    messages: AtomicUsize,
    strangers: AtomicUsize,
    /// The strangers in each message that came last, rounded up.
    density: AtomicUsize,
    /// Whether the event loop wakes this state in its next turn.
    is_waiting: AtomicBool,
    /// The task of the endpoint.
    reader: Mutex<Option<Waker>>,
}

impl PacketTurn {
    /// The first turn. `between` is called before each further one.
    pub(super) fn new(between: fn()) -> PacketTurn {
        PacketTurn(Arc::new(TurnState {
            between,
            messages: AtomicUsize::new(0),
            strangers: AtomicUsize::new(0),
            density: AtomicUsize::new(0),
            is_waiting: AtomicBool::new(false),
            reader: Mutex::new(None),
        }))
    }

    /// Waits for the next turn if enough packets were taken in this one.
    pub(super) fn poll_more(&self, context: &mut Context<'_>) -> Poll<()> {
        let TurnState { messages, strangers, is_waiting, .. } = &*self.0;
        if messages.load(Ordering::Relaxed) < MESSAGES
            && strangers.load(Ordering::Relaxed) < STRANGERS
        {
            return Poll::Ready(());
        }
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if !reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            *reader = Some(context.waker().clone());
        }
        drop(reader);
        if !is_waiting.swap(true, Ordering::Relaxed) {
            wake_at_next_turn(&Waker::from(Arc::clone(&self.0)));
        }
        Poll::Pending
    }

    /// Returns how many of `buffers` may be filled at once.
    pub(super) fn room(&self, buffers: usize) -> usize {
        match self.0.density.load(Ordering::Relaxed) {
            0 => buffers,
            density => (STRANGERS / density).clamp(1, buffers),
        }
    }

    /// Counts messages that were taken, with the packets in them of clients without a connection.
    pub(super) fn count(&self, messages: usize, strangers: usize) {
        self.0.messages.fetch_add(messages, Ordering::Relaxed);
        self.0.strangers.fetch_add(strangers, Ordering::Relaxed);
        self.0.density.store(strangers.div_ceil(messages.max(1)), Ordering::Relaxed);
    }

    /// Notes that nothing waits in the socket.
    pub(super) fn found_none(&self) {
        self.0.begin();
    }
}

impl TurnState {
    fn begin(&self) {
        self.messages.store(0, Ordering::Relaxed);
        self.strangers.store(0, Ordering::Relaxed);
    }
}

impl Wake for TurnState {
    fn wake(self: Arc<Self>) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.begin();
        (self.between)();
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.into_iter().for_each(Waker::wake);
    }
}
