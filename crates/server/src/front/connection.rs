//! A connection: its socket, its time limit, and the turns between idle and working.
//!
//! ```text
//!   accepted ──▶ Idle ──bytes──▶ reading a head ──▶ serving ──▶ reading the next head …
//!                 ▲                                                │ nothing for a second
//!                 └────────────────────────────────────────────────┘
//! ```
//! A connection has buffers only while there are bytes of a request or of a response in them. An
//! idle connection owns a socket and a watch, no buffers: ten thousand of them cost what ten
//! thousand sockets cost.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_http::h1::{self, Parsed, Progress, Refusal};
use howdah_http::{Content, Request, Status};
use howdah_site::Client;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use super::answer::Answer;
use super::buffer::Buffer;
use super::clock::Now;
use super::deadline::Watch;
use super::phase::Phase;
use super::thread::Thread;
use super::workspace::Workspace;

/// How long a connection stays ready for the next request before it is put to rest.
const GRACE: Duration = Duration::from_secs(1);
/// After an answer to a request that we did not read to its end: how long we go on reading, so that
/// the client sees the answer and not a reset (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
/// And how many bytes at most.
const LINGER_BYTES: usize = 1 << 20;

/// One client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    thread: Rc<Thread>,
    watch: Rc<Watch>,
    phase: Cell<Phase>,
    served: u64,
    /// The present request's content was received, or there is none: the next request begins where
    /// it ends.
    content_done: bool,
    /// Some or all of it was received and forgotten.
    pub(super) content_forgotten: bool,
}

/// Why reading or writing ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The deadline passed.
    TimedOut,
    /// The client closed or reset the connection.
    Broken,
}

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// With the next request.
    Next,
    /// It is closed.
    Close,
    /// It is closed, but there is unread content: read on for a while.
    Linger,
}

/// What reading a head ended with.
enum HeadRead {
    Complete(Parsed),
    Refused(Refusal),
    /// Nothing came.
    Nothing,
    /// Closed, or too slow with nothing to answer.
    Closed,
}

/// Serves one connection to its end.
pub(super) async fn run(
    thread: Rc<Thread>,
    stream: TcpStream,
    remote: SocketAddr,
    local: SocketAddr,
) {
    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let watch = thread.watches().add(waker);
    let mut connection = Connection {
        stream,
        remote,
        local,
        thread,
        watch,
        phase: Cell::new(Phase::Idle),
        served: 0,
        content_done: true,
        content_forgotten: false,
    };
    while connection.has_bytes(connection.idle_patience()).await {
        // On the heap, so that only working connections hold its state.
        match Box::pin(connection.converse()).await {
            After::Next => {}
            After::Close => return,
            After::Linger => return Box::pin(connection.linger()).await,
        }
    }
}

