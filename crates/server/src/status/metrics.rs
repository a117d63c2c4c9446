//! The state of the server as metrics: in the OpenMetrics format, or in Prometheus' text format.
//!
//! The two differ in the names of a counter's metadata and in the types that they know. A URL is
//! never a label: every visitor could add a time series.

mod exposition;

use super::caches::{ApcuUse, FileCacheUse, OpcacheUse, WarmupSnapshot};
use super::{LaneSnapshot, PoolSnapshot, SiteSnapshot, Snapshot, WorkerSnapshot, WorkerState};

pub(crate) use self::exposition::MetricsFormat;
use self::exposition::{Labels, MetricFamily, MetricsPage};

/// Writes all metrics.
pub(crate) fn metrics(snapshot: &Snapshot, format: MetricsFormat) -> String {
    let mut page = MetricsPage::new(format);
    server(&mut page, snapshot);
    sites(&mut page, snapshot);
    let pools: Vec<NamedPool<'_>> = snapshot
        .sites
        .iter()
        .filter_map(|site| Some((site.name.as_str(), site.pool.as_ref()?)))
        .collect();
    if !pools.is_empty() {
        pool_gauges(&mut page, &pools);
        pool_counters(&mut page, &pools);
        lanes(&mut page, &pools);
        opcache(&mut page, &pools);
        apcu(&mut page, &pools);
        workers(&mut page, &pools);
    }
    page.finish()
}

/// A pool and the name of its site.
type NamedPool<'s> = (&'s str, &'s PoolSnapshot);

fn one(value: f64) -> [(Labels, f64); 1] {
    [(Labels::default(), value)]
}

fn server(page: &mut MetricsPage, snapshot: &Snapshot) {
    let version = Labels::default().and("version", &snapshot.version);
    page.gauge(("howdah_build_info", "", "The version of Howdah."), [(version, 1.0)]);
    let family = (
        "howdah_start_time_seconds",
        "seconds",
        "The time at which the server started, since 1970.",
    );
    page.gauge(family, one(snapshot.started));
    let family = ("howdah_generation", "", "The number of the generation that answers.");
    page.gauge(family, one(snapshot.generation as f64));
    let missing = [
        &snapshot.missing_listeners,
        &snapshot.missing_admin_listeners,
        &snapshot.listeners_without_http3,
    ];
    let missing: usize = missing.iter().map(|listeners| listeners.len()).sum();
    let help = "Ports of the configuration that cannot be listened on, TCP and UDP.";
    page.gauge(("howdah_listeners_missing", "", help), one(missing as f64));
    let connections = &snapshot.connections;
    let family = ("howdah_connections", "", "Open connections of clients.");
    page.gauge(family, one(connections.open as f64));
    let family = ("howdah_connections_accepted", "", "Connections of clients that were accepted.");
    page.counter(family, one(connections.accepted as f64));
    let met = snapshot.limits_met.iter().flat_map(|(protocol, keys)| {
        let labels = move |key: &str| Labels::default().and("protocol", protocol).and("limit", key);
        keys.iter().map(move |(key, count)| (labels(key), *count as f64))
    });
    let help = "How often clients have met a limit of HTTP/2 or HTTP/3.";
    page.counter(("howdah_protocol_limits_met", "", help), met);
    let files = &snapshot.temporary_files;
    let help = "Bytes in temporary files of slow readers and uploads.";
    page.gauge(("howdah_temporary_bytes", "bytes", help), one(files.bytes as f64));
    let help = "Bytes that temporary files may have.";
    page.gauge(("howdah_temporary_limit_bytes", "bytes", help), one(files.limit as f64));
    file_cache(page, &snapshot.file_cache);
}

