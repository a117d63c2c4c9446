//! The number of connections, cached files and temporary files that fit into the limit of open
//! files.

use std::io;

use howdah_config::Config;

/// Connections and files that may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFileLimits {
    pub(super) connections: usize,
    /// Files that each thread may keep open.
    pub(super) cached: usize,
    /// Temporary files of all requests. A connection of HTTP/2 or HTTP/3 may want a hundred.
    pub(super) stored: usize,
    /// The limit of open files.
    limit: u64,
}

/// Descriptors of a pool: doorbells, sockets, memory.
const POOL: u64 = 64;
/// Descriptors of a thread: its event queue, listeners, inotify.
const THREAD: u64 = 32;
/// Descriptors of the front as a whole: logs, the supervisor, temporary files of the storage's
/// threads.
const FRONT: u64 = 32;
/// Connections that are always allowed.
const LEAST: usize = 16;

impl OpenFileLimits {
    /// Divides the limit of open files, soft and hard. A connection has its socket, and one in four
    /// may have a file besides.
    pub(super) fn of(
        config: &Config,
        threads: usize,
        limit: io::Result<(u64, u64)>,
    ) -> OpenFileLimits {
        // Without a known limit, accepting meets it.
        let limit = limit.map_or(u64::MAX, |(soft, _)| soft);
        let threads = threads as u64;
        let usual = howdah_files::StoreLimits::default().descriptors as u64;
        let cached = usual.min(limit / (8 * threads));
        let pools = config.sites.iter().filter(|site| site.php.is_some()).count() as u64;
        let own = FRONT + threads * (THREAD + cached) + pools * POOL;
        let fitting = limit.saturating_sub(own) / 5 * 4;
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        let connections = config.limits.connections.min(fitting.max(LEAST));
        let left = limit.saturating_sub(own + connections as u64);
        OpenFileLimits {
            connections,
            cached: cached as usize,
            // The other half is for sockets to upstreams, and for files that are being sent.
            stored: usize::try_from(left / 2).unwrap_or(usize::MAX).max(LEAST),
            limit,
        }
    }

    /// Returns what the operator has to know where fewer connections fit than are configured.
    pub(super) fn warning(&self, config: &Config) -> Option<String> {
        let OpenFileLimits { connections, limit, .. } = *self;
        let wanted = config.limits.connections;
        (connections < wanted).then(|| {
            format!(
                "at most {connections} connections at once, not {wanted} (`connections` of \
                 `[limits]`), because the limit of open files is {limit}; raise it with `ulimit \
                 -n` or LimitNOFILE"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(limit: u64) -> (OpenFileLimits, Option<String>) {
        let text = "[[site]]\nroot = \"/srv\"\n";
        let config = Config::parse(text, "test.toml").expect("the configuration is right");
        let limits = OpenFileLimits::of(&config, 2, Ok((limit, limit)));
        (limits, limits.warning(&config))
    }

    #[test]
    fn what_is_configured_fits_into_a_usual_limit() {
        let (room, warning) = limits(1 << 20);
        assert_eq!((room.connections, room.cached, warning), (16_384, 512, None));
    }

    #[test]
    fn a_low_limit_leaves_room_for_all_that_a_connection_needs() {
        for limit in [256, 1024, 4096, 20_000] {
            let (room, warning) = limits(limit);
            let needed = room.connections + room.stored + 2 * room.cached;
            assert!(needed as u64 <= limit, "{limit}: {room:?}");
            assert!(room.connections >= LEAST && room.cached > 0, "{limit}: {room:?}");
            assert!(warning.is_some_and(|text| text.contains(&limit.to_string())));
        }
    }
}
