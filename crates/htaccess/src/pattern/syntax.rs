//! The part of PCRE2's syntax that is understood here, to find patterns that can be matched without
//! PCRE2. A pattern with a construct that is not understood with certainty is left to PCRE2 alone.

use super::translate::posix_class;

/// A pattern that is wholly understood.
pub(super) struct PatternTree {
    pub branches: Vec<Alternative>,
    pub caseless: bool,
    /// The number of capturing groups.
    pub groups: usize,
}

/// An alternative: the nodes between two `|`.
pub(super) type Alternative = Vec<RepeatedNode>;

/// A node and its repetition.
pub(super) struct RepeatedNode {
    pub node: PatternNode,
    pub min: u32,
    /// The most repetitions; `None` is unbounded.
    pub max: Option<u32>,
    /// Whether the repetition is greedy.
    pub greedy: bool,
}

pub(super) enum PatternNode {
    /// This byte.
    Byte(u8),
    /// `.`: any byte.
    Any,
    /// One byte of a class that is not known here.
    Set,
    /// `^`.
    Start,
    /// `$`: the very end.
    End,
    /// An assertion, which takes no byte.
    Assertion,
    Group {
        captures: bool,
        /// A group that is not atomic.
        plain: bool,
        branches: Vec<Alternative>,
    },
}

/// The depth of groups; deeper patterns are left to PCRE2.
const DEPTH: usize = 30;
/// Longer patterns are left to PCRE2, which knows its own limit.
const LENGTH: usize = 10_000;

/// Returns the tree of a pattern that is understood, and correct. `None`: the pattern is too long,
/// has a mistake, or has a part that only PCRE2 knows.
pub(super) fn parse(text: &[u8], caseless: bool) -> Option<PatternTree> {
    let (text, inline) = match text.strip_prefix(b"(?i)") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    if text.len() > LENGTH {
        return None;
    }
    let mut parser = PatternParser { text, at: 0, groups: 0 };
    let branches = parser.branches(0)?;
    (parser.at == text.len()).then_some(PatternTree {
        branches,
        caseless: caseless || inline,
        groups: parser.groups,
    })
}

struct PatternParser<'t> {
    text: &'t [u8],
    at: usize,
    groups: usize,
}

