//! The patterns that files use most, matched without PCRE2 and with the same result: words, one of
//! which must be somewhere, at the beginning or at the end, with `.*` or `.+` before or after them.
//!
//! `^$`, `^(.*)$`, `^index\.php$`, `^old/(.*)$`, `^(.+)\.html$`, `\.(css|js|png)$`,
//! `bot|crawl|spider`, `^feed/?$`.

mod part;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use memchr::memmem;

use super::Spans;
use super::syntax::{PatternNode, PatternTree, RepeatedNode};
use part::{BranchPart, fits};

/// A pattern that is matched by hand.
pub(super) enum Shape {
    /// `.` or `^.`: the first byte.
    First {
        anchored: bool,
    },
    Words(ShapeWords),
}

pub(super) struct ShapeWords {
    /// `.*` or `.+` before the words.
    lead: Option<DotRun>,
    /// The words in the order in which PCRE2 would try them at one place.
    words: Box<[ShapeWord]>,
    /// `.*` or `.+` after them.
    trail: Option<DotRun>,
    /// Whether the pattern begins with `^`.
    anchored: bool,
    at_start: bool,
    at_end: bool,
    caseless: bool,
    /// The search for a word within the subject; `None` where none is searched for there.
    finder: Option<Finder>,
}

/// `.*` or `.+`.
#[derive(Clone, Copy)]
struct DotRun {
    captures: bool,
    min: usize,
}

#[derive(Clone, Default)]
struct ShapeWord {
    bytes: Box<[u8]>,
    /// The ranges of groups in the word, outer ones first.
    groups: Box<[(u32, u32)]>,
}

enum Finder {
    One(Box<memmem::Finder<'static>>),
    /// Letters in both cases, found by the word's first byte.
    Caseless,
    Many(Box<AhoCorasick>),
}

/// The place where a word was found.
struct FoundWord<'s> {
    word: &'s ShapeWord,
    at: usize,
}

/// The words at most that are compared one after the other; PCRE2 matches more.
const COMPARED: usize = 64;

impl Shape {
    /// Returns the shape of a pattern. `None`: the pattern has none of these shapes, and PCRE2 has
    /// to match it.
    pub(super) fn of(tree: &PatternTree) -> Option<Shape> {
        if tree.groups > 9 {
            return None;
        }
        if let [branch] = &tree.branches[..]
            && let [rest @ .., last] = &branch[..]
            && matches!(last.node, PatternNode::Any)
            && last.is_once()
        {
            let anchored = matches!(rest, [RepeatedNode { node: PatternNode::Start, .. }]);
            return (rest.is_empty() || anchored).then_some(Shape::First { anchored });
        }
        ShapeWords::of(tree).map(Shape::Words)
    }

    pub(super) fn has_groups(&self) -> bool {
        match self {
            Shape::First { .. } => false,
            Shape::Words(words) => {
                let runs = [words.lead, words.trail];
                runs.into_iter().flatten().any(|run| run.captures)
                    || words.words.iter().any(|word| !word.groups.is_empty())
            }
        }
    }

    /// Finds the first match. `None`: there is none.
    #[inline]
    pub(super) fn find(&self, subject: &[u8]) -> Option<(usize, usize)> {
        match self {
            Shape::First { .. } => (!subject.is_empty()).then_some((0, 1)),
            Shape::Words(words) => words.find(subject).map(|found| words.whole(&found, subject)),
        }
    }

    /// Finds the first match at or after `from`, which is not 0. `None`: there is none.
    pub(super) fn find_from(&self, subject: &[u8], from: usize) -> Option<(usize, usize)> {
        let anchored = match self {
            Shape::First { anchored } => *anchored,
            Shape::Words(words) => words.anchored,
        };
        if anchored {
            return None;
        }
        let (start, end) = self.find(subject.get(from..)?)?;
        Some((start + from, end + from))
    }

