//! The shared memory of the pools, which outlives their zygotes: a script finds again what another
//! one has left, after a reload, after a crash and under a new binary.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use howdah_sys::process::Pid;
use howdah_sys::shared_memory::SharedMemorySpace;

use super::takeover::Handover;

/// The first word of a line for another program.
pub(super) const WORD: &str = "shared-memory";

/// The shared memory of each pool, by the pool's name.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolMemory(Rc<RefCell<HashMap<String, Arc<SharedMemorySpace>>>>);

impl PoolMemory {
    /// The memory of a pool; `None` before its first zygote.
    pub(super) fn of(&self, pool: &str) -> Option<Arc<SharedMemorySpace>> {
        self.0.borrow().get(pool).cloned()
    }

    /// Keeps the memory of a zygote, which was just started with its own. Where that may not be
    /// looked into, the memory ends with the zygote.
    pub(super) fn keep(&self, pool: &str, zygote: Pid) {
        if let Ok(space) = SharedMemorySpace::of(zygote) {
            self.0.borrow_mut().insert(pool.to_owned(), Arc::new(space));
        }
    }

    /// Takes over what another program has kept.
    pub(super) fn inherit(&self, inherited: Vec<(String, SharedMemorySpace)>) {
        let inherited = inherited.into_iter().map(|(pool, space)| (pool, Arc::new(space)));
        self.0.borrow_mut().extend(inherited);
    }

    /// Forgets the memory of the pools for which `keeps` returns `false`. It ends with their
    /// processes.
    pub(super) fn retain(&self, keeps: impl Fn(&str) -> bool) {
        self.0.borrow_mut().retain(|pool, _| keeps(pool));
    }

    /// Everything that is kept.
    pub(super) fn all(&self) -> Vec<(String, Arc<SharedMemorySpace>)> {
        let kept = self.0.borrow();
        kept.iter().map(|(pool, space)| (pool.clone(), Arc::clone(space))).collect()
    }
}

/// Adds the lines of `kept` for another program.
///
/// # Errors
/// The errors of [`Handover::line`].
pub(super) fn hand_over<'d>(
    kept: &'d [(String, Arc<SharedMemorySpace>)],
    handover: &mut Handover<'d>,
) -> io::Result<()> {
    for (pool, space) in kept {
        handover.line(&[WORD], &space.descriptors(), OsStr::new(pool))?;
    }
    Ok(())
}
