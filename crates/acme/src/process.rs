//! The process: carries out the steps of the schedule.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_sys::readiness::Readable;
use howdah_sys::seqpacket::SeqPacket;
use instant_acme::CertificateIdentifier;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::ask::Permission;
use crate::authority::Authority;
use crate::certificate::RenewalFacts;
use crate::demand::DemandedNames;
use crate::failure::OrderFailure;
use crate::message::{self, ChallengeAnswer, Demand, ToProcess, ToSupervisor};
use crate::order::{self, WantedCertificate};
use crate::schedule::{
    Claimant, ClockReading, HeldCertificate, RenewalWindow, Schedule, ScheduleStep, UsedUp,
    Validity,
};
use crate::settings::AcmeSettings;
use crate::storage::{CertificateFolder, date};

/// Time in which the front must answer a challenge. Then the order has failed.
const FRONT_PATIENCE: Duration = Duration::from_secs(60);
/// Names that visitors ask for and that were not looked at yet. Further ones are forgotten, and
/// told again with a later visit.
const MOST_DEMANDS: usize = 256;
/// Bytes of a message of the supervisor. A longer one is malformed, and ends this process.
const LONGEST_MESSAGE: usize = 4096;

/// Runs until the supervisor closes its end of the channel.
///
/// # Errors
/// The reason, as text for the operator, why no certificate can be ordered at all.
pub fn run(settings: AcmeSettings, channel: SeqPacket) -> Result<(), String> {
    let broken = |error: io::Error| format!("its event loop: {error}");
    let runtime = Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let storage = CertificateFolder::new(&settings.state);
    let told = |error: io::Error| format!("the state folder: {error}");
    storage.prepare().map_err(told)?;
    let settings = Rc::new(settings);
    let authorities = Authority::all(&settings)?;
    let local = LocalSet::new();
    let permission = Permission::of(&settings)?;
    local.block_on(&runtime, async {
        let (demand, demands) = mpsc::channel(MOST_DEMANDS);
        let presenter = Rc::new(ChallengePresenter::new(channel, demand));
        let listener = tokio::task::spawn_local(Rc::clone(&presenter).listen());
        let demands = DemandedNames::new(permission, demands);
        let orders = Orders::new(settings, storage, authorities, Rc::clone(&presenter), demands);
        tokio::select! {
            ended = listener => match ended {
                Ok(ended) => {
                    ended.map_err(|error| format!("the channel to the supervisor: {error}"))
                }
                Err(error) => Err(error.to_string()),
            },
            () = orders.run() => Ok(()),
        }
    })
}

/// The result of a step.
pub(crate) enum StepResult {
    Order {
        certificate: usize,
        directory: usize,
        result: Result<Validity, OrderFailure>,
    },
    Question {
        certificate: usize,
        result: Option<(RenewalWindow, Duration)>,
    },
    /// The answer whether a name that visitors ask for may have a certificate.
    Permission {
        demand: Demand,
        result: Result<bool, String>,
    },
}

/// All certificates, with the schedule that decides on them.
pub(crate) struct Orders {
    pub(crate) settings: Rc<AcmeSettings>,
    storage: CertificateFolder,
    authorities: Vec<Rc<Authority>>,
    pub(crate) presenter: Rc<ChallengePresenter>,
    began: Instant,
    pub(crate) schedule: Schedule,
    pub(crate) certificates: Vec<OrderState>,
    pub(crate) demands: DemandedNames,
}

/// The state of a certificate, beside its schedule.
#[derive(Default)]
pub(crate) struct OrderState {
    pub(crate) name: Rc<str>,
    validity: Option<Validity>,
    /// The name of the certificate in questions to its authority.
    id: Option<CertificateIdentifier<'static>>,
    /// The reason why the last order has failed.
    failure: Option<String>,
    /// The text that the supervisor was told.
    told: String,
}

