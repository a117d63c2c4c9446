//! The probation of a generation that a reload has started: if a site answers with server errors,
//! the former configuration serves again.
//!
//! Until the probation is over, the former generation keeps the zygotes that stand by in it. PHP
//! has started there with the former php.ini.

mod fallback;
mod judgement;

use std::time::{Duration, Instant};

use self::fallback::FallbackGeneration;
pub(super) use self::judgement::FormerAnswers;
use self::judgement::{LEAST_RESPONSES, Terms, failure, is_patience_over};
use super::Supervisor;
use super::change::ChangeCause;
use super::generation::{Generation, GenerationPhase};
use super::generation_plan::GenerationPlan;
use super::held_releases::HeldRelease;
use crate::log::Level;
use crate::observe::SiteErrors;

/// The time between two looks at the counters.
const LOOK: Duration = Duration::from_millis(500);
/// The time between two looks at the generation that serves and is not on probation.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
/// The longest probation whose end `howdah reload` waits for.
const AWAITED: Duration = Duration::from_secs(30);

/// A probation that is not over.
#[derive(Debug)]
pub(super) struct Probation {
    /// Number of the generation that is on probation.
    number: u64,
    /// Its whole time.
    time: Duration,
    until: Instant,
    /// The time of the next look.
    next: Instant,
    /// Percent of a site's responses that may be server errors.
    most_errors: u64,
    /// A reload is on probation, with all sites. Otherwise new releases are.
    is_reload: bool,
    fallback: FallbackGeneration,
    /// The responses of generations that the probation has left: a front that died, or one that
    /// another release has replaced.
    left: Vec<SiteErrors>,
}

impl Probation {
    fn is_reload(&self) -> bool {
        self.is_reload
    }

    /// Returns whether the responses of a site are judged.
    fn judges(&self, site: &str) -> bool {
        self.is_reload || self.fallback.held.iter().any(|held| held.site == site)
    }

    /// The responses that are judged, where `present` are those of the generation that serves, and
    /// excuses are not doubted yet.
    fn judged(&self, mut present: Vec<SiteErrors>) -> Vec<SiteErrors> {
        for left in &self.left {
            match present.iter_mut().find(|site| site.name == left.name) {
                Some(site) => site.add(left),
                None => present.push(left.clone()),
            }
        }
        present.retain(|site| self.judges(&site.name));
        present
    }

    /// Returns why the probation has failed with the responses that are judged; `None` if it has
    /// not. Sites with fewer than `least` are not judged. `is_patient`: neither are sites whose
    /// clients have not come yet.
    fn failure(&self, least: u64, is_patient: bool, judged: &[SiteErrors]) -> Option<String> {
        let terms = Terms {
            most: self.most_errors,
            least,
            is_patient,
        };
        failure(terms, &self.fallback.answers, judged)
    }

    /// Returns whether time may still bring more responses, and clients.
    fn is_patient(&self, now: Instant) -> bool {
        !is_patience_over(self.time, self.until.saturating_duration_since(now))
    }

    /// Returns whether the generation is one to return to when another one replaces it at `now`:
    /// its time is over, or its new releases have answered, and not with errors.
    fn has_passed(&self, judged: &[SiteErrors], now: Instant) -> bool {
        let has_answered = |held: &HeldRelease| {
            judged.iter().any(|site| site.name == held.site && site.of_all().responses > 0)
        };
        let is_enough =
            now >= self.until || !self.is_reload && self.fallback.held.iter().all(has_answered);
        is_enough && self.failure(1, false, judged).is_none()
    }
}

impl Supervisor {
    /// Begins the probation of a generation that is about to serve, if `cause` and `plan` are of a
    /// reload with one. The former generations must not be drained yet.
    pub(super) fn begin_probation(
        &mut self,
        number: u64,
        cause: ChangeCause,
        (plan, new_releases): (&GenerationPlan, Vec<HeldRelease>),
    ) {
        match cause {
            // The same configuration in another generation.
            ChangeCause::FrontDied | ChangeCause::ListenerFound => {
                return self.go_on_with_probation(number);
            }
            // The reload is on probation, and goes on to be.
            ChangeCause::NewRelease
                if self.probation.as_ref().is_some_and(Probation::is_reload) =>
            {
                return self.go_on_with_probation(number);
            }
            // A further release is not served or waits, and that on probation goes on to be.
            ChangeCause::HeldRelease if self.probation.is_some() => {
                return self.go_on_with_probation(number);
            }
            ChangeCause::Reload | ChangeCause::NewRelease => {}
            ChangeCause::Start
            | ChangeCause::TakeOver
            | ChangeCause::HeldRelease
            | ChangeCause::RollBack => {
                return self.end_probation();
            }
        }
        self.rolled_back = None;
        let now = Instant::now();
        let judged = self.judged_at(now).unwrap_or_default();
        // A generation that has not passed its own probation is nothing to return to.
        let former = self.probation.take().filter(|former| !former.has_passed(&judged, now));
        let former = former.map(|former| former.fallback);
        let fallback = former.or_else(|| self.fallback());
        let time = plan.config.probation.filter(|time| !time.is_zero());
        let (Some(time), Some(mut fallback)) = (time, fallback) else {
            return self.end_probation();
        };
        fallback.note_releases(new_releases);
        for former in &mut self.generations {
            match former.number == fallback.number {
                true => former.keeps_standbys = true,
                false => former.end_kept_standbys(),
            }
        }
        self.probation = Some(Probation {
            number,
            time,
            until: now + time,
            next: now + LOOK,
            most_errors: plan.config.probation_errors,
            is_reload: cause == ChangeCause::Reload,
            fallback,
            left: Vec::new(),
        });
    }