fn file_cache(page: &mut MetricsPage, cache: &FileCacheUse) {
    let entries = "Paths that the front's threads know, also those where nothing is.";
    let bytes = "Content of small files in memory.";
    let watched = "Folders whose changes the kernel tells.";
    let most = "Folders that may be watched; a site takes half of what is left.";
    let files = "Files that are watched for writes while they are sent.";
    let most_files = "Files that may be watched so; a site takes half of what is left.";
    let gauges: [(MetricFamily, u64); 7] = [
        (("howdah_file_cache_entries", "", entries), cache.entries),
        (("howdah_file_cache_bytes", "bytes", bytes), cache.memory),
        (("howdah_file_cache_open_files", "", "Files that are kept open."), cache.open),
        (("howdah_file_cache_watched_folders", "", watched), cache.watched),
        (("howdah_file_cache_watched_folders_limit", "", most), cache.watched_limit),
        (("howdah_file_cache_watched_files", "", files), cache.watched_files),
        (("howdah_file_cache_watched_files_limit", "", most_files), cache.watched_files_limit),
    ];
    for (family, value) in gauges {
        page.gauge(family, one(value as f64));
    }
    let lookups = "Look-ups of paths, from 0 with each new front.";
    let loads = "Questions to the disk for unknown paths, from 0 with each new front.";
    let checks = "Comparisons of known paths with the disk, from 0 with each new front.";
    let changes = "Paths forgotten because something changed, from 0 with each new front.";
    let folders = "Looks at folders that are not watched for want of room, from 0 with each front.";
    let files = "Files sent without a watch for want of room, from 0 with each new front.";
    let counters: [(MetricFamily, u64); 6] = [
        (("howdah_file_cache_lookups", "", lookups), cache.lookups),
        (("howdah_file_cache_loads", "", loads), cache.loads),
        (("howdah_file_cache_checks", "", checks), cache.checks),
        (("howdah_file_cache_changes", "", changes), cache.changes),
        (("howdah_file_cache_unwatched_folders", "", folders), cache.unwatched),
        (("howdah_file_cache_unwatched_files", "", files), cache.unwatched_files),
    ];
    for (family, value) in counters {
        page.counter(family, one(value as f64));
    }
}

fn sites(page: &mut MetricsPage, snapshot: &Snapshot) {
    let all = || snapshot.sites.iter().chain([&snapshot.unassigned]);
    let each = |value: fn(&SiteSnapshot) -> f64| {
        all().map(move |site| (Labels::site(&site.name), value(site)))
    };
    let codes = |site: &SiteSnapshot| {
        let name = site.name.clone();
        let codes = site.codes.0.clone().into_iter();
        codes.map(move |(code, count)| (Labels::site(&name).and("code", &code), count as f64))
    };
    let family = ("howdah_requests", "", "Requests that have ended, by site and status.");
    page.counter(family, all().flat_map(codes));
    let family = ("howdah_response_content_bytes", "bytes", "Bytes of content that clients took.");
    page.counter(family, each(|site| site.bytes as f64));
    let family = ("howdah_responses_incomplete", "", "Responses that broke off.");
    page.counter(family, each(|site| site.incomplete as f64));
    let help = "Connections that were made to upstreams.";
    let family = ("howdah_upstream_connections", "", help);
    page.counter(family, each(|site| site.upstreams.connections as f64));
    let help = "Requests that went over a kept connection to an upstream.";
    page.counter(("howdah_upstream_reuses", "", help), each(|site| site.upstreams.reuses as f64));
    let ends = |site: &SiteSnapshot| {
        let first = site.certificates.iter().map(|certificate| certificate.ends).min()?;
        Some((Labels::site(&site.name), first as f64))
    };
    let family = (
        "howdah_certificates_end_seconds",
        "seconds",
        "The time at which the first of a site's certificates ends, since 1970.",
    );
    page.gauge(family, all().filter_map(ends));
    let help = "WebSockets that are carried to upstreams now.";
    page.gauge(("howdah_tunnels", "", help), each(|site| site.tunnels.open as f64));
    let help = "WebSockets that upstreams have accepted.";
    page.counter(("howdah_tunnels_begun", "", help), each(|site| site.tunnels.begun as f64));
    let family = (
        "howdah_request_duration_seconds",
        "seconds",
        "Time from the head of a request to the end of its response.",
    );
    page.histogram(family, all().map(|site| (Labels::site(&site.name), &site.duration)));
}

/// Reads a figure that goes up and down.
type GaugeReader = fn(&PoolSnapshot) -> f64;

/// Reads a figure that only grows.
type CounterReader = fn(&PoolSnapshot) -> u64;

