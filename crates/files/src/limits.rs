//! Bounds of one [`FileStore`](crate::FileStore).

/// Bounds of one store, that is of one thread of the front. At a bound, the entries that were not
/// used for longest are evicted (approximately: a clock with one bit per entry). No bound makes an
/// answer fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Paths that are kept, also those where nothing is. About 600 bytes each.
    pub entries: usize,
    /// Files kept open. Responses under way may hold more: each keeps its own open until it is
    /// sent.
    pub descriptors: usize,
    /// Bytes of small files held in memory. 16 MiB are far more than the small files that the pages
    /// and the dashboard of a WordPress load; what does not fit is in the page cache, a few
    /// microseconds away.
    pub memory: usize,
    /// The longest file that is held in memory. Measured on loopback, one `writev` of head and
    /// content beats a `send` and a `sendfile` up to 16 KiB; beyond 24 KiB the copy costs more than
    /// the second call (at 64 KiB by a fifth).
    pub small: u64,
    /// Folders that are watched, and folders that are kept. The kernel needs about 1 KiB for each.
    /// Beyond the bound, the entries of a folder are compared with the disk at every request.
    pub folders: usize,
    /// Unwatched folders that are kept until the next second. Without any, as in a store whose
    /// answers are used, every request looks at them again.
    pub passing_folders: usize,
    /// Document roots that are held open.
    pub roots: usize,
    /// Entries that rules merged for folders have copied from `.htaccess` files, about 200 bytes
    /// each. Beyond the bound, the rules of the root that has the most are merged again when they
    /// are needed.
    pub copies: usize,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits {
            entries: 8192,
            descriptors: 512,
            memory: 16 << 20,
            small: 16 << 10,
            folders: 4096,
            passing_folders: 0,
            roots: 512,
            copies: 100_000,
        }
    }
}
