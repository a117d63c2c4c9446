//! Receiving a request's content before any worker sees it: in memory first, then in an unlinked
//! file.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Seek, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_http::{Content, Refusal, Request, ResponseHead, Status};

use crate::net::ConnectionError;

/// The protocol's end of a request while there is no response yet.
pub(crate) trait RequestStream {
    /// Gives the next bytes of content, as many as have arrived, to `take`. Waits for them at most
    /// `patience`. `Ok(false)`: the content has ended.
    ///
    /// # Errors
    /// The content cannot be received, or `take` refused it.
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>>;

    /// Sends an interim response (RFC 9110 §15.2), where the protocol has them. A failure is not
    /// reported: the response itself notices a client that is gone.
    fn send_interim<'s>(
        &'s mut self,
        head: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>>;

    /// Returns whether the client has ended its side, or is gone. Wakes `context` when that
    /// changes.
    fn poll_closed(&self, context: &mut Context<'_>) -> bool;

    /// Returns whether the client is certainly gone. A client that only ended its side still reads.
    fn poll_broken(&self, context: &mut Context<'_>) -> bool;
}

/// A request's content, received completely.
#[derive(Debug)]
pub(crate) enum Received {
    Memory(Vec<u8>),
    File(File, u64),
}

impl Received {
    /// Length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Received::Memory(bytes) => bytes.len() as u64,
            Received::File(_, length) => *length,
        }
    }
}

/// The reason why content was not received.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The client violated the protocol or a limit: it gets a response with this status, then the
    /// connection ends.
    Refused(Refusal),
    /// The client stalled.
    TimedOut,
    /// The connection broke.
    Closed,
    /// The content was discarded, because the resource did not need it, and then the site's rules
    /// changed.
    Discarded,
    /// The content cannot be stored.
    Storage(io::Error),
}

impl BodyError {
    /// The status for the client; `None` if it is gone.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            BodyError::Refused(refusal) => Some(refusal.status),
            BodyError::TimedOut => Some(Status::REQUEST_TIMEOUT),
            BodyError::Closed => None,
            BodyError::Discarded => Some(Status::SERVICE_UNAVAILABLE),
            BodyError::Storage(_) => Some(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl From<ConnectionError> for BodyError {
    fn from(error: ConnectionError) -> BodyError {
        match error {
            ConnectionError::TimedOut => BodyError::TimedOut,
            ConnectionError::Broken => BodyError::Closed,
        }
    }
}

/// The use of received content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Keep it: up to this many bytes in memory, longer content in a file.
    All { in_memory: usize },
    /// Discard it.
    Nothing,
}

/// Receives the whole content of `request`, if the content is at most `most` bytes long and the
/// client is never silent for longer than `patience`. Afterwards the request's content has a known
/// length.
///
/// # Errors
/// [`BodyError::Refused`] with 413 for longer content, and the other variants for content that
/// cannot be received.
pub(crate) async fn receive(
    stream: &mut dyn RequestStream,
    request: &mut Request,
    patience: Duration,
    most: u64,
    keep: Keep,
) -> Result<Received, BodyError> {
    match request.content {
        Content::None => return Ok(Received::Memory(Vec::new())),
        Content::Length(length) if length > most => return Err(BodyError::Refused(TOO_LARGE)),
        Content::Length(_) | Content::Unknown => {}
    }
    let mut store = Store {
        memory: Vec::new(),
        file: None,
        length: 0,
        most,
        keep,
    };
    if let (Content::Length(length), Keep::All { in_memory }) = (request.content, keep)
        && length <= in_memory as u64
    {
        store.memory.reserve_exact(length as usize);
    }
    let mut take = |bytes: &[u8]| store.push(bytes);
    while poll_fn(|context| stream.poll_content(patience, &mut take, context)).await? {}
    request.content = Content::Length(store.length);
    Ok(match store.file {
        None => Received::Memory(store.memory),
        Some(mut file) => {
            // The worker reads from the descriptor's position.
            file.rewind().map_err(BodyError::Storage)?;
            Received::File(file, store.length)
        }
    })
}

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "its content is longer than LimitRequestBody allows",
};

/// Content that is being received.
struct Store {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    most: u64,
    keep: Keep,
}

impl Store {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        self.length += bytes.len() as u64;
        if self.length > self.most {
            return Err(BodyError::Refused(TOO_LARGE));
        }
        let Keep::All { in_memory } = self.keep else {
            return Ok(());
        };
        if self.file.is_none() && self.memory.len() + bytes.len() <= in_memory {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        self.push_to_file(bytes).map_err(BodyError::Storage)
    }

    fn push_to_file(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(tempfile::tempfile()?);
                file.write_all(&std::mem::take(&mut self.memory))?;
                file
            }
        };
        file.write_all(bytes)
    }
}
