//! A generation: one front and the pools that it was started with. A reload starts another, and
//! lets the former end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::Config;
use howdah_sys::process::{Exit, Pid};
use howdah_sys::seqpacket::SeqPacket;

use super::environment::Environment;
use super::front_process::{FrontProcess, RunFront};
use super::front_protocol::{FrontStart, PoolChannel, ToFront};
use super::generation_plan::GenerationPlan;
use super::listeners::Listener;
use super::pool::Pool;
use crate::log::{ErrorLog, Target};

/// PHP with all its extensions, and the front, have to be up within this time.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// What is left of a generation that was ended by force has this long to disappear before it is
/// said to be stuck.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A front and its pools.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Missing if it was taken over from another program.
    pub(super) config: Option<Arc<Config>>,
    /// The error log and the access log that its front writes to; missing likewise.
    pub(super) logs: Option<(Arc<ErrorLog>, Option<Target>)>,
    pub(super) front: Option<FrontProcess>,
    pub(super) pools: Vec<Pool>,
    /// For the front that is not forked yet.
    pub(super) links: Vec<PoolChannel>,
    pub(super) phase: Phase,
}

/// How far a generation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not every process is ready.
    Starting { until: Instant },
    /// It answers requests.
    Serving,
    /// It finishes what it has begun.
    Draining { until: Instant },
    /// It was killed.
    Ending { until: Instant },
}

/// What a dead process was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Front,
    /// The zygote of the pool at this position.
    Zygote(usize),
}

impl Generation {
    /// Starts the pools. If one cannot be started, those that were are ended again.
    pub(super) fn start(
        number: u64,
        generation_plan: &GenerationPlan,
        logs: (Arc<ErrorLog>, Option<Target>),
        environment: &Environment,
    ) -> (Generation, Result<(), String>) {
        let mut generation = Generation {
            number,
            config: Some(generation_plan.config.clone()),
            logs: Some(logs),
            front: None,
            pools: Vec::new(),
            links: Vec::with_capacity(generation_plan.pools.len()),
            phase: Phase::Starting { until: Instant::now() + START_TIMEOUT },
        };
        for plan in &generation_plan.pools {
            match Pool::start(plan, environment) {
                Ok((pool, zygote)) => {
                    generation.links.push(PoolChannel {
                        site: plan.site,
                        name: pool.name.clone(),
                        zygote,
                    });
                    generation.pools.push(pool);
                }
                Err(error) => {
                    generation.kill();
                    return (generation, Err(error));
                }
            }
        }
        (generation, Ok(()))
    }

    /// Forks the front, once PHP has started. Not before: it accepts connections from its first
    /// moment on, and whoever connects should neither wait for PHP nor be lost if PHP does not
    /// start.
    pub(super) fn start_front(
        &mut self,
        generation_plan: &GenerationPlan,
        listeners: &[Listener],
        run: RunFront,
    ) -> io::Result<()> {
        let (Some(config), Some((log, access))) = (&self.config, &self.logs) else {
            return Err(io::Error::other("it was taken over from another program"));
        };
        let (channel, theirs) = SeqPacket::pair()?;
        let copies = listeners
            .iter()
            .map(|listener| Ok((listener.socket.try_clone()?, listener.actual)));
        let start = FrontStart {
            config: config.clone(),
            listeners: copies.collect::<io::Result<_>>()?,
            channel: theirs,
            pools: std::mem::take(&mut self.links),
            log: log.clone(),
            access: access.clone(),
        };
        self.front = Some(FrontProcess::fork(start, channel, generation_plan.front.clone(), run)?);
        Ok(())
    }

