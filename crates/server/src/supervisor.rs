//! The supervisor: binds the listeners; starts, watches, replaces and ends all other processes. It
//! has one thread, uses `poll(2)`, and handles no requests.
//!
//! ```text
//!       start, reload, take-over, or the front died
//!  (none) ──▶ Starting ──all ready──▶ Serving ──a newer one serves, or stop──▶ Draining ──the last process ended──▶ (none)
//!                │ failed                └──────────the front died───────────────▲  │ drain_timeout
//!                └──────────────────────▶ Ending ◀──────────────────────────────────┘
//! ```
//! At most one generation is Starting, at most one is Serving.

mod backoff;
mod certificates;
mod cgroups;
mod change;
mod child_channel;
mod children;
pub(crate) mod control;
mod datagrams;
mod deadlines;
pub(crate) mod environment;
mod front_process;
pub(crate) mod front_protocol;
mod generation;
pub(crate) mod generation_plan;
mod heart;
mod held_releases;
pub(crate) mod isolation;
mod kept_pools;
mod last_output;
mod listeners;
mod oom;
mod orders;
mod orphans;
mod php_programs;
pub(crate) mod plan;
mod pool;
pub(crate) mod pool_log;
mod pool_memory;
mod probation;
mod reach;
mod releases;
mod reload_answer;
mod report;
mod service_manager;
mod site_reasons;
pub(crate) mod sockets;
mod start_failures;
mod startup;
mod state;
pub(crate) mod survey;
mod takeover;
mod unix_socket;
mod unprivileged;
pub(crate) mod upgrade;
mod warmup;
mod worker_memory;
mod zygote_socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_sys::poll;
use howdah_sys::process::Pid;
use howdah_sys::signal::{
    ReceivedSignal, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, Signals,
};

use self::backoff::Backoff;
use self::certificates::CertificateFiles;
use self::cgroups::PoolGroup;
use self::change::{ChangePreparation, GenerationChange, WantedPlan};
use self::control::{ControlCommand, ControlSocket};
use self::environment::Environment;
use self::front_process::RunFront;
use self::generation::{DrainTime, Generation, GenerationPhase};
use self::generation_plan::{FormerFiles, GenerationPlan};
use self::held_releases::HeldRelease;
use self::orders::CertificateOrders;
use self::orphans::OrphanSearch;
use self::plan::ServePlan;
use self::pool::PoolProcesses;
use self::probation::{FormerAnswers, Probation};
use self::releases::Releases;
use self::reload_answer::ReloadAnswer;
use self::service_manager::ServiceManager;
use self::sockets::{MissingListeners, Sockets};
use self::survey::Survey;
use self::takeover::InheritedList;
use self::upgrade::ConfigCheck;
use self::worker_memory::PoolMeasurement;
use crate::log::{ErrorLog, Level, LogTarget, SiteLogs};
use crate::observe::{FrontCounters, Ledger};
use crate::tls::TicketKeys;

pub(crate) use self::orders::run_order_process;
pub(crate) use self::startup::{CommandError, serve};

const NO_ANSWER: &str = "the front does not answer; `howdah status` shows the processes";
/// The `drain_timeout` of a generation that another program started and whose configuration is
/// unknown.
const USUAL_DRAIN: Duration = Duration::from_secs(60);

