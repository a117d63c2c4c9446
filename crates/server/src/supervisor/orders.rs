//! The process that orders certificates, and what the supervisor keeps of it: the challenges that
//! fronts answer, and the state of each name.
//!
//! The process holds the account keys and speaks with authorities; the front does neither. Requests
//! never wait for it. Where the process ends, another one starts later.

pub(super) mod plan;
mod process;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use howdah_acme::message::{ChallengeAnswer, Demand, ToProcess, ToSupervisor};
use howdah_sys::process::{Exit, Pid};

use self::plan::OrderPlan;
use self::process::OrderProcess;
pub(crate) use self::program::run as run_order_process;
use super::Supervisor;
use super::backoff::Backoff;
use super::front_protocol::ToFront;
use super::generation::{Generation, GenerationPhase};
use crate::log::Level;

/// The process that orders certificates, and its work.
#[derive(Debug, Default)]
pub(super) struct CertificateOrders {
    /// `None` if no name needs a certificate.
    plan: Option<OrderPlan>,
    process: Option<OrderProcess>,
    /// The time when the process is started.
    due: Option<Instant>,
    backoff: Backoff,
    /// Names that visitors ask for while there is no process. The front tells a name again only
    /// after a while.
    demanded: Vec<Demand>,
    challenges: BTreeMap<u64, OpenChallenge>,
    /// The state of each name, as the process has told it.
    states: BTreeMap<String, NameState>,
}

/// The state of a name.
#[derive(Debug)]
struct NameState {
    /// Text for a person.
    text: String,
    /// The time of the next renewal in seconds since 1970.
    renewal: Option<u64>,
}

/// Names on demand that `howdah status` lists. Beyond, it tells their number.
const MOST_SHOWN: usize = 100;

/// Names on demand that wait for a process. Further ones are forgotten until a later visit.
const MOST_DEMANDED: usize = 256;

/// Names whose renewals fit into one message, however long they are.
const NAMES_AT_ONCE: usize = 500;

/// A challenge that the fronts answer.
#[derive(Debug)]
struct OpenChallenge {
    answer: ChallengeAnswer,
    /// The generations whose fronts answer it.
    confirmed: BTreeSet<u64>,
    /// The process was told that all fronts answer it.
    is_told: bool,
}

impl CertificateOrders {
    /// The channel to the process, to wait for. `None`: no process runs.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref()?.awaited()
    }

    /// The time at which the process is started. `None`: it is not to be started.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The process, for the search for orphans. `None`: no process runs.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// The answers that a new front starts with.
    pub(super) fn answers(&self) -> Vec<(u64, ChallengeAnswer)> {
        let answers = self.challenges.iter();
        answers.map(|(id, challenge)| (*id, challenge.answer.clone())).collect()
    }

    /// Ends the process, and starts none.
    pub(super) fn stop(&mut self) {
        self.due = None;
        self.plan = None;
        self.demanded.clear();
        self.process.iter_mut().for_each(OrderProcess::end);
    }

    /// The part of `howdah status`.
    pub(super) fn describe(&self, text: &mut String) {
        let Some(plan) = &self.plan else { return };
        let process = match &self.process {
            Some(process) => format!("process {}", process.pid),
            None => "no process; it is started again soon, the error log has the reason".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "certificates, in {}: {process}", plan.settings.state.display());
        if let Err(why) = &plan.settings.roots {
            let _ = writeln!(text, "  nothing is ordered: {why}");
        }
        for name in &plan.settings.names {
            let state =
                self.states.get(name).map_or("not looked at yet", |state| state.text.as_str());
            let _ = writeln!(text, "  {name}: {state}");
        }
        for name in &plan.on_demand {
            let _ = writeln!(text, "  {name}: {}", plan.about_demand());
        }
        let own = |name: &&String| !plan.settings.names.contains(name);
        let others: Vec<&String> = self.states.keys().filter(own).collect();
        for name in others.iter().take(MOST_SHOWN) {
            let _ = writeln!(text, "  {name}: {}, on demand", self.states[*name].text);
        }
        if let Some(more) = others.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more on demand");
        }
        for (name, reason) in &plan.left_out {
            let _ = writeln!(text, "  {name}: none: {reason}");
        }
    }
}

