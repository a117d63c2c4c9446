//! A connection of HTTP/2: its task.
//!
//! ```text
//!   preface ──▶ Idle ──request──▶ Working ──last response──▶ Flushing ──▶ Idle …
//!                 │                  │
//!                 │            draining, or as many requests as a connection may have:
//!                 │            GOAWAY twice (RFC 9113 §6.8), then its last streams
//!                 └── nothing for keep_alive_timeout: GOAWAY, closed
//! ```
//! The task reads and answers frames. Each request has a task of its own on the same thread.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream};
use howdah_http::h2::{ExceededLimit, Refusals};

use super::counted_limits::LIBRARY;
use super::outbox::OutboxChunk;
use super::settings::{builder, limits};
use super::shared::H2Shared;
use super::tasks::{self, RequestJob};
use super::wire::{H2Wire, H2WireEnd, LINGER};
use crate::front::FrontThread;
use crate::net::{ConnectionError, DeadlineWatch, Peer, TimedTransport, Transport, task_waker};
use crate::streams::TOO_MUCH;

/// Requests that were refused because the client has too many open, and whose refusals it does not
/// read. Beyond them its connection is closed: the library holds each of them.
const MOST_REFUSALS: u64 = 16;

/// One client's connection.
struct H2Connection<T> {
    frames: ::h2::server::Connection<H2WireEnd<T>, OutboxChunk>,
    wire: Rc<RefCell<H2Wire<T>>>,
    watch: Rc<DeadlineWatch>,
    shared: Rc<H2Shared>,
    served: u64,
    /// Requests that were refused because the connection drains, or the client has too many open,
    /// until their refusals are sent.
    own_refusals: u64,
    /// The client has violated the protocol in a frame that the crate does not know.
    has_mistake: bool,
    state: H2Event,
    /// The begin of the present wait; `None` before its time limit was set.
    since: Option<Instant>,
    is_draining: bool,
}

/// The event that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum H2Event {
    /// Responses that are being made.
    Working,
    /// The client to take what is left of its responses, with the number of chunks moved so far.
    Flushing(u64),
    /// The next request.
    Idle,
    /// The end, which was announced.
    Closing,
}

/// The result of writing to the wire.
struct WireTurn {
    /// Ready: all frames were written, or the connection is broken.
    written: Poll<Result<(), ConnectionError>>,
    /// The limit that the client has exceeded.
    excess: Option<ExceededLimit>,
    /// The connection has ended, and waits for the client to read the last frames.
    lingers: bool,
}

/// Serves one connection, whose client has chosen HTTP/2 before its first byte, to its end. The
/// caller has counted the connection as its client's.
pub(crate) async fn run<T: Transport>(thread: Rc<FrontThread>, transport: T, peer: Rc<Peer>) {
    let waker = task_waker().await;
    let timed = TimedTransport::new(transport, waker, thread.watches(), &thread.config().limits);
    timed.watch.set_client(thread.client_tag(&peer));
    serve(thread, timed, peer, Vec::new()).await;
}

/// Serves one connection to its end. `received` are the bytes that the client has sent so far. The
/// caller has counted the connection as its client's.
pub(crate) async fn serve<T: Transport>(
    thread: Rc<FrontThread>,
    timed: TimedTransport<T>,
    peer: Rc<Peer>,
    received: Vec<u8>,
) {
    let watch = Rc::clone(&timed.watch);
    let wire = Rc::new(RefCell::new(H2Wire::new(timed, received, limits(&thread.config().http2))));
    let shared = Rc::new(H2Shared::new(&thread, peer, task_waker().await));
    if !shared.open.count_connection(&thread, &watch) {
        thread.counters().count_limit("http2", "client_memory");
        return shared.say(&format!("HTTP/2 connection closed: {TOO_MUCH}"));
    }
    let Some(frames) = shake_hands(&thread, &wire, &watch).await else {
        return;
    };
    let mut connection = H2Connection {
        frames,
        wire,
        watch,
        shared: Rc::clone(&shared),
        served: 0,
        own_refusals: 0,
        has_mistake: false,
        state: H2Event::Working,
        since: None,
        is_draining: false,
    };
    let mut drains = pin!(thread.drains());
    let result = poll_fn(|context| {
        if !connection.is_draining
            && (drains.as_mut().poll(context).is_ready() || thread.is_draining())
        {
            connection.drain();
        }
        connection.poll(context)
    })
    .await;
    connection.report_end(result);
    // The requests that are left find their client gone.
    drop(connection);
    shared.open.ended().await;
}

