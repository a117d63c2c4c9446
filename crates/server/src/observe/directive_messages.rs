//! Messages of directives in the error log, each written at most once a minute.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_htaccess::Place;

/// A message of a directive: the place of the directive, if it has one, and the text.
pub(crate) type DirectiveMessage = (Option<Arc<Place>>, String);

/// The messages that were logged within the last minute. They keep a mistake in a busy site from
/// filling the log.
#[derive(Debug, Default)]
pub(crate) struct RecentMessages {
    logged: HashSet<DirectiveMessage>,
    since: Option<Instant>,
}

impl RecentMessages {
    /// Returns whether the message was not logged within the last minute. A message without a
    /// place, such as one of a refused user, is always news.
    pub(crate) fn is_news(&mut self, message: &DirectiveMessage, now: Instant) -> bool {
        if message.0.is_none() {
            return true;
        }
        self.note(message.clone(), now)
    }

    /// Notes that the message is being logged. Returns whether it was news.
    pub(crate) fn note(&mut self, message: DirectiveMessage, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MINUTE || self.logged.len() >= MOST_LOGGED {
            self.logged.clear();
            self.since = Some(now);
        }
        self.logged.insert(message)
    }
}

/// The time that a message is not repeated.
const MINUTE: Duration = Duration::from_secs(60);

/// The most messages that are kept. At this bound all are dropped.
const MOST_LOGGED: usize = 1024;
