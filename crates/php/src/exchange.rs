//! One request on its way through a worker.

mod questions;

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use howdah_ipc::figures::RequestFigures;
use howdah_ipc::response::{self, DecodedHead, HeadKind};
use howdah_ipc::{Corrupt, SlotPhase};

pub(crate) use self::questions::AskedQuestion;
pub use self::questions::{AnswerFuture, AskingConnection, QuestionHandler};
use crate::deadlines::MissedDeadline;
use crate::waiters::{SlotNews, Waiters};
use crate::zygote::{Lease, LostWorker};

/// A request that was handed to a pool, and its response as it comes.
///
/// Dropping it cancels the request if no worker has begun it. Otherwise the worker is told that
/// nobody reads the response. Always in a box, because it is handed on often.
#[derive(Debug)]
pub struct ScriptExchange {
    waiters: Rc<Waiters>,
    lease: Option<Lease>,
    since: Instant,
    /// The response is complete, or its reader is gone: the script may go on.
    complete: bool,
    /// The request was taken back before a worker began it.
    cancelled: bool,
    /// A worker was seen to have begun the request.
    is_begun: bool,
    kill: bool,
    /// The failure was counted.
    is_failed: bool,
    /// Gets the script's run at the end.
    report: Option<RunReport>,
    asked: AskedQuestion,
}

/// The run of a script, for logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptRun {
    /// The process of the worker that ran the script, also of one that has died with it; 0 if it
    /// is not known, or no worker has begun the request.
    pub worker: u64,
    /// Nanoseconds that the request has waited for a worker.
    pub waited: u64,
    /// Nanoseconds that the script ran, also of one that was ended or has died with its worker.
    /// `None` if it went on when the response had ended, and if no worker has begun the request.
    pub took: Option<u64>,
    /// The value of [`RequestFigures::peak`]. Also `None` if the script has not ended by itself.
    pub peak: Option<u64>,
    /// The value of [`RequestFigures::processor`]. Also `None` if the script has not ended by
    /// itself.
    pub processor: Option<u64>,
}

impl ScriptRun {
    /// A request that no worker has begun, and that has waited for so long.
    pub fn waiting(waited: Duration) -> ScriptRun {
        ScriptRun {
            waited: u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
            ..ScriptRun::default()
        }
    }
}

/// The place where an exchange leaves the script's run: `None` until the exchange is dropped.
pub type RunReport = Rc<Cell<Option<ScriptRun>>>;

/// The reason why a response does not come, or ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeError {
    /// The worker died.
    WorkerDied(LostWorker),
    /// The pool's zygote died, or a worker wrote nonsense. All workers of the pool are replaced.
    PoolDied,
    /// No worker has begun the request, and none will: the pool died as with
    /// [`ExchangeError::PoolDied`], or the scripts before it take long, and it waits for its turn
    /// with the requests of other clients instead, or the front ends. It can be handed over again,
    /// see [`ScriptExchange::since`].
    NotTaken,
    /// No worker began the request within the pool's `queue_timeout`.
    NotBegun,
    /// The script gave no sign of life for the pool's `request_timeout`, or for the time limit
    /// that it had set. It is ended, and its worker killed if it does not end.
    Silent,
    /// The script ran longer than the pool's `request_terminate_timeout`. It is ended, and its
    /// worker killed if it does not end.
    TimedOut,
    /// The front ends, and the time for requests is over. The script is ended, and its worker
    /// killed if it does not end.
    CutOff,
    /// The worker's bytes are no response.
    Malformed(Corrupt),
}

/// The part of a response that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseProgress {
    /// Bytes in the ring that were not consumed.
    pub available: usize,
    /// No further bytes will come.
    pub complete: bool,
    /// The worker may be waiting for room.
    pub full: bool,
}

impl ScriptExchange {
    pub(crate) fn new(waiters: Rc<Waiters>, lease: Lease, since: Instant) -> Box<ScriptExchange> {
        Box::new(ScriptExchange {
            waiters,
            lease: Some(lease),
            since,
            complete: false,
            cancelled: false,
            is_begun: false,
            kill: false,
            is_failed: false,
            report: None,
            asked: AskedQuestion::default(),
        })
    }

