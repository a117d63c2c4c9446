//! A generation: one front and the pools that were started with it. A reload starts a new
//! generation and drains the former one.

mod left_out;
mod retired;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_acme::message::ChallengeAnswer;
use howdah_config::Config;
use howdah_sys::credentials::Identity;
use howdah_sys::memory::SharedNumbers;
use howdah_sys::process::{Exit, Pid};
use howdah_sys::seqpacket::SeqPacket;

pub(super) use self::left_out::LATE_AFTER;
pub(super) use self::retired::DrainTime;
use super::environment::Environment;
use super::front_process::{FrontProcess, RunFront};
use super::front_protocol::{FrontStart, PoolChannel, ToFront, log_files};
use super::generation_plan::{GenerationPlan, PoolPlan};
use super::heart::HeartMonitor;
use super::listeners::BoundListener;
use super::pool::{PoolProcesses, SpareZygote};
use super::sockets::Sockets;
use super::warmup::ScriptList;
use super::worker_memory::{self, SiteMemory};
use crate::front::pulse::Pulse;
use crate::front::{lanes, processors};
use crate::log::{ErrorLog, LogTarget, SiteLogs};
use crate::observe::{FrontCounters, Ledger};
use crate::protocols;
use crate::status::ServerFacts;
use crate::tls::{TicketKeys, TlsStart};

/// Time in which PHP with all its extensions, and the front, must be ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which the processes of a killed generation must end. Afterwards they are reported as
/// stuck.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which a generation that drains is looked at, whatever happens.
const LOOK: Duration = Duration::from_secs(1);

/// A front and its pools.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// `None` if the generation was taken over from another program.
    pub(super) config: Option<Arc<Config>>,
    /// The error log and the access logs that the front writes to. `None` if the generation was
    /// taken over.
    pub(super) logs: Option<(Arc<ErrorLog>, SiteLogs<LogTarget>)>,
    pub(super) front: Option<FrontProcess>,
    pub(super) pools: Vec<PoolProcesses>,
    /// The zygotes' channels for the front, which is not forked yet.
    pub(super) channels: Vec<PoolChannel>,
    pub(super) phase: GenerationPhase,
    /// The counters of the front, from its start on.
    pub(super) counters: Option<Arc<FrontCounters>>,
    /// The memory of each site's workers as the front measures it, by
    /// [`MemoryRecord`](howdah_php::MemoryRecord).
    pub(super) worker_memory: Option<Arc<SharedNumbers>>,
    /// The zygotes that stand by stay while the generation drains: the next generation is on
    /// probation.
    pub(super) keeps_standbys: bool,
    /// Number of pools of the plan.
    pub(super) planned: usize,
    /// Pools without which the generation does not start. Others are left out if they do not start
    /// and another one does: a site's owner can break what his pool needs.
    pub(super) required: HashSet<String>,
    /// By pool, the time that it has for its start after another one has started. A pool that is
    /// not among them has [`START_TIMEOUT`].
    pub(super) patience: HashMap<String, Duration>,
    /// Time at which the pools that have not started are waited for no longer; `None` while no pool
    /// has started, and where one has [`START_TIMEOUT`].
    pub(super) late_at: Option<Instant>,
    /// The sites whose changes of a link have ended the generation.
    pub(super) retired_by: Vec<String>,
}

/// The phase of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GenerationPhase {
    /// Not every process is ready.
    Starting { until: Instant },
    /// The front answers requests.
    Serving,
    /// The front finishes its requests and accepts no new connections.
    Draining {
        /// `None`: for as long as its requests take, as no operator has asked for its end.
        until: Option<Instant>,
    },
    /// The processes were killed.
    Ending { until: Instant },
}

/// A process of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GenerationProcess {
    Front,
    /// The zygote of the pool at this index.
    Zygote(usize),
    /// The zygote that stands by in the pool at this index.
    Standby(usize),
}

