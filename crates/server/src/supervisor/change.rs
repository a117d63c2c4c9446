//! A change of generation: the new generation is prepared and started, and then replaces the former
//! one. If the start fails, the former generation continues.

mod abandoned;
mod findings;
mod logs;
mod next_socket;
mod refusal;
mod unstarted;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::Config;
use howdah_sys::process;

use self::next_socket::NextSocket;
use super::certificates::CertificateFiles;
use super::cgroups::ControlGroups;
use super::generation::{Generation, GenerationPhase};
use super::generation_plan::{FormerFiles, GenerationPlan, PoolPlan, UnusableFiles};
use super::held_releases::HeldRelease;
use super::plan::SiteSource;
use super::pool::SpareZygote;
use super::releases::Releases;
use super::reload_answer::ReloadAnswer;
use super::service_manager::ServiceEvent;
use super::sockets::Sockets;
use super::survey::{Survey, SurveyAnswers};
use super::{CommandError, Supervisor, reach};
use crate::log::{ErrorLog, Level, LogTarget, SiteLogs};
use crate::quic::{self, SLOTS};

/// The cause of a new generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeCause {
    /// The start of the server.
    Start,
    /// A signal or `howdah reload`.
    Reload,
    /// The front of the former generation died.
    FrontDied,
    /// An address that was missing can be listened on.
    ListenerFound,
    /// A link to a document root leads to another folder.
    NewRelease,
    /// A release is not served: the former one is.
    HeldRelease,
    /// The generation of a reload has failed its probation.
    RollBack,
    /// This program has replaced another program, whose generation serves until the new one does.
    TakeOver,
}

impl ChangeCause {
    /// Returns whether the plan of the generation that serves is used again as it is.
    fn keeps_plan(self) -> bool {
        matches!(self, ChangeCause::FrontDied | ChangeCause::ListenerFound)
    }

    /// Returns whether an operator wants the change, and so the end of the former generation.
    pub(super) fn is_operators(self) -> bool {
        matches!(self, ChangeCause::Start | ChangeCause::Reload | ChangeCause::TakeOver)
    }
}

/// A change in progress.
#[derive(Debug)]
pub(super) struct GenerationChange {
    cause: ChangeCause,
    /// Number of the generation that is starting.
    generation: u64,
    generation_plan: GenerationPlan,
    /// The files of certificates, as they were before they were read.
    certificate_files: CertificateFiles,
    /// The document roots, as they were before the generation started.
    releases: Releases,
    sockets: Sockets,
    control: NextSocket,
    log: Arc<ErrorLog>,
    access: SiteLogs<LogTarget>,
}

/// A change whose plan waits for answers about the paths of the configuration.
#[derive(Debug)]
pub(super) struct ChangePreparation {
    cause: ChangeCause,
    wanted: WantedPlan,
    pub(super) survey: Survey,
}

/// The configuration that the plan of the next generation is to be made of.
#[derive(Debug)]
pub(super) struct WantedPlan {
    pub(super) config: Config,
    /// The releases that `config` does not serve.
    pub(super) held: Vec<HeldRelease>,
    /// The generation whose zygotes that stand by are taken; `None` for the one that serves. Only
    /// for [`ChangeCause::HeldRelease`].
    pub(super) spares_of: Option<u64>,
}

impl WantedPlan {
    pub(super) fn of(config: Config) -> WantedPlan {
        WantedPlan {
            config,
            held: Vec::new(),
            spares_of: None,
        }
    }
}

/// The plan of the next generation, and the files of its certificates as they were before they were
/// read: those that change while the generation starts are read again.
type FoundPlan = (GenerationPlan, CertificateFiles);

/// The next plan, or the configuration that it is to be made of.
enum NextPlan {
    Known(Box<FoundPlan>),
    Wanted(Box<WantedPlan>),
}

impl GenerationChange {
    /// The cause and the plan of the generation that is starting.
    pub(super) fn plan(&self) -> (ChangeCause, &GenerationPlan) {
        (self.cause, &self.generation_plan)
    }
}

impl Supervisor {
    /// Starts a new generation, now or after the present change has finished. A change for a site's
    /// new release, in which PHP may hang, is not waited for.
    pub(super) fn reload(&mut self) {
        if self.stopping {
            return;
        }
        self.abandon_new_release();
        if self.is_changing() {
            self.reload_wanted = true;
            return;
        }
        let what = format!("reloading {}", self.plan.source);
        self.say(Level::Notice, &what);
        self.tell_manager(ServiceEvent::Reloading, &what);
        self.begin_reload_of_clients();
        self.begin(ChangeCause::Reload);
    }

