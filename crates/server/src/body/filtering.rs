//! The filters of a response at work.
//!
//! Filters that compress work on the event loop, one response of a thread at a time and for a short
//! turn between two looks at the sockets, so that other connections do not wait for them. Filters
//! with patterns may take long for one line: they work on the threads for costly directives.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use howdah_files::FileStore;
use howdah_htaccess::modules::filter::{Filter, TransformError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::filters::Chain;
use super::pump::PumpError;
use crate::crew::{Crew, CrewFull, JobOrigin};

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
    /// `None` while the crew has the filters.
    chain: Option<Chain>,
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

/// The filters and their buffers after work of the crew.
struct CrewResult {
    chain: Chain,
    input: Vec<u8>,
    output: Vec<u8>,
    result: Result<(), TransformError>,
}

impl<'t> Filtering<'t> {
    pub(super) fn new(filters: &[Filter], place: FilterPlace<'t>) -> Filtering<'t> {
        Filtering {
            place,
            chain: Some(Chain::new(filters)),
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
                    self.input = done.input;
                    self.output = done.output;
                    done.result?;
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
        if self.works_elsewhere() || matches!(self.state, FilteringState::Turn(_)) {
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

    /// Returns whether the end of the content has passed the filters.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finishing && !matches!(self.state, FilteringState::Crew(_))
    }

    /// Returns room for `count` bytes of content.
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        self.input.resize(count, 0);
        &mut self.input
    }

    /// Has the filters take the first `count` bytes of the room.
    ///
    /// # Errors
    /// The filters failed on the content.
    pub(super) fn push(&mut self, count: usize) -> Result<(), TransformError> {
        self.input.truncate(count);
        self.work(false)
    }

    /// Ends the content.
    ///
    /// # Errors
    /// The filters failed on the content.
    pub(super) fn finish(&mut self) -> Result<(), TransformError> {
        self.input.clear();
        self.is_finishing = true;
        self.work(true)
    }

    /// Has the filters give out all that the content so far allows.
    ///
    /// # Errors
    /// The filters failed on the content.
    pub(super) fn flush(&mut self) -> Result<(), TransformError> {
        match &mut self.chain {
            Some(chain) => chain.flush(&mut self.output),
            None => Ok(()),
        }
    }

    fn works_elsewhere(&self) -> bool {
        self.chain.as_ref().is_none_or(Chain::has_patterns)
    }

    fn work(&mut self, is_end: bool) -> Result<(), TransformError> {
        if !self.works_elsewhere() {
            if let FilteringState::Turn(permit) =
                std::mem::replace(&mut self.state, FilteringState::Ready)
            {
                self.state = FilteringState::Worked(permit);
            }
            return match &mut self.chain {
                Some(chain) => pass(chain, &self.input, is_end, &mut self.output),
                None => Ok(()),
            };
        }
        let Some(mut chain) = self.chain.take() else {
            return Ok(());
        };
        let (input, mut output) =
            (std::mem::take(&mut self.input), std::mem::take(&mut self.output));
        let job = move |_: &mut FileStore| {
            let result = pass(&mut chain, &input, is_end, &mut output);
            CrewResult { chain, input, output, result }
        };
        self.state = FilteringState::Crew(Box::pin(self.place.crew.run(self.place.origin, job)));
        Ok(())
    }
}

/// Returns the output of `filters` for the whole of `content`.
///
/// # Errors
/// The filters failed on the content, or too many responses wait for them.
pub(super) async fn filtered(
    content: Vec<u8>,
    filters: &[Filter],
    place: FilterPlace<'_>,
) -> Result<Vec<u8>, PumpError> {
    let mut chain = Chain::new(filters);
    let mut out = Vec::new();
    if chain.has_patterns() {
        let job = move |_: &mut FileStore| pass(&mut chain, &content, true, &mut out).map(|()| out);
        let result = place.crew.run(place.origin, job).await;
        return result.map_err(|CrewFull| PumpError::Busy)?.map_err(PumpError::from);
    }
    let mut parts = content.chunks(TURN).peekable();
    while let Some(part) = parts.next() {
        let is_end = parts.peek().is_none();
        if is_end && content.len() <= TURN {
            // Short content needs no turn.
            pass(&mut chain, part, true, &mut out)?;
            break;
        }
        let permit = turn(Arc::clone(place.turns)).await.ok_or(PumpError::Busy)?;
        pass(&mut chain, part, is_end, &mut out)?;
        tokio::task::yield_now().await;
        drop(permit);
    }
    if content.is_empty() {
        chain.finish(&mut out)?;
    }
    Ok(out)
}

/// Has this task run again after the event loop has looked at the sockets.
pub(super) fn rest(context: &mut Context<'_>) {
    // The first poll leaves the waker with the event loop.
    let _ = pin!(tokio::task::yield_now()).as_mut().poll(context);
}

async fn turn(turns: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    turns.acquire_owned().await.ok()
}

fn pass(
    chain: &mut Chain,
    input: &[u8],
    is_end: bool,
    output: &mut Vec<u8>,
) -> Result<(), TransformError> {
    if !input.is_empty() {
        chain.push(input, output)?;
    }
    if is_end {
        chain.finish(output)?;
    }
    Ok(())
}
