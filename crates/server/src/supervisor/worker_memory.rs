//! Hands what a front has measured of the memory of its pools' workers to the next front.

use std::io;
use std::sync::Arc;

use howdah_php::{MeasuredMemory, MemoryRecord};
use howdah_sys::memory::SharedNumbers;

use super::Supervisor;
use super::generation::Generation;
use super::pool::PoolProcesses;

/// What was measured of the memory of a site's workers, with the site's index in the configuration.
pub(super) type SiteMemory = (usize, MeasuredMemory);

/// Makes the numbers of a front with so many sites. They begin with what was measured before.
///
/// # Errors
/// The error of a system call.
pub(super) fn numbers(sites: usize, measured: Vec<SiteMemory>) -> io::Result<Arc<SharedNumbers>> {
    let numbers = Arc::new(SharedNumbers::new(sites * MemoryRecord::WORDS)?);
    for (site, measured) in measured {
        MemoryRecord::new(Arc::clone(&numbers), site).write(measured);
    }
    Ok(numbers)
}

impl Supervisor {
    /// Returns what the front before that of a generation has measured, for the pools that have not
    /// changed.
    pub(super) fn measured_memory(&self, number: u64) -> Vec<SiteMemory> {
        let all = self.generations.iter();
        let former = all.filter(|one| one.number < number && one.worker_memory.is_some());
        let former = former.max_by_key(|one| one.number);
        let next = self.generations.iter().find(|one| one.number == number);
        let Some((next, former)) = next.zip(former) else {
            return Vec::new();
        };
        next.pools.iter().filter_map(|pool| measured(former, next, pool)).collect()
    }
}

/// Returns what a former generation has measured for a pool of the next one.
fn measured(former: &Generation, next: &Generation, pool: &PoolProcesses) -> Option<SiteMemory> {
    let numbers = former.worker_memory.as_ref()?;
    let before = former.pools.iter().find(|one| one.name == pool.name)?;
    let (old, new) = (before.plan.as_ref()?, pool.plan.as_ref()?);
    let root =
        |one: &Generation, site: usize| Some(one.config.as_ref()?.sites.get(site)?.root.clone());
    let version = |pool: &PoolProcesses| {
        let ready = pool.zygote.as_ref()?.ready.as_ref()?;
        Some(ready.0.clone())
    };
    // A zygote that has died tells no version. Its program is the same.
    let is_same_php = version(before).is_none_or(|before| version(pool) == Some(before));
    let (a, b) = (&old.settings, &new.settings);
    let is_same = old.program == new.program
        && old.identity == new.identity
        && a.ini_file == b.ini_file
        && (&a.ini, &a.admin_ini, &a.chroot) == (&b.ini, &b.admin_ini, &b.chroot)
        && root(former, old.site) == root(next, new.site);
    let record = MemoryRecord::new(Arc::clone(numbers), old.site);
    record
        .read()
        .filter(|_| is_same && is_same_php)
        .map(|measured| (new.site, measured))
}
