//! Receiving a request's content before any worker sees it: in memory first, then in an unlinked
//! file.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Seek, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_http::h1::Refusal;
use howdah_http::{Content, Request, ResponseHead, Status};

use crate::net::Cut;

/// The protocol's end of a request while there is no response yet.
pub(crate) trait RequestStream {
    /// Gives the next bytes of content to `take`, as many as have come, and waits for them no
    /// longer than `patience`. `Ok(false)`: the content has ended.
    ///
    /// # Errors
    /// The content will not come, or `take` refused it.
    fn poll_content(
        &mut self,
        patience: Duration,
        take: &mut dyn FnMut(&[u8]) -> Result<(), BodyError>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BodyError>>;

    /// Sends an interim response (RFC 9110 §15.2), where the protocol has them. A client that is
    /// gone is noticed with the response itself.
    fn send_interim<'s>(
        &'s mut self,
        head: &'s ResponseHead,
    ) -> Pin<Box<dyn Future<Output = ()> + 's>>;

    /// Whether the client has ended its side, or is gone. Has `context` woken when that changes.
    fn poll_closed(&self, context: &mut Context<'_>) -> bool;

    /// Whether the client is gone for certain: one that only ended its side still reads.
    fn poll_broken(&self, context: &mut Context<'_>) -> bool;
}

/// A request's content, received whole.
#[derive(Debug)]
pub(crate) enum Received {
    Memory(Vec<u8>),
    File(File, u64),
}

impl Received {
    /// Bytes of it.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Received::Memory(bytes) => bytes.len() as u64,
            Received::File(_, length) => *length,
        }
    }
}

/// Content that did not come.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The client broke the rules: a response, then the end of the connection.
    Refused(Refusal),
    /// The client stalled.
    TimedOut,
    /// The connection broke.
    Cut,
    /// The content was discarded for a resource that has no use for it, until the site's rules
    /// changed meanwhile.
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
            BodyError::Cut => None,
            BodyError::Discarded => Some(Status::SERVICE_UNAVAILABLE),
            BodyError::Storage(_) => Some(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl From<Cut> for BodyError {
    fn from(cut: Cut) -> BodyError {
        match cut {
            Cut::TimedOut => BodyError::TimedOut,
            Cut::Broken => BodyError::Cut,
        }
    }
}

/// What is done with content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is kept: this many bytes in memory, or all of it in a file.
    All { in_memory: usize },
    /// It is discarded.
    Nothing,
}

/// Receives the whole content of `request`, if it is no longer than `most` bytes and the client is
/// never silent for longer than `patience`. Afterwards the
/// request's content has a known length.
///
/// # Errors
/// [`BodyError::Refused`] with 413 where there is more, and whatever keeps the content from coming.
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
        Content::Length(_) | Content::Chunked => {}
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

/// Content on its way in.
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
