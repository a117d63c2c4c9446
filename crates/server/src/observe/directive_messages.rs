//! Messages of directives in the error log, each written at most once a minute.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_htaccess::DirectivePlace;

/// A message of a directive: the place of the directive, if it has one, and the text.
pub(crate) type DirectiveMessage = (Option<Arc<DirectivePlace>>, String);

/// The messages that were logged within the last minute. They keep a mistake in a busy site from
/// filling the log. A line of one site never takes the place of a line of another.
#[derive(Debug, Default)]
pub(crate) struct LoggedMessages {
    /// By the number of the site.
    logged: HashSet<(usize, DirectiveMessage)>,
    since: Option<Instant>,
}

impl LoggedMessages {
    /// Returns whether the message was not logged within the last minute. A message without a
    /// place, such as one of a refused user, is always news.
    pub(crate) fn is_news(
        &mut self,
        site: usize,
        message: &DirectiveMessage,
        now: Instant,
    ) -> bool {
        if message.0.is_none() {
            return true;
        }
        self.note(site, message.clone(), now)
    }

    /// Notes that the message is being logged. Returns whether it was news.
    pub(crate) fn note(&mut self, site: usize, message: DirectiveMessage, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MINUTE || self.logged.len() >= MOST_LOGGED {
            self.logged.clear();
            self.since = Some(now);
        }
        self.logged.insert((site, message))
    }
}

/// The time that a message is not repeated.
const MINUTE: Duration = Duration::from_secs(60);

/// The most messages that are kept. At this bound all are dropped.
const MOST_LOGGED: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_repeated_for_another_site_and_after_a_minute() {
        let (mut recent, now) = (LoggedMessages::default(), Instant::now());
        let place = DirectivePlace {
            file: "/srv/.htaccess".into(),
            line: 1,
            column: 1,
        };
        let message = (Some(Arc::new(place)), "it is wrong".to_owned());
        assert!(recent.note(1, message.clone(), now));
        assert!(!recent.is_news(1, &message, now));
        assert!(recent.is_news(2, &message, now));
        assert!(!recent.is_news(2, &message, now));
        assert!(recent.is_news(1, &message, now + MINUTE));
        let refused = (None, "no such user".to_owned());
        assert!(recent.is_news(1, &refused, now) && recent.is_news(1, &refused, now));
    }
}
