//! A connection of HTTP/1: the turns between idle and working.
//!
//! ```text
//!   accepted ──▶ Idle ──bytes──▶ reading a head ──▶ serving ──▶ reading the next head …
//!                 ▲                                                │ nothing for a second
//!                 └────────────────────────────────────────────────┘
//! ```
//! A connection has buffers only while there are bytes of a request or of a response in them. An
//! idle connection owns a transport and a watch, no buffers: ten thousand of them cost what ten
//! thousand sockets cost.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use howdah_http::h1::{self, HeadProgress, HopFields, ParsedHead};
use howdah_http::{Refusal, Status};

use super::head;
use super::request_body::{H1RequestBody, UnreadContent};
use super::sink::H1Sink;
use howdah_site::Site;

use crate::body::{self, BodySource, PumpError};
use crate::front::{FrontThread, Workspace};
use crate::net::{
    ConnectionError, DecodedChunks, NO_MEMORY_FOR_HEAD, Peer, TimedTransport, Transport, forwarded,
    task_waker,
};
use crate::observe::{ConnectionFacts, ErrorContext, Phase};
use crate::pipeline::{self, Arrival, RequestContext, Response, SendOutcome, ServedRequest};
use crate::protocols;

/// The time that a connection stays ready for the next request before its buffers are taken from
/// it.
const GRACE: Duration = Duration::from_secs(1);
/// Requests that a client has sent together, and that are answered before other connections have
/// their turn.
const PIPELINED: usize = 8;

/// One client's connection.
pub(super) struct H1Connection<T> {
    pub(super) wire: TimedTransport<T>,
    /// The sender of the present request.
    peer: Rc<Peer>,
    /// The trusted proxy that the connection belongs to; each of its requests has a sender of its
    /// own.
    proxy: Option<Rc<Peer>>,
    pub(super) thread: Rc<FrontThread>,
    pub(super) served: u64,
    /// Bytes of the present request that were received.
    pub(super) received: u64,
    /// The unread content of the present request. The next request begins behind it.
    pub(super) remaining: UnreadContent,
    /// A response that had begun before the drain has ended in it. While the connection may bring
    /// another request, it keeps the pools.
    ends_soon: bool,
}

/// The state of the connection after a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AfterResponse {
    /// The connection goes on with the next request.
    Next,
    /// The connection is closed.
    Close,
    /// The connection is broken off: its end would be taken for the response's.
    BreakOff {
        /// Whether the client has failed. Otherwise it gets first what there is of the response.
        by_client: bool,
    },
    /// The connection is closed. Before that, unread content is read for a while.
    Linger,
    /// The connection has begun with another protocol's preface. These bytes were received.
    OtherProtocol(Vec<u8>),
}

/// The result of reading a head.
pub(super) enum HeadRead {
    Complete(ParsedHead),
    Refused(Refusal),
    /// The preface of another protocol.
    OtherProtocol,
    /// The client sent nothing.
    Nothing,
    /// Closed, or too slow with nothing to answer.
    Closed,
}

/// Serves one connection to its end.
pub(crate) async fn run<T: Transport>(thread: Rc<FrontThread>, transport: T, peer: Rc<Peer>) {
    let mut connection = H1Connection::new(thread, transport, task_waker().await, peer);
    while connection.has_bytes(connection.idle_timeout()).await || connection.has_rest().await {
        // On the heap: only working connections hold its state.
        match Box::pin(connection.converse()).await {
            AfterResponse::Next => {}
            AfterResponse::Close => break,
            AfterResponse::BreakOff { by_client } => {
                if !by_client {
                    Box::pin(connection.wire.deliver()).await;
                }
                return connection.wire.transport.break_off();
            }
            AfterResponse::Linger => return Box::pin(connection.wire.linger()).await,
            AfterResponse::OtherProtocol(received) => {
                let H1Connection { thread, wire, peer, .. } = connection;
                let served = protocols::serve_after_preface(thread, wire, peer, received);
                return Box::pin(served).await;
            }
        }
    }
    if T::KEEPS_BYTES {
        Box::pin(connection.wire.close()).await;
    }
}

impl<T: Transport> H1Connection<T> {
    /// A new connection, of the task of `waker`.
    pub(super) fn new(
        thread: Rc<FrontThread>,
        transport: T,
        waker: Waker,
        peer: Rc<Peer>,
    ) -> H1Connection<T> {
        let limits = &thread.config().limits;
        let wire = TimedTransport::new(transport, waker, thread.watches(), limits);
        wire.watch.set_client(thread.client_tag(&peer));
        H1Connection {
            wire,
            proxy: peer.is_proxy.then(|| Rc::clone(&peer)),
            peer,
            thread,
            served: 0,
            received: 0,
            remaining: UnreadContent::Length(0),
            ends_soon: false,
        }
    }

