//! The decision when to order and renew certificates, and from which authority. A state machine
//! without a clock, a random source or I/O of its own: the time and the results of orders come in,
//! the next [`ScheduleStep`] comes out.
//!
//! ```text
//!   missing ─▶ order ──obtained──▶ held ──renewal time──▶ order
//!                ▲ │ failed          │ ▲
//!                │ ▼                 ▼ │ window
//!              waits (per directory) ask for renewal information
//! ```
//! Renewal times are times of the calendar. Delays are measured by a clock that only runs forward,
//! so that a clock that is set neither stops the renewals nor makes orders follow each other.

mod first_orders;
mod random;
#[cfg(test)]
mod tests;
mod validity;

use std::time::Duration;

pub use self::first_orders::{Claimant, UsedUp};
pub use self::validity::{ClockReading, HeldCertificate, RenewalWindow, Validity};

use self::first_orders::FirstOrders;
use self::random::Random;

/// Orders under way at one authority at a time. Further ones wait.
pub const MOST_ORDERS: usize = 4;
/// Of these, first orders on demand: they may hang for minutes, and leave a place to the names of
/// the configuration and to renewals.
const MOST_ON_DEMAND: usize = MOST_ORDERS - 1;
/// Questions for renewal information under way at a time. Further ones wait.
const MOST_QUESTIONS: usize = 2;
/// The longest wait between two looks at the calendar, which may be set at any time.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The first delay after an authority could not be reached. It doubles with each failure.
const FIRST_OUTAGE: Duration = Duration::from_secs(2);
/// The longest delay between two attempts to reach an authority. The delay stops doubling there.
const LONGEST_OUTAGE: Duration = Duration::from_secs(15 * 60);
/// Delays in minutes after an authority has refused a name, by the number of refusals. At most five
/// orders of a name fail in an hour, which is Let's Encrypt's limit.
const REFUSAL_DELAYS: [u64; 7] = [2, 10, 20, 30, 60, 180, 360];
/// Bounds of the delay that an authority's rate limit asks for. A shorter or longer delay is taken
/// for the bound.
const RATE_LIMIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(7 * 86_400));
/// The longest time for which the rate limit of one name delays the other names.
const LONGEST_RATE_PAUSE: Duration = Duration::from_secs(10 * 60);
/// Bounds of the delay between two questions for renewal information. A shorter or longer delay is
/// taken for the bound.
const QUESTION_DELAY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));
/// The delay after an authority has not answered a question for renewal information.
const QUESTION_FAILED: Duration = Duration::from_secs(6 * 3600);
/// The time over which the first questions after a start are spread.
const QUESTION_SPREAD: Duration = Duration::from_secs(600);
/// No name is ordered again sooner after a success than this, or a third of the certificate's life
/// where that is shorter.
const LONGEST_REST: Duration = Duration::from_secs(86_400);
/// The time for which a certificate is ordered and renewed after it was last asked for, where
/// certificates are ordered on demand.
const DEMAND_LASTS: Duration = Duration::from_secs(86_400);

/// The kind of a failure, which decides what is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The authority cannot be reached or has a failure of its own: all names wait.
    Unreachable,
    /// The authority asks for patience.
    RateLimited(Duration),
    /// The authority refuses this name: only this name waits.
    Refused,
    /// The authority could not check a challenge, and there is one that was not tried: the next
    /// order, which tries it, does not wait.
    OtherChallenge,
    /// This machine has failed, whatever the authority.
    Local,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleStep {
    /// Order a certificate, and report [`Schedule::obtained`] or [`Schedule::failed`].
    Order {
        /// Index of the certificate.
        certificate: usize,
        /// Index of the authority.
        directory: usize,
        /// Number of refusals so far: each order may use another challenge.
        refusals: u32,
    },
    /// Ask the authority for the renewal window, and report [`Schedule::window`] or
    /// [`Schedule::no_window`].
    Ask {
        /// Index of the certificate.
        certificate: usize,
        /// Index of the authority.
        directory: usize,
    },
    /// Ask again after this time, or after an order or question has ended.
    Wait(Duration),
}

/// The state of all certificates and authorities.
#[derive(Debug)]
pub struct Schedule {
    certificates: Vec<Certificate>,
    directories: Vec<Directory>,
    questions: usize,
    random: Random,
    first_orders: FirstOrders,
}

