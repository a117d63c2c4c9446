//! A connection of HTTP/3: its task.
//!
//! ```text
//!   Working ◀──request──▶ Idle ──nothing for keep_alive_timeout──▶ closed
//!      │                    │
//!      │     draining, or as many requests as a connection may have:
//!      │     GOAWAY with room for requests that are on their way (RFC 9114 §5.2)
//!      ▼                    ▼
//!   Leaving ──some round trips──▶ GOAWAY that refuses further ones, then its last requests
//! ```
//! The task accepts requests. Each request has a task of its own on the same thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::h3::error::{Code, ConnectionError};
use ::h3::server;
use bytes::Bytes;
use quinn::VarInt;

use super::client_meter::{ClientExcess, ClientMeter};
use super::outgoing::OutgoingStream;
use super::stream;
use super::stream_frames::StreamFrames;
use super::transport::{NewestRequest, QuicTransport, TransportFacts};
use crate::front::FrontThread;
use crate::log::Level;
use crate::net::{DeadlineWatch, Peer, task_waker};
use crate::streams::{OpenRequests, TOO_MUCH};

/// The largest `header_list`. The library has no room for more fields than fit into 768 KiB, and
/// panics.
const MOST_HEADER_LIST: u64 = 512 << 10;
/// Round trips that a client has, after the first GOAWAY, for requests that are on their way.
const FAREWELL: u32 = 4;
/// The least time for that.
const LEAST_FAREWELL: Duration = Duration::from_millis(500);
/// Turns of the event loop in which the end of a connection is sent.
const LAST_TURNS: u32 = 4;

/// The state that the streams of a connection share.
pub(super) struct H3Shared {
    pub(super) thread: Rc<FrontThread>,
    /// The client, or the trusted proxy that the connection belongs to, at the address that it
    /// began with. A packet may bear a new one that is not true, and the library does not tell when
    /// it is proven.
    pub(super) peer: Rc<Peer>,
    connection: quinn::Connection,
    accepted: Rc<TransportFacts>,
    pub(super) open: Rc<OpenRequests>,
    /// The connection's task.
    task: Waker,
}

/// One client's connection.
struct H3Connection {
    frames: server::Connection<QuicTransport, Bytes>,
    watch: Rc<DeadlineWatch>,
    shared: Rc<H3Shared>,
    served: u64,
    state: H3Event,
}

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum H3Event {
    /// Responses that are being made.
    Working,
    /// The next request.
    Idle,
    /// Requests that were sent before the first GOAWAY arrived.
    Leaving,
    /// The last responses.
    Left,
}

/// The end of a connection.
enum ConnectionEnd {
    /// Nothing is left to do.
    Done,
    /// The client has exceeded this limit.
    Excess(ClientExcess),
    /// A request violates the protocol.
    Violation(Code),
    Failed(ConnectionError),
}

/// Serves a connection to its end. The caller has counted the connection as its client's.
pub(crate) async fn run(thread: Rc<FrontThread>, connection: quinn::Connection, peer: Peer) {
    let task = task_waker().await;
    let watch = thread.watches().add(task.clone());
    watch.set_client(thread.client_tag(&peer));
    let mut limits = thread.config().http3.clone();
    limits.header_list = limits.header_list.min(MOST_HEADER_LIST);
    let streams = limits.streams;
    let meter = ClientMeter::new(limits);
    // A proxy's connection has requests of many clients.
    let memory = (!peer.is_proxy).then(|| (Arc::clone(&thread.shared.clients), peer.remote.ip()));
    let accepted = Rc::new(TransportFacts::new(meter, streams, task.clone(), memory));
    let account = thread.client_streams(&peer);
    let shared = Rc::new(H3Shared {
        thread: Rc::clone(&thread),
        peer: Rc::new(peer),
        connection: connection.clone(),
        accepted: Rc::clone(&accepted),
        open: Rc::new(OpenRequests::new(task.clone(), account)),
        task,
    });
    if !shared.open.count_connection(&thread, &watch) {
        thread.counters().count_limit("http3", "client_memory");
        shared.say(&format!("HTTP/3 connection closed: {TOO_MUCH}"));
        let code = Code::H3_EXCESSIVE_LOAD.value();
        return connection.close(VarInt::from_u64(code).unwrap_or(VarInt::MAX), b"");
    }
    let transport = QuicTransport::new(connection.clone(), accepted);
    // The crate ends the connection without an error when this is dropped.
    let mut served = None;
    let end = match begin(&thread, transport, &watch).await {
        None => ConnectionEnd::Done,
        Some(Err(error)) => ConnectionEnd::Failed(error),
        Some(Ok(frames)) => {
            let connection = served.insert(H3Connection {
                frames,
                watch,
                shared: Rc::clone(&shared),
                served: 0,
                state: H3Event::Working,
            });
            connection.serve().await
        }
    };
    let code = shared.report_end(end);
    // An error that the crate has found was told by the crate; this changes nothing then.
    connection.close(VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX), b"");
    drop(served);
    // The requests that are left find their client gone.
    shared.open.ended().await;
    for _ in 0..LAST_TURNS {
        tokio::task::yield_now().await;
    }
}

