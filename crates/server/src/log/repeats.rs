//! The rate limit of the error log: a few similar lines are written, and the rest is counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::Level;
use crate::net::client_address;

/// Duration in which similar lines are counted together, from the first one.
const WINDOW: Duration = Duration::from_secs(10);
/// Similar lines that are written within a window. Further ones are counted.
const WRITTEN: u32 = 10;
/// Maximum kinds of lines within a window that are counted apart, for each site and level. Lines of
/// further kinds are counted together.
const MOST_KINDS: usize = 32;
/// Maximum kinds of lines about clients that are counted apart: every client's lines are kinds of
/// their own. Lines of further kinds are counted together.
const MOST_CLIENT_KINDS: usize = 128;
/// Maximum lines that are written within a window, for each site and level. Further lines are
/// counted.
const MOST_LINES: u32 = 200;
/// Bytes of a counted line that are kept for the report. The rest is left out.
const LONGEST_TEXT: usize = 1024;

/// The recent lines of each site and level. Lines of one site never keep those of another from
/// being written, and lines about clients never keep a site's own.
///
/// Two lines are of the same kind if their level, their site, their client's network and their
/// words are equal. Words with a digit or a slash are ignored: numbers, addresses, paths, URLs.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    state: RandomState,
    sources: HashMap<u64, LineSource>,
    /// The first end of a window.
    next: Option<Instant>,
}

/// The subject of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSubject<'l> {
    pub(super) level: Level,
    /// `None` for the whole server.
    pub(super) site: Option<&'l str>,
    /// The client that caused the line; `None` if no client did.
    pub(super) client: Option<IpAddr>,
}

/// The lines of one site and level within a window, either all that are about clients or all
/// others.
#[derive(Debug)]
struct LineSource {
    since: Instant,
    level: Level,
    site: Option<String>,
    written: u32,
    kinds: HashMap<u64, RepeatCount>,
    /// Lines that were neither written nor counted in `kinds`.
    mixed: u64,
}

/// The count of one kind.
#[derive(Debug, Default)]
struct RepeatCount {
    written: u32,
    counted: u64,
    /// The first line that was counted instead of written.
    text: String,
    client: Option<IpAddr>,
}

/// A line that reports counted lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatReport {
    pub(super) level: Level,
    pub(super) site: Option<String>,
    pub(super) client: Option<IpAddr>,
    pub(super) text: String,
}

impl Repeats {
    /// Returns whether a line is written. Otherwise the line is counted.
    pub(super) fn admits(&mut self, about: LineSubject<'_>, text: &str, now: Instant) -> bool {
        let LineSubject { level, site, client } = about;
        let source = self.state.hash_one((level, site, client.is_some()));
        let kind = self.hash(|hasher| {
            client.map(network).hash(hasher);
            for word in text.split(' ') {
                if is_variable(word) { "" } else { word }.hash(hasher);
            }
        });
        let source = self.sources.entry(source).or_insert_with(|| LineSource {
            since: now,
            level,
            site: site.map(str::to_owned),
            written: 0,
            kinds: HashMap::new(),
            mixed: 0,
        });
        self.next = Some(self.next.unwrap_or(now + WINDOW).min(source.since + WINDOW));
        let most = if client.is_some() {
            MOST_CLIENT_KINDS
        } else {
            MOST_KINDS
        };
        if source.kinds.len() >= most && !source.kinds.contains_key(&kind) {
            source.mixed += 1;
            return false;
        }
        let count = source.kinds.entry(kind).or_default();
        if count.written < WRITTEN && source.written < MOST_LINES {
            count.written += 1;
            source.written += 1;
            return true;
        }
        if count.counted == 0 {
            text[..text.floor_char_boundary(LONGEST_TEXT)].clone_into(&mut count.text);
            count.client = client;
        }
        count.counted += 1;
        false
    }

    /// Removes the windows that have ended, or all of them, and returns the reports of their
    /// counts.
    pub(super) fn take(&mut self, now: Instant, all: bool) -> Vec<RepeatReport> {
        if !all && self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let is_over = |source: &LineSource| all || now >= source.since + WINDOW;
        let over: Vec<LineSource> = self
            .sources
            .extract_if(|_, source| is_over(source))
            .map(|(_, source)| source)
            .collect();
        self.next = self.sources.values().map(|source| source.since + WINDOW).min();
        over.into_iter().flat_map(|source| source.reports(now)).collect()
    }

    /// The time at which [`Repeats::take`] has a report; `None` if nothing was counted.
    pub(super) fn due(&self) -> Option<Instant> {
        let counted = self.sources.values().filter(|source| {
            source.mixed > 0 || source.kinds.values().any(|count| count.counted > 0)
        });
        counted.map(|source| source.since + WINDOW).min()
    }

    fn hash(&self, feed: impl FnOnce(&mut std::hash::DefaultHasher)) -> u64 {
        let mut hasher = self.state.build_hasher();
        feed(&mut hasher);
        hasher.finish()
    }
}

