//! Times of requests in lines of the access log, in UTC, in English.

use howdah_config::{LoggedTime, TimeField, TimeForm, TimePart};
use howdah_http::date::{self, CalendarTime};

use super::RequestRecord;

/// Adds one of the times of the request.
pub(super) fn add(
    out: &mut Vec<u8>,
    which: LoggedTime,
    form: &TimeForm,
    record: &RequestRecord<'_>,
) {
    let began = record.began.microseconds;
    let microseconds = match which {
        LoggedTime::Begin => began,
        LoggedTime::End => began.saturating_add(record.took.as_micros() as u64),
    };
    let seconds = microseconds / 1_000_000;
    let text = match form {
        TimeForm::Common => return common(out, seconds),
        TimeForm::Seconds => seconds.to_string(),
        TimeForm::Milliseconds => (microseconds / 1000).to_string(),
        TimeForm::Microseconds => microseconds.to_string(),
        TimeForm::MillisecondFraction => format!("{:03}", microseconds / 1000 % 1000),
        TimeForm::MicrosecondFraction => format!("{:06}", microseconds % 1_000_000),
        TimeForm::Pattern(pattern) => {
            let now = date::calendar(seconds);
            let mut text = String::new();
            for part in pattern.parts() {
                match part {
                    TimePart::Text(part) => text.push_str(part),
                    TimePart::Field(part) => field(&mut text, *part, &now, seconds),
                }
            }
            text
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// Adds `[06/Nov/1994:08:49:37 +0000]`.
pub(super) fn common(out: &mut Vec<u8>, seconds: u64) {
    let date = date::format(seconds);
    // From `Sun, 06 Nov 1994 08:49:37 GMT`.
    out.push(b'[');
    for (part, end) in [(5..7, "/"), (8..11, "/"), (12..16, ":"), (17..25, " +0000]")] {
        out.extend_from_slice(&date[part]);
        out.extend_from_slice(end.as_bytes());
    }
}

/// Adds a field of `strftime(3)`, as the C library has it in the locale C.
fn field(out: &mut String, field: TimeField, now: &CalendarTime, seconds: u64) {
    let week = iso_week(now);
    // The number, its least digits, and what fills these up.
    let (number, digits, filler) = match field.letter {
        'C' => (now.year / 100, 2, '0'),
        'd' => (now.day, 2, '0'),
        'e' => (now.day, 2, '_'),
        'g' => (week.0 % 100, 2, '0'),
        'G' => (week.0, 1, '0'),
        'H' => (now.hour, 2, '0'),
        'I' => (twelve(now.hour), 2, '0'),
        'j' => (now.day_of_year + 1, 3, '0'),
        'k' => (now.hour, 2, '_'),
        'l' => (twelve(now.hour), 2, '_'),
        'm' => (now.month, 2, '0'),
        'M' => (now.minute, 2, '0'),
        's' => (seconds, 1, '0'),
        'S' => (now.second, 2, '0'),
        'u' => ((now.weekday + 6) % 7 + 1, 1, '0'),
        'U' => ((now.day_of_year + 7 - now.weekday) / 7, 2, '0'),
        'V' => (week.1, 2, '0'),
        'w' => (now.weekday, 1, '0'),
        'W' => ((now.day_of_year + 7 - (now.weekday + 6) % 7) / 7, 2, '0'),
        'y' => (now.year % 100, 2, '0'),
        'Y' => (now.year, 1, '0'),
        _ => return named(out, field, now, seconds),
    };
    let number = number.to_string();
    let filler = field.padding.unwrap_or(filler);
    let missing = field.width.max(digits).saturating_sub(number.len());
    match filler {
        '-' => {}
        '_' => out.extend(std::iter::repeat_n(' ', missing)),
        _ => out.extend(std::iter::repeat_n('0', missing)),
    }
    out.push_str(&number);
}

/// Adds a field that is no single number.
fn named(out: &mut String, field: TimeField, now: &CalendarTime, seconds: u64) {
    let name = |names: &[&str], number: u64| names[number as usize % names.len()].to_owned();
    let joined = |fields: &str| {
        let mut text = String::new();
        for letter in fields.chars() {
            match TimeField::LETTERS.contains(letter) {
                true => {
                    let part = TimeField { letter, ..TimeField::default() };
                    self::field(&mut text, part, now, seconds);
                }
                false => text.push(letter),
            }
        }
        text
    };
    let CalendarTime { month, hour, minute, second, .. } = *now;
    let mut text = match field.letter {
        'a' => name(&WEEKDAYS, now.weekday)[..3].to_owned(),
        'A' => name(&WEEKDAYS, now.weekday),
        'b' | 'h' => name(&MONTHS, month - 1)[..3].to_owned(),
        'B' => name(&MONTHS, month - 1),
        'c' => joined("a b e H:M:S Y"),
        'D' | 'x' => joined("m/d/y"),
        'F' => joined("Y-m-d"),
        'p' | 'P' => name(&["AM", "PM"], hour / 12),
        'r' => joined("I:M:S p"),
        'R' => format!("{hour:02}:{minute:02}"),
        'T' | 'X' => format!("{hour:02}:{minute:02}:{second:02}"),
        'z' => "+0000".to_owned(),
        'Z' => "UTC".to_owned(),
        _ => String::new(),
    };
    let is_lower = field.letter == 'P' || (field.is_swapped && "pZ".contains(field.letter));
    if is_lower {
        text.make_ascii_lowercase();
    } else if field.is_upper || (field.is_swapped && "aAbBh".contains(field.letter)) {
        text.make_ascii_uppercase();
    }
    let filler = if field.padding == Some('0') { '0' } else { ' ' };
    out.extend(std::iter::repeat_n(filler, field.width.saturating_sub(text.len())));
    out.push_str(&text);
}

/// The hour of a clock with twelve hours.
fn twelve(hour: u64) -> u64 {
    match hour % 12 {
        0 => 12,
        hour => hour,
    }
}

/// The year and the week of ISO 8601: the first week of a year has its first Thursday.
fn iso_week(now: &CalendarTime) -> (u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let length = |year| if is_leap(year) { 366 } else { 365 };
    // The day of the year of this week's Thursday, from 0; `now` may be in the year beside it.
    let thursday = now.day_of_year as i64 + 3 - ((now.weekday + 6) % 7) as i64;
    let (year, thursday) = if thursday < 0 {
        (now.year - 1, thursday + length(now.year - 1))
    } else if thursday >= length(now.year) {
        (now.year + 1, thursday - length(now.year))
    } else {
        (now.year, thursday)
    };
    (year, thursday as u64 / 7 + 1)
}

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

#[cfg(test)]
mod tests {
    use howdah_config::{AccessFormat, Config, LogPart, LogValue};

    use super::*;

    fn formatted(pattern: &str, seconds: u64) -> String {
        let text = format!("[log]\nformat = '%{{{pattern}}}t'\n[[site]]\nroot = \"/srv\"");
        let config = Config::parse(&text, "x.toml").expect("a right format");
        let AccessFormat::Own(format) = config.log.format else {
            panic!("{text}");
        };
        let [LogPart::Value(LogValue::Time(_, TimeForm::Pattern(pattern)))] = format.parts() else {
            panic!("{text}");
        };
        let (now, mut out) = (date::calendar(seconds), String::new());
        for part in pattern.parts() {
            match part {
                TimePart::Text(text) => out.push_str(text),
                TimePart::Field(part) => field(&mut out, *part, &now, seconds),
            }
        }
        out
    }

    /// Each pattern, and what Apache 2.4.71 has written for it with TZ=UTC.
    #[test]
    fn patterns_are_written_as_apache_writes_them() {
        for (pattern, expected) in [
            ("%d/%b/%Y:%H:%M:%S %z", "24/Nov/2026:13:06:04 +0000"),
            ("%a %A %b %B %h|%c|%C", "Tue Tuesday Nov November Nov|Tue Nov 24 13:06:04 2026|20"),
            ("%d|%D|%e|%F|%g|%G|%H|%I", "24|11/24/26|24|2026-11-24|26|2026|13|01"),
            ("%j|%k|%l|%m|%M|%p|%P|%r", "328|13| 1|11|06|PM|pm|01:06:04 PM"),
            ("%R|%S|%t|%T|%u|%U|%V|%w|%W", "13:06|04|\t|13:06:04|2|47|48|2|47"),
            ("%x|%X|%y|%Y|%z|%Z|%%|%s", "11/24/26|13:06:04|26|2026|+0000|UTC|%|1795525564"),
            ("%Ey %Od %EY %OH %Ec", "26 24 2026 13 Tue Nov 24 13:06:04 2026"),
            ("%_d %-d %-m %_m %03d %5Y", "24 24 11 11 024 02026"),
            ("%^a %^B %#Z %#p|%_10B|%-H", "TUE NOVEMBER utc pm|  November|13"),
            ("%0e %_H %-j %10d %E %q %", "24 13 328 0000000024 %E %q %"),
        ] {
            assert_eq!(formatted(pattern, 1_795_525_564), expected, "{pattern}");
        }
    }

    #[test]
    fn every_field_is_that_of_the_c_library() {
        let pattern = "%a %A %b %B %c %C %d %D %e %F %g %G %H %I %j %k %l %m %M %p %P %r %R %s %S \
            %T %u %U %V %w %W %x %X %y %Y %_m %-d %^b %_5j %08e %12A %012B";
        // Seventeen years of days, and some hours of each.
        let times: Vec<u64> =
            (10_000..16_200).map(|day| day * 86_400 + day * 7919 % 86_400).collect();
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("times");
        std::fs::write(&list, times.iter().map(|time| format!("@{time}\n")).collect::<String>())
            .unwrap();
        let date = std::process::Command::new("date")
            .env("LC_ALL", "C")
            .arg("-u")
            .arg("-f")
            .arg(&list)
            .arg(format!("+{pattern}"))
            .output()
            .unwrap();
        let lines = String::from_utf8(date.stdout).unwrap();
        assert_eq!(lines.lines().count(), times.len());
        for (line, time) in lines.lines().zip(times) {
            assert_eq!(formatted(pattern, time), line, "{time}");
        }
    }
}