impl Orders {
    fn new(
        settings: Rc<AcmeSettings>,
        storage: CertificateFolder,
        authorities: Vec<Authority>,
        presenter: Rc<ChallengePresenter>,
        demands: DemandedNames,
    ) -> Orders {
        let began = Instant::now();
        let found =
            settings.names.iter().map(|name| look_up(name, &settings, &storage, &presenter));
        let (certificates, held): (Vec<OrderState>, Vec<Option<HeldCertificate>>) = found.unzip();
        let now = now(began);
        let seed = now.calendar ^ (u64::from(std::process::id()) << 32);
        let mut schedule = Schedule::new(&held, authorities.len(), seed, now);
        schedule.limit_first_orders(settings.on_demand_per_hour, settings.on_demand_sites > 1);
        Orders {
            schedule,
            authorities: authorities.into_iter().map(Rc::new).collect(),
            settings,
            storage,
            presenter,
            began,
            certificates,
            demands,
        }
    }

    /// The present time.
    pub(crate) fn now(&self) -> ClockReading {
        now(self.began)
    }

    /// Adds a name that visitors ask for, and returns its index.
    pub(crate) fn add(&mut self, name: &str, claimant: Claimant) -> usize {
        let (state, held) = look_up(name, &self.settings, &self.storage, &self.presenter);
        self.certificates.push(state);
        self.schedule.add(held, claimant, self.now())
    }

