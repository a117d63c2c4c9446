//! The filters of a response at work.
//!
//! Filters that compress work on the event loop, one response of a thread at a time and for a short
//! turn between two looks at the sockets, so that other connections do not wait for them. Filters
//! with patterns may take long for one line, and Brotli for a page: they work on the threads for
//! costly directives.
//!
//! A compressor takes up to megabytes. It is made at the response's first turn; its memory was
//! counted when it was chosen ([`FilterRoom`](super::FilterRoom)).

use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use howdah_files::FileStore;
use howdah_htaccess::modules::filter::{Filter, TransformError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::filters::{FilterChain, are_slow, usual_memory};
use super::pump::PumpError;
use crate::crew::{ClientNetwork, Crew, CrewFull, JobOrigin};
use crate::net::{Clients, FilterMemory};

/// Bytes of content that filters take in one turn.
pub(super) const TURN: usize = 16 * 1024;

/// The place where the filters of a response work, and the client whose memory they take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterPlace<'t> {
    /// One permit: the turn of one response of the thread.
    pub(crate) turns: &'t Arc<Semaphore>,
    pub(crate) crew: &'t Crew<FileStore>,
    /// The number of the site.
    pub(crate) site: usize,
    pub(crate) clients: &'t Arc<Clients>,
    pub(crate) client: IpAddr,
}

impl FilterPlace<'_> {
    fn origin(&self) -> JobOrigin {
        let network = ClientNetwork::of(self.client);
        JobOrigin { site: self.site, network }
    }

    /// No bytes of filters, in the client's account.
    pub(crate) fn memory(&self) -> Arc<FilterMemory> {
        Arc::new(FilterMemory::of(self.clients, self.client))
    }
}

/// The filters of one response.
pub(super) struct Filtering<'t> {
    place: FilterPlace<'t>,
    filters: &'t [Filter],
    /// The crew does the work, and not the event loop.
    is_slow: bool,
    /// Bytes of content that were passed to the filters.
    passed: usize,
    /// `None` before the first turn, and while the crew has the filters.
    chain: Option<FilterChain>,
    /// The memory of the filters. The crew shares it as long as it has the filters.
    memory: Arc<FilterMemory>,
    /// The bytes of it that the filters take without long lines.
    usual: usize,
    input: Vec<u8>,
    /// The output that waits to be taken.
    pub(super) output: Vec<u8>,
    state: FilteringState<'t>,
    /// The content has ended.
    is_finishing: bool,
}

enum FilteringState<'t> {
    /// The filters are at rest.
    Ready,
    /// Another response has the turn.
    Waiting(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>>>>),
    /// It is this response's turn.
    Turn(OwnedSemaphorePermit),
    /// The filters have worked: the sockets are looked at before the turn ends. `None`: it was no
    /// turn, because the crew was to do the work and has no room.
    Worked(Option<OwnedSemaphorePermit>),
    Resting(Option<OwnedSemaphorePermit>),
    /// The crew works.
    Crew(Pin<Box<dyn Future<Output = Result<CrewResult, CrewFull>> + 't>>),
}

/// The filters and their output after work of the crew. Nobody may have waited for them: their
/// memory is counted until they are freed.
struct CrewResult {
    chain: FilterChain,
    output: Vec<u8>,
    memory: Arc<FilterMemory>,
    result: Result<(), TransformError>,
}

