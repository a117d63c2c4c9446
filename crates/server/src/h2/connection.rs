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

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream};
use howdah_http::h2::{ExceededLimit, Refusals};

use super::outbox::{H2Outbox, OutboxChunk};
use super::settings::{builder, limits};
use super::tasks::{self, RequestJob};
use super::wire::{H2Wire, H2WireEnd, LINGER};
use crate::front::FrontThread;
use crate::log::Level;
use crate::net::{DeadlineWatch, Peer, TimedTransport, Transport, task_waker};
use crate::observe::LIBRARY;
use crate::streams::{OpenRequests, PriorityUpdates, TOO_MUCH};

/// Requests that were refused because the client has too many open, and whose refusals it does not
/// read. Beyond them its connection is closed: the library holds each of them.
const MOST_REFUSALS: u64 = 16;

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
    let task = task_waker().await;
    let account = thread.client_streams(&peer);
    let shared = Rc::new(H2Shared {
        thread: Rc::clone(&thread),
        peer,
        outbox: Rc::default(),
        held: Cell::new(0),
        unsent_heads: Cell::new(0),
        open: Rc::new(OpenRequests::new(task, account)),
        updates: PriorityUpdates::new(thread.config().http2.streams),
    });
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
    let refusals = connection.wire.borrow_mut().take_refusals();
    connection.count_refusals(refusals);
    if connection.wire.borrow().has_timed_out() {
        thread.counters().count_limit("http2", "send_timeout");
        shared.say("HTTP/2 connection closed: the client took nothing for `send_timeout`");
    }
    if let Err(error) = result
        && !error.is_io()
    {
        shared.say(&format!("HTTP/2 connection closed: {error}"));
    }
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
                    let excess = self.wire.borrow().excess();
                    return Poll::Ready(match excess {
                        // The crate has noticed the same.
                        Some(excess) => {
                            self.shared.say_excess(excess);
                            Ok(())
                        }
                        None => self.exceeded(&error).ok_or(error).map(|key| {
                            self.shared.thread.counters().count_limit("http2", key);
                            self.shared.say_exceeded(key);
                        }),
                    });
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Ok(())),
                Poll::Pending => {}
            }
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
                self.shared.unsent_heads.set(0);
            }
            if is_at_rest {
                self.shared.outbox.set_aside(|bytes| self.shared.hold_aside(bytes));
            }
            self.shared.hold_aside(self.shared.outbox.aside());
            self.count_refusals(refusals);
            if lingers {
                return Poll::Pending;
            }
            match (written, excess) {
                // The client is gone, or takes nothing.
                (Poll::Ready(Err(_)), _) => return Poll::Ready(Ok(())),
                (_, Some(excess)) if self.state != H2Event::Closing => {
                    self.shared.say_excess(excess);
                    self.close(Reason::ENHANCE_YOUR_CALM);
                }
                _ if self.has_mistake && self.state != H2Event::Closing => {
                    self.shared.say("HTTP/2 connection closed: a PRIORITY_UPDATE is wrong");
                    self.close(Reason::PROTOCOL_ERROR);
                }
                (Poll::Pending, _)
                    if self.own_refusals > MOST_REFUSALS
                        && !self.is_draining
                        && self.state != H2Event::Closing =>
                {
                    self.close(Reason::ENHANCE_YOUR_CALM);
                }
                (written, _) => {
                    if !self.wait(written.is_ready()) {
                        return Poll::Pending;
                    }
                    if self.state == H2Event::Closing {
                        return Poll::Ready(Ok(()));
                    }
                    self.close(Reason::NO_ERROR);
                }
            }
        }
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

impl H2Shared {
    /// Counts `bytes` in the client's account that the library holds for closed windows, beside
    /// heads that were not sent. Returns whether the account has room for them.
    fn hold_aside(&self, bytes: usize) -> bool {
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

    fn say_excess(&self, excess: ExceededLimit) {
        let key = excess.key();
        self.thread.counters().count_limit("http2", key);
        self.say(&format!(
            "HTTP/2 connection closed: the client sends more frames than `{key}` of [http2] allows"
        ));
    }

    fn say_exceeded(&self, key: &str) {
        let what = match key {
            LIBRARY => "sends too many frames that have no effect".to_owned(),
            key => format!("goes beyond `{key}` of [http2]"),
        };
        self.say(&format!("HTTP/2 connection closed: the client {what}"));
    }

    /// Logs an event of the connection.
    fn say(&self, what: &str) {
        self.thread.shared.log.say_of_client(Level::Info, None, self.peer.remote, what);
    }
}

impl Drop for H2Shared {
    fn drop(&mut self) {
        self.unsent_heads.set(0);
        self.hold_aside(0);
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