/// Exchanges the prefaces. `None`: the client sent none in time, or something else.
async fn shake_hands<T: Transport>(
    thread: &FrontThread,
    wire: &Rc<RefCell<H2Wire<T>>>,
    watch: &DeadlineWatch,
) -> Option<::h2::server::Connection<H2WireEnd<T>, OutboxChunk>> {
    let limits = &thread.config().limits;
    let mut builder = builder(&thread.config().http2);
    if thread.shared.has_upstreams {
        // WebSockets (RFC 8441 §3).
        builder.enable_connect_protocol();
    }
    let handshake = builder.handshake(H2WireEnd(Rc::clone(wire)));
    let mut handshake = pin!(handshake);
    watch.arm(limits.head_timeout);
    poll_fn(|context| {
        wire.borrow_mut().begin_turn();
        let shaken = handshake.as_mut().poll(context);
        let written = wire.borrow_mut().poll_drain(context);
        match (shaken, written) {
            (_, Poll::Ready(Err(_))) => Poll::Ready(None),
            (Poll::Ready(frames), _) => Poll::Ready(frames.ok()),
            (Poll::Pending, _) if watch.is_expired() || thread.closes_idle() => Poll::Ready(None),
            (Poll::Pending, _) => {
                if watch.is_disarmed() {
                    watch.arm(limits.head_timeout);
                }
                Poll::Pending
            }
        }
    })
    .await
}

