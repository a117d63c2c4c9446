//! A request and its response, from the request's head to the end of the response.

use std::future::poll_fn;
use std::rc::Rc;

use howdah_http::{Refusal, Request, Status};
use howdah_site::Site;
use http::request::Parts;

use super::request_body::StreamRequestBody;
use super::{ResetCause, ResponsePriority, Stream, StreamSink, head, unread};
use crate::body::{self, BodySource, PumpError, Sink};
use crate::front::{ArrivingRequest, Workspace};
use crate::net::{ConnectionError, NO_MEMORY_FOR_HEAD, Peer, forwarded};
use crate::observe::{ConnectionFacts, ErrorContext, Phase, RequestError, ResolutionNotes};
use crate::pipeline::{self, Arrival, RequestContext, Response, SendOutcome, ServedRequest};

/// Fields of a head that is encoded in a turn of its own.
const MANY_FIELDS: usize = 500;

/// Serves the request with that head. `ends`: no content follows the head.
pub(crate) async fn serve<S: Stream>(
    stream: &S,
    (parts, arriving): (Parts, ArrivingRequest),
    content: S::Content,
    ends: bool,
) {
    // The pipeline counts the request for its site before anything else runs.
    drop(arriving);
    let thread = stream.thread();
    let mut work = thread.lend();
    let (read, peer) = read(stream, parts, ends, &mut work.request);
    let exchange = StreamExchange {
        stream,
        peer,
        arrival: Arrival::now(thread),
    };
    // A head can be a thousand times as long as the bytes that brought it (HPACK, QPACK).
    let mut held = thread.held_memory(&exchange.peer);
    let length = work.request.fields.length() + work.request.target.len();
    if !held.hold_many(length) {
        exchange.give_up(&mut work);
        return thread.give_back(work);
    }
    let rest = match read {
        Ok(expects_continue) => exchange.serve(&mut work, content, expects_continue, None).await,
        Err(refusal) if refusal.keeps_head() => {
            work.request.content = howdah_http::Content::None;
            Box::pin(exchange.serve(&mut work, content, false, Some(refusal))).await
        }
        Err(refusal) => exchange.refuse(&mut work, refusal).await.then_some(content),
    };
    thread.give_back(work);
    if let Some(rest) = rest.filter(|_| !ends) {
        unread::discard(stream, rest).await;
    }
}

/// Reads the head of a request into `into`. Returns whether the client waits for 100 (Continue),
/// and the sender of the request.
fn read<S: Stream>(
    stream: &S,
    parts: Parts,
    ends: bool,
    into: &mut Request,
) -> (Result<bool, Refusal>, Rc<Peer>) {
    let (thread, peer) = (stream.thread(), stream.peer());
    into.scheme = peer.scheme;
    let protocol = stream.protocol(&parts);
    let limits = thread.limits();
    let read = head::read(S::VERSION, &parts, protocol, ends, peer.is_proxy, limits, into);
    into.is_early = stream.is_early();
    let is_known = read.as_ref().map_or_else(Refusal::keeps_head, |_| true);
    if peer.is_proxy && is_known {
        match forwarded::sender(peer, into, thread.config()) {
            Ok(sender) => return (read, Rc::new(sender)),
            Err(refusal) => return (Err(refusal), Rc::clone(peer)),
        }
    }
    (read, Rc::clone(peer))
}

/// A request that was read or refused.
pub(super) struct StreamExchange<'s, S> {
    pub(super) stream: &'s S,
    /// The sender of the request.
    peer: Rc<Peer>,
    arrival: Arrival,
}