fn pool_gauges(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    let states = |(site, pool): &NamedPool<'_>| {
        let labels = |state| Labels::site(site).and("state", state);
        [(labels("idle"), pool.idle as f64), (labels("running"), pool.active as f64)]
    };
    let family = ("howdah_pool_workers", "", "Workers that live.");
    page.gauge(family, pools.iter().flat_map(states));
    let gauges: [(MetricFamily, GaugeReader); 4] = [
        (("howdah_pool_workers_limit", "", "Workers that the pool may have."), |pool| {
            pool.most_workers as f64
        }),
        (("howdah_pool_queue_length", "", "Requests that wait for a worker."), |pool| {
            pool.queue as f64
        }),
        (("howdah_pool_queue_limit", "", "Requests that may wait for a worker."), |pool| {
            pool.queue_limit as f64
        }),
        (
            (
                "howdah_pool_memory_bytes",
                "bytes",
                "Memory of the workers; pages that several share count in parts.",
            ),
            |pool| pool.memory as f64,
        ),
    ];
    for (family, value) in gauges {
        page.gauge(family, each(pools, value));
    }
    let family =
        ("howdah_pool_queue_wait_seconds", "seconds", "Time that requests waited for a worker.");
    let waits = pools.iter().map(|(site, pool)| (Labels::site(site), &pool.queue_wait));
    page.histogram(family, waits);
    let family = ("howdah_script_duration_seconds", "seconds", "Time that scripts took.");
    let times = pools.iter().map(|(site, pool)| (Labels::site(site), &pool.duration));
    page.histogram(family, times);
}

fn pool_counters(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    let counters: [(&str, &str, CounterReader); 15] = [
        (
            "howdah_pool_requests",
            "Requests that were handed to workers, or waited in vain.",
            |pool| pool.requests,
        ),
        ("howdah_pool_timeouts", "Scripts that ran for too long.", |pool| pool.timeouts),
        ("howdah_pool_slow_scripts", "Scripts that ran for `slow_after`.", |pool| pool.slow),
        ("howdah_pool_queue_timeouts", "Requests that waited for too long.", |pool| {
            pool.queue_timeouts
        }),
        ("howdah_pool_refused", "Requests that found the queue full.", |pool| pool.refused),
        ("howdah_pool_lost_requests", "Requests whose worker died.", |pool| pool.lost),
        (
            "howdah_pool_abandoned_requests",
            "Requests whose client was gone before a worker began them.",
            |pool| pool.abandoned,
        ),
        ("howdah_pool_workers_started", "Workers that were started.", |pool| pool.spawned),
        ("howdah_pool_workers_recycled", "Workers that ended as they should.", |pool| {
            pool.recycled
        }),
        ("howdah_pool_workers_dismissed", "Workers that were not needed.", |pool| pool.dismissed),
        (
            "howdah_pool_workers_out_of_memory",
            "Workers that the kernel ended because memory ran out.",
            |pool| pool.out_of_memory,
        ),
        ("howdah_pool_workers_failed", "Workers that ended with an error.", |pool| pool.failed),
        ("howdah_pool_zygotes_lost", "Zygotes that ended with their workers.", |pool| {
            pool.zygotes_lost
        }),
        ("howdah_pool_workers_lost", "Workers that ended with their zygote.", |pool| {
            pool.workers_lost
        }),
        (
            "howdah_pool_exhausted_samples",
            "Seconds in which every worker was busy and requests waited.",
            |pool| pool.exhausted,
        ),
    ];
    for (name, help, value) in counters {
        let samples = pools.iter().map(|(site, pool)| (Labels::site(site), value(pool) as f64));
        page.counter((name, "", help), samples);
    }
    let help = "Time of all workers on a processor, also of those that have ended.";
    let times = pools.iter().map(|(site, pool)| (Labels::site(site), pool.cpu));
    page.counter(("howdah_pool_cpu_seconds", "seconds", help), times);
    let deaths = |(site, pool): &NamedPool<'_>| {
        let deaths = pool.deaths.iter();
        let labels = |signal| Labels::site(site).and("signal", signal);
        deaths
            .map(|(signal, count)| (labels(signal), *count as f64))
            .collect::<Vec<_>>()
    };
    let family = ("howdah_pool_worker_deaths", "", "Workers that a signal has ended.");
    page.counter(family, pools.iter().flat_map(deaths));
}

