//! A request's stream as the `h3` crate has it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::h3::error::{Code, StreamError};
use ::h3::server::{RequestResolver, RequestStream};
use bytes::Bytes;
use howdah_http::Version;
use http::Response;
use http::request::Parts;

use super::connection::H3Shared;
use super::content::ReceivedStream;
use super::outgoing::OutgoingStream;
use super::sink::H3Sink;
use super::stream_frames::StreamFrames;
use super::transport::{NewestRequest, QuicStream as Streams, QuicTransport};
use crate::front::{ArrivingRequest, FrontThread};
use crate::net::Peer;
use crate::streams::{self, ResponsePriority, StreamGone};

/// A request whose head has not been read.
pub(super) type UnreadRequest = RequestResolver<QuicTransport, Bytes>;

/// Serves a request of the connection, until the client has the whole response.
pub(super) async fn serve(
    shared: &H3Shared,
    (request, arriving): (UnreadRequest, ArrivingRequest),
    NewestRequest { outgoing, frames, is_early }: NewestRequest,
) {
    let (parts, stream) = match read_head(shared, request, &frames).await {
        ReadHead::Read(read) => *read,
        ReadHead::Refused => {
            drop(frames);
            // An error shows that the client is gone.
            let _ = poll_fn(|context| outgoing.poll_finished(context)).await;
            return confirm(shared, &outgoing).await;
        }
        ReadHead::None if frames.lacks_memory() => {
            let why = "the heads of the client's requests take as much memory as `client_memory` \
                       allows";
            return shared.reject(&outgoing, &frames, why);
        }
        ReadHead::None => return outgoing.reset(Code::H3_REQUEST_INCOMPLETE),
    };
    // The content does not pass the crate.
    let (respond, _) = stream.split();
    let is_websocket = frames.is_websocket();
    let mut content = ReceivedStream::new(frames, outgoing.clone());
    let task = poll_fn(|context| {
        content.look(context);
        Poll::Ready(context.waker().clone())
    })
    .await;
    let ends = content.is_over();
    let stream = H3Stream {
        shared,
        respond: RefCell::new(respond),
        outgoing,
        task,
        is_websocket,
        is_early,
    };
    streams::serve(&stream, (parts, arriving), content, ends).await;
    confirm(shared, &stream.outgoing).await;
}

/// The head of a request.
enum ReadHead {
    Read(Box<(Parts, RequestStream<Streams, Bytes>)>),
    /// The crate has answered 431.
    Refused,
    /// There is no request to serve, or the client is gone.
    None,
}

/// Reads the head of a request, for at most `head_timeout`.
async fn read_head(shared: &H3Shared, request: UnreadRequest, frames: &StreamFrames) -> ReadHead {
    let thread = &shared.thread;
    let resolved = request.resolve_request();
    match within(thread, thread.config().limits.head_timeout, resolved).await {
        Some(Ok((request, stream))) => ReadHead::Read(Box::new((request.into_parts().0, stream))),
        Some(Err(StreamError::HeaderTooBig { .. })) => ReadHead::Refused,
        Some(Err(StreamError::RemoteTerminate { .. })) if !frames.lacks_memory() => {
            shared.count_reset();
            ReadHead::None
        }
        Some(Err(_)) | None => ReadHead::None,
    }
}

/// Waits until the client has the whole response, for at most `send_timeout`: the end of the
/// connection would take it away.
async fn confirm(shared: &H3Shared, outgoing: &OutgoingStream) {
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
async fn within<T>(
    thread: &FrontThread,
    most: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    let mut watch = None;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => {
            let watch = watch.get_or_insert_with(|| {
                let watch = thread.watches().add(context.waker().clone());
                watch.arm(most);
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

/// The server's side of a stream.
struct H3Stream<'c> {
    shared: &'c H3Shared,
    respond: RefCell<RequestStream<OutgoingStream, Bytes>>,
    outgoing: OutgoingStream,
    /// The task of the request.
    task: Waker,
    /// The request is an extended CONNECT for a WebSocket (RFC 9220).
    is_websocket: bool,
    /// The request came in early data.
    is_early: bool,
}

impl H3Stream<'_> {
    /// Sends a head. The part that QUIC does not take at once goes before what is sent next.
    fn send(&self, head: Response<()>) -> Result<(), StreamError> {
        let mut context = Context::from_waker(&self.task);
        let mut respond = self.respond.borrow_mut();
        match pin!(respond.send_response(head)).poll(&mut context) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }
}

impl<'c> streams::Stream for H3Stream<'c> {
    const VERSION: Version = Version::Http3;
    type Content = ReceivedStream;
    type Sink<'s>
        = H3Sink<'s>
    where
        'c: 's;

    fn thread(&self) -> &Rc<FrontThread> {
        &self.shared.thread
    }

    fn peer(&self) -> &Rc<Peer> {
        &self.shared.peer
    }

    fn earlier(&self) -> u64 {
        self.outgoing.index()
    }

    fn is_early(&self) -> bool {
        self.is_early
    }

    fn protocol<'p>(&self, head: &'p Parts) -> Option<&'p str> {
        if self.is_websocket {
            return Some("websocket");
        }
        head.extensions.get::<::h3::ext::Protocol>().map(|protocol| protocol.as_str())
    }

    fn send_interim(&self, head: Response<()>) {
        let _ = self.send(head);
    }

    fn send_head(
        &self,
        head: Response<()>,
        _: bool,
        priority: ResponsePriority,
    ) -> Result<H3Sink<'_>, StreamGone> {
        self.outgoing.set_priority(priority);
        if self.send(head).is_err() {
            self.abandon();
            return Err(StreamGone);
        }
        Ok(H3Sink::new(self.shared, &self.respond, &self.outgoing))
    }

    /// QUIC has the head at the end of its response, within `send_buffer`.
    fn hold_head(&self, _: usize) {}

    fn poll_broken(&self, context: &mut Context<'_>) -> bool {
        self.outgoing.poll_confirmed(context).is_ready()
    }

    fn abandon(&self) {
        self.shared.count_reset();
        self.outgoing.reset(Code::H3_REQUEST_CANCELLED);
    }
}
