//! The server's own counters beside what its clients saw in a calm stretch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::census;
use crate::ledger::Ledger;
use crate::stage::Stage;
use crate::support::{Client, wait_until};

/// Visitors of the calm stretch: more than there are workers.
const VISITORS: usize = 10;
/// Times that each of them asks for everything in [`TARGETS`].
const ROUNDS: usize = 5;
/// The requests of the calm stretch: target, status, and whether a script answers.
const TARGETS: [(&str, u16, bool); 6] = [
    ("/file.txt", 200, false),
    ("/hello.php?n=1", 200, true),
    ("/missing.txt", 404, false),
    ("/slow.php?n=1", 200, true),
    ("/failing.php", 503, true),
    ("/large.php?n=1", 200, true),
];
/// Time in which a counter of a server that rests stays as it is.
const PAUSE: Duration = Duration::from_millis(300);

/// Counters whose change in the calm stretch is not known beforehand: workers come and go, scripts
/// compute, and caches are asked now and then.
const FREE: [&str; 7] = [
    "howdah_pool_cpu_seconds_total",
    "howdah_pool_workers_started_total",
    "howdah_pool_workers_dismissed_total",
    "howdah_pool_exhausted_samples_total",
    "howdah_pool_opcache_",
    "howdah_worker_",
    "howdah_file_cache_",
];
/// The counters of workers that have ended.
const ENDS: [&str; 4] = [
    "howdah_pool_workers_recycled_total",
    "howdah_pool_workers_dismissed_total",
    "howdah_pool_workers_failed_total",
    "howdah_pool_worker_deaths_total",
];
/// Counters of a site in `howdah status --json`, and the same of its pool.
const OF_SITE: [(&str, &str); 3] = [
    ("/requests", "howdah_requests_total"),
    ("/bytes", "howdah_response_content_bytes_total"),
    ("/incomplete", "howdah_responses_incomplete_total"),
];
const OF_POOL: [(&str, &str); 11] = [
    ("/pool/requests", "howdah_pool_requests_total"),
    ("/pool/duration/count", "howdah_script_duration_seconds_count"),
    ("/pool/queue_wait/count", "howdah_pool_queue_wait_seconds_count"),
    ("/pool/timeouts", "howdah_pool_timeouts_total"),
    ("/pool/queue_timeouts", "howdah_pool_queue_timeouts_total"),
    ("/pool/refused", "howdah_pool_refused_total"),
    ("/pool/lost", "howdah_pool_lost_requests_total"),
    ("/pool/abandoned", "howdah_pool_abandoned_requests_total"),
    ("/pool/spawned", "howdah_pool_workers_started_total"),
    ("/pool/dismissed", "howdah_pool_workers_dismissed_total"),
    ("/pool/recycled", "howdah_pool_workers_recycled_total"),
];

/// Visits the server, which rests, with requests whose number is known. Returns each counter that
/// says something else than the visitors.
pub fn differences(stage: &Stage, ledger: &Ledger) -> Vec<String> {
    let left = census::settle(stage);
    if !left.is_empty() {
        return left;
    }
    let before = Samples::at_rest(stage);
    let seen = visit(stage);
    ledger.count_answered(seen.requests);
    let expected = seen.counters();
    let mut after = Samples::of(stage);
    // A request is counted when its response has been sent.
    wait_until("the visitors' requests are counted", || {
        after = Samples::of(stage);
        after.sum("howdah_requests_total") >= before.sum("howdah_requests_total") + seen.requests
    });
    after = Samples::at_rest(stage);
    let mut differences = before.compare(&after, &expected);
    differences.extend(seen.wrong);
    differences.extend(after.compare_status(stage));
    differences
}

/// The answers that the visitors of the calm stretch saw, counted.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    connections: u64,
    scripts: u64,
    bytes: u64,
    codes: BTreeMap<u16, u64>,
    wrong: Vec<String>,
}

impl Seen {
    fn add(mut self, other: Seen) -> Seen {
        self.requests += other.requests;
        self.connections += other.connections;
        self.scripts += other.scripts;
        self.bytes += other.bytes;
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        self.wrong.extend(other.wrong);
        self
    }

    /// The samples of `/metrics` that grow, and by how much.
    fn counters(&self) -> BTreeMap<String, u64> {
        let of_site = |name: &str| format!("{name}{{site=\"chaos\"}}");
        let codes = self.codes.iter().map(|(code, count)| {
            (format!("howdah_requests_total{{site=\"chaos\",code=\"{code}\"}}"), *count)
        });
        let others = [
            (of_site("howdah_response_content_bytes_total"), self.bytes),
            (of_site("howdah_request_duration_seconds_count"), self.requests),
            (of_site("howdah_pool_requests_total"), self.scripts),
            (of_site("howdah_pool_queue_wait_seconds_count"), self.scripts),
            (of_site("howdah_script_duration_seconds_count"), self.scripts),
            ("howdah_connections_accepted_total".to_owned(), self.connections),
        ];
        codes.chain(others).collect()
    }
}

