//! One request on its way through the pipeline.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_http::{Fields, Refusal, Request, Status};
use howdah_php::RunReport;
use howdah_site::{ClientRequest, Scratch, Site};

use crate::body::{BodyError, ContentUse, ReceivedContent, RequestStream};
use crate::front::{FrontThread, WallTime};
use crate::host::ComparedPasswords;
use crate::net::{HeldMemory, PaceLimit, Peer};
use crate::observe::{Culprit, ErrorContext, Excuse, Phase, RequestError, RespondError};
use crate::respond::PreparedResponse;

/// A request with its peer, site and deadlines. It knows the protocol only as a [`RequestStream`].
pub(crate) struct RequestContext<'t, 'c> {
    /// The event loop that serves the request: sites, files, pools, logs.
    pub(crate) thread: &'t Rc<FrontThread>,
    pub(crate) peer: &'t Peer,
    /// `None` until the site is found.
    pub(crate) site: Option<&'t Site>,
    pub(crate) arrival: Arrival,
    pub(crate) deadlines: RequestDeadlines,
    pub(crate) request: &'c mut Request,
    /// The request's content, and the way for interim responses.
    pub(crate) stream: &'c mut dyn RequestStream,
    pub(crate) scratch: &'c mut ScratchBuffers,
    /// The step that the request is in, for the log.
    pub(crate) phase: Cell<Phase>,
    /// The party at fault for the first error that leads to a status 5xx; `None` without one.
    culprit: Cell<Option<Culprit>>,
    /// A script or an upstream was asked.
    pub(crate) is_made: bool,
    /// The prepared answer of the cached resolution; `None` where the resolution is not cached.
    pub(crate) prepared: Option<Rc<PreparedResponse>>,
    /// The passwords that were compared for the request.
    pub(crate) compared: ComparedPasswords,
    /// The memory of the content in the client's account; `None` before content is received.
    pub(crate) content_memory: Option<HeldMemory<'t>>,
    /// Some or all of the content was received and discarded.
    pub(crate) is_content_discarded: bool,
    /// Gets the script's run, where the site's access log tells it.
    pub(crate) run: Option<RunReport>,
    /// The time that the request waited for a worker, and how long its script took to begin the
    /// response, where the response tells it.
    pub(crate) script_times: Option<(Duration, Duration)>,
    /// Variables that the script has set; `None` where it has set none.
    pub(crate) script_environment: Option<Box<Fields>>,
    /// The reason why the request is refused although its head is known.
    pub(crate) refused: Option<Refusal>,
    /// The notes that the script has left for the access log.
    pub(crate) script_notes: Option<Box<Fields>>,
}

/// The time at which a request arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) began: WallTime,
    pub(crate) started: Instant,
}

/// The time limits of a request that its protocol enforces. The pool and the upstream clients have
/// their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestDeadlines {
    /// The slowest pace at which the content may be received.
    pub(crate) body: PaceLimit,
}

/// Buffers that are reused from one request to the next.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffers {
    pub(crate) paths: Scratch,
    /// A worker's response head.
    pub(crate) head: Vec<u8>,
    /// A short response.
    pub(crate) content: Vec<u8>,
}

impl Arrival {
    /// Now.
    pub(crate) fn now(thread: &FrontThread) -> Arrival {
        Arrival {
            began: thread.clock().now(),
            started: Instant::now(),
        }
    }
}

impl<'t, 'c> RequestContext<'t, 'c> {
    /// The context of a request whose head a protocol has read.
    #[inline]
    pub(crate) fn new(
        thread: &'t Rc<FrontThread>,
        peer: &'t Peer,
        arrival: Arrival,
        request: &'c mut Request,
        stream: &'c mut dyn RequestStream,
        scratch: &'c mut ScratchBuffers,
    ) -> RequestContext<'t, 'c> {
        let limits = &thread.config().limits;
        RequestContext {
            thread,
            peer,
            site: None,
            arrival,
            deadlines: RequestDeadlines {
                body: PaceLimit {
                    silence: limits.body_timeout,
                    rate: limits.body_rate,
                },
            },
            request,
            stream,
            scratch,
            phase: Cell::new(Phase::Resolving),
            culprit: Cell::new(None),
            is_made: false,
            prepared: None,
            compared: ComparedPasswords::default(),
            content_memory: None,
            is_content_discarded: false,
            run: None,
            script_times: None,
            script_environment: None,
            script_notes: None,
            refused: None,
        }
    }
}

