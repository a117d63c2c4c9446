//! Evaluation of a tree for a request.

use std::borrow::Cow;
use std::net::IpAddr;

use howdah_http::Method;

use super::scan::ComparisonOrder;
use super::tree::{Condition, ExpressionWord, Shell, WordTest};
use crate::evaluation_context::EvaluationContext;
use crate::host::ProbeKind;
use crate::metered_text::{LONGEST_VALUE, MeteredText, TextError};
use crate::number;
use crate::pattern::{Captures, Pattern};
use crate::subrequest;
use crate::transaction::Transaction;
use crate::wildcard;
use crate::work::{self, Exhausted, Meter};

/// The state of an evaluation.
pub(super) struct ExpressionEvaluation<'e, 'r> {
    pub transaction: &'e mut Transaction<'r>,
    pub context: &'e mut dyn EvaluationContext,
    pub captures: &'e mut Captures,
    /// The request's fields that were read, where they go into Vary.
    pub vary: Option<Vec<Box<[u8]>>>,
}

/// The depth of conditions and words, counted as Apache does (`AP_EXPR_MAX_RECURSION`): a deeper
/// one makes the whole evaluation fail.
const DEEPEST: u32 = 20;

pub(super) const TOO_MUCH: &str = "the directives take too much work on this request";
const TOO_LONG: &str = "the value of an expression becomes longer than 64 KiB";

pub(super) type Evaluated<T> = Result<T, String>;

