//! The workers of a zygote: forks them, records their ends, and dismisses them.

use std::ffi::CStr;
use std::io::{self, PipeWriter};
use std::time::{Duration, Instant};

use howdah_ipc::control::FromZygote;
use howdah_sys::process::set_name;
use howdah_sys::signal::{SIGKILL, SIGTERM};

use super::output;
use super::{RegionState, RunningZygote};
use crate::log::{self, Level};
use crate::process::{self, EndedChild, Fork, RawPid};
use crate::worker::{self, WorkerOrders};

/// The name of workers.
const WORKER: &CStr = c"howdah-php";
/// Workers that may be replaced at once per second after unexpected deaths. Further ones wait: a
/// pool whose workers crash must not use up the machine.
const MOST_REPLACED_PER_SECOND: usize = 100;
/// Children that are reaped before the zygote turns to its messages. Further ones are reaped after
/// the next event.
const MOST_REAPED: usize = 1000;
/// Delay before the next fork after the system had no resources for another process.
const FORK_AGAIN: Duration = Duration::from_secs(1);

/// Result of forking the missing workers.
pub(super) enum Staffing {
    /// All workers are running.
    All,
    /// Some workers can be forked only after this time.
    Later(Duration),
    /// This process is the child that becomes worker `index`. `output` is for its standard output
    /// and its standard error; `None` where there is only the pool's log.
    Child {
        index: usize,
        parent: RawPid,
        output: Option<[PipeWriter; log::STREAMS]>,
    },
}

impl RunningZygote {
    /// Forks the missing workers.
    ///
    /// # Errors
    /// The error of `fork(2)`, or of a system call that prepares a worker.
    pub(super) fn staff(&mut self) -> io::Result<Staffing> {
        let now = Instant::now();
        if let Some(deadline) = self.deadline {
            if now >= deadline {
                self.workers
                    .iter()
                    .flatten()
                    .for_each(|&(child, _)| process::kill(child, SIGKILL));
            }
            return Ok(Staffing::Later(
                deadline.saturating_duration_since(now).max(Duration::from_millis(100)),
            ));
        }
        while self.replaced.front().is_some_and(|&then| now - then >= Duration::from_secs(1)) {
            self.replaced.pop_front();
        }
        if self.replaced.len() > MOST_REPLACED_PER_SECOND {
            let oldest = self.replaced[0];
            return Ok(Staffing::Later(oldest + Duration::from_secs(1) - now));
        }
        if let Some(wait) = self.backoff.wait(now) {
            return Ok(Staffing::Later(wait));
        }
        let parent = process::id();
        for index in 0..self.workers.len() {
            if self.ending || !self.wanted.has(index) || self.workers[index].is_some() {
                continue;
            }
            match self.fork_worker(index, parent, now)? {
                Staffing::All => {}
                other => return Ok(other),
            }
        }
        Ok(Staffing::All)
    }

    /// Forks one worker. Returns [`Staffing::All`] in the parent.
    fn fork_worker(&mut self, index: usize, parent: RawPid, now: Instant) -> io::Result<Staffing> {
        if let RegionState::Attached(attachment) = &self.region {
            attachment.prepare(index);
        }
        let pipes = output::pipes().inspect_err(|error| {
            let what = format!(
                "what a worker writes to its standard error will come without the worker's \
                 number: {error}; check `rlimits.nofile`"
            );
            log::write(Level::Warning, what.as_bytes(), None);
        });
        match process::fork() {
            Err(error) => {
                let what = format!("cannot fork a worker: {error}");
                log::write(Level::Error, what.as_bytes(), None);
                Ok(Staffing::Later(FORK_AGAIN))
            }
            Ok(Fork::Child) => {
                let output = pipes.ok().map(|(_, writers)| writers);
                Ok(Staffing::Child { index, parent, output })
            }
            Ok(Fork::Parent(child)) => {
                for (stream, reader) in
                    pipes.into_iter().flat_map(|(readers, _)| readers).enumerate()
                {
                    self.outputs.add(child, log::line_place(index, stream), reader);
                }
                self.workers[index] = Some((child, now));
                self.tell(&FromZygote::Started { worker: index as u64, pid: number(child) })?;
                Ok(Staffing::All)
            }
        }
    }