/// The supervisor's state.
struct Supervisor {
    plan: ServePlan,
    environment: Environment,
    run_front: RunFront,
    began: Instant,
    began_at: SystemTime,
    /// The counters of all fronts since the start.
    ledger: Ledger,
    log: Arc<ErrorLog>,
    access: SiteLogs<LogTarget>,
    signals: Signals,
    /// The sockets of the generation that serves.
    sockets: Sockets,
    missing_listeners: MissingListeners,
    control: Option<ControlSocket>,
    manager: ServiceManager,
    pid_file: Option<PathBuf>,
    generations: Vec<Generation>,
    next_number: u64,
    /// The plan of the generation that serves.
    current: Option<GenerationPlan>,
    /// The change of generation that waits for answers about paths.
    preparation: Option<ChangePreparation>,
    /// The change of generation in progress.
    change: Option<GenerationChange>,
    /// The probation of the generation that serves.
    probation: Option<Probation>,
    /// The responses before a reload with a probation.
    former_answers: FormerAnswers,
    /// The plan that served before a probation that has failed.
    roll_back_to: Option<GenerationPlan>,
    /// The plan with which former releases are served.
    held_plan: Option<WantedPlan>,
    /// The releases with which PHP does not start, while a generation starts with the former ones.
    holding: Vec<HeldRelease>,
    /// The reason why the last reload was undone.
    rolled_back: Option<String>,
    /// The process that orders certificates.
    orders: CertificateOrders,
    /// A reload was requested while another change was in progress.
    reload_wanted: bool,
    /// The answer to a reload that has succeeded and whose former front still accepts connections.
    reload_answer: Option<ReloadAnswer>,
    upgrade_wanted: bool,
    /// Time at which a new generation is started because the front died.
    restart: Option<Instant>,
    backoff: Backoff,
    /// The run of the new program that checks the configuration.
    check: Option<ConfigCheck>,
    certificate_files: CertificateFiles,
    /// The document roots that deployments change.
    releases: Releases,
    /// The lists that the former program has asked its pools for.
    inherited_lists: Vec<InheritedList>,
    /// The measurements of workers' memory that the former program has made.
    inherited_measurements: Vec<PoolMeasurement>,
    /// The releases that the former program has not served.
    inherited_held: Vec<HeldRelease>,
    /// The files of the program that this one has replaced.
    inherited_files: FormerFiles,
    ticket_keys: TicketKeys,
    /// The time at which session tickets get other keys; `None` while there are no keys.
    ticket_keys_due: Option<Instant>,
    orphans: OrphanSearch,
    /// The processes that log what workers of dead zygotes have written, and their time limits.
    output_readers: Vec<(Pid, Instant)>,
    /// The control groups of pools that have ended.
    graveyard: Vec<PoolGroup>,
    stopping: bool,
    /// The reason why the first generation did not start.
    failure: Option<CommandError>,
    announced: bool,
}

/// A descriptor that the supervisor waits for.
#[derive(Debug, Clone, Copy)]
enum EventSource {
    Signals,
    ControlSocket,
    Client(u64),
    /// The front of the generation with this number.
    Front(u64),
    /// The zygote of a generation's pool: generation number, pool index.
    Zygote(u64, usize),
    /// The zygote that stands by in a generation's pool: generation number, pool index.
    Standby(u64, usize),
    /// The zygote that another one forks for a generation's pool: generation number, pool index.
    Twin(u64, usize),
    /// The zygote that the one of a generation's pool forks, and that is to stand by: generation
    /// number, pool index.
    StandbyTwin(u64, usize),
    /// The log of a generation's pool: generation number, pool index.
    Lines(u64, usize),
    Check,
    /// The process that orders certificates.
    Orders,
    /// The process that asks about the paths of the next plan.
    Preparation,
    /// The process that looks for new releases.
    Releases,
}