/// Opens the control streams, for at most `head_timeout`.
async fn begin(
    thread: &FrontThread,
    transport: QuicTransport,
    watch: &DeadlineWatch,
) -> Option<Result<server::Connection<QuicTransport, Bytes>, ConnectionError>> {
    let mut builder = server::builder();
    builder
        .max_field_section_size(thread.config().http3.header_list.min(MOST_HEADER_LIST))
        // WebSockets (RFC 9220 §3).
        .enable_extended_connect(thread.shared.has_upstreams)
        .send_grease(false);
    let mut built = pin!(builder.build(transport));
    watch.arm(thread.config().limits.head_timeout);
    poll_fn(|context| match built.as_mut().poll(context) {
        Poll::Ready(built) => Poll::Ready(Some(built)),
        Poll::Pending if watch.is_expired() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

impl H3Connection {
    async fn serve(&mut self) -> ConnectionEnd {
        let thread = Rc::clone(&self.shared.thread);
        self.watch.disarm();
        let mut drains = pin!(thread.drains());
        poll_fn(|context| {
            // A change of the stage wakes this task; once is enough.
            let is_draining = drains.as_mut().poll(context).is_ready() || thread.is_draining();
            self.poll(is_draining, context)
        })
        .await
    }

    fn poll(&mut self, is_draining: bool, context: &mut Context<'_>) -> Poll<ConnectionEnd> {
        self.shared.thread.look_for_responses();
        loop {
            let accepted = pin!(self.frames.accept()).poll(context);
            if let Some(excess) = self.shared.accepted.meter.excess() {
                return Poll::Ready(ConnectionEnd::Excess(excess));
            }
            if let Some(code) = self.shared.accepted.violation() {
                return Poll::Ready(ConnectionEnd::Violation(code));
            }
            match accepted {
                Poll::Ready(Ok(Some(request))) => {
                    self.begin_request(request);
                    continue;
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(ConnectionEnd::Done),
                Poll::Ready(Err(error)) => return Poll::Ready(ConnectionEnd::Failed(error)),
                Poll::Pending => {}
            }
            let limits = &self.shared.thread.config().limits;
            // A connection without a request may wait for one: another front gets no other packets
            // of the client.
            let leaves = (is_draining && self.served > 0)
                || (limits.keep_alive_requests > 0 && self.served >= limits.keep_alive_requests);
            match self.state {
                H3Event::Working | H3Event::Idle if leaves => {
                    self.go_away(limits_streams(&self.shared.thread), context);
                    self.enter(H3Event::Leaving);
                }
                H3Event::Leaving if self.watch.is_expired() => {
                    self.shared.accepted.refuse_further();
                    self.go_away(1, context);
                    self.enter(H3Event::Left);
                }
                H3Event::Left if self.shared.open.count() == 0 => {
                    return Poll::Ready(ConnectionEnd::Done);
                }
                H3Event::Leaving | H3Event::Left => return Poll::Pending,
                H3Event::Working | H3Event::Idle => {
                    let is_idle = self.shared.open.count() == 0;
                    self.enter(if is_idle { H3Event::Idle } else { H3Event::Working });
                    let closes = is_idle && self.shared.thread.closes_idle();
                    return match closes || (is_idle && self.watch.is_expired()) {
                        true => Poll::Ready(ConnectionEnd::Done),
                        false => Poll::Pending,
                    };
                }
            }
        }
    }

    /// Begins a request's task.
    fn begin_request(&mut self, request: stream::UnreadRequest) {
        let Some(newest) = self.shared.accepted.take_newest() else {
            return;
        };
        let Some(open) = self.shared.open.begin() else {
            return self.shared.refuse(&newest);
        };
        self.served += 1;
        let shared = Rc::clone(&self.shared);
        let arriving = shared.thread.arriving();
        // In a box: the runtime moves a task when it begins and when it ends.
        tokio::task::spawn_local(Box::pin(async move {
            let outgoing = newest.outgoing.clone();
            let mut served = pin!(stream::serve(&shared, (request, arriving), newest));
            poll_fn(|context| {
                let polled = served.as_mut().poll(context);
                outgoing.rest(context);
                polled
            })
            .await;
            shared.accepted.end_request(outgoing.index());
            drop(open);
        }));
    }

    /// Tells the client to send requests elsewhere, except `more` further ones.
    fn go_away(&mut self, more: usize, context: &mut Context<'_>) {
        // It waits only for a client that gives its control stream no room, and is told later then.
        let _ = pin!(self.frames.shutdown(more)).poll(context);
    }

    fn enter(&mut self, state: H3Event) {
        if self.state == state && !(state == H3Event::Idle && self.watch.is_disarmed()) {
            return;
        }
        self.state = state;
        self.watch.disarm();
        self.watch.set_idle(state == H3Event::Idle);
        self.watch.set_at_last_request(state == H3Event::Left);
        let limits = &self.shared.thread.config().limits;
        let patience = match state {
            H3Event::Idle if self.served == 0 => limits.head_timeout,
            H3Event::Idle => limits.keep_alive_timeout,
            H3Event::Leaving => LEAST_FAREWELL.max(FAREWELL * self.shared.connection.rtt()),
            H3Event::Working | H3Event::Left => return,
        };
        self.watch.arm(patience);
    }
}

fn limits_streams(thread: &FrontThread) -> usize {
    usize::try_from(thread.config().http3.streams).unwrap_or(usize::MAX)
}

impl H3Shared {
    /// The time of a round trip to the client, as estimated.
    pub(super) fn round_trip(&self) -> Duration {
        self.connection.rtt()
    }

    /// Counts and logs the limit or the error that the connection has ended with. Returns the code
    /// for the client.
    fn report_end(&self, end: ConnectionEnd) -> Code {
        match end {
            ConnectionEnd::Done => Code::H3_NO_ERROR,
            ConnectionEnd::Excess(excess) => {
                self.thread.counters().count_limit("http3", excess.key());
                self.say(&format!("HTTP/3 connection closed: the client {excess}"));
                Code::H3_EXCESSIVE_LOAD
            }
            ConnectionEnd::Violation(code) => {
                self.say(&format!("HTTP/3 connection closed: a request with a mistake, {code}"));
                code
            }
            ConnectionEnd::Failed(error) => {
                if !error.is_h3_no_error() && self.connection.close_reason().is_none() {
                    self.say(&format!("HTTP/3 connection closed: {error}"));
                }
                Code::H3_NO_ERROR
            }
        }
    }

    /// Counts a request that the client has cancelled.
    pub(super) fn count_reset(&self) {
        self.accepted.meter.count_reset();
        if self.accepted.meter.excess().is_some() {
            self.task.wake_by_ref();
        }
    }

    /// Refuses a request of a client that has as many open as it may have.
    #[cold]
    fn refuse(&self, request: &NewestRequest) {
        let why = "the client has as many requests open as `client_memory` allows";
        self.reject(&request.outgoing, &request.frames, why);
        self.accepted.end_request(request.outgoing.index());
    }

    /// Refuses a request for which its client has no room in `client_memory`.
    #[cold]
    pub(super) fn reject(&self, outgoing: &OutgoingStream, frames: &StreamFrames, why: &str) {
        self.thread.counters().count_limit("http3", "client_memory");
        self.say(&format!("HTTP/3 request refused: {why}"));
        // The client may send it again (RFC 9114 §4.1.1).
        outgoing.reset(Code::H3_REQUEST_REJECTED);
        frames.stop(Code::H3_REQUEST_REJECTED);
    }

    /// Logs an event of the connection.
    fn say(&self, what: &str) {
        self.thread.shared.log.say_of_client(Level::Info, None, self.peer.remote, what);
    }
}
