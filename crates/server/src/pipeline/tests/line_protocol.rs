//! A protocol for tests. A request is a line: a host and a target. A response is a line with
//! status, type and length, then frames, each a length, a colon and content, and a final dot.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use howdah_http::Request;

use crate::body::{self, BodySource, NoContent};
use crate::front::Thread;
use crate::net::{Peer, Piece, SendError};
use crate::observe::{ConnectionFacts, ErrorContext, Phase, RecordedResponse};
use crate::pipeline::{self, Arrival, RequestContext, ScratchBuffers, Served};

/// Both ends of one request's stream.
#[derive(Default)]
pub(super) struct Stream(RefCell<Vec<u8>>);

impl Stream {
    /// The bytes that were sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

/// Serves the request in `line`.
pub(super) async fn serve(thread: &Rc<Thread>, peer: &Peer, line: &str, stream: &Rc<Stream>) {
    let (host, target) = line.split_once(' ').expect("host and target");
    let mut request = Request {
        authority: host.into(),
        target: target.into(),
        ..Request::default()
    };
    let mut scratch = ScratchBuffers::default();
    let arrival = Arrival::now(thread);
    let mut content = NoContent;
    let mut context =
        RequestContext::new(thread, peer, arrival, &mut request, &mut content, &mut scratch);
    let Served { response, site, user, notes } = pipeline::serve(&mut context).await;
    let mut response = response.expect("the client is there");
    let status = response.status();
    let head = response.head.get();
    let media_type = head.fields.value(b"content-type").unwrap_or(b"-").escape_ascii();
    let length = response.length().map_or("-".to_owned(), |length| length.to_string());
    let line = format!("{} {media_type} length={length}\n", status.code());
    stream.0.borrow_mut().extend_from_slice(line.as_bytes());
    let promised = response.length();
    let limits = thread.spool_limits(None);
    let place = thread.filter_place(site, peer);
    let held = thread.held_memory(peer);
    let mut frames = Frames(stream);
    let filters = &response.filters;
    let (bytes, result) =
        body::send(&mut response.body, filters, promised, limits, held, place, &mut frames).await;
    assert_eq!(Some(bytes), promised);
    let situation = ErrorContext {
        peer,
        site,
        phase: Phase::Sending,
        request: &request,
    };
    let connection = ConnectionFacts::default();
    let outcome = pipeline::SendOutcome { bytes, result, connection };
    let answer = RecordedResponse {
        head: response.head.get(),
        length: promised,
        user: user.as_deref(),
        notes: notes.as_deref(),
    };
    pipeline::record(thread, situation, arrival, answer, outcome);
    assert_eq!(response.body.length(), Some(0), "all of it was consumed");
}

/// The response's end of the stream.
struct Frames<'s>(&'s Stream);

/// Bytes of content in one frame.
const FRAME: usize = 1000;

impl body::Sink for Frames<'_> {
    fn poll_send(
        &mut self,
        piece: Piece<'_>,
        _: bool,
        _: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let mut content = [0; FRAME];
        let count = piece.read(&mut content).map_err(|_| SendError::ShortFile)?;
        let mut sent = self.0.0.borrow_mut();
        sent.extend_from_slice(format!("{count}:").as_bytes());
        sent.extend_from_slice(&content[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.0.0.borrow_mut().extend_from_slice(b".\n");
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, _: &mut Context<'_>) -> bool {
        false
    }
}