#[derive(Debug)]
struct Certificate {
    /// Where it is ordered on demand, the steady time until which the certificate is wanted, and
    /// the parties that it belongs to. `None`: it is always wanted.
    wanted: Option<(Duration, Claimant)>,
    held: Option<HeldCertificate>,
    /// Calendar time of the renewal, where a certificate is held.
    renewal: u64,
    /// The window that `renewal` was chosen from.
    window: Option<RenewalWindow>,
    /// Steady time of the next question for renewal information.
    question: Option<Duration>,
    /// Steady time before which no order begins after a success.
    rest: Duration,
    /// An order or a question is under way.
    is_busy: bool,
    refusals: u32,
    /// By directory: the steady time before which no order begins.
    delays: Vec<Duration>,
}

#[derive(Debug, Default)]
struct Directory {
    /// Failures since the last success. If there are any, one order at a time tries again.
    failures: u32,
    /// Steady time before which no order begins.
    until: Duration,
    running: usize,
}

impl Schedule {
    /// Returns the schedule for `certificates`, of which some are there, and `directories`
    /// authorities, the preferred one first. `seed` decides all random choices.
    pub fn new(
        certificates: &[Option<HeldCertificate>],
        directories: usize,
        seed: u64,
        now: ClockReading,
    ) -> Schedule {
        let mut random = Random(seed);
        let certificates = certificates
            .iter()
            .map(|held| Certificate::new(*held, directories, &mut random, now));
        Schedule {
            certificates: certificates.collect(),
            directories: (0..directories).map(|_| Directory::default()).collect(),
            questions: 0,
            random,
            first_orders: FirstOrders::default(),
        }
    }

    /// Sets the number of orders that may begin in an hour for names without a certificate that are
    /// ordered on demand, and whether the names are of several sites.
    pub fn limit_first_orders(&mut self, per_hour: usize, has_several_sites: bool) {
        self.first_orders.per_hour = per_hour;
        self.first_orders.has_several_sites = has_several_sites;
    }

    /// Adds a certificate that is ordered on demand, and returns its index. Call
    /// [`Schedule::demand`] then.
    pub fn add(
        &mut self,
        held: Option<HeldCertificate>,
        claimant: Claimant,
        now: ClockReading,
    ) -> usize {
        let directories = self.directories.len();
        let mut certificate = Certificate::new(held, directories, &mut self.random, now);
        certificate.wanted = Some((now.steady, claimant));
        self.certificates.push(certificate);
        self.certificates.len() - 1
    }

    /// Records that a certificate that is ordered on demand is asked for.
    pub fn demand(&mut self, certificate: usize, now: ClockReading) {
        if let Some((wanted, _)) = &mut self.certificates[certificate].wanted {
            *wanted = now.steady + DEMAND_LASTS;
        }
    }

    /// Returns what was used up, where the certificate waits because too many orders on demand have
    /// begun in the last hour.
    pub fn held_back(&self, certificate: usize, now: ClockReading) -> Option<UsedUp> {
        let one = &self.certificates[certificate];
        let claimant = one.first_claimant().filter(|_| !one.is_busy)?;
        self.first_orders.used_up(claimant, now)
    }

    /// Returns the next thing to do. An order or question that is returned counts as begun.
    pub fn next(&mut self, now: ClockReading) -> ScheduleStep {
        let is_due = |one: &usize| {
            let one = &self.certificates[*one];
            one.is_due(now) && now.steady >= self.room(one)
        };
        let mut due: Vec<usize> = (0..self.certificates.len()).filter(is_due).collect();
        // A missing certificate is the most urgent one, then the one that ends first. Names that
        // visitors have chosen come after those of the configuration, those of the parties that
        // had the fewest before the others.
        due.sort_by_cached_key(|one| {
            let one = &self.certificates[*one];
            let served =
                one.first_claimant().map(|claimant| self.first_orders.served(claimant, now));
            (served, one.end())
        });
        let found = due
            .iter()
            .find_map(|one| Some((*one, self.directory_for(&self.certificates[*one], now)?)));
        if let Some((certificate, directory)) = found {
            if let Some(claimant) = self.certificates[certificate].first_claimant() {
                self.first_orders.begin(claimant, now);
            }
            self.certificates[certificate].is_busy = true;
            self.directories[directory].running += 1;
            let refusals = self.certificates[certificate].refusals;
            return ScheduleStep::Order { certificate, directory, refusals };
        }
        if self.questions < MOST_QUESTIONS
            && let Some(certificate) =
                self.certificates.iter().position(|one| one.wants_window(now))
            && let Some(directory) = self.certificates[certificate].issuer()
        {
            self.certificates[certificate].is_busy = true;
            self.questions += 1;
            return ScheduleStep::Ask { certificate, directory };
        }
        ScheduleStep::Wait(self.wait(now))
    }

