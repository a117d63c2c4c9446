//! RewriteCond.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::arguments;
use super::expansion::{Expansion, RewriteError};
use super::template::Template;
use crate::evaluation_context::EvaluationContext;
use crate::expression::Expression;
use crate::host::ProbeKind;
use crate::mistake::{Complaint, DirectivePlace};
use crate::number;
use crate::pattern::{Captures, Pattern};
use crate::transaction::FileKind;
use crate::work::Meter;

/// A compiled condition.
#[derive(Debug)]
pub(super) struct RewriteCondition {
    /// The place of the directive.
    pub place: Arc<DirectivePlace>,
    /// The arguments as written.
    pub text: Box<[u8]>,
    /// The test string.
    pub subject: Template,
    /// The test of the string.
    pub test: ConditionTest,
    /// Whether the condition holds where the test fails.
    pub negated: bool,
    /// `OR`: where the condition does not hold, the next one may.
    pub or_next: bool,
    /// The request fields that the response depends on, unless `NV` is on.
    pub vary: Box<[Box<[u8]>]>,
}

/// The test of a string.
#[derive(Debug)]
pub(super) enum ConditionTest {
    /// A regular expression.
    Regex(Arc<Pattern>),
    /// `-f`, `-d` and the like.
    File(FileTest),
    /// `-U`.
    Url,
    /// `-F`.
    SubrequestFile,
    /// `<`, `>`, `=`, `<=`, `>=`.
    Text {
        order: Comparison,
        text: Box<[u8]>,
        caseless: bool,
    },
    /// `-eq` and the like.
    Number(Comparison, i32),
    /// `expr`.
    Expression(Expression),
}

/// The test of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileTest {
    /// `-f`.
    File,
    /// `-s`.
    NotEmpty,
    /// `-d`.
    Directory,
    /// `-x`.
    Executable,
    /// `-h`, `-l`, `-L`.
    Link,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Less => ordering.is_lt(),
            Comparison::AtMost => ordering.is_le(),
            Comparison::Equal => ordering.is_eq(),
            Comparison::AtLeast => ordering.is_ge(),
            Comparison::Greater => ordering.is_gt(),
        }
    }
}

impl RewriteCondition {
    /// Reads a condition's arguments.
    ///
    /// # Errors
    /// Wrong arguments, with Apache's message.
    pub fn new(line: &[u8], place: Arc<DirectivePlace>) -> Result<RewriteCondition, Complaint> {
        let words = arguments::split(line).ok_or_else(|| {
            let line = String::from_utf8_lossy(line);
            Complaint::new(format!("RewriteCond: bad argument line '{line}'"))
                .hint("it takes a test string, a pattern and, in brackets, flags")
        })?;
        let mut flags = ConditionFlags::default();
        if let Some(field) = words.flags {
            arguments::each_flag(field, |key, _| flags.take(key))
                .map_err(|error| Complaint::new(format!("RewriteCond: {error}")))?;
        }
        let (negated, pattern) = match words.second {
            [b'!', rest @ ..] => (true, rest),
            whole => (false, whole),
        };
        let (test, inverted) = if words.first.eq_ignore_ascii_case(b"expr") {
            (expression(pattern, flags.no_vary)?, false)
        } else {
            test(pattern, flags.caseless)?
        };
        let subject = Template::new(words.first)
            .map_err(|error| Complaint::about(0, format!("RewriteCond: {error}")))?;
        let names = if flags.no_vary {
            Vec::new()
        } else {
            subject.field_names()
        };
        Ok(RewriteCondition {
            place,
            text: line.into(),
            vary: names.into_iter().map(Into::into).collect(),
            subject,
            test,
            negated: negated != inverted,
            or_next: flags.or_next,
        })
    }

    /// Returns whether the test string needs captures of the rule's pattern.
    pub fn refers_to_rule(&self) -> bool {
        self.subject.refers_to_rule()
    }

    /// Returns whether the test string needs captures of another condition.
    pub fn refers_to_condition(&self) -> bool {
        self.subject.refers_to_condition()
    }

    /// Returns the test string, expanded.
    ///
    /// # Errors
    /// Where the string is too long.
    pub fn subject<'s>(
        &'s self,
        expansion: &Expansion<'s, '_>,
        context: &mut dyn EvaluationContext,
    ) -> Result<Cow<'s, [u8]>, RewriteError> {
        self.subject.expand(expansion, context)
    }

    /// Returns whether the condition holds for its expanded test string. A regular expression that
    /// matches and is not negated fills `captures`. `None` where the test needs the request itself:
    /// a sub-request, or an expression.
    ///
    /// # Errors
    /// Where a pattern takes too many steps.
    pub fn holds(
        &self,
        subject: &[u8],
        found: &KnownFile<'_>,
        context: &mut dyn EvaluationContext,
        captures: Option<&mut Captures>,
        meter: Meter<'_>,
    ) -> Result<Option<bool>, RewriteError> {
        let passes = match &self.test {
            ConditionTest::Regex(pattern) => match captures {
                Some(captures) if !self.negated => pattern.captures(subject, captures, meter)?,
                _ => pattern.is_match(subject, meter)?,
            },
            ConditionTest::File(test) => file(*test, subject, found, context),
            ConditionTest::Text { order, text, caseless } => order.holds(if *caseless {
                caselessly(subject, text)
            } else if *order == Comparison::Equal {
                subject.cmp(text)
            } else {
                // Apache's order of strings: the longer one is the greater.
                subject.len().cmp(&text.len()).then_with(|| subject.cmp(text))
            }),
            ConditionTest::Number(order, number_wanted) => {
                order.holds(number::clamped(subject).cmp(number_wanted))
            }
            ConditionTest::Url | ConditionTest::SubrequestFile | ConditionTest::Expression(_) => {
                return Ok(None);
            }
        };
        Ok(Some(passes != self.negated))
    }
}