impl RequestContext<'_, '_> {
    /// The sender of the request, as rules and scripts see it.
    pub(crate) fn client(&self) -> ClientRequest<'_> {
        self.peer.client(self.request, self.arrival.began.microseconds)
    }

    /// Returns the circumstances of the request, for errors.
    pub(crate) fn situation(&self) -> ErrorContext<'_> {
        ErrorContext {
            peer: self.peer,
            site: self.site,
            phase: self.phase.get(),
            request: self.request,
        }
    }

    /// Logs an error that decides about the response, and keeps whose it is. Returns the status for
    /// the client; `None` if the error has none.
    pub(crate) fn report(&self, error: &RequestError) -> Option<Status> {
        self.thread.report(error);
        self.blame(error.culprit, error.status);
        error.status
    }

    /// Reports why there is no response, where there is a client to answer. Returns the status for
    /// the client; `None` if it is gone.
    pub(super) fn report_failed(&self, failed: &RespondError) -> Option<Status> {
        let status = failed.status()?;
        match failed {
            RespondError::Error(error) => self.report(error),
            // Load never gets a mere status.
            RespondError::Status(_) => {
                self.blame(Culprit::Server, Some(status));
                Some(status)
            }
        }
    }

    /// Keeps the party at fault for the first error of 5xx, or without a status: errors of its
    /// page do not change why the request has failed.
    fn blame(&self, culprit: Culprit, status: Option<Status>) {
        if self.culprit.get().is_none() && status.is_none_or(Status::is_server_error) {
            self.culprit.set(Some(culprit));
        }
    }

    /// Returns why a response of `status` is no error of the site's configuration; `None` where it
    /// is one, or no error at all.
    pub(super) fn excuse(&self, status: Status) -> Option<Excuse> {
        let culprit = self.culprit.get().filter(|_| status.is_server_error());
        culprit.and_then(Culprit::excuse)
    }

    /// Receives the whole content, if it is at most `most` bytes long. Afterwards the request's
    /// content has a known length.
    ///
    /// # Errors
    /// See [`receive`](crate::body::receive).
    pub(crate) async fn receive(
        &mut self,
        most: Option<u64>,
    ) -> Result<ReceivedContent, BodyError> {
        let limits = self.thread.spool_limits(self.site);
        self.receive_as(most.unwrap_or(u64::MAX), ContentUse::All(limits)).await
    }

    /// Receives and discards up to `most` bytes of content. Afterwards the request's content has a
    /// known length; longer content has the length `most` + 1.
    ///
    /// # Errors
    /// See [`receive`](crate::body::receive).
    pub(crate) async fn discard_content(&mut self, most: u64) -> Result<(), BodyError> {
        let received = self.receive_as(most, ContentUse::Nothing).await;
        self.is_content_discarded = true;
        match received {
            Err(BodyError::Refused(refusal)) if refusal.status == Status::CONTENT_TOO_LARGE => {
                self.request.content = howdah_http::Content::Length(most.saturating_add(1));
                Ok(())
            }
            result => result.map(drop),
        }
    }

    /// Receives and discards all of the content, for a response that does not need it. The next
    /// request can follow on the connection. A client that waits for leave to send (Expect) is
    /// answered at once instead, without its content.
    ///
    /// # Errors
    /// See [`receive`](crate::body::receive).
    pub(crate) async fn skip_content(&mut self) -> Result<(), BodyError> {
        if self.request.content == howdah_http::Content::None
            || self.is_content_discarded
            || self.request.fields.contains(b"expect")
        {
            return Ok(());
        }
        let received = self.receive_as(u64::MAX, ContentUse::Nothing).await;
        self.is_content_discarded = true;
        received.map(drop)
    }

    async fn receive_as(
        &mut self,
        most: u64,
        keep: ContentUse<'_>,
    ) -> Result<ReceivedContent, BodyError> {
        if self.request.content == howdah_http::Content::None {
            return Ok(ReceivedContent::Memory(Vec::new()));
        }
        if self.is_content_discarded {
            return Err(BodyError::Discarded);
        }
        self.phase.set(Phase::ReadingBody);
        let (clients, client) = (self.thread.clients(), self.peer.remote.ip());
        let held = self.content_memory.get_or_insert_with(|| HeldMemory::of(clients, client));
        let patience = self.deadlines.body;
        crate::body::receive(self.stream, self.request, patience, most, keep, Some(held)).await
    }
}

impl fmt::Debug for RequestContext<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext")
            .field("peer", self.peer)
            .field("request", self.request)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