fn lanes(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    let each = |value: fn(&LaneSnapshot) -> f64| {
        pools.iter().flat_map(move |(site, pool)| {
            let labels = |lane: &LaneSnapshot| Labels::site(site).and("lane", &lane.name);
            pool.lanes.iter().map(move |lane| (labels(lane), value(lane)))
        })
    };
    let help = "Requests of the lane that have a worker, or wait for the next one.";
    page.gauge(("howdah_lane_running", "", help), each(|lane| lane.running as f64));
    let help = "Workers that the lane may have.";
    page.gauge(("howdah_lane_workers_limit", "", help), each(|lane| lane.workers as f64));
    let help = "Requests that wait in the lane.";
    page.gauge(("howdah_lane_queue_length", "", help), each(|lane| lane.queue as f64));
    let help = "Requests of the lane that were handed to workers, or waited in vain.";
    page.counter(("howdah_lane_requests", "", help), each(|lane| lane.requests as f64));
    let help = "Requests of the lane that found the queue full.";
    page.counter(("howdah_lane_refused", "", help), each(|lane| lane.refused as f64));
    let help = "Requests of the lane that waited for too long.";
    let timeouts = each(|lane| lane.queue_timeouts as f64);
    page.counter(("howdah_lane_queue_timeouts", "", help), timeouts);
    let help = "Requests of the lane whose client was gone before a worker began them.";
    let abandoned = each(|lane| lane.abandoned as f64);
    page.counter(("howdah_lane_abandoned_requests", "", help), abandoned);
}

fn opcache(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    type OfOpcache = fn(&OpcacheUse) -> u64;
    let opcache = |value: OfOpcache| {
        pools.iter().filter_map(move |(site, pool)| {
            Some((Labels::site(site), value(pool.opcache_use.as_ref()?) as f64))
        })
    };
    let counters: [(&str, &str, OfOpcache); 2] = [
        ("howdah_pool_opcache_hits", "Scripts that opcache had.", |all| all.hits),
        ("howdah_pool_opcache_misses", "Scripts that opcache did not have.", |all| all.misses),
    ];
    for (name, help, value) in counters {
        page.counter((name, "", help), opcache(value));
    }
    page.gauge(
        ("howdah_pool_opcache_scripts", "", "Scripts that opcache has."),
        opcache(|all| all.scripts),
    );
    page.gauge(
        ("howdah_pool_opcache_full", "", "1 while opcache takes no more scripts."),
        opcache(|all| all.full.into()),
    );
    opcache_warmup(page, pools);
    let states: [(&str, OfOpcache); 3] =
        [("used", |all| all.used), ("free", |all| all.free), ("wasted", |all| all.wasted)];
    page.gauge(
        ("howdah_pool_opcache_memory_bytes", "bytes", "Memory of opcache, by its state."),
        states.into_iter().flat_map(|(state, value)| {
            opcache(value).map(move |(labels, value)| (labels.and("state", state), value))
        }),
    );
}

fn opcache_warmup(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    type OfWarmup = fn(&WarmupSnapshot) -> f64;
    let gauges: [(MetricFamily, OfWarmup); 2] = [
        (
            (
                "howdah_pool_opcache_warmup_scripts",
                "",
                "Scripts that were compiled before the first request.",
            ),
            |warmup| warmup.scripts as f64,
        ),
        (
            ("howdah_pool_opcache_warmup_seconds", "seconds", "Time that compiling them took."),
            |warmup| warmup.seconds,
        ),
    ];
    for (family, value) in gauges {
        let samples = pools.iter().filter_map(|(site, pool)| {
            Some((Labels::site(site), value(pool.opcache_warmup.as_ref()?)))
        });
        page.gauge(family, samples);
    }
}

fn apcu(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    type OfApcu = fn(&ApcuUse) -> u64;
    let apcu = |value: OfApcu| {
        pools.iter().filter_map(move |(site, pool)| {
            Some((Labels::site(site), value(pool.apcu.as_ref()?) as f64))
        })
    };
    let counters: [(&str, &str, OfApcu); 3] = [
        ("howdah_pool_apcu_hits", "Entries that APCu had.", |all| all.hits),
        ("howdah_pool_apcu_misses", "Entries that APCu did not have.", |all| all.misses),
        ("howdah_pool_apcu_expunges", "Times that APCu was full.", |all| all.expunged),
    ];
    for (name, help, value) in counters {
        page.counter((name, "", help), apcu(value));
    }
    let states: [(&str, OfApcu); 2] =
        [("used", |all| all.size.saturating_sub(all.free)), ("free", |all| all.free)];
    page.gauge(
        ("howdah_pool_apcu_memory_bytes", "bytes", "Memory of APCu, by its state."),
        states.into_iter().flat_map(|(state, value)| {
            apcu(value).map(move |(labels, value)| (labels.and("state", state), value))
        }),
    );
}