/// Visits side by side, each on a connection of its own.
fn visit(stage: &Stage) -> Seen {
    let address = stage.address();
    let visitor = move || {
        let mut seen = Seen { connections: 1, ..Seen::default() };
        let mut client = Client::connect(address);
        for (target, status, is_script) in std::iter::repeat_n(TARGETS, ROUNDS).flatten() {
            let response = client.get(target);
            seen.requests += 1;
            seen.scripts += u64::from(is_script);
            seen.bytes += response.body.len() as u64;
            *seen.codes.entry(response.status).or_default() += 1;
            if response.status != status {
                seen.wrong.push(format!("{target}: {} in a calm stretch", response.status));
            }
            if response.is_last() {
                seen.connections += 1;
                client = Client::connect(address);
            }
        }
        seen
    };
    let threads: Vec<_> = (0..VISITORS).map(|_| std::thread::spawn(visitor)).collect();
    let seen = threads.into_iter().map(|thread| thread.join().unwrap());
    seen.fold(Seen::default(), Seen::add)
}

/// The samples of `/metrics`.
#[derive(Debug, Clone, PartialEq)]
struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Those of this moment.
    fn of(stage: &Stage) -> Samples {
        let page = Client::connect(stage.admin()).get("/metrics");
        assert_eq!(page.status, 200, "{page:?}");
        let samples = page.text().lines().filter(|line| !line.starts_with('#'));
        let parse = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        Samples(samples.map(parse).collect())
    }

    /// Waits until no script runs and no counter changes.
    fn at_rest(stage: &Stage) -> Samples {
        let mut last = Samples::of(stage);
        wait_until("no counter changes", || {
            std::thread::sleep(PAUSE);
            let now = Samples::of(stage);
            let former = std::mem::replace(&mut last, now);
            let is_same = last.fixed().eq(former.fixed());
            let running = r#"howdah_pool_workers{site="chaos",state="running"}"#;
            is_same && last.0.get(running) == Some(&0.0)
        });
        last
    }

    /// The counters whose changes are known.
    fn fixed(&self) -> impl Iterator<Item = (&String, u64)> {
        let is_counter = |name: &str| {
            let family = name.split('{').next().unwrap_or_default();
            family.ends_with("_total") || family.ends_with("_count")
        };
        let is_fixed =
            move |name: &str| is_counter(name) && !FREE.iter().any(|free| name.starts_with(free));
        let fixed = self.0.iter().filter(move |(name, _)| is_fixed(name));
        fixed.map(|(name, value)| (name, *value as u64))
    }

    /// The sum of the site's samples of a family.
    fn sum(&self, family: &str) -> u64 {
        let prefix = format!("{family}{{site=\"chaos\"");
        let samples = self.0.iter().filter(|(name, _)| name.starts_with(&prefix));
        samples.map(|(_, value)| *value as u64).sum()
    }

    /// Workers that were started and have not ended, as far as the counters know.
    fn unended(&self) -> i64 {
        let ended: u64 = ENDS.iter().map(|family| self.sum(family)).sum();
        self.sum("howdah_pool_workers_started_total") as i64 - ended as i64
    }

    /// Returns each counter that has not grown by what is expected.
    fn compare(&self, after: &Samples, expected: &BTreeMap<String, u64>) -> Vec<String> {
        let mut former: BTreeMap<&String, u64> = self.fixed().collect();
        let mut wrong: Vec<String> = expected
            .keys()
            .filter(|name| !after.0.contains_key(*name))
            .map(|name| format!("{name} is missing"))
            .collect();
        for (name, value) in after.fixed() {
            let before = former.remove(name).unwrap_or(0);
            let more = expected.get(name).copied().unwrap_or(0);
            if value != before + more {
                wrong.push(format!("{name}: {before}, then {value}; visitors saw {more} more"));
            }
        }
        wrong.extend(former.keys().map(|name| format!("{name} has gone")));
        let living = |samples: &Samples| samples.sum("howdah_pool_workers") as i64;
        let (more, grown) = (after.unended() - self.unended(), living(after) - living(self));
        if more != grown {
            wrong.push(format!(
                "{more} more workers were started than have ended, and {grown} more live"
            ));
        }
        wrong
    }

    /// Returns each counter that has another value in `howdah status --json`.
    fn compare_status(&self, stage: &Stage) -> Vec<String> {
        let status = stage.status();
        let mut wrong = Vec::new();
        for (pointer, family) in OF_SITE.iter().chain(&OF_POOL) {
            let (told, sum) = (status.pointer(pointer), self.sum(family));
            if told.and_then(serde_json::Value::as_u64) != Some(sum) {
                wrong.push(format!("{pointer} is {told:?} in JSON, and {family} is {sum}"));
            }
        }
        wrong
    }
}
