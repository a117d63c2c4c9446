//! The pump's steps for content that passes filters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use howdah_htaccess::modules::filter::Filter;
use tokio::time::{Sleep, sleep};

use super::{Pump, PumpError, PumpStep, Sink, flush, of_file};
use crate::body::filtering::{FilterPlace, Filtering, TURN, rest};
use crate::body::source::BodySource;
use crate::net::FilterMemory;

/// Content that passes filters.
pub(super) struct Filtered<'t> {
    pub(super) filters: Filtering<'t>,
    /// The filters hold nothing back.
    is_shown: bool,
    /// Runs while the source is silent.
    silence: Option<Pin<Box<Sleep>>>,
}

impl<'t> Filtered<'t> {
    pub(super) fn new(
        filters: &'t [Filter],
        place: FilterPlace<'t>,
        memory: Arc<FilterMemory>,
    ) -> Filtered<'t> {
        Filtered {
            filters: Filtering::new(filters, place, memory),
            is_shown: true,
            silence: None,
        }
    }
}

impl<'b> Pump<'b> {
    /// One step of content that passes filters. Their output goes through the spool.
    ///
    /// # Errors
    /// The content cannot be read, a filter fails, or the client is gone.
    pub(super) fn step_filtered(
        &mut self,
        filtering: &mut Filtered<'_>,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        if filtering.filters.poll_worked(context)?.is_pending() {
            return flush(sink, context);
        }
        if filtering.filters.is_finished() {
            filtering.filters.release();
            self.end()?;
            return Ok(self.spool_output(filtering));
        }
        if !filtering.filters.output.is_empty() {
            return Ok(self.spool_output(filtering));
        }
        if filtering.filters.has_work() {
            return self.step_rest(filtering, sink, is_clear, context);
        }
        let Some(available) = self.available(context)? else {
            return self.step_silence(filtering, sink, is_clear, context);
        };
        if available.bytes == 0 {
            if !available.is_last {
                rest(context);
                return Ok(PumpStep::Wait);
            }
            filtering.filters.finish()?;
            return Ok(PumpStep::Again);
        }
        let may_take = is_clear || (available.is_urgent && self.has_room(context)?);
        if !may_take {
            filtering.filters.leave_turn();
            return Ok(PumpStep::Wait);
        }
        let Poll::Ready(in_memory) = self.residence.poll(self.body.piece(), context) else {
            filtering.filters.leave_turn();
            return flush(sink, context);
        };
        if filtering.filters.poll_turn(context)?.is_pending() {
            return flush(sink, context);
        }
        let room = filtering.filters.room(available.bytes.min(TURN));
        let count = self.body.piece().first(in_memory).read(room).map_err(of_file)?;
        self.take(count);
        filtering.filters.push(count)?;
        filtering.is_shown = false;
        filtering.silence = None;
        Ok(self.spool_output(filtering))
    }

    /// One step while the source has nothing. Where it pauses, the client gets the output so far.
    fn step_silence(
        &mut self,
        filtering: &mut Filtered<'_>,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        if !is_clear || filtering.is_shown {
            return flush(sink, context);
        }
        let pause = self.body.pause();
        let silence = filtering.silence.get_or_insert_with(|| Box::pin(sleep(pause)));
        if !pause.is_zero() && silence.as_mut().poll(context).is_pending() {
            return flush(sink, context);
        }
        filtering.silence = None;
        filtering.is_shown = true;
        filtering.filters.flush()?;
        Ok(self.spool_output(filtering))
    }

    /// One step of filters that have content already, and stopped for their output to be taken.
    fn step_rest(
        &mut self,
        filtering: &mut Filtered<'_>,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> Result<PumpStep, PumpError> {
        if !is_clear && (self.body.is_stored() || !self.has_room(context)?) {
            filtering.filters.leave_turn();
            return Ok(PumpStep::Wait);
        }
        if filtering.filters.poll_turn(context)?.is_pending() {
            return flush(sink, context);
        }
        filtering.filters.work()?;
        Ok(self.spool_output(filtering))
    }

    /// One step of filters that give out what they hold, because their content has broken off, as
    /// far as they can.
    pub(super) fn step_broken(
        &mut self,
        mut filtering: Box<Filtered<'b>>,
        sink: &mut impl Sink,
        is_clear: bool,
        context: &mut Context<'_>,
    ) -> PumpStep {
        let filters = &mut filtering.filters;
        let step = match filters.poll_worked(context) {
            Poll::Pending => flush(sink, context),
            Poll::Ready(Ok(())) if filters.has_work() && filters.output.is_empty() => {
                self.step_rest(&mut filtering, sink, is_clear, context)
            }
            Poll::Ready(worked) => worked.map(|()| self.spool_output(&mut filtering)),
        };
        match step {
            Ok(step) if filtering.filters.is_at_work() => {
                self.filtering = Some(filtering);
                step
            }
            _ => {
                self.end_broken();
                PumpStep::Again
            }
        }
    }

    pub(super) fn spool_output(&mut self, filtering: &mut Filtered<'_>) -> PumpStep {
        self.spool.push(&filtering.filters.output);
        filtering.filters.output.clear();
        PumpStep::Again
    }
}