impl<T: Transport> H2Connection<T> {
    /// Takes requests, writes frames and closes the connection, until it has to wait. Ready: the
    /// connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ::h2::Error>> {
        self.wire.borrow_mut().begin_turn();
        loop {
            let accepted = self.frames.poll_accept(context);
            self.note_updates();
            match accepted {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.begin(request, respond);
                    continue;
                }
                Poll::Ready(Some(Err(error))) if self.state != H2Event::Closing => {
                    return Poll::Ready(self.failed(error));
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Ok(())),
                Poll::Pending => {}
            }
            let WireTurn { written, excess, lingers } = self.drain_wire(context);
            if lingers {
                return Poll::Pending;
            }
            let is_drained = match written {
                // The client is gone, or takes nothing.
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
            };
            if self.close_for_violation(excess, is_drained) {
                continue;
            }
            if !self.wait(is_drained) {
                return Poll::Pending;
            }
            if self.state == H2Event::Closing {
                return Poll::Ready(Ok(()));
            }
            self.close(Reason::NO_ERROR);
        }
    }

    /// Counts and logs the limits and the error that the connection has ended with.
    fn report_end(&mut self, result: Result<(), ::h2::Error>) {
        let refusals = self.wire.borrow_mut().take_refusals();
        self.count_refusals(refusals);
        if self.wire.borrow().has_timed_out() {
            self.shared.thread.counters().count_limit("http2", "send_timeout");
            self.shared
                .say("HTTP/2 connection closed: the client took nothing for `send_timeout`");
        }
        if let Err(error) = result
            && !error.is_io()
        {
            self.shared.say(&format!("HTTP/2 connection closed: {error}"));
        }
    }

    /// Ends a connection in which the library has found an error. A limit that the client has
    /// exceeded is counted and logged here; any other error is the caller's.
    #[cold]
    fn failed(&self, error: ::h2::Error) -> Result<(), ::h2::Error> {
        let excess = self.wire.borrow().excess();
        match excess {
            // The crate has noticed the same.
            Some(excess) => self.shared.say_excess(excess),
            None => {
                let key = self.exceeded(&error).ok_or(error)?;
                self.shared.thread.counters().count_limit("http2", key);
                self.shared.say_exceeded(key);
            }
        }
        Ok(())
    }

    /// Writes the frames that wait. Gives back the memory that was held for those that were sent.
    fn drain_wire(&mut self, context: &mut Context<'_>) -> WireTurn {
        let mut wire = self.wire.borrow_mut();
        let written = wire.poll_drain(context);
        let excess = wire.excess();
        let (lingers, refusals) = (wire.lingers(), wire.take_refusals());
        let ended = wire.take_ended();
        let is_at_rest = wire.is_at_rest();
        drop(wire);
        // At rest nothing is left, also of streams that the client itself has ended.
        self.shared.open.note_sent(if is_at_rest { u64::MAX } else { ended });
        if is_at_rest || (ended > 0 && !self.shared.open.has_unsent()) {
            self.shared.heads_were_sent();
        }
        if is_at_rest {
            self.shared.outbox.set_aside(|bytes| self.shared.hold_aside(bytes));
        }
        self.shared.hold_aside(self.shared.outbox.aside());
        self.count_refusals(refusals);
        WireTurn { written, excess, lingers }
    }

    /// Closes the connection of a client that violates the protocol or a limit: with too many
    /// frames of a kind, a wrong PRIORITY_UPDATE, or refusals that it does not read. Returns
    /// whether it has.
    fn close_for_violation(&mut self, excess: Option<ExceededLimit>, is_drained: bool) -> bool {
        if self.state == H2Event::Closing {
            return false;
        }
        if let Some(excess) = excess {
            self.shared.say_excess(excess);
            self.close(Reason::ENHANCE_YOUR_CALM);
            return true;
        }
        if self.has_mistake {
            self.shared.say("HTTP/2 connection closed: a PRIORITY_UPDATE is wrong");
            self.close(Reason::PROTOCOL_ERROR);
            return true;
        }
        let is_unread = !is_drained && self.own_refusals > MOST_REFUSALS && !self.is_draining;
        if is_unread {
            self.close(Reason::ENHANCE_YOUR_CALM);
        }
        is_unread
    }

    /// Hands a request to a task, which serves it.
    fn begin(
        &mut self,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<OutboxChunk>,
    ) {
        let id = respond.stream_id().as_u32();
        self.wire.borrow_mut().take_request(id);
        self.shared.updates.begin(id.into());
        if self.is_draining && self.shared.thread.refuses_requests() {
            // The client may send it again, on another connection (RFC 9113 §8.7).
            self.own_refusals += 1;
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let Some(open) = self.shared.open.begin() else {
            return self.refuse(id, respond);
        };
        if self.state != H2Event::Closing && !self.wire.borrow().lingers() {
            self.enter(H2Event::Working);
        }
        self.served += 1;
        if self.served == self.shared.thread.config().limits.keep_alive_requests {
            self.drain();
        }
        tasks::begin(RequestJob {
            shared: Rc::clone(&self.shared),
            request,
            respond,
            is_early: self.wire.borrow().is_early(),
            arriving: self.shared.thread.arriving(),
            open,
        });
    }

    /// Refuses a request of a client that has as many open as it may have.
    #[cold]
    fn refuse(&mut self, id: u32, mut respond: SendResponse<OutboxChunk>) {
        self.shared.thread.counters().count_limit("http2", "client_memory");
        let why = "the client has as many requests open as `client_memory` allows";
        self.shared.say(&format!("HTTP/2 request refused: {why}"));
        self.own_refusals += 1;
        self.shared.updates.end(id.into());
        respond.send_reset(Reason::REFUSED_STREAM);
    }

    /// Notes the priorities that have come.
    fn note_updates(&mut self) {
        let mut wire = self.wire.borrow_mut();
        let updates = wire.take_updates();
        self.has_mistake |= wire.has_mistake();
        drop(wire);
        for update in updates {
            self.has_mistake |= self.shared.updates.note(update).is_err();
            self.shared.outbox.call(update.stream);
        }
    }

    /// Counts refusals that were sent and that are the library's: RST_STREAM beyond `streams`, and
    /// 431 beyond `header_list`.
    fn count_refusals(&mut self, Refusals { streams, answered }: Refusals) {
        let own = streams.min(self.own_refusals);
        self.own_refusals -= own;
        let counters = self.shared.thread.counters();
        (own..streams).for_each(|_| counters.count_limit("http2", "streams"));
        (0..answered).for_each(|_| counters.count_limit("http2", "header_list"));
    }

    /// Returns the key of the limit beyond which the library has ended the connection.
    fn exceeded(&self, error: &::h2::Error) -> Option<&'static str> {
        exceeded_key(error, self.wire.borrow().farewell())
    }

    /// Tells the client to send further requests elsewhere. Those that it has sent are answered.
    fn drain(&mut self) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.watch.set_at_last_request(true);
            self.frames.graceful_shutdown();
        }
    }

    /// Ends the connection, whatever is under way.
    fn close(&mut self, reason: Reason) {
        self.frames.abrupt_shutdown(reason);
        self.enter(H2Event::Closing);
    }

    /// Sets the time limit of what the connection waits for. `is_drained`: all output was written.
    /// Returns whether the limit has passed.
    fn wait(&mut self, is_drained: bool) -> bool {
        let outbox = &self.shared.outbox;
        let state = match self.state {
            H2Event::Closing => H2Event::Closing,
            _ if self.shared.open.count() > 0 => H2Event::Working,
            // Answers to PING and SETTINGS end no idle time.
            H2Event::Idle => H2Event::Idle,
            _ if !is_drained => H2Event::Working,
            H2Event::Flushing(moved) if self.frames.has_streams() && moved == outbox.moved() => {
                H2Event::Flushing(moved)
            }
            _ if self.frames.has_streams() => H2Event::Flushing(outbox.moved()),
            _ => H2Event::Idle,
        };
        self.enter(state);
        if self.state == H2Event::Working {
            // The wire has its own time limit while the client takes nothing.
            return false;
        }
        let closes = self.state == H2Event::Idle && self.shared.thread.closes_idle();
        if self.watch.is_disarmed() {
            // Each write to the wire disarms the watch; the time goes on.
            let since = *self.since.get_or_insert_with(Instant::now);
            self.watch.arm(self.patience().saturating_sub(since.elapsed()));
        }
        closes || self.watch.is_expired()
    }

    fn enter(&mut self, state: H2Event) {
        if self.state == state {
            return;
        }
        self.state = state;
        self.since = None;
        self.watch.disarm();
        self.watch.set_idle(state == H2Event::Idle);
        if state == H2Event::Idle {
            self.wire.borrow_mut().release();
            self.shared.outbox.release();
        }
    }

    /// Returns how long the connection waits in its present state.
    fn patience(&self) -> Duration {
        let limits = &self.shared.thread.config().limits;
        match self.state {
            H2Event::Closing => LINGER,
            H2Event::Working | H2Event::Flushing(_) => limits.send_timeout,
            H2Event::Idle if self.served == 0 => limits.head_timeout,
            H2Event::Idle => limits.keep_alive_timeout,
        }
    }
}

/// Returns the key of the limit beyond which the library has ended a connection, [`LIBRARY`] for a
/// limit of the library's own; `None` for another reason. The library tells the limits apart in its
/// last word to the client alone.
fn exceeded_key(error: &::h2::Error, farewell: &[u8]) -> Option<&'static str> {
    if !(error.is_library() && error.is_go_away()) {
        return None;
    }
    match error.reason() {
        // The rest of a head that is too large already.
        Some(Reason::COMPRESSION_ERROR) => Some("header_list"),
        Some(Reason::ENHANCE_YOUR_CALM) => Some(match farewell {
            b"header_list_way_too_large" => "header_list",
            b"too_many_continuations" => "continuations",
            b"too_many_resets" => "resets",
            _ => LIBRARY,
        }),
        _ => None,
    }
}
