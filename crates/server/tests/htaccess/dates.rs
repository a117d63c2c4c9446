//! HTTP dates, so that those relative to now compare.

use crate::tree::MODIFIED;

const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, with spaces or (cookies) hyphens within
/// the date.
pub fn parse(text: &str) -> Option<i64> {
    let rest = text.get(5..)?.strip_suffix(" GMT")?;
    let (date, time) = rest.rsplit_once(' ')?;
    let mut date = date.split([' ', '-']);
    let day: i64 = date.next()?.parse().ok()?;
    let month = i64::try_from(MONTHS.find(date.next()?)? / 3).ok()?;
    let year: i64 = date.next()?.parse().ok()?;
    let mut time = time.split(':').map(|part| part.parse::<i64>().ok());
    let seconds = time.next()?? * 3600 + time.next()?? * 60 + time.next()??;
    Some(days(year, month, day) * 86_400 + seconds)
}

/// Days since 1970; the year counted from March on, so that the leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let in_year = (153 * month + 2) / 5 + day - 1;
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap + in_year - 719_468
}

/// With every date replaced by what it is relative to the files' or to the response's own:
/// `{modified}`, `{now+3600}`. The values of a Header's `%t`, `%D` and `%l` are replaced as well.
pub fn relative(value: &str, now: Option<i64>) -> String {
    let mut result = String::new();
    let mut rest = value;
    while let Some(end) = rest.find(" GMT") {
        let (before, after) = rest.split_at(end + 4);
        // `Sun, ` + the date; a day of one digit does not occur in HTTP.
        let start = before.len().saturating_sub(29);
        match before.get(start..).and_then(parse) {
            Some(time) => {
                result.push_str(&before[..start]);
                result.push_str(&named(time, now));
            }
            None => result.push_str(before),
        }
        rest = after;
    }
    result.push_str(rest);
    without_measurements(&result)
}

fn named(time: i64, now: Option<i64>) -> String {
    let since = time - i64::try_from(MODIFIED).unwrap_or_default();
    let is_ambiguous = now.is_some_and(|now| (time - now) % 60 == 0 && time - now < YEARS);
    let from_modified = since > 0 && since % 86_400 == 0 && !is_ambiguous;
    match now {
        _ if since == 0 => "{modified}".to_owned(),
        _ if from_modified => format!("{{modified+{since}}}"),
        Some(now) if time - now > -4000 => format!("{{now+{}}}", rounded(time - now)),
        _ if (0..400 * 86_400).contains(&since) => format!("{{modified+{since}}}"),
        _ => format!("{{at {time}}}"),
    }
}

/// The seconds of a `max-age` that counts from when a file was changed.
pub fn age_from_modified(value: &str, now: Option<i64>) -> String {
    let age = value.strip_prefix("max-age=").and_then(|age| age.parse::<i64>().ok());
    match (age, now) {
        (Some(age), Some(now)) if age > YEARS && rounded(age + now) % 86_400 == 43_200 => {
            format!(
                "max-age={{modified+{}}}",
                rounded(age + now) - i64::try_from(MODIFIED).unwrap_or_default()
            )
        }
        _ => value.to_owned(),
    }
}

/// More seconds than this are years: few rules that count from now go that far.
const YEARS: i64 = 100_000_000;

/// A second may have passed between the request and the response's Date.
fn rounded(seconds: i64) -> i64 {
    let minute = (seconds + 30).div_euclid(60) * 60;
    if (seconds - minute).abs() <= 2 { minute } else { seconds }
}

/// A Header's `%t`, `%D` and `%l`.
fn without_measurements(value: &str) -> String {
    let mut words: Vec<String> = value.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        let Some((name @ ("t" | "D" | "l"), measured)) = word.split_once('=') else {
            continue;
        };
        if !measured.is_empty()
            && measured.bytes().all(|byte| byte.is_ascii_digit() || b"./".contains(&byte))
        {
            *word = format!("{name}={{measured}}");
        }
    }
    words.join(" ")
}

#[test]
fn dates_are_read_and_named() {
    assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
    assert_eq!(parse("Wed, 01-Jan-2020 12:00:00 GMT"), Some(1_577_880_000));
    let now = Some(1_700_000_000);
    assert_eq!(
        relative("x; expires=Tue, 14-Nov-2023 23:13:21 GMT; y", now),
        "x; expires={now+3600}; y"
    );
    assert_eq!(relative("Wed, 01 Jan 2020 12:00:10 GMT", now), "{modified+10}");
    // Twenty years, seen when that is a whole number of minutes away.
    let twenty_years = i64::try_from(MODIFIED).unwrap() + 630_720_000;
    assert_eq!(named(twenty_years, Some(twenty_years - 413_320_140)), "{modified+630720000}");
    assert_eq!(relative("t=123 D=4 x=5", now), "t={measured} D={measured} x=5");
}
