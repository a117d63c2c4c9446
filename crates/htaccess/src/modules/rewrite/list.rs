//! The rules of a folder, in order, found without trying one after the other.

use std::sync::{Arc, OnceLock};

use super::index::{FEWEST, MatchingRules, RuleIndex};
use super::rule::{RewriteRule, Switches};
use crate::work::{self, Meter};

/// Rules in the order in which they are tried. They are in parts, one for each file that they come
/// from, and each part has its own index: so files of thousands of rules are indexed once, however
/// many folders inherit them.
#[derive(Clone, Debug, Default)]
pub(super) struct RewriteRules {
    /// The place of each part's first rule, and the part. No part is empty.
    parts: Vec<(usize, Arc<RulePart>)>,
}

/// Rules with their index.
#[derive(Debug, Default)]
struct RulePart {
    rules: Vec<Arc<RewriteRule>>,
    /// Built on first use: while a file is read, rules are added.
    index: OnceLock<RuleIndex>,
}

impl Clone for RulePart {
    /// Copies the rules without the index, so that rules can be added.
    fn clone(&self) -> RulePart {
        RulePart {
            rules: self.rules.clone(),
            index: OnceLock::new(),
        }
    }
}

impl RewriteRules {
    /// Returns whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, |(start, part)| start + part.rules.len())
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Adds a rule at the end, while a file is read.
    pub fn push(&mut self, rule: RewriteRule) {
        if self.parts.is_empty() {
            self.parts.push((0, Arc::default()));
        }
        if let Some((_, part)) = self.parts.last_mut() {
            let part = Arc::make_mut(part);
            part.index = OnceLock::new();
            part.rules.push(Arc::new(rule));
        }
    }

    /// Returns the rules of `first`, then those of `second`.
    pub fn joined(first: &Arc<RewriteRules>, second: &Arc<RewriteRules>) -> Arc<RewriteRules> {
        if first.is_empty() || second.is_empty() {
            return Arc::clone(if first.is_empty() { second } else { first });
        }
        let before = first.len();
        let behind = second.parts.iter().map(|(start, part)| (before + start, Arc::clone(part)));
        let parts = first.parts.iter().cloned().chain(behind).collect();
        Arc::new(RewriteRules { parts })
    }

    /// Returns the rule at a place. `None` if there are fewer.
    pub fn get(&self, place: usize) -> Option<&RewriteRule> {
        let (start, part) = match &self.parts[..] {
            [only] => only,
            parts => {
                parts.get(parts.partition_point(|(start, _)| *start <= place).checked_sub(1)?)?
            }
        };
        part.rules.get(place - start).map(|rule| &**rule)
    }

    /// Makes what the first request would have to wait for.
    pub fn prepare(&self) {
        for (_, part) in &self.parts {
            part.index(Meter::unlimited());
        }
    }

    /// Returns whether there are enough rules for a look-up of those that may match.
    pub fn are_many(&self) -> bool {
        self.len() >= FEWEST
    }

    /// Finds the rules that may match a path, which is given without and with its first slash. A
    /// part with few rules may match.
    pub fn chart(&self, subjects: [&[u8]; 2], matching: &mut MatchingRules, meter: Meter<'_>) {
        matching.begin(subjects[0]);
        for (start, part) in &self.parts {
            match part.index(meter) {
                Some(index) => index.chart(*start, subjects, matching, meter),
                None => matching.add_all(*start..start + part.rules.len()),
            }
        }
        matching.end(meter);
    }

    /// Returns the first rule from `at` on that may match. `None` if no further rule can match.
    pub fn next(&self, at: usize, matching: &MatchingRules) -> Option<usize> {
        if self.is_chained(at) {
            return Some(at);
        }
        // A rule after one with `C` counts only when its chain reaches it.
        matching.from(at).find(|&place| !self.is_chained(place))
    }

    /// Returns whether the rule at a place follows one with `C`.
    fn is_chained(&self, place: usize) -> bool {
        let before = place.checked_sub(1).and_then(|before| self.get(before));
        before.is_some_and(|before| before.has(Switches::CHAIN)) && place < self.len()
    }
}

impl RulePart {
    /// Returns the index. `None` where there are too few rules for it, or where there is none yet
    /// and the meter has no steps for it: an event loop makes no index that takes long.
    fn index(&self, meter: Meter<'_>) -> Option<&RuleIndex> {
        if self.rules.len() < FEWEST {
            return None;
        }
        if self.index.get().is_none() {
            meter.spend(work::INDEXING * self.rules.len() as u64).ok()?;
        }
        Some(self.index.get_or_init(|| RuleIndex::new(&self.rules)))
    }
}
