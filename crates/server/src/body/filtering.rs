//! The filters of a response at work.
//!
//! Filters that compress work on the event loop, one response of a thread at a time and for a short
//! turn between two looks at the sockets, so that other connections do not wait for them. Filters
//! with patterns may take long for one line: they work on the threads for costly directives.
//!
//! A compressor takes up to megabytes. It is made at the response's first turn, and not before its
//! memory has room in the client's account: further responses of that client wait.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_files::FileStore;
use howdah_htaccess::modules::filter::{Filter, OUTPUT, TransformError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use super::filters::{Chain, have_patterns, memory};
use super::pump::PumpError;
use crate::crew::{Crew, CrewFull, JobOrigin};
use crate::net::HeldMemory;

/// Bytes of content that filters take in one turn.
pub(super) const TURN: usize = 16 * 1024;

/// The place where the filters of a response work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterPlace<'t> {
    /// One permit: the turn of one response of the thread.
    pub(crate) turns: &'t Arc<Semaphore>,
    pub(crate) crew: &'t Crew<FileStore>,
    pub(crate) origin: JobOrigin,
}

/// The filters of one response.
pub(super) struct Filtering<'t> {
    place: FilterPlace<'t>,
    filters: &'t [Filter],
    has_patterns: bool,
    /// `None` before the first turn, and while the crew has the filters.
    chain: Option<Chain>,
    /// The memory of the filters, in the client's account.
    held: HeldMemory<'t>,
    /// Runs while the client's account has no room.
    full: Option<Pin<Box<Sleep>>>,
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
    /// The filters have worked: the sockets are looked at before the turn ends.
    Worked(OwnedSemaphorePermit),
    Resting(OwnedSemaphorePermit),
    /// The crew works.
    Crew(Pin<Box<dyn Future<Output = Result<CrewResult, CrewFull>> + 't>>),
}

/// The filters and their output after work of the crew.
struct CrewResult {
    chain: Chain,
    output: Vec<u8>,
    result: Result<(), TransformError>,
}