    /// Finds the first match and its groups. `None`: there is no match.
    pub(super) fn spans(&self, subject: &[u8]) -> Option<Spans> {
        let mut spans = Spans::default();
        let Shape::Words(words) = self else {
            spans.push(Some(self.find(subject)?));
            return Some(spans);
        };
        let found = words.find(subject)?;
        spans.push(Some(words.whole(&found, subject)));
        if words.lead.is_some_and(|lead| lead.captures) {
            spans.push(Some((0, found.at)));
        }
        for (start, end) in &found.word.groups {
            spans.push(Some((found.at + *start as usize, found.at + *end as usize)));
        }
        if words.trail.is_some_and(|trail| trail.captures) {
            spans.push(Some((found.at + found.word.bytes.len(), subject.len())));
        }
        Some(spans)
    }
}

impl ShapeWords {
    fn of(tree: &PatternTree) -> Option<ShapeWords> {
        let mut branches = tree.branches.iter().map(BranchPart::of);
        let mut first = branches.next()??;
        for part in branches {
            let part = part?;
            let plain = [&first, &part]
                .into_iter()
                .all(|part| part.lead.is_none() && part.trail.is_none());
            if !plain
                || tree.groups > 0
                || (part.at_start, part.at_end) != (first.at_start, first.at_end)
            {
                return None;
            }
            first.words.extend(part.words);
        }
        fits(&first.words)?;
        let BranchPart { lead, words, trail, at_start, at_end } = first;
        let caseless = tree.caseless
            && words.iter().any(|word| word.bytes.iter().any(u8::is_ascii_alphabetic));
        let anchored = at_start;
        // `.*` before the words begins where the subject does, and `.*` after them reaches its end.
        let at_start = at_start && lead.is_none();
        let at_end = at_end && trail.is_none();
        let one_by_one = lead.is_some() || at_start || at_end;
        if one_by_one && words.len() > COMPARED {
            return None;
        }
        // The first word found within the subject must not depend on the rest of the subject.
        if !one_by_one && words.len() > 1 && trail.is_some_and(|trail| trail.min > 0) {
            return None;
        }
        let finder = match one_by_one {
            true => None,
            false => Some(Finder::of(&words, caseless)?),
        };
        Some(ShapeWords {
            lead,
            words: words.into(),
            trail,
            anchored,
            at_start,
            at_end,
            caseless,
            finder,
        })
    }

    fn whole(&self, found: &FoundWord<'_>, subject: &[u8]) -> (usize, usize) {
        let start = if self.lead.is_some() { 0 } else { found.at };
        let end = match self.trail {
            Some(_) => subject.len(),
            None => found.at + found.word.bytes.len(),
        };
        (start, end)
    }

