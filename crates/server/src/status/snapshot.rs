//! The state of the server at one moment. Its JSON is an interface: names are added, never changed.

mod worker;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::Php;
use howdah_php::counters::PoolCounter;
use howdah_php::{MemorySum, Pool};
use serde::{Deserialize, Serialize};

pub(crate) use self::worker::{WorkerSnapshot, WorkerState};
use super::caches::{ApcuUse, FileCacheUse, OpcacheUse, WarmupSnapshot};
use super::certificates::{self, CertificateSnapshot};
use super::facts::MissingListener;
use crate::front::{FrontShared, ReasonTopic};
use crate::log::WaitStatus;
use crate::observe::{Histogram, LimitCounts, NO_SITE, SiteTotals, Totals};

/// The server and its sites.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The version of Howdah.
    pub(crate) version: String,
    /// `serving`, or `draining`.
    pub(crate) state: String,
    /// The process of the supervisor.
    pub(crate) pid: u32,
    /// The process of the front.
    pub(crate) front: u32,
    pub(crate) generation: u64,
    /// Seconds since 1970 at the start of the supervisor.
    pub(crate) started: f64,
    /// Seconds since the start of the supervisor.
    pub(crate) uptime: f64,
    /// Seconds since 1970 at this moment.
    pub(crate) time: f64,
    /// Number of event-loop threads.
    pub(crate) threads: usize,
    pub(crate) connections: Connections,
    /// Requests that have ended, of all sites and of none.
    pub(crate) requests: u64,
    pub(crate) codes: CodeCounts,
    /// Bytes of content that clients took.
    pub(crate) bytes: u64,
    pub(crate) temporary_files: TemporaryFiles,
    #[serde(default)]
    pub(crate) file_cache: FileCacheUse,
    /// The number of times that clients have met limits of HTTP/2 and HTTP/3.
    #[serde(default)]
    pub(crate) limits_met: LimitCounts,
    #[serde(default)]
    pub(crate) missing_listeners: Vec<MissingListener>,
    #[serde(default)]
    pub(crate) missing_admin_listeners: Vec<MissingListener>,
    #[serde(default)]
    pub(crate) listeners_without_http3: Vec<MissingListener>,
    pub(crate) sites: Vec<SiteSnapshot>,
    /// Requests that belong to no site: refused heads, unknown hosts.
    pub(crate) unassigned: SiteSnapshot,
}

/// The connections of clients.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Connections {
    /// Open now.
    pub(crate) open: usize,
    /// Open now, by thread.
    pub(crate) by_thread: Vec<usize>,
    /// Accepted since the start of the server.
    pub(crate) accepted: u64,
}

/// The temporary files of slow readers and uploads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TemporaryFiles {
    pub(crate) bytes: u64,
    pub(crate) limit: u64,
}

/// Responses by class of status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodeCounts(pub(crate) BTreeMap<String, u64>);

/// A site.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SiteSnapshot {
    pub(crate) name: String,
    /// Requests that have ended.
    pub(crate) requests: u64,
    /// Responses by class of status: `1xx` to `5xx`, and `other` from 600 on.
    pub(crate) classes: CodeCounts,
    /// Responses by status. Those of no registered one are by their class.
    pub(crate) codes: CodeCounts,
    /// Bytes of content that clients took.
    pub(crate) bytes: u64,
    /// Responses that broke off.
    pub(crate) incomplete: u64,
    /// The time from head to end of response.
    pub(crate) duration: Histogram,
    /// WebSockets that are carried to upstreams.
    #[serde(default)]
    pub(crate) tunnels: TunnelCounts,
    /// Connections to upstreams.
    #[serde(default)]
    pub(crate) upstreams: UpstreamCounts,
    /// The reason why the files of the site's certificates cannot be used; `null` if they can be,
    /// or if there are none.
    #[serde(default)]
    pub(crate) certificate_error: Option<String>,
    /// The reason why a release that the site's link leads to is not served; `null` if it is, or if
    /// there is none.
    #[serde(default)]
    pub(crate) release_error: Option<String>,
    /// The reason why the document root is not there; `null` if it is. Only roots that links lead
    /// to are watched, and those that were missing when the generation began.
    #[serde(default)]
    pub(crate) root_error: Option<String>,
    /// The certificates that are in use.
    #[serde(default)]
    pub(crate) certificates: Vec<CertificateSnapshot>,
    /// `null` without PHP.
    pub(crate) pool: Option<PoolSnapshot>,
}

/// The tunnels of a site.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct TunnelCounts {
    /// Open now, in the front that answers.
    pub(crate) open: usize,
    /// Begun since the start of the server.
    pub(crate) begun: u64,
}

