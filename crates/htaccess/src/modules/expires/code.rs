//! The time that a response may be cached: `A3600`, `M3600`, `access plus 1 month 2 weeks`.

use std::fmt;

use crate::language::word as next_word;

/// A time span and its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// The time that the span is counted from.
    pub base: SpanBase,
    /// The span in seconds. Apache counts in C's `int`, so that 100 years are negative, which means
    /// at once.
    pub seconds: i32,
}

/// The time that a span is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanBase {
    /// The request.
    Access,
    /// The file's last change.
    Modification,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = match self.base {
            SpanBase::Access => 'A',
            SpanBase::Modification => 'M',
        };
        write!(f, "{base}{}", self.seconds)
    }
}

/// Reads either form. A capital `A` or `M` at the beginning always means the short form, also in
/// `Access plus 1 month`, which is therefore invalid.
///
/// # Errors
/// The mistake.
pub(super) fn parse(text: &[u8]) -> Result<Code, String> {
    match text {
        [b'A', rest @ ..] => Ok(Code {
            base: SpanBase::Access,
            seconds: atoi(rest),
        }),
        [b'M', rest @ ..] => Ok(Code {
            base: SpanBase::Modification,
            seconds: atoi(rest),
        }),
        _ => sentence(text),
    }
}

fn sentence(mut text: &[u8]) -> Result<Code, String> {
    let word = next_word(&mut text);
    let base = match word.first().map(u8::to_ascii_lowercase) {
        Some(b'a' | b'n') => SpanBase::Access,
        Some(b'm') => SpanBase::Modification,
        _ => {
            return Err(format!("`{}` is neither access, now nor modification", shown(&word)));
        }
    };
    let mut word = next_word(&mut text);
    if word.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'p')) {
        word = next_word(&mut text);
    }
    let mut seconds = 0i32;
    while !word.is_empty() {
        if !word[0].is_ascii_digit() {
            return Err(format!("`{}` is no number", shown(&word)));
        }
        let unit = unit(&next_word(&mut text))?;
        seconds = seconds.wrapping_add(unit.wrapping_mul(atoi(&word)));
        word = next_word(&mut text);
    }
    Ok(Code { base, seconds })
}

/// Returns the seconds of a unit. Its first letter decides; for months and minutes the first two.
fn unit(word: &[u8]) -> Result<i32, String> {
    const DAY: i32 = 86_400;
    let lower = word.to_ascii_lowercase();
    match &lower[..] {
        [] => Err("a number needs years, months, weeks, days, hours, minutes or seconds after it"
            .to_owned()),
        [b'y', ..] => Ok(365 * DAY),
        [b'm', b'o', ..] => Ok(30 * DAY),
        [b'w', ..] => Ok(7 * DAY),
        [b'd', ..] => Ok(DAY),
        [b'h', ..] => Ok(3600),
        [b'm', b'i', ..] => Ok(60),
        [b's', ..] => Ok(1),
        _ => Err(format!("`{}` is no unit of time", shown(word))),
    }
}

/// Reads an integer as C's `atoi`: the text after the digits is ignored, and a number that is too
/// large is cut to 32 bits.
fn atoi(text: &[u8]) -> i32 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let number = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0i64, |number, digit| {
            number.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
        });
    (if negative { number.wrapping_neg() } else { number }) as i32
}

fn shown(word: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let table = [
            ("A3600", Some("A3600")),
            ("M0", Some("M0")),
            ("A", Some("A0")),
            ("A-5x", Some("A-5")),
            ("A+5", Some("A5")),
            ("Access plus 1 month", Some("A0")),
            ("A3153600000", Some("A-1141367296")),
            ("access plus 1 month 2 weeks", Some("A3801600")),
            ("access 1 year", Some("A31536000")),
            ("access plus 100 years", Some("A-1141367296")),
            ("now plus 10 days 20 seconds", Some("A864020")),
            ("modification plus 5 hours 3 minutes", Some("M18180")),
            ("NOW PLUS 1 HOUR", Some("A3600")),
            ("access plus 0 seconds", Some("A0")),
            ("access", Some("A0")),
            ("access plus", Some("A0")),
            ("access plus 1y 1 sec", None),
            ("access plus 1", None),
            ("access plus one month", None),
            ("access plus 1 fortnight", None),
            ("access plus 1 m", None),
            ("later", None),
            ("", None),
            ("3600", None),
        ];
        for (text, expected) in table {
            let found = parse(text.as_bytes()).ok().map(|code| code.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for (text, message) in [
            ("access plus 1", "a number needs years, months, weeks"),
            ("access plus one month", "`one` is no number"),
            ("access plus 1 fortnight", "`fortnight` is no unit of time"),
        ] {
            let found = parse(text.as_bytes()).unwrap_err();
            assert!(found.starts_with(message), "{text}: {found}");
        }
    }
}
