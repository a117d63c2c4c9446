//! The work that evaluating directives takes, counted in steps. The limit holds for everything that
//! is evaluated for one request: patterns, expressions, files that are asked for, sub-requests,
//! redirects.
//!
//! A step is roughly what PCRE2 counts as one: some nanoseconds. The counts are estimates that
//! never depend on a clock, so the same request takes the same work on every machine.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mistake::DirectivePlace;

/// The limit of the work for one request, and the work that is left.
#[derive(Debug)]
pub struct WorkBudget {
    most: u64,
    left: Cell<u64>,
    is_exhausted: Cell<bool>,
    /// The reason why the evaluation ended before the budget was used up.
    refusal: Cell<Option<&'static str>>,
    /// The first directive that failed because the budget was used up.
    place: OnceCell<Option<Arc<DirectivePlace>>>,
    jit: bool,
    counts_places: bool,
    /// Set by another thread when nobody waits for the result any more.
    abandoned: Option<Arc<AtomicBool>>,
}

/// Counts work against a [`WorkBudget`]; or against none, where directives are compiled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter<'b> {
    budget: Option<&'b WorkBudget>,
}

/// Work that was given up: a match takes too many steps, or the request's budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Steps of one question to the file system.
pub const PROBE: u64 = 500;
/// Steps of one folder of a path beyond the first [`SHALLOW`]. A folder that was not asked for
/// lately takes several system calls.
pub const FOLDER: u64 = 4_000;
/// Folders of a path that cost nothing.
pub const SHALLOW: usize = 16;
/// Steps of beginning a sub-request or an internal redirect.
pub const ROUND: u64 = 1_000;
/// Steps of preparing the search among many rules or redirects, for each of them.
pub const INDEXING: u64 = 500;
/// Steps of copying one directive's part of the settings.
pub const MERGING: u64 = 16;
/// Steps of one rule, condition or field, beside its patterns.
pub const RULE: u64 = 8;

/// Returns the steps of comparing `name` with the names of `fields` fields or variables.
#[inline]
pub fn comparing(fields: usize, name: &[u8]) -> u64 {
    fields as u64 * (1 + name.len() as u64 / 32) / 2
}

/// Returns the steps of copying or looking at `length` bytes.
#[inline]
pub fn bytes(length: usize) -> u64 {
    length as u64 / 16
}

impl WorkBudget {
    /// Returns a budget of `most` steps.
    pub fn new(most: u64) -> WorkBudget {
        WorkBudget {
            most,
            left: Cell::new(most),
            is_exhausted: Cell::new(false),
            refusal: Cell::new(None),
            place: OnceCell::new(),
            jit: false,
            counts_places: true,
            abandoned: None,
        }
    }

    /// Returns a budget of `most` steps for content, which is longer than anything in a request: an
    /// attempt at a match counts once, and not for each place where the match may begin.
    pub fn for_content(most: u64) -> WorkBudget {
        WorkBudget {
            counts_places: false,
            ..WorkBudget::new(most)
        }
    }

    /// Adds steps.
    pub fn add(&mut self, steps: u64) {
        self.most = self.most.saturating_add(steps);
        self.left.set(self.left.get().saturating_add(steps));
    }

    /// Returns the budget for patterns that PCRE2 translates to machine code, if `jit`.
    pub fn with_jit(self, jit: bool) -> WorkBudget {
        WorkBudget { jit, ..self }
    }

    /// Returns the budget for an evaluation that is given up, as if the budget were used up, once
    /// `abandoned` is set.
    pub fn until(self, abandoned: Arc<AtomicBool>) -> WorkBudget {
        WorkBudget { abandoned: Some(abandoned), ..self }
    }

    /// Returns whether nobody waits for the result any more.
    #[inline]
    fn is_abandoned(&self) -> bool {
        self.abandoned
            .as_ref()
            .is_some_and(|abandoned| abandoned.load(Ordering::Relaxed))
    }

    /// Returns the meter that counts against the budget.
    #[inline]
    pub fn meter(&self) -> Meter<'_> {
        Meter { budget: Some(self) }
    }

    /// Returns the steps of the whole budget.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns the steps that were taken.
    pub fn used(&self) -> u64 {
        self.most - self.left.get()
    }

    /// Returns whether more steps were wanted than there were. The evaluation has no valid result
    /// then.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Returns whether the evaluation ended before the budget was used up: a larger budget would
    /// change nothing.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.refusal.get().is_some()
    }
}