impl Connection {
    /// Who sent `request`, and when it came.
    pub(super) fn client<'r>(&self, request: &'r Request, began: Now) -> Client<'r> {
        Client::new(request, self.remote, self.local, began.microseconds)
    }

    pub(super) fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.phase.set(phase);
    }

    pub(super) fn is_content_done(&self) -> bool {
        self.content_done
    }

    pub(super) fn content_done(&mut self) {
        self.content_done = true;
    }

    /// Whether the connection may go on after the present response.
    pub(super) fn may_persist(&self) -> bool {
        let most = self.thread.config().limits.keep_alive_requests;
        self.content_done && !self.thread.is_draining() && (most == 0 || self.served < most)
    }

    /// Waits, without any buffer, until the client sends something. `false`: it did not.
    async fn has_bytes(&mut self, patience: Duration) -> bool {
        self.set_phase(Phase::Idle);
        self.watch.set_idle(true);
        let mut armed = false;
        let ready = poll_fn(|context| match self.stream.poll_read_ready(context) {
            Poll::Ready(ready) => Poll::Ready(ready.is_ok()),
            Poll::Pending if (armed && self.watch.is_expired()) || self.thread.closes_idle() => {
                Poll::Ready(false)
            }
            Poll::Pending => {
                if !armed {
                    self.watch.arm(Instant::now(), patience);
                    armed = true;
                }
                Poll::Pending
            }
        })
        .await;
        self.watch.set_idle(false);
        self.watch.disarm();
        ready
    }

    /// How long an idle connection is kept. A fresh one gets the time of a head.
    fn idle_patience(&self) -> Duration {
        let limits = &self.thread.config().limits;
        if self.served == 0 {
            limits.head_timeout
        } else {
            limits.keep_alive_timeout
        }
    }

    /// Serves requests until the client pauses or the connection ends.
    async fn converse(&mut self) -> After {
        let _working = self.thread.clone().working();
        while self.has_bytes(GRACE).await {
            let mut work = self.thread.lend();
            let after = self.serve_what_came(&mut work).await;
            self.thread.give_back(work);
            if after != After::Next || self.thread.is_crowded() {
                return after;
            }
        }
        After::Next
    }

    /// Serves requests until nothing is left of what came.
    async fn serve_what_came(&mut self, work: &mut Workspace) -> After {
        loop {
            match self.read_head(work).await {
                HeadRead::Complete(parsed) => {
                    self.watch.disarm();
                    self.served += 1;
                    work.input.consume(parsed.head_length);
                    self.content_done = work.request.content == Content::None;
                    self.content_forgotten = false;
                    let after = super::pipeline::serve(self, work, parsed).await;
                    if after != After::Next || work.input.is_empty() {
                        return after;
                    }
                }
                HeadRead::Refused(refusal) => return self.refuse(work, refusal).await,
                HeadRead::Nothing => return After::Next,
                HeadRead::Closed => return After::Close,
            }
        }
    }

    async fn read_head(&mut self, work: &mut Workspace) -> HeadRead {
        let thread = self.thread.clone();
        let (head_timeout, limits) = (thread.config().limits.head_timeout, thread.limits());
        let mut seen = 0;
        loop {
            if !work.input.is_empty() && h1::worth_parsing(work.input.bytes(), seen, limits) {
                work.request.reset();
                match h1::parse_request(work.input.bytes(), limits, &mut work.request) {
                    Ok(Progress::Complete(parsed)) => return HeadRead::Complete(parsed),
                    Ok(Progress::Incomplete) => {}
                    Err(refusal) => return HeadRead::Refused(refusal),
                }
            }
            seen = work.input.bytes().len();
            let nothing_yet = seen == 0;
            self.set_phase(if nothing_yet { Phase::Idle } else { Phase::ReadingHead });
            let patience = match self.phase() {
                Phase::Idle => Some(GRACE),
                // From the first bytes on, for the whole head: drops that keep coming gain nothing.
                _ if self.watch.is_disarmed() => Some(head_timeout),
                _ => None,
            };
            self.watch.set_idle(nothing_yet);
            let filled = self.fill_until(&mut work.input, patience).await;
            self.watch.set_idle(false);
            if nothing_yet {
                self.watch.disarm();
            }
            match filled {
                Ok(0) | Err(Cut::Broken) => return HeadRead::Closed,
                Ok(_) => {}
                Err(Cut::TimedOut) if nothing_yet => return HeadRead::Nothing,
                Err(Cut::TimedOut) => return HeadRead::Refused(TOO_SLOW),
            }
        }
    }

    /// Answers a head that was refused. Whose fault it was, and what it was, goes to the log.
    async fn refuse(&mut self, work: &mut Workspace, refusal: Refusal) -> After {
        self.thread
            .report(&super::trouble::Trouble::client(self, refusal.status, refusal.why));
        self.content_done = false;
        super::send::send_refusal(self, work, Answer::error(refusal.status)).await
    }

    /// Reads once; 0 bytes are the end. The deadline starts now.
    pub(super) async fn fill(
        &mut self,
        input: &mut Buffer,
        patience: Duration,
    ) -> Result<usize, Cut> {
        let result = self.fill_until(input, Some(patience)).await;
        self.watch.disarm();
        result
    }

    async fn fill_until(
        &mut self,
        input: &mut Buffer,
        patience: Option<Duration>,
    ) -> Result<usize, Cut> {
        let Connection { stream, watch, .. } = self;
        let mut patience = patience;
        poll_fn(|context| match input.poll_fill(stream, context) {
            Poll::Ready(Ok(count)) => Poll::Ready(Ok(count)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Cut::Broken)),
            Poll::Pending if watch.is_expired() => Poll::Ready(Err(Cut::TimedOut)),
            Poll::Pending => {
                // The clock is only read when there is something to wait for.
                if let Some(patience) = patience.take() {
                    watch.arm(Instant::now(), patience);
                }
                Poll::Pending
            }
        })
        .await
    }

    /// Writes all of `bytes`.
    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), Cut> {
        let patience = self.thread.config().limits.send_timeout;
        let Connection { stream, watch, .. } = self;
        let mut armed = false;
        let result = poll_fn(|context| {
            while !bytes.is_empty() {
                match Pin::new(&mut *stream).poll_write(context, bytes) {
                    Poll::Ready(Ok(count)) => {
                        bytes = &bytes[count..];
                        armed = false;
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut::Broken)),
                    Poll::Pending if armed && watch.is_expired() => {
                        return Poll::Ready(Err(Cut::TimedOut));
                    }
                    Poll::Pending => {
                        if !armed {
                            watch.arm(Instant::now(), patience);
                            armed = true;
                        }
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await;
        self.watch.disarm();
        result
    }

    /// Repeats `step`, which sends something, whenever the socket takes more, until `step` says
    /// that it is done.
    pub(super) async fn send_steps(
        &mut self,
        mut step: impl FnMut(&TcpStream) -> io::Result<bool>,
    ) -> Result<(), Cut> {
        let patience = self.thread.config().limits.send_timeout;
        let Connection { stream, watch, .. } = self;
        let mut armed = false;
        let result = poll_fn(|context| {
            loop {
                match step(stream) {
                    Ok(true) => return Poll::Ready(Ok(())),
                    Ok(false) => armed = false,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        match stream.poll_write_ready(context) {
                            Poll::Ready(Ok(())) => continue,
                            Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut::Broken)),
                            Poll::Pending => {}
                        }
                        if armed && watch.is_expired() {
                            return Poll::Ready(Err(Cut::TimedOut));
                        }
                        if !armed {
                            watch.arm(Instant::now(), patience);
                            armed = true;
                        }
                        return Poll::Pending;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Poll::Ready(Err(Cut::Broken)),
                }
            }
        })
        .await;
        self.watch.disarm();
        result
    }

    /// Whether the client has closed its side, as far as it can be known without reading its bytes.
    /// Has `context` woken when that changes.
    pub(super) fn poll_closed(&self, context: &mut Context<'_>) -> bool {
        matches!(self.poll_peek(context), Poll::Ready(Ok(0) | Err(_)))
    }

    /// Whether the connection is broken. A client that closed only its own side still reads.
    pub(super) fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        matches!(self.poll_peek(context), Poll::Ready(Err(_)))
    }

    fn poll_peek(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut byte = [0; 1];
        self.stream.poll_peek(context, &mut tokio::io::ReadBuf::new(&mut byte))
    }

    /// Reads and forgets what the client still sends, so that closing does not destroy the answer
    /// on its way.
    async fn linger(&mut self) {
        if poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context))
            .await
            .is_err()
        {
            return;
        }
        let mut input = Buffer::default();
        let mut left = LINGER_BYTES;
        let end = Instant::now() + LINGER;
        while left > 0 {
            let patience = end.saturating_duration_since(Instant::now());
            match self.fill(&mut input, patience).await {
                Ok(count) if count > 0 && !patience.is_zero() => {
                    left = left.saturating_sub(count);
                    input.clear();
                }
                _ => return,
            }
        }
    }
}

const TOO_SLOW: Refusal = Refusal {
    status: Status::REQUEST_TIMEOUT,
    why: "the head took longer than head_timeout",
};