fn workers(page: &mut MetricsPage, pools: &[NamedPool<'_>]) {
    let all = |value: fn(&WorkerSnapshot) -> Option<f64>| {
        pools.iter().flat_map(move |(site, pool)| {
            let sample = move |worker: &WorkerSnapshot| {
                let labels = Labels::site(site).and("worker", &worker.index.to_string());
                Some((labels, value(worker)?))
            };
            pool.workers.iter().filter_map(sample)
        })
    };
    let family = ("howdah_worker_running", "", "1 while the worker runs a request.");
    page.gauge(
        family,
        all(|worker| Some(f64::from(u8::from(worker.state == WorkerState::Running)))),
    );
    let family = (
        "howdah_worker_request_seconds",
        "seconds",
        "Time that the present request has run; 0 without one.",
    );
    page.gauge(
        family,
        all(|worker| match worker.state {
            WorkerState::Running => Some(worker.time),
            WorkerState::Idle => Some(0.0),
        }),
    );
    let family = (
        "howdah_worker_requests",
        "",
        "Requests that the worker has finished; from 0 when another takes its place.",
    );
    page.counter(family, all(|worker| Some(worker.requests as f64)));
    let help = "Time of the worker on a processor.";
    page.counter(("howdah_worker_cpu_seconds", "seconds", help), all(|worker| Some(worker.cpu)));
    let help = "Memory of the worker; pages that several share count in parts.";
    page.gauge(
        ("howdah_worker_proportional_memory_bytes", "bytes", help),
        all(|worker| worker.pss.map(|bytes| bytes as f64)),
    );
    let help = "Memory of the worker; shared pages count in full.";
    page.gauge(
        ("howdah_worker_resident_memory_bytes", "bytes", help),
        all(|worker| worker.rss.map(|bytes| bytes as f64)),
    );
}

fn each<'p>(
    pools: &'p [NamedPool<'p>],
    value: fn(&PoolSnapshot) -> f64,
) -> impl Iterator<Item = (Labels, f64)> + 'p {
    pools.iter().map(move |(site, pool)| (Labels::site(site), value(pool)))
}

#[cfg(test)]
mod tests {
    use super::super::certificates::CertificateSnapshot;
    use super::*;

    fn snapshot() -> Snapshot {
        let mut site = SiteSnapshot {
            name: "a\"b\\c\nd".into(),
            ..SiteSnapshot::default()
        };
        site.codes.0.insert("200".into(), 7);
        let mut pool = PoolSnapshot::default();
        pool.deaths.insert("SIGKILL".into(), 2);
        pool.workers.push(WorkerSnapshot {
            pss: Some(5),
            ..WorkerSnapshot::default()
        });
        site.pool = Some(pool);
        site.certificates = [20, 10, 30]
            .map(|ends| CertificateSnapshot { ends, ..CertificateSnapshot::default() })
            .to_vec();
        Snapshot { sites: vec![site], ..Snapshot::default() }
    }

    #[test]
    fn label_values_are_escaped() {
        let text = metrics(&snapshot(), MetricsFormat::Prometheus);
        let line = r#"howdah_requests_total{site="a\"b\\c\nd",code="200"} 7"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }

    #[test]
    fn the_certificate_that_ends_first_is_told_for_each_site() {
        let text = metrics(&snapshot(), MetricsFormat::Prometheus);
        let line = r#"howdah_certificates_end_seconds{site="a\"b\\c\nd"} 10"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        let lines = text.lines().filter(|line| line.starts_with("howdah_certificates_end_seconds"));
        assert_eq!(lines.count(), 1, "a site without certificates has no line");
    }

    #[test]
    fn each_format_has_its_own_names_of_counters() {
        let openmetrics = metrics(&snapshot(), MetricsFormat::OpenMetrics);
        let prometheus = metrics(&snapshot(), MetricsFormat::Prometheus);
        assert!(openmetrics.contains("# TYPE howdah_requests counter\n"));
        assert!(prometheus.contains("# TYPE howdah_requests_total counter\n"));
        assert!(openmetrics.contains("# UNIT howdah_request_duration_seconds seconds\n"));
        for text in [openmetrics, prometheus] {
            assert!(text.ends_with("\n# EOF\n") && text.contains("\nhowdah_requests_total{"));
            // No family is written twice.
            let mut families: Vec<_> =
                text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
            let count = families.len();
            families.sort_unstable();
            families.dedup();
            assert_eq!(families.len(), count);
        }
    }
}