impl PatternParser<'_> {
    /// Parses up to the end or a closing parenthesis, which is not consumed.
    fn branches(&mut self, depth: usize) -> Option<Vec<Alternative>> {
        let mut branches = vec![Alternative::new()];
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b')' if depth > 0 => break,
                b'|' => {
                    self.at += 1;
                    branches.push(Alternative::new());
                }
                _ => {
                    let node = self.node(depth)?;
                    let item = self.repeated(node)?;
                    branches.last_mut()?.push(item);
                }
            }
        }
        Some(branches)
    }

    fn node(&mut self, depth: usize) -> Option<PatternNode> {
        let byte = self.text[self.at];
        self.at += 1;
        match byte {
            b'^' => Some(PatternNode::Start),
            b'$' => Some(PatternNode::End),
            b'.' => Some(PatternNode::Any),
            b'\\' => self.escape(),
            b'[' => self.class(),
            b'(' => self.group(depth + 1),
            b')' | b'*' | b'+' | b'?' => None,
            // A brace is literal unless it is a quantifier, which is not possible here.
            b'{' => matches!(brace(&self.text[self.at..])?, Brace::Literal)
                .then_some(PatternNode::Byte(b'{')),
            byte => Some(PatternNode::Byte(byte)),
        }
    }

    fn escape(&mut self) -> Option<PatternNode> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(match byte {
            b'd' | b'D' | b'w' | b'W' | b's' | b'S' | b'h' | b'H' | b'v' | b'V' => PatternNode::Set,
            b'b' | b'B' | b'A' | b'z' | b'Z' => PatternNode::Assertion,
            b'n' => PatternNode::Byte(b'\n'),
            b'r' => PatternNode::Byte(b'\r'),
            b't' => PatternNode::Byte(b'\t'),
            byte if byte.is_ascii_alphanumeric() => return None,
            byte => PatternNode::Byte(byte),
        })
    }

    /// Parses a class after `[`.
    fn class(&mut self) -> Option<PatternNode> {
        let begin = self.at;
        if self.text.get(self.at) == Some(&b'^') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
        }
        loop {
            match *self.text.get(self.at)? {
                b']' => break,
                b'\\' => match *self.text.get(self.at + 1)? {
                    b'd' | b'w' | b's' | b'n' | b'r' | b't' => self.at += 2,
                    byte if byte.is_ascii_alphanumeric() => return None,
                    _ => self.at += 2,
                },
                b'[' => self.at += posix_class(&self.text[self.at..]).unwrap_or(1),
                _ => self.at += 1,
            }
        }
        let inside = &self.text[begin..self.at];
        self.at += 1;
        Some(match inside {
            [byte] if *byte != b'^' => PatternNode::Byte(*byte),
            [b'\\', byte] if byte.is_ascii_punctuation() => PatternNode::Byte(*byte),
            _ => PatternNode::Set,
        })
    }

    /// Parses a group after `(`.
    fn group(&mut self, depth: usize) -> Option<PatternNode> {
        if depth > DEPTH {
            return None;
        }
        let (mut captures, mut plain, mut assertion) = (false, true, false);
        match &self.text[self.at..] {
            [b'*', ..] => return None,
            [b'?', b':', ..] => self.at += 2,
            [b'?', b'>', ..] => {
                plain = false;
                self.at += 2;
            }
            [b'?', b'=' | b'!', ..] => {
                assertion = true;
                self.at += 2;
            }
            [b'?', b'<', b'=' | b'!', ..] => {
                assertion = true;
                self.at += 3;
            }
            [b'?', ..] => return None,
            _ => captures = true,
        }
        self.groups += usize::from(captures);
        let branches = self.branches(depth)?;
        if self.text.get(self.at) != Some(&b')') {
            return None;
        }
        self.at += 1;
        if assertion {
            return Some(PatternNode::Assertion);
        }
        Some(PatternNode::Group { captures, plain, branches })
    }

    /// Parses the repetition after a node.
    fn repeated(&mut self, node: PatternNode) -> Option<RepeatedNode> {
        let (min, max) = match self.text.get(self.at) {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => match brace(&self.text[self.at + 1..])? {
                Brace::Counts { min, max, length } => {
                    self.at += length;
                    (min, max)
                }
                Brace::Literal => return Some(RepeatedNode::once(node)),
            },
            _ => return Some(RepeatedNode::once(node)),
        };
        self.at += 1;
        let greedy = !matches!(self.text.get(self.at), Some(b'?' | b'+'));
        if !greedy {
            self.at += 1;
        }
        // PCRE2 decides about the repetition of nothing.
        let countable =
            !matches!(node, PatternNode::Start | PatternNode::End | PatternNode::Assertion);
        countable.then_some(RepeatedNode { node, min, max, greedy })
    }
}

impl RepeatedNode {
    fn once(node: PatternNode) -> RepeatedNode {
        RepeatedNode { node, min: 1, max: Some(1), greedy: true }
    }

    /// Returns whether the item is there exactly once.
    pub(super) fn is_once(&self) -> bool {
        self.min == 1 && self.max == Some(1)
    }
}

enum Brace {
    /// `{` is literal.
    Literal,
    /// A quantifier, `length` bytes long after its `{`.
    Counts {
        min: u32,
        max: Option<u32>,
        length: usize,
    },
}

/// Returns the meaning of a `{` by the bytes after it; `None` where PCRE2's versions differ, or
/// where it is wrong.
fn brace(rest: &[u8]) -> Option<Brace> {
    let Some(close) = memchr::memchr(b'}', rest) else {
        return Some(Brace::Literal);
    };
    let inside = std::str::from_utf8(&rest[..close]).unwrap_or("x");
    let is_countlike =
        |byte: u8| byte.is_ascii_digit() || byte == b',' || byte.is_ascii_whitespace();
    if inside.is_empty() || !inside.bytes().all(is_countlike) {
        return Some(Brace::Literal);
    }
    let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok().filter(|&count: &u32| count <= 65_535),
        false => None,
    };
    let (min, max) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    let length = close + 1;
    let in_order = max.is_none_or(|max| min <= max);
    in_order.then_some(Brace::Counts { min, max, length })
}
