//! The fates of requests, and the event that accounts for each that failed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::loads::{Load, Seen};

/// The fate of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Right,
    /// A whole answer with other bytes.
    Wrong(String),
    /// No whole answer.
    Lost(String),
    /// An answer that tells of a failure, by its status.
    Told(u16),
}

/// The requests that an event may make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// None.
    Nothing,
    /// At most this many, which were with a worker at that time.
    Workers(usize),
    /// Those whose connections were open before the event's end: the front died.
    Connections,
    /// Those that were told so with a status, while the event lasted: something had run out.
    Shortage,
}

/// Something that was done to the server.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: &'static str,
    pub harm: Harm,
    pub began: Instant,
    /// The end of its effects.
    pub ended: Instant,
    /// From the event to the first answer on a new connection.
    pub gap: Option<Duration>,
    hits: usize,
}

/// All requests and all events.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    seen: Vec<Seen>,
    events: Vec<Event>,
    /// Requests beside those of the visitors: with a whole answer, and with or without one.
    answered: u64,
    probes: u64,
}

/// Answers that a front has sent and not counted when it dies: one for each of the twenty visitors.
const UNCOUNTED: u64 = 20;
/// The event after which a former front's requests are not counted, and the time that it may take
/// to finish them: its `drain_timeout`.
pub const NEW_BINARY: &str = "new binary";
const DRAINED: Duration = Duration::from_secs(20);
/// Time after an event in which a request notices it: a time-out of a script, and a busy machine.
const GRACE: Duration = Duration::from_secs(10);

impl Ledger {
    /// Enters finished requests.
    pub fn enter(&self, seen: Vec<Seen>) {
        self.entries().seen.extend(seen);
    }

    /// Enters an event.
    pub fn note(&self, name: &'static str, harm: Harm, began: Instant, gap: Option<Duration>) {
        let event = Event {
            name,
            harm,
            began,
            ended: Instant::now(),
            gap,
            hits: 0,
        };
        self.entries().events.push(event);
    }

    /// Notes a request that is no visitor's, and that may get no answer.
    pub fn count_probe(&self) {
        self.entries().probes += 1;
    }

    /// Notes requests that are no visitor's, and were answered.
    pub fn count_answered(&self, count: u64) {
        self.entries().answered += count;
    }

    /// Returns whether the server may have counted this number of requests: no more than were sent,
    /// and those whose answers came. The front may miss the last ones when it dies, and nothing is
    /// counted that the former front finishes after a new binary has started.
    pub fn miscounted(&self, counted: u64) -> Option<String> {
        let entries = self.entries();
        let Entries { seen, events, answered, probes } = &*entries;
        let is_uncounted = |seen: &Seen| {
            let mut binaries = events.iter().filter(|event| event.name == NEW_BINARY);
            binaries.any(|event| event.began <= seen.ended && seen.ended <= event.ended + DRAINED)
        };
        let is_answered = |seen: &&Seen| {
            // A visitor that vanishes may leave before the server knows its request.
            seen.fate == Fate::Right && seen.load != Load::Vanishing && !is_uncounted(seen)
        };
        let sent = seen.len() as u64 + answered + probes;
        let answered = seen.iter().filter(is_answered).count() as u64 + answered;
        let deaths = events.iter().filter(|event| event.harm == Harm::Connections).count() as u64;
        let least = answered.saturating_sub(deaths * UNCOUNTED);
        println!("{counted} requests counted, {answered} answered surely, {sent} sent");
        let is_right = (least..=sent).contains(&counted);
        (!is_right).then(|| format!("{counted} requests were counted, not {least} to {sent}"))
    }

    /// Fails unless every request was answered rightly.
    pub fn assert_undisturbed(&self) {
        let entries = self.entries();
        let failed: Vec<&Seen> =
            entries.seen.iter().filter(|seen| seen.fate != Fate::Right).collect();
        assert!(!entries.seen.is_empty());
        let shown = &failed[..failed.len().min(10)];
        assert!(
            failed.is_empty(),
            "{} of {} requests failed: {shown:#?}",
            failed.len(),
            entries.seen.len()
        );
    }

    /// Wrong answers, and failed requests that no event accounts for, each with the events shortly
    /// before it.
    pub fn violations(&self) -> Vec<String> {
        let mut entries = self.entries();
        let Entries { seen, events, .. } = &mut *entries;
        let Some(start) = seen.iter().map(|seen| seen.began).min() else {
            return vec!["no request was made".to_owned()];
        };
        let (wrong, failed): (Vec<&Seen>, Vec<&Seen>) = seen
            .iter()
            .filter(|seen| seen.fate != Fate::Right)
            .partition(|seen| matches!(seen.fate, Fate::Wrong(_)));
        let unaccounted = account(events, &failed);
        let describe = |seen: &&Seen| {
            let seconds = |time: Instant| (time - start).as_secs_f64();
            let recent: Vec<String> = events
                .iter()
                .filter(|event| {
                    event.began <= seen.ended && seen.began <= event.ended + Duration::from_secs(5)
                })
                .map(|event| {
                    let (began, ended) = (seconds(event.began), seconds(event.ended));
                    format!("{} {began:.3} to {ended:.3}", event.name)
                })
                .collect();
            format!(
                "{:?}, opened {:.3}, {:.3} to {:.3} s: {:?}; events: {}",
                seen.load,
                seconds(seen.opened),
                seconds(seen.began),
                seconds(seen.ended),
                seen.fate,
                recent.join(", ")
            )
        };
        wrong.iter().chain(&unaccounted).map(describe).collect()
    }

