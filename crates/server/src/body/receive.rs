//! Receiving a request's content before any worker sees it: in memory first, then in an unlinked
//! file.

use std::future::{Future, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_http::{Content, Refusal, Request, ResponseHead, Status};
use howdah_sys::descriptor;

use super::spool::SpoolLimits;
use super::storage::StoredFile;
use crate::budget::BudgetUsedUp;
use crate::net::{ConnectionError, HeldMemory, PaceLimit};

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

    /// Sends an interim response (RFC 9110 §15.2), where the protocol has them. After a failure the
    /// client is gone, as [`poll_broken`](RequestStream::poll_broken) tells.
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

/// The stream of a request that has no content and no client.
pub(crate) struct NoContent;

impl RequestStream for NoContent {
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
        false
    }

    fn poll_broken(&self, _: &mut Context<'_>) -> bool {
        false
    }
}

/// A request's content, received completely.
#[derive(Debug)]
pub(crate) enum ReceivedContent {
    Memory(Vec<u8>),
    File(StoredFile, u64),
}

impl ReceivedContent {
    /// Length in bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            ReceivedContent::Memory(bytes) => bytes.len() as u64,
            ReceivedContent::File(_, length) => *length,
        }
    }

    /// Returns whether a file could take bytes from memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self, ReceivedContent::Memory(bytes) if !bytes.is_empty())
    }

    /// Moves content that is in memory to a file.
    ///
    /// # Errors
    /// The file cannot be written, or has no room.
    pub(crate) async fn into_file(self, limits: &SpoolLimits) -> Result<Self, BodyError> {
        let ReceivedContent::Memory(memory) = self else {
            return Ok(self);
        };
        let length = memory.len() as u64;
        let mut store = ContentStore {
            memory,
            file: None,
            written: 0,
            length,
            most: length,
            keep: ContentUse::All(limits),
            held: None,
        };
        store.write().await?;
        Ok(store.finish())
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
    /// The client sent less than the rate that is required.
    TooSlow,
    /// The connection broke.
    Closed,
    /// The content was discarded, because the resource did not need it, and then the site's rules
    /// changed.
    Discarded,
    /// The content cannot be stored.
    Storage(io::Error),
    /// The temporary files have as many bytes as they may have.
    NoRoom(BudgetUsedUp),
}

impl BodyError {
    /// The status for the client; `None` if it is gone.
    pub(crate) fn status(&self) -> Option<Status> {
        match self {
            BodyError::Refused(refusal) => Some(refusal.status),
            BodyError::TimedOut | BodyError::TooSlow => Some(Status::REQUEST_TIMEOUT),
            BodyError::Closed => None,
            BodyError::Discarded => Some(Status::SERVICE_UNAVAILABLE),
            BodyError::NoRoom(_) => Some(Status::INSUFFICIENT_STORAGE),
            BodyError::Storage(error) => Some(match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Status::INSUFFICIENT_STORAGE
                }
                _ if descriptor::is_exhausted(error) => Status::SERVICE_UNAVAILABLE,
                _ => Status::INTERNAL_SERVER_ERROR,
            }),
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
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentUse<'l> {
    /// Keep it: as much in memory as these limits say, longer content in a file.
    All(&'l SpoolLimits),
    /// Discard it.
    Nothing,
}

/// Receives the whole content of `request`, if the content is at most `most` bytes long and the
/// client is not slower than `patience` allows. Afterwards the request's content has a known
/// length. `held` counts the content that is kept in memory; what the client's account has no room
/// for is kept in a file.
///
/// # Errors
/// [`BodyError::Refused`] with 413 for longer content, and the other variants for content that
/// cannot be received.
pub(crate) async fn receive(
    stream: &mut dyn RequestStream,
    request: &mut Request,
    patience: PaceLimit,
    most: u64,
    keep: ContentUse<'_>,
    held: Option<&mut HeldMemory<'_>>,
) -> Result<ReceivedContent, BodyError> {
    if let Content::Length(length) = request.content
        && length > most
    {
        return Err(BodyError::Refused(TOO_LARGE));
    }
    let mut store = ContentStore {
        memory: Vec::new(),
        file: None,
        written: 0,
        length: 0,
        most,
        keep,
        held,
    };
    if let (Content::Length(length), ContentUse::All(limits)) = (request.content, keep)
        && length <= limits.memory as u64
        && store.has_room(length as usize)
    {
        store.memory.reserve_exact(length as usize);
    }
    // Without the time that the storage took.
    let mut began = Instant::now();
    loop {
        let left = patience.left(FREE, store.length, began.elapsed());
        let mut take = |bytes: &[u8]| store.push(bytes);
        let received = poll_fn(|context| stream.poll_content(left, &mut take, context)).await;
        let goes_on = received.map_err(|error| match error {
            BodyError::TimedOut if left < patience.silence => BodyError::TooSlow,
            error => error,
        })?;
        if store.should_write(goes_on) {
            let now = Instant::now();
            store.write().await?;
            began += now.elapsed();
        }
        if !goes_on {
            break;
        }
    }
    request.content = Content::Length(store.length);
    Ok(store.finish())
}

/// The first time of a request's content in which no rate is required.
const FREE: Duration = Duration::from_secs(20);

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "its content is longer than LimitRequestBody allows",
};

