//! A request of an HTTP/2 connection, from its head to the end of its response.

use std::cell::RefCell;

use ::h2::server::SendResponse;
use ::h2::{Reason, RecvStream, SendStream};
use howdah_http::priority::Priority;
use howdah_http::{Content, Refusal, Status, Version};
use howdah_site::Site;

use super::connection::Shared;
use super::head;
use super::outbox::{Chunk, Place};
use super::request_body::RequestBody;
use super::sink::Sink;
use crate::body::{self, Body, PumpError, Source};
use crate::front::Workspace;
use crate::net::{ConnectionError, Peer, forwarded};
use crate::observe::{ConnectionFacts, Phase, RecordedResponse, RequestError, Situation};
use crate::pipeline::{self, Arrival, Outcome, RequestContext, Response, Served};

/// Serves a request of the connection. `is_early`: the request came in early data.
pub(super) async fn serve(
    shared: &Shared,
    request: http::Request<RecvStream>,
    respond: SendResponse<Chunk>,
    is_early: bool,
) {
    let thread = &shared.thread;
    let mut work = thread.lend();
    work.request.scheme = shared.peer.scheme;
    let (parts, content) = request.into_parts();
    let ends = content.is_end_stream();
    let proxied = shared.peer.is_proxy;
    let mut peer = shared.peer.clone();
    let protocol = parts.extensions.get::<::h2::ext::Protocol>().map(|protocol| protocol.as_str());
    let limits = thread.limits();
    let request = &mut work.request;
    let mut read = head::read(Version::Http2, &parts, protocol, ends, proxied, limits, request);
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
    };
    match read {
        Ok(expects_continue) => stream.serve(&mut work, content, expects_continue).await,
        Err(refusal) => stream.refuse(&mut work, refusal).await,
    }
    thread.give_back(work);
}

/// One request.
pub(super) struct Stream<'s> {
    pub(super) shared: &'s Shared,
    /// The sender of the request.
    peer: Peer,
    arrival: Arrival,
    respond: RefCell<SendResponse<Chunk>>,
}

impl Stream<'_> {
    /// Serves the request that `work` holds.
    async fn serve(&mut self, work: &mut Workspace, content: RecvStream, expects_continue: bool) {
        let (thread, peer) = (&self.shared.thread, &self.peer);
        let mut body = RequestBody {
            thread,
            content,
            respond: &self.respond,
            expects_continue,
            received: 0,
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
            return;
        };
        if work.request.is_extended_connect
            && response.tunnel.is_none()
            && response.status().is_success()
        {
            // With a 2xx the client would take the content for messages (RFC 8441 §5).
            response = Response::error(Status::NOT_IMPLEMENTED);
        }
        let length = response.length();
        let RequestBody { content, received, .. } = body;
        let outcome = match response.tunnel.take() {
            Some(tunnel) => {
                let mut outcome = Box::pin(self.carry(work, &mut response, tunnel, content)).await;
                outcome.connection.received += received;
                outcome
            }
            None => {
                let mut outcome = self.send(work, site, &mut response).await;
                outcome.connection.received = received;
                // The client need not send the rest of a content that nobody has read (RFC 9113
                // §8.1).
                drop(content);
                outcome
            }
        };
        response.body.release();
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
        let alternative = self.peer.tls.as_ref().and_then(|tls| tls.alternative.as_ref());
        let date = thread.date();
        let made = head::response(response.head.get(), method, promised, &date, alternative);
        let priority = priority(work, response);
        let has_content = response.has_content(&work.request);
        let Response { body, filters, .. } = response;
        if !has_content {
            // HEAD, 204, 304: a script runs on, its output is not wanted.
            body.discard();
        }
        let is_empty = filters.is_empty() && body.in_memory().is_some_and(<[u8]>::is_empty);
        let ends = !has_content || is_empty;
        let (stream, number) = match self.send_head(made, ends) {
            Ok(_) if ends => return self.outcome(0, Ok(())),
            Ok(sent) => sent,
            Err(_) => {
                let result = Err(PumpError::Client(ConnectionError::Broken));
                return self.outcome(0, result);
            }
        };
        let mut sink = Sink::new(thread, &self.shared.outbox, stream, Place::new(number, priority));
        let limits = thread.spool_limits(site);
        let place = thread.filter_place(site, &self.shared.peer);
        let (bytes, result) = body::send(body, filters, promised, limits, place, &mut sink).await;
        match &result {
            Ok(()) => {}
            Err(PumpError::Client(_)) => sink.reset(Reason::CANCEL),
            Err(_) => sink.reset(Reason::INTERNAL_ERROR),
        }
        self.outcome(bytes, result)
    }

    /// Heads are compressed with state of the connection: the bytes of content are counted alone.
    pub(super) fn outcome(&self, bytes: u64, result: Result<(), PumpError>) -> Outcome {
        let connection = ConnectionFacts {
            received: 0,
            sent: bytes,
            earlier: u64::from(self.respond.borrow().stream_id().as_u32() / 2),
            persists: true,
        };
        Outcome { bytes, result, connection }
    }

    /// Returns the stream for the content, and its number.
    pub(super) fn send_head(
        &self,
        head: http::Response<()>,
        ends: bool,
    ) -> Result<(SendStream<Chunk>, u32), ::h2::Error> {
        let mut respond = self.respond.borrow_mut();
        let number = respond.stream_id().as_u32();
        Ok((respond.send_response(head, ends)?, number))
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

/// Returns the priority that the request asks for, or the one of the script (RFC 9218 §8).
pub(super) fn priority(work: &Workspace, response: &Response) -> Priority {
    let asked = Priority::of_request(work.request.fields.value(b"priority"));
    match response.head.get().fields.value(b"priority") {
        Some(field) => asked.with_field(field),
        None => asked,
    }
}
