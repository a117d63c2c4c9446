//! Requests of the protocols that give each request a stream of its own: HTTP/2 and HTTP/3.
//!
//! ```text
//! exchange     one request: head → RequestContext; Response → head and content
//! head         heads in the types of the `http` crate
//! made_fields  the field lines of recent heads in these types
//! request_body the request's content and interim responses (RequestStream)
//! unread       the rest of a content that nobody has read
//! tunnel       both directions of an extended CONNECT (body::TunnelEnd)
//! trailers     the fields that follow a response's content
//! pace         how long a client may let a response wait
//! open         the requests of a connection that have not ended
//! sink_place   the order in which the responses of a connection are sent
//! priorities   what requests, responses and updates say of that order
//! ```
//! A protocol has a [`Stream`] for each request, with the client's [`StreamContent`] and a
//! [`StreamSink`].

mod exchange;
mod head;
mod made_fields;
mod open;
mod pace;
mod priorities;
mod request_body;
mod sink_place;
mod trailers;
mod tunnel;
mod unread;

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::Version;
use http::Response;
use http::request::Parts;

pub(crate) use self::exchange::serve;
pub(crate) use self::open::{OpenRequest, OpenRequests, TOO_MUCH};
pub(crate) use self::pace::Pace;
pub(crate) use self::priorities::{PriorityUpdates, ResponsePriority, TooManyUpdates};
pub(crate) use self::sink_place::SinkPlace;
pub(crate) use self::trailers::trailer_map;
use crate::body::{Sink, Trailers};
use crate::front::FrontThread;
use crate::net::Peer;

/// The server's side of a request's stream.
pub(crate) trait Stream {
    const VERSION: Version;
    /// The client's side of the stream.
    type Content: StreamContent;
    type Sink<'s>: StreamSink
    where
        Self: 's;

    fn thread(&self) -> &Rc<FrontThread>;

    /// The other end of the connection, at the address with which the connection began.
    fn peer(&self) -> &Rc<Peer>;

    /// The number of requests of the connection before this one.
    fn earlier(&self) -> u64;

    /// Returns whether the request came in early data of a handshake that is not complete.
    fn is_early(&self) -> bool;

    /// Returns the protocol of an extended CONNECT (RFC 8441, RFC 9220).
    fn protocol<'p>(&self, head: &'p Parts) -> Option<&'p str>;

    /// Sends the head of an interim response. A failure is not reported: the response itself
    /// notices a client that is gone.
    fn send_interim(&self, head: Response<()>);

    /// Sends the head of the response. `ends`: no content follows.
    ///
    /// # Errors
    /// The client is gone.
    fn send_head(
        &self,
        head: Response<()>,
        ends: bool,
        priority: ResponsePriority,
    ) -> Result<Self::Sink<'_>, StreamGone>;

    /// Counts the head of a response that has ended, by its bytes, in the client's account for as
    /// long as the protocol's library holds it.
    fn hold_head(&self, bytes: usize);

    /// Returns whether the client is certainly gone. Wakes `context` when that changes.
    fn poll_broken(&self, context: &mut Context<'_>) -> bool;

    /// Ends the stream of a client that is gone. No response was sent.
    fn abandon(&self);
}

/// The client's side of a request's stream.
pub(crate) trait StreamContent {
    /// Waits for the next bytes. `None`: the client has ended its side.
    ///
    /// # Errors
    /// The client is gone, or has violated the protocol.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamGone>>;

    /// Lets the client send `count` further bytes: those that were received are used.
    fn release(&mut self, count: usize);
}

/// A response whose head was sent.
pub(crate) trait StreamSink: Sink {
    /// Sends these fields at the end of the content. Call it before content is sent.
    fn set_trailers(&mut self, trailers: Trailers);

    /// Waits until the client has what was sent, as far as that can be known and the client takes
    /// it: a reset takes back what is still on its way.
    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Breaks the response off.
    fn reset(&mut self, cause: ResetCause);
}

/// The reason why a response is broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetCause {
    /// The client is gone, or takes nothing.
    Client,
    /// The tunnel's upstream is gone.
    Tunnel,
    /// The content cannot be made.
    Server,
}

/// The client has broken its stream off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamGone;
