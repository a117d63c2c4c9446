//! The rules, applied to a request one after the other.

mod conditions;
mod effects;

use crate::evaluation_context::EvaluationContext;
use crate::modules::rewrite;
use crate::modules::rewrite::condition::KnownFile;
use crate::modules::rewrite::expansion::{Expansion, RewriteError};
use crate::modules::rewrite::index::MatchingRules;
use crate::modules::rewrite::look_ahead::LookAhead;
use crate::modules::rewrite::notes;
use crate::modules::rewrite::rule::{RewriteRule, Switches};
use crate::modules::rewrite::trace;
use crate::pattern::{Candidates, Captures};
use crate::transaction::{RequestState, Transaction};
use crate::work;

/// The application of rules to a request.
pub(super) struct RewriteRun<'a, 'r> {
    /// The request, whose file name, query and PATH_INFO the rules change.
    pub transaction: &'a mut Transaction<'r>,
    /// Answers questions about the host and about sub-requests.
    pub context: &'a mut dyn EvaluationContext,
    config: &'a rewrite::Config,
    /// The file name before any rule changed it; `None` while none has.
    original: Option<Vec<u8>>,
    /// The query before any rule changed the URL; `None` while none has.
    original_args: Option<Option<Vec<u8>>>,
    /// The status of a redirect (`r->status`).
    pub status: u16,
    /// The media type of `T=`.
    pub media_type: Option<Vec<u8>>,
    /// The handler of `H=`.
    pub handler: Option<Vec<u8>>,
    /// File name and PATH_INFO, where there is any.
    joined: Vec<u8>,
    /// Whether the file name has changed since they were joined.
    is_stale: bool,
    by_rule: Captures,
    by_condition: Captures,
    spare: Captures,
    ahead: LookAhead,
    matching: MatchingRules,
    candidates: Candidates,
    /// The conditions that held and whose request fields go into Vary.
    vary: Vec<usize>,
}

/// The result of all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RulesOutcome {
    /// No rule has changed the URL.
    Unchanged,
    /// The file name is another URL or path now; `escape` says that a redirect to it is to be
    /// escaped.
    Changed { escape: bool },
    /// The answer is a status.
    Status(u16),
}

/// The result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppliedRule {
    /// Pattern or conditions do not hold.
    Not,
    /// Pattern and conditions hold, and the URL stays.
    Kept,
    /// Pattern and conditions hold, and the URL is another.
    Changed,
    /// Pattern and conditions hold, but the resulting URL is refused.
    Refused,
}

/// The longest rewritten path: twice the 8,190 bytes of `LimitRequestLine`'s default. A longer one
/// is answered with 500.
const LONGEST_PATH: usize = 16_380;

impl<'a, 'r> RewriteRun<'a, 'r> {
    /// Returns the state before the first rule.
    pub fn new(
        transaction: &'a mut Transaction<'r>,
        config: &'a rewrite::Config,
        context: &'a mut dyn EvaluationContext,
    ) -> RewriteRun<'a, 'r> {
        RewriteRun {
            status: transaction.state.status.code(),
            transaction,
            context,
            config,
            original: None,
            original_args: None,
            media_type: None,
            handler: None,
            joined: Vec::new(),
            is_stale: true,
            by_rule: Captures::default(),
            by_condition: Captures::default(),
            spare: Captures::default(),
            ahead: LookAhead::default(),
            matching: MatchingRules::default(),
            candidates: Candidates::default(),
            vary: Vec::new(),
        }
    }

    /// Returns the file name before any rule changed it; `None` while none has.
    pub fn take_original(&mut self) -> Option<Vec<u8>> {
        self.original.take()
    }

    /// Returns whether the query is the one that the request came with; there has to be one.
    pub fn has_first_query(&self) -> bool {
        self.original_args
            .as_ref()
            .is_none_or(|first| first.is_some() && *first == self.transaction.state.args)
    }

    /// Logs the rule at which the evaluation failed.
    fn complain(&mut self, rule: &RewriteRule, failure: RewriteError) -> RewriteError {
        let message = format!("mod_rewrite: {}", failure.as_str());
        self.transaction.complain(Some(&rule.place), message);
        failure
    }

