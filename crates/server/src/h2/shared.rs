//! The state that the streams of a connection share: its client's account, and what is logged of
//! it.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use howdah_http::h2::ExceededLimit;

use super::counted_limits::LIBRARY;
use super::outbox::H2Outbox;
use crate::front::FrontThread;
use crate::log::Level;
use crate::net::Peer;
use crate::streams::{OpenRequests, PriorityUpdates};

/// The state that the streams of a connection share.
pub(super) struct H2Shared {
    pub(super) thread: Rc<FrontThread>,
    /// The client, or the trusted proxy that the connection belongs to.
    pub(super) peer: Rc<Peer>,
    pub(super) outbox: Rc<H2Outbox>,
    /// Bytes that the library holds for closed windows and of heads, in the client's account.
    held: Cell<usize>,
    /// Bytes of the large heads of responses that have ended and that the client may not have been
    /// sent.
    unsent_heads: Cell<usize>,
    pub(super) open: Rc<OpenRequests>,
    pub(super) updates: PriorityUpdates,
}

impl H2Shared {
    pub(super) fn new(thread: &Rc<FrontThread>, peer: Rc<Peer>, task: Waker) -> H2Shared {
        let account = thread.client_streams(&peer);
        H2Shared {
            thread: Rc::clone(thread),
            peer,
            outbox: Rc::default(),
            held: Cell::new(0),
            unsent_heads: Cell::new(0),
            open: Rc::new(OpenRequests::new(task, account)),
            updates: PriorityUpdates::new(thread.config().http2.streams),
        }
    }

    /// Counts `bytes` in the client's account that the library holds for closed windows, beside
    /// heads that were not sent. Returns whether the account has room for them.
    pub(super) fn hold_aside(&self, bytes: usize) -> bool {
        let bytes = bytes + self.unsent_heads.get();
        let is_counted = self.thread.clients().hold(self.peer.remote.ip(), self.held.get(), bytes);
        if is_counted {
            self.held.set(bytes);
        }
        is_counted
    }

    /// Counts the large head of a response that has ended, until it was sent.
    pub(super) fn hold_head(&self, bytes: usize) {
        self.unsent_heads.set(self.unsent_heads.get() + bytes);
        self.hold_aside(self.outbox.aside());
    }

    /// Forgets the heads that were counted: all of them were sent.
    pub(super) fn heads_were_sent(&self) {
        self.unsent_heads.set(0);
    }

    /// Counts and logs a limit that the client has exceeded with frames of a kind.
    pub(super) fn say_excess(&self, excess: ExceededLimit) {
        let key = excess.key();
        self.thread.counters().count_limit("http2", key);
        self.say(&format!(
            "HTTP/2 connection closed: the client sends more frames than `{key}` of [http2] allows"
        ));
    }

    /// Logs the limit, by its key, beyond which the library has ended the connection.
    pub(super) fn say_exceeded(&self, key: &str) {
        let what = match key {
            LIBRARY => "sends too many frames that have no effect".to_owned(),
            key => format!("goes beyond `{key}` of [http2]"),
        };
        self.say(&format!("HTTP/2 connection closed: the client {what}"));
    }

    /// Logs an event of the connection.
    pub(super) fn say(&self, what: &str) {
        self.thread.shared.log.say_of_client(Level::Info, None, self.peer.remote, what);
    }
}

impl Drop for H2Shared {
    fn drop(&mut self) {
        self.unsent_heads.set(0);
        self.hold_aside(0);
    }
}