    /// Records that the certificate was ordered and stored.
    pub fn obtained(
        &mut self,
        certificate: usize,
        directory: usize,
        validity: Validity,
        now: ClockReading,
    ) {
        self.end_order(certificate, directory);
        self.directories[directory].failures = 0;
        self.directories[directory].until = now.steady;
        let one = &mut self.certificates[certificate];
        one.hold(HeldCertificate { validity, directory: Some(directory) }, &mut self.random);
        one.question = Some(now.steady);
        let rest = Duration::from_secs(validity.length() / 3).min(LONGEST_REST);
        one.rest = now.steady + rest;
        one.refusals = 0;
        one.delays.fill(Duration::ZERO);
    }

    /// Records that the order has failed.
    pub fn failed(
        &mut self,
        certificate: usize,
        directory: usize,
        kind: FailureKind,
        now: ClockReading,
    ) {
        self.end_order(certificate, directory);
        let one = &mut self.certificates[certificate];
        let at = &mut self.directories[directory];
        match kind {
            FailureKind::Unreachable => {
                let delay = FIRST_OUTAGE.saturating_mul(1 << at.failures.min(16));
                at.failures = at.failures.saturating_add(1);
                at.until = now.steady + self.random.about(delay.min(LONGEST_OUTAGE));
            }
            FailureKind::RateLimited(delay) => {
                let delay = delay.clamp(RATE_LIMIT.0, RATE_LIMIT.1);
                at.failures = at.failures.saturating_add(1);
                at.until = now.steady + delay.min(LONGEST_RATE_PAUSE);
                one.delays[directory] = now.steady + delay + self.random.up_to(delay / 10);
            }
            FailureKind::Refused => {
                at.failures = 0;
                one.delays[directory] = now.steady + self.random.about(refusal_delay(one.refusals));
                one.refusals = one.refusals.saturating_add(1);
            }
            FailureKind::OtherChallenge => {
                at.failures = 0;
                one.refusals = one.refusals.saturating_add(1);
            }
            FailureKind::Local => {
                let delay = self.random.about(refusal_delay(one.refusals));
                one.delays.fill(now.steady + delay);
                one.refusals = one.refusals.saturating_add(1);
            }
        }
    }

    /// Records the window in which the authority wants the certificate to be renewed, and the time
    /// after which the authority wants to be asked again.
    pub fn window(
        &mut self,
        certificate: usize,
        window: RenewalWindow,
        again: Duration,
        now: ClockReading,
    ) {
        self.end_question(certificate);
        let one = &mut self.certificates[certificate];
        let again = again.clamp(QUESTION_DELAY.0, QUESTION_DELAY.1);
        one.question = Some(now.steady + again);
        one.choose(window, &mut self.random, now);
    }

    /// Records that the authority did not tell a window.
    pub fn no_window(&mut self, certificate: usize, now: ClockReading) {
        self.end_question(certificate);
        self.certificates[certificate].question =
            Some(now.steady + self.random.about(QUESTION_FAILED));
    }

    /// Calendar time of the next renewal; `None` for a missing certificate.
    pub fn renewal(&self, certificate: usize) -> Option<u64> {
        let one = &self.certificates[certificate];
        one.held.map(|_| one.renewal)
    }

    /// The time until the next order of a certificate that is due; zero if an order is under way or
    /// only waits for other orders.
    pub fn delay(&self, certificate: usize, now: ClockReading) -> Duration {
        let one = &self.certificates[certificate];
        if one.is_busy {
            return Duration::ZERO;
        }
        self.earliest(one).saturating_sub(now.steady)
    }

    /// Steady time from which on the bounds of first orders on demand permit an order.
    fn room(&self, certificate: &Certificate) -> Duration {
        let claimant = certificate.first_claimant();
        claimant.map_or(Duration::ZERO, |claimant| self.first_orders.room(claimant))
    }

    /// Returns the authority that the order begins at, the preferred one that does not refuse
    /// orders now. `None`: the certificate has to wait.
    fn directory_for(&self, certificate: &Certificate, now: ClockReading) -> Option<usize> {
        for (number, directory) in self.directories.iter().enumerate() {
            let is_delayed = now.steady < certificate.delays[number].max(directory.until);
            if is_delayed || (directory.failures > 0 && directory.running > 0) {
                continue;
            }
            let most = match certificate.first_claimant() {
                Some(_) => MOST_ON_DEMAND,
                None => MOST_ORDERS,
            };
            return (directory.running < most).then_some(number);
        }
        None
    }

    /// Steady time at which an authority may take the next order of the certificate.
    fn earliest(&self, certificate: &Certificate) -> Duration {
        let delays = certificate.delays.iter().zip(&self.directories);
        let earliest = delays.map(|(delay, directory)| (*delay).max(directory.until)).min();
        let earliest = earliest.unwrap_or_default().max(certificate.rest);
        earliest.max(self.room(certificate))
    }

