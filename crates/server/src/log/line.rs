//! Formats a line of the error log.

use std::net::SocketAddr;

use howdah_watch::printed::controls_terminal;

use super::Level;

/// Formats microseconds since 1970 as ISO 8601 in UTC with milliseconds.
pub(crate) fn timestamp(microseconds: u64) -> String {
    let (seconds, milliseconds) = (microseconds / 1_000_000, microseconds / 1000 % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Year, month and day, `days` after 1 January 1970. Years are taken to begin in March, so
/// that the day that leap years add is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468; // from 1 March of year 0
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day_of_month)
}

/// Maximum bytes of a line with its line feed. A longer line is cut and ends with [`CUT`].
const LONGEST_LINE: usize = super::target::ONE_PIECE;
const CUT: &[u8] = b" [cut]\n";
/// Begins the text of a line that goes on with the one before.
const CONTINUED: &[u8] = b"(continued) ";

/// The site and the client that a line is about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Subject<'l> {
    /// `None` for the whole server.
    pub(super) site: Option<&'l str>,
    /// `None` if no client caused the line. Port 0: the line is about several connections.
    pub(super) client: Option<SocketAddr>,
}

/// Formats `TIME LEVEL [client ADDRESS] SITE: TEXT` with a line feed.
pub(super) fn line(microseconds: u64, level: Level, subject: Subject<'_>, what: &[u8]) -> Vec<u8> {
    let mut line = beginning(microseconds, level, subject);
    escape(&mut line, what);
    if line.len() >= LONGEST_LINE {
        let mut end = LONGEST_LINE - CUT.len();
        while line[end] & 0xC0 == 0x80 {
            end -= 1; // not within a character
        }
        line.truncate(end);
        line.extend_from_slice(CUT);
    } else {
        line.push(b'\n');
    }
    line
}

/// Formats a text of any length: as [`line()`], and where that would cut it, as several lines.
pub(super) fn lines(
    microseconds: u64,
    level: Level,
    subject: Subject<'_>,
    what: &[u8],
) -> Vec<Vec<u8>> {
    let beginning = beginning(microseconds, level, subject);
    let mut text = Vec::with_capacity(what.len());
    escape(&mut text, what);
    let (mut rest, mut mark) = (text.as_slice(), &b""[..]);
    let mut lines = Vec::new();
    loop {
        // A site's name is a fraction of a line.
        let room = LONGEST_LINE.saturating_sub(beginning.len() + mark.len() + 1).max(4);
        let mut end = rest.len().min(room);
        while rest.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
            end -= 1; // not within a character
        }
        let (now, later) = rest.split_at(end);
        lines.push([&beginning, mark, now, b"\n"].concat());
        if later.is_empty() {
            return lines;
        }
        (rest, mark) = (later, CONTINUED);
    }
}

/// Returns a line up to its text.
///
/// A site has no brackets in its name. Therefore no text that a pool writes looks like a line about
/// a client.
fn beginning(microseconds: u64, level: Level, subject: Subject<'_>) -> Vec<u8> {
    let mut line = format!("{} {} ", timestamp(microseconds), level.name()).into_bytes();
    let Subject { site, client } = subject;
    match client {
        None => {}
        Some(client) if client.port() == 0 => {
            line.extend_from_slice(format!("[client {}] ", client.ip().to_canonical()).as_bytes());
        }
        Some(client) => {
            let client = SocketAddr::new(client.ip().to_canonical(), client.port());
            line.extend_from_slice(format!("[client {client}] ").as_bytes());
        }
    }
    if let Some(site) = site {
        line.extend_from_slice(site.as_bytes());
        line.extend_from_slice(b": ");
    }
    line
}

/// Escapes line feeds and characters that control a terminal.
fn escape(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.push(b'\t'),
                control if control.is_control() => {
                    out.extend_from_slice(format!("\\x{:02x}", u32::from(control)).as_bytes());
                }
                control if controls_terminal(control) => {
                    out.extend_from_slice(control.escape_unicode().to_string().as_bytes());
                }
                plain => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (1_795_252_849, "2026-11-21T09:20:49.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(seconds * 1_000_000), text);
        }
        assert_eq!(timestamp(1_999_999), "1970-01-01T00:00:01.999Z");
    }

    #[test]
    fn a_line_says_when_how_bad_who_and_what() {
        let line = line(0, Level::Error, Subject { site: Some("shop"), client: None }, b"it broke");
        assert_eq!(line, b"1970-01-01T00:00:00.000Z error shop: it broke\n");
    }

    #[test]
    fn a_line_about_a_client_has_its_address_before_everything_else() {
        for (address, shown) in [
            ("192.0.2.7:4711", "[client 192.0.2.7:4711]"),
            ("[2001:db8::1]:80", "[client [2001:db8::1]:80]"),
            ("[::ffff:192.0.2.7]:80", "[client 192.0.2.7:80]"),
            ("[2001:db8::1]:0", "[client 2001:db8::1]"),
        ] {
            let subject = Subject {
                site: Some("shop"),
                client: Some(address.parse().unwrap()),
            };
            let line = String::from_utf8(line(0, Level::Info, subject, b"x")).unwrap();
            assert_eq!(line, format!("1970-01-01T00:00:00.000Z info {shown} shop: x\n"));
        }
    }

    #[test]
    fn nobody_forges_a_line() {
        let text = ["a\nb\x1b[2Jc\u{9b}\u{e4}\u{202e}\u{2069}".as_bytes(), b"\xff"].concat();
        let expected =
            "1970-01-01T00:00:00.000Z info a\\nb\\x1b[2Jc\\x9b\u{e4}\\u{202e}\\u{2069}\\xff\n";
        assert_eq!(line(0, Level::Info, Subject::default(), &text), expected.as_bytes());
    }

    #[test]
    fn a_long_text_of_a_pool_is_written_whole() {
        let subject = Subject { site: Some("shop"), client: None };
        for filler in ["x", "\u{e4}", "\u{1f418}", "\u{9b}", "\n"] {
            for shift in 0..4 {
                let text = "x".repeat(shift) + &filler.repeat(5000);
                let lines = lines(0, Level::Info, subject, text.as_bytes());
                assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= LONGEST_LINE));
                let texts = lines.iter().map(|line| str::from_utf8(line).unwrap().trim_end());
                let texts = texts.map(|line| line.split_once(" shop: ").unwrap().1);
                let whole: String =
                    texts.map(|text| text.strip_prefix("(continued) ").unwrap_or(text)).collect();
                let escaped = text.replace('\u{9b}', "\\x9b").replace('\n', "\\n");
                assert_eq!(whole, escaped);
            }
        }
        let short = lines(0, Level::Info, subject, b"it broke");
        assert_eq!(short, [line(0, Level::Info, subject, b"it broke")]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for filler in ["x", "\u{e4}", "\u{1f418}"] {
            for shift in 0..4 {
                let text = "x".repeat(shift) + &filler.repeat(5000);
                let line = line(0, Level::Info, Subject::default(), text.as_bytes());
                assert!(line.len() <= LONGEST_LINE && line.len() > LONGEST_LINE - 4);
                assert!(String::from_utf8(line).unwrap().ends_with(" [cut]\n"));
            }
        }
    }
}
