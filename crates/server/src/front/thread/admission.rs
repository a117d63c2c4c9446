//! Connections of one thread: how many there may be, and which of them end to make room.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use super::FrontThread;
use crate::front::FrontShared;
use crate::log::Level;
use crate::net::{ClientStreams, ClientTag, CountedConnection, HeldMemory, Peer};

/// The part of all connections that is closed at once to make room. Finding the longest idle ones
/// is a look at all connections of a thread, which should not be needed for each new one.
const RECYCLED: usize = 256;
/// The most connections of a thread that keep their buffers while they wait for the next request. A
/// connection with buffers takes a few kilobytes more than one without.
const MOST_WORKING: usize = 256;

/// A client has as many connections as it may have.
#[derive(Debug)]
pub(crate) struct TooMany;

impl FrontThread {
    /// Counts a connection of `peer` as its client's. A trusted proxy's connection is no client's.
    /// A client that has as many connections as it may have loses the one of this thread that has
    /// waited for a request for longest.
    ///
    /// # Errors
    /// The client has as many as it may have, none of which waits for a request. It was logged.
    pub(crate) fn admit_connection(
        &self,
        peer: &Peer,
    ) -> Result<Option<CountedConnection<'_>>, TooMany> {
        if peer.is_proxy {
            return Ok(None);
        }
        let FrontShared { clients, most_connections, .. } = &*self.shared;
        let client = peer.remote.ip();
        let counted = clients.connect(client, self.connections(), *most_connections);
        if counted.is_none() && self.watches.expire_longest_idle_of(clients.tag(client)) {
            return Ok(Some(clients.connect_instead(client)));
        }
        if counted.is_none() {
            let what = "closed: the client has as many connections as `client_connections` allows; \
                        raise it in `[limits]`, or set `trusted_proxies` if the client is a proxy";
            self.shared.log.say_of_client(Level::Info, None, peer.remote, what);
            return Err(TooMany);
        }
        Ok(counted)
    }

    /// The account of the requests that the client has open; `None` for a proxy's connection.
    pub(crate) fn client_streams(&self, peer: &Peer) -> Option<ClientStreams> {
        let is_client = !peer.is_proxy;
        is_client.then(|| self.shared.clients.streams(peer.remote.ip())).flatten()
    }

    /// Returns the client of the connection, for the watches of deadlines; `None` for a proxy's.
    pub(crate) fn client_tag(&self, peer: &Peer) -> Option<ClientTag> {
        (!peer.is_proxy).then(|| self.shared.clients.tag(peer.remote.ip()))
    }

    /// The account of the client's memory, for a response that holds none yet.
    pub(crate) fn held_memory(&self, peer: &Peer) -> HeldMemory<'_> {
        HeldMemory::of(&self.shared.clients, peer.remote.ip())
    }

    /// The number of all connections.
    pub(crate) fn connections(&self) -> usize {
        self.shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// Closes connections that wait for a request, those that have waited for longest first, and
    /// none that has waited only for a moment. Returns whether this thread had any; if not, the
    /// other threads close some of their own.
    pub(crate) fn make_room(&self) -> bool {
        if self.close_longest_idle() > 0 {
            return true;
        }
        self.shared.room_wanted.iter().for_each(Notify::notify_one);
        false
    }

    /// Closes some idle connections, those that have waited for longest first. Returns their
    /// number.
    pub(super) fn close_longest_idle(&self) -> usize {
        let most = (self.shared.most_connections / RECYCLED).max(1);
        self.watches.expire_longest_idle(most)
    }

    /// Counts a connection as working until the guard is dropped.
    pub(crate) fn working(self: Rc<Self>) -> WorkingConnection {
        self.working.set(self.working.get() + 1);
        WorkingConnection(self)
    }

    /// Returns whether more than [`MOST_WORKING`] connections are working: then connections without
    /// a request should release their buffers.
    pub(crate) fn is_over_working_limit(&self) -> bool {
        self.working.get() > MOST_WORKING
    }
}

/// Counts a connection as working until dropped.
#[derive(Debug)]
pub(crate) struct WorkingConnection(Rc<FrontThread>);

impl Drop for WorkingConnection {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get() - 1);
    }
}