    fn wait(&self, now: ClockReading) -> Duration {
        let mut wait = LONGEST_WAIT;
        for one in self.certificates.iter().filter(|one| !one.is_busy) {
            let calendar = one.held.map_or(0, |_| one.renewal.saturating_sub(now.calendar));
            if one.is_wanted(now) {
                let order = self.earliest(one).saturating_sub(now.steady);
                wait = wait.min(order.max(Duration::from_secs(calendar)).max(LEAST_WAIT));
            }
            if let Some(question) = one.question {
                wait = wait.min(question.saturating_sub(now.steady).max(LEAST_WAIT));
            }
        }
        wait
    }

    fn end_order(&mut self, certificate: usize, directory: usize) {
        self.certificates[certificate].is_busy = false;
        let running = &mut self.directories[directory].running;
        *running = running.saturating_sub(1);
    }

    fn end_question(&mut self, certificate: usize) {
        self.certificates[certificate].is_busy = false;
        self.questions = self.questions.saturating_sub(1);
    }
}

impl Certificate {
    fn new(
        held: Option<HeldCertificate>,
        directories: usize,
        random: &mut Random,
        now: ClockReading,
    ) -> Certificate {
        let mut certificate = Certificate {
            wanted: None,
            held: None,
            renewal: 0,
            window: None,
            question: None,
            rest: Duration::ZERO,
            is_busy: false,
            refusals: 0,
            delays: vec![Duration::ZERO; directories],
        };
        if let Some(held) = held {
            certificate.hold(held, random);
            let spread = QUESTION_SPREAD.min(Duration::from_secs(held.validity.length() / 20));
            certificate.question = Some(now.steady + random.up_to(spread));
        }
        certificate
    }

    /// Returns whether anybody wants the certificate now.
    fn is_wanted(&self, now: ClockReading) -> bool {
        self.wanted.is_none_or(|(until, _)| now.steady < until)
    }

    /// Returns the parties that its next order counts for, if that is a first one on demand.
    fn first_claimant(&self) -> Option<Claimant> {
        self.wanted.filter(|_| self.held.is_none()).map(|(_, claimant)| claimant)
    }

    /// Returns whether a certificate has to be ordered, as soon as an authority may be asked.
    fn is_due(&self, now: ClockReading) -> bool {
        let is_time = self.held.is_none() || now.calendar >= self.renewal;
        is_time && !self.is_busy && self.is_wanted(now) && now.steady >= self.rest
    }

    fn wants_window(&self, now: ClockReading) -> bool {
        !self.is_busy && self.issuer().is_some() && self.question.is_some_and(|at| now.steady >= at)
    }

    fn issuer(&self) -> Option<usize> {
        self.held.and_then(|held| held.directory)
    }

    fn end(&self) -> u64 {
        self.held.map_or(0, |held| held.validity.not_after)
    }

    /// Takes a certificate, whose renewal is at about two thirds of its life.
    fn hold(&mut self, held: HeldCertificate, random: &mut Random) {
        let Validity { not_before, not_after } = held.validity;
        let life = held.validity.length();
        let renewal = not_before + life / 30 * 19 + random.below(life / 15 + 1);
        self.renewal = renewal.min(not_after);
        self.window = None;
        self.held = Some(held);
    }

    /// Chooses a random time in the window. A window that is over means at once. A choice that is
    /// still in the window stays.
    fn choose(&mut self, window: RenewalWindow, random: &mut Random, now: ClockReading) {
        let Some(HeldCertificate { validity, .. }) = self.held else {
            return;
        };
        if window.end < window.start || window.start >= validity.not_after {
            return;
        }
        if window.end <= now.calendar {
            self.renewal = now.calendar;
            return;
        }
        let life = validity.length();
        let end = window.end.min(validity.not_after - life / 10);
        let start = window.start.max(validity.not_before + life / 3).min(end);
        if self.window.is_some() && (start..=end).contains(&self.renewal) {
            return;
        }
        self.window = Some(window);
        self.renewal = start + random.below(end - start + 1);
    }
}

fn refusal_delay(refusals: u32) -> Duration {
    let last = REFUSAL_DELAYS.len() - 1;
    let position = usize::try_from(refusals).unwrap_or(last).min(last);
    Duration::from_secs(60 * REFUSAL_DELAYS[position])
}

/// The shortest wait, for deadlines that have passed while something else is under way.
const LEAST_WAIT: Duration = Duration::from_millis(100);