    /// Applies all rules in their order (`apply_rewrite_list`).
    ///
    /// # Errors
    /// Where the rules take too much work, or an expansion is too long.
    pub fn all(&mut self) -> Result<RulesOutcome, RewriteError> {
        let rules = &self.config.rules;
        // With a trace, every rule is tried.
        let is_charted = rules.are_many() && !self.transaction.is_traced();
        let is_subrequest = self.transaction.state.is_subrequest;
        let mut outcome = RulesOutcome::Unchanged;
        let mut round = 1;
        let mut at = 0;
        loop {
            self.join(is_charted);
            if is_charted {
                at = rules.next(at, &self.matching).unwrap_or(rules.len());
            }
            let Some(rule) = rules.get(at) else {
                return Ok(outcome);
            };
            if is_subrequest
                && (rule.has(Switches::NOT_ON_SUBREQUEST) || rule.has(Switches::REDIRECT))
            {
                at += 1;
                continue;
            }
            let applied = self.one(rule).map_err(|failure| self.complain(rule, failure))?;
            if applied == AppliedRule::Not {
                while rules.get(at).is_some_and(|rule| rule.has(Switches::CHAIN)) {
                    at += 1;
                }
                at += 1;
                continue;
            }
            if let Some(last) = self.conclude(rule, applied, &mut outcome) {
                return Ok(last);
            }
            if rule.has(Switches::NEXT_ROUND) {
                round += 1;
                if round >= rule.effects.rounds {
                    self.complain_of_rounds(rule);
                    return Ok(RulesOutcome::Status(500));
                }
                at = 0;
                continue;
            }
            at += 1 + rule.effects.skip;
        }
    }

    /// Notes the result of a rule that was applied in `outcome`. Returns the outcome of all rules
    /// where this one is the last; `None` where others follow.
    fn conclude(
        &mut self,
        rule: &RewriteRule,
        applied: AppliedRule,
        outcome: &mut RulesOutcome,
    ) -> Option<RulesOutcome> {
        if self.is_too_long(rule) {
            return Some(RulesOutcome::Status(500));
        }
        self.note_vary(rule);
        if applied == AppliedRule::Refused {
            return Some(RulesOutcome::Status(403));
        }
        if rule.has(Switches::STATUS) {
            return Some(RulesOutcome::Status(rule.effects.status));
        }
        if applied == AppliedRule::Changed {
            let escape = !rule.has(Switches::NO_ESCAPE);
            *outcome = RulesOutcome::Changed { escape };
        }
        if rule.has(Switches::PASS_THROUGH) {
            let name = [PASS_THROUGH, &self.transaction.state.filename].concat();
            self.rename(name);
            return Some(RulesOutcome::Changed { escape: true });
        }
        if rule.has(Switches::END) {
            notes::note_end(&mut self.transaction.state);
        }
        let ends = [Switches::END, Switches::PROXY, Switches::LAST];
        ends.into_iter().any(|switch| rule.has(switch)).then_some(*outcome)
    }

    /// Applies one rule (`apply_rewrite_rule`).
    fn one(&mut self, rule: &RewriteRule) -> Result<AppliedRule, RewriteError> {
        let subject = self.subject(rule.sees_slash);
        let length = subject.len();
        let matches = rule.pattern.is_match(subject, self.transaction.client.meter())?;
        self.charge(length)?;
        if self.transaction.is_traced() {
            self.trace_pattern(rule, matches)?;
        }
        if matches == rule.negated {
            return Ok(AppliedRule::Not);
        }
        if rule.captures_conditions {
            self.by_condition.clear();
        }
        self.vary.clear();
        if rule.conditions_refer {
            self.capture(rule)?;
        }
        if !self.conditions(rule)? {
            return Ok(AppliedRule::Not);
        }
        if rule.output_refers && !rule.conditions_refer {
            self.capture(rule)?;
        }
        let mut result = None;
        if !rule.has(Switches::KEEP) {
            let Some(text) = self.substitute(rule)? else {
                return Ok(AppliedRule::Refused);
            };
            result = Some(text);
        }
        self.set_variables(rule)?;
        let Some(result) = result else {
            self.force_type(rule)?;
            trace::kept(self.transaction, rule);
            return Ok(AppliedRule::Kept);
        };
        self.take(rule, result)?;
        trace::changed(self.transaction, rule);
        Ok(AppliedRule::Changed)
    }

    /// Fills in what the rule's pattern captures.
    fn capture(&mut self, rule: &RewriteRule) -> Result<(), RewriteError> {
        if rule.negated {
            self.by_rule.clear();
            return Ok(());
        }
        let whole = whole(&self.transaction.state, &self.joined);
        let subject = below(whole, &self.config.directory, rule.sees_slash);
        let meter = self.transaction.client.meter();
        rule.pattern.captures(subject, &mut self.by_rule, meter)?;
        Ok(())
    }

