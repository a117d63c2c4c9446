//! The conditions of a rule.

use super::RewriteRun;
use crate::modules::rewrite::alternatives::Alternatives;
use crate::modules::rewrite::condition::{ConditionTest, RewriteCondition};
use crate::modules::rewrite::expansion::RewriteError;
use crate::modules::rewrite::look_ahead;
use crate::modules::rewrite::rule::RewriteRule;
use crate::modules::rewrite::template::Template;
use crate::modules::rewrite::trace;
use crate::subrequest;

impl RewriteRun<'_, '_> {
    /// Returns whether the conditions hold: all, or one of those joined by `OR`.
    ///
    /// # Errors
    /// The work is too much, or an expansion is too long.
    pub(super) fn conditions(&mut self, rule: &RewriteRule) -> Result<bool, RewriteError> {
        let conditions = &*rule.conditions;
        let is_traced = self.transaction.is_traced();
        let mut at = 0;
        while let Some(mut condition) = conditions.get(at) {
            let list = rule.alternatives.iter().find(|list| list.from == at && !is_traced);
            let holds = match list {
                Some(list) => {
                    let found = self.alternatives(condition, list)?;
                    at = found.unwrap_or(list.to - 1);
                    condition = &conditions[at];
                    found.is_some()
                }
                None => self.condition(condition, rule.captures_conditions)?,
            };
            if !holds {
                if !condition.or_next {
                    return Ok(false);
                }
                at += 1;
                continue;
            }
            if !condition.vary.is_empty() {
                self.vary.push(at);
            }
            while conditions.get(at).is_some_and(|condition| condition.or_next) {
                at += 1;
            }
            at += 1;
        }
        Ok(true)
    }

    fn condition(
        &mut self,
        condition: &RewriteCondition,
        captures: bool,
    ) -> Result<bool, RewriteError> {
        if let ConditionTest::Expression(_) = condition.test {
            let holds = self.expression(condition);
            self.charge(0)?;
            return Ok(holds);
        }
        self.look_ahead(&condition.subject);
        let is_traced = self.transaction.is_traced();
        let meter = self.transaction.client.meter();
        let (expansion, context, known, spare) = self.parts();
        let subject = condition.subject(&expansion, context)?;
        let length = subject.len();
        let wanted = if captures || is_traced { Some(spare) } else { None };
        let captures = wanted.is_some()
            && !condition.negated
            && matches!(condition.test, ConditionTest::Regex(_));
        let decided = condition.holds(&subject, &known, context, wanted, meter)?;
        let subject = (is_traced || decided.is_none()).then(|| subject.into_owned());
        self.charge(length)?;
        let holds = match (decided, &subject) {
            (Some(holds), _) => holds,
            (None, subject) => self.subrequest(condition, subject.as_deref().unwrap_or_default()),
        };
        if holds && captures {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        if is_traced {
            let subject = subject.unwrap_or_default();
            trace::condition(self.transaction, condition, &subject, &self.by_condition, holds);
        }
        Ok(holds)
    }

    /// Returns the first condition of a list that holds.
    fn alternatives(
        &mut self,
        first: &RewriteCondition,
        list: &Alternatives,
    ) -> Result<Option<usize>, RewriteError> {
        self.look_ahead(&first.subject);
        let mut candidates = std::mem::take(&mut self.candidates);
        let meter = self.transaction.client.meter();
        let (expansion, context, _, spare) = self.parts();
        let subject = first.subject(&expansion, context)?;
        let found = list.set.first_match(&subject, &mut candidates, spare, meter)?;
        let length = subject.len();
        self.candidates = candidates;
        self.charge(length)?;
        if found.is_some() {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        Ok(found.map(|found| list.from + found))
    }

    /// Returns whether a condition with a sub-request holds.
    fn subrequest(&mut self, condition: &RewriteCondition, subject: &[u8]) -> bool {
        let passes = match condition.test {
            ConditionTest::Url => subrequest::is_url(self.transaction, subject, self.context),
            _ => subrequest::is_file(self.transaction, subject, self.context),
        };
        passes != condition.negated
    }

    /// Makes the sub-requests that a string needs.
    pub(super) fn look_ahead(&mut self, template: &Template) {
        if !template.looks_ahead(false) && !template.looks_ahead(true) {
            return;
        }
        let subject = self.subject(false).to_vec();
        self.ahead =
            look_ahead::look(template, &subject, self.config, self.transaction, self.context);
    }

    /// Returns whether an expression holds. One that cannot be evaluated does not.
    fn expression(&mut self, condition: &RewriteCondition) -> bool {
        let ConditionTest::Expression(expression) = &condition.test else {
            return false;
        };
        self.spare.clear();
        let result = expression.holds(self.transaction, self.context, &mut self.spare);
        let passes = *result.as_ref().unwrap_or(&false);
        if passes && !condition.negated {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        let holds = passes != condition.negated;
        if self.transaction.client.meter().is_exhausted() {
            // The evaluation ends here.
            self.transaction.complain(Some(&condition.place), "");
        }
        let text = result.err().unwrap_or_default();
        trace::condition(self.transaction, condition, text.as_bytes(), &self.by_condition, holds);
        holds
    }
}
