//! The kernel's data about a running server, over all of its processes.

pub mod calls;
pub mod cgroup;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use crate::process::{TICKS_PER_SECOND, stat, tree};
use crate::record::Figure;

/// Counters of a whole process tree at one moment.
#[derive(Clone, Debug, Default)]
pub struct ProcessCounters {
    /// CPU time in microseconds, with that of ended children.
    pub processor: f64,
    /// Context switches of every living process, by pid.
    switches: HashMap<u32, u64>,
    /// Connections of the whole machine that the kernel dropped because an accept queue was full.
    overflows: u64,
}

/// The difference of two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU time in microseconds.
    pub processor: f64,
    /// Context switches, voluntary and not, of processes in both readings and of new ones.
    pub switches: u64,
    /// Dropped connections.
    pub overflows: u64,
}

/// CPU time of these processes and of their ended children, in microseconds.
pub fn processor_time(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| processor(*pid)).sum()
}

const MICROSECONDS_PER_TICK: f64 = 1e6 / TICKS_PER_SECOND;

impl ProcessCounters {
    /// Reads the counters of all processes below `roots`.
    pub fn take(roots: &[u32]) -> ProcessCounters {
        let pids = tree(roots);
        ProcessCounters {
            processor: processor_time(&pids),
            switches: pids.iter().map(|pid| (*pid, switches(*pid))).collect(),
            overflows: overflows(),
        }
    }

    /// Returns the difference to an earlier reading.
    pub fn since(&self, earlier: &ProcessCounters) -> Used {
        let before = |pid: &u32| earlier.switches.get(pid).copied().unwrap_or(0);
        Used {
            processor: (self.processor - earlier.processor).max(0.0),
            switches: self.switches.iter().map(|(pid, now)| now.saturating_sub(before(pid))).sum(),
            overflows: self.overflows.saturating_sub(earlier.overflows),
        }
    }
}

/// Reads memory and CPU time of a process tree every second, on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    stop: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<BTreeMap<Figure, Vec<(f64, f64)>>>,
}

impl Sampler {
    /// Starts the thread.
    pub fn start(roots: &[u32]) -> Sampler {
        let (stop, stopped) = std::sync::mpsc::channel();
        let roots = roots.to_vec();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let (mut memory, mut processor) = (Vec::new(), Vec::new());
            let mut before = ProcessCounters::take(&roots);
            while stopped
                .recv_timeout(SAMPLE)
                .is_err_and(|error| error == RecvTimeoutError::Timeout)
            {
                let (at, now) = (began.elapsed().as_secs_f64(), ProcessCounters::take(&roots));
                processor.push((at, now.since(&before).processor / SAMPLE.as_micros() as f64));
                memory.extend(pss(&roots).map(|kibibytes| (at, kibibytes as f64)));
                before = now;
            }
            [(Figure::Pss, memory), (Figure::Processors, processor)].into()
        });
        Sampler { stop, thread }
    }

    /// Stops the thread. Returns memory in KiB and busy processors, by seconds since the start.
    pub fn stop(self) -> BTreeMap<Figure, Vec<(f64, f64)>> {
        drop(self.stop);
        let mut series = self.thread.join().unwrap_or_default();
        series.retain(|_, points| !points.is_empty());
        series
    }
}

/// Interval of the readings.
const SAMPLE: Duration = Duration::from_secs(1);

/// Memory of a process tree, in KiB of proportional set size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory of all processes.
    pub all: u64,
    /// Memory of processes that are not PHP's. A server with PHP inside has no others.
    pub front: u64,
    /// Memory of the PHP processes that answer requests, and their number.
    pub workers: (u64, u64),
}

impl Memory {
    /// Mean memory of a PHP process; `None` without such a process.
    pub fn worker(&self) -> Option<f64> {
        let (sum, count) = self.workers;
        (count > 0).then(|| sum as f64 / count as f64)
    }
}

/// Reads the memory of all processes below `roots`; `None` where the kernel does not allow it.
pub fn memory(roots: &[u32]) -> Option<Memory> {
    let mut memory = Memory::default();
    let pids = tree(roots);
    let parents: Vec<u32> = pids.iter().filter_map(|pid| Some(stat(*pid)?.parent)).collect();
    for pid in pids {
        let own = match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => field(&text, "Pss:").unwrap_or(0),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
            // The process has ended meanwhile.
            Err(_) => continue,
        };
        memory.all += own;
        if !is_php(pid) {
            memory.front += own;
        } else if !parents.contains(&pid) && !stands_by(pid) {
            // A PHP process with children only starts and watches them.
            memory.workers.0 += own;
            memory.workers.1 += 1;
        }
    }
    Some(memory)
}

/// Proportional set size of all processes below `roots`, in KiB; `None` where the kernel does not
/// allow reading it.
pub fn pss(roots: &[u32]) -> Option<u64> {
    memory(roots).map(|memory| memory.all)
}

/// Returns whether the process is one of php-fpm, php-cgi or Howdah's PHP, by its command line.
fn is_php(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split(|byte| matches!(byte, 0 | b' ' | b':')).next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"php-") || name == b"howdah-php"
}

/// Returns whether the process is Howdah's zygote that stands by: it answers no requests.
fn stands_by(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"howdah-standby\n")
}

/// CPU time of a process and of its ended children, in microseconds. Clock ticks lose up to a
/// hundredth of a second for each process, which is much in a short load. The scheduler's counters
/// are exact but omit ended threads. The larger value is used.
fn processor(pid: u32) -> Option<f64> {
    let stat = stat(pid)?;
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let exact: f64 = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<f64>().ok())
        .sum();
    let own = (stat.ticks - stat.of_children) as f64 * MICROSECONDS_PER_TICK;
    Some(own.max(exact / 1000.0) + stat.of_children as f64 * MICROSECONDS_PER_TICK)
}

/// Context switches of all threads of a process.
fn switches(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(|text| {
            field(&text, "voluntary_ctxt_switches:").unwrap_or(0)
                + field(&text, "nonvoluntary_ctxt_switches:").unwrap_or(0)
        })
        .sum()
}

/// `ListenOverflows` and `ListenDrops` of `/proc/net/netstat`: names in one line, numbers in the
/// next.
fn overflows() -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let found = names
        .split(' ')
        .zip(numbers.split(' '))
        .find(|(name, _)| *name == "ListenOverflows");
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// Measures a process of its own, since threads of other tests come and go in this one.
    #[test]
    fn work_is_seen() {
        let work = "read go; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.01; echo \
            done; read end";
        let mut child = Command::new("sh")
            .args(["-c", work])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let roots = [child.id()];
        let before = ProcessCounters::take(&roots);
        let mut line = String::new();
        input.write_all(b"go\n").unwrap();
        output.read_line(&mut line).unwrap();
        let used = ProcessCounters::take(&roots).since(&before);
        drop(input);
        child.wait().unwrap();
        assert_eq!(line, "done\n");
        assert!(used.processor >= 10_000.0, "{used:?}");
        assert!(used.switches >= 1, "{used:?}");
    }

    #[test]
    fn memory_is_seen() {
        let own = [std::process::id()];
        let before = pss(&own).unwrap();
        let block = std::hint::black_box(vec![1u8; 128 << 20]);
        // Other tests may release memory meanwhile.
        assert!(pss(&own).unwrap() >= before + 64 * 1024, "{}", block.len());
    }
}
