//! Numbers, counts, sizes and rates.

use std::fmt::Display;
use std::marker::PhantomData;

use toml::Spanned;
use toml::de::DeValue;

use super::{ValueError, ValueKind, quoted, read_string, wrong_type};
use crate::diagnostic::MistakeCollector;
use crate::values::{Count, Rate};

/// A whole number of at least `MIN`.
pub(crate) struct AtLeast<T, const MIN: u64>(PhantomData<T>);

impl<T: TryFrom<u64> + Display, const MIN: u64> ValueKind for AtLeast<T, MIN> {
    type Value = T;

    fn name() -> String {
        if MIN == 0 {
            "a whole number".to_owned()
        } else {
            format!("a whole number, at least {MIN}")
        }
    }

    fn show(value: &T) -> String {
        value.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<T> {
        let expected = Self::name();
        let number = integer(value, report, &expected)?;
        if number < MIN {
            report.add(
                value.span(),
                format!("{number} is too small"),
                Some(format!("give {expected}")),
            );
            return None;
        }
        fit(number, value, report)
    }
}

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Within<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> ValueKind for Within<MIN, MAX> {
    type Value = u64;

    fn name() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn show(value: &u64) -> String {
        value.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<u64> {
        let number = integer(value, report, &Self::name())?;
        if (MIN..=MAX).contains(&number) {
            return Some(number);
        }
        let (what, help) =
            (if number < MIN { "small" } else { "large" }, format!("give {}", Self::name()));
        report.add(value.span(), format!("{number} is too {what}"), Some(help));
        None
    }
}

/// The scheduling priority of a process, from -20 to 19.
pub(crate) struct Niceness;

impl ValueKind for Niceness {
    type Value = i32;

    fn name() -> String {
        "a whole number from -20 to 19".to_owned()
    }

    fn show(value: &i32) -> String {
        value.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<i32> {
        let Some(number) = value.get_ref().as_integer() else {
            wrong_type(value, value.get_ref(), report, &Self::name());
            return None;
        };
        let parsed = i32::from_str_radix(number.as_str(), number.radix()).ok();
        let nice = parsed.filter(|nice| (-20..=19).contains(nice));
        if nice.is_none() {
            let help = format!("give {}; 19 yields to all others", Self::name());
            report.add(value.span(), format!("{number} is no scheduling priority"), Some(help));
        }
        nice
    }
}

/// A number of events in a time, such as `"50/s"`, or `"off"`.
pub(crate) struct RateLimit;

const RATE_UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

impl ValueKind for RateLimit {
    type Value = Rate;

    fn name() -> String {
        "a rate such as `\"50/s\"`, `\"600/m\"`, `\"5000/h\"`, or `\"off\"`".to_owned()
    }

    fn show(value: &Rate) -> String {
        let unit = RATE_UNITS.iter().find(|(_, seconds)| *seconds == value.seconds());
        match unit {
            Some((unit, _)) => quoted(&format!("{}/{unit}", value.count())),
            None => quoted("off"),
        }
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Rate> {
        read_string(value, report, "a rate such as `\"50/s\"`", rate)
    }
}

fn rate(text: &str) -> Result<Rate, ValueError> {
    if text == "off" {
        return Ok(Rate::OFF);
    }
    let parts = text.split_once('/').and_then(|(count, unit)| {
        let unit = RATE_UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        Some((count.trim().parse::<u32>().ok().filter(|count| *count > 0)?, unit.1))
    });
    match parts {
        Some((count, seconds)) => Ok(Rate::new(count, seconds)),
        None => Err(ValueError::new(
            format!("`{text}` is not a rate"),
            "give a whole number, at least 1, and a time: `\"50/s\"`, `\"600/m\"`, `\"5000/h\"`; \
             or `\"off\"`",
        )),
    }
}

/// `"auto"` or a whole number of at least 1 and at most `MAX`.
pub(crate) struct AutoCountTo<const MAX: usize>;

/// `"auto"` or a whole number of at least 1.
pub(crate) type AutoCount = AutoCountTo<{ usize::MAX }>;

impl<const MAX: usize> AutoCountTo<MAX> {
    /// The numbers that are taken.
    fn numbers() -> String {
        match MAX {
            usize::MAX => "a whole number, at least 1".to_owned(),
            most => format!("a whole number from 1 to {most}"),
        }
    }
}

impl<const MAX: usize> ValueKind for AutoCountTo<MAX> {
    type Value = Count;

    fn name() -> String {
        format!("`\"auto\"` or {}", Self::numbers())
    }

    fn show(value: &Count) -> String {
        match value {
            Count::Auto => quoted("auto"),
            Count::Exactly(number) => number.to_string(),
        }
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<Count> {
        let number = if value.get_ref().is_integer() {
            Count::Exactly(AtLeast::<usize, 1>::read(value, report)?)
        } else {
            let help = format!("give `\"auto\"` or {}", Self::numbers());
            read_string(value, report, "`\"auto\"` or a whole number", |text| match text {
                "auto" => Ok(Count::Auto),
                other => match other.parse() {
                    Ok(number) if number > 0 => Ok(Count::Exactly(number)),
                    _ => Err(ValueError::new(format!("`{other}` is not a count"), help.as_str())),
                },
            })?
        };
        if let Count::Exactly(number) = number
            && number > MAX
        {
            let help = format!("give `\"auto\"` or {}", Self::numbers());
            report.add(value.span(), format!("{number} is too large"), Some(help));
            return None;
        }
        Some(number)
    }
}

/// A number of bytes, as `"64K"` or as a plain number.
pub(crate) struct Size<T>(PhantomData<T>);

const SIZE_UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

impl<T: TryFrom<u64> + TryInto<u64> + Copy> ValueKind for Size<T> {
    type Value = T;

    fn name() -> String {
        "a size such as `\"64K\"`, `\"8M\"`, `\"1G\"`, or bytes".to_owned()
    }

    fn show(value: &T) -> String {
        let Ok(bytes) = (*value).try_into() else {
            return String::new();
        };
        for (unit, shift) in SIZE_UNITS {
            if bytes > 0 && bytes.is_multiple_of(1 << shift) {
                return quoted(&format!("{}{unit}", bytes >> shift));
            }
        }
        bytes.to_string()
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<T> {
        let bytes = if value.get_ref().is_integer() {
            integer(value, report, "a size")?
        } else {
            read_string(value, report, "a size such as `\"64K\"`", size)?
        };
        fit(bytes, value, report)
    }
}

/// A number of bytes as [`Size`], from `MIN` to `MAX`.
pub(crate) struct SizeWithin<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> ValueKind for SizeWithin<MIN, MAX> {
    type Value = u64;

    fn name() -> String {
        let [least, most] = [MIN, MAX].map(|bytes| Size::<u64>::show(&bytes));
        format!("a size from `{least}` to `{most}`")
    }

    fn show(value: &u64) -> String {
        Size::<u64>::show(value)
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<u64> {
        let bytes = Size::<u64>::read(value, report)?;
        if (MIN..=MAX).contains(&bytes) {
            return Some(bytes);
        }
        let what = if bytes < MIN { "small" } else { "large" };
        let shown = Self::show(&bytes);
        report.add(
            value.span(),
            format!("{shown} is too {what}"),
            Some(format!("give {}", Self::name())),
        );
        None
    }
}

/// A number of bytes as [`Size`], or `"auto"`, which is `None`.
pub(crate) struct AutoSize;

impl ValueKind for AutoSize {
    type Value = Option<u64>;

    fn name() -> String {
        format!("`\"auto\"` or {}", Size::<u64>::name())
    }

    fn show(value: &Option<u64>) -> String {
        value.as_ref().map_or_else(|| quoted("auto"), Size::<u64>::show)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Option<u64>> {
        if value.get_ref().as_str() == Some("auto") {
            return Some(None);
        }
        Size::<u64>::read(value, report).map(Some)
    }
}

fn size(text: &str) -> Result<u64, ValueError> {
    let help = "give a whole number and a unit: `\"64K\"`, `\"8M\"`, `\"1G\"` (1K is 1024 bytes)";
    let problem = || ValueError::new(format!("`{text}` is not a size"), help);
    let (digits, unit) = split_unit(text);
    let number: u64 = digits.parse().map_err(|_| problem())?;
    let unit = unit.to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(problem)?.1,
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| ValueError::new(format!("`{text}` is too large"), help))
}

/// Splits a text into its digits and its unit.
pub(super) fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn integer(
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
    expected: &str,
) -> Option<u64> {
    let Some(number) = value.get_ref().as_integer() else {
        wrong_type(value, value.get_ref(), report, expected);
        return None;
    };
    let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
    if parsed.is_none() {
        let what = if number.as_str().starts_with('-') {
            "is negative"
        } else {
            "is too large"
        };
        report.add(value.span(), format!("{number} {what}"), Some(format!("give {expected}")));
    }
    parsed
}

fn fit<T: TryFrom<u64>>(
    number: u64,
    value: &Spanned<DeValue<'_>>,
    report: &mut MistakeCollector<'_>,
) -> Option<T> {
    let fitted = T::try_from(number).ok();
    // Integers of TOML are 64-bit and signed; larger ones are mistakes on every machine.
    if fitted.is_none() || number > i64::MAX.unsigned_abs() {
        report.add(value.span(), format!("{number} is too large"), None);
        return None;
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let rows = [
            ("0", Some(0)),
            ("17", Some(17)),
            ("64K", Some(65_536)),
            ("64k", Some(65_536)),
            ("8M", Some(8 << 20)),
            ("8 MiB", Some(8 << 20)),
            ("1GB", Some(1 << 30)),
            ("2T", Some(2 << 40)),
            ("99999999999999T", None),
            ("-1", None),
            ("1.5M", None),
            ("M", None),
            ("", None),
            ("1X", None),
        ];
        for (text, expected) in rows {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn rates() {
        let rows = [
            ("50/s", Some((50, 1))),
            ("1 / m", Some((1, 60))),
            ("5000/h", Some((5000, 3600))),
            ("off", Some((0, 0))),
            ("0/s", None),
            ("50", None),
            ("50/d", None),
            ("/s", None),
            ("1.5/s", None),
            ("-1/s", None),
        ];
        for (text, expected) in rows {
            let rate = rate(text).ok().map(|rate| (rate.count(), rate.seconds()));
            assert_eq!(rate, expected, "{text}");
        }
        assert_eq!(Rate::new(2, 1).interval(), 500_000_000);
        assert_eq!(Rate::OFF.interval(), 0);
        assert_eq!(RateLimit::show(&Rate::new(600, 60)), "\"600/m\"");
        assert_eq!(RateLimit::show(&Rate::OFF), "\"off\"");
    }

    #[test]
    fn shown_as_written() {
        assert_eq!(Size::<u64>::show(&(2 << 30)), "\"2G\"");
        assert_eq!(Size::<usize>::show(&8190), "8190");
        assert_eq!(Size::<usize>::show(&0), "0");
        assert_eq!(AutoCount::show(&Count::Auto), "\"auto\"");
    }
}
