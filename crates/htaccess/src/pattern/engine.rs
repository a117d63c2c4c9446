//! PCRE2, with limits.
//!
//! A pattern is checked when it is read, and compiled with its first subject: most patterns of a
//! long list never get one, thanks to [`PatternSet`](super::PatternSet).
//!
//! PCRE2 limits the steps for each place where a match may begin, and tells nobody how many a match
//! has taken. Therefore a match is first tried with a low limit, and with a higher one only where
//! that was not enough. Each attempt counts as many steps as it may take, before it begins.

use std::cell::RefCell;
use std::sync::{LazyLock, OnceLock};

use pcre2::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::required::Required;
use super::syntax::{PatternNode, PatternTree};
use super::translate::TranslatedPattern;
use super::{BadPattern, Definition, GROUPS, Spans};
use crate::work::{Exhausted, Meter};

/// A pattern for PCRE2.
pub(super) struct PcrePattern {
    /// Groups that capture, the whole match included.
    groups: usize,
    refers_back: bool,
    /// Whether a match can only begin where the search begins.
    is_anchored: bool,
    /// Whether one step may look at many bytes.
    scans: bool,
    required: Option<Required>,
    /// The compiled pattern, by its limit of steps ([`STEPS`]).
    attempts: [OnceLock<Box<Regex>>; ATTEMPTS],
    /// The compiled pattern for machine code that needs more than PCRE2's own stack of 32 KiB.
    deep: OnceLock<Box<Regex>>,
}

/// Attempts at a match.
const ATTEMPTS: usize = 5;

/// The steps of each attempt, for each place where a match may begin.
const STEPS: [u32; ATTEMPTS] = [64, 1_000, 10_000, 100_000, 1_000_000];
/// The length of short subjects at most, in bytes.
const SHORT: usize = 512;
/// Attempts for short and for long subjects.
const ATTEMPTS_SHORT: usize = 5;
const ATTEMPTS_LONG: usize = 4;
/// Attempts for patterns that refer to their own groups, where a step may compare the whole
/// subject.
const ATTEMPTS_BACK_SHORT: usize = 3;
const ATTEMPTS_BACK_LONG: usize = 2;

/// Steps of compiling a pattern, and of compiling each of its bytes.
const COMPILING: u64 = 1_000;
const COMPILING_BYTE: u64 = 16;

/// The stack of machine code for deep recursion, in bytes.
const DEEP_STACK: usize = 512 << 10;
/// The memory that PCRE2 may allocate for one match, in KiB.
const HEAP: u32 = 16 << 10;

/// `PCRE2_ERROR_MATCHLIMIT`.
const MATCH_LIMIT: i32 = -47;
/// `PCRE2_ERROR_JIT_STACKLIMIT`.
const STACK_LIMIT: i32 = -46;
/// Other errors of PCRE2 for a match that was given up: the limits of memory, depth and heap
/// (`PCRE2_ERROR_NOMEMORY`, `DEPTHLIMIT`, `HEAPLIMIT`).
const LIMITS: [i32; 3] = [-48, -53, -63];

thread_local! {
    /// The memory that PCRE2 matches in, which grows to [`HEAP`] where a match needs it. All
    /// patterns of a thread share it.
    static MEMORY: RefCell<Option<CaptureLocations>> = const { RefCell::new(None) };
}

/// The pattern that the shared memory is made for: it has as many groups as [`Spans`].
static MOST_GROUPS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&"()".repeat(GROUPS - 1)).expect("a row of empty groups is a pattern")
});

impl PcrePattern {
    /// Compiles a pattern. `tree` is its structure, where that is known.
    ///
    /// # Errors
    /// PCRE2 does not take the pattern.
    pub(super) fn new(
        definition: &Definition,
        tree: Option<&PatternTree>,
    ) -> Result<PcrePattern, BadPattern> {
        let source = TranslatedPattern::of(definition)?;
        let checked = builder(definition).build(&format!("{}{}", source.verbs, source.body));
        let regex = checked.map_err(|error| bad_pattern(&error, &source))?;
        Ok(PcrePattern {
            required: tree.and_then(Required::of),
            groups: regex.captures_len(),
            refers_back: source.refers_back,
            is_anchored: tree.map_or_else(|| looks_anchored(&definition.text), is_anchored),
            scans: definition.text.iter().any(|byte| b"*+{".contains(byte)),
            attempts: Default::default(),
            deep: OnceLock::new(),
        })
    }

