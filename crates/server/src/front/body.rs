//! Receiving a request's content before any worker sees it: in memory first, then in an unlinked
//! file.

use std::fs::File;
use std::io::{Seek, Write};

use howdah_http::h1::{CONTINUE, ChunkedDecoder, Refusal};
use howdah_http::{Content, Limits, Status};

use super::connection::{Connection, Cut};
use super::phase::Phase;
use super::workspace::Workspace;

/// A request's content, received whole.
#[derive(Debug)]
pub(super) enum Received {
    Memory(Vec<u8>),
    File(File, u64),
}

impl Received {
    /// Bytes of it.
    pub(super) fn length(&self) -> u64 {
        match self {
            Received::Memory(bytes) => bytes.len() as u64,
            Received::File(_, length) => *length,
        }
    }
}

/// Why the content did not come.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The client broke the rules: an answer, then the end.
    Refused(Refusal),
    /// It stalled.
    TimedOut,
    /// The connection broke.
    Cut,
    /// It was for something that has no use for any, until the site's rules changed meanwhile.
    Forgotten,
    /// We could not store it.
    Storage(std::io::Error),
}

impl Connection {
    /// Receives the present request's content and forgets it, up to `most` bytes. Afterwards the
    /// request has a length, which is more than `most` where there is more.
    pub(super) async fn discard_body(
        &mut self,
        work: &mut Workspace,
        wait: bool,
        most: u64,
    ) -> Result<(), BodyError> {
        let received = self.receive(work, wait, most, Keep::Nothing).await;
        self.content_forgotten = true;
        match received {
            Err(BodyError::Refused(refusal)) if refusal.status == Status::CONTENT_TOO_LARGE => {
                work.request.content = Content::Length(most.saturating_add(1));
                Ok(())
            }
            result => result.map(drop),
        }
    }

    /// Receives the whole content of the present request, if it is no longer than `most`.
    /// Afterwards the request's content has a known length.
    pub(super) async fn receive_body(
        &mut self,
        work: &mut Workspace,
        wait: bool,
        most: Option<u64>,
    ) -> Result<Received, BodyError> {
        self.receive(work, wait, most.unwrap_or(u64::MAX), Keep::All).await
    }

    async fn receive(
        &mut self,
        work: &mut Workspace,
        wait: bool,
        most: u64,
        keep: Keep,
    ) -> Result<Received, BodyError> {
        let content = work.request.content;
        if content == Content::None {
            return Ok(Received::Memory(Vec::new()));
        }
        if self.content_forgotten {
            return Err(BodyError::Forgotten);
        }
        self.set_phase(Phase::ReadingBody);
        if matches!(content, Content::Length(length) if length > most) {
            return Err(BodyError::Refused(TOO_LARGE));
        }
        if wait && work.input.is_empty() {
            self.write_all(CONTINUE).await.map_err(|_| BodyError::Cut)?;
        }
        let thread = self.thread().clone();
        let mut store = Store {
            memory: Vec::new(),
            file: None,
            length: 0,
            room: thread.spill().memory,
            most,
            keep,
        };
        let result = match content {
            Content::None => Ok(()),
            Content::Length(length) => self.receive_length(work, length, &mut store).await,
            Content::Chunked => self.receive_chunked(work, thread.limits(), &mut store).await,
        };
        result?;
        work.request.content = Content::Length(store.length);
        self.content_done();
        Ok(match store.file {
            None => Received::Memory(store.memory),
            Some(mut file) => {
                // The worker reads on where the descriptor stands.
                file.rewind().map_err(BodyError::Storage)?;
                Received::File(file, store.length)
            }
        })
    }

    async fn receive_length(
        &mut self,
        work: &mut Workspace,
        length: u64,
        store: &mut Store,
    ) -> Result<(), BodyError> {
        if length <= store.room as u64 && store.keep == Keep::All {
            store.memory.reserve_exact(length as usize);
        }
        while store.length < length {
            if work.input.is_empty() {
                self.receive_more(work).await?;
            }
            let left = length - store.length;
            let take = work.input.bytes().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            store.push(&work.input.bytes()[..take])?;
            work.input.consume(take);
        }
        Ok(())
    }

    async fn receive_chunked(
        &mut self,
        work: &mut Workspace,
        limits: &Limits,
        store: &mut Store,
    ) -> Result<(), BodyError> {
        let mut decoder = ChunkedDecoder::new(limits);
        loop {
            if work.input.is_empty() {
                self.receive_more(work).await?;
            }
            let decoded = decoder.decode(work.input.bytes()).map_err(BodyError::Refused)?;
            store.push(&work.input.bytes()[decoded.data])?;
            work.input.consume(decoded.consumed);
            if decoded.done {
                return Ok(());
            }
        }
    }

    async fn receive_more(&mut self, work: &mut Workspace) -> Result<(), BodyError> {
        let patience = self.thread().config().limits.body_timeout;
        match self.fill(&mut work.input, patience).await {
            Ok(0) | Err(Cut::Broken) => Err(BodyError::Cut),
            Ok(_) => Ok(()),
            Err(Cut::TimedOut) => Err(BodyError::TimedOut),
        }
    }
}

impl BodyError {
    /// What the client is told; `None` if it is gone.
    pub(super) fn status(&self) -> Option<Status> {
        match self {
            BodyError::Refused(refusal) => Some(refusal.status),
            BodyError::TimedOut => Some(Status::REQUEST_TIMEOUT),
            BodyError::Cut => None,
            BodyError::Forgotten => Some(Status::SERVICE_UNAVAILABLE),
            BodyError::Storage(_) => Some(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

const TOO_LARGE: Refusal = Refusal {
    status: Status::CONTENT_TOO_LARGE,
    why: "its content is longer than LimitRequestBody allows",
};

/// What becomes of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    Nothing,
}

/// Content on its way in.
struct Store {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    room: usize,
    most: u64,
    keep: Keep,
}

impl Store {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        self.length += bytes.len() as u64;
        if self.length > self.most {
            return Err(BodyError::Refused(TOO_LARGE));
        }
        if self.keep == Keep::Nothing {
            return Ok(());
        }
        if self.file.is_none() && self.memory.len() + bytes.len() <= self.room {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        self.push_to_file(bytes).map_err(BodyError::Storage)
    }

    fn push_to_file(&mut self, bytes: &[u8]) -> std::io::Result<()> {
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
