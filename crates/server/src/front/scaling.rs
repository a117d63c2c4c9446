//! The configuration's rules for the number of a pool's workers.

use std::time::Duration;

use howdah_config::{Php, PoolMode};
use howdah_php::Scaling;

/// The time that a worker that was started on demand sleeps before it ends, unless the
/// configuration says otherwise; the default of php-fpm's `pm.process_idle_timeout`.
const IDLE_ON_DEMAND: Duration = Duration::from_secs(10);
/// The same time in pools whose workers also end when memory is short.
const IDLE_AUTO: Duration = Duration::from_secs(300);

/// Returns how the workers of a pool are kept on a machine with that number of processors.
pub(super) fn of(php: &Php, processors: usize) -> Scaling {
    match php.mode {
        PoolMode::Auto => Scaling::Auto {
            // Scripts that never wait for anything need no more, unless they are slow.
            start: processors.max(2),
            idle_timeout: php.idle_timeout.unwrap_or(IDLE_AUTO),
            memory_share: php.memory_share,
            memory: php.memory,
        },
        PoolMode::Static => Scaling::Static,
        PoolMode::Dynamic => {
            let workers = php.worker_count(processors);
            let (least_spare, most_spare) = php.spare_workers(workers);
            Scaling::Dynamic {
                start: php.first_workers(workers),
                least_spare,
                most_spare,
                idle_timeout: php.idle_timeout,
            }
        }
        PoolMode::OnDemand => Scaling::OnDemand {
            idle_timeout: php.idle_timeout.unwrap_or(IDLE_ON_DEMAND),
        },
    }
}