impl Generation {
    /// Starts the pools, with the zygotes in `spares` where there is one for the site, or with the
    /// list of scripts in `lists`. If one pool cannot be started, the others are ended, unless the
    /// pool is not one of `required`.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(super) fn start(
        number: u64,
        generation_plan: &GenerationPlan,
        (log, access): (Arc<ErrorLog>, SiteLogs<LogTarget>),
        environment: &Environment,
        (mut spares, mut lists): (HashMap<String, SpareZygote>, HashMap<String, ScriptList>),
        (required, patience): (HashSet<String>, HashMap<String, Duration>),
    ) -> (Generation, Result<(), String>) {
        let mut generation = Generation {
            number,
            config: Some(generation_plan.config.clone()),
            logs: Some((log.clone(), access)),
            front: None,
            pools: Vec::new(),
            channels: Vec::with_capacity(generation_plan.pools.len()),
            phase: GenerationPhase::Starting { until: Instant::now() + START_TIMEOUT },
            counters: None,
            worker_memory: None,
            keeps_standbys: false,
            planned: generation_plan.pools.len(),
            required,
            patience,
            late_at: None,
            retired_by: Vec::new(),
        };
        // Pools do not see each other's state folders, which have to be there for that. Errors
        // are reported when the pool starts.
        for plan in generation_plan.pools.iter().filter(|plan| plan.silence.is_none()) {
            let _ = plan.prepare_state(environment);
        }
        for plan in &generation_plan.pools {
            let name = &plan.settings.pool;
            let from_former = (spares.remove(name), lists.remove(name));
            let front = generation_plan.front.as_ref();
            let started = generation.start_pool((plan, front), from_former, environment, &log);
            if let Err(error) = started {
                generation.kill();
                return (generation, Err(format!("site {name}: {error}")));
            }
        }
        (generation, Ok(()))
    }

    /// Starts the next pool.
    ///
    /// # Errors
    /// The pool does not start and is not left out.
    fn start_pool(
        &mut self,
        (plan, front): (&PoolPlan, Option<&Identity>),
        (spare, list): (Option<SpareZygote>, Option<ScriptList>),
        environment: &Environment,
        log: &ErrorLog,
    ) -> Result<(), String> {
        let (mut pool, zygote) = match spare {
            Some(spare) => PoolProcesses::start_with(spare, self.number, plan, environment, log),
            None => PoolProcesses::start(self.number, plan, environment, log, list)?,
        };
        let user = plan.identity.as_ref().filter(|user| Some(*user) != front);
        let position = self.pools.len();
        pool.position = position;
        let (zygote, failure) = match zygote {
            Ok(zygote) => (Some(zygote), None),
            Err(error) => (None, Some(error)),
        };
        self.channels.push(PoolChannel {
            site: plan.site,
            name: pool.name.clone(),
            zygote,
            grace: Duration::ZERO,
            user: user.cloned().map(Arc::new),
        });
        self.pools.push(pool);
        match failure {
            Some(_) if plan.silence.is_some() => {
                self.hold(position, plan.silence.clone());
                Ok(())
            }
            Some(error) if !self.leave_out(position, &error, &environment.identity) => Err(error),
            _ => Ok(()),
        }
    }

    /// Forks the front. Call it after PHP has started in all pools: the front accepts connections
    /// at once, and clients should not wait for PHP, nor be lost if PHP does not start.
    ///
    /// # Errors
    /// The front cannot be forked.
    pub(super) fn start_front(
        &mut self,
        (generation_plan, ticket_keys): (&GenerationPlan, &TicketKeys),
        sockets: &Sockets,
        (ledger, supervisor_began): (&mut Ledger, SystemTime),
        (answers, measured): (Vec<(u64, ChallengeAnswer)>, Vec<SiteMemory>),
        run: RunFront,
    ) -> io::Result<()> {
        let (Some(config), Some((log, access))) = (&self.config, &self.logs) else {
            return Err(io::Error::other("the generation was taken over from another program"));
        };
        let (channel, theirs) = SeqPacket::pair()?;
        let copies = |listeners: &[BoundListener]| {
            listeners.iter().map(BoundListener::for_front).collect::<io::Result<Vec<_>>>()
        };
        let threads = config.threads.resolve(processors());
        let names = config.sites.iter().map(|site| {
            let lanes = site.php.iter().flat_map(lanes::names);
            (site.name.clone(), lanes.collect())
        });
        let limits = protocols::counted_limits();
        let counters = Arc::new(FrontCounters::new(threads, names.collect(), limits)?);
        ledger.add(Arc::clone(&counters));
        self.counters = Some(Arc::clone(&counters));
        let worker_memory = worker_memory::numbers(config.sites.len(), measured)?;
        self.worker_memory = Some(Arc::clone(&worker_memory));
        let start = FrontStart {
            config: config.clone(),
            site_folders: generation_plan.site_folders.clone(),
            listeners: copies(&sockets.listeners)?,
            admin: copies(&sockets.admin)?,
            channel: theirs,
            pools: std::mem::take(&mut self.channels),
            answers,
            log: log.clone(),
            access: access.clone(),
            pulse: Arc::new(Pulse::new(threads)?),
            counters,
            worker_memory,
            facts: ServerFacts {
                supervisor: std::process::id(),
                began: supervisor_began,
                generation: self.number,
                ledger: ledger.clone(),
                missing_listeners: sockets.missing.clone(),
                missing_admin: sockets.missing_admin.clone(),
                without_http3: sockets.without_http3.clone(),
            },
            tls: TlsStart {
                pairs: generation_plan.certificates.as_ref().clone(),
                closed: generation_plan.closed.clone(),
                client_authorities: generation_plan.client_authorities.clone(),
                ticket_keys: ticket_keys.clone(),
                upstreams: generation_plan.upstream_tls.clone(),
            },
            quic: sockets.datagrams.for_front(self.number)?,
        };
        self.front = Some(FrontProcess::fork(start, channel, generation_plan.front.clone(), run)?);
        Ok(())
    }

    /// Returns whether PHP has started in every pool.
    pub(super) fn has_php(&self) -> bool {
        self.pools.iter().all(PoolProcesses::is_settled)
    }

    /// Returns whether every process is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.has_php() && self.front.as_ref().is_some_and(|front| front.ready.is_some())
    }

    /// Describes the first process that is not ready.
    pub(super) fn missing(&self) -> String {
        match self.pools.iter().find(|pool| !pool.is_settled()) {
            Some(pool) => format!("PHP for site {}", pool.name),
            None => "the front".to_owned(),
        }
    }

    /// Drains the generation: the front accepts no more connections, and ends when all requests
    /// have finished or the time is over.
    pub(super) fn drain(&mut self, keep_idle: bool, time: DrainTime) {
        let until = self.drain_until(time);
        self.phase = GenerationPhase::Draining { until };
        if until.is_none() {
            self.keep_tunnels(true);
        }
        let told = self.front.as_ref().map(|front| front.tell(&ToFront::Drain { keep_idle }, &[]));
        if !matches!(told, Some(Ok(()))) {
            // Without a front, the supervisor must stop the zygotes.
            self.stop_pools();
        }
        for pool in &mut self.pools {
            pool.due = None;
            if !self.keeps_standbys {
                pool.end_standby();
            }
        }
    }

    /// Ends the zygotes that stand by although the generation drains.
    pub(super) fn end_kept_standbys(&mut self) {
        if std::mem::take(&mut self.keeps_standbys) {
            self.pools.iter_mut().for_each(PoolProcesses::end_standby);
        }
    }

    /// Returns whether only zygotes that stand by for a return to this generation are left.
    pub(super) fn is_kept(&self) -> bool {
        self.keeps_standbys
            && self.front.is_none()
            && self.pools.iter().all(|pool| pool.zygote.is_none())
    }

    /// Ends idle connections as well, as [`Generation::drain`] with `keep_idle` false. The deadline
    /// remains.
    pub(super) fn drain_further(&mut self) {
        if let Some(front) = &self.front {
            // After a failure the idle connections end at the deadline.
            let _ = front.tell(&ToFront::Drain { keep_idle: false }, &[]);
        }
    }

    /// Lets the front read the packets of HTTP/3. Call it when no other front does.
    pub(super) fn read_packets(&self) {
        if let Some(front) = &self.front {
            // A front that is gone is replaced.
            let _ = front.tell(&ToFront::ReadPackets, &[]);
        }
    }

    /// Tells the workers to finish. Call it when the front sends no more requests.
    pub(super) fn stop_pools(&mut self) {
        let keeps_standbys = self.keeps_standbys;
        self.pools.iter_mut().for_each(|pool| pool.stop(keeps_standbys));
    }

    /// Takes the zygotes that stand by, by site.
    pub(super) fn take_spares(&mut self) -> HashMap<String, SpareZygote> {
        let pools = self.pools.iter_mut();
        pools.filter_map(|pool| Some((pool.name.clone(), pool.take_spare()?))).collect()
    }

    /// Lets a second zygote stand by in each pool, and the supervisor keep lists of its scripts.
    /// Call it when the generation serves.
    pub(super) fn prepare_for_deaths(&mut self) {
        let now = Instant::now();
        for pool in &mut self.pools {
            pool.want_standby(now);
            pool.want_lists(now);
        }
    }

    /// Kills all processes.
    pub(super) fn kill(&mut self) {
        self.phase = GenerationPhase::Ending { until: Instant::now() + KILL_TIMEOUT };
        // The front is killed first; otherwise it would report the deaths of the workers.
        if let Some(front) = &self.front {
            front.kill();
        }
        self.pools.iter_mut().for_each(PoolProcesses::kill);
    }

    /// Returns whether all processes have ended. Then the rest of the pools' logs is written.
    pub(super) fn forget_if_gone(&mut self, log: &ErrorLog) -> bool {
        let gone =
            self.front.is_none() && self.pools.iter().all(|pool| pool.pids().next().is_none());
        // A twin has no number before its report.
        let awaits_twin = matches!(self.phase, GenerationPhase::Starting { .. })
            && self.pools.iter().any(|pool| pool.awaited_twin().is_some());
        if gone && !awaits_twin && self.phase != GenerationPhase::Serving {
            self.pools.iter_mut().for_each(|pool| pool.flush_lines(log));
            return true;
        }
        false
    }

    /// Stops waiting for processes that cannot be killed.
    pub(super) fn give_up(&mut self) {
        self.front = None;
        for pool in &mut self.pools {
            pool.zygote = None;
            pool.standby.give_up();
        }
    }

    /// Reopens the log files, and sends them to the front, which may not be allowed to open them.
    ///
    /// # Errors
    /// A file cannot be reopened, or the front does not take them. The other files were reopened.
    pub(super) fn reopen_logs(&self) -> io::Result<()> {
        let Some((log, access)) = &self.logs else {
            return Ok(());
        };
        let mut files = Vec::new();
        let mut result = Ok(());
        for target in log_files(log, access.all()) {
            // A file that stays as it was keeps its place in the list.
            result = result.and(target.reopen());
            files.push(target.as_fd().try_clone_to_owned()?);
        }
        let Some(front) = &self.front else {
            return result;
        };
        for (number, files) in files.chunks(FILES_AT_A_TIME).enumerate() {
            let first = number * FILES_AT_A_TIME;
            result = result.and(front.tell(&ToFront::ReopenLogs { first }, files));
        }
        result
    }

    /// Returns the part of the generation that the process is. `None`: the process belongs to
    /// another generation, or is none of these.
    pub(super) fn part(&self, pid: Pid) -> Option<GenerationProcess> {
        if self.front.as_ref().is_some_and(|front| front.pid == pid) {
            return Some(GenerationProcess::Front);
        }
        let is_it =
            |pool: &PoolProcesses| pool.zygote.as_ref().is_some_and(|zygote| zygote.pid == pid);
        let stands_by = |pool: &PoolProcesses| pool.standby.pid() == Some(pid);
        let zygote = self.pools.iter().position(is_it).map(GenerationProcess::Zygote);
        zygote.or_else(|| self.pools.iter().position(stands_by).map(GenerationProcess::Standby))
    }

    /// The next time at which the generation needs attention without an event. `None`: only events
    /// need it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let until = match self.phase {
            GenerationPhase::Starting { until } | GenerationPhase::Ending { until } => Some(until),
            GenerationPhase::Draining { until } => until,
            GenerationPhase::Serving => None,
        };
        let until = until.filter(|_| !self.is_kept());
        let heart = self.front.as_ref().and_then(|front| front.heart.as_ref());
        let serves = self.phase == GenerationPhase::Serving;
        let heart = heart.filter(|_| serves).map(HeartMonitor::due);
        let zygotes = self.pools.iter().filter_map(|pool| pool.due);
        let wait = self.standbys_wait_until(Instant::now()).filter(|_| serves);
        let standbys = self.pools.iter().filter(|_| serves && wait.is_none());
        let standbys = standbys.filter_map(PoolProcesses::standby_due).chain(wait);
        let twins = self.pools.iter().filter(|_| serves);
        let twins = twins.filter_map(|pool| pool.standby.twin_deadline());
        let lists = self.pools.iter().filter(|_| serves).filter_map(PoolProcesses::list_due);
        let stopped = self.pools.iter().filter_map(PoolProcesses::continue_due);
        // A stopped zygote would not end.
        let is_draining = matches!(self.phase, GenerationPhase::Draining { .. });
        let look = (is_draining && !self.is_kept()).then(|| Instant::now() + LOOK);
        zygotes
            .chain(standbys)
            .chain(twins)
            .chain(lists)
            .chain(stopped)
            .chain(until)
            .chain(heart)
            .chain(look)
            .chain(self.late_at.filter(|_| matches!(self.phase, GenerationPhase::Starting { .. })))
            .min()
    }

    /// The time until which no zygote is started to stand by: they are started one after the other.
    /// `None` if one may be started now.
    pub(super) fn standbys_wait_until(&self, now: Instant) -> Option<Instant> {
        let starting = self.pools.iter().filter_map(|pool| pool.standby.alone_until());
        starting.filter(|until| *until > now).max()
    }

    /// Lists the remaining processes for a message.
    pub(super) fn remains(&self) -> String {
        let front = self.front.iter().map(|front| format!("front {}", front.pid));
        let zygotes = self.pools.iter().filter_map(|pool| {
            let zygote = pool.zygote.as_ref()?;
            Some(format!("zygote {} of {}", zygote.pid, pool.name))
        });
        front.chain(zygotes).collect::<Vec<_>>().join(", ")
    }
}

/// Log files that are sent with one message; fewer than the kernel allows.
const FILES_AT_A_TIME: usize = 200;

/// Returns whether the exit is the one that was asked for.
pub(super) fn is_orderly(exit: Exit) -> bool {
    exit == Exit::Status(0)
}