impl Supervisor {
    /// Starts the process that orders certificates as the present configuration says. A process
    /// with another configuration is ended first.
    pub(super) fn arrange_orders(&mut self) {
        let wanted = self.current.as_ref().and_then(|current| current.orders.clone());
        // A certificate may have come since the plan was made.
        self.use_stored();
        let orders = &mut self.orders;
        if orders.plan == wanted {
            return;
        }
        orders.plan = wanted;
        orders.states.clear();
        match &mut orders.process {
            // The next one starts when this one was reaped.
            Some(process) => process.end(),
            None => orders.due = orders.plan.is_some().then(Instant::now),
        }
    }

    /// Starts the process if it is due.
    pub(super) fn start_orders(&mut self, now: Instant) {
        let orders = &mut self.orders;
        if orders.process.is_some() || orders.due.is_none_or(|due| now < due) {
            return;
        }
        orders.due = None;
        let Some(plan) = &orders.plan else { return };
        match OrderProcess::start(plan, &self.environment) {
            Ok(process) => {
                for demand in orders.demanded.drain(..) {
                    process.tell(&ToProcess::Demand(demand));
                }
                orders.process = Some(process);
            }
            Err(error) => {
                let wait = orders.backoff.after_failure();
                orders.due = Some(now + wait);
                let what = format!("cannot start the process that orders certificates: {error}");
                self.say(Level::Error, &what);
            }
        }
    }