    /// Lets the probation go on in another generation.
    fn go_on_with_probation(&mut self, number: u64) {
        let left = self.judged();
        if let Some(probation) = &mut self.probation {
            probation.number = number;
            probation.left = left.unwrap_or_default();
        }
    }

    /// The responses that a probation judges at `now`; `None` without one.
    fn judged_at(&self, now: Instant) -> Option<Vec<SiteErrors>> {
        let (probation, judged) = self.probation.as_ref().zip(self.judged())?;
        Some(match probation.is_patient(now) {
            true => judged,
            false => judged.into_iter().map(SiteErrors::without_patience).collect(),
        })
    }

    /// The responses that a probation judges, with excuses that may turn out to be none; `None`
    /// without a probation.
    fn judged(&self) -> Option<Vec<SiteErrors>> {
        let probation = self.probation.as_ref()?;
        let on_probation = self.generations.iter().find(|one| one.number == probation.number);
        let counters = on_probation.and_then(|generation| generation.counters.as_ref());
        let present = counters.map(|counters| counters.server_errors());
        Some(probation.judged(present.unwrap_or_default()))
    }

    /// The time of the next look at the responses of the generation that serves; `None` where no
    /// reload has a probation.
    pub(super) fn former_answers_due(&self) -> Option<Instant> {
        self.current.as_ref()?.config.probation.filter(|time| !time.is_zero())?;
        self.former_answers.due.filter(|_| !self.stopping)
    }

    /// Notes the responses of the generation that serves, if it is time.
    pub(super) fn note_former_answers(&mut self, now: Instant) {
        let has_probation = self.current.as_ref().is_some_and(|one| one.config.probation.is_some());
        if !has_probation || self.former_answers.due.is_some_and(|due| now < due) {
            return;
        }
        self.former_answers.due = Some(now + BETWEEN_LOOKS);
        let mut generations = self.generations.iter();
        let serving = generations.find(|one| one.phase == GenerationPhase::Serving);
        let counted = serving.and_then(|one| Some((one.number, one.counters.as_ref()?)));
        if let Some((number, counters)) = counted {
            self.former_answers.note(number, counters.server_errors());
        }
    }

    /// Forgets the probation, and ends what was kept for a return.
    pub(super) fn end_probation(&mut self) {
        self.probation = None;
        self.generations.iter_mut().for_each(Generation::end_kept_standbys);
    }

    /// Returns whether `howdah reload` is answered later, when the probation is over.
    pub(super) fn awaits_probation(&self) -> bool {
        self.probation.as_ref().is_some_and(|probation| probation.time <= AWAITED)
    }

    /// Answers the clients that wait for the end of a probation, because another reload begins.
    pub(super) fn answer_before_next_reload(&mut self) {
        if self.awaits_probation()
            && let Some(number) = self.probation.as_ref().map(|probation| probation.number)
        {
            let told = self.describe_success(number);
            self.answer_reload(Ok(&told));
        }
    }

    /// The time of the next look at the counters. `None`: nothing is on probation.
    pub(super) fn probation_due(&self) -> Option<Instant> {
        let probation = self.probation.as_ref().filter(|_| !self.stopping);
        probation.filter(|_| !self.is_changing()).map(|one| one.next.min(one.until))
    }

    /// Looks at the counters of the generation that is on probation, if it is time.
    pub(super) fn look_at_probation(&mut self, now: Instant) {
        if self.probation_due().is_none_or(|due| now < due) {
            return;
        }
        let Some((probation, judged)) = self.probation.as_ref().zip(self.judged_at(now)) else {
            return;
        };
        let (number, is_over) = (probation.number, now >= probation.until);
        let failure = probation.failure(LEAST_RESPONSES, probation.is_patient(now), &judged);
        self.probation.iter_mut().for_each(|probation| probation.next = now + LOOK);
        match failure {
            Some(why) => self.roll_back(&why),
            None if is_over => {
                self.say(Level::Notice, &format!("the probation of generation {number} is over"));
                self.end_probation();
                let mut told = self.describe_success(number);
                let end = told.find('\n').unwrap_or(told.len());
                told.insert_str(end, "; its probation is over");
                self.answer_reload(Ok(&told));
            }
            None => {}
        }
    }

    /// Describes the probation, or how it ended, for `howdah status`. `None`: there was no
    /// probation.
    pub(super) fn describe_probation(&self) -> Option<String> {
        let probation =
            self.probation.as_ref().map(|Probation { number, until, fallback, .. }| {
                let left = until.saturating_duration_since(Instant::now()).as_secs();
                let former = fallback.number;
                format!("generation {number} is on probation for {left} s; before it: {former}")
            });
        probation.or_else(|| self.rolled_back.clone())
    }
}