    /// Asks for the script's run, which `report` has when this exchange was dropped.
    pub fn report_to(&mut self, report: RunReport) {
        self.report = Some(report);
    }

    /// The time at which the request began to wait for a worker, for
    /// [`QueuePlace::since`](crate::QueuePlace::since).
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns how long the request has waited for a worker, and how long it has run until now. For
    /// a request whose response has begun.
    pub fn times(&self) -> (Duration, Duration) {
        let lease = self.lease.as_ref().expect("held until dropped");
        let (waited, ran) = lease.zygote.front.times(lease.slot_ref());
        (Duration::from_nanos(waited), Duration::from_nanos(ran))
    }

    /// Returns the script's run until now; `None` if its worker wrote nonsense.
    fn run(&mut self) -> Option<ScriptRun> {
        let lease = self.lease.as_mut()?;
        let (zygote, slot) = lease.parts();
        let worker = match self.cancelled {
            true => None,
            false => zygote.front.slot_status(slot).ok()?.worker,
        };
        let Some(worker) = worker else {
            return Some(ScriptRun::waiting(self.since.elapsed()));
        };
        let zygote = &lease.zygote;
        // After a death, the worker's place belongs to its successor.
        let lost = zygote.lost(lease.index());
        let worker = lost.map_or_else(|| zygote.pid(worker), |lost| lost.pid);
        let figures = lease.figures.or_else(|| zygote.front.figures(lease.slot_ref()));
        let (waited, ran) = match &figures {
            Some(figures) => (figures.waited, figures.took),
            None => zygote.front.times(lease.slot_ref()),
        };
        Some(ScriptRun {
            worker,
            waited,
            took: (figures.is_some() || self.is_failed).then_some(ran),
            peak: figures.and_then(|figures| figures.peak),
            processor: figures.and_then(|figures| figures.processor),
        })
    }

    /// Returns how much of the response has arrived, and wakes `context` at the next change.
    ///
    /// # Errors
    /// The rest of the response will not arrive.
    pub fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<ResponseProgress, ExchangeError> {
        self.poll_part(AwaitedPart::Content, context)
    }

    fn poll_part(
        &mut self,
        awaited: AwaitedPart,
        context: &mut Context<'_>,
    ) -> Result<ResponseProgress, ExchangeError> {
        let progress = self.look(awaited, context);
        if let Err(failure) = progress
            && !std::mem::replace(&mut self.is_failed, true)
        {
            let lane = self.lease.as_ref().map_or(0, |lease| lease.lane);
            self.waiters.count_failure(lane, failure);
        }
        if progress.is_ok_and(|progress| !progress.complete) {
            self.attend(context);
        }
        progress
    }

    /// Returns the figures of the request; `None` until its script has ended.
    pub fn figures(&self) -> Option<RequestFigures> {
        self.lease.as_ref().and_then(|lease| lease.figures)
    }

    fn look(
        &mut self,
        awaited: AwaitedPart,
        context: &mut Context<'_>,
    ) -> Result<ResponseProgress, ExchangeError> {
        if self.cancelled {
            return Err(ExchangeError::NotBegun);
        }
        let lease = self.lease.as_mut().expect("held until dropped");
        // The waker is registered before the slot is read: a change in between wakes the task.
        let SlotNews { overdue, shows } = self.waiters.wait(lease.index(), context.waker());
        if shows {
            lease.slot().show();
        }
        let (zygote, slot) = lease.parts();
        let look = match zygote.front.slot_status(slot) {
            Ok(look) => look,
            Err(corrupt) => {
                zygote.condemn();
                return Err(ExchangeError::Malformed(corrupt));
            }
        };
        self.complete = look.ended;
        self.is_begun |= look.phase != SlotPhase::Queued;
        if let Some(took) = look.took {
            zygote.note_service(took, look.share);
            self.waiters.count_figures(lease);
        }
        let zygote = &lease.zygote;
        let available = (lease.slot_ref().written() - lease.slot_ref().consumed()) as usize;
        let full = available * 2 > zygote.front.geometry().ring_bytes;
        if !look.ended {
            let lost = zygote.lost(lease.index());
            if awaited == AwaitedPart::Content
                && available > 0
                && (lost.is_some() || zygote.is_dead() && look.phase != SlotPhase::Queued)
            {
                return Ok(ResponseProgress { available, complete: false, full: true });
            }
            if let Some(lost) = lost {
                return Err(ExchangeError::WorkerDied(lost));
            }
            if zygote.is_dead() {
                let untouched =
                    look.phase == SlotPhase::Queued && zygote.front.cancel(lease.slot_ref());
                self.cancelled = untouched;
                return Err(if untouched {
                    ExchangeError::NotTaken
                } else {
                    ExchangeError::PoolDied
                });
            }
            self.check_time(overdue, look.phase)?;
        }
        Ok(ResponseProgress { available, complete: self.complete, full })
    }

