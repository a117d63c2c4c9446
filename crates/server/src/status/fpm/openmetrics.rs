//! php-fpm's metrics.

use std::fmt::Write;

use super::formats::escaped;
use super::{process_manager, since};
use crate::status::PoolSnapshot;

/// A family of metrics.
struct FpmMetric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Returns the value. The time is now, in seconds since 1970.
    value: fn(&PoolSnapshot, f64) -> u64,
}

/// The families in php-fpm's order, after the first one, whose help names the pool.
const FAMILIES: [FpmMetric; 11] = [
    FpmMetric {
        name: "start_since",
        kind: "counter",
        help: "The number of seconds since FPM has started.",
        value: |pool, now| since(pool.counted_since, now),
    },
    FpmMetric {
        name: "accepted_connections",
        kind: "counter",
        help: "The number of requests accepted by the pool.",
        value: |pool, _| pool.requests,
    },
    FpmMetric {
        name: "listen_queue",
        kind: "gauge",
        help: "The number of requests in the queue of pending connections.",
        value: |pool, _| pool.queue as u64,
    },
    FpmMetric {
        name: "max_listen_queue",
        kind: "counter",
        help: "The maximum number of requests in the queue of pending connections since FPM has \
               started.",
        value: |pool, _| pool.most_queued as u64,
    },
    FpmMetric {
        name: "listen_queue_length",
        kind: "gauge",
        help: "The size of the socket queue of pending connections.",
        value: |pool, _| pool.queue_limit as u64,
    },
    FpmMetric {
        name: "idle_processes",
        kind: "gauge",
        help: "The number of idle processes.",
        value: |pool, _| pool.idle as u64,
    },
    FpmMetric {
        name: "active_processes",
        kind: "gauge",
        help: "The number of active processes.",
        value: |pool, _| pool.active as u64,
    },
    FpmMetric {
        name: "total_processes",
        kind: "gauge",
        help: "The number of idle + active processes.",
        value: |pool, _| pool.workers.len() as u64,
    },
    FpmMetric {
        name: "max_active_processes",
        kind: "counter",
        help: "The maximum number of active processes since FPM has started.",
        value: |pool, _| pool.most_active as u64,
    },
    FpmMetric {
        name: "max_children_reached",
        kind: "counter",
        help: "The number of times, the process limit has been reached, when pm tries to start \
               more children.",
        value: |pool, _| pool.exhausted,
    },
    FpmMetric {
        name: "slow_requests",
        kind: "counter",
        help: "The number of requests that exceeded your 'request_slowlog_timeout' value.",
        value: |pool, _| pool.slow,
    },
];

/// Writes the page of a pool. `now` is in seconds since 1970.
pub(super) fn openmetrics(name: &str, pool: &PoolSnapshot, now: f64) -> String {
    let mut page = String::new();
    let mut family = |name, kind, help: &str, value: u64| {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "# HELP phpfpm_{name} {help}\n# TYPE phpfpm_{name} {kind}\nphpfpm_{name} {value}"
        );
    };
    let (name, manager) = (escaped(name), process_manager(pool));
    let help = format!("Could pool {name} using a {manager} PM on PHP-FPM be reached?");
    family("up", "gauge", &help, 1);
    for one in &FAMILIES {
        family(one.name, one.kind, one.help, (one.value)(pool, now));
    }
    page.push_str("# EOF\n");
    page
}