/// The connections of a site to its upstreams, since the start of the server.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct UpstreamCounts {
    /// Connections that were made.
    pub(crate) connections: u64,
    /// Requests that went over a connection that had one before.
    pub(crate) reuses: u64,
}

/// A site's PHP pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PoolSnapshot {
    /// `ready`, or `starting` while requests wait for a zygote or for its first worker.
    pub(crate) state: String,
    pub(crate) php: String,
    /// Seconds since 1970 at the start of the present zygote; 0 before it.
    pub(crate) started: f64,
    /// Seconds since 1970 at the start of the server: the counters count since then.
    #[serde(default)]
    pub(crate) counted_since: f64,
    /// Requests that were handed to workers, or waited in vain.
    pub(crate) requests: u64,
    /// The mode of the pool, as in the configuration.
    pub(crate) mode: String,
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// Number of workers that the pool wants at this moment.
    pub(crate) wanted_workers: usize,
    /// The sum that says how many workers the memory has room for; `null` unless the mode is
    /// `auto`.
    pub(crate) memory_sum: Option<MemorySumSnapshot>,
    pub(crate) idle: usize,
    pub(crate) active: usize,
    pub(crate) most_workers: usize,
    /// The highest number of requests that were seen running.
    pub(crate) most_active: usize,
    /// Requests that wait for a worker.
    pub(crate) queue: usize,
    pub(crate) queue_limit: usize,
    /// The highest number of requests that were seen waiting.
    pub(crate) most_queued: usize,
    /// The pool's lanes; empty if it has none of its own.
    #[serde(default)]
    pub(crate) lanes: Vec<LaneSnapshot>,
    /// The time that requests waited for a worker.
    pub(crate) queue_wait: Histogram,
    /// The time that scripts took.
    pub(crate) duration: Histogram,
    /// Bytes of memory of the workers that have told theirs; shared pages count in parts.
    pub(crate) memory: u64,
    /// Scripts that ran for longer than `request_timeout`.
    pub(crate) timeouts: u64,
    /// Scripts that ran for as long as `slow_after`.
    pub(crate) slow: u64,
    /// Requests that no worker began within `queue_timeout`.
    pub(crate) queue_timeouts: u64,
    /// Requests that found the queue full.
    pub(crate) refused: u64,
    /// Requests that ended because their worker died.
    pub(crate) lost: u64,
    /// Requests whose client was gone before a worker began them.
    #[serde(default)]
    pub(crate) abandoned: u64,
    /// Seconds in which every worker was busy and requests waited.
    pub(crate) exhausted: u64,
    /// Workers that were started.
    pub(crate) spawned: u64,
    /// Workers that ended as they should, to be replaced.
    pub(crate) recycled: u64,
    /// Workers that the kernel ended because memory ran out.
    #[serde(default)]
    pub(crate) out_of_memory: u64,
    /// Workers that ended because they were not needed.
    pub(crate) dismissed: u64,
    /// Workers that ended with an error.
    pub(crate) failed: u64,
    /// Zygotes that ended with all their workers.
    pub(crate) zygotes_lost: u64,
    /// Workers that ended with their zygote.
    #[serde(default)]
    pub(crate) workers_lost: u64,
    /// Seconds on a processor of all workers, also of those that have ended.
    #[serde(default)]
    pub(crate) cpu: f64,
    /// Workers that a signal ended, by the signal's name.
    pub(crate) deaths: BTreeMap<String, u64>,
    /// `on`, or the reason why opcache is off.
    pub(crate) opcache: String,
    /// `null` where opcache is off, or was not measured.
    pub(crate) opcache_use: Option<OpcacheUse>,
    /// `null` where opcache had no scripts before the first request.
    #[serde(default)]
    pub(crate) opcache_warmup: Option<WarmupSnapshot>,
    /// `null` where APCu is not there, or was not measured.
    pub(crate) apcu: Option<ApcuUse>,
}

/// A lane of a pool.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LaneSnapshot {
    /// The name; `-` for the requests of no lane.
    pub(crate) name: String,
    /// Workers that the lane may have at once.
    pub(crate) workers: usize,
    /// Requests that have a worker, or that wait for the next one that is free.
    pub(crate) running: usize,
    /// Requests that wait in the lane.
    pub(crate) queue: usize,
    pub(crate) queue_limit: usize,
    /// Requests that were handed to workers, or waited in vain.
    pub(crate) requests: u64,
    /// Requests that found the queue full, or lost their place in it.
    pub(crate) refused: u64,
    /// Requests that no worker began within `queue_timeout`.
    pub(crate) queue_timeouts: u64,
    /// Requests whose client was gone before a worker began them.
    #[serde(default)]
    pub(crate) abandoned: u64,
    /// The time that requests waited for a worker.
    pub(crate) queue_wait: Histogram,
}