    /// Returns whether the connection may go on after the present request.
    fn may_persist(&self) -> bool {
        let most = self.thread.config().limits.keep_alive_requests;
        !self.thread.is_draining() && (most == 0 || self.served < most)
    }

    /// Waits, without any buffer, until the client sends something. `false`: it sent nothing.
    async fn has_bytes(&mut self, patience: Duration) -> bool {
        let TimedTransport { transport, watch, .. } = &mut self.wire;
        watch.set_idle(true);
        let mut armed = false;
        let ready = poll_fn(|context| match transport.poll_read_ready(context) {
            Poll::Ready(ready) => Poll::Ready(ready.is_ok()),
            Poll::Pending
                if (armed && watch.is_expired())
                    || watch.is_dismissed()
                    || self.thread.closes_idle() =>
            {
                // A request that arrives at this moment is still answered.
                Poll::Ready(transport.has_input())
            }
            Poll::Pending => {
                if !armed {
                    watch.arm(patience);
                    armed = true;
                }
                Poll::Pending
            }
        })
        .await;
        watch.set_idle(false);
        watch.disarm();
        ready
    }

    /// Waits for the rest of a record of which a part was read, as long as for a head: the request
    /// in it is arriving. `false`: nothing comes.
    async fn has_rest(&mut self) -> bool {
        if !self.wire.transport.is_receiving() {
            return false;
        }
        let patience = self.thread.config().limits.head_timeout;
        let TimedTransport { transport, watch, .. } = &mut self.wire;
        watch.arm(patience);
        let ready = poll_fn(|context| match transport.poll_read_ready(context) {
            Poll::Ready(ready) => Poll::Ready(ready.is_ok()),
            Poll::Pending if watch.is_expired() => Poll::Ready(false),
            // The record was no content.
            Poll::Pending if !transport.is_receiving() => Poll::Ready(transport.has_input()),
            Poll::Pending => Poll::Pending,
        })
        .await;
        watch.disarm();
        ready
    }

    /// Returns how long an idle connection is kept. A fresh one gets the time limit of a head.
    fn idle_timeout(&self) -> Duration {
        let limits = &self.thread.config().limits;
        match self.served {
            0 => limits.head_timeout,
            _ if self.ends_soon => limits.keep_alive_timeout.min(GRACE),
            _ => limits.keep_alive_timeout,
        }
    }

    /// Serves requests until the client pauses or the connection ends.
    async fn converse(&mut self) -> AfterResponse {
        let _working = self.thread.clone().working();
        while self.has_bytes(GRACE).await {
            let mut work = self.thread.lend();
            work.request.scheme = self.peer.scheme;
            let after = self.serve_what_came(&mut work).await;
            self.thread.give_back(work);
            if after != AfterResponse::Next || self.thread.is_over_working_limit() {
                return after;
            }
        }
        AfterResponse::Next
    }

    /// Serves requests until the input is used up.
    async fn serve_what_came(&mut self, work: &mut Workspace) -> AfterResponse {
        for served in 1_usize.. {
            match self.read_head(work).await {
                HeadRead::Complete(parsed) => {
                    self.wire.watch.disarm();
                    self.served += 1;
                    work.request.is_early = self.wire.transport.is_early();
                    work.input.consume(parsed.head_length);
                    self.received = parsed.head_length as u64;
                    self.remaining = UnreadContent::of(&mut work.request, self.thread.limits());
                    let after = match self.proxy {
                        None => self.serve(work, parsed, None).await,
                        Some(_) => Box::pin(self.serve_for_proxy(work, parsed, None)).await,
                    };
                    if after != AfterResponse::Next || work.input.is_empty() {
                        return after;
                    }
                    if served.is_multiple_of(PIPELINED) {
                        tokio::task::yield_now().await;
                    }
                }
                HeadRead::Refused(refusal) if refusal.keeps_head() => {
                    return Box::pin(self.serve_refused(work, refusal)).await;
                }
                HeadRead::Refused(refusal) => {
                    let line = h1::first_line(work.input.bytes(), LONGEST_LINE);
                    work.request.refused_line = line.to_vec();
                    return self.refuse(work, refusal).await;
                }
                HeadRead::OtherProtocol => {
                    return AfterResponse::OtherProtocol(work.input.bytes().to_vec());
                }
                HeadRead::Nothing => return AfterResponse::Next,
                HeadRead::Closed => return AfterResponse::Close,
            }
        }
        AfterResponse::Next
    }