impl Supervisor {
    /// Runs until the supervisor was told to stop and no generation is left.
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.reap()?;
            self.handle_deadlines(Instant::now());
            self.end_orphans(Instant::now());
            self.end_late_readers(Instant::now());
            self.forget_ended_generations();
            zygote_socket::close_dropped();
            if self.stopping && self.generations.is_empty() && self.has_ended_all() {
                return Ok(());
            }
            for source in self.wait()? {
                self.handle(source)?;
            }
        }
    }

    /// Waits until a source is readable or a deadline has come.
    fn wait(&self) -> io::Result<Vec<EventSource>> {
        let mut sources = vec![(EventSource::Signals, self.signals.as_fd())];
        if let Some(control) = &self.control {
            sources.extend(
                control.can_accept().then(|| (EventSource::ControlSocket, control.as_fd())),
            );
            sources.extend(control.clients().map(|(id, client)| (EventSource::Client(id), client)));
        }
        sources.extend(
            self.check
                .as_ref()
                .and_then(|check| Some((EventSource::Check, check.output()?))),
        );
        let preparation = self.preparation.as_ref().and_then(|one| one.survey.output());
        sources.extend(preparation.map(|pipe| (EventSource::Preparation, pipe)));
        let look = self.releases.survey().and_then(Survey::output);
        sources.extend(look.map(|pipe| (EventSource::Releases, pipe)));
        sources.extend(self.orders.awaited().map(|channel| (EventSource::Orders, channel)));
        for generation in &self.generations {
            let number = generation.number;
            let channel = generation.front.as_ref().and_then(|front| front.channel.awaited());
            sources.extend(channel.map(|channel| (EventSource::Front(number), channel)));
            for (position, pool) in generation.pools.iter().enumerate() {
                let socket = pool.zygote.as_ref().and_then(|zygote| zygote.awaited());
                sources.extend(
                    socket.map(|socket| (EventSource::Zygote(number, position), socket.as_fd())),
                );
                let standby = pool.standby.awaited();
                sources.extend(
                    standby.map(|socket| (EventSource::Standby(number, position), socket.as_fd())),
                );
                let twin = pool.awaited_twin();
                sources.extend(twin.map(|socket| (EventSource::Twin(number, position), socket)));
                let twin = pool.standby.awaited_twin();
                sources.extend(
                    twin.map(|socket| (EventSource::StandbyTwin(number, position), socket)),
                );
                let lines = pool.lines.as_ref().map(AsFd::as_fd);
                sources.extend(lines.map(|lines| (EventSource::Lines(number, position), lines)));
            }
        }
        let (sources, descriptors): (Vec<EventSource>, Vec<BorrowedFd<'_>>) =
            sources.into_iter().unzip();
        let timeout = self.next_deadline().map(|due| due.saturating_duration_since(Instant::now()));
        let ready = poll::readable(&descriptors, timeout)?;
        Ok(sources
            .into_iter()
            .zip(ready)
            .filter_map(|(source, ready)| ready.then_some(source))
            .collect())
    }

    fn forget_ended_generations(&mut self) {
        if !self.output_readers.is_empty() {
            // Their lines belong to a pool that may be forgotten here.
            return;
        }
        let (log, graveyard) = (&self.log, &mut self.graveyard);
        let before = graveyard.len();
        self.generations.retain_mut(|generation| {
            let is_gone = generation.forget_if_gone(log);
            if is_gone {
                graveyard.extend(generation.pools.iter_mut().filter_map(PoolProcesses::take_group));
            }
            !is_gone
        });
        let generations = &self.generations;
        self.ledger.fold(|front| {
            let is_its = |counters: &Arc<FrontCounters>| Arc::ptr_eq(counters, front);
            !generations.iter().any(|one| one.counters.as_ref().is_some_and(is_its))
        });
        if self.graveyard.len() > before {
            self.orphans.expect(Instant::now());
        }
    }

    /// Handles a readable source. A source that no longer exists is ignored.
    fn handle(&mut self, source: EventSource) -> io::Result<()> {
        match source {
            EventSource::Signals => {
                while let Some(arrived) = self.signals.take()? {
                    self.obey(arrived);
                }
            }
            EventSource::ControlSocket => self.control.iter_mut().for_each(ControlSocket::accept),
            EventSource::Client(id) => {
                if let Some(command) = self.control.as_mut().and_then(|control| control.listen(id))
                {
                    self.carry_out(command, id);
                }
            }
            EventSource::Front(number) => self.handle_front(number),
            EventSource::Zygote(number, position) => self.handle_zygote(number, position),
            EventSource::Standby(number, position) => self.handle_standby(number, position),
            EventSource::Twin(number, position) => self.handle_twin(number, position),
            EventSource::StandbyTwin(number, position) => {
                self.handle_standby_twin(number, position);
            }
            EventSource::Lines(number, position) => {
                let log = self.log.clone();
                let pool = self
                    .generation(number)
                    .and_then(|generation| generation.pools.get_mut(position));
                if let Some(pool) = pool {
                    pool.forward_lines(&log);
                }
            }
            EventSource::Orders => self.handle_orders(),
            EventSource::Preparation => {
                self.preparation.iter_mut().for_each(|one| one.survey.read());
            }
            EventSource::Releases => self.releases.read(),
            EventSource::Check => self.check.iter_mut().for_each(ConfigCheck::read),
        }
        Ok(())
    }

    fn obey(&mut self, ReceivedSignal { signal, by_kernel }: ReceivedSignal) {
        match signal {
            // SIGQUIT: the word of php-fpm and nginx for it.
            SIGTERM | SIGINT | SIGQUIT => self.stop(),
            // From the kernel: the terminal was closed.
            SIGHUP if by_kernel => self.stop(),
            SIGHUP => self.reload(),
            SIGUSR1 => self.reopen_logs(),
            SIGUSR2 => self.upgrade(),
            // SIGCHLD: ended children are reaped in every iteration of the loop.
            _ => {}
        }
    }

    fn carry_out(&mut self, command: ControlCommand, client: u64) {
        match command {
            ControlCommand::Status | ControlCommand::StatusJson | ControlCommand::Monitor => {
                self.ask_front_for_status(command, client);
            }
            ControlCommand::Reload if self.stopping => {
                self.answer(client, Err("the server is stopping"))
            }
            ControlCommand::Reload => self.reload(),
            // All clients that asked for a stop are answered when the server has stopped.
            ControlCommand::Stop if self.stopping => {}
            ControlCommand::Stop => self.stop(),
        }
    }

    /// Stops the server after all requests have finished. The second call ends everything at once.
    fn stop(&mut self) {
        if self.stopping {
            self.say(Level::Notice, "told to stop again: ending at once");
            self.generations.iter_mut().for_each(Generation::kill);
            return;
        }
        self.say(Level::Notice, "stopping: requests in flight are finished");
        self.stopping = true;
        // The fronts accept what waits and close their copies. A client that connects later is
        // refused: while requests finish it would wait in vain.
        self.sockets.listeners.clear();
        self.tell_manager_of_stop();
        (self.restart, self.reload_wanted, self.upgrade_wanted, self.change) =
            (None, false, false, None);
        self.preparation = None;
        self.releases.stop();
        self.check = None;
        self.end_probation();
        self.orders.stop();
        self.answer_reload_at_once();
        self.answer_all(ControlCommand::Reload, Err("the server is stopping"));
        let time = DrainTime::Configured(self.usual_drain());
        for generation in &mut self.generations {
            match generation.phase {
                GenerationPhase::Starting { .. } => generation.kill(),
                GenerationPhase::Serving => generation.drain(false, time),
                // A draining generation may still hold idle connections.
                GenerationPhase::Draining { .. } => {
                    generation.drain_further();
                    generation.limit_drain(time);
                }
                GenerationPhase::Ending { .. } => {}
            }
        }
    }

    fn reopen_logs(&self) {
        for generation in &self.generations {
            if let Err(error) = generation.reopen_logs() {
                self.say(
                    Level::Error,
                    &format!(
                        "cannot reopen a log, which is still written to its old file: {error}"
                    ),
                );
            }
        }
        self.say(Level::Info, "logs were opened again");
    }

    fn generation(&mut self, number: u64) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    fn usual_drain(&self) -> Duration {
        self.current
            .as_ref()
            .map_or(USUAL_DRAIN, |current| current.config.limits.drain_timeout)
    }

    fn answer(&mut self, client: u64, answer: Result<&str, &str>) {
        if let Some(control) = &mut self.control {
            control.answer(client, answer);
        }
    }

    fn answer_all(&mut self, command: ControlCommand, answer: Result<&str, &str>) {
        if let Some(control) = &mut self.control {
            control.answer_all(command, answer);
        }
    }

    fn say(&self, level: Level, what: &str) {
        self.log.say(level, None, what);
    }

    fn say_of(&self, level: Level, site: &str, what: &str) {
        self.log.say(level, Some(site), what);
    }
}
