//! Regular expressions that can take very many steps.

use super::{DirectiveUse, LintReport, LintedFile};
use crate::language::Item;
use crate::mistake::{Complaint, MistakeKind};
use crate::modules::rewrite::arguments;

pub(super) fn check(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    for directive in &file.uses {
        if let Some((index, pattern)) = pattern(directive)
            && is_explosive(&pattern)
        {
            tell(directive.item, index, report);
        }
    }
    for scope in &file.scopes {
        let index = match (&*scope.name, scope.words.first().map(Vec::as_slice)) {
            ("<filesmatch", _) => 0,
            ("<files", Some(b"~")) => 1,
            _ => continue,
        };
        if let Some(item) = scope.item
            && scope.words.get(index).is_some_and(|pattern| is_explosive(pattern))
        {
            tell(item, index, report);
        }
    }
}

fn tell(item: &Item, index: usize, report: &mut LintReport<'_>) {
    let message = "this pattern can take exponential time: it repeats what already repeats";
    let hint = "a match that takes too many steps is stopped and answered with 500; let each part \
        repeat in one way only";
    report.say(MistakeKind::Dangerous, item, Complaint::about(index, message).hint(hint));
}

/// Returns the regular expression of a directive, and which argument it is.
fn pattern(directive: &DirectiveUse<'_>) -> Option<(usize, Vec<u8>)> {
    let index = match &*directive.name {
        "rewriterule" => {
            return arguments::split(&directive.item.raw).map(|words| (0, words.first.to_vec()));
        }
        "rewritecond" => {
            let pattern = arguments::split(&directive.item.raw)?.second;
            let is_regex = !matches!(
                pattern.strip_prefix(b"!").unwrap_or(pattern).first(),
                Some(b'-' | b'<' | b'>' | b'=')
            );
            return is_regex.then(|| (1, pattern.to_vec()));
        }
        "redirectmatch"
            if directive.words.len() > 2 || directive.word(0).iter().all(u8::is_ascii_digit) =>
        {
            1
        }
        "redirectmatch" | "browsermatch" | "browsermatchnocase" => 0,
        "setenvif" | "setenvifnocase" => 1,
        _ => return None,
    };
    Some((index, directive.word(index).to_vec()))
}

/// Facts about the group that is being read.
#[derive(Clone, Copy, Default)]
struct GroupFacts {
    /// Whether the alternative has an unbounded repetition.
    repeats: bool,
    /// Whether the alternative has an atom that must be there once.
    fixed: bool,
    /// Whether an alternative has repetitions only: repeating the group makes it ambiguous.
    risky: bool,
}

impl GroupFacts {
    fn end_alternative(&mut self) {
        self.risky |= self.repeats && !self.fixed;
        (self.repeats, self.fixed) = (false, false);
    }

    /// Adds an atom; `group` has the facts of a group.
    fn add(&mut self, quantifier: Quantifier, group: Option<GroupFacts>) {
        let repeats_itself = group.is_some_and(|group| group.risky);
        match quantifier {
            Quantifier::Endless => self.repeats = true,
            Quantifier::Once if repeats_itself => self.repeats = true,
            Quantifier::Once | Quantifier::Possessive => self.fixed = true,
            Quantifier::Optional => self.repeats |= repeats_itself,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    Once,
    Optional,
    Endless,
    Possessive,
}

/// Returns whether a group that can be split in many ways is repeated without bound: `(a+)+`,
/// `(\w+\s?)*`, `(.*)*`.
pub(super) fn is_explosive(pattern: &[u8]) -> bool {
    let mut groups: Vec<GroupFacts> = Vec::new();
    let mut group = GroupFacts::default();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        let closed = match byte {
            b'(' => {
                groups.push(std::mem::take(&mut group));
                at += opening(&pattern[at..]);
                continue;
            }
            b'|' => {
                group.end_alternative();
                continue;
            }
            b'^' | b'$' => continue,
            b')' => {
                group.end_alternative();
                let outer = groups.pop().unwrap_or_default();
                Some(std::mem::replace(&mut group, outer))
            }
            b'\\' => {
                at += 1;
                None
            }
            b'[' => {
                at += class(&pattern[at..]);
                None
            }
            _ => None,
        };
        let (quantifier, length) = quantifier(&pattern[at.min(pattern.len())..]);
        at += length;
        if quantifier == Quantifier::Endless && closed.is_some_and(|closed| closed.risky) {
            return true;
        }
        group.add(quantifier, closed);
    }
    false
}

/// Returns the length of the group's kind after `(`.
fn opening(rest: &[u8]) -> usize {
    match rest {
        [b'?', b'<', b'=' | b'!', ..] => 3,
        [b'?', b'<' | b'P' | b'\'', ..] => rest
            .iter()
            .position(|&byte| byte == b'>' || byte == b'\'')
            .map_or(2, |end| end + 1),
        [b'?', _, ..] => 2,
        _ => 0,
    }
}

/// Returns the length of a class after its `[`.
fn class(rest: &[u8]) -> usize {
    let mut at = usize::from(rest.first() == Some(&b'^'));
    at += usize::from(rest.get(at) == Some(&b']'));
    while let Some(&byte) = rest.get(at) {
        match byte {
            b']' => return at + 1,
            b'\\' => at += 2,
            b'[' if rest.get(at + 1) == Some(&b':') => {
                at += rest[at..].windows(2).position(|two| two == b":]").map_or(1, |end| end + 2);
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn quantifier(rest: &[u8]) -> (Quantifier, usize) {
    let (quantifier, length) = match rest.first() {
        Some(b'+' | b'*') => (Quantifier::Endless, 1),
        Some(b'?') => (Quantifier::Optional, 1),
        Some(b'{') => match rest.iter().position(|&byte| byte == b'}') {
            Some(end) => (counted(&rest[1..end]), end + 1),
            None => return (Quantifier::Once, 0),
        },
        _ => return (Quantifier::Once, 0),
    };
    match rest.get(length) {
        Some(b'+') => (Quantifier::Possessive, length + 1),
        Some(b'?') => (quantifier, length + 1),
        _ => (quantifier, length),
    }
}

fn counted(count: &[u8]) -> Quantifier {
    match count {
        [.., b','] => Quantifier::Endless,
        [b'0', b',', ..] => Quantifier::Optional,
        _ => Quantifier::Once,
    }
}