    pub(super) async fn read_head(&mut self, work: &mut Workspace) -> HeadRead {
        let thread = self.thread.clone();
        let (head_timeout, limits) = (thread.config().limits.head_timeout, thread.limits());
        let mut seen = 0;
        loop {
            if !work.input.is_empty() && h1::worth_parsing(work.input.bytes(), seen, limits) {
                work.request.reset();
                match h1::parse_request(work.input.bytes(), limits, &mut work.request) {
                    Ok(HeadProgress::Complete(parsed)) => return HeadRead::Complete(parsed),
                    Ok(HeadProgress::Incomplete) => {}
                    Err(refusal) => match self.preface(work.input.bytes()) {
                        Some(true) => return HeadRead::OtherProtocol,
                        Some(false) => {}
                        None => return HeadRead::Refused(refusal),
                    },
                }
            }
            seen = work.input.bytes().len();
            let nothing_yet = seen == 0;
            let mut patience = match nothing_yet {
                true => Some(GRACE),
                // One time limit for the whole head: sending it byte by byte gains no time.
                false if self.wire.watch.is_disarmed() => Some(head_timeout),
                false => None,
            };
            self.wire.watch.set_idle(nothing_yet);
            let filled =
                poll_fn(|context| self.wire.poll_fill(&mut work.input, &mut patience, context))
                    .await;
            self.wire.watch.set_idle(false);
            if nothing_yet {
                self.wire.watch.disarm();
            }
            match filled {
                Ok(0) | Err(ConnectionError::Broken) => return HeadRead::Closed,
                Ok(_) => {}
                Err(ConnectionError::TimedOut) if nothing_yet => return HeadRead::Nothing,
                Err(ConnectionError::TimedOut) => return HeadRead::Refused(TOO_SLOW),
            }
        }
    }

    /// Returns whether `input`, which no request begins with, holds the whole preface of another
    /// protocol; `None`: it begins no such preface, or the client has negotiated HTTP/1 on TLS.
    #[cold]
    fn preface(&self, input: &[u8]) -> Option<bool> {
        // On TLS the protocol is the one of ALPN (RFC 9113 §3.2).
        if self.served > 0 || self.peer.tls.is_some() {
            return None;
        }
        protocols::has_preface(self.thread.config(), input)
    }

    /// Serves the request that `work` holds, for the client that the proxy names.
    pub(super) async fn serve_for_proxy(
        &mut self,
        work: &mut Workspace,
        parsed: ParsedHead,
        refused: Option<Refusal>,
    ) -> AfterResponse {
        let Some(proxy) = self.proxy.clone() else {
            return self.serve(work, parsed, refused).await;
        };
        let after = match forwarded::sender(&proxy, &mut work.request, self.thread.config()) {
            Ok(sender) => {
                self.peer = Rc::new(sender);
                self.serve(work, parsed, refused).await
            }
            Err(refusal) => self.refuse(work, refusal).await,
        };
        work.request.scheme = proxy.scheme;
        self.peer = proxy;
        after
    }

    /// Serves the request that `work` holds. `refused`: why it gets an error.
    async fn serve(
        &mut self,
        work: &mut Workspace,
        parsed: ParsedHead,
        refused: Option<Refusal>,
    ) -> AfterResponse {
        let (thread, peer) = (self.thread.clone(), self.peer.clone());
        let mut held = thread.held_memory(&peer);
        // It is there as it was received and as data.
        let request = &work.request;
        if !held.hold_many(2 * (request.fields.length() + request.target.len())) {
            return Box::pin(self.refuse(work, NO_MEMORY_FOR_HEAD)).await;
        }
        let arrival = Arrival::now(&thread);
        // While the thread drains, the head of the response ends the connection.
        self.wire.watch.set_at_last_request(true);
        let version = work.request.version;
        let mut stream = H1RequestBody {
            wire: &mut self.wire,
            input: &mut work.input,
            remaining: &mut self.remaining,
            received: &mut self.received,
            version,
            expects_continue: parsed.expect_continue,
            is_waiting: false,
            interim: Vec::new(),
            is_cut: false,
            chunks: DecodedChunks::default(),
            has_failed: false,
        };
        let (request, scratch) = (&mut work.request, &mut work.scratch);
        let mut context =
            RequestContext::new(&thread, &peer, arrival, request, &mut stream, scratch);
        context.refused = refused;
        let ServedRequest { response, site, user, notes } = pipeline::serve(&mut context).await;
        let wants_to_persist = parsed.persistent && !stream.has_failed;
        let Some(mut response) = response.filter(|_| stream.may_respond()) else {
            let connection = ConnectionFacts {
                received: self.received,
                sent: self.wire.taken(),
                earlier: self.served.saturating_sub(1),
                persists: false,
            };
            let (situation, resolved) =
                (self.situation(work, site), (user.as_deref(), notes.as_deref()));
            pipeline::record_gone(&thread, situation, arrival, resolved, connection);
            return AfterResponse::Close;
        };
        let length = response.length();
        // The head is there as data and as it is sent.
        let head = 2 * response.head.get().fields.length();
        let (outcome, after) = match response.tunnel.take() {
            _ if !held.hold_many(held.bytes() + head) => {
                (self.last_outcome(0, 0, Err(PumpError::Memory)), AfterResponse::Close)
            }
            None => self.send(work, site, &mut response, wants_to_persist).await,
            Some(tunnel) => Box::pin(self.carry(work, &response, tunnel)).await,
        };
        let (situation, sent) = (self.situation(work, site), (&mut response, length));
        let resolved = (user.as_deref(), notes.as_deref());
        if let Some(buffer) = pipeline::end(&thread, situation, arrival, sent, resolved, outcome) {
            work.scratch.content = buffer;
        }
        match after {
            AfterResponse::Next if !self.remaining.is_done() => {
                Box::pin(self.discard_rest(work)).await
            }
            after => after,
        }
    }