/// The number of workers that the memory has room for. Sizes are in bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MemorySumSnapshot {
    /// Memory that is available now.
    pub(crate) available: u64,
    /// Memory that the workers of this pool use.
    pub(crate) own: u64,
    /// Memory that stays free.
    pub(crate) reserve: u64,
    /// Memory that the workers of this pool may use at most.
    pub(crate) share: u64,
    /// Memory that a worker with a script needs.
    pub(crate) per_worker: u64,
    /// Workers that there is room for.
    pub(crate) room: usize,
    /// Whether less is available than should stay free.
    pub(crate) is_short: bool,
    /// Whether `per_worker` was measured before the present zygote: by a former one, or in a former
    /// generation.
    #[serde(default)]
    pub(crate) is_former: bool,
}

impl MemorySumSnapshot {
    fn of(sum: MemorySum) -> MemorySumSnapshot {
        MemorySumSnapshot {
            available: sum.available,
            own: sum.own,
            reserve: sum.reserve,
            share: sum.share,
            per_worker: sum.per_worker,
            room: sum.room,
            is_short: sum.is_short,
            is_former: sum.is_former,
        }
    }
}

impl Snapshot {
    /// Gathers the state of all sites.
    pub(crate) fn of(shared: &FrontShared, is_draining: bool) -> Snapshot {
        let facts = &shared.facts;
        let totals = facts.ledger.totals();
        let by_thread: Vec<_> =
            shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).collect();
        let (limit, bytes) = shared.storage.usage();
        let mut snapshot = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: if is_draining { "draining" } else { "serving" }.to_owned(),
            pid: facts.supervisor,
            front: std::process::id(),
            generation: facts.generation,
            started: seconds(facts.began),
            uptime: facts.began.elapsed().unwrap_or_default().as_secs_f64(),
            time: seconds(SystemTime::now()),
            threads: by_thread.len(),
            connections: Connections {
                open: by_thread.iter().sum(),
                by_thread,
                accepted: totals.connections,
            },
            temporary_files: TemporaryFiles { bytes, limit },
            file_cache: FileCacheUse::of(&shared.stores, shared.watches.sent),
            limits_met: totals.limits.by_name(),
            missing_listeners: facts.missing_listeners.clone(),
            missing_admin_listeners: facts.missing_admin.clone(),
            listeners_without_http3: facts.without_http3.clone(),
            sites: sites(shared, &totals),
            unassigned: SiteSnapshot::of(NO_SITE, &totals, None, facts.began),
            ..Snapshot::default()
        };
        // Sites that a former configuration had count as well.
        for site in totals.names().map(|name| totals.site(name)) {
            snapshot.requests += site.requests();
            snapshot.bytes += site.bytes();
            site.codes().for_each(|(code, count)| snapshot.codes.add(code.class(), count));
        }
        snapshot
    }
}

fn sites(shared: &FrontShared, totals: &Totals) -> Vec<SiteSnapshot> {
    let sites = shared.config.sites.iter().zip(&shared.pools).enumerate();
    let snapshot = sites.map(|(number, (site, pool))| {
        let pool = pool.as_deref().zip(site.php.as_ref());
        let mut snapshot = SiteSnapshot::of(&site.name, totals, pool, shared.facts.began);
        snapshot.tunnels.open = shared.clients.open_tunnels(number);
        let why = |topic| shared.reasons.of(topic, number);
        let closed = shared.tls.as_ref().and_then(|tls| tls.closed(number));
        snapshot.certificate_error = closed.or_else(|| why(ReasonTopic::KeptFiles));
        snapshot.release_error = why(ReasonTopic::HeldRelease);
        snapshot.root_error = why(ReasonTopic::MissingRoot);
        snapshot.certificates = certificates::of(shared, number);
        snapshot
    });
    snapshot.collect()
}

/// Gathers the state of the lanes of a site's pool.
fn lanes(site: &str, pool: &Pool, totals: &Totals) -> Vec<LaneSnapshot> {
    let figures = pool.figures().lanes.into_iter().map(Some).chain(std::iter::repeat(None));
    let lanes = pool.lanes().iter().zip(figures);
    let snapshot = lanes.map(|(limits, figures)| {
        let counted = totals.lane(site, &limits.name);
        let figures = figures.unwrap_or_default();
        LaneSnapshot {
            name: limits.name.clone(),
            workers: limits.workers,
            running: figures.running,
            queue: figures.waiting,
            queue_limit: limits.queue,
            requests: counted.of(PoolCounter::Requests),
            refused: counted.of(PoolCounter::QueueFull),
            queue_timeouts: counted.of(PoolCounter::QueueTimeouts),
            abandoned: counted.of(PoolCounter::Abandoned),
            queue_wait: Histogram::of(counted.waited()),
        }
    });
    snapshot.collect()
}