impl<S: Stream> StreamExchange<'_, S> {
    /// Serves the request that `work` holds. `refused`: why it gets an error. Returns the client's
    /// side of the stream, of which a part may be unread, if the client has got its response.
    async fn serve(
        &self,
        work: &mut Workspace,
        content: S::Content,
        expects_continue: bool,
        refused: Option<Refusal>,
    ) -> Option<S::Content> {
        let (thread, peer) = (self.stream.thread(), &self.peer);
        let mut body =
            StreamRequestBody::new(self.stream, content, work.request.content, expects_continue);
        let mut context = RequestContext::new(
            thread,
            peer,
            self.arrival,
            &mut work.request,
            &mut body,
            &mut work.scratch,
        );
        context.refused = refused;
        let ServedRequest { response, site, user, notes } = pipeline::serve(&mut context).await;
        let Some(mut response) = response else {
            let (_, received) = body.into_parts();
            self.record_gone(work, site, (user.as_deref(), notes.as_deref()), received);
            return None;
        };
        if work.request.is_extended_connect
            && response.tunnel.is_none()
            && response.status().is_success()
        {
            // With a 2xx the client would take the content for messages (RFC 8441 §5). It is the
            // client's error: the site's errors decide about a reload.
            response = Response::error(Status::BAD_REQUEST);
        }
        let length = response.length();
        let (content, received) = body.into_parts();
        let (mut outcome, content) = match response.tunnel.take() {
            Some(tunnel) => {
                (Box::pin(self.carry(work, &mut response, tunnel, content)).await, None)
            }
            None => {
                let outcome = self.send(work, site, &mut response).await;
                let content = outcome.result.is_ok().then_some(content);
                (outcome, content)
            }
        };
        outcome.connection.received += received;
        let situation = self.situation(work, site, Phase::Sending);
        let (sent, resolved) = ((&mut response, length), (user.as_deref(), notes.as_deref()));
        if let Some(buffer) =
            pipeline::end(thread, situation, self.arrival, sent, resolved, outcome)
        {
            work.scratch.content = buffer;
        }
        content
    }

    /// Records that the client has gone before there was a response, and abandons the stream.
    fn record_gone(
        &self,
        work: &Workspace,
        site: Option<&Site>,
        resolved: (Option<&[u8]>, Option<&ResolutionNotes>),
        received: u64,
    ) {
        let connection = ConnectionFacts {
            received,
            earlier: self.stream.earlier(),
            ..ConnectionFacts::default()
        };
        let situation = self.situation(work, site, Phase::Sending);
        let thread = self.stream.thread();
        pipeline::record_gone(thread, situation, self.arrival, resolved, connection);
        self.stream.abandon();
    }

    /// Gives up a request whose client has no room for its head in `client_memory`. It has not
    /// begun.
    #[cold]
    fn give_up(&self, work: &mut Workspace) {
        let situation = self.situation(work, None, Phase::ReadingHead);
        let Refusal { status, why } = NO_MEMORY_FOR_HEAD;
        let error = RequestError::head(situation, status, why);
        self.stream.thread().report(&error);
        self.record_gone(work, None, (None, None), 0);
        work.request = Request::default();
    }

    /// Answers a refused head. Returns whether the client has got the response.
    async fn refuse(&self, work: &mut Workspace, refusal: Refusal) -> bool {
        let thread = self.stream.thread();
        work.request.content = howdah_http::Content::None;
        let situation = self.situation(work, None, Phase::ReadingHead);
        thread.report(&RequestError::head(situation, refusal.status, refusal.why));
        let mut response = Response::error(refusal.status);
        let length = response.length();
        let outcome = self.send(work, None, &mut response).await;
        let situation = self.situation(work, None, Phase::Sending);
        let is_sent = outcome.result.is_ok();
        let sent = (&mut response, length);
        pipeline::end(thread, situation, self.arrival, sent, (None, None), outcome);
        is_sent
    }

    /// Sends a response of `site` to the request in `work`.
    async fn send(
        &self,
        work: &Workspace,
        site: Option<&Site>,
        response: &mut Response,
    ) -> SendOutcome {
        let thread = self.stream.thread();
        let (promised, method) = (response.stated_length(), &work.request.method);
        let request = &work.request;
        let alternative = self.peer.tls.as_ref().and_then(|tls| tls.alternative(request));
        let date = thread.date();
        let mut held_head = thread.held_memory(&self.peer);
        if !held_head.hold_many(response.head.get().fields.length()) {
            self.stream.abandon();
            return self.outcome(0, Err(PumpError::Memory));
        }
        if response.head.get().fields.len() > MANY_FIELDS {
            thread.long_head_turns().take().await;
        }
        let made = head::response(&response.head, method, promised, &date, alternative.as_deref());
        let priority = priority(work, response);
        let has_content = response.has_content(&work.request);
        if !has_content {
            // HEAD, 204, 304: a script runs on, its output is not wanted.
            response.body.discard();
        }
        let in_memory = response.body.in_memory();
        let is_empty = response.filters.is_empty() && in_memory.is_some_and(<[u8]>::is_empty);
        let ends = !has_content || is_empty;
        let Ok(mut sink) = self.stream.send_head(made, ends, priority) else {
            return self.outcome(0, Err(PumpError::Client(ConnectionError::Broken)));
        };
        if let Some(trailers) = response.trailers.take_if(|_| !ends) {
            sink.set_trailers(trailers);
        }
        let (bytes, result) = if ends {
            let finished = poll_fn(|context| sink.poll_finish(context)).await;
            (0, finished.map_err(PumpError::from))
        } else {
            let limits = thread.spool_limits(site);
            let place = thread.filter_place(site, &self.peer);
            let held = thread.held_memory(&self.peer);
            body::send(response, promised, limits, held, place, &mut sink).await
        };
        let bytes_of_head = held_head.bytes();
        drop(held_head);
        self.stream.hold_head(bytes_of_head);
        match &result {
            Ok(()) => {}
            Err(PumpError::Client(_)) => sink.reset(ResetCause::Client),
            Err(_) => {
                poll_fn(|context| sink.poll_arrived(context)).await;
                sink.reset(ResetCause::Server);
            }
        }
        self.outcome(bytes, result)
    }

    /// Heads are compressed with state of the connection: the bytes of content are counted alone.
    pub(super) fn outcome(&self, bytes: u64, result: Result<(), PumpError>) -> SendOutcome {
        let connection = ConnectionFacts {
            received: 0,
            sent: bytes,
            earlier: self.stream.earlier(),
            persists: true,
        };
        SendOutcome { bytes, result, connection }
    }

    fn situation<'s>(
        &'s self,
        work: &'s Workspace,
        site: Option<&'s Site>,
        phase: Phase,
    ) -> ErrorContext<'s> {
        ErrorContext {
            peer: &self.peer,
            site,
            phase,
            request: &work.request,
        }
    }
}

/// Returns the priority that the request asks for, and what the script says of it.
pub(super) fn priority(work: &Workspace, response: &Response) -> ResponsePriority {
    let of_response = response.head.get().fields.value(b"priority");
    ResponsePriority::of(work.request.fields.value(b"priority"), of_response)
}
