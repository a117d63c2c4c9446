//! The number of connections, to upstreams as well, of cached files and of temporary files that fit
//! into the limit of open files.

use std::io;

use howdah_config::Config;

use crate::body::SentFiles;
use crate::budget::{Budget, BudgetUnit};
use crate::descriptor_needs::{DescriptorNeeds, LEAST};

/// Connections and files that may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFileLimits {
    /// Connections of clients.
    pub(super) connections: usize,
    /// Files that each thread may keep open.
    pub(super) cached: usize,
    /// Temporary files of all requests. A connection of HTTP/2 or HTTP/3 may want a hundred.
    pub(super) stored: usize,
    /// Files that are being sent, beside those that the threads keep open.
    pub(super) sent: usize,
    /// Connections to the upstreams of all sites, with those that wait for their next request.
    pub(super) upstreams: usize,
    /// The limit of open files.
    limit: u64,
}

impl OpenFileLimits {
    /// Divides the limit of open files, soft and hard. A connection has its socket, and one in four
    /// may have a file besides. Where a site has upstreams, a connection may have another one to an
    /// upstream, or a file.
    pub(super) fn of(
        config: &Config,
        needs: DescriptorNeeds,
        limit: io::Result<(u64, u64)>,
    ) -> OpenFileLimits {
        // Without a known limit, accepting meets it.
        let limit = limit.map_or(u64::MAX, |(soft, _)| soft);
        let threads = needs.threads();
        let usual = howdah_files::StoreLimits::default().descriptors as u64;
        // A lower limit is refused at the start.
        let spare = limit.saturating_sub(needs.front());
        let cached = usual.min(spare / (8 * threads)).max(1);
        let free = spare.saturating_sub(threads * (cached - 1));
        let (fitting, parts) = match config.sites.iter().any(|site| !site.upstreams.is_empty()) {
            true => (free / 2, 4),
            false => (free / 5 * 4, 2),
        };
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        let least = LEAST as usize;
        let connections = config.limits.connections.min(fitting.saturating_add(least));
        let left = free.saturating_sub(connections.saturating_sub(least) as u64);
        let part =
            |parts| usize::try_from(left / parts).unwrap_or(usize::MAX).saturating_add(least);
        OpenFileLimits {
            connections,
            cached: cached as usize,
            stored: part(parts),
            sent: part(parts),
            upstreams: part(2),
            limit,
        }
    }

    /// The places of connections to upstreams. A site gets half of what the others leave.
    pub(super) fn upstream_places(&self, config: &Config) -> Budget {
        let takers: Vec<bool> =
            config.sites.iter().map(|site| !site.upstreams.is_empty()).collect();
        Budget::of_descriptors(BudgetUnit::Connections, self.upstreams as u64, &takers)
    }

    /// The places of files that are being sent.
    pub(super) fn sent_files(&self, config: &Config) -> SentFiles {
        SentFiles::new(self.sent as u64, config.sites.len())
    }

    /// Returns a warning for the operator if fewer connections fit than are configured. `None`: all
    /// fit.
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

    const UPSTREAM: &str = "upstreams = [\"http://127.0.0.1:3000\"]\n";

    fn limits(limit: u64, more: &str) -> (OpenFileLimits, Option<String>) {
        let text = format!("threads = 2\n[[site]]\nroot = \"/srv\"\nphp = false\n{more}");
        let config = Config::parse(&text, "test.toml").expect("the configuration is right");
        let needs = DescriptorNeeds::of(&config, 2);
        let limits = OpenFileLimits::of(&config, needs, Ok((limit, limit)));
        (limits, limits.warning(&config))
    }

    #[test]
    fn what_is_configured_fits_into_a_usual_limit() {
        for more in ["", UPSTREAM] {
            let (room, warning) = limits(1 << 20, more);
            assert_eq!((room.connections, room.cached, warning), (16_384, 512, None));
        }
        // The number that the front asks the system for.
        let (room, warning) = limits(3 * 16_384 + 1024 + 64, UPSTREAM);
        assert_eq!((room.connections, warning), (16_384, None));
        // A site that shares with one other has a third of them.
        assert!(room.upstreams / 3 > 4096, "as many tunnels as a site has by default: {room:?}");
    }

    #[test]
    fn a_low_limit_leaves_room_for_all_that_a_connection_needs() {
        let limited = [256, 1024, 4096, 20_000].into_iter();
        for (limit, more) in limited.flat_map(|limit| [(limit, ""), (limit, UPSTREAM)]) {
            let (room, warning) = limits(limit, more);
            let upstreams = if more.is_empty() { 0 } else { room.upstreams };
            let needed = room.connections + room.stored + room.sent + upstreams + 2 * room.cached;
            assert!(needed as u64 <= limit, "{limit}: {room:?}");
            let least = room.connections.min(room.stored).min(room.sent);
            assert!(least >= LEAST as usize && room.cached > 0, "{limit}: {room:?}");
            assert!(warning.is_some_and(|text| text.contains(&limit.to_string())));
        }
    }
}
