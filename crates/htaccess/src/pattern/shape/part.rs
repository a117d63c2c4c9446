//! The parts of a branch of a pattern: runs at its ends and the words between them.

use super::super::syntax::{Alternative, PatternNode, RepeatedNode};
use super::{DotRun, ShapeWord};

/// The parts of a branch.
pub(super) struct BranchPart {
    pub(super) lead: Option<DotRun>,
    pub(super) words: Vec<ShapeWord>,
    pub(super) trail: Option<DotRun>,
    pub(super) at_start: bool,
    pub(super) at_end: bool,
}

impl BranchPart {
    /// Returns the words of a branch. `None`: the branch has another form, or too many words.
    pub(super) fn of(branch: &Alternative) -> Option<BranchPart> {
        let mut items = &branch[..];
        let mut part = BranchPart {
            lead: None,
            words: vec![ShapeWord::default()],
            trail: None,
            at_start: false,
            at_end: false,
        };
        if let [RepeatedNode { node: PatternNode::Start, .. }, rest @ ..] = items {
            (part.at_start, items) = (true, rest);
        }
        if let [rest @ .., RepeatedNode { node: PatternNode::End, .. }] = items {
            (part.at_end, items) = (true, rest);
        }
        if let [first, rest @ ..] = items
            && let Some(run) = DotRun::of(first)
        {
            (part.lead, items) = (Some(run), rest);
        }
        if let [rest @ .., last] = items
            && let Some(run) = DotRun::of(last)
        {
            (part.trail, items) = (Some(run), rest);
        }
        for item in items {
            part.words = followed_by(part.words, item)?;
        }
        Some(part)
    }
}

impl DotRun {
    /// `.*`, `.+`, `(.*)` or `(.+)`.
    fn of(item: &RepeatedNode) -> Option<DotRun> {
        match &item.node {
            PatternNode::Any if item.greedy && item.max.is_none() && item.min <= 1 => {
                Some(DotRun { captures: false, min: item.min as usize })
            }
            PatternNode::Group { captures, plain: true, branches } if item.is_once() => {
                match &branches[..] {
                    [branch] => match &branch[..] {
                        [inner] if matches!(inner.node, PatternNode::Any) => {
                            DotRun::of(inner).map(|run| DotRun { captures: *captures, ..run })
                        }
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Returns every word followed by each alternative of an item, in PCRE2's order of trying.
fn followed_by(words: Vec<ShapeWord>, item: &RepeatedNode) -> Option<Vec<ShapeWord>> {
    let once = match &item.node {
        PatternNode::Byte(byte) => vec![ShapeWord { bytes: [*byte].into(), groups: [].into() }],
        PatternNode::Group { captures, plain: true, branches } => group_words(*captures, branches)?,
        _ => return None,
    };
    let mut ends = once;
    match (item.min, item.max) {
        (1, Some(1)) => {}
        // A group that takes no part captures nothing, which a word cannot express.
        (0, Some(1)) if item.greedy && ends.iter().all(|word| word.groups.is_empty()) => {
            ends.push(ShapeWord::default())
        }
        _ => return None,
    }
    if words.len() * ends.len() > WORDS {
        return None;
    }
    let joined: Vec<ShapeWord> = words
        .iter()
        .flat_map(|word| ends.iter().map(|end| word.followed_by(end)))
        .collect();
    fits(&joined)?;
    Some(joined)
}

fn group_words(captures: bool, branches: &[Alternative]) -> Option<Vec<ShapeWord>> {
    let mut words = Vec::new();
    for branch in branches {
        let mut own = vec![ShapeWord::default()];
        for item in branch {
            own = followed_by(own, item)?;
        }
        words.extend(own);
    }
    fits(&words)?;
    // Groups in one branch take no part when another matches.
    if branches.len() > 1 && words.iter().any(|word| !word.groups.is_empty()) {
        return None;
    }
    if captures {
        for word in &mut words {
            let whole = (0, word.bytes.len() as u32);
            word.groups = [&[whole], &word.groups[..]].concat().into();
        }
    }
    Some(words)
}

impl ShapeWord {
    fn followed_by(&self, end: &ShapeWord) -> ShapeWord {
        let shift = self.bytes.len() as u32;
        let shifted = end.groups.iter().map(|(start, end)| (start + shift, end + shift));
        ShapeWord {
            bytes: [&self.bytes[..], &end.bytes].concat().into(),
            groups: self.groups.iter().copied().chain(shifted).collect(),
        }
    }
}

/// Checks that the words are within the limits. `None`: they are not.
pub(super) fn fits(words: &[ShapeWord]) -> Option<()> {
    let bytes: usize = words.iter().map(|word| word.bytes.len()).sum();
    (words.len() <= WORDS && bytes <= BYTES).then_some(())
}

/// The words at most; PCRE2 matches more.
const WORDS: usize = 4096;
/// The bytes of all words together at most.
const BYTES: usize = 64 << 10;