impl LineSource {
    /// Returns a report for each kind that was counted, but at most as many as lines are written
    /// within a window.
    fn reports(self, now: Instant) -> Vec<RepeatReport> {
        let LineSource { level, site, .. } = self;
        let seconds = now.saturating_duration_since(self.since).as_secs().max(1);
        let report = |client, text| RepeatReport { level, site: site.clone(), client, text };
        let counted = self.kinds.into_values().filter(|count| count.counted > 0);
        let mut reports: Vec<RepeatReport> = counted
            .map(|RepeatCount { counted, text, client, .. }| match counted {
                1 => report(client, text),
                _ => report(
                    client,
                    format!("{text} (repeated {counted} times in the last {seconds} s)"),
                ),
            })
            .collect();
        if self.mixed > 0 {
            let mixed = self.mixed;
            let text = format!("{mixed} lines of many kinds were left out in the last {seconds} s");
            reports.push(report(None, text));
        }
        reports
    }
}

/// Returns the network of a client: clients of an IPv6 network of 64 bits are one, and so are all
/// loopback addresses.
fn network(client: IpAddr) -> u64 {
    match client_address(client) {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

fn is_variable(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(level: Level, site: Option<&str>) -> LineSubject<'_> {
        LineSubject { level, site, client: None }
    }

    fn line(number: usize) -> String {
        format!("400 Bad Request to 192.0.2.1:{number}: no host, while reading /{number}")
    }

    #[test]
    fn lines_of_one_kind_are_written_ten_times_and_then_counted() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let admitted = (0..1000)
            .filter(|number| repeats.admits(about(Level::Info, None), &line(*number), now))
            .count();
        assert_eq!(admitted, 10);
        assert_eq!(repeats.due(), Some(now + WINDOW));
        assert_eq!(repeats.take(now + WINDOW / 2, false), []);
        let report = RepeatReport {
            level: Level::Info,
            site: None,
            client: None,
            text: format!("{} (repeated 990 times in the last 10 s)", line(10)),
        };
        assert_eq!(repeats.take(now + WINDOW, false), [report]);
        assert_eq!(repeats.due(), None);
        assert!(repeats.admits(about(Level::Info, None), &line(0), now + WINDOW));
    }

    #[test]
    fn another_level_site_or_word_is_another_kind() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        while repeats.admits(about(Level::Info, Some("shop")), "it broke", now) {}
        assert!(repeats.admits(about(Level::Error, Some("shop")), "it broke", now));
        assert!(repeats.admits(about(Level::Info, Some("blog")), "it broke", now));
        assert!(repeats.admits(about(Level::Info, Some("shop")), "it failed", now));
        assert!(repeats.admits(about(Level::Info, None), "it broke", now));
        assert!(!repeats.admits(about(Level::Info, Some("shop")), "it broke", now));
    }

    fn word(number: usize) -> String {
        let letters = [number / 26 / 26 % 26, number / 26 % 26, number % 26];
        letters.map(|letter| char::from(b'a' + letter as u8)).iter().collect()
    }

    #[test]
    fn lines_of_many_kinds_from_one_site_are_bounded_and_keep_no_other_line() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let shop = about(Level::Error, Some("shop"));
        let admits = |number: &usize| repeats.admits(shop, &word(number % 9000), now);
        let admitted = (0..50_000).filter(admits).count();
        assert!(admitted <= MOST_LINES as usize, "{admitted}");
        assert!(repeats.sources.values().all(|source| source.kinds.len() <= MOST_KINDS));
        for other in [about(Level::Error, Some("blog")), about(Level::Warning, Some("shop"))] {
            assert!(repeats.admits(other, "another", now));
        }
        let client = Some(IpAddr::from([192, 0, 2, 1]));
        assert!(repeats.admits(LineSubject { client, ..shop }, "another", now));
        let reports = repeats.take(now, true);
        assert!(reports.iter().any(|report| report.text.contains("lines of many kinds")));
        assert!(repeats.sources.is_empty());
    }

    #[test]
    fn each_clients_lines_are_kinds_of_their_own_and_a_crowd_is_bounded() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let about = |client: IpAddr| LineSubject {
            level: Level::Info,
            site: Some("shop"),
            client: Some(client),
        };
        let first = IpAddr::from([192, 0, 2, 1]);
        while repeats.admits(about(first), "it failed", now) {}
        assert!(repeats.admits(about(IpAddr::from([192, 0, 2, 2])), "it failed", now));
        let v6 = |low: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, low]);
        let admitted = (0..1000).filter(|low| repeats.admits(about(v6(*low)), "it failed", now));
        assert_eq!(admitted.count(), WRITTEN as usize, "one network");
        let crowd = (0..100_000_u32)
            .filter(|bits| repeats.admits(about(IpAddr::from(bits.to_be_bytes())), "x", now))
            .count();
        assert!(crowd <= MOST_LINES as usize, "{crowd}");
        assert!(repeats.sources.values().all(|source| source.kinds.len() <= MOST_CLIENT_KINDS));
    }

    #[test]
    fn one_line_that_was_left_out_is_written_as_it_was() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let texts: Vec<String> = (0..11).map(line).collect();
        for text in &texts {
            repeats.admits(about(Level::Error, Some("shop")), text, now);
        }
        assert_eq!(repeats.take(now, true)[0].text, texts[10]);
    }

    #[test]
    fn a_long_line_is_kept_in_part() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let text = "\u{e4}".repeat(5000);
        while repeats.admits(about(Level::Error, None), &text, now) {}
        repeats.admits(about(Level::Error, None), &text, now);
        assert!(repeats.take(now, true)[0].text.len() < LONGEST_TEXT + 50);
    }
}
