//! Hands what a front has measured of the memory of its pools' workers to the next front, also to
//! that of another program.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

use howdah_php::{MeasuredMemory, MemoryRecord};
use howdah_sys::memory::SharedNumbers;

use super::Supervisor;
use super::generation::Generation;
use super::pool::PoolProcesses;
use super::takeover::Handover;

/// The first word of a line for another program.
pub(super) const WORD: &str = "worker-memory";

/// The measured memory of a site's workers, with the site's index in the configuration.
pub(super) type SiteMemory = (usize, MeasuredMemory);

/// The measured memory of a pool's workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolMeasurement {
    pub(super) pool: String,
    /// A number of what the pool ran: as [`subject`] makes it.
    pub(super) subject: u64,
    pub(super) measured: MeasuredMemory,
}

impl PoolMeasurement {
    /// The measurement that another program has written as these numbers: bytes of a worker at rest
    /// and of a script, a number of PHP's settings, and one of what the pool ran.
    pub(super) fn new([resting, script, settings, subject]: [u64; 4], pool: &OsStr) -> Self {
        PoolMeasurement {
            pool: pool.to_string_lossy().into_owned(),
            subject,
            measured: MeasuredMemory { resting, script, settings },
        }
    }
}

/// Makes the numbers of a front with `sites` sites. They begin with what was measured before.
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
    /// Returns what the front before that of a generation has measured, for the pools that run the
    /// same scripts. The next front looks whether PHP has the same settings.
    pub(super) fn measured_memory(&self, number: u64) -> Vec<SiteMemory> {
        let next = self.generations.iter().find(|one| one.number == number);
        let Some(next) = next else { return Vec::new() };
        let former = self.measurements_before(number);
        let of = |pool: &PoolProcesses| {
            let (site, subject) = subject(next, pool)?;
            let is_it = |one: &&PoolMeasurement| one.pool == pool.name && one.subject == subject;
            Some((site, former.iter().find(is_it)?.measured))
        };
        next.pools.iter().filter_map(of).collect()
    }

    /// Returns what the last front before the generation `number` has measured, or what the former
    /// program has told where this one has had no front.
    fn measurements_before(&self, number: u64) -> Vec<PoolMeasurement> {
        let all = self.generations.iter();
        let former = all.filter(|one| one.number < number && one.worker_memory.is_some());
        match former.max_by_key(|one| one.number) {
            Some(former) => measurements(former),
            None => self.inherited_measurements.clone(),
        }
    }

    /// Adds lines about the workers' memory for another program.
    ///
    /// # Errors
    /// The errors of [`Handover::line`].
    pub(super) fn hand_over_measurements(&self, handover: &mut Handover<'_>) -> io::Result<()> {
        for PoolMeasurement { pool, subject, measured } in self.measurements_before(u64::MAX) {
            let MeasuredMemory { resting, script, settings } = measured;
            let numbers = [resting, script, settings, subject].map(|number| number.to_string());
            let words: Vec<&str> = [WORD].into_iter().chain(numbers.iter().map(|n| &**n)).collect();
            handover.line(&words, &[], OsStr::new(&pool))?;
        }
        Ok(())
    }
}

/// Returns what a generation's front has measured.
fn measurements(generation: &Generation) -> Vec<PoolMeasurement> {
    let Some(numbers) = &generation.worker_memory else {
        return Vec::new();
    };
    let of = |pool: &PoolProcesses| {
        let (site, subject) = subject(generation, pool)?;
        let measured = MemoryRecord::new(Arc::clone(numbers), site).read()?;
        let pool = pool.name.clone();
        Some(PoolMeasurement { pool, subject, measured })
    };
    generation.pools.iter().filter_map(of).collect()
}

/// Returns the index of a pool's site, and a number of what the pool runs and where: two programs
/// that are built with the same compiler have the same number. PHP's settings are apart, as the
/// zygote tells them. `None` if another program started the pool.
fn subject(generation: &Generation, pool: &PoolProcesses) -> Option<(usize, u64)> {
    let plan = pool.plan.as_ref()?;
    let site = generation.config.as_ref()?.sites.get(plan.site)?;
    let mut hasher = DefaultHasher::new();
    (&plan.program, &plan.settings.chroot).hash(&mut hasher);
    plan.identity.as_ref().map(|user| (&user.name, user.uid)).hash(&mut hasher);
    format!("{:?}", site.root).hash(&mut hasher);
    Some((plan.site, hasher.finish()))
}
