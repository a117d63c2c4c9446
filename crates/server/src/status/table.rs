//! The state of the sites as a table for people.

use std::fmt::Write;

use howdah_watch::printed::{size, visible};

use super::caches::OpcacheUse;
use super::{CodeCounts, LaneSnapshot, MemorySumSnapshot, PoolSnapshot, Snapshot};

/// Writes the front's part of `howdah status`.
pub(crate) fn table(snapshot: &Snapshot) -> String {
    let connections = &snapshot.connections;
    let by_thread: Vec<_> = connections.by_thread.iter().map(usize::to_string).collect();
    let mut text = format!(
        "connections {}; accepted since the start: {}\n",
        by_thread.join(" + "),
        connections.accepted
    );
    let files = &snapshot.temporary_files;
    // Writing to a String cannot fail.
    let _ = writeln!(text, "temporary files: {} of {} bytes", files.bytes, files.limit);
    let _ = write!(
        text,
        "requests {}{}, {} of content\n\n",
        snapshot.requests,
        classes(&snapshot.codes),
        size(snapshot.bytes)
    );
    let mut rows = vec![HEAD.map(str::to_owned)];
    for site in snapshot.sites.iter().chain([&snapshot.unassigned]) {
        let mut row = [const { String::new() }; COLUMNS];
        row[0] = visible(&site.name);
        row[1] = site.requests.to_string();
        row[2] = of_class(&site.classes, "4xx");
        row[3] = of_class(&site.classes, "5xx");
        row[4] = size(site.bytes);
        if let Some(pool) = &site.pool {
            pool_columns(pool, &mut row);
        }
        rows.push(row);
    }
    align(&rows, &mut text);
    for site in &snapshot.sites {
        if let Some(pool) = &site.pool {
            let _ = write!(text, "\npool {}: {}", visible(&site.name), sentence(pool));
        }
    }
    for site in &snapshot.sites {
        for told in site.certificates.iter().filter_map(|one| one.sentence(snapshot.time)) {
            let _ = write!(text, "\ncertificate of {}: {}", visible(&site.name), visible(&told));
        }
    }
    text
}

const COLUMNS: usize = 12;
const HEAD: [&str; COLUMNS] = [
    "site",
    "requests",
    "4xx",
    "5xx",
    "content",
    "workers",
    "busy",
    "queue",
    "wait p95",
    "script p95",
    "memory",
    "opcache",
];

fn pool_columns(pool: &PoolSnapshot, row: &mut [String; COLUMNS]) {
    row[5] = pool.workers.len().to_string();
    row[6] = pool.active.to_string();
    row[7] = pool.queue.to_string();
    row[8] = quantile(pool.queue_wait.quantile(0.95), pool.queue_wait.count);
    row[9] = quantile(pool.duration.quantile(0.95), pool.duration.count);
    row[10] = size(pool.memory);
    row[11] = match &pool.opcache_use {
        Some(OpcacheUse { full: true, .. }) => "full".to_owned(),
        Some(OpcacheUse { hit_rate: Some(rate), free, .. }) => {
            format!("{:.1} % hits, {} free", rate * 100.0, size(*free))
        }
        _ => visible(&pool.opcache),
    };
}