    pub(super) fn has_groups(&self) -> bool {
        self.groups > 1
    }

    /// Returns whether the pattern matches `subject`.
    ///
    /// # Errors
    /// The match takes too much work.
    pub(super) fn is_match(
        &self,
        definition: &Definition,
        subject: &[u8],
        meter: Meter<'_>,
    ) -> Result<bool, Exhausted> {
        Ok(self.run(definition, subject, 0, meter, |_| ())?.is_some())
    }

    /// Returns where the first match from `from` on begins and ends. `None` if there is none.
    ///
    /// # Errors
    /// The match takes too much work.
    pub(super) fn find_from(
        &self,
        definition: &Definition,
        subject: &[u8],
        from: usize,
        meter: Meter<'_>,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        if from > subject.len() {
            return Ok(None);
        }
        let found = self.run(definition, subject, from, meter, |places| places.get(0))?;
        Ok(found.flatten())
    }

    /// Returns the places of the first match and of its groups. `None` if there is none.
    ///
    /// # Errors
    /// The match takes too much work.
    pub(super) fn spans(
        &self,
        definition: &Definition,
        subject: &[u8],
        meter: Meter<'_>,
    ) -> Result<Option<Spans>, Exhausted> {
        let groups = self.groups.min(GROUPS);
        self.run(definition, subject, 0, meter, |places| {
            let mut spans = Spans::default();
            (0..groups).for_each(|group| spans.push(places.get(group)));
            spans
        })
    }

    /// Searches for a match at or after `from`, and returns what `read` reads of it.
    ///
    /// Errors of PCRE2 other than limits count as no match, as in Apache, such as a subject that is
    /// no UTF-8 for a pattern that needs it.
    fn run<T>(
        &self,
        definition: &Definition,
        subject: &[u8],
        from: usize,
        meter: Meter<'_>,
        read: impl Fn(&CaptureLocations) -> T,
    ) -> Result<Option<T>, Exhausted> {
        if self.required.as_ref().is_some_and(|required| !required.is_in(subject)) {
            meter.spend(1 + subject.len() as u64 / 16)?;
            return Ok(None);
        }
        for (attempt, &steps) in STEPS[..self.attempts_at(subject)].iter().enumerate() {
            meter.spend(self.cost(subject.len() - from, steps, meter))?;
            let regex = self.compiled(attempt, definition, meter)?;
            let found = match self.search(regex, subject, from, attempt > 0, &read) {
                Err(STACK_LIMIT) => {
                    meter.spend(self.cost(subject.len() - from, self.deep_steps(), meter))?;
                    self.search_deep(definition, subject, from, &read)
                }
                found => found,
            };
            match found {
                Ok(found) => return Ok(found),
                Err(MATCH_LIMIT) => {}
                Err(error) if error == STACK_LIMIT || LIMITS.contains(&error) => {
                    return Err(Exhausted);
                }
                Err(_) => return Ok(None),
            }
        }
        Err(Exhausted)
    }

    fn attempts_at(&self, subject: &[u8]) -> usize {
        match (self.refers_back, subject.len() <= SHORT) {
            (false, true) => ATTEMPTS_SHORT,
            (false, false) => ATTEMPTS_LONG,
            (true, true) => ATTEMPTS_BACK_SHORT,
            (true, false) => ATTEMPTS_BACK_LONG,
        }
    }

    /// Returns the steps that an attempt may take on a subject of `length` bytes.
    fn cost(&self, length: usize, steps: u32, meter: Meter<'_>) -> u64 {
        let length = length as u64;
        let places = if self.is_anchored || !meter.counts_places() {
            1
        } else {
            length + 1
        };
        // A repetition of one byte is one step, and may go to the end of the subject from each
        // place.
        let scanned = if self.scans { places * (length / 128) } else { 0 } + length / 16;
        let longest = if self.refers_back { 1 + length / 256 } else { 1 };
        places.saturating_mul(u64::from(steps)).saturating_mul(longest) + scanned
    }

    /// Returns the limit of a search with a larger stack.
    fn deep_steps(&self) -> u32 {
        if self.refers_back {
            STEPS[ATTEMPTS_BACK_SHORT - 1]
        } else {
            STEPS[ATTEMPTS_LONG - 1]
        }
    }

    /// Returns the pattern, compiled with the limit of an attempt.
    fn compiled(
        &self,
        attempt: usize,
        definition: &Definition,
        meter: Meter<'_>,
    ) -> Result<&Regex, Exhausted> {
        let slot = &self.attempts[attempt];
        if slot.get().is_none() {
            meter.spend(COMPILING + COMPILING_BYTE * definition.text.len() as u64)?;
        }
        let jit = meter.uses_jit();
        Ok(slot.get_or_init(|| Box::new(limited(definition, STEPS[attempt], jit, None))))
    }

    /// Searches once. `Err` has the error's number. After a search that `may_grow` the memory, the
    /// memory is given back.
    fn search<T>(
        &self,
        regex: &Regex,
        subject: &[u8],
        from: usize,
        may_grow: bool,
        read: impl Fn(&CaptureLocations) -> T,
    ) -> Result<Option<T>, i32> {
        let places = match self.groups <= GROUPS {
            true => MEMORY.take().unwrap_or_else(|| MOST_GROUPS.capture_locations()),
            // PCRE2 needs a place for each group.
            false => regex.capture_locations(),
        };
        let mut places = places;
        let found = regex.captures_read_at(&mut places, subject, from);
        let found = found.map(|found| found.map(|_| read(&places)));
        if self.groups <= GROUPS && !may_grow {
            MEMORY.set(Some(places));
        }
        found.map_err(|error| error.code())
    }

    /// Searches with a larger stack.
    fn search_deep<T>(
        &self,
        definition: &Definition,
        subject: &[u8],
        from: usize,
        read: impl Fn(&CaptureLocations) -> T,
    ) -> Result<Option<T>, i32> {
        let steps = self.deep_steps();
        let make = || Box::new(limited(definition, steps, true, Some(DEEP_STACK)));
        let deep = self.deep.get_or_init(make);
        let mut places = deep.capture_locations();
        let found = deep.captures_read_at(&mut places, subject, from);
        found.map(|found| found.map(|_| read(&places))).map_err(|error| error.code())
    }
}

