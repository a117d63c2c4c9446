//! The worker that died with a request.

/// A worker that died while it ran a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWorker {
    /// Its process.
    pub pid: u64,
    /// Its `wait(2)` status.
    pub status: u32,
}

impl LostWorker {
    /// One number for both, which is not 0. Process ids have 32 bits, wait statuses have 16.
    pub(super) fn pack(self) -> u64 {
        let pid = u32::try_from(self.pid).unwrap_or(0);
        u64::from(pid) << 32 | u64::from(self.status.saturating_add(1))
    }

    /// The worker of a number; `None` for 0.
    pub(super) fn unpack(number: u64) -> Option<LostWorker> {
        let status = u32::try_from(number & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
        Some(LostWorker { pid: number >> 32, status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_worker_is_kept_in_one_number() {
        for lost in [LostWorker { pid: 0, status: 0 }, LostWorker { pid: 4_194_304, status: 139 }] {
            assert_eq!(LostWorker::unpack(lost.pack()), Some(lost));
        }
        assert_eq!(LostWorker::unpack(0), None);
    }
}
