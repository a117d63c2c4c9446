//! Durations.

use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;

use super::amounts::split_unit;
use super::{ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;

/// A duration, such as `"30s"`. Zero is refused, because no time limit can be zero.
pub(crate) struct TimeSpan;

const SPAN_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The longest duration. Longer ones are probably mistakes; the limit also prevents overflow of
/// sums.
const LONGEST_SPAN: u64 = 30 * 24 * 3_600_000;

impl ValueKind for TimeSpan {
    type Value = Duration;

    fn name() -> String {
        "a duration such as `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"1h\"`".to_owned()
    }

    fn show(value: &Duration) -> String {
        let milliseconds = value.as_millis();
        // Minutes and hours are written from two up: "60s" is easier to read than "1m".
        let (unit, factor) = SPAN_UNITS
            .iter()
            .find(|(unit, factor)| {
                let factor = u128::from(*factor);
                milliseconds.is_multiple_of(factor)
                    && (milliseconds >= 2 * factor || matches!(*unit, "s" | "ms"))
            })
            .copied()
            .unwrap_or(("ms", 1));
        quoted(&format!("{}{unit}", milliseconds / u128::from(factor)))
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Duration> {
        read(value, report, span)
    }
}

/// A duration as [`TimeSpan`], or zero, which switches off what takes the time.
pub(crate) struct TimeSpanOrZero;

impl ValueKind for TimeSpanOrZero {
    type Value = Duration;

    fn name() -> String {
        format!("{}, or `\"0s\"`", TimeSpan::name())
    }

    fn show(value: &Duration) -> String {
        TimeSpan::show(value)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Duration> {
        read(value, report, span_or_zero)
    }
}

fn read(
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    parse: fn(&str) -> Result<Duration, ValueError>,
) -> Option<Duration> {
    if let DeValue::Integer(number) = value.get_ref() {
        let help = format!("write the unit: `\"{number}s\"` or `\"{number}ms\"`");
        report.add(value.span(), format!("{number} is a duration without a unit"), Some(help));
        return None;
    }
    read_string(value, report, "a duration such as `\"30s\"`", parse)
}

fn span(text: &str) -> Result<Duration, ValueError> {
    match span_or_zero(text)? {
        Duration::ZERO => Err(ValueError::new("the duration is zero", "give at least `\"1ms\"`")),
        span => Ok(span),
    }
}

fn span_or_zero(text: &str) -> Result<Duration, ValueError> {
    let help = "give a whole number and a unit: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"1h\"`";
    let (digits, unit) = split_unit(text);
    let factor = SPAN_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let (Ok(number), Some(factor)) = (digits.parse::<u64>(), factor) else {
        return Err(ValueError::new(format!("`{text}` is not a duration"), help));
    };
    match number.checked_mul(factor) {
        Some(milliseconds) if milliseconds <= LONGEST_SPAN => {
            Ok(Duration::from_millis(milliseconds))
        }
        _ => Err(ValueError::new(
            format!("`{text}` is too long"),
            "give at most 30 days, `\"720h\"`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        let rows = [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("30 s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0s", None),
            ("30", None),
            ("s", None),
            ("30sec", None),
            ("721h", None),
            ("99999999999999999999s", None),
            ("9999999999999999h", None),
        ];
        for (text, milliseconds) in rows {
            assert_eq!(span(text).ok(), milliseconds.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn spans_of_zero() {
        let rows = [("0s", true), ("0 ms", true), ("00h", true)];
        let others = ["", "0", "s", "1s", "10s", "0x", "0s0s", "-0s"].map(|text| (text, false));
        for (text, is_zero) in rows.into_iter().chain(others) {
            let found = span_or_zero(text).is_ok_and(|span| span.is_zero());
            assert_eq!(found, is_zero, "{text}");
        }
    }

    #[test]
    fn shown_as_written() {
        for (milliseconds, shown) in
            [(500, "500ms"), (30_000, "30s"), (60_000, "60s"), (300_000, "5m"), (7_200_000, "2h")]
        {
            assert_eq!(
                TimeSpan::show(&Duration::from_millis(milliseconds)),
                format!("\"{shown}\"")
            );
        }
    }
}
