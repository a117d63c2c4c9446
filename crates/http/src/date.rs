//! Dates (RFC 9110 §5.6.7), from and to seconds since 1970, without a clock.

/// Formats `seconds` since 1970-01-01 as IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`. A
/// time beyond the year 9999 is formatted as its last second.
pub fn format(seconds: u64) -> [u8; 29] {
    let seconds = seconds.min(LAST_SECOND);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(WEEKDAYS[((days + 4) % 7) as usize]);
    two(&mut text, 5, day);
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two(&mut text, 12, year / 100);
    two(&mut text, 14, year % 100);
    two(&mut text, 17, second / 3600);
    two(&mut text, 20, second / 60 % 60);
    two(&mut text, 23, second % 60);
    text
}

/// A time as a calendar and a clock have it, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalendarTime {
    /// The year.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
    /// The day of the year, from 0.
    pub day_of_year: u64,
    /// The day of the week, from 0 for Sunday.
    pub weekday: u64,
    /// The hour of the day.
    pub hour: u64,
    /// The minute of the hour.
    pub minute: u64,
    /// The second of the minute.
    pub second: u64,
}

/// Returns the date and the time of day at `seconds` since 1970-01-01. A time beyond the year 9999
/// is its last second.
pub fn calendar(seconds: u64) -> CalendarTime {
    let seconds = seconds.min(LAST_SECOND);
    let (today, second) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(today);
    CalendarTime {
        year,
        month,
        day,
        day_of_year: today - days(year, 1, 1),
        weekday: (today + 4) % 7,
        hour: second / 3600,
        minute: second / 60 % 60,
        second: second % 60,
    }
}

/// Reads any of the three formats that recipients must understand: IMF-fixdate, RFC 850's,
/// asctime's. `None` for anything else, for days that no calendar has, and before 1970.
pub fn parse(text: &[u8]) -> Option<u64> {
    if fits(text, b"___, __ ___ ____ __:__:__ GMT") {
        weekday(&text[..3])?;
        instant(number(&text[12..16])?, &text[8..11], number(&text[5..7])?, &text[17..25])
    } else if fits(text, b"___ ___ __ __:__:__ ____") {
        weekday(&text[..3])?;
        let day = if text[8] == b' ' { &text[9..10] } else { &text[8..10] };
        instant(number(&text[20..])?, &text[4..7], number(day)?, &text[11..19])
    } else {
        rfc850(text)
    }
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`. Two digits of a year from 70 mean the twentieth century, which
/// keeps every date within the 50 years of the future that §5.6.7 allows, and needs no clock.
fn rfc850(text: &[u8]) -> Option<u64> {
    let (name, rest) = text.split_at(text.iter().position(|&byte| byte == b',')?);
    if !LONG_WEEKDAYS.iter().any(|known| known.as_bytes() == name)
        || !fits(rest, b", __-___-__ __:__:__ GMT")
    {
        return None;
    }
    let year = number(&rest[9..11])?;
    let year = if year < 70 { 2000 + year } else { 1900 + year };
    instant(year, &rest[5..8], number(&rest[2..4])?, &rest[12..20])
}

/// Returns whether `text` has the template's length, and its bytes wherever that has no `_`.
fn fits(text: &[u8], template: &[u8]) -> bool {
    text.len() == template.len()
        && text
            .iter()
            .zip(template)
            .all(|(byte, wanted)| *wanted == b'_' || byte == wanted)
}

/// Reads the name of a day of the week, which need not be the right one.
fn weekday(name: &[u8]) -> Option<()> {
    WEEKDAYS.iter().any(|known| &known[..] == name).then_some(())
}

fn number(digits: &[u8]) -> Option<u64> {
    crate::scan::decimal(digits)
}

fn instant(year: u64, month: &[u8], day: u64, clock: &[u8]) -> Option<u64> {
    let month = MONTHS.iter().position(|known| &known[..] == month)? as u64 + 1;
    let (hour, minute, second) =
        (number(&clock[..2])?, number(&clock[3..5])?, number(&clock[6..])?);
    if year < 1970
        || day < 1
        || day > month_length(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // A leap second is counted as the second before it, as POSIX time has no name for it.
    Some(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second.min(59))
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date not before it. Years are counted from March, so that the leap day
/// comes last and the months before it have lengths of one linear pattern (153 days in five
/// months).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - EPOCH
}

/// The inverse of [`days`].
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn two(text: &mut [u8; 29], at: usize, number: u64) {
    text[at] = b'0' + (number / 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}

const DAY: u64 = 86_400;

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH: u64 = 719_468;

/// Days of 400 years.
const ERA: u64 = 146_097;

/// 9999-12-31T23:59:59, the last that four digits of a year can name.
const LAST_SECOND: u64 = 253_402_300_799;

const WEEKDAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];

const LONG_WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar() {
        let fields = |seconds| {
            let time = calendar(seconds);
            let CalendarTime {
                year,
                month,
                day,
                day_of_year,
                weekday,
                hour,
                minute,
                second,
            } = time;
            [year, month, day, day_of_year, weekday, hour, minute, second]
        };
        // Thursday, Sunday, and the leap day of 2000, a Tuesday.
        for (seconds, expected) in [
            (0, [1970, 1, 1, 0, 4, 0, 0, 0]),
            (784_111_777, [1994, 11, 6, 309, 0, 8, 49, 37]),
            (951_868_799, [2000, 2, 29, 59, 2, 23, 59, 59]),
            (951_868_800, [2000, 3, 1, 60, 3, 0, 0, 0]),
        ] {
            assert_eq!(fields(seconds), expected, "{seconds}");
        }
        assert_eq!(fields(u64::MAX)[..3], [9999, 12, 31]);
    }

    #[test]
    fn the_three_formats_of_the_rfc() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"Wed Nov 16 08:49:37 1994"), Some(784_111_777 + 10 * DAY));
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn known_instants() {
        let table = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (68_169_599, "Mon, 28 Feb 1972 23:59:59 GMT"),
            (68_169_600, "Tue, 29 Feb 1972 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (LAST_SECOND, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (seconds, text) in table {
            assert_eq!(String::from_utf8_lossy(&format(seconds)), text);
            assert_eq!(parse(text.as_bytes()), Some(seconds), "{text}");
        }
        assert_eq!(format(u64::MAX), format(LAST_SECOND));
    }

    #[test]
    fn what_is_no_date() {
        let table = [
            "",
            "0",
            "now",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Tue, 29 Feb 2100 08:49:37 GMT",
            "Thu, 29 Feb 2001 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 0a:49:37 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 CET",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
        ];
        for text in table {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn two_digits_of_a_year() {
        for (text, year) in [
            ("Thursday, 01-Jan-70 00:00:00 GMT", 0),
            ("Friday, 01-Jan-00 00:00:00 GMT", 946_684_800),
            ("Monday, 01-Jan-01 00:00:00 GMT", 978_307_200),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(year), "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_one_before() {
        assert_eq!(
            parse(b"Sat, 31 Dec 2016 23:59:60 GMT"),
            parse(b"Sat, 31 Dec 2016 23:59:59 GMT")
        );
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in (0..ERA).chain((LAST_SECOND / DAY - 400)..=LAST_SECOND / DAY) {
            let seconds = day * DAY + day % DAY;
            assert_eq!(parse(&format(seconds)), Some(seconds));
        }
    }
}