    /// Prepares and starts a new generation.
    pub(super) fn begin(&mut self, cause: ChangeCause) {
        self.begin_with(cause, HashMap::new());
    }

    /// Prepares and starts a new generation with zygotes that stood by in the former one, by site.
    pub(super) fn begin_with(&mut self, cause: ChangeCause, spares: HashMap<String, SpareZygote>) {
        self.restart = None;
        let wanted = match self.next_plan(cause) {
            Ok(NextPlan::Known(found)) => return self.begin_planned(cause, Ok(*found), spares),
            Ok(NextPlan::Wanted(wanted)) => self.prepare(cause, *wanted),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = wanted {
            self.refuse(cause, refusal);
        }
    }

    /// Returns whether a change of generation is in progress.
    pub(super) fn is_changing(&self) -> bool {
        self.change.is_some() || self.preparation.is_some()
    }

    /// Starts the questions about the paths of the configuration.
    fn prepare(&mut self, cause: ChangeCause, wanted: WantedPlan) -> Result<(), CommandError> {
        let paths = GenerationPlan::paths(&wanted.config, &self.environment);
        let survey = Survey::start(paths).map_err(|error| {
            CommandError::Failed(format!("cannot look at the document roots: {error}"))
        })?;
        self.preparation = Some(ChangePreparation { cause, wanted, survey });
        Ok(())
    }

    /// Starts the generation that was prepared, when all paths have answered or the time is over.
    pub(super) fn continue_preparation(&mut self, now: Instant) {
        let over = self.preparation.take_if(|one| one.survey.is_over(now));
        let Some(ChangePreparation { cause, wanted, survey }) = over else {
            return;
        };
        let mut answers = survey.finish();
        if let Some(current) = &self.current {
            answers = answers.or(&current.answers);
        }
        let mut found = self.find_plan(cause, wanted.config, answers);
        found.iter_mut().for_each(|(plan, _)| plan.hold(&wanted.held));
        let spares = match (cause, &found) {
            (ChangeCause::HeldRelease, Ok((plan, _))) => self.spares_of(wanted.spares_of, plan),
            _ => HashMap::new(),
        };
        self.begin_planned(cause, found, spares);
    }

    fn begin_planned(
        &mut self,
        cause: ChangeCause,
        found: Result<FoundPlan, CommandError>,
        spares: HashMap<String, SpareZygote>,
    ) {
        match found.and_then(|found| self.try_to_begin(cause, found, spares)) {
            Ok(()) => self.advance(),
            Err(refusal) => self.refuse(cause, refusal),
        }
    }

    fn try_to_begin(
        &mut self,
        cause: ChangeCause,
        (mut generation_plan, certificate_files): FoundPlan,
        spares: HashMap<String, SpareZygote>,
    ) -> Result<(), CommandError> {
        let releases = Releases::of(&generation_plan);
        if !cause.keeps_plan() && cause != ChangeCause::RollBack {
            self.certify(&mut generation_plan, cause).map_err(CommandError::Failed)?;
        }
        if generation_plan.config.sites.iter().any(|site| site.tls.is_on()) {
            self.protect_keys().map_err(CommandError::Failed)?;
        }
        if generation_plan.config.cgroups && !generation_plan.pools.is_empty() {
            let is_root = self.environment.identity.is_root();
            self.environment
                .cgroups
                .get_or_insert_with(|| ControlGroups::create(is_root).map(Arc::new));
        }
        if let (ChangeCause::Start, SiteSource::Folder(folder)) = (cause, &self.plan.source) {
            reach::check(folder, &generation_plan).map_err(CommandError::Config)?;
        }
        let sockets = self.sockets_for(cause, &generation_plan).map_err(CommandError::Failed)?;
        let (log, access) = self.logs_for(&generation_plan.config).map_err(CommandError::Failed)?;
        let (control, no_control) =
            self.control_for(&generation_plan.config).map_err(CommandError::Failed)?;
        if !cause.keeps_plan() {
            findings::say(&log, &generation_plan, &sockets, no_control.as_deref());
        }
        let number = self.free_number();
        let logs = (log.clone(), access.clone());
        let lists = self.script_lists(cause, &generation_plan, &releases);
        let required = self.required_pools(cause, &generation_plan, &releases);
        let patience = self.patience(cause, &generation_plan, &required);
        let (generation, started) = Generation::start(
            number,
            &generation_plan,
            logs,
            &self.environment,
            (spares, lists),
            (required, patience),
        );
        self.generations.push(generation);
        started.map_err(CommandError::Failed)?;
        self.settle_left_out(number, None, (cause, &generation_plan));
        let change = GenerationChange {
            cause,
            generation: number,
            generation_plan,
            certificate_files,
            releases,
            sockets,
            control,
            log,
            access,
        };
        self.change = Some(change);
        Ok(())
    }

    /// Prepares this process for keys of sites, and makes those of tickets.
    fn protect_keys(&mut self) -> Result<(), String> {
        // Nobody but root may look into a process that has keys.
        process::set_opaque(true).map_err(|error| format!("cannot protect keys: {error}"))?;
        match self.ticket_keys.is_empty() {
            true => self.rotate_ticket_keys(Instant::now()),
            false => Ok(()),
        }
    }

    fn next_plan(&mut self, cause: ChangeCause) -> Result<NextPlan, CommandError> {
        if let Some(wanted) = self.held_plan.take_if(|_| cause == ChangeCause::HeldRelease) {
            return Ok(NextPlan::Wanted(Box::new(wanted)));
        }
        let former = self.roll_back_to.take_if(|_| cause == ChangeCause::RollBack);
        Ok(match (&self.current, former) {
            // The configuration file is not read again, because no reload was requested.
            (Some(current), _) if cause.keeps_plan() => {
                NextPlan::Known(Box::new((current.clone(), self.certificate_files.clone())))
            }
            (_, Some(former)) => {
                // Its certificates are those of an earlier time.
                let mut files = CertificateFiles::of(&former.config);
                files.read_again(|_| true);
                NextPlan::Known(Box::new((former, files)))
            }
            (Some(current), None) if cause == ChangeCause::NewRelease => {
                NextPlan::Wanted(Box::new(self.with_new_releases(current)))
            }
            _ => {
                let config = self.plan.load().map_err(CommandError::Config)?;
                let mut wanted = WantedPlan::of(config);
                wanted.hold_inherited(std::mem::take(&mut self.inherited_held));
                NextPlan::Wanted(Box::new(wanted))
            }
        })
    }

    fn find_plan(
        &mut self,
        cause: ChangeCause,
        config: Config,
        answers: SurveyAnswers,
    ) -> Result<FoundPlan, CommandError> {
        let former_files = self.files_in_use();
        let mut files = CertificateFiles::of(&config);
        let unusable_files = match cause {
            ChangeCause::Start | ChangeCause::FrontDied => UnusableFiles::CloseSite,
            // The former program has handed over the certificates that it had.
            _ => UnusableFiles::KeepFormer(&former_files),
        };
        let answers = Arc::new(answers);
        let found = GenerationPlan::find(config, &self.environment, unusable_files, answers);
        let found = found.map_err(|errors| CommandError::Config(errors.join("\n")))?;
        files.read_again(|site| found.closed.get(site).is_some_and(Option::is_some));
        Ok((found, files))
    }

    /// Returns the number of the next generation. A number is left out where a former generation of
    /// the same mailbox still has connections: it would not get its packets, and its clients would
    /// be told that their connections are over.
    fn free_number(&mut self) -> u64 {
        let next = self.next_number;
        let is_free = |number: &u64| {
            let mut living = self.generations.iter().map(|generation| generation.number);
            !living.any(|living| quic::slot(living) == quic::slot(*number))
        };
        // Where all mailboxes have a generation, two share one.
        let number = (next..).take(SLOTS).find(is_free).unwrap_or(next);
        self.next_number = number + 1;
        number
    }

    /// Performs the next step of the present change if it is due: start PHP, then start the front,
    /// then drain the former generation.
    pub(super) fn advance(&mut self) {
        let change = self.change.take();
        let Some(change) = change.and_then(|change| self.hold_unstarted_of_reload(change)) else {
            return;
        };
        let (number, run_front) = (change.generation, self.run_front);
        let known = (self.orders.answers(), self.measured_memory(number));
        let ticket_keys = self.ticket_keys.clone();
        let began = self.began_at;
        let mut generations = self.generations.iter_mut();
        let Some(generation) = generations.find(|generation| generation.number == number) else {
            return;
        };
        if generation.is_ready() {
            generation.phase = GenerationPhase::Serving;
            generation.prepare_for_deaths();
            generation.start_left_out();
            return self.commit(change);
        }
        generation.note_progress();
        let mut failure = None;
        if generation.front.is_none() && generation.has_php() {
            failure = generation
                .start_front(
                    (&change.generation_plan, &ticket_keys),
                    &change.sockets,
                    (&mut self.ledger, began),
                    known,
                    run_front,
                )
                .err();
        }
        self.change = Some(change);
        if let Some(error) = failure {
            self.abort(number, &format!("cannot start the front: {error}"));
        }
    }

    fn commit(&mut self, change: GenerationChange) {
        let GenerationChange {
            cause,
            generation,
            generation_plan,
            certificate_files,
            releases,
            sockets,
            control,
            log,
            access,
        } = change;
        let new_releases = releases.since(&self.releases);
        let movers = self.releases.movers(&new_releases);
        self.begin_probation(generation, cause, (&generation_plan, new_releases));
        // Listeners that the new generation does not use are closed here. The former front has the
        // last descriptor and closes it.
        self.missing_listeners.follow(&sockets, Instant::now());
        let former: Vec<_> =
            self.sockets.listeners.iter().map(|listener| listener.actual.clone()).collect();
        self.sockets = sockets;
        let drained = self.drain_others(generation, cause, &movers);
        if let Some(present) = self.generation(generation) {
            present.read_packets();
        }
        self.use_control(control);
        self.log.finish();
        (self.log, self.access) = (log, access);
        self.restart = None;
        self.write_pid_file(generation_plan.config.pid_file.as_deref());
        self.certificate_files = certificate_files;
        self.releases = releases.follow(&self.releases);
        self.keep_shared_memory(&generation_plan.pools);
        self.current = Some(generation_plan);
        self.inherited_files = FormerFiles::default();
        self.arrange_orders();
        self.tell_renewals(generation);
        self.holding.clear();
        self.tell_reasons();
        self.confirm_challenges();
        self.report_start(generation, cause);
        self.tell_manager_of(generation);
        let is_first = !std::mem::replace(&mut self.announced, true);
        if is_first || cause == ChangeCause::ListenerFound {
            self.announce(&former);
        }
        if cause == ChangeCause::FrontDied {
            self.ask_new_front();
        }
        self.answer_change((generation, cause), drained);
        self.change_is_over();
    }

    /// Closes the shared memory of pools that have none of their own any more.
    fn keep_shared_memory(&mut self, pools: &[PoolPlan]) {
        self.environment.pool_memory.retain(|name| {
            pools
                .iter()
                .any(|pool| pool.settings.pool == name && pool.isolation.has_own_shared_memory())
        });
    }

    /// Answers those who have asked for the change, unless a probation decides its success. A
    /// reload whose configuration was taken back has failed. `drained`: the generations that end.
    fn answer_change(&mut self, (generation, cause): (u64, ChangeCause), drained: Vec<u64>) {
        let done = self.describe_success(generation);
        match &self.rolled_back {
            Some(why) if matches!(cause, ChangeCause::RollBack | ChangeCause::HeldRelease) => {
                let why = why.clone();
                self.answer_reload(Err(&why));
            }
            _ if self.awaits_probation() => {}
            _ => self.reload_answer = Some(ReloadAnswer::new(done, drained, Instant::now())),
        }
    }

    fn change_is_over(&mut self) {
        if self.stopping {
            return;
        }
        if std::mem::take(&mut self.reload_wanted) {
            self.reload();
        } else if std::mem::take(&mut self.upgrade_wanted) {
            self.upgrade();
        }
    }

    /// Starts a new generation if none serves and the delay is over.
    pub(super) fn handle_change_deadlines(&mut self, now: Instant) {
        self.keep_time_of_upgrade(now);
        self.continue_preparation(now);
        if self.stopping || self.is_changing() {
            return;
        }
        match self.restart {
            Some(due) if now >= due => self.begin(ChangeCause::FrontDied),
            Some(_) => {}
            None => {
                if !self
                    .generations
                    .iter()
                    .any(|generation| generation.phase == GenerationPhase::Serving)
                {
                    self.restart = Some(now + self.backoff.after_death(Duration::ZERO));
                }
            }
        }
    }
}