/// Bytes of content in memory that are not counted. Nearly all forms are shorter.
const SMALL_CONTENT: usize = 4096;

/// Content that is being received.
struct ContentStore<'l, 'h> {
    /// Content that follows the file's.
    memory: Vec<u8>,
    file: Option<StoredFile>,
    written: u64,
    length: u64,
    most: u64,
    keep: ContentUse<'l>,
    /// `None` where the memory is not the client's any more.
    held: Option<&'l mut HeldMemory<'h>>,
}

impl ContentStore<'_, '_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        self.length += bytes.len() as u64;
        if self.length > self.most {
            return Err(BodyError::Refused(TOO_LARGE));
        }
        if let ContentUse::All(_) = self.keep {
            self.memory.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Returns whether the content in memory is written before more is received.
    fn should_write(&mut self, goes_on: bool) -> bool {
        match self.keep {
            ContentUse::Nothing => false,
            ContentUse::All(_) if self.file.is_some() && !goes_on => !self.memory.is_empty(),
            ContentUse::All(limits) => {
                self.memory.len() > limits.memory || !self.has_room(self.memory.capacity())
            }
        }
    }

    /// Counts `bytes` of memory for the client. Returns whether its account has room for them.
    fn has_room(&mut self, bytes: usize) -> bool {
        bytes <= SMALL_CONTENT || self.held.as_mut().is_none_or(|held| held.hold(bytes))
    }

    fn finish(self) -> ReceivedContent {
        match self.file {
            None => ReceivedContent::Memory(self.memory),
            Some(file) => ReceivedContent::File(file, self.length),
        }
    }

    /// Writes the content in memory to the file. The client waits meanwhile.
    async fn write(&mut self) -> Result<(), BodyError> {
        let ContentUse::All(limits) = self.keep else {
            return Ok(());
        };
        let file = self.file.get_or_insert_with(|| limits.storage.file(limits.site));
        let bytes = std::mem::take(&mut self.memory);
        let job = file.write(self.written, bytes).map_err(|(_, full)| BodyError::NoRoom(full))?;
        let written = job.await.map_err(|lost| BodyError::Storage(io::Error::other(lost)))?;
        if let Some(error) = written.error {
            return Err(BodyError::Storage(error));
        }
        self.written += written.count as u64;
        self.memory = written.bytes;
        self.memory.clear();
        if !self.has_room(self.memory.capacity()) {
            self.memory = Vec::new();
        }
        Ok(())
    }
}

/// Runs `wait` until `gone` returns that its result is no longer needed; then returns `None`.
pub(crate) async fn unless<T>(
    gone: impl Fn(&mut Context<'_>) -> bool,
    wait: impl Future<Output = T>,
) -> Option<T> {
    let mut wait = pin!(wait);
    poll_fn(|context| match wait.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if gone(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