impl<'t> Filtering<'t> {
    /// The filters of a response of which nothing was sent. `memory` counts what they take without
    /// long lines.
    pub(super) fn new(
        filters: &'t [Filter],
        place: FilterPlace<'t>,
        memory: Arc<FilterMemory>,
    ) -> Filtering<'t> {
        Filtering {
            place,
            filters,
            is_slow: are_slow(filters, 0),
            passed: 0,
            chain: None,
            usual: memory.bytes(),
            memory,
            input: Vec::new(),
            output: Vec::new(),
            state: FilteringState::Ready,
            is_finishing: false,
        }
    }

    /// Waits until the filters have done their last work, and other connections had their turn.
    ///
    /// # Errors
    /// The filters failed on the content, or too many responses wait for them.
    pub(super) fn poll_worked(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PumpError>> {
        match std::mem::replace(&mut self.state, FilteringState::Ready) {
            FilteringState::Worked(turn) => {
                rest(context);
                self.state = FilteringState::Resting(turn);
                return Poll::Pending;
            }
            FilteringState::Crew(mut work) => match work.as_mut().poll(context) {
                Poll::Ready(Ok(done)) => {
                    self.chain = Some(done.chain);
                    (self.output, self.memory) = (done.output, done.memory);
                    done.result?;
                    self.count_memory()?;
                }
                Poll::Ready(Err(CrewFull)) => return Poll::Ready(Err(PumpError::Busy)),
                Poll::Pending => {
                    self.state = FilteringState::Crew(work);
                    return Poll::Pending;
                }
            },
            FilteringState::Resting(_ended) => {}
            state @ (FilteringState::Ready
            | FilteringState::Waiting(_)
            | FilteringState::Turn(_)) => self.state = state,
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for this response's turn. The caller has content for it, and pushes that at once.
    ///
    /// # Errors
    /// The event loop ends.
    pub(super) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PumpError>> {
        if self.is_slow || matches!(self.state, FilteringState::Turn(_)) {
            return Poll::Ready(Ok(()));
        }
        if !matches!(self.state, FilteringState::Waiting(_)) {
            if let Ok(turn) = Arc::clone(self.place.turns).try_acquire_owned() {
                self.state = FilteringState::Turn(turn);
                return Poll::Ready(Ok(()));
            }
            self.state = FilteringState::Waiting(Box::pin(turn(Arc::clone(self.place.turns))));
        }
        let FilteringState::Waiting(waiting) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let Some(turn) = ready!(waiting.as_mut().poll(context)) else {
            return Poll::Ready(Err(PumpError::Busy));
        };
        self.state = FilteringState::Turn(turn);
        Poll::Ready(Ok(()))
    }

    /// Leaves the turn to others, while the content cannot be taken.
    pub(super) fn leave_turn(&mut self) {
        if matches!(self.state, FilteringState::Waiting(_) | FilteringState::Turn(_)) {
            self.state = FilteringState::Ready;
        }
    }

    /// Counts the memory that long lines take.
    fn count_memory(&mut self) -> Result<(), PumpError> {
        let memory = self.chain.as_ref().map_or(0, FilterChain::memory);
        let long_lines = memory.saturating_sub(usual_memory(self.filters));
        match self.memory.hold(self.usual + long_lines) {
            true => Ok(()),
            false => Err(PumpError::Memory),
        }
    }

    /// Frees the filters and their memory. Only the output is left.
    pub(super) fn release(&mut self) {
        self.chain = None;
        self.input = Vec::new();
        self.memory.hold(self.usual);
    }

    /// Returns whether the filters have more to do with the content that they have.
    pub(super) fn has_work(&self) -> bool {
        self.chain.as_ref().is_some_and(FilterChain::has_work)
    }

    /// Returns whether the end of the content has passed the filters.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finishing && !matches!(self.state, FilteringState::Crew(_)) && !self.has_work()
    }

    /// Returns room for `count` bytes of content.
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        self.input.resize(count, 0);
        &mut self.input
    }

    /// Passes the first `count` bytes of the room to the filters.
    ///
    /// # Errors
    /// The filters failed on the content, or the client's account has no room for a long line.
    pub(super) fn push(&mut self, count: usize) -> Result<(), PumpError> {
        let chain = self.chain.get_or_insert_with(|| FilterChain::new(self.filters));
        chain.push(&self.input[..count]);
        self.passed += count;
        self.is_slow = are_slow(self.filters, self.passed);
        self.work()
    }

    /// Ends the content.
    ///
    /// # Errors
    /// The errors of [`push`](Filtering::push).
    pub(super) fn finish(&mut self) -> Result<(), PumpError> {
        self.chain.get_or_insert_with(|| FilterChain::new(self.filters)).finish();
        self.is_finishing = true;
        self.work()
    }

    /// Makes the filters give out all output that the content so far allows.
    ///
    /// # Errors
    /// The errors of [`push`](Filtering::push).
    pub(super) fn flush(&mut self) -> Result<(), PumpError> {
        let Some(chain) = &mut self.chain else {
            return Ok(());
        };
        chain.flush();
        self.work()
    }

    /// Returns whether there is more output to come of the content that the filters have.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.state, FilteringState::Crew(_)) || self.has_work() || !self.output.is_empty()
    }

    /// Returns whether the crew has no room for work that the event loop can do as well.
    fn is_refused(&self, origin: JobOrigin) -> bool {
        !are_slow(self.filters, 0) && !self.place.crew.has_room(origin)
    }

    /// Works for a turn, until there is output to be taken.
    ///
    /// # Errors
    /// The errors of [`push`](Filtering::push).
    pub(super) fn work(&mut self) -> Result<(), PumpError> {
        let origin = self.place.origin();
        if !self.is_slow || self.is_refused(origin) {
            let is_slow = self.is_slow;
            match std::mem::replace(&mut self.state, FilteringState::Ready) {
                FilteringState::Turn(permit) => self.state = FilteringState::Worked(Some(permit)),
                _ if is_slow => self.state = FilteringState::Worked(None),
                _ => {}
            }
            if let Some(chain) = &mut self.chain {
                chain.advance(&mut self.output)?;
            }
            return self.count_memory();
        }
        let Some(mut chain) = self.chain.take() else {
            return Ok(());
        };
        // A turn that was taken before the content was long is another response's.
        self.state = FilteringState::Ready;
        let mut output = std::mem::take(&mut self.output);
        let memory = Arc::clone(&self.memory);
        let job = move |_: &mut FileStore| {
            let result = chain.advance(&mut output);
            CrewResult { chain, output, memory, result }
        };
        self.state = FilteringState::Crew(Box::pin(self.place.crew.run(origin, job)));
        Ok(())
    }
}