    /// Carries out the steps of the schedule for ever.
    async fn run(mut self) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        for certificate in 0..self.certificates.len() {
            self.tell(certificate);
        }
        loop {
            match self.schedule.next(now(self.began)) {
                ScheduleStep::Order { certificate, directory, refusals } => {
                    let job = self.order(certificate, directory, refusals);
                    let sender = sender.clone();
                    tokio::task::spawn_local(async move {
                        let result = job.await;
                        // The receiver lives as long as the event loop.
                        let _ = sender.send(StepResult::Order { certificate, directory, result });
                    });
                    self.tell(certificate);
                }
                ScheduleStep::Ask { certificate, directory } => {
                    let job = self.ask(certificate, directory);
                    let sender = sender.clone();
                    tokio::task::spawn_local(async move {
                        let result = job.await;
                        let _ = sender.send(StepResult::Question { certificate, result });
                    });
                }
                ScheduleStep::Wait(time) => {
                    tokio::select! {
                        Some(done) = receiver.recv() => self.finish(done),
                        Some(demand) = self.demands.next() => self.take_demand(demand, &sender),
                        () = tokio::time::sleep(time) => {}
                    }
                }
            }
        }
    }

    /// Orders a certificate, and stores it.
    fn order(
        &self,
        certificate: usize,
        directory: usize,
        refusals: u32,
    ) -> impl Future<Output = Result<Validity, OrderFailure>> + use<> {
        let (settings, storage) = (Rc::clone(&self.settings), self.storage.clone());
        let authority = Rc::clone(&self.authorities[directory]);
        let presenter = Rc::clone(&self.presenter);
        let replaces = self.certificates[certificate].id.clone();
        let name = Rc::clone(&self.certificates[certificate].name);
        async move {
            let room = |error: io::Error| {
                OrderFailure::local(format!(
                    "no order, because its certificate could not be kept: {error}"
                ))
            };
            storage.check_room().map_err(room)?;
            let wanted = WantedCertificate { name: &name, replaces, refusals };
            let issued = order::obtain(&authority, &settings, &presenter, &wanted).await?;
            let stored = storage.store(&name, &authority.directory, &issued.key, &issued.chain);
            stored.map_err(|error| {
                OrderFailure::local(format!("the new certificate is lost: {error}"))
            })
        }
    }

    /// Asks for the renewal window of a certificate.
    fn ask(
        &self,
        certificate: usize,
        directory: usize,
    ) -> impl Future<Output = Option<(RenewalWindow, Duration)>> + use<> {
        let authority = Rc::clone(&self.authorities[directory]);
        let id = self.certificates[certificate].id.clone();
        async move {
            let account = authority.account().await.ok()?;
            let (info, again) = account.renewal_info(&id?).await.ok()?;
            let window = info.suggested_window;
            let seconds =
                |time: time::OffsetDateTime| time.unix_timestamp().try_into().unwrap_or(0);
            let window = RenewalWindow {
                start: seconds(window.start),
                end: seconds(window.end),
            };
            Some((window, again))
        }
    }

    fn finish(&mut self, done: StepResult) {
        let now = now(self.began);
        let certificate = match done {
            StepResult::Order { certificate, directory, result } => {
                match result {
                    Ok(validity) => self.obtained(certificate, directory, validity, now),
                    Err(failure) => self.failed(certificate, directory, failure, now),
                }
                certificate
            }
            StepResult::Question { certificate, result } => {
                match result {
                    Some((window, again)) => self.schedule.window(certificate, window, again, now),
                    None => self.schedule.no_window(certificate, now),
                }
                certificate
            }
            StepResult::Permission { demand, result } => return self.permitted(&demand, result),
        };
        self.tell(certificate);
    }

    fn obtained(
        &mut self,
        certificate: usize,
        directory: usize,
        validity: Validity,
        now: ClockReading,
    ) {
        self.schedule.obtained(certificate, directory, validity, now);
        let state = &mut self.certificates[certificate];
        let name = &Rc::clone(&state.name);
        state.validity = Some(validity);
        state.failure = None;
        let stored = self.storage.certificate(name).ok().flatten();
        let facts = stored.and_then(|stored| RenewalFacts::read(&stored.pem).ok());
        state.id = facts.and_then(|facts| facts.id);
        let authority = &self.authorities[directory].directory;
        let end = date(validity.not_after);
        self.presenter
            .log(false, format!("{name} has a certificate of {authority} until {end}"));
        let is_early = now.calendar + CLOCK_TOLERANCE < validity.not_before;
        if is_early || now.calendar > validity.not_after {
            let time = date(now.calendar);
            let what = format!(
                "{name}: the clock of this machine says {time}, when the new certificate is not \
                 valid; set the clock"
            );
            self.presenter.log(true, what);
        }
        self.presenter.tell(&ToSupervisor::Stored { name: name.to_string() });
    }

    fn failed(
        &mut self,
        certificate: usize,
        directory: usize,
        failure: OrderFailure,
        now: ClockReading,
    ) {
        self.schedule.failed(certificate, directory, failure.kind, now);
        let name = Rc::clone(&self.certificates[certificate].name);
        let authority = &self.authorities[directory].directory;
        let reason = format!("{authority}: {failure}");
        let next = date(now.calendar + self.schedule.delay(certificate, now).as_secs());
        // One reason is logged once, however often it is met.
        if self.certificates[certificate].failure.as_ref() != Some(&reason) {
            self.presenter.log(
                true,
                format!("{name} gets no certificate: {reason}; the next attempt is at {next}"),
            );
        }
        self.certificates[certificate].failure = Some(reason);
    }

    /// Tells the supervisor the state of a certificate, if it has changed.
    pub(crate) fn tell(&mut self, certificate: usize) {
        let now = self.now();
        let state = &mut self.certificates[certificate];
        let attempt = || now.calendar + self.schedule.delay(certificate, now).as_secs();
        let mut next = None;
        let mut text = match (state.validity, self.schedule.renewal(certificate)) {
            (Some(validity), Some(renewal)) => {
                let verb = if validity.not_after < now.calendar {
                    "ended at"
                } else {
                    "ends at"
                };
                let renewal = match renewal <= now.calendar && state.failure.is_some() {
                    true => attempt(),
                    false => renewal,
                };
                next = Some(renewal);
                let (ends, renewal) = (date(validity.not_after), date(renewal));
                format!("{verb} {ends}, next renewal at {renewal}")
            }
            _ if let Some(used_up) = self.schedule.held_back(certificate, now) => format!(
                "none yet, {} (`on_demand_per_hour`); the next one may begin at {}",
                words(used_up),
                date(attempt())
            ),
            _ if state.failure.is_some() => {
                format!("none yet, next attempt at {}", date(attempt()))
            }
            _ => "none yet, it is being ordered".to_owned(),
        };
        if let Some(failure) = &state.failure {
            text.push_str(&format!("; last error: {failure}"));
        }
        if state.told != text {
            state.told.clone_from(&text);
            let name = state.name.to_string();
            self.presenter.tell(&ToSupervisor::State { name, text, renewal: next });
        }
    }
}

/// Returns why an order waits, as a sentence without its begin and its end.
fn words(used_up: UsedUp) -> &'static str {
    match used_up {
        UsedUp::Hour => "all orders on demand of this hour have begun",
        UsedUp::Site => "its site has had its share of the orders on demand in this hour",
        UsedUp::Owner => {
            "the owner of its folder has had the share of the orders on demand in this hour"
        }
        UsedUp::Domain => "its domain has had its share of the orders on demand in this hour",
    }
}

