//! A request of an HTTP/3 connection, from its head to the end of its response.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ::h3::error::{Code, StreamError};
use ::h3::server::{RequestResolver, RequestStream};
use bytes::Bytes;
use howdah_http::priority::Priority;
use howdah_http::{Content, Refusal, Version};
use howdah_site::Site;
use http::request::Parts;

use super::connection::Shared;
use super::outgoing::Outgoing;
use super::request_body::{Received, RequestBody, promised};
use super::sink::Sink;
use super::transport::{Newest, Stream as Streams, Transport};
use crate::body::{self, Body, PumpError, Source};
use crate::front::{Thread, Workspace};
use crate::h2::head;
use crate::net::{ConnectionError, Peer, forwarded};
use crate::observe::{ConnectionFacts, Phase, RecordedResponse, RequestError, Situation};
use crate::pipeline::{self, Arrival, Outcome, RequestContext, Response, Served};

/// A request whose head has not been read.
pub(super) type Unread = RequestResolver<Transport, Bytes>;

/// Serves a request of the connection, until the client has the whole response.
pub(super) async fn serve(
    shared: &Shared,
    request: Unread,
    Newest { outgoing, unseen, is_early }: Newest,
) {
    let (parts, stream) = match read_head(shared, request).await {
        Head::Read(parts, stream) => (parts, stream),
        Head::Refused => {
            // An error shows that the client is gone.
            let _ = poll_fn(|context| outgoing.poll_finished(context)).await;
            return confirm(shared, &outgoing).await;
        }
        Head::None => return outgoing.reset(Code::H3_REQUEST_INCOMPLETE),
    };
    unseen.set(0);
    let (respond, content) = stream.split();
    let mut content = Received::new(content, unseen);
    poll_fn(|context| {
        content.look(context);
        Poll::Ready(())
    })
    .await;
    let thread = &shared.thread;
    let mut work = thread.lend();
    work.request.scheme = shared.peer.scheme;
    let proxied = shared.peer.is_proxy;
    let mut peer = shared.present_peer();
    let (ends, limits, request) = (content.is_over(), thread.limits(), &mut work.request);
    let protocol = parts.extensions.get::<::h3::ext::Protocol>().map(|protocol| protocol.as_str());
    let mut read = head::read(Version::Http3, &parts, protocol, ends, proxied, limits, request);
    drop(parts);
    work.request.is_early = is_early;
    if proxied && read.is_ok() {
        match forwarded::sender(&shared.peer, &mut work.request, thread.config()) {
            Ok(sender) => peer = sender,
            Err(refusal) => read = Err(refusal),
        }
    }
    let mut stream = Stream {
        shared,
        peer,
        arrival: Arrival::now(thread),
        respond: RefCell::new(respond),
        outgoing,
    };
    match read {
        Ok(expects_continue) => stream.serve(&mut work, content, expects_continue).await,
        Err(refusal) => stream.refuse(&mut work, refusal).await,
    }
    thread.give_back(work);
    confirm(shared, &stream.outgoing).await;
}

/// The head of a request.
enum Head {
    Read(Box<Parts>, RequestStream<Streams, Bytes>),
    /// The crate has answered 431.
    Refused,
    /// There is no request to serve, or the client is gone.
    None,
}

/// Reads the head of a request, for at most `head_timeout`.
async fn read_head(shared: &Shared, request: Unread) -> Head {
    let thread = &shared.thread;
    let resolved = request.resolve_request();
    match within(thread, thread.config().limits.head_timeout, resolved).await {
        Some(Ok((request, stream))) => Head::Read(Box::new(request.into_parts().0), stream),
        Some(Err(StreamError::HeaderTooBig { .. })) => Head::Refused,
        Some(Err(StreamError::RemoteTerminate { .. })) => {
            shared.count_reset();
            Head::None
        }
        Some(Err(_)) | None => Head::None,
    }
}

/// Waits until the client has the whole response, for at most `send_timeout`: the end of the
/// connection would take it away.
async fn confirm(shared: &Shared, outgoing: &Outgoing) {
    let thread = &shared.thread;
    let is_broken = outgoing.is_broken();
    let confirmed = poll_fn(|context| outgoing.poll_confirmed(context));
    let confirmed = within(thread, thread.config().limits.send_timeout, confirmed).await;
    if confirmed == Some(false) && !is_broken {
        // The client has cancelled a response that was made already.
        shared.count_reset();
    }
}

/// Waits for `work`, for at most that time.
async fn within<T>(thread: &Thread, most: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut watch = None;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => {
            let watch = watch.get_or_insert_with(|| {
                let watch = thread.watches().add(context.waker().clone());
                watch.arm(Instant::now(), most);
                watch
            });
            match watch.is_expired() {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        }
    })
    .await
}

/// One request.
struct Stream<'s> {
    shared: &'s Shared,
    /// The sender of the request.
    peer: Peer,
    arrival: Arrival,
    respond: RefCell<RequestStream<Outgoing, Bytes>>,
    outgoing: Outgoing,
}

