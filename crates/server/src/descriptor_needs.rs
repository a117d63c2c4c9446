//! The descriptors (open files) that the processes of a server need at least. The numbers were
//! counted in `/proc/PID/fd` of servers with one and with several of each thing.

use std::collections::BTreeSet;

use howdah_config::{AccessTarget, Config};
use howdah_files::StoreLimits;
use howdah_ipc::Geometry;

/// The number of each thing that takes descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescriptorNeeds {
    threads: u64,
    processors: u64,
    /// Listeners for clients and for monitors.
    listeners: u64,
    /// Those among them that have sockets for HTTP/3 as well.
    with_packets: u64,
    sites: u64,
    logs: u64,
    pools: u64,
    /// Slots of all pools, each with a doorbell.
    slots: u64,
    /// Workers of the largest pool, and its slots.
    largest_pool: (u64, u64),
    has_upstreams: bool,
}

impl DescriptorNeeds {
    /// Counts what `config` has on a machine with this many processors.
    pub(crate) fn of(config: &Config, processors: usize) -> DescriptorNeeds {
        let threads = config.threads.resolve(processors);
        let of_sites = config.sites.iter().filter_map(|site| site.access_log.as_ref());
        let logs: BTreeSet<String> = of_sites
            .chain([&config.log.access])
            .filter(|target| !matches!(target, AccessTarget::Off))
            .map(|target| format!("{target:?}"))
            .collect();
        let pools = config.sites.iter().filter_map(|site| site.php.as_ref()).map(|php| {
            let workers = php.worker_count(processors);
            (workers as u64, Geometry::for_pool(workers, threads).slots as u64)
        });
        let has_packets = config.http3.enabled;
        let with_packets = config.listen.iter().filter(|one| has_packets && one.tls).count();
        DescriptorNeeds {
            threads: threads as u64,
            processors: processors as u64,
            listeners: (config.listen.len() + config.admin.len()) as u64,
            with_packets: with_packets as u64,
            sites: config.sites.len() as u64,
            logs: logs.len() as u64,
            pools: pools.clone().count() as u64,
            slots: pools.clone().map(|(_, slots)| slots).sum(),
            largest_pool: pools.max().unwrap_or_default(),
            has_upstreams: config.sites.iter().any(|site| !site.upstreams.is_empty()),
        }
    }

    /// Event loops of the front.
    pub(crate) fn threads(&self) -> u64 {
        self.threads
    }

    /// Descriptors that the front has before any client, without cached files.
    pub(crate) fn front_own(&self) -> u64 {
        let roots = self.sites.min(StoreLimits::default().roots as u64);
        let thread = THREAD + 2 * (self.listeners + self.with_packets) + self.pools + roots;
        let evaluators = self.processors.div_ceil(2).max(LEAST_EVALUATORS as u64);
        FRONT + self.threads * thread + EVALUATOR * evaluators + self.logs + self.pool_ends()
    }

    /// The front's ends of all pools.
    fn pool_ends(&self) -> u64 {
        POOL * self.pools + self.slots
    }

    /// Descriptors that the front needs to serve [`LEAST`] clients.
    pub(crate) fn front(&self) -> u64 {
        // Clients, temporary files, files that are sent, and a cached file of each thread.
        let kinds = if self.has_upstreams { 4 } else { 3 };
        self.front_own() + kinds * LEAST + self.threads
    }

    /// Descriptors that the supervisor needs while one generation takes the place of another.
    fn supervisor(&self) -> u64 {
        SUPERVISOR + self.listeners + self.with_packets + 2 * self.logs + 24 * self.pools
    }

    /// Descriptors that the zygote of the largest pool needs, or a worker. `None` without pools.
    fn zygote(&self) -> Option<u64> {
        let (_, slots) = self.largest_pool;
        (self.pools > 0).then_some(ZYGOTE + slots)
    }

    /// The most descriptors that one process needs, other than those of a pool.
    pub(crate) fn server(&self) -> u64 {
        self.front().max(self.supervisor())
    }