/// Says in words what a pool does, and has counted.
fn sentence(pool: &PoolSnapshot) -> String {
    let served: u64 = pool.workers.iter().map(|worker| worker.requests).sum();
    let mut text = format!(
        "{} workers, {} idle, {} requests waiting, {served} served by these workers",
        pool.workers.len(),
        pool.idle,
        pool.queue
    );
    let _ = write!(text, ", {} since the start", pool.requests);
    for (count, what) in [
        (pool.slow, "slow scripts"),
        (pool.timeouts, "time-outs"),
        (pool.queue_timeouts, "waited for too long"),
        (pool.refused, "refused"),
        (pool.lost, "lost"),
        (pool.abandoned, "abandoned by their clients"),
        (pool.recycled, "workers recycled"),
        (pool.dismissed, "workers dismissed"),
        (pool.failed, "workers failed"),
        (pool.out_of_memory, "workers ended because memory ran out"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    for (signal, count) in &pool.deaths {
        let _ = write!(text, ", {count} workers ended by {signal}");
    }
    pool.lanes.iter().for_each(|lane| add_lane(&mut text, lane));
    let _ = write!(text, "; mode {}, at most {} workers", pool.mode, pool.most_workers);
    pool.memory_sum.iter().for_each(|sum| add_memory(&mut text, sum));
    text
}

/// Adds the requests of a lane.
fn add_lane(text: &mut String, lane: &LaneSnapshot) {
    let _ = write!(
        text,
        "; lane {}: {} of {} workers, {} waiting",
        lane.name,
        lane.running.min(lane.workers),
        lane.workers,
        lane.queue
    );
    for (count, what) in [(lane.queue_timeouts, "waited for too long"), (lane.refused, "refused")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
}

/// Adds the number of workers that the memory has room for, and the sum that leads to it.
fn add_memory(text: &mut String, sum: &MemorySumSnapshot) {
    let _ = write!(
        text,
        ", memory for {}: {} available{} + {} of these workers - {} in reserve, at most {}; {} \
         each{}",
        sum.room,
        size(sum.available),
        if sum.is_short { " (too little)" } else { "" },
        size(sum.own),
        size(sum.reserve),
        size(sum.share),
        size(sum.per_worker),
        if sum.is_former { ", as measured before" } else { "" }
    );
}

fn classes(codes: &CodeCounts) -> String {
    let all: Vec<_> = codes.0.iter().map(|(class, count)| format!("{class} {count}")).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" ({})", all.join(", ")),
    }
}

fn of_class(codes: &CodeCounts, class: &str) -> String {
    codes.0.get(class).copied().unwrap_or(0).to_string()
}

/// Writes rows in columns. The first column is aligned to the left, the others to the right.
fn align(rows: &[[String; COLUMNS]], text: &mut String) {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (value, width) in row.iter().zip(widths).skip(1) {
                let _ = write!(line, "  {value:>width$}");
            }
            line.trim_end().to_owned()
        })
        .collect();
    text.push_str(&lines.join("\n"));
}

/// A time that a part of all requests does not exceed.
pub(crate) fn quantile(bound: Option<f64>, count: u64) -> String {
    match bound {
        _ if count == 0 => "-".to_owned(),
        None => "> 60 s".to_owned(),
        Some(bound) if bound < 1.0 => format!("{} ms", bound * 1000.0),
        Some(bound) => format!("{bound} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LaneSnapshot, SiteSnapshot};
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_controls_the_terminal() {
        let mut snapshot = Snapshot::default();
        for name in ["shop", "a.long.name\u{1b}[2J"] {
            let pool = Some(PoolSnapshot { queue: 3, ..PoolSnapshot::default() });
            let site = SiteSnapshot {
                name: name.into(),
                pool,
                ..SiteSnapshot::default()
            };
            snapshot.sites.push(site);
        }
        let text = table(&snapshot);
        assert!(!text.contains('\u{1b}'), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("0 B")).collect();
        let end = |row: &str| row.find("0 B").map(|at| row[..at].chars().count());
        assert_eq!(end(rows[1]), end(rows[2]), "{text}");
        assert!(text.contains("pool shop: 0 workers, 0 idle, 3 requests waiting"), "{text}");
    }

    #[test]
    fn a_lane_has_the_words_and_numbers_of_its_pool() {
        let lane = LaneSnapshot {
            name: "slow".into(),
            workers: 2,
            refused: 3,
            queue_timeouts: 1,
            ..LaneSnapshot::default()
        };
        let pool = PoolSnapshot {
            lanes: vec![lane],
            refused: 3,
            queue_timeouts: 1,
            ..PoolSnapshot::default()
        };
        let told = sentence(&pool);
        let expected = ", 1 waited for too long, 3 refused; lane slow: 0 of 2 workers, 0 waiting, \
            1 waited for too long, 3 refused; mode";
        assert!(told.contains(expected), "{told}");
    }
}