    /// Counts by load and by event, and the gaps.
    pub fn summary(&self, time: Duration) -> String {
        let violations = self.violations().len();
        let entries = self.entries();
        let mut loads: BTreeMap<Load, [usize; 4]> = BTreeMap::new();
        for seen in &entries.seen {
            let column = match seen.fate {
                Fate::Right => 0,
                Fate::Told(_) => 1,
                Fate::Lost(_) => 2,
                Fate::Wrong(_) => 3,
            };
            loads.entry(seen.load).or_default()[column] += 1;
        }
        let mut text = format!(
            "{:?}\n{:<24}{:>9}{:>9}{:>9}{:>9}\n",
            time, "load", "right", "told", "lost", "wrong"
        );
        for (load, [right, told, lost, wrong]) in loads {
            let name = format!("{load:?}");
            writeln!(text, "{name:<24}{right:>9}{told:>9}{lost:>9}{wrong:>9}").unwrap();
        }
        writeln!(
            text,
            "{:<24}{:>9}{:>9}{:>14}{:>14}",
            "event", "times", "hit", "median gap", "largest gap"
        )
        .unwrap();
        let mut names: Vec<&str> = entries.events.iter().map(|event| event.name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let events: Vec<&Event> =
                entries.events.iter().filter(|event| event.name == name).collect();
            let hits: usize = events.iter().map(|event| event.hits).sum();
            let mut gaps: Vec<Duration> = events.iter().filter_map(|event| event.gap).collect();
            gaps.sort();
            let shown = |gap: Option<&Duration>| {
                gap.map_or("–".to_owned(), |gap| format!("{} ms", gap.as_millis()))
            };
            let (median, largest) = (shown(gaps.get(gaps.len() / 2)), shown(gaps.last()));
            writeln!(text, "{name:<24}{:>9}{hits:>9}{median:>14}{largest:>14}", events.len())
                .unwrap();
        }
        write!(text, "requests that no event accounts for: {violations}").unwrap();
        text
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap()
    }
}

/// Finds an event for each failed request, so that as few as possible are left over, and counts the
/// hits of each event. Returns the requests that are left over.
fn account<'s>(events: &mut [Event], failed: &[&'s Seen]) -> Vec<&'s Seen> {
    let mut hits: Vec<Vec<usize>> = vec![Vec::new(); events.len()];
    let mut left = Vec::new();
    for number in 0..failed.len() {
        if !assign(events, failed, number, &mut hits, &mut vec![false; events.len()]) {
            left.push(failed[number]);
        }
    }
    for (event, hits) in events.iter_mut().zip(hits) {
        event.hits = hits.len();
    }
    left
}

/// Assigns a failed request to an event that may account for it. Where such an event has as many as
/// it may have, one of them moves to another event: the augmenting paths of bipartite matching.
fn assign(
    events: &[Event],
    failed: &[&Seen],
    number: usize,
    hits: &mut [Vec<usize>],
    tried: &mut [bool],
) -> bool {
    for (index, event) in events.iter().enumerate() {
        if tried[index] || !event.may_harm(failed[number]) {
            continue;
        }
        tried[index] = true;
        if hits[index].len() < event.harm.most() {
            hits[index].push(number);
            return true;
        }
        for place in 0..hits[index].len() {
            if assign(events, failed, hits[index][place], hits, tried) {
                hits[index][place] = number;
                return true;
            }
        }
    }
    false
}

impl Harm {
    /// The most requests that it makes fail.
    fn most(self) -> usize {
        match self {
            Harm::Nothing => 0,
            Harm::Workers(most) => most,
            Harm::Connections | Harm::Shortage => usize::MAX,
        }
    }
}

impl Event {
    /// Returns whether the event may have made this request fail.
    fn may_harm(&self, seen: &Seen) -> bool {
        let meets = self.began <= seen.ended && seen.began <= self.ended + GRACE;
        meets
            && match self.harm {
                Harm::Nothing => false,
                Harm::Workers(_) => seen.began <= self.ended,
                Harm::Connections => {
                    seen.opened <= self.ended && matches!(seen.fate, Fate::Lost(_))
                }
                Harm::Shortage => seen.began <= self.ended && matches!(seen.fate, Fate::Told(_)),
            }
    }
}
