//! The limits of a pool's processes: its control groups, and open descriptors.

use super::super::cgroups::PoolGroup;
use super::super::environment::Environment;
use super::super::generation_plan::{PoolPlan, descriptors_of_pool};
use crate::log::{ErrorLog, Level};

/// Creates the control groups of a pool, where that is possible. `None`: the pool has no groups. A
/// limit without effect is logged.
pub(super) fn group(
    number: u64,
    plan: &PoolPlan,
    environment: &Environment,
    log: &ErrorLog,
) -> Option<PoolGroup> {
    let site = Some(plan.settings.pool.as_str());
    let warn = |what: &str| log.say(Level::Warning, site, what);
    let limits = plan.limits?;
    let keys = limits.keys().into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>();
    let without = |error: &dyn std::fmt::Display| {
        if !keys.is_empty() {
            let keys = keys.join(", ");
            warn(&format!("no control group limits the pool, {keys} without effect: {error}"));
        }
    };
    let groups = match environment.cgroups.as_ref()? {
        Ok(groups) => groups,
        Err(error) => {
            without(error);
            return None;
        }
    };
    match groups.pool(number, &plan.settings.pool, limits) {
        Ok((group, failed)) => {
            failed.iter().for_each(|failed| warn(failed));
            Some(group)
        }
        Err(error) => {
            without(&error);
            None
        }
    }
}

/// The limit of open descriptors for a zygote: those of the pool itself, and those that PHP opens.
pub(super) fn descriptor_limit(plan: &PoolPlan, environment: &Environment) -> (u64, u64) {
    let (soft, hard) = environment.descriptor_limit;
    let ours = descriptors_of_pool(plan.workers, environment.processors);
    match plan.isolation.descriptors {
        Some(limit) => {
            let limit = limit.saturating_add(ours).min(hard);
            (limit, limit)
        }
        None => (soft.max(1024).saturating_add(ours).min(hard), hard),
    }
}