    fn find(&self, subject: &[u8]) -> Option<FoundWord<'_>> {
        let rest = self.trail.map_or(0, |trail| trail.min);
        // The offset at which a word has to end.
        let room = subject.len().checked_sub(rest)?;
        if let Some(lead) = self.lead {
            return self.find_last(subject, lead.min, room);
        }
        let stands = |word: &&ShapeWord, at: usize| self.stands(word, subject, at, room);
        let found = match (&self.finder, self.at_start, self.at_end) {
            (_, true, true) => {
                let word =
                    self.words.iter().find(|word| word.bytes.len() == room && stands(word, 0))?;
                FoundWord { word, at: 0 }
            }
            (_, true, false) => {
                let word = self.words.iter().find(|word| stands(word, 0))?;
                FoundWord { word, at: 0 }
            }
            (_, false, true) => self.find_suffix(subject)?,
            (Some(finder), false, false) => self.find_first(finder, subject, room)?,
            (None, false, false) => unreachable!("what is looked for in the midst has a finder"),
        };
        Some(found)
    }

    /// Returns the longest word that the subject ends with: it begins first.
    fn find_suffix(&self, subject: &[u8]) -> Option<FoundWord<'_>> {
        let mut longest: Option<FoundWord<'_>> = None;
        for word in &self.words {
            let Some(at) = subject.len().checked_sub(word.bytes.len()) else {
                continue;
            };
            let is_longer = longest.as_ref().is_none_or(|longest| at < longest.at);
            if is_longer && self.stands(word, subject, at, subject.len()) {
                longest = Some(FoundWord { word, at });
            }
        }
        longest
    }

    /// Finds the last word after `.*`.
    fn find_last(&self, subject: &[u8], from: usize, room: usize) -> Option<FoundWord<'_>> {
        if self.at_end {
            // The shortest word leaves most to `.*`.
            let fitting = self.words.iter().filter_map(|word| {
                let at = subject.len().checked_sub(word.bytes.len())?;
                (at >= from && self.stands(word, subject, at, room))
                    .then_some(FoundWord { word, at })
            });
            return fitting.fold(None, |best: Option<FoundWord<'_>>, found| match best {
                Some(best) if best.at >= found.at => Some(best),
                _ => Some(found),
            });
        }
        if let [word] = &self.words[..]
            && !self.caseless
        {
            let at = memmem::rfind(subject.get(from..room)?, &word.bytes)?;
            return Some(FoundWord { word, at: at + from });
        }
        (from..=room).rev().find_map(|at| {
            let word = self.words.iter().find(|word| self.stands(word, subject, at, room))?;
            Some(FoundWord { word, at })
        })
    }

    fn find_first(&self, finder: &Finder, subject: &[u8], room: usize) -> Option<FoundWord<'_>> {
        let subject = &subject[..room];
        match finder {
            Finder::One(finder) => {
                let at = finder.find(subject)?;
                Some(FoundWord { word: &self.words[0], at })
            }
            Finder::Caseless => {
                let word = &self.words[0];
                let first = word.bytes[0];
                let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
                let last = subject.len().checked_sub(word.bytes.len())?;
                let at = memchr::memchr2_iter(lower, upper, &subject[..=last])
                    .find(|&at| self.stands(word, subject, at, room))?;
                Some(FoundWord { word, at })
            }
            Finder::Many(automaton) => {
                let found = automaton.find(subject)?;
                let word = &self.words[found.pattern().as_usize()];
                Some(FoundWord { word, at: found.start() })
            }
        }
    }

    /// Returns whether a word is there and ends before `room`.
    #[inline]
    fn stands(&self, word: &ShapeWord, subject: &[u8], at: usize, room: usize) -> bool {
        let end = at + word.bytes.len();
        if end > room {
            return false;
        }
        // Most words are empty (`^`, `.*`) or differ in the first byte: this is checked before a
        // function is called.
        let Some(first) = word.bytes.first() else {
            return true;
        };
        (subject[at] | 0x20) == (first | 0x20)
            && match self.caseless {
                false => subject[at..end] == *word.bytes,
                true => subject[at..end].eq_ignore_ascii_case(&word.bytes),
            }
    }
}

impl Finder {
    fn of(words: &[ShapeWord], caseless: bool) -> Option<Finder> {
        // An empty word is found everywhere: then the words before it would matter, at the very
        // beginning.
        if words.iter().any(|word| word.bytes.is_empty()) {
            return match words {
                [_] => Some(Finder::One(Box::new(memmem::Finder::new(b"").into_owned()))),
                _ => None,
            };
        }
        if let [word] = words {
            return Some(match caseless {
                false => Finder::One(Box::new(memmem::Finder::new(&word.bytes[..]).into_owned())),
                true => Finder::Caseless,
            });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .kind((words.len() > COMPARED).then_some(AhoCorasickKind::ContiguousNFA))
            .ascii_case_insensitive(caseless)
            .build(words.iter().map(|word| &word.bytes[..]))
            .ok()?;
        Some(Finder::Many(Box::new(automaton)))
    }
}
