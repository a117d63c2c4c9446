//! The rate limit of the error log: a few similar lines are written, and the rest is counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::time::{Duration, Instant};

use super::Level;

/// Duration in which similar lines are counted together, from the first one.
const WINDOW: Duration = Duration::from_secs(10);
/// Similar lines that are written within a window. Further ones are counted.
const WRITTEN: u32 = 10;
/// Maximum number of kinds of lines at a time. Lines of further kinds are counted together by
/// level.
const MOST_KINDS: usize = 256;
/// Bytes of a counted line that are kept for the report.
const LONGEST_TEXT: usize = 1024;

/// The kinds of recent lines.
///
/// Two lines are of the same kind if their level, their site and their words are equal. Words with
/// a digit or a slash are ignored: numbers, addresses, paths, URLs.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    state: RandomState,
    kinds: HashMap<u64, RepeatCount>,
}

/// The count of one kind.
#[derive(Debug)]
struct RepeatCount {
    since: Instant,
    written: u32,
    counted: u64,
    level: Level,
    site: Option<String>,
    /// The first line that was counted instead of written.
    text: String,
    /// Lines of several kinds are counted together.
    mixed: bool,
}

/// A line that reports counted lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RepeatReport {
    pub(super) level: Level,
    pub(super) site: Option<String>,
    pub(super) text: String,
}

impl Repeats {
    /// Returns whether a line is written. Otherwise the line is counted.
    pub(super) fn admits(
        &mut self,
        level: Level,
        site: Option<&str>,
        text: &str,
        now: Instant,
    ) -> bool {
        let mut kind = self.hash(|hasher| {
            (level, site).hash(hasher);
            for word in text.split(' ') {
                if is_variable(word) { "" } else { word }.hash(hasher);
            }
        });
        let mixed = self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&kind);
        if mixed {
            kind = self.hash(|hasher| level.hash(hasher));
        }
        let count = self.kinds.entry(kind).or_insert_with(|| RepeatCount {
            since: now,
            written: 0,
            counted: 0,
            level,
            site: site.filter(|_| !mixed).map(str::to_owned),
            text: String::new(),
            mixed,
        });
        if count.written < WRITTEN {
            count.written += 1;
            return true;
        }
        if count.counted == 0 && !mixed {
            text[..text.floor_char_boundary(LONGEST_TEXT)].clone_into(&mut count.text);
        }
        count.counted += 1;
        false
    }

    /// Removes the kinds whose window has ended, or all of them, and returns the reports of their
    /// counts.
    pub(super) fn take(&mut self, now: Instant, all: bool) -> Vec<RepeatReport> {
        let is_over =
            |count: &RepeatCount| all || now.saturating_duration_since(count.since) >= WINDOW;
        let over = self.kinds.extract_if(|_, count| is_over(count));
        over.filter_map(|(_, count)| count.report(now)).collect()
    }

    /// The time at which [`Repeats::take`] has a report; `None` if nothing was counted.
    pub(super) fn due(&self) -> Option<Instant> {
        let counted = self.kinds.values().filter(|count| count.counted > 0);
        counted.map(|count| count.since + WINDOW).min()
    }

    fn hash(&self, feed: impl FnOnce(&mut std::hash::DefaultHasher)) -> u64 {
        let mut hasher = self.state.build_hasher();
        feed(&mut hasher);
        hasher.finish()
    }
}

impl RepeatCount {
    fn report(self, now: Instant) -> Option<RepeatReport> {
        let RepeatCount { counted, mixed, text, level, .. } = self;
        let seconds = now.saturating_duration_since(self.since).as_secs().max(1);
        let text = match counted {
            0 => return None,
            _ if mixed => {
                format!("{counted} lines of many kinds were left out in the last {seconds} s")
            }
            1 => text,
            _ => format!("{text} (repeated {counted} times in the last {seconds} s)"),
        };
        Some(RepeatReport { level, site: self.site, text })
    }
}

fn is_variable(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> String {
        format!("400 Bad Request to 192.0.2.1:{number}: no host, while reading /{number}")
    }

    #[test]
    fn lines_of_one_kind_are_written_ten_times_and_then_counted() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let admitted = (0..1000)
            .filter(|number| repeats.admits(Level::Info, None, &line(*number), now))
            .count();
        assert_eq!(admitted, 10);
        assert_eq!(repeats.due(), Some(now + WINDOW));
        assert_eq!(repeats.take(now + WINDOW / 2, false), []);
        let report = RepeatReport {
            level: Level::Info,
            site: None,
            text: format!("{} (repeated 990 times in the last 10 s)", line(10)),
        };
        assert_eq!(repeats.take(now + WINDOW, false), [report]);
        assert_eq!(repeats.due(), None);
        assert!(repeats.admits(Level::Info, None, &line(0), now + WINDOW));
    }

    #[test]
    fn another_level_site_or_word_is_another_kind() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        while repeats.admits(Level::Info, Some("shop"), "it broke", now) {}
        assert!(repeats.admits(Level::Error, Some("shop"), "it broke", now));
        assert!(repeats.admits(Level::Info, Some("blog"), "it broke", now));
        assert!(repeats.admits(Level::Info, Some("shop"), "it failed", now));
        assert!(repeats.admits(Level::Info, None, "it broke", now));
        assert!(!repeats.admits(Level::Info, Some("shop"), "it broke", now));
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together_by_level() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let word = |number: usize| {
            let letters = [number / 26 / 26 % 26, number / 26 % 26, number % 26];
            letters.map(|letter| char::from(b'a' + letter as u8)).iter().collect::<String>()
        };
        let admitted = (0..10_000)
            .filter(|number| repeats.admits(Level::Info, None, &word(*number), now))
            .count();
        assert!(admitted <= 10 * (MOST_KINDS + 1), "{admitted}");
        assert!(repeats.kinds.len() <= MOST_KINDS + 4);
        // More severe lines are still written.
        assert!(repeats.admits(Level::Error, None, "another", now));
        let reports = repeats.take(now, true);
        assert!(reports.iter().any(|report| report.text.contains("lines of many kinds")));
        assert!(repeats.kinds.is_empty());
    }

    #[test]
    fn one_line_that_was_left_out_is_written_as_it_was() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let texts: Vec<String> = (0..11).map(line).collect();
        for text in &texts {
            repeats.admits(Level::Error, Some("shop"), text, now);
        }
        assert_eq!(repeats.take(now, true)[0].text, texts[10]);
    }

    #[test]
    fn a_long_line_is_kept_in_part() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let text = "\u{e4}".repeat(5000);
        while repeats.admits(Level::Error, None, &text, now) {}
        repeats.admits(Level::Error, None, &text, now);
        assert!(repeats.take(now, true)[0].text.len() < LONGEST_TEXT + 50);
    }
}
