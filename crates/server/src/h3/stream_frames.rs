//! The client's side of a request's stream: its frames, in the order in which they come.
//!
//! The `h3` crate gets the head alone. It would take an empty DATA frame for the end, half a frame
//! for a whole one, and keep what comes faster than it takes frames apart. Here one chunk of QUIC
//! is kept, and the section of a HEADERS frame, which counts in the client's memory.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ::h3::error::Code;
use ::h3::quic::{StreamErrorIncoming, StreamId};
use bytes::{Buf, Bytes};
use howdah_http::h3::{FramePart, HeadFrame, RequestFrames, StreamMistake, head_frame};
use quinn::RecvStream;

use super::transport::{READ, TransportFacts, code, number, read_error};
use crate::net::ArrivingHead;

/// The client's side of a request's stream, which the crate and the request's content share.
#[derive(Clone)]
pub(super) struct StreamFrames(Rc<RefCell<ReceivedFrames>>);

struct ReceivedFrames {
    stream: RecvStream,
    shared: Rc<TransportFacts>,
    frames: RequestFrames,
    /// Bytes that were received and are not taken apart.
    chunk: Bytes,
    /// Bytes since the last ones of content, or since the begin.
    unseen: Cell<u64>,
    /// The request's head was read.
    has_head: bool,
    has_ended: bool,
    is_websocket: bool,
    /// The memory of a head whose end has not come; `None` for a proxy's connection.
    arriving: Option<ArrivingHead>,
    /// The head is given up: its client has no room for it.
    lacks_memory: bool,
}

/// A part of the request.
pub(super) enum StreamPart {
    Head(Vec<u8>),
    Content(Bytes),
    Trailers(Vec<u8>),
}

impl StreamFrames {
    pub(super) fn new(stream: RecvStream, shared: &Rc<TransportFacts>) -> StreamFrames {
        StreamFrames(Rc::new(RefCell::new(ReceivedFrames {
            stream,
            shared: Rc::clone(shared),
            frames: RequestFrames::default(),
            chunk: Bytes::new(),
            unseen: Cell::new(0),
            has_head: false,
            has_ended: false,
            is_websocket: false,
            arriving: shared.arriving_head(),
            lacks_memory: false,
        })))
    }

    /// Waits for the request's head, as the crate may read it. `None`: the stream has ended.
    ///
    /// # Errors
    /// See [`poll_part`](Self::poll_part).
    pub(super) fn poll_head(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let part = ready!(self.poll_part(context));
        if part.is_err() && self.0.borrow().is_broken() {
            // The crate would take the error for the client's.
            return self.0.borrow().shared.wait_for_the_end();
        }
        match part? {
            Some(StreamPart::Head(section)) => {
                let HeadFrame { bytes, is_websocket } = head_frame(&section);
                self.0.borrow_mut().is_websocket = is_websocket;
                Poll::Ready(Ok(Some(Bytes::from(bytes))))
            }
            // The head comes first, and the crate asks once.
            _ => Poll::Ready(Ok(None)),
        }
    }

    /// Waits for the next part. `None`: the stream has ended.
    ///
    /// # Errors
    /// The stream or the connection has ended before its time, or a frame is malformed.
    pub(super) fn poll_part(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<StreamPart>, StreamErrorIncoming>> {
        self.0.borrow_mut().poll_part(context)
    }

    /// Returns whether the head asks for a WebSocket. It is known when the crate has read the head.
    pub(super) fn is_websocket(&self) -> bool {
        self.0.borrow().is_websocket
    }

    /// Returns whether the head was given up, because its client has no room for it in
    /// `client_memory`.
    pub(super) fn lacks_memory(&self) -> bool {
        self.0.borrow().lacks_memory
    }

    /// Tells the client to send nothing more.
    pub(super) fn stop(&self, with: Code) {
        // It fails for a stream that has ended.
        let _ = self.0.borrow_mut().stream.stop(code(with.value()));
    }

    /// The number of the stream.
    pub(super) fn id(&self) -> StreamId {
        number(self.0.borrow().stream.id())
    }
}

impl ReceivedFrames {
    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<StreamPart>, StreamErrorIncoming>> {
        loop {
            if self.is_broken() {
                return self.broken();
            }
            if self.lacks_memory {
                return cancelled();
            }
            let (used, part) = match self.frames.read(&self.chunk) {
                Ok(read) => read,
                Err(mistake) => return self.fail(mistake),
            };
            self.chunk.advance(used);
            if !self.holds_section() {
                return cancelled();
            }
            self.shared.meter.count_undecoded(&self.unseen, used, self.has_head);
            if self.shared.meter.excess().is_some() {
                return self.broken();
            }
            match part {
                Some(FramePart::Head(section)) => {
                    self.unseen.set(0);
                    self.has_head = true;
                    return Poll::Ready(Ok(Some(StreamPart::Head(section))));
                }
                Some(FramePart::Content(length)) => {
                    self.unseen.set(0);
                    let content = self.chunk.split_to(length);
                    return Poll::Ready(Ok(Some(StreamPart::Content(content))));
                }
                Some(FramePart::Trailers(section)) => {
                    return Poll::Ready(Ok(Some(StreamPart::Trailers(section))));
                }
                None if self.has_ended => return Poll::Ready(Ok(None)),
                None => {}
            }
            let received = pin!(self.stream.read_chunk(READ, true)).poll(context);
            match ready!(received).map_err(read_error)? {
                Some(chunk) => self.chunk = chunk.bytes,
                None => {
                    self.has_ended = true;
                    if let Err(mistake) = self.frames.end() {
                        return self.fail(mistake);
                    }
                }
            }
        }
    }

    /// Counts the memory of a HEADERS frame whose end has not come. Returns `false`, and gives the
    /// frame up, where there is no room for it.
    fn holds_section(&mut self) -> bool {
        let held = self.frames.held();
        if self.arriving.as_mut().is_none_or(|arriving| arriving.hold(held)) {
            return true;
        }
        self.lacks_memory = true;
        (self.frames, self.chunk) = (RequestFrames::default(), Bytes::new());
        self.arriving = None;
        false
    }

    /// Makes the connection's task end the connection.
    fn fail<T>(&self, mistake: StreamMistake) -> Poll<Result<T, StreamErrorIncoming>> {
        self.shared.note_violation(match mistake {
            StreamMistake::UnexpectedFrame => Code::H3_FRAME_UNEXPECTED,
            StreamMistake::CutFrame => Code::H3_FRAME_ERROR,
        });
        self.broken()
    }

    /// Returns whether the connection has to end. The rest of the stream is no part of a request
    /// then.
    fn is_broken(&self) -> bool {
        self.shared.violation().is_some() || self.shared.meter.excess().is_some()
    }

    /// Wakes the connection's task. The request has lost its client.
    fn broken<T>(&self) -> Poll<Result<T, StreamErrorIncoming>> {
        self.shared.task.wake_by_ref();
        cancelled()
    }
}

/// The end of a request that goes on no more.
fn cancelled<T>() -> Poll<Result<T, StreamErrorIncoming>> {
    let error_code = Code::H3_REQUEST_CANCELLED.value();
    Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }))
}

/// The client need not send what nobody reads any more (RFC 9114 §4.1).
impl Drop for ReceivedFrames {
    fn drop(&mut self) {
        let _ = self.stream.stop(code(Code::H3_NO_ERROR.value()));
    }
}
