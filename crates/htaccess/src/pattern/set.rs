//! Many patterns at once: which of them may match a subject, found in one pass over it.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{Captures, Pattern, literals, syntax};
use crate::work::{Exhausted, Meter};

/// Patterns in order, with the words that a subject must contain for each.
///
/// For a pattern either the words are known of which a match must contain one, or nothing is. All
/// words are searched for at once; only patterns with a word in the subject, and those without
/// known words, are tried.
pub struct PatternSet {
    patterns: Box<[Arc<Pattern>]>,
    /// The searches for the words, [`WORDS`] in each.
    automata: Box<[AhoCorasick]>,
    /// The index in `owners` where a word's patterns begin; after the last word's, the end.
    owners_at: Box<[u32]>,
    owners: Box<[u32]>,
    /// The patterns that are always tried, in order.
    always: Box<[u32]>,
}

/// The patterns that may match a subject, in order. Reused, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    seen: Vec<u64>,
    list: Vec<u32>,
}

/// The bytes of all words together at most; the words of further patterns are not searched for.
const BYTES: usize = 8 << 20;

/// The words of one automaton. The time to build one grows with the square of its words: 60,000
/// would take twenty seconds.
const WORDS: usize = 4096;

impl PatternSet {
    /// Returns a set of patterns, in this order.
    pub fn new(patterns: Vec<Arc<Pattern>>) -> PatternSet {
        let (mut always, mut words, mut bytes) =
            (Vec::new(), HashMap::<Vec<u8>, Vec<u32>>::new(), 0);
        for (index, pattern) in patterns.iter().enumerate() {
            let tree = syntax::parse(pattern.text(), pattern.is_caseless());
            let own = tree.and_then(|tree| literals::of(&tree)).unwrap_or_default();
            bytes += own.iter().map(Vec::len).sum::<usize>();
            if own.is_empty() || bytes > BYTES {
                always.push(index as u32);
                continue;
            }
            for word in own {
                let owners = words.entry(word).or_default();
                if owners.last() != Some(&(index as u32)) {
                    owners.push(index as u32);
                }
            }
        }
        let mut words: Vec<(Vec<u8>, Vec<u32>)> = words.into_iter().collect();
        words.sort();
        let automata: Option<Box<[AhoCorasick]>> = words.chunks(WORDS).map(automaton).collect();
        if automata.is_none() {
            always = (0..patterns.len() as u32).collect();
        }
        let mut owners_at = vec![0];
        owners_at.extend(words.iter().scan(0, |end, (_, owners)| {
            *end += owners.len() as u32;
            Some(*end)
        }));
        PatternSet {
            patterns: patterns.into(),
            automata: automata.unwrap_or_default(),
            owners_at: owners_at.into(),
            owners: words.into_iter().flat_map(|(_, owners)| owners).collect(),
            always: always.into(),
        }
    }

    /// Returns the patterns.
    pub fn patterns(&self) -> &[Arc<Pattern>] {
        &self.patterns
    }

    /// Returns the places of the patterns that may match, in order. All others do not.
    pub fn candidates<'c>(
        &self,
        subject: &[u8],
        candidates: &'c mut Candidates,
        meter: Meter<'_>,
    ) -> &'c [u32] {
        let Candidates { seen, list } = candidates;
        list.clear();
        list.extend_from_slice(&self.always);
        let words = self.owners_at.len() as u64 / 64;
        let searches = self.automata.len().max(1) as u64;
        let steps = 1 + searches * subject.len() as u64 / 2 + self.always.len() as u64 / 8 + words;
        if meter.spend(steps).is_err() {
            return list;
        }
        seen.clear();
        seen.resize(self.owners_at.len().div_ceil(64), 0);
        for (part, automaton) in self.automata.iter().enumerate() {
            for found in automaton.find_overlapping_iter(subject) {
                let word = part * WORDS + found.pattern().as_usize();
                let (slot, bit) = (&mut seen[word / 64], 1 << (word % 64));
                if *slot & bit == 0 {
                    *slot |= bit;
                    let owners = self.owners_at[word] as usize..self.owners_at[word + 1] as usize;
                    list.extend_from_slice(&self.owners[owners]);
                }
            }
        }
        meter.note(list.len() as u64 - self.always.len() as u64);
        if list.len() > self.always.len() {
            list.sort_unstable();
            list.dedup();
        }
        list
    }

    /// Returns the place of the first pattern that matches. `captures` gets what its groups
    /// captured.
    ///
    /// # Errors
    /// Where a match takes too many steps.
    pub fn first_match(
        &self,
        subject: &[u8],
        candidates: &mut Candidates,
        captures: &mut Captures,
        meter: Meter<'_>,
    ) -> Result<Option<usize>, Exhausted> {
        for &index in self.candidates(subject, candidates, meter) {
            if self.patterns[index as usize].captures(subject, captures, meter)? {
                return Ok(Some(index as usize));
            }
        }
        Ok(None)
    }
}

fn automaton(words: &[(Vec<u8>, Vec<u32>)]) -> Option<AhoCorasick> {
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind((words.len() > 100).then_some(AhoCorasickKind::ContiguousNFA))
        .ascii_case_insensitive(true)
        .build(words.iter().map(|(word, _)| word));
    automaton.ok()
}

impl std::fmt::Debug for PatternSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.patterns).finish()
    }
}
