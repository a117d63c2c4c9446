//! The watches of inotify that a front may have. All processes of its user have some together.

/// The least number of watches that the kernel allows a user, where it does not tell.
const LEAST: usize = 8192;
/// The part of the user's watches that folders get, and the one of files that are being sent. The
/// rest is for the generation before, and for other processes of the user.
const FOLDERS: usize = 2;
const SENT: usize = 4;

/// The watches of each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WatchLimits {
    /// Folders of an event loop.
    pub(crate) folders: usize,
    /// Folders of a thread for costly directives.
    pub(crate) of_evaluator: usize,
    /// Files that an event loop sends.
    pub(crate) sent: usize,
}

impl WatchLimits {
    /// Divides the `most` watches of the user. `None`: the kernel does not tell their number.
    pub(super) fn of(most: Option<usize>, threads: usize, evaluators: usize) -> WatchLimits {
        let most = most.unwrap_or(LEAST);
        let usual = howdah_files::StoreLimits::default().folders;
        let of_evaluator = most / FOLDERS / (4 * threads + evaluators).max(1);
        WatchLimits {
            folders: usual.min(4 * of_evaluator),
            of_evaluator: (usual / 4).min(of_evaluator),
            sent: most / SENT / threads.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_leave_watches_to_others() {
        for most in [Some(0), Some(1), Some(100), None, Some(8192), Some(65_536), Some(1 << 20)] {
            for (threads, evaluators) in [(1, 2), (2, 2), (64, 32)] {
                let limits = WatchLimits::of(most, threads, evaluators);
                let folders = limits.folders * threads + limits.of_evaluator * evaluators;
                let (all, most) = (folders + limits.sent * threads, most.unwrap_or(LEAST));
                assert!(all <= most / 4 * 3 + 1, "{most}: {limits:?}");
            }
        }
        let limits = WatchLimits::of(Some(65_536), 2, 2);
        assert_eq!((limits.folders, limits.of_evaluator, limits.sent), (4096, 1024, 8192));
    }
}