    /// Encodes and sends a response of `site` to the request in `work`.
    pub(super) async fn send(
        &mut self,
        work: &mut Workspace,
        site: Option<&Site>,
        response: &mut Response,
        wants_to_persist: bool,
    ) -> (SendOutcome, AfterResponse) {
        let is_persistent = wants_to_persist
            && self.may_persist()
            && !response.head.get().asks_to_close()
            && (self.remaining.is_done() || Box::pin(self.discard_arrived(work)).await);
        self.wire.watch.set_at_last_request(!is_persistent);
        work.out.clear();
        self.wire.begin_response();
        let date = self.thread.date();
        let request = &work.request;
        let alternative = self.peer.tls.as_ref().and_then(|tls| tls.alternative(request));
        let hop = HopFields {
            version: work.request.version,
            is_persistent,
            date: &date,
            alternative: alternative.as_ref().map(|value| value.as_bytes()),
        };
        let framing = head::encode(&mut work.out, response, &work.request.method, hop);
        let (bytes, result) = self.send_body(work, site, response, framing).await;
        let after = match (&result, is_persistent && framing != h1::Framing::Close) {
            (Err(error), _) if framing == h1::Framing::Close => AfterResponse::BreakOff {
                by_client: matches!(error, PumpError::Client(_)),
            },
            (Err(_), _) => AfterResponse::Close,
            (Ok(()), true) => AfterResponse::Next,
            (Ok(()), false) if self.remaining.is_done() => AfterResponse::Close,
            (Ok(()), false) => AfterResponse::Linger,
        };
        self.ends_soon = after == AfterResponse::Next && self.thread.is_draining();
        let connection = ConnectionFacts {
            received: self.received,
            sent: self.wire.taken(),
            earlier: self.served.saturating_sub(1),
            persists: after == AfterResponse::Next,
        };
        (SendOutcome { bytes, result, connection }, after)
    }

    /// Sends the head in `work.out`, and the content of `response` in that framing. Returns the
    /// bytes of content that the client took, and how it ended.
    async fn send_body(
        &mut self,
        work: &mut Workspace,
        site: Option<&Site>,
        response: &mut Response,
        framing: h1::Framing,
    ) -> (u64, Result<(), PumpError>) {
        if !framing.has_content() {
            // HEAD, 204, 304: a script runs on, its output is not wanted.
            response.body.discard();
            let sent = self.wire.write_all(&work.out).await;
            return (0, sent.map_err(PumpError::Client));
        }
        let promised = match framing {
            h1::Framing::Length(length) => Some(length),
            _ => None,
        };
        let mut sink = H1Sink::new(&mut self.wire, &mut work.out, framing);
        let limits = self.thread.spool_limits(site);
        let place = self.thread.filter_place(site, &self.peer);
        let held = self.thread.held_memory(&self.peer);
        body::send(response, promised, limits, held, place, &mut sink).await
    }

    pub(super) fn situation<'s>(
        &'s self,
        work: &'s Workspace,
        site: Option<&'s Site>,
    ) -> ErrorContext<'s> {
        ErrorContext {
            peer: &self.peer,
            site,
            phase: Phase::Sending,
            request: &work.request,
        }
    }
}

/// Bytes of the first line of a refused head that are kept for the log, which cuts it there.
const LONGEST_LINE: usize = 8 * 1024 + 1;

const TOO_SLOW: Refusal = Refusal {
    status: Status::REQUEST_TIMEOUT,
    why: "the head took longer than `head_timeout`",
};