impl<'r> ExpressionEvaluation<'_, 'r> {
    /// Returns whether a condition at that depth holds.
    pub(super) fn holds(&mut self, condition: &Condition, depth: u32) -> Evaluated<bool> {
        let depth = deeper(depth)?;
        let (mut condition, mut negated) = (condition, false);
        loop {
            self.spend(work::RULE)?;
            let held = match condition {
                Condition::Not(inner) => {
                    negated = !negated;
                    condition = inner;
                    continue;
                }
                Condition::Any(conditions) | Condition::All(conditions) => {
                    let decisive = matches!(condition, Condition::Any(_));
                    let (last, others) =
                        conditions.split_last().expect("lists of conditions have at least two");
                    if self.comes_to(others, decisive, depth)? {
                        decisive
                    } else {
                        condition = last;
                        continue;
                    }
                }
                Condition::Constant(value) => *value,
                other => self.compares(other, depth)?,
            };
            return Ok(held != negated);
        }
    }

    /// Returns whether the test holds for one of the words.
    fn comes_to(&mut self, conditions: &[Condition], wanted: bool, depth: u32) -> Evaluated<bool> {
        for condition in conditions {
            if self.holds(condition, depth)? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Evaluates a comparison. As in Apache, the last word is evaluated first: Vary has the fields
    /// in that order.
    fn compares(&mut self, condition: &Condition, depth: u32) -> Evaluated<bool> {
        Ok(match condition {
            Condition::Strings(order, left, right) => {
                let (right, left) = (self.value(right, depth)?, self.value(left, depth)?);
                self.spend(work::bytes(left.len().min(right.len())))?;
                order.is(left.cmp(&right))
            }
            Condition::Numbers(order, left, right) => {
                let (right, left) = (self.value(right, depth)?, self.value(left, depth)?);
                self.spend(work::bytes(4 * (left.len() + right.len())))?;
                order.is(number::saturating(&left).cmp(&number::saturating(&right)))
            }
            Condition::OneOf(word, words) => {
                let word = self.value(word, depth)?;
                for other in words.iter().rev() {
                    let other = self.value(other, depth)?;
                    self.spend(1 + work::bytes(other.len().min(word.len())))?;
                    if other == word {
                        return Ok(true);
                    }
                }
                false
            }
            Condition::Matches(word, pattern) => {
                let subject = self.value(word, depth)?;
                self.matches(pattern, &subject)?
            }
            Condition::InNetwork(word, subnet) => {
                let address = self.value(word, depth)?;
                self.spend(work::RULE + work::bytes(address.len()))?;
                address_of(&address).is_some_and(|address| subnet.contains(address))
            }
            Condition::ClientIn(subnet) => subnet.contains(self.transaction.client.remote().ip()),
            Condition::Shell(shell, word, pattern) => {
                let (pattern, word) = (self.value(pattern, depth)?, self.value(word, depth)?);
                let steps = (pattern.len() as u64).saturating_mul(word.len() as u64) / 16;
                self.spend(steps)?;
                match shell {
                    Shell::Path => wildcard::matches(&pattern, &word),
                    Shell::Text => wildcard::matches_text(&pattern, &word, false),
                    Shell::Caseless => wildcard::matches_text(&pattern, &word, true),
                }
            }
            Condition::Is(test, word) => {
                let word = self.value(word, depth)?;
                if !matches!(test, WordTest::NotEmpty | WordTest::Empty | WordTest::True) {
                    // A path is made of it, and looked at component by component.
                    self.spend(work::bytes(4 * word.len()))?;
                }
                self.is(*test, &word)
            }
            Condition::Constant(_) | Condition::Not(_) | Condition::Any(_) | Condition::All(_) => {
                unreachable!("these are no comparisons")
            }
        })
    }

    /// A pattern with groups that does not match clears the captures; a pattern without groups
    /// keeps them.
    fn matches(&mut self, pattern: &Pattern, subject: &[u8]) -> Evaluated<bool> {
        let meter = self.transaction.client.meter();
        let answer = match pattern.has_groups() {
            true => pattern.captures(subject, self.captures, meter),
            false => pattern.is_match(subject, meter),
        };
        let matched = answer
            .map_err(|Exhausted| format!("{pattern:?} takes too many steps on its subject"))?;
        if !matched && pattern.has_groups() {
            self.captures.clear();
        }
        Ok(matched)
    }

    fn is(&mut self, test: WordTest, word: &[u8]) -> bool {
        let context = &mut *self.context;
        match test {
            WordTest::NotEmpty => !word.is_empty(),
            WordTest::Empty => word.is_empty(),
            WordTest::True => {
                let false_words: [&[u8]; 5] = [b"", b"0", b"off", b"no", b"false"];
                !false_words.iter().any(|known| known.eq_ignore_ascii_case(word))
            }
            WordTest::Directory => context.kind(word) == Some(ProbeKind::Directory),
            WordTest::Exists => context.kind(word).is_some(),
            WordTest::File => context.kind(word) == Some(ProbeKind::File),
            WordTest::FileNotEmpty => context
                .probe(word)
                .is_some_and(|probe| probe.kind == ProbeKind::File && probe.size > 0),
            WordTest::Link => context
                .host()
                .probe_link(word)
                .is_some_and(|probe| probe.kind == ProbeKind::Link),
            WordTest::Executable => {
                context.host().probe_link(word).is_some_and(|probe| probe.mode & 0o111 != 0)
            }
            WordTest::AccessibleFile => subrequest::is_file(self.transaction, word, context),
            WordTest::AccessibleUrl => subrequest::is_url(self.transaction, word, context),
        }
    }

    /// Returns the value of a word at that depth.
    fn value<'w>(&mut self, word: &'w ExpressionWord, depth: u32) -> Evaluated<Cow<'w, [u8]>> {
        if let ExpressionWord::Text(text) | ExpressionWord::Number(text) = word {
            deeper(depth)?;
            return Ok(Cow::Borrowed(text));
        }
        self.rendered(word, depth).map(Cow::Owned)
    }

    /// Returns the value of a word at that depth, as a text of its own.
    pub(super) fn rendered(&mut self, word: &ExpressionWord, depth: u32) -> Evaluated<Vec<u8>> {
        let mut out = MeteredText::new(LONGEST_VALUE, self.meter());
        self.append(word, depth, &mut out)?;
        Ok(out.into_bytes())
    }

    /// Appends the value of a word.
    fn append(
        &mut self,
        word: &ExpressionWord,
        depth: u32,
        out: &mut MeteredText<'_>,
    ) -> Evaluated<()> {
        let depth = deeper(depth)?;
        match word {
            ExpressionWord::Text(text) | ExpressionWord::Number(text) => self.push(text, out),
            ExpressionWord::Variable(variable) => {
                self.spend(work::RULE)?;
                variable.append(self, out)
            }
            ExpressionWord::Group(number) => {
                self.push(self.captures.group(usize::from(*number)), out)
            }
            ExpressionWord::Call(function, argument) => {
                let argument = self.value(argument, depth)?;
                self.spend(work::RULE + argument.len() as u64)?;
                function.call(&argument, self, out)
            }
            ExpressionWord::Joined(words) => {
                words.iter().try_for_each(|word| self.append(word, depth, out))
            }
        }
    }

    /// Appends a part of a value. A value that becomes too long ends the evaluation of the request:
    /// if the condition only failed, it would protect nothing.
    pub(super) fn push(&self, part: &[u8], out: &mut MeteredText<'_>) -> Evaluated<()> {
        out.push(part).map_err(|error| match error {
            TextError::Exhausted => TOO_MUCH.to_owned(),
            TextError::TooLong => {
                self.meter().refuse(TOO_LONG);
                TOO_LONG.to_owned()
            }
        })
    }

    pub(super) fn spend(&self, steps: u64) -> Evaluated<()> {
        Ok(self.meter().spend(steps).map_err(|Exhausted| TOO_MUCH)?)
    }

    fn meter(&self) -> Meter<'r> {
        self.transaction.client.meter()
    }

    /// Records that the result depends on a field of the request. Host is left out: every result
    /// depends on it.
    pub(super) fn varies_on(&mut self, field: &[u8]) {
        if let Some(vary) = &mut self.vary
            && Method::from_bytes(field).is_some() // Names are tokens, as methods are.
            && !field.eq_ignore_ascii_case(b"host")
        {
            vary.push(field.into());
        }
    }
}

impl ComparisonOrder {
    fn is(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            ComparisonOrder::Equal => ordering.is_eq(),
            ComparisonOrder::NotEqual => ordering.is_ne(),
            ComparisonOrder::Less => ordering.is_lt(),
            ComparisonOrder::LessOrEqual => ordering.is_le(),
            ComparisonOrder::Greater => ordering.is_gt(),
            ComparisonOrder::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

fn deeper(depth: u32) -> Evaluated<u32> {
    match depth < DEEPEST {
        true => Ok(depth + 1),
        false => Err("Recursion limit reached".to_owned()),
    }
}

/// Parses an address. Names are not looked up, since name servers could then stop the server.
fn address_of(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
