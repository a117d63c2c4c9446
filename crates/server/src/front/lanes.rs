//! The lanes of a pool, as the configuration has them.

use howdah_config::Php;
use howdah_php::LaneLimits;

use crate::observe::NO_SITE;

/// The lanes of a site, the one for all other requests first; none where none are configured.
pub(super) fn of(php: &Php, processors: usize) -> Vec<LaneLimits> {
    let workers = php.worker_count(processors);
    let others = LaneLimits {
        name: NO_SITE.to_owned(),
        workers,
        queue: php.queue,
        queue_timeout: php.queue_timeout,
        weight: 1,
    };
    let own = php.lanes.iter().map(|lane| LaneLimits {
        name: lane.name.clone(),
        workers: lane.workers.unwrap_or(workers).min(workers.saturating_sub(1)).max(1),
        queue: lane.queue.unwrap_or(php.queue),
        queue_timeout: lane.queue_timeout.unwrap_or(php.queue_timeout),
        weight: lane.weight,
    });
    match php.lanes.is_empty() {
        true => Vec::new(),
        false => [others].into_iter().chain(own).collect(),
    }
}

/// The names of the lanes of a site, as [`of`] has them.
pub(crate) fn names(php: &Php) -> impl Iterator<Item = &str> {
    let others = (!php.lanes.is_empty()).then_some(NO_SITE);
    others.into_iter().chain(php.lanes.iter().map(|lane| lane.name.as_str()))
}