/// Returns what the folder has of a name.
fn look_up(
    name: &str,
    settings: &AcmeSettings,
    storage: &CertificateFolder,
    presenter: &ChallengePresenter,
) -> (OrderState, Option<HeldCertificate>) {
    let mut state = OrderState {
        name: name.into(),
        ..OrderState::default()
    };
    let stored = storage.certificate(name).unwrap_or_else(|error| {
        presenter.log(true, format!("{error}; a new certificate is ordered"));
        None
    });
    let held = stored.map(|stored| {
        state.validity = Some(stored.validity);
        state.id = RenewalFacts::read(&stored.pem).ok().and_then(|facts| facts.id);
        let issuer = stored.directory;
        let known = |directory: &String| Some(directory) == issuer.as_ref();
        let directory = settings.directories.iter().position(known);
        HeldCertificate { validity: stored.validity, directory }
    });
    (state, held)
}

/// Seconds by which two machines' clocks usually differ. A certificate whose validity begins later
/// than that is reported: the clock of this machine is wrong.
const CLOCK_TOLERANCE: u64 = 60;

fn now(began: Instant) -> ClockReading {
    ClockReading {
        calendar: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        steady: began.elapsed(),
    }
}

/// The talk with the supervisor, and the challenges that the front answers.
pub(crate) struct ChallengePresenter {
    channel: SeqPacket,
    next: Cell<u64>,
    waiting: RefCell<HashMap<u64, oneshot::Sender<()>>>,
    demand: mpsc::Sender<Demand>,
}

/// A challenge that the front answers until this value is dropped.
pub(crate) struct PresentedChallenge {
    presenter: Rc<ChallengePresenter>,
    id: u64,
}

impl ChallengePresenter {
    fn new(channel: SeqPacket, demand: mpsc::Sender<Demand>) -> ChallengePresenter {
        ChallengePresenter {
            channel,
            demand,
            next: Cell::new(1),
            waiting: RefCell::default(),
        }
    }

    /// Lets the front answer a challenge.
    ///
    /// # Errors
    /// No front has confirmed the challenge in time.
    pub(crate) async fn present(
        self: &Rc<Self>,
        answer: ChallengeAnswer,
    ) -> Result<PresentedChallenge, OrderFailure> {
        let id = self.next.replace(self.next.get() + 1);
        let presented = PresentedChallenge { presenter: Rc::clone(self), id };
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, sender);
        self.tell(&ToSupervisor::Present { id, answer });
        match tokio::time::timeout(FRONT_PATIENCE, receiver).await {
            Ok(Ok(())) => Ok(presented),
            Ok(Err(_)) | Err(_) => {
                Err(OrderFailure::local("the front does not answer challenges now"))
            }
        }
    }

    pub(crate) fn log(&self, is_error: bool, text: String) {
        self.tell(&ToSupervisor::Log { is_error, text });
    }

    /// Sends a message. Waits for the supervisor while the channel is full.
    fn tell(&self, message: &ToSupervisor) {
        // [`ChallengePresenter::listen`] notices a supervisor that is gone.
        let _ = self.channel.send(&message::encode(message), &[]);
    }

    /// Receives messages until the supervisor is gone.
    async fn listen(self: Rc<Self>) -> io::Result<()> {
        let readable = Readable::new(self.channel.as_fd())?;
        let mut room = vec![0; LONGEST_MESSAGE];
        while let Some(received) = readable.next_message(&self.channel, &mut room).await? {
            match message::decode(&room[..received.length])? {
                ToProcess::Presented { id } => {
                    if let Some(sender) = self.waiting.borrow_mut().remove(&id) {
                        // The order may have been given up.
                        let _ = sender.send(());
                    }
                }
                ToProcess::Demand(demand) => {
                    // Those beyond the bound are told again.
                    let _ = self.demand.try_send(demand);
                }
            }
        }
        Ok(())
    }
}

impl Drop for PresentedChallenge {
    fn drop(&mut self) {
        self.presenter.waiting.borrow_mut().remove(&self.id);
        self.presenter.tell(&ToSupervisor::Withdraw { id: self.id });
    }
}