    /// Returns why a server with these needs is not started where a process may have `limit`
    /// descriptors, and one of a pool `of_pools`. `None`: they are enough.
    pub(crate) fn refusal(&self, limit: u64, of_pools: u64) -> Option<String> {
        let DescriptorNeeds {
            threads, listeners, sites, pools, slots, ..
        } = *self;
        let needed = self.server();
        if limit < needed {
            let workers = match pools {
                0 => String::new(),
                _ => format!(", pools {pools} with {slots} slots for requests"),
            };
            return Some(format!(
                "the limit of open files is {limit}, and the server needs at least {needed} \
                 (threads {threads}, listeners {listeners}, sites {sites}{workers}); raise the \
                 limit with `ulimit -n` or LimitNOFILE, or configure fewer `threads` or `workers`"
            ));
        }
        let needed = self.zygote().filter(|needed| of_pools < *needed)?;
        let (workers, _) = self.largest_pool;
        Some(format!(
            "the limit of open files is {of_pools}, and a process of the largest pool needs at \
             least {needed} (workers {workers}); raise the limit with `ulimit -Hn` or LimitNOFILE, \
             or configure fewer `workers`"
        ))
    }
}

/// Clients that are always served, and as many of each kind of file: temporary ones, those that are
/// sent, and connections to upstreams.
pub(crate) const LEAST: u64 = 16;
/// Descriptors of the front as a whole: standard streams, the supervisor's channel, the error log,
/// the memory watch of its control groups, and a file for each thread that reads from the disk.
const FRONT: u64 = 32;
/// Descriptors of a thread: its event queues and the watch of its files.
const THREAD: u64 = 6;
/// Threads that evaluate costly directives, at least.
pub(crate) const LEAST_EVALUATORS: usize = 2;
/// Descriptors of a thread that evaluates directives: the watch of its files, a root, a file.
const EVALUATOR: u64 = 3;
/// Descriptors of a pool without its slots: memory, the zygote's socket.
const POOL: u64 = 4;
/// Descriptors of the supervisor: standard streams, signals, the control socket, the front.
const SUPERVISOR: u64 = 24;
/// Descriptors of a zygote without the slots: PHP's, sockets, pipes, and some for scripts.
const ZYGOTE: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(text: &str) -> DescriptorNeeds {
        DescriptorNeeds::of(&Config::parse(text, "test.toml").unwrap(), 2)
    }

    #[test]
    fn each_thing_takes_its_descriptors() {
        let site = |more: &str| format!("[[site]]\nroot = \"/srv\"\n{more}");
        let plain = site("php = false\n");
        let base = needs(&format!("threads = 1\n{plain}")).front_own();
        let more = |top: &str, site: &str| {
            let own = needs(&format!("{top}\n{site}")).front_own();
            own - base
        };
        let two = "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n";
        assert_eq!(more("threads = 2", &plain), THREAD + 2 + 1);
        assert_eq!(more(&format!("threads = 1\n{two}"), &plain), 2);
        assert_eq!(more("threads = 1", &site("php = false\naccess_log = \"a.log\"\n")), 1);
        // Two workers have eight slots, and 32 have 128.
        let pool = |workers: u64| site(&format!("[site.php]\nworkers = {workers}\n"));
        assert_eq!(more("threads = 1", &pool(2)), POOL + 8 + 1);
        assert_eq!(more("threads = 1", &pool(32)), POOL + 128 + 1);
        let with_upstream = site("php = false\nupstreams = [\"http://127.0.0.1:3000\"]\n");
        let upstream = needs(&format!("threads = 1\n{with_upstream}"));
        assert_eq!(upstream.front() - upstream.front_own(), 4 * LEAST + 1);
    }

    #[test]
    fn too_low_a_limit_is_refused_with_the_numbers() {
        let plain = needs("threads = 2\n[[site]]\nroot = \"/srv\"\nphp = false\n");
        let least = plain.server();
        assert!((64..128).contains(&least), "{least}");
        assert_eq!(plain.refusal(least, 0), None);
        let told = plain.refusal(least - 1, 0).unwrap();
        for part in ["is ".to_owned() + &(least - 1).to_string(), format!("at least {least} (")] {
            assert!(told.contains(&part), "{part} in {told}");
        }
        let pool = needs("threads = 2\n[[site]]\nroot = \"/srv\"\n[site.php]\nworkers = 32\n");
        assert_eq!(pool.refusal(4096, ZYGOTE + 128), None);
        let told = pool.refusal(4096, ZYGOTE + 127).unwrap();
        assert!(told.contains("needs at least 160 (workers 32)"), "{told}");
        // Every pool has its part of the supervisor, too.
        let pool = "[site.php]\nworkers = 1\n";
        let many: String = (0..100)
            .map(|site| {
                format!(
                    "[[site]]\nname = \"s{site}\"\nhosts = [\"s{site}\"]\nroot = \"/s\"\n{pool}"
                )
            })
            .collect();
        assert!(needs(&many).server() > 2400);
    }
}
