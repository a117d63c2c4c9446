//! A request's stream as the `h2` crate has it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::h2::RecvStream;
use ::h2::server::SendResponse;
use bytes::Bytes;
use howdah_http::Version;
use http::request::Parts;
use http::{Request, Response};

use super::outbox::OutboxChunk;
use super::shared::H2Shared;
use super::sink::H2Sink;
use crate::front::{ArrivingRequest, FrontThread};
use crate::net::Peer;
use crate::streams::{self, ResponsePriority, StreamContent, StreamGone};

/// Serves a request of the connection. `is_early`: the request came in early data.
pub(super) async fn serve(
    shared: &H2Shared,
    (request, arriving): (Request<RecvStream>, ArrivingRequest),
    respond: SendResponse<OutboxChunk>,
    is_early: bool,
) {
    let (parts, content) = request.into_parts();
    let ends = content.is_end_stream();
    let stream = H2Stream {
        shared,
        id: respond.stream_id().as_u32().into(),
        respond: RefCell::new(respond),
        is_early,
    };
    streams::serve(&stream, (parts, arriving), content, ends).await;
    shared.updates.end(stream.id);
}

/// The server's side of a stream.
struct H2Stream<'c> {
    shared: &'c H2Shared,
    /// The number of the stream. The crate takes a lock to tell it.
    id: u64,
    respond: RefCell<SendResponse<OutboxChunk>>,
    /// The request came in early data.
    is_early: bool,
}

impl<'c> streams::Stream for H2Stream<'c> {
    const VERSION: Version = Version::Http2;
    type Content = RecvStream;
    type Sink<'s>
        = H2Sink<'s>
    where
        'c: 's;

    fn thread(&self) -> &Rc<FrontThread> {
        &self.shared.thread
    }

    fn peer(&self) -> &Rc<Peer> {
        &self.shared.peer
    }

    fn earlier(&self) -> u64 {
        self.id / 2
    }

    fn is_early(&self) -> bool {
        self.is_early
    }

    fn protocol<'p>(&self, head: &'p Parts) -> Option<&'p str> {
        head.extensions.get::<::h2::ext::Protocol>().map(|protocol| protocol.as_str())
    }

    fn send_interim(&self, head: Response<()>) {
        let _ = self.respond.borrow_mut().send_informational(head);
    }

    fn send_head(
        &self,
        head: Response<()>,
        ends: bool,
        priority: ResponsePriority,
    ) -> Result<H2Sink<'_>, StreamGone> {
        let sent = self.respond.borrow_mut().send_response(head, ends);
        let stream = sent.map_err(|_| StreamGone)?;
        Ok(H2Sink::new(self.shared, (self.id, stream), priority, ends))
    }

    /// The crate sends heads in the order of its own.
    fn hold_head(&self, bytes: usize) {
        if bytes > 0 {
            self.shared.hold_head(bytes);
        }
    }

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.respond.borrow_mut().poll_reset(context).is_ready()
    }

    /// The crate ends a stream whose handles are dropped.
    fn abandon(&self) {}
}

impl StreamContent for RecvStream {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamGone>> {
        RecvStream::poll_data(self, context).map(|data| data.transpose().map_err(|_| StreamGone))
    }

    /// Opens the window as far as content was used. It fails only for more than was received.
    fn release(&mut self, count: usize) {
        let _ = self.flow_control().release_capacity(count);
    }
}