impl SiteSnapshot {
    fn of(
        name: &str,
        all: &Totals,
        pool: Option<(&Pool, &Php)>,
        began: SystemTime,
    ) -> SiteSnapshot {
        let totals = all.site(name);
        let mut classes = CodeCounts::default();
        let mut codes = CodeCounts::default();
        for (code, count) in totals.codes() {
            classes.add(code.class(), count);
            codes.add(code.name(), count);
        }
        SiteSnapshot {
            name: name.to_owned(),
            requests: totals.requests(),
            classes,
            codes,
            bytes: totals.bytes(),
            incomplete: totals.incomplete(),
            duration: totals.duration(),
            upstreams: UpstreamCounts {
                connections: totals.upstream_connections(),
                reuses: totals.upstream_reuses(),
            },
            tunnels: TunnelCounts { open: 0, begun: totals.tunnels() },
            certificate_error: None,
            root_error: None,
            release_error: None,
            certificates: Vec::new(),
            pool: pool.map(|(pool, _)| {
                let mut snapshot = PoolSnapshot::of(pool, totals, began);
                snapshot.lanes = lanes(name, pool, all);
                snapshot
            }),
        }
    }
}

impl PoolSnapshot {
    /// Gathers the state of one pool. The server `began` to count then.
    pub(crate) fn of(pool: &Pool, totals: SiteTotals<'_>, began: SystemTime) -> PoolSnapshot {
        let counted = totals.pool();
        let figures = pool.figures();
        let workers: Vec<_> = figures.workers.iter().map(WorkerSnapshot::of).collect();
        let is_active = |worker: &&WorkerSnapshot| worker.state == WorkerState::Running;
        let active = workers.iter().filter(is_active).count();
        let name = |(signal, count): (usize, u64)| (signal_name(signal), count);
        PoolSnapshot {
            state: if pool.is_ready() { "ready" } else { "starting" }.to_owned(),
            mode: pool.limits().scaling.name().to_owned(),
            wanted_workers: figures.wanted,
            memory_sum: figures.memory_sum.map(MemorySumSnapshot::of),
            php: figures.zygote.php_version.clone(),
            started: figures.zygote.started.map_or(0.0, seconds),
            counted_since: seconds(began),
            requests: counted.of(PoolCounter::Requests),
            idle: workers.len() - active,
            active,
            most_workers: pool.limits().workers,
            // A request that was quicker than every look had a worker, too.
            most_active: figures
                .most_active
                .max(active)
                .max(counted.of(PoolCounter::Requests).min(1) as usize),
            queue: figures.waiting,
            queue_limit: pool.limits().queue,
            most_queued: figures.most_waiting.max(figures.waiting),
            // Their sums are not in `totals`.
            lanes: Vec::new(),
            queue_wait: Histogram::of(counted.waited()),
            duration: Histogram::of(counted.took()),
            memory: workers.iter().filter_map(|worker| worker.pss).sum(),
            timeouts: counted.of(PoolCounter::Timeouts),
            slow: counted.of(PoolCounter::Slow),
            queue_timeouts: counted.of(PoolCounter::QueueTimeouts),
            refused: counted.of(PoolCounter::QueueFull),
            lost: counted.of(PoolCounter::Lost),
            abandoned: counted.of(PoolCounter::Abandoned),
            exhausted: counted.of(PoolCounter::Exhausted),
            out_of_memory: counted.of(PoolCounter::OutOfMemory),
            spawned: counted.of(PoolCounter::Started),
            recycled: counted.of(PoolCounter::Recycled),
            dismissed: counted.of(PoolCounter::Dismissed),
            failed: counted.of(PoolCounter::Failed),
            zygotes_lost: counted.of(PoolCounter::Zygotes),
            workers_lost: counted.ended_with_zygotes(),
            cpu: counted.processor() as f64 / 1e9,
            deaths: counted.deaths().map(name).collect(),
            opcache: figures.zygote.opcache,
            opcache_use: figures.caches.as_ref().and_then(OpcacheUse::of),
            opcache_warmup: figures.zygote.warmup.map(|warmup| WarmupSnapshot {
                scripts: warmup.scripts,
                seconds: warmup.microseconds as f64 / 1e6,
            }),
            apcu: figures.caches.as_ref().and_then(ApcuUse::of),
            workers,
        }
    }
}

impl CodeCounts {
    /// Adds responses to those of this name.
    fn add(&mut self, name: String, count: u64) {
        *self.0.entry(name).or_default() += count;
    }
}

/// The name of a signal, or its number.
fn signal_name(signal: usize) -> String {
    WaitStatus::signal_name(u32::try_from(signal).unwrap_or(u32::MAX))
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