    /// Turns the child into a worker: keeps the descriptors and memory that a worker needs, and
    /// drops everything that a script could use against the pool.
    pub(super) fn become_worker(
        self,
        index: usize,
        parent: RawPid,
        output: Option<[PipeWriter; log::STREAMS]>,
    ) -> ! {
        let RunningZygote {
            engine,
            front,
            signals,
            outputs,
            pool,
            max_requests,
            max_memory,
            has_pcntl,
            arguments,
            modules,
            slashes,
            slow_log,
            separates_workers,
            processor_seconds,
            root,
            working_directory,
            sessions,
            uploads,
            region,
            ..
        } = self;
        set_name(WORKER);
        if let Some(arguments) = arguments {
            arguments.replace(b"zygote", b"worker");
        }
        drop(front);
        drop(signals);
        let unfinished = outputs.into_unfinished();
        // Without it, standard output leads to the pool's log, as in the zygote.
        let _ = output.as_ref().map(log::divert_standard_streams);
        let unfinished = unfinished.filter(|_| output.is_some());
        drop(output);
        let RegionState::Attached(attachment) = region else {
            process::exit_now(1)
        };
        worker::main(
            engine,
            attachment,
            WorkerOrders {
                index,
                pool: &pool,
                max_requests,
                max_memory,
                separates_workers,
                processor_seconds,
                root: root.as_ref(),
                working_directory: working_directory.as_deref(),
                sessions: sessions.as_deref(),
                uploads: uploads.as_ref(),
                has_pcntl,
                modules: &modules,
                slashes,
                slow_log,
                unfinished: unfinished.as_ref(),
                parent,
            },
        )
    }

    /// Records the children that have ended.
    ///
    /// # Errors
    /// The front or the supervisor cannot be told.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        // Orphans of scripts end here as well, perhaps faster than they can be reaped.
        for _ in 0..MOST_REAPED {
            let Some(ended) = process::reap() else {
                return Ok(());
            };
            let EndedChild { pid: child, status, processor } = ended;
            let is_it =
                |worker: &Option<(RawPid, Instant)>| worker.is_some_and(|(pid, _)| pid == child);
            let Some(index) = self.workers.iter().position(is_it) else {
                continue;
            };
            let started = self.workers[index].take().map(|(_, started)| started);
            self.outputs.worker_ended(child);
            if let RegionState::Attached(attachment) = &self.region {
                attachment.record_death(index);
            }
            // The workers of a pool that ends may be killed; nobody replaces them.
            if !process::is_success(status) && !self.ending {
                self.back_off(index, started);
                let now = Instant::now();
                if let Some(message) = self.deaths.died(now, status) {
                    log::write(Level::Error, message.as_bytes(), None);
                }
                self.replaced.push_back(now);
                if self.replaced.len() == MOST_REPLACED_PER_SECOND {
                    let message = b"workers die faster than they are replaced; \
                                    see the messages above for the reason";
                    log::write(Level::Error, message, None);
                }
            }
            self.tell(&FromZygote::Died {
                worker: index as u64,
                pid: number(child),
                status: u64::from(status.unsigned_abs()),
                processor: u64::try_from(processor.as_nanos()).unwrap_or(u64::MAX),
            })?;
        }
        Ok(())
    }

    /// Delays further forks where workers die before their first request.
    fn back_off(&mut self, index: usize, started: Option<Instant>) {
        let (RegionState::Attached(attachment), Some(started)) = (&self.region, started) else {
            return;
        };
        let now = Instant::now();
        let has_worked = attachment.has_worked(index);
        if let Some(wait) = self.backoff.died(now, now - started, has_worked) {
            let message = format!(
                "workers die before their first request; the next start is in {} ms; see the \
                 messages above for the reason",
                wait.as_millis()
            );
            log::write(Level::Error, message.as_bytes(), None);
        }
    }

    /// Tells a worker to finish its request and end.
    pub(super) fn dismiss(&self, index: usize) {
        if let (Some((child, _)), RegionState::Attached(attachment)) =
            (self.workers[index], &self.region)
        {
            process::kill(child, SIGTERM);
            attachment.wake(index);
        }
    }
}

/// The number of a process in messages.
pub(super) fn number(pid: RawPid) -> u64 {
    u64::try_from(pid).unwrap_or(0)
}