    /// Ends the exchange of a request that has taken too long, or whose zygote is cut off: takes it
    /// back while no worker has it, else has its worker killed.
    ///
    /// # Errors
    /// The request ends here, for this reason.
    fn check_time(
        &mut self,
        overdue: Option<MissedDeadline>,
        phase: SlotPhase,
    ) -> Result<(), ExchangeError> {
        let lease = self.lease.as_ref().expect("held until dropped");
        let zygote = &lease.zygote;
        let overdue = match phase {
            SlotPhase::Queued if zygote.cuts_off_waiting() => Some(MissedDeadline::CutOff),
            SlotPhase::Taken if zygote.cuts_off_running() => Some(MissedDeadline::CutOff),
            _ => overdue,
        };
        let Some(overdue) = overdue else {
            return Ok(());
        };
        let error = match (overdue, phase) {
            (MissedDeadline::Waiting, SlotPhase::Queued) => ExchangeError::NotBegun,
            (MissedDeadline::Recalled | MissedDeadline::CutOff, SlotPhase::Queued) => {
                ExchangeError::NotTaken
            }
            (MissedDeadline::Silent, SlotPhase::Taken) => ExchangeError::Silent,
            (MissedDeadline::Running, SlotPhase::Taken) => ExchangeError::TimedOut,
            (MissedDeadline::CutOff, SlotPhase::Taken) => ExchangeError::CutOff,
            _ => return Ok(()),
        };
        if phase == SlotPhase::Taken {
            self.kill = true;
        } else if zygote.front.cancel(lease.slot_ref()) {
            self.cancelled = true;
        } else {
            // A worker has just taken it.
            return Ok(());
        }
        Err(error)
    }

    /// Waits for the next response head and copies it to `into`, for [`decode_head`].
    ///
    /// # Errors
    /// The head will not arrive.
    pub async fn head(&mut self, into: &mut Vec<u8>) -> Result<HeadKind, ExchangeError> {
        let came = self.head_unless(|_, _| false, into).await;
        came.expect("nothing else ends the wait")
    }