/// The kind of the file that the URL leads to, which needs no question to the file system.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownFile<'k> {
    /// The name before any rule changed it.
    pub filename: &'k [u8],
    /// The kind of that file.
    pub found: FileKind,
}

#[derive(Default)]
struct ConditionFlags {
    caseless: bool,
    or_next: bool,
    no_vary: bool,
}

impl ConditionFlags {
    fn take(&mut self, key: &[u8]) -> Result<(), String> {
        match key.to_ascii_lowercase().as_slice() {
            b"nc" | b"nocase" => self.caseless = true,
            b"or" | b"ornext" => self.or_next = true,
            b"nv" | b"novary" => self.no_vary = true,
            _ => return Err(format!("unknown flag '{}'", String::from_utf8_lossy(key))),
        }
        Ok(())
    }
}

fn expression(text: &[u8], no_vary: bool) -> Result<ConditionTest, Complaint> {
    let expression = Expression::condition(text).map_err(|bad| {
        let text = String::from_utf8_lossy(text);
        let message = format!("RewriteCond: cannot compile expression \"{text}\": {}", bad.message);
        Complaint::about(1, message)
    })?;
    Ok(ConditionTest::Expression(match no_vary {
        true => expression.without_vary(),
        false => expression,
    }))
}

/// Reads a pattern, without `!`. Returns the test, and whether its result is inverted (`-ne`).
fn test(pattern: &[u8], caseless: bool) -> Result<(ConditionTest, bool), Complaint> {
    let text = |order, text: &[u8]| ConditionTest::Text { order, text: text.into(), caseless };
    let integer = |order, text: &[u8]| ConditionTest::Number(order, number::clamped(text));
    let found = match pattern {
        [b'-', letter] => match letter {
            b'f' => ConditionTest::File(FileTest::File),
            b's' => ConditionTest::File(FileTest::NotEmpty),
            b'd' => ConditionTest::File(FileTest::Directory),
            b'x' => ConditionTest::File(FileTest::Executable),
            b'h' | b'l' | b'L' => ConditionTest::File(FileTest::Link),
            b'U' => ConditionTest::Url,
            b'F' => ConditionTest::SubrequestFile,
            _ => regex(pattern, caseless)?,
        },
        [b'-', b'l', b't', rest @ ..] if !rest.is_empty() => integer(Comparison::Less, rest),
        [b'-', b'l', b'e', rest @ ..] if !rest.is_empty() => integer(Comparison::AtMost, rest),
        [b'-', b'g', b't', rest @ ..] if !rest.is_empty() => integer(Comparison::Greater, rest),
        [b'-', b'g', b'e', rest @ ..] if !rest.is_empty() => integer(Comparison::AtLeast, rest),
        [b'-', b'e', b'q', rest @ ..] if !rest.is_empty() => integer(Comparison::Equal, rest),
        [b'-', b'n', b'e', rest @ ..] if !rest.is_empty() => {
            return Ok((integer(Comparison::Equal, rest), true));
        }
        [b'>', b'=', rest @ ..] => text(Comparison::AtLeast, rest),
        [b'<', b'=', rest @ ..] => text(Comparison::AtMost, rest),
        [b'>', rest @ ..] if !rest.is_empty() => text(Comparison::Greater, rest),
        [b'<', rest @ ..] if !rest.is_empty() => text(Comparison::Less, rest),
        b"=\"\"" => text(Comparison::Equal, b""),
        [b'=', rest @ ..] if !rest.is_empty() => text(Comparison::Equal, rest),
        other => regex(other, caseless)?,
    };
    Ok((found, false))
}

fn regex(pattern: &[u8], caseless: bool) -> Result<ConditionTest, Complaint> {
    Pattern::new(pattern, caseless)
        .map(|pattern| ConditionTest::Regex(Arc::new(pattern)))
        .map_err(|bad| {
            let pattern = String::from_utf8_lossy(pattern);
            Complaint::about(
                1,
                format!("RewriteCond: cannot compile regular expression '{pattern}'"),
            )
            .hint(bad.message)
        })
}

fn file(
    test: FileTest,
    path: &[u8],
    known: &KnownFile<'_>,
    context: &mut dyn EvaluationContext,
) -> bool {
    if path == known.filename {
        match (test, known.found) {
            (FileTest::File, found) => return found == FileKind::File,
            (FileTest::Directory, found) => return found == FileKind::Directory,
            (FileTest::NotEmpty, FileKind::Missing | FileKind::Directory) => return false,
            _ => {}
        }
    }
    // A relative name is one from the root: that is where servers run.
    let absolute = match path {
        [] => return false,
        [b'/', ..] => Cow::Borrowed(path),
        relative => Cow::Owned([b"/", relative].concat()),
    };
    if absolute.contains(&0) {
        return false;
    }
    match test {
        FileTest::File => context.kind(&absolute) == Some(ProbeKind::File),
        FileTest::Directory => context.kind(&absolute) == Some(ProbeKind::Directory),
        FileTest::Link => context
            .host()
            .probe_link(&absolute)
            .is_some_and(|probe| probe.kind == ProbeKind::Link),
        FileTest::NotEmpty => context
            .probe(&absolute)
            .is_some_and(|probe| probe.kind == ProbeKind::File && probe.size > 0),
        FileTest::Executable => {
            context.probe(&absolute).is_some_and(|probe| probe.mode & 0o111 != 0)
        }
    }
}

/// C's `strcasecmp`.
fn caselessly(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (a.iter().map(u8::to_ascii_lowercase), b.iter().map(u8::to_ascii_lowercase));
    a.cmp(b)
}