impl<'t> Filtering<'t> {
    /// The filters of a response of which nothing was sent. Their memory is counted in `held`.
    pub(super) fn new(
        filters: &'t [Filter],
        place: FilterPlace<'t>,
        held: HeldMemory<'t>,
    ) -> Filtering<'t> {
        Filtering {
            place,
            filters,
            has_patterns: have_patterns(filters),
            chain: None,
            held,
            full: None,
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
                    self.output = done.output;
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
        ready!(self.poll_memory(context));
        if self.has_patterns || matches!(self.state, FilteringState::Turn(_)) {
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

    /// Waits until the filters' memory has room in the client's account.
    fn poll_memory(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.chain.is_none() && !self.held.hold_all_of(needed(self.filters)) {
            let full = self.full.get_or_insert_with(|| Box::pin(sleep(LOOK_AGAIN)));
            ready!(full.as_mut().poll(context));
            self.full = None;
        }
        Poll::Ready(())
    }

    /// Counts the memory that the filters hold now: long lines may have made it more.
    fn count_memory(&mut self) -> Result<(), PumpError> {
        let memory = self.chain.as_ref().map_or(0, Chain::memory);
        match self.held.hold_all_of(memory.max(needed(self.filters))) {
            true => Ok(()),
            false => Err(PumpError::Memory),
        }
    }

    /// Frees the filters and their memory. Only the output is left.
    pub(super) fn release(&mut self) {
        self.chain = None;
        self.input = Vec::new();
        self.held.hold(0);
    }

    /// Returns whether the filters have more to do with the content that they have.
    pub(super) fn has_work(&self) -> bool {
        self.chain.as_ref().is_some_and(Chain::has_work)
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

    /// Has the filters take the first `count` bytes of the room.
    ///
    /// # Errors
    /// The filters failed on the content, or the client's account has no room for a long line.
    pub(super) fn push(&mut self, count: usize) -> Result<(), PumpError> {
        let chain = self.chain.get_or_insert_with(|| Chain::new(self.filters));
        chain.push(&self.input[..count]);
        self.work()
    }

    /// Ends the content.
    ///
    /// # Errors
    /// As [`push`](Filtering::push).
    pub(super) fn finish(&mut self) -> Result<(), PumpError> {
        self.chain.get_or_insert_with(|| Chain::new(self.filters)).finish();
        self.is_finishing = true;
        self.work()
    }

    /// Has the filters give out all that the content so far allows.
    ///
    /// # Errors
    /// The filters failed on the content.
    pub(super) fn flush(&mut self) -> Result<(), TransformError> {
        match &mut self.chain {
            // Patterns are for the crew.
            Some(chain) if !(self.has_patterns && chain.has_work()) => {
                chain.flush();
                chain.advance(&mut self.output)
            }
            _ => Ok(()),
        }
    }

    /// Works for a turn, until there is output to be taken.
    ///
    /// # Errors
    /// As [`push`](Filtering::push).
    pub(super) fn work(&mut self) -> Result<(), PumpError> {
        if !self.has_patterns {
            if let FilteringState::Turn(permit) =
                std::mem::replace(&mut self.state, FilteringState::Ready)
            {
                self.state = FilteringState::Worked(permit);
            }
            if let Some(chain) = &mut self.chain {
                chain.advance(&mut self.output)?;
            }
            return self.count_memory();
        }
        let Some(mut chain) = self.chain.take() else {
            return Ok(());
        };
        let mut output = std::mem::take(&mut self.output);
        let job = move |_: &mut FileStore| {
            let result = chain.advance(&mut output);
            CrewResult { chain, output, result }
        };
        self.state = FilteringState::Crew(Box::pin(self.place.crew.run(self.place.origin, job)));
        Ok(())
    }
}

/// Short content behind its filters.
pub(super) enum FilteredContent {
    Whole(Vec<u8>),
    /// The output is too long for memory. This is the content as it was before.
    TooLong(Vec<u8>),
}

/// Returns the output of `filters` for the whole of `content`. Their memory is counted in `held`.
///
/// # Errors
/// The filters failed on the content, or too many responses wait for them.
pub(super) async fn filtered(
    content: Vec<u8>,
    filters: &[Filter],
    place: FilterPlace<'_>,
    held: &mut HeldMemory<'_>,
) -> Result<FilteredContent, PumpError> {
    wait_for_memory(held, filters, content.len()).await?;
    if have_patterns(filters) {
        let mut chain = Chain::new(filters);
        let job = move |_: &mut FileStore| {
            let mut out = Vec::new();
            chain.push(&content);
            chain.finish();
            let result = advance_to_end(&mut chain, &mut out);
            (result, out, content)
        };
        let (result, out, content) =
            place.crew.run(place.origin, job).await.map_err(|CrewFull| PumpError::Busy)?;
        return Ok(match result? {
            true => FilteredContent::Whole(out),
            false => FilteredContent::TooLong(content),
        });
    }
    let mut chain = None;
    let mut out = Vec::new();
    let mut parts = content.chunks(TURN).peekable();
    while let Some(part) = parts.next() {
        // Short content needs no turn.
        let permit = match content.len() > TURN {
            true => Some(turn(Arc::clone(place.turns)).await.ok_or(PumpError::Busy)?),
            false => None,
        };
        let chain = chain.get_or_insert_with(|| Chain::new(filters));
        chain.push(part);
        if parts.peek().is_none() {
            chain.finish();
        }
        if !advance_to_end(chain, &mut out)? {
            return Ok(FilteredContent::TooLong(content));
        }
        if permit.is_some() {
            tokio::task::yield_now().await;
        }
    }
    if content.is_empty() {
        let chain = chain.get_or_insert_with(|| Chain::new(filters));
        chain.finish();
        advance_to_end(chain, &mut out)?;
    }
    Ok(FilteredContent::Whole(out))
}

/// Works until nothing is left to do. `false`: the output is too long for memory.
fn advance_to_end(chain: &mut Chain, out: &mut Vec<u8>) -> Result<bool, TransformError> {
    let mut part = Vec::new();
    while chain.has_work() {
        if out.len() > MOST_FILTERED {
            return Ok(false);
        }
        chain.advance(&mut part)?;
        out.append(&mut part);
    }
    Ok(true)
}

/// Waits until content of `length` bytes and the memory of its filters have room in the client's
/// account. Short content passes its filters at once, and does not wait.
///
/// # Errors
/// There is no room for a long time.
pub(super) async fn wait_for_memory(
    held: &mut HeldMemory<'_>,
    filters: &[Filter],
    length: usize,
) -> Result<(), PumpError> {
    let mut left = MOST_LOOKS;
    while length > TURN && !held.hold_all_of(needed(filters) + 2 * length) {
        left -= 1;
        if left == 0 {
            return Err(PumpError::Memory);
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Returns the bytes of memory that a response with these filters takes, about.
fn needed(filters: &[Filter]) -> usize {
    memory(filters) + 2 * OUTPUT
}

/// The longest output of filters that is kept in memory as a whole.
const MOST_FILTERED: usize = 4 << 20;
/// Time after which a response looks again whether there is room for its filters.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Looks of a response that waits before its head: half a minute.
const MOST_LOOKS: u32 = 600;

/// Has this task run again after the event loop has looked at the sockets.
pub(super) fn rest(context: &mut Context<'_>) {
    // The first poll leaves the waker with the event loop.
    let _ = pin!(tokio::task::yield_now()).as_mut().poll(context);
}

async fn turn(turns: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    turns.acquire_owned().await.ok()
}