    /// Appends PATH_INFO where the file name has changed, since rules are matched against both,
    /// and looks up the rules that may match.
    fn join(&mut self, is_charted: bool) {
        if !self.is_stale {
            return;
        }
        let state = &self.transaction.state;
        if !state.path_info.is_empty() {
            self.joined.clear();
            self.joined.extend_from_slice(&state.filename);
            self.joined.extend_from_slice(&state.path_info);
        }
        self.is_stale = false;
        if is_charted {
            let whole = whole(state, &self.joined);
            let subjects = [false, true].map(|slash| below(whole, &self.config.directory, slash));
            let meter = self.transaction.client.meter();
            self.config.rules.chart(subjects, &mut self.matching, meter);
        }
    }

    /// Returns the subject of rules: the path below their folder, with or without its first slash.
    fn subject(&self, slash: bool) -> &[u8] {
        let whole = whole(&self.transaction.state, &self.joined);
        below(whole, &self.config.directory, slash)
    }

    /// Returns the values that strings are expanded from, and the parts that change meanwhile.
    fn parts(
        &mut self,
    ) -> (Expansion<'_, 'r>, &mut dyn EvaluationContext, KnownFile<'_>, &mut Captures) {
        let state = &self.transaction.state;
        let expansion = Expansion {
            transaction: &*self.transaction,
            ahead: &self.ahead,
            rule: &self.by_rule,
            condition: &self.by_condition,
        };
        let known = KnownFile {
            filename: self.original.as_deref().unwrap_or(&state.filename),
            found: state.found,
        };
        (expansion, &mut *self.context, known, &mut self.spare)
    }

    fn rename(&mut self, name: Vec<u8>) {
        let before = std::mem::replace(&mut self.transaction.state.filename, name);
        self.original.get_or_insert(before);
        self.is_stale = true;
    }

    /// Counts the work of a rule or a condition that looks at or writes `bytes`.
    fn charge(&mut self, bytes: usize) -> Result<(), RewriteError> {
        let steps = work::RULE + bytes as u64 / 16;
        Ok(self.transaction.client.meter().spend(steps)?)
    }

    fn is_too_long(&mut self, rule: &RewriteRule) -> bool {
        let is_too_long = self.transaction.state.filename.len() > LONGEST_PATH;
        if is_too_long {
            let message = format!(
                "RewriteRule '{}' and URI '{}' exceeded maximum length ({LONGEST_PATH})",
                String::from_utf8_lossy(rule.pattern.text()),
                String::from_utf8_lossy(&self.transaction.state.uri)
            );
            self.transaction.complain(Some(&rule.place), message);
        }
        is_too_long
    }

    fn complain_of_rounds(&mut self, rule: &RewriteRule) {
        let message = format!(
            "AH02596: RewriteRule '{}' and URI '{}' exceeded maximum number of rounds ({}) via the \
             [N] flag",
            String::from_utf8_lossy(rule.pattern.text()),
            String::from_utf8_lossy(&self.transaction.state.uri),
            rule.effects.rounds
        );
        self.transaction.complain(Some(&rule.place), message);
    }

    fn trace_pattern(&mut self, rule: &RewriteRule, matches: bool) -> Result<(), RewriteError> {
        if matches {
            self.capture(rule)?;
        }
        let subject = self.subject(rule.sees_slash).to_vec();
        trace::pattern(self.transaction, rule, &subject, matches, &self.by_rule);
        Ok(())
    }
}

/// The prefix of a result for mod_proxy.
pub(super) const PROXY: &[u8] = b"proxy:";
/// The prefix of the result of a rule with `PT`.
pub(super) const PASS_THROUGH: &[u8] = b"passthrough:";

/// Returns the part of a path below a folder, with or without the slash before it. `directory` ends
/// in that slash.
fn below<'p>(path: &'p [u8], directory: &[u8], slash: bool) -> &'p [u8] {
    let directory = match directory {
        [before @ .., b'/'] if slash => before,
        whole => whole,
    };
    path.strip_prefix(directory).unwrap_or(path)
}

fn whole<'s>(state: &'s RequestState, joined: &'s [u8]) -> &'s [u8] {
    if state.path_info.is_empty() {
        &state.filename
    } else {
        joined
    }
}