/// Compiles a pattern that is known to be valid.
fn limited(definition: &Definition, steps: u32, jit: bool, stack: Option<usize>) -> Regex {
    let source = TranslatedPattern::of(definition).expect("the pattern was checked");
    let limited =
        format!("(*LIMIT_MATCH={steps})(*LIMIT_HEAP={HEAP}){}{}", source.verbs, source.body);
    builder(definition)
        .jit_if_available(jit)
        .max_jit_stack_size(stack)
        .build(&limited)
        .expect("the pattern was checked, and limits change nothing about it")
}

/// Returns whether every branch begins with `^`.
fn is_anchored(tree: &PatternTree) -> bool {
    tree.branches.iter().all(|branch| {
        branch
            .first()
            .is_some_and(|item| matches!(item.node, PatternNode::Start) && item.is_once())
    })
}

/// Returns whether a pattern without a tree begins with `^`, and has neither alternatives nor
/// options, which could give `^` another meaning.
fn looks_anchored(text: &[u8]) -> bool {
    let is_plain_group = |three: &[u8]| !three.starts_with(b"(?") || b":=!<".contains(&three[2]);
    text.starts_with(b"^") && !text.contains(&b'|') && text.windows(3).all(is_plain_group)
}

fn builder(definition: &Definition) -> RegexBuilder {
    let mut builder = RegexBuilder::new();
    builder.caseless(definition.caseless).dotall(true);
    builder
}

fn bad_pattern(error: &pcre2::Error, source: &TranslatedPattern) -> BadPattern {
    let message = error.to_string();
    let offset = error.offset().unwrap_or(0);
    let own = message.split_once(&format!("at offset {offset}: "));
    BadPattern {
        message: own.map_or(message.as_str(), |(_, own)| own).to_owned(),
        offset: source.origin(offset.saturating_sub(source.verbs.len())),
    }
}
