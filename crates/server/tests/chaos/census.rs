//! Processes, descriptors and memory of a server that rests.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::ledger::Ledger;
use crate::stage::{self, Stage};
use crate::support::{Client, PATIENCE, Process};

/// Descriptors that a process may have more than before: cached files.
const MORE_DESCRIPTORS: usize = 8;
/// Bytes that a part may have more than before, beside a quarter of what it had.
const MORE_MEMORY: u64 = 12 << 20;

/// The parts of a server with their descriptors and their memory (PSS, bytes).
pub struct Census(BTreeMap<&'static str, (usize, u64)>);

impl Census {
    /// Waits until the server rests, and counts.
    pub fn settled(stage: &Stage) -> Census {
        assert_eq!(settle(stage), Vec::<String>::new());
        Census::now(stage)
    }

    /// Returns what is more than in this census, or is left over, once the server rests again.
    pub fn differences(&self, stage: &Stage, ledger: &Ledger) -> Vec<String> {
        let mut differences = settle(stage);
        if !differences.is_empty() {
            return differences;
        }
        // More at once than there are slots: a slot that was not given back would be missing.
        let clients: Vec<Client> = (0..40)
            .map(|_| {
                let mut client = Client::connect(stage.address());
                client.ask("/slow.php?n=0").unwrap();
                ledger.count_probe();
                client
            })
            .collect();
        for mut client in clients {
            match client.answer() {
                Ok(response) if response.body == b"slow 0" => {}
                other => differences.push(format!("of 40 requests at once: {other:?}")),
            }
        }
        differences.extend(settle(stage));
        let after = Census::now(stage);
        println!("after: {after}");
        for (part, (descriptors, memory)) in &after.0 {
            let (before_descriptors, before_memory) = self.0[part];
            if *descriptors > before_descriptors + MORE_DESCRIPTORS {
                differences.push(format!(
                    "{part}: {before_descriptors} descriptors before, {descriptors} after"
                ));
            }
            if *memory > before_memory + before_memory / 4 + MORE_MEMORY {
                differences.push(format!("{part}: {before_memory} bytes before, {memory} after"));
            }
        }
        let left = stage.leftovers();
        differences.extend(left.iter().map(|path| format!("left: {}", path.display())));
        differences
    }

    fn now(stage: &Stage) -> Census {
        let front: Vec<Process> = stage.front().into_iter().collect();
        let mut pool: Vec<Process> = stage.zygote().into_iter().collect();
        pool.extend(stage.workers());
        let parts = [("supervisor", vec![stage.supervisor()]), ("front", front), ("pool", pool)];
        let count = |processes: Vec<Process>| {
            let descriptors = processes.iter().map(|process| targets(*process).len()).sum();
            (descriptors, processes.into_iter().map(memory).sum())
        };
        Census(parts.into_iter().map(|(part, processes)| (part, count(processes))).collect())
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, (descriptors, memory)) in &self.0 {
            write!(f, "{part}: {descriptors} descriptors, {:.1} MB; ", *memory as f64 / 1e6)?;
        }
        Ok(())
    }
}

/// Waits until one front, one zygote and its workers are the only processes, beside a zygote that
/// stands by, and no connection is open. Returns what is left over after a long wait.
pub fn settle(stage: &Stage) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut expected: Vec<Process> = vec![stage.supervisor()];
        expected.extend(stage.front());
        expected.extend(stage.zygote());
        let complete = stage.rests();
        expected.extend(stage.workers());
        let processes = stage.server.processes();
        let more: Vec<String> = processes
            .iter()
            .filter(|process| !expected.contains(process) && !process.stands_by())
            .map(|process| format!("left: process {} {}", process.number(), process.arguments()))
            .collect();
        let connections = stage.front().map_or(0, connections);
        if complete && more.is_empty() && connections <= QUIET_SOCKETS {
            return Vec::new();
        }
        if Instant::now() > end {
            let mut left = more;
            if !complete {
                left.push(format!("{} workers", stage.workers().len()));
            }
            if connections > QUIET_SOCKETS {
                left.push(format!("left: {connections} sockets of the front"));
            }
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sockets of a front without clients at most: listeners, supervisor, zygotes, and one for each of
/// the four slots of a worker.
const QUIET_SOCKETS: usize = 25 + 4 * stage::WORKERS;

fn connections(front: Process) -> usize {
    targets(front).iter().filter(|target| target.starts_with("socket:")).count()
}

/// The targets of a process's descriptors; none of a process that only root may look into.
fn targets(process: Process) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{}/fd", process.number()));
    let entries = folder.into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.map(|target| target.display().to_string()).collect()
}

fn memory(process: Process) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", process.number());
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
