//! How the number of a pool's workers follows the load, from the configuration.

use std::time::Duration;

use howdah_config::{Php, PoolMode};
use howdah_php::Scaling;

/// How long a worker that was started on demand sleeps before it ends, unless the configuration
/// says otherwise; the default of php-fpm's `pm.process_idle_timeout`.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns how the workers of a pool are kept on a machine with so many processors.
pub(super) fn of(php: &Php, processors: usize) -> Scaling {
    match php.mode {
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
            idle_timeout: php.idle_timeout.unwrap_or(IDLE_TIMEOUT),
        },
    }
}
