//! PCRE2, with limits.
//!
//! A pattern is checked when it is read, and compiled with its first subject: most patterns of a
//! long list never get one, thanks to [`PatternSet`](super::PatternSet), and the JIT takes several
//! times as long as the check.
//!
//! PCRE2 counts steps for each place where a match may begin, so the cost of a match is at most
//! that limit times the subject's length. Long subjects therefore get a lower limit. (Measured:
//! about 1.5 ns for each step.)

use std::sync::{Mutex, OnceLock};

use pcre2::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::required::Required;
use super::syntax::Tree;
use super::translate::Source;
use super::{BadPattern, Definition, Exhausted, Spans};

/// A pattern for PCRE2.
pub(super) struct Engine {
    /// Whether there are groups that capture.
    captures: bool,
    refers_back: bool,
    required: Option<Required>,
    /// The compiled pattern for short subjects, with PCRE2's own stack of 32 KiB.
    short: OnceLock<Box<Compiled>>,
    /// The compiled pattern for long subjects.
    long: OnceLock<Box<Compiled>>,
    /// The compiled pattern for matches that need more than 32 KiB of stack.
    deep: OnceLock<Box<Compiled>>,
}

struct Compiled {
    regex: Regex,
    /// Buffers for captures that are not in use.
    spare: Mutex<Vec<CaptureLocations>>,
}

/// The length of short subjects at most, in bytes.
const SHORT: usize = 512;
/// The steps for each place where a match may begin.
const STEPS_SHORT: u32 = 1_000_000;
const STEPS_LONG: u32 = 100_000;
/// The steps for patterns that refer to their own groups, where a step may compare the whole
/// subject.
const STEPS_BACK_SHORT: u32 = 20_000;
const STEPS_BACK_LONG: u32 = 5_000;
/// The stack for deep recursion, in bytes.
const DEEP_STACK: usize = 512 << 10;
/// The memory that PCRE2 may allocate where there is no JIT, in KiB.
const HEAP: u32 = 16 << 10;

/// `PCRE2_ERROR_JIT_STACKLIMIT`.
const STACK_LIMIT: i32 = -46;
/// Errors of PCRE2 for a match that was given up: the limits of the stack, steps, memory, depth and
/// heap (`PCRE2_ERROR_MATCHLIMIT`, `NOMEMORY`, `DEPTHLIMIT`, `HEAPLIMIT`).
const LIMITS: [i32; 5] = [STACK_LIMIT, -47, -48, -53, -63];

impl Engine {
    pub(super) fn new(definition: &Definition, tree: Option<&Tree>) -> Result<Engine, BadPattern> {
        let source = Source::of(definition)?;
        let checked = builder(definition).build(&format!("{}{}", source.verbs, source.body));
        let regex = checked.map_err(|error| bad_pattern(&error, &source))?;
        Ok(Engine {
            required: tree.and_then(Required::of),
            captures: regex.captures_len() > 1,
            refers_back: source.refers_back,
            short: OnceLock::new(),
            long: OnceLock::new(),
            deep: OnceLock::new(),
        })
    }

    pub(super) fn has_groups(&self) -> bool {
        self.captures
    }

    pub(super) fn is_match(
        &self,
        definition: &Definition,
        subject: &[u8],
    ) -> Result<bool, Exhausted> {
        self.run(definition, subject, |compiled| compiled.regex.is_match(subject))
    }

    pub(super) fn find_from(
        &self,
        definition: &Definition,
        subject: &[u8],
        from: usize,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        if from > subject.len() {
            return Ok(None);
        }
        self.run(definition, subject, |compiled| {
            let found = compiled.regex.find_at(subject, from)?;
            Ok(found.map(|found| (found.start(), found.end())))
        })
    }

    pub(super) fn spans(
        &self,
        definition: &Definition,
        subject: &[u8],
    ) -> Result<Option<Spans>, Exhausted> {
        if self.captures {
            return self.run(definition, subject, |compiled| compiled.spans(subject));
        }
        let whole = |place| {
            let mut spans = Spans::default();
            spans.push(Some(place));
            spans
        };
        Ok(self.find_from(definition, subject, 0)?.map(whole))
    }

    /// Matches, and once more with a larger stack where the first was too small. As in Apache,
    /// other errors of PCRE2 count as no match, such as a subject that is no UTF-8 for a pattern
    /// that needs it.
    fn run<T: Default>(
        &self,
        definition: &Definition,
        subject: &[u8],
        matches: impl Fn(&Compiled) -> Result<T, pcre2::Error>,
    ) -> Result<T, Exhausted> {
        if self.required.as_ref().is_some_and(|required| !required.is_in(subject)) {
            return Ok(T::default());
        }
        let (short, long) = match self.refers_back {
            false => (STEPS_SHORT, STEPS_LONG),
            true => (STEPS_BACK_SHORT, STEPS_BACK_LONG),
        };
        let (slot, steps) = match subject.len() <= SHORT {
            true => (&self.short, short),
            false => (&self.long, long),
        };
        let compiled = |slot: &'_ OnceLock<Box<Compiled>>, stack| {
            matches(slot.get_or_init(|| Box::new(Compiled::new(definition, steps, stack))))
        };
        let answer = match compiled(slot, None) {
            Err(error) if error.code() == STACK_LIMIT => compiled(&self.deep, Some(DEEP_STACK)),
            answer => answer,
        };
        answer.or_else(|error| match LIMITS.contains(&error.code()) {
            true => Err(Exhausted),
            false => Ok(T::default()),
        })
    }
}

impl Compiled {
    /// Compiles a pattern that is known to be valid.
    fn new(definition: &Definition, steps: u32, stack: Option<usize>) -> Compiled {
        let source = Source::of(definition).expect("the pattern was checked");
        let limited =
            format!("(*LIMIT_MATCH={steps})(*LIMIT_HEAP={HEAP}){}{}", source.verbs, source.body);
        let regex = builder(definition)
            .jit_if_available(true)
            .max_jit_stack_size(stack)
            .build(&limited)
            .expect("the pattern was checked, and limits change nothing about it");
        Compiled { regex, spare: Mutex::new(Vec::new()) }
    }

    fn spans(&self, subject: &[u8]) -> Result<Option<Spans>, pcre2::Error> {
        // Where the list is in use, a new buffer is made instead of waiting.
        let spare = self.spare.try_lock().ok().and_then(|mut spare| spare.pop());
        let mut places = spare.unwrap_or_else(|| self.regex.capture_locations());
        let found = self.regex.captures_read(&mut places, subject)?;
        let spans = found.map(|_| {
            let mut spans = Spans::default();
            (0..places.len()).for_each(|group| spans.push(places.get(group)));
            spans
        });
        if let Ok(mut spare) = self.spare.try_lock() {
            spare.push(places);
        }
        Ok(spans)
    }
}

fn builder(definition: &Definition) -> RegexBuilder {
    let mut builder = RegexBuilder::new();
    builder.caseless(definition.caseless).dotall(true);
    builder
}

fn bad_pattern(error: &pcre2::Error, source: &Source) -> BadPattern {
    let message = error.to_string();
    let offset = error.offset().unwrap_or(0);
    let own = message.split_once(&format!("at offset {offset}: "));
    BadPattern {
        message: own.map_or(message.as_str(), |(_, own)| own).to_owned(),
        offset: source.origin(offset.saturating_sub(source.verbs.len())),
    }
}