impl Stream<'_> {
    /// Serves the request that `work` holds.
    async fn serve(&mut self, work: &mut Workspace, content: Received, expects_continue: bool) {
        let (thread, peer) = (&self.shared.thread, &self.peer);
        let mut body = RequestBody {
            thread,
            content,
            respond: &self.respond,
            outgoing: &self.outgoing,
            expects_continue,
            received: 0,
            promised: promised(work.request.content),
            watch: None,
            is_waiting: false,
        };
        let mut context = RequestContext::new(
            thread,
            peer,
            self.arrival,
            &mut work.request,
            &mut body,
            &mut work.scratch,
        );
        let Served { response, site, user, notes } = pipeline::serve(&mut context).await;
        let Some(mut response) = response else {
            self.shared.count_reset();
            return self.outgoing.reset(Code::H3_REQUEST_CANCELLED);
        };
        let length = response.length();
        let mut outcome = self.send(work, site, &mut response).await;
        outcome.connection.received = body.received;
        // The client need not send the rest of a content that nobody has read.
        drop(body);
        let situation = self.situation(work, site, Phase::Sending);
        let recorded = RecordedResponse {
            head: response.head.get(),
            length,
            user: user.as_deref(),
            notes: notes.as_deref(),
        };
        pipeline::record(thread, situation, self.arrival, recorded, outcome);
        if let Body::Buffer(buffer, _) = response.body {
            work.scratch.content = buffer;
        }
    }

    /// Answers a refused head.
    async fn refuse(&mut self, work: &mut Workspace, refusal: Refusal) {
        let thread = &self.shared.thread;
        work.request.content = Content::None;
        let situation = self.situation(work, None, Phase::ReadingHead);
        thread.report(&RequestError::head(situation, refusal.status, refusal.why));
        let mut response = Response::error(refusal.status);
        let length = response.length();
        let outcome = self.send(work, None, &mut response).await;
        let situation = self.situation(work, None, Phase::Sending);
        let head = response.head.get();
        let recorded = RecordedResponse { head, length, user: None, notes: None };
        pipeline::record(thread, situation, self.arrival, recorded, outcome);
    }

    /// Sends a response of `site` to the request in `work`.
    async fn send(
        &self,
        work: &Workspace,
        site: Option<&Site>,
        response: &mut Response,
    ) -> Outcome {
        let thread = &self.shared.thread;
        let (promised, method) = (response.stated_length(), &work.request.method);
        let made = head::response(response.head.get(), method, promised, &thread.date(), None);
        self.outgoing.set_priority(priority(work, response));
        let has_content = response.has_content(&work.request);
        let Response { body, filters, .. } = response;
        if !has_content {
            // HEAD, 204, 304: a script runs on, its output is not wanted.
            body.discard();
        }
        if self.send_head(made).is_err() {
            self.shared.count_reset();
            self.outgoing.reset(Code::H3_REQUEST_CANCELLED);
            return self.outcome(0, Err(PumpError::Client(ConnectionError::Broken)));
        }
        let is_empty = filters.is_empty() && body.in_memory().is_some_and(<[u8]>::is_empty);
        let mut sink = Sink::new(thread, &self.respond, &self.outgoing);
        let (bytes, result) = match !has_content || is_empty {
            true => (0, end(&mut sink).await),
            false => {
                let limits = thread.spool_limits(site);
                let place = thread.filter_place(site, &self.shared.peer);
                body::send(body, filters, promised, limits, place, &mut sink).await
            }
        };
        match &result {
            Ok(()) => {}
            Err(PumpError::Client(_)) => {
                self.shared.count_reset();
                sink.reset(Code::H3_REQUEST_CANCELLED);
            }
            Err(_) => sink.reset(Code::H3_INTERNAL_ERROR),
        }
        self.outcome(bytes, result)
    }

    /// Sends the head. What QUIC does not take at once goes before the content.
    fn send_head(&self, head: http::Response<()>) -> Result<(), StreamError> {
        let mut context = Context::from_waker(Waker::noop());
        let mut respond = self.respond.borrow_mut();
        match pin!(respond.send_response(head)).poll(&mut context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Heads are compressed with state of the connection: the bytes of content are counted alone.
    fn outcome(&self, bytes: u64, result: Result<(), PumpError>) -> Outcome {
        let connection = ConnectionFacts {
            received: 0,
            sent: bytes,
            earlier: self.outgoing.index(),
            persists: true,
        };
        Outcome { bytes, result, connection }
    }

    fn situation<'s>(
        &'s self,
        work: &'s Workspace,
        site: Option<&'s Site>,
        phase: Phase,
    ) -> Situation<'s> {
        Situation {
            peer: &self.peer,
            site,
            phase,
            request: &work.request,
        }
    }
}

/// Ends a response without content.
async fn end(sink: &mut Sink<'_>) -> Result<(), PumpError> {
    poll_fn(|context| body::Sink::poll_finish(sink, context))
        .await
        .map_err(PumpError::from)
}

/// Returns the priority that the request asks for, or the one of the script (RFC 9218 §8).
fn priority(work: &Workspace, response: &Response) -> Priority {
    let asked = Priority::of_request(work.request.fields.value(b"priority"));
    match response.head.get().fields.value(b"priority") {
        Some(field) => asked.with_field(field),
        None => asked,
    }
}