    /// Whether PHP has started in every pool.
    pub(super) fn has_php(&self) -> bool {
        self.pools
            .iter()
            .all(|pool| pool.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some()))
    }

    /// Whether every process has said that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.has_php() && self.front.as_ref().is_some_and(|front| front.ready.is_some())
    }

    /// What is not ready yet.
    pub(super) fn missing(&self) -> String {
        let starting =
            |pool: &&Pool| pool.zygote.as_ref().is_none_or(|zygote| zygote.ready.is_none());
        match self.pools.iter().find(starting) {
            Some(pool) => format!("PHP for site {}", pool.name),
            None => "the front".to_owned(),
        }
    }

    /// Accepts nothing more, and ends when all is done, or when its time is over.
    pub(super) fn drain(&mut self, keep_idle: bool, fallback: Duration) {
        let timeout = self.config.as_ref().map_or(fallback, |config| config.limits.drain_timeout);
        self.phase = Phase::Draining { until: Instant::now() + timeout };
        let told = self.front.as_ref().map(|front| front.tell(&ToFront::Drain { keep_idle }, &[]));
        if !matches!(told, Some(Ok(()))) {
            // Nobody is there to stop the zygotes when their time has come.
            self.stop_pools();
        }
        self.pools.iter_mut().for_each(|pool| pool.due = None);
    }

    /// As [`Generation::drain`] with `keep_idle` false, within the time that is left.
    pub(super) fn drain_further(&mut self) {
        if let Some(front) = &self.front {
            // Otherwise the idle connections end with the time that is left.
            let _ = front.tell(&ToFront::Drain { keep_idle: false }, &[]);
        }
    }

    /// Lets the workers finish, once no front has work for them.
    pub(super) fn stop_pools(&mut self) {
        self.pools.iter_mut().for_each(Pool::stop);
    }

    /// Ends all of it at once.
    pub(super) fn kill(&mut self) {
        self.phase = Phase::Ending { until: Instant::now() + KILL_TIMEOUT };
        // The front first: it has nothing to say any more about workers that die.
        if let Some(front) = &self.front {
            front.kill();
        }
        self.pools.iter_mut().for_each(Pool::kill);
    }

    /// Whether none of its processes is left. Then its pools have said their last.
    pub(super) fn forget_if_gone(&mut self, log: &ErrorLog) -> bool {
        let gone = self.front.is_none() && self.pools.iter().all(|pool| pool.zygote.is_none());
        if gone && self.phase != Phase::Serving {
            self.pools.iter_mut().for_each(|pool| pool.flush_lines(log));
            return true;
        }
        false
    }

    /// Leaves to the kernel what cannot be killed.
    pub(super) fn give_up(&mut self) {
        self.front = None;
        self.pools.iter_mut().for_each(|pool| pool.zygote = None);
    }

    /// Goes on with new log files, of which the front could not open its own.
    pub(super) fn reopen_logs(&self) -> io::Result<()> {
        let Some((log, access)) = &self.logs else {
            return Ok(());
        };
        let mut files = Vec::new();
        for target in [Some(log.target()), access.as_ref()].into_iter().flatten() {
            target.reopen()?;
            if target.path().is_some() {
                files.push(target.as_fd().try_clone_to_owned()?);
            }
        }
        self.front
            .as_ref()
            .map_or(Ok(()), |front| front.tell(&ToFront::ReopenLogs, &files))
    }

    /// Which of its parts a process is.
    pub(super) fn part(&self, pid: Pid) -> Option<Part> {
        if self.front.as_ref().is_some_and(|front| front.pid == pid) {
            return Some(Part::Front);
        }
        let is_it = |pool: &Pool| pool.zygote.as_ref().is_some_and(|zygote| zygote.pid == pid);
        self.pools.iter().position(is_it).map(Part::Zygote)
    }

    /// When something is to be done though nobody says anything.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let until = match self.phase {
            Phase::Starting { until } | Phase::Draining { until } | Phase::Ending { until } => {
                Some(until)
            }
            Phase::Serving => None,
        };
        self.pools.iter().filter_map(|pool| pool.due).chain(until).min()
    }

    /// The processes that are left, for a message.
    pub(super) fn remains(&self) -> String {
        let front = self.front.iter().map(|front| format!("front {}", front.pid));
        let zygotes = self.pools.iter().filter_map(|pool| {
            let zygote = pool.zygote.as_ref()?;
            Some(format!("zygote {} of {}", zygote.pid, pool.name))
        });
        front.chain(zygotes).collect::<Vec<_>>().join(", ")
    }
}

/// Whether an end is what was asked for.
pub(super) fn is_orderly(exit: Exit) -> bool {
    exit == Exit::Status(0)
}
