//! The pools of the sites, on the front's side.

use std::io;
use std::sync::Arc;

use howdah_config::{AccessFormat, Config, LogFormat, PoolMode};
use howdah_php::{MemoryRecord, MemoryWatch, Pool, PoolLimits};
use howdah_sys::credentials::Identity;
use howdah_sys::memory::SharedNumbers;

use super::{lanes, memory, processors, scaling};
use crate::supervisor::front_protocol::PoolChannel;

/// By site: the pool, and the user that the pool runs as where that is not the front's.
pub(super) type SitePools = (Vec<Option<Arc<Pool>>>, Vec<Option<Arc<Identity>>>);

/// Makes the pools of the sites that have one, and watches the memory where a pool needs that.
pub(super) fn site_pools(
    config: &Config,
    channels: &[PoolChannel],
    threads: usize,
) -> io::Result<SitePools> {
    let mut pools: Vec<Option<Arc<Pool>>> = vec![None; config.sites.len()];
    let mut users = vec![None; config.sites.len()];
    let memory = Arc::new(MemoryWatch::default());
    let mut modes = config.sites.iter().filter_map(|site| site.php.as_ref()).map(|php| php.mode);
    if modes.any(|mode| mode == PoolMode::Auto) {
        memory::follow(&memory)?;
    }
    for channel in channels {
        users[channel.site].clone_from(&channel.user);
        let Some(php) = &config.sites[channel.site].php else {
            continue;
        };
        let format = config.log.format_of(&config.sites[channel.site]);
        let logs_cpu =
            matches!(format, AccessFormat::Json) || format.own().is_some_and(LogFormat::tells_cpu);
        let limits = PoolLimits {
            workers: php.worker_count(processors()),
            scaling: scaling::of(php, processors()),
            queue: php.queue,
            queue_timeout: php.queue_timeout,
            request_timeout: php.request_timeout,
            request_terminate_timeout: php.longest_request(),
            slow_after: php.slow_after(),
            meters_processor: php.status_path.is_some() || logs_cpu,
        };
        let limits = (limits, lanes::of(php, processors()));
        pools[channel.site] =
            Some(Pool::new(channel.name.clone(), limits, threads, memory.clone()));
    }
    Ok((pools, users))
}

/// Makes the pools keep what they measure of their workers' memory for the next front.
pub(super) fn keep_measurements(pools: &[Option<Arc<Pool>>], numbers: &Arc<SharedNumbers>) {
    for (site, pool) in pools.iter().enumerate() {
        let record = || MemoryRecord::new(Arc::clone(numbers), site);
        pool.iter().for_each(|pool| pool.remember(record()));
    }
}
