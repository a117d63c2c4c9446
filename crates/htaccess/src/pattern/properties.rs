//! The properties that hold for any pattern and any subject.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pcre2::bytes::{Regex, RegexBuilder};

use super::engine::PcrePattern;
use super::{Candidates, Captures, Matcher, Pattern, PatternSet, Spans};
use crate::work::Meter;

/// Pattern and subject, with a zero byte between them. The pattern is refused where PCRE2 refuses
/// it; matched by hand it gives PCRE2's result; a set that contains it finds it where it matches;
/// and the match takes no long time.
pub fn pattern(data: &[u8]) {
    let mut parts = data.splitn(2, |&byte| byte == 0);
    let (text, subject) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let caseless = subject.len() % 2 == 1;
    let pattern = match Pattern::new(text, caseless) {
        Ok(pattern) => pattern,
        Err(bad) => {
            assert!(bad.offset <= text.len(), "{bad:?}");
            return;
        }
    };
    let begin = Instant::now();
    let answer = pattern.spans(subject, Meter::unlimited());
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let Ok(spans) = answer else { return };
    let engine = PcrePattern::new(&pattern.definition, None)
        .expect("what is matched by hand is a pattern for PCRE2");
    if matches!(pattern.matcher, Matcher::Shape(_)) {
        assert_eq!(engine.spans(&pattern.definition, subject, Meter::unlimited()), Ok(spans));
        let middle = subject.len() / 2;
        assert_eq!(
            pattern.find_from(subject, middle + 1, Meter::unlimited()),
            engine.find_from(&pattern.definition, subject, middle + 1, Meter::unlimited()),
            "after {middle}"
        );
    }
    if !subject.contains(&0)
        && let Some(reference) = reference(text, caseless)
    {
        let expected = spans_of(&reference, subject);
        assert!(
            expected.is_err() || expected == Ok(spans),
            "{spans:?} is {expected:?} to PCRE2 itself"
        );
    }
    assert_eq!(pattern.is_match(subject, Meter::unlimited()), Ok(spans.is_some()));
    in_a_set(pattern, subject, spans);
}

fn in_a_set(pattern: Pattern, subject: &[u8], spans: Option<Spans>) {
    let never = |text: &[u8]| Arc::new(Pattern::new(text, false).expect("it is one"));
    let set = PatternSet::new(vec![never(b"x(?!)x"), Arc::new(pattern), never(b"(?!)")]);
    let (mut candidates, mut captures) = (Candidates::default(), Captures::default());
    let found = set.first_match(subject, &mut candidates, &mut captures, Meter::unlimited());
    assert_eq!(found, Ok(spans.map(|_| 1)));
    assert_eq!(captures.spans, spans.unwrap_or_default());
}

/// Returns the pattern as it was written, given to PCRE2 with a zero byte as the line's end: then
/// `$` matches before no other last byte, which is what `DOLLAR_ENDONLY` says of all. Not for what
/// asks where lines end, or is no UTF-8; and not on subjects with such a byte.
fn reference(text: &[u8], caseless: bool) -> Option<Regex> {
    let asks = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    let lines = [&b"(?"[..], b"(*", b"\\N", b"\\R", b"\\Z", b"\\X"];
    let text = std::str::from_utf8(text).ok()?;
    if lines.into_iter().any(asks) {
        return None;
    }
    RegexBuilder::new()
        .caseless(caseless)
        .dotall(true)
        .build(&format!("(*NUL)(*LIMIT_MATCH=1000000){text}"))
        .ok()
}

fn spans_of(regex: &Regex, subject: &[u8]) -> Result<Option<Spans>, i32> {
    let mut places = regex.capture_locations();
    let found = regex.captures_read(&mut places, subject);
    Ok(found.map_err(|error| error.code())?.map(|_| {
        let mut spans = Spans::default();
        (0..places.len()).for_each(|group| spans.push(places.get(group)));
        spans
    }))
}
