//! A protocol for tests. A request is a line: a host and a target, and a line for each field. A
//! response is a line with status, type and length, then frames, each a length, a colon and
//! content, and a final dot.

use std::cell::{Cell, RefCell};
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_http::{Request, ResponseHead};

use crate::body::{self, BodyError, BodySource, RequestStream};
use crate::front::FrontThread;
use crate::net::{ContentPiece, Peer, SendError};
use crate::observe::{ConnectionFacts, ErrorContext, Phase};
use crate::pipeline::{self, Arrival, RequestContext, ScratchBuffers, ServedRequest};

/// Both ends of one request's stream.
#[derive(Default)]
pub(super) struct Stream {
    sent: RefCell<Vec<u8>>,
    /// The client is gone.
    pub(super) is_broken: Cell<bool>,
}

impl Stream {
    /// The bytes that were sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.sent.borrow().clone()
    }
}

/// The request's end of a stream, which has no content.
struct Content<'s>(&'s Stream);

impl RequestStream for Content<'_> {
    fn poll_content(
        &mut self,
        _: Duration,
        _: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        _: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>> {
        Poll::Ready(Ok(false))
    }

    fn send_interim<'s>(
        &'s mut self,
        _: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>> {
        Box::pin(ready(()))
    }

    fn poll_closed(&self, _: &mut Context<'_>) -> bool {
        self.0.is_broken.get()
    }

    fn poll_broken(&self, _: &mut Context<'_>) -> bool {
        self.0.is_broken.get()
    }
}

/// Serves the request in `lines`.
pub(super) async fn serve(thread: &Rc<FrontThread>, peer: &Peer, lines: &str, stream: &Rc<Stream>) {
    let (line, fields) = lines.split_once('\n').unwrap_or((lines, ""));
    let (host, target) = line.split_once(' ').expect("host and target");
    let mut request = Request {
        authority: host.into(),
        target: target.into(),
        ..Request::default()
    };
    request.fields.push(b"accept-encoding", b"gzip");
    for (name, value) in fields.lines().filter_map(|field| field.split_once(": ")) {
        request.fields.push(name.as_bytes(), value.as_bytes());
    }
    let mut scratch = ScratchBuffers::default();
    let arrival = Arrival::now(thread);
    let mut content = Content(stream);
    let mut context =
        RequestContext::new(thread, peer, arrival, &mut request, &mut content, &mut scratch);
    let ServedRequest { response, site, user, notes } = pipeline::serve(&mut context).await;
    let Some(mut response) = response else {
        assert!(stream.is_broken.get(), "the client is there");
        return;
    };
    let status = response.status();
    let head = response.head.get();
    let media_type = head.fields.value(b"content-type").unwrap_or(b"-").escape_ascii();
    let length = response.length().map_or("-".to_owned(), |length| length.to_string());
    let line = format!("{} {media_type} length={length}\n", status.code());
    stream.sent.borrow_mut().extend_from_slice(line.as_bytes());
    let promised = response.length();
    let limits = thread.spool_limits(None);
    let place = thread.filter_place(site, peer);
    let held = thread.held_memory(peer);
    let mut frames = Frames(stream);
    let (bytes, result) =
        body::send(&mut response, promised, limits, held, place, &mut frames).await;
    assert_eq!(Some(bytes), promised);
    assert_eq!(response.body.length(), Some(0), "all of it was consumed");
    let situation = ErrorContext {
        peer,
        site,
        phase: Phase::Sending,
        request: &request,
    };
    let connection = ConnectionFacts::default();
    let outcome = pipeline::SendOutcome { bytes, result, connection };
    let resolved = (user.as_deref(), notes.as_deref());
    pipeline::end(thread, situation, arrival, (&mut response, promised), resolved, outcome);
}

/// The response's end of the stream.
struct Frames<'s>(&'s Stream);

/// Bytes of content in one frame.
const FRAME: usize = 1000;

impl body::Sink for Frames<'_> {
    fn poll_send(
        &mut self,
        piece: ContentPiece<'_>,
        _: bool,
        _: &mut Context<'_>,
    ) -> Poll<Result<usize, SendError>> {
        let mut content = [0; FRAME];
        let count = piece.read(&mut content).map_err(|_| SendError::ShortFile)?;
        let mut sent = self.0.sent.borrow_mut();
        sent.extend_from_slice(format!("{count}:").as_bytes());
        sent.extend_from_slice(&content[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.0.sent.borrow_mut().extend_from_slice(b".\n");
        Poll::Ready(Ok(()))
    }

    fn poll_broken(&self, _: &mut Context<'_>) -> bool {
        false
    }
}