/// Short content behind its filters.
pub(super) enum FilteredContent {
    Whole(Vec<u8>),
    /// The output is too long for memory. This is the content as it was before.
    TooLong(Vec<u8>),
}

/// Returns the output of `filters` for the whole of `content`. `memory` counts what both take.
///
/// # Errors
/// The filters failed on the content, or too many responses wait for them.
pub(super) async fn filtered(
    content: Vec<u8>,
    filters: &[Filter],
    place: FilterPlace<'_>,
    memory: Option<Arc<FilterMemory>>,
) -> Result<FilteredContent, PumpError> {
    let origin = place.origin();
    let is_slow = are_slow(filters, content.len());
    if is_slow && (are_slow(filters, 0) || place.crew.has_room(origin)) {
        let filters = filters.to_vec();
        let job = move |_: &mut FileStore, is_abandoned: Arc<AtomicBool>| {
            // A job that waits has no compressor.
            let (mut chain, mut out) = (FilterChain::new(&filters), Vec::new());
            chain.push(&content);
            chain.finish();
            let result = advance_to_end(&mut chain, &mut out, &is_abandoned);
            (result, out, content, memory)
        };
        let done = place.crew.run_while_awaited(origin, job).await;
        let (result, out, content, _) = done.map_err(|CrewFull| PumpError::Busy)?;
        return Ok(match result? {
            true => FilteredContent::Whole(out),
            false => FilteredContent::TooLong(content),
        });
    }
    let (mut chain, mut out) = (None, Vec::new());
    let mut parts = content.chunks(TURN);
    loop {
        let is_begun = chain.is_some();
        // Short content needs no turn, unless it grows.
        let permit = match is_begun || content.len() > TURN {
            true => Some(turn(Arc::clone(place.turns)).await.ok_or(PumpError::Busy)?),
            false => None,
        };
        let chain = chain.get_or_insert_with(|| FilterChain::new(filters));
        if !chain.has_work() {
            if let Some(part) = parts.next() {
                chain.push(part);
            }
            if parts.len() == 0 {
                chain.finish();
            }
        }
        let mut part = Vec::new();
        chain.advance(&mut part)?;
        out.append(&mut part);
        if out.len() > MOST_FILTERED {
            return Ok(FilteredContent::TooLong(content));
        }
        if parts.len() == 0 && !chain.has_work() {
            return Ok(FilteredContent::Whole(out));
        }
        if permit.is_some() {
            tokio::task::yield_now().await;
        }
    }
}

/// Works until nothing is left to do. `false`: the output is too long for memory, or took too much
/// work for one job, or nobody waits for it any more.
fn advance_to_end(
    chain: &mut FilterChain,
    out: &mut Vec<u8>,
    is_abandoned: &AtomicBool,
) -> Result<bool, TransformError> {
    for _ in 0..MOST_STEPS {
        if out.len() > MOST_FILTERED || is_abandoned.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut part = Vec::new();
        chain.advance(&mut part)?;
        out.append(&mut part);
        if !chain.has_work() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The longest output of filters that is kept in memory as a whole. Content with a longer output
/// passes the filters while it is sent.
const MOST_FILTERED: usize = 4 << 20;
/// Times that a chain advances in one job of the crew. Another job goes on after them.
const MOST_STEPS: u32 = 256;

/// Makes this task run again after the event loop has looked at the sockets.
pub(super) fn rest(context: &mut Context<'_>) {
    // The first poll leaves the waker with the event loop.
    let _ = pin!(tokio::task::yield_now()).as_mut().poll(context);
}

async fn turn(turns: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    turns.acquire_owned().await.ok()
}
