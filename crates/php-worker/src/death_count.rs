//! The message about workers of which many die in a short time, whatever the reason is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::process;

/// Deaths within [`SHORT`] of which the log tells. php-fpm's `emergency_restart_threshold` and
/// `emergency_restart_interval` are usually set to these.
const MANY: usize = 10;
const SHORT: Duration = Duration::from_secs(60);

/// Counts the unexpected deaths of workers.
#[derive(Debug, Default)]
pub struct DeathCount {
    /// The times of the last deaths, at most [`MANY`].
    last: VecDeque<Instant>,
    /// The deaths of which the log has not told, by reason, and the time of the first one.
    untold: BTreeMap<String, u64>,
    since: Option<Instant>,
    /// The time of the last message.
    told: Option<Instant>,
}

impl DeathCount {
    /// Records a death with the status of `wait(2)`. Returns the message for the log; `None` where
    /// the deaths are few, or the last message is not as old as a minute.
    pub fn died(&mut self, now: Instant, status: i32) -> Option<String> {
        if self.last.len() >= MANY {
            self.last.pop_front();
        }
        self.last.push_back(now);
        let are_many =
            self.last.len() >= MANY && now.saturating_duration_since(self.last[0]) <= SHORT;
        // Former deaths that were few are forgotten.
        if !are_many && self.since.is_some_and(|since| now.saturating_duration_since(since) > SHORT)
        {
            self.untold.clear();
            self.since = None;
        }
        *self.untold.entry(process::cause_of_death(status)).or_default() += 1;
        let since = *self.since.get_or_insert(now);
        let is_told = self.told.is_some_and(|told| now.saturating_duration_since(told) < SHORT);
        if !are_many || is_told {
            return None;
        }
        self.told = Some(now);
        self.since = None;
        let causes = std::mem::take(&mut self.untold);
        let mut message = format!(
            "{} workers have died within {} s (",
            causes.values().sum::<u64>(),
            now.saturating_duration_since(since).as_secs() + 1
        );
        for (number, (cause, count)) in causes.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            // Writing to a String cannot fail.
            let _ = write!(message, "{separator}{count} by {cause}");
        }
        message.push_str("); they are replaced; see the messages above for the reasons");
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENTATION_FAULT: i32 = libc::SIGSEGV;
    const EXIT_255: i32 = 255 << 8;

    #[test]
    fn many_deaths_in_a_minute_are_told_once_a_minute_with_their_number() {
        let (begin, mut deaths) = (Instant::now(), DeathCount::default());
        let mut die =
            |second: u64, status| deaths.died(begin + Duration::from_secs(second), status);
        for second in 0..9 {
            assert_eq!(die(second, SEGMENTATION_FAULT), None);
        }
        let expected = "10 workers have died within 10 s (9 by SIGSEGV, 1 by exit status 255)";
        assert!(die(9, EXIT_255).unwrap().starts_with(expected));
        for second in 10..69 {
            assert_eq!(die(second, SEGMENTATION_FAULT), None);
        }
        let expected = "60 workers have died within 60 s (60 by SIGSEGV)";
        assert!(die(69, SEGMENTATION_FAULT).unwrap().starts_with(expected));
    }

    #[test]
    fn few_deaths_are_not_told() {
        let (begin, mut deaths) = (Instant::now(), DeathCount::default());
        for number in 0..1000 {
            let time = begin + number * Duration::from_secs(7);
            assert_eq!(deaths.died(time, SEGMENTATION_FAULT), None, "{number}");
        }
        let time = begin + Duration::from_secs(7 * 1000);
        let told: Vec<_> = (0..9).filter_map(|_| deaths.died(time, EXIT_255)).collect();
        assert_eq!(told.len(), 1, "{told:?}");
    }
}