    /// Waits for the next response head like [`ScriptExchange::head`], unless the client leaves.
    /// `None`: `is_gone` says that the client is gone. `is_gone` is told whether the request still
    /// waits for a worker, for so long that no free one can be about to begin it.
    ///
    /// # Errors
    /// `Some(Err)`: the head will not arrive.
    pub async fn head_unless(
        &mut self,
        is_gone: impl Fn(&mut Context<'_>, bool) -> bool,
        into: &mut Vec<u8>,
    ) -> Option<Result<HeadKind, ExchangeError>> {
        let came = poll_fn(|context| match self.poll_head(context) {
            Poll::Ready(came) => Poll::Ready(Some(came)),
            Poll::Pending if self.waits() && is_gone(context, true) && self.take_back() => {
                Poll::Ready(None)
            }
            Poll::Pending if is_gone(context, false) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        Some(came.await?.map(|(kind, length)| self.take_head(kind, length, into)))
    }

    /// Whether the request has waited for a worker for longer than [`WAKING`].
    fn waits(&self) -> bool {
        !self.is_begun && self.since.elapsed() >= WAKING
    }

    /// Takes the request back, if no worker has begun it.
    fn take_back(&mut self) -> bool {
        let lease = self.lease.as_ref().expect("held until dropped");
        self.cancelled = lease.zygote.front.cancel(lease.slot_ref());
        if self.cancelled {
            self.waiters.count_abandoned(lease.lane);
        }
        self.cancelled
    }

    fn take_head(&mut self, kind: HeadKind, length: usize, into: &mut Vec<u8>) -> HeadKind {
        into.clear();
        into.resize(length, 0);
        let lease = self.lease.as_mut().expect("held until dropped");
        lease.zygote.front.copy(lease.slot_ref(), response::PREFIX as u64, into);
        self.consume(response::PREFIX + length);
        kind
    }

    /// Copies the next bytes to `into` without consuming them. Returns their number.
    pub fn copy(&self, into: &mut [u8]) -> usize {
        let lease = self.lease.as_ref().expect("held until dropped");
        lease.zygote.front.copy(lease.slot_ref(), 0, into)
    }

    /// Sends `before`, the next `length` bytes and `after` with one system call, straight from the
    /// shared memory. Returns the bytes sent of all three together; consumes nothing.
    ///
    /// # Errors
    /// The error of `writev(2)`.
    pub fn send(
        &self,
        length: usize,
        to: BorrowedFd<'_>,
        before: &[u8],
        after: &[u8],
    ) -> io::Result<usize> {
        let lease = self.lease.as_ref().expect("held until dropped");
        lease.zygote.front.send(lease.slot_ref(), length, to, before, after)
    }

    /// Gives `length` bytes of the ring back to the worker.
    pub fn consume(&mut self, length: usize) {
        let lease = self.lease.as_mut().expect("held until dropped");
        let (zygote, slot) = lease.parts();
        zygote.front.consume(slot, length as u64);
    }

    /// Keeps something that the worker uses, such as a file, until no worker has the request any
    /// more, even if the reader of the response is gone before.
    pub fn keep(&mut self, kept: Box<dyn Any + Send>) {
        self.lease.as_mut().expect("held until dropped").keep(kept);
    }

    /// Lets the script run to its end without a reader. The rest of its output is thrown away, and
    /// the script is not told.
    pub fn detach(mut self) {
        self.complete = true;
    }

    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(HeadKind, usize), ExchangeError>> {
        let news = match self.poll_part(AwaitedPart::Head, context) {
            Ok(news) => news,
            Err(failure) => return Poll::Ready(Err(failure)),
        };
        let mut prefix = [0; response::PREFIX];
        if self.copy(&mut prefix) == response::PREFIX {
            match response::decode_prefix(prefix) {
                Ok((kind, length)) if news.available >= response::PREFIX + length => {
                    return Poll::Ready(Ok((kind, length)));
                }
                Ok(_) => {}
                Err(corrupt) => return Poll::Ready(Err(ExchangeError::Malformed(corrupt))),
            }
        }
        if news.complete {
            return Poll::Ready(Err(ExchangeError::Malformed(Corrupt(
                "a worker finished without a response head",
            ))));
        }
        Poll::Pending
    }
}

/// The part of a response that its reader waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedPart {
    /// Nothing of the response is known: a worker's death is told at once, and can be answered.
    Head,
    /// The reader gets what came before a worker's death, and is told afterwards.
    Content,
}

/// The time after which a worker that was free has begun a request.
const WAKING: Duration = Duration::from_millis(200);

impl Drop for ScriptExchange {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            report.set(self.run());
        }
        if let Some(lease) = self.lease.take() {
            if self.cancelled {
                self.waiters.leave_cancelled(lease);
            } else if self.complete {
                self.waiters.leave_running(lease, std::mem::take(&mut self.asked));
            } else {
                self.waiters.leave(lease, self.kill);
            }
        }
    }
}

/// Decodes a head that [`ScriptExchange::head`] copied.
///
/// # Errors
/// [`ExchangeError::Malformed`] if the bytes are no response head.
pub fn decode_head(bytes: &[u8]) -> Result<DecodedHead<'_>, ExchangeError> {
    DecodedHead::decode(bytes).map_err(ExchangeError::Malformed)
}