impl<'b> Meter<'b> {
    /// Returns the meter without a limit.
    pub const fn unlimited() -> Meter<'b> {
        Meter { budget: None }
    }

    /// Counts `steps`.
    ///
    /// # Errors
    /// Where fewer are left. Then every later call fails as well.
    #[inline]
    pub fn spend(self, steps: u64) -> Result<(), Exhausted> {
        let Some(budget) = self.budget else {
            return Ok(());
        };
        match budget.left.get().checked_sub(steps) {
            Some(left) if !budget.is_abandoned() => {
                budget.left.set(left);
                Ok(())
            }
            _ => {
                budget.left.set(0);
                budget.is_exhausted.set(true);
                Err(Exhausted)
            }
        }
    }

    /// Counts `steps` where the caller cannot fail. The evaluation's result is discarded at its
    /// end.
    #[inline]
    pub fn note(self, steps: u64) {
        // The budget keeps the failure.
        let _ = self.spend(steps);
    }

    /// Ends the evaluation as if the budget were used up. `reason` is the message for the log.
    pub(crate) fn refuse(self, reason: &'static str) -> Exhausted {
        if let Some(budget) = self.budget
            && !budget.is_exhausted.replace(true)
        {
            budget.left.set(0);
            budget.refusal.set(Some(reason));
        }
        Exhausted
    }

    /// Returns the line for the error log about an evaluation that has no valid result: the place
    /// of the directive that failed first, where it is known, and the message. `None` where the
    /// budget was enough.
    pub fn failure(self) -> Option<(Option<Arc<DirectivePlace>>, String)> {
        let budget = self.budget.filter(|budget| budget.is_exhausted())?;
        let place = budget.place.get().cloned().flatten();
        let message = match budget.refusal.get() {
            Some(reason) => format!("{reason}, so the request is answered with 500"),
            None => format!(
                "the directives take more work for this request than the {} steps that \
                 `htaccess_work` in [limits] allows, so it is answered with 500",
                budget.most
            ),
        };
        Some((place, message))
    }

    /// Returns whether the budget is used up.
    #[inline]
    pub fn is_exhausted(self) -> bool {
        self.budget.is_some_and(WorkBudget::is_exhausted)
    }

    /// Notes the place of the directive that failed because the budget is used up. Only the first
    /// place counts.
    pub(crate) fn blame(self, place: Option<&Arc<DirectivePlace>>) {
        if let Some(budget) = self.budget {
            budget.place.get_or_init(|| place.cloned());
        }
    }

    /// Returns whether an attempt at a match counts for each place where the match may begin.
    pub(crate) fn counts_places(self) -> bool {
        self.budget.is_none_or(|budget| budget.counts_places)
    }

    /// Returns whether PCRE2 may translate patterns to machine code.
    pub(crate) fn uses_jit(self) -> bool {
        self.budget.is_some_and(|budget| budget.jit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_once_and_for_all() {
        let budget = WorkBudget::new(100);
        let meter = budget.meter();
        assert_eq!(meter.spend(60), Ok(()));
        assert_eq!(meter.spend(40), Ok(()));
        assert!(!meter.is_exhausted());
        assert_eq!(budget.used(), 100);
        assert_eq!(meter.spend(0), Ok(()));
        assert_eq!(meter.spend(1), Err(Exhausted));
        assert!(meter.is_exhausted());
        assert_eq!(budget.used(), 100);
        let budget = WorkBudget::new(100);
        budget.meter().note(99);
        assert_eq!(budget.meter().spend(2), Err(Exhausted));
        assert_eq!(budget.meter().spend(1), Err(Exhausted), "what is left cannot be spent either");
        assert_eq!(Meter::unlimited().spend(u64::MAX), Ok(()));
    }

    #[test]
    fn an_evaluation_that_is_refused_has_its_reason() {
        let budget = WorkBudget::new(100);
        assert_eq!(budget.meter().failure(), None);
        let _ = budget.meter().refuse("too long");
        assert_eq!(budget.meter().spend(1), Err(Exhausted));
        assert!(budget.is_exhausted() && budget.is_refused());
        let message = "too long, so the request is answered with 500";
        assert_eq!(budget.meter().failure(), Some((None, message.to_owned())));
        let budget = WorkBudget::new(100);
        budget.meter().note(101);
        let _ = budget.meter().refuse("too long");
        assert!(!budget.is_refused(), "the budget was used up before");
        assert!(budget.meter().failure().unwrap().1.contains("100 steps"));
    }

    #[test]
    fn an_evaluation_that_nobody_waits_for_ends() {
        let abandoned = Arc::new(AtomicBool::new(false));
        let budget = WorkBudget::new(100).until(Arc::clone(&abandoned));
        assert_eq!(budget.meter().spend(60), Ok(()));
        abandoned.store(true, Ordering::Relaxed);
        assert_eq!(budget.meter().spend(1), Err(Exhausted));
        assert!(budget.is_exhausted());
    }
}