    /// Records the end of the process. Returns `false` if `pid` is another process.
    pub(super) fn orders_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        if self.orders.pid() != Some(pid) {
            return false;
        }
        // Messages that the process sent before its end.
        self.handle_orders();
        let orders = &mut self.orders;
        let process = orders.process.take();
        let ids: Vec<u64> = orders.challenges.keys().copied().collect();
        let is_wanted = process.as_ref().is_some_and(|process| process.is_ending);
        let lived = process.map_or(Duration::ZERO, |process| process.started.elapsed());
        let wait = match is_wanted {
            true => Duration::ZERO,
            false => orders.backoff.after_death(lived),
        };
        orders.due = orders.plan.is_some().then(|| Instant::now() + wait);
        for id in ids {
            self.withdraw(id);
        }
        if !is_wanted && !self.stopping {
            let what = format!(
                "the process that orders certificates, {pid}, {exit}; another one starts in {} s",
                wait.as_secs_f32()
            );
            self.say(Level::Error, &what);
        }
        true
    }

    /// Handles the messages of the process.
    pub(super) fn handle_orders(&mut self) {
        loop {
            let Some(process) = &mut self.orders.process else {
                return;
            };
            let message = match process.listen() {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(error) => {
                    process.kill();
                    let what = format!(
                        "the process that orders certificates was killed because its message \
                         cannot be read: {error}"
                    );
                    return self.say(Level::Error, &what);
                }
            };
            match message {
                ToSupervisor::Present { id, answer } => self.present(id, answer),
                ToSupervisor::Withdraw { id } => self.withdraw(id),
                ToSupervisor::Stored { name } => self.use_new(&name),
                ToSupervisor::State { name, text, renewal } => {
                    let names = vec![(name.clone(), renewal)];
                    self.tell_fronts(&ToFront::Renewals { names });
                    self.orders.states.insert(name, NameState { text, renewal });
                }
                ToSupervisor::Log { is_error: true, text } => self.say(Level::Error, &text),
                ToSupervisor::Log { is_error: false, text } => self.say(Level::Notice, &text),
            }
        }
    }

    /// Asks for a certificate of a name that is ordered on demand.
    pub(super) fn demand(&mut self, demand: Demand) {
        let orders = &mut self.orders;
        match orders.process.as_ref().filter(|process| !process.is_ending) {
            Some(process) => process.tell(&ToProcess::Demand(demand)),
            None if orders.demanded.len() < MOST_DEMANDED => orders.demanded.push(demand),
            None => {}
        }
    }

    /// Hands the certificate of `name`, which was just stored, to the front, for all sites that
    /// have the name.
    fn use_new(&mut self, name: &str) {
        let Some(current) = self.current.clone() else {
            return;
        };
        let Some(plan) = &current.orders else { return };
        for (number, site) in current.config.sites.iter().enumerate() {
            if !plan::is_ordered(site) || !plan.is_for(&current.config, site, name) {
                continue;
            }
            let put = match plan.stored_one(name) {
                Ok(Some(pair)) => self.put_certificate(number, pair).map_err(|error| {
                    format!("the front does not get the new certificate: {error}")
                }),
                Ok(None) => Ok(()),
                Err(mistake) => Err(mistake),
            };
            if let Err(what) = put {
                self.say_of(Level::Error, &site.name, &what);
            }
        }
    }

    /// Hands the stored certificates of all sites to the front, where they are others than before.
    fn use_stored(&mut self) {
        let Some(current) = self.current.clone() else {
            return;
        };
        let Some(plan) = &current.orders else { return };
        for (number, site) in current.config.sites.iter().enumerate() {
            if !plan::is_ordered(site) {
                continue;
            }
            let (pairs, mistakes) = plan.stored(&current.config, site);
            for mistake in mistakes {
                self.say_of(Level::Error, &site.name, &mistake);
            }
            if current.certificates.get(number) == Some(&pairs) {
                continue;
            }
            if let Err(error) = self.replace_certificates(number, pairs) {
                let what = format!("the front does not get the new certificate: {error}");
                self.say_of(Level::Error, &site.name, &what);
            }
        }
    }

    fn present(&mut self, id: u64, answer: ChallengeAnswer) {
        let message = ToFront::Present { id, answer: answer.clone() };
        self.tell_fronts(&message);
        let challenge = OpenChallenge {
            answer,
            confirmed: BTreeSet::new(),
            is_told: false,
        };
        self.orders.challenges.insert(id, challenge);
    }

    fn withdraw(&mut self, id: u64) {
        self.orders.challenges.remove(&id);
        self.tell_fronts(&ToFront::Withdraw { id });
    }

    /// Tells a new front the renewals that are known.
    pub(super) fn tell_renewals(&self, generation: u64) {
        let generation = self.generations.iter().find(|one| one.number == generation);
        let Some(front) = generation.and_then(|generation| generation.front.as_ref()) else {
            return;
        };
        let known = self.orders.states.iter().map(|(name, state)| (name.clone(), state.renewal));
        let known: Vec<_> = known.collect();
        for names in known.chunks(NAMES_AT_ONCE) {
            // A front that cannot be told is replaced.
            let _ = front.tell(&ToFront::Renewals { names: names.to_vec() }, &[]);
        }
    }

    fn tell_fronts(&self, message: &ToFront) {
        for front in self.generations.iter().filter_map(|generation| generation.front.as_ref()) {
            // A front that cannot be told does not confirm, and the order fails.
            let _ = front.tell(message, &[]);
        }
    }

    /// Records that the front of a generation answers a challenge.
    pub(super) fn challenge_confirmed(&mut self, generation: u64, id: u64) {
        if let Some(challenge) = self.orders.challenges.get_mut(&id) {
            challenge.confirmed.insert(generation);
        }
        self.confirm_challenges();
    }

    /// Tells the process which challenges all fronts that accept connections answer.
    pub(super) fn confirm_challenges(&mut self) {
        let accepts = |generation: &&Generation| {
            let phase = generation.phase;
            let is_open =
                matches!(phase, GenerationPhase::Serving | GenerationPhase::Starting { .. });
            is_open && generation.front.is_some()
        };
        let open: Vec<u64> = self
            .generations
            .iter()
            .filter(accepts)
            .map(|generation| generation.number)
            .collect();
        let orders = &mut self.orders;
        let Some(process) = &orders.process else {
            return;
        };
        for (id, challenge) in &mut orders.challenges {
            let is_everywhere = open.iter().all(|number| challenge.confirmed.contains(number));
            if !challenge.is_told && !open.is_empty() && is_everywhere {
                challenge.is_told = true;
                process.tell(&ToProcess::Presented { id: *id });
            }
        }
    }
}
