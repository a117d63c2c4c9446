//! What a run has found, as it is kept in `run.json` and shown in the report.
//!
//! A run is written after every round, so that what was measured is never lost and an interrupted
//! run goes on where it stopped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run of one scenario on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of this format: 1.
    pub format: u32,
    /// The scenario's name on the command line.
    pub scenario: String,
    /// When it began, as `2026-01-31T12:34:56Z`.
    pub began: String,
    /// Whether it was made with `--quick`: fewer rounds, shorter loads.
    pub quick: bool,
    /// What the study's numbers of requests were multiplied with.
    pub scale: f64,
    /// Rounds that each cell is to have.
    pub rounds: u32,
    /// What a reader must know of the machine, in the order in which it is shown.
    pub machine: Vec<(String, String)>,
    /// The stacks that took part, in the order of a round.
    pub stacks: Vec<StackFacts>,
    /// The stacks that could not, and why.
    pub absent: Vec<(String, String)>,
    /// What was asked, and the answers.
    pub cells: Vec<Cell>,
    /// What else a reader must know: adaptations of the study, disturbances, differences between
    /// the stacks.
    pub notes: Vec<String>,
    /// What is to be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// Whether opcache was off for all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_opcache: bool,
    /// Settings that were searched for, by stack: an interrupted run goes on with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub searched: BTreeMap<String, u32>,
}

/// What is to be reached in one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Of which cell.
    pub cell: String,
    /// By which figure.
    pub figure: Figure,
    /// Which stack is to reach it.
    pub ours: String,
    /// The best of these is compared with; where there are none, the figure itself counts.
    pub against: Vec<String>,
    /// The bound for the ratio.
    pub bound: Bound,
}

/// Which ratios are good enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// So many times as good, or better.
    AtLeast(f64),
    /// So many times the others' figure, or less.
    AtMost(f64),
}

impl Default for Bound {
    fn default() -> Bound {
        Bound::AtLeast(1.0)
    }
}

/// One stack as it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackFacts {
    /// Its name on the command line.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The versions of its programs.
    pub version: String,
    /// What could not be made equal to the others.
    pub unequal: Option<String>,
    /// Every configuration file as it was used, by name, the temporary folder's name replaced.
    pub configuration: BTreeMap<String, String>,
    /// Proportional set size of all of its processes before the first request, in KiB.
    pub idle_pss: Option<u64>,
}

/// One question that was put to several stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique in the run, such as `HelloWorld.php/keep-alive/32`.
    pub name: String,
    /// The chart that it belongs to, such as `HelloWorld.php, keep-alive`.
    pub chart: String,
    /// Its place on the chart's axis, such as a concurrency; `None` for a chart of bars.
    pub at: Option<f64>,
    /// What the axis counts.
    pub axis: String,
    /// Which figure the chart shows, and the study compared.
    pub figure: Figure,
    /// By stack's name.
    pub results: BTreeMap<String, Outcome>,
    /// The study's own figures, by what the study called its stacks.
    pub study: Vec<(String, f64)>,
    /// The stack that the others of the cell are compared with. `None`: Howdah is compared with
    /// each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// What one stack made of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In the order in which they were run, void ones as well.
    pub rounds: Vec<Round>,
    /// Why it was not measured at all.
    pub failure: Option<String>,
}

/// One load on one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Why it does not count.
    pub void: Option<String>,
    /// Whether the load generator used more than 90 % of its processor: then it, not the server,
    /// was measured.
    pub loader_bound: bool,
    /// What was measured.
    pub figures: BTreeMap<Figure, f64>,
    /// Second by second: time since the beginning and value, by figure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<Figure, Vec<(f64, f64)>>,
    /// System calls per request by name, where they were counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, f64>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Answered requests per second.
    #[default]
    RequestsPerSecond,
    /// User and system time of all of the server's processes, in microseconds per request.
    CpuPerRequest,
    /// Proportional set size of all of the server's processes under load, in KiB.
    Pss,
    /// Highest proportional set size, in KiB.
    PeakPss,
    /// Context switches per request.
    SwitchesPerRequest,
    /// System calls per request.
    CallsPerRequest,
    /// Milliseconds: median.
    Latency50,
    /// Milliseconds: 99th percentile.
    Latency99,
    /// Milliseconds: 99.9th percentile.
    Latency999,
    /// Answers that were right.
    Hits,
    /// Answers that were wrong, and connections that failed.
    Errors,
    /// Requests without an answer in time.
    Timeouts,
    /// Connections that the kernel dropped because the server did not accept them.
    AcceptOverflows,
    /// Bytes of the body per second.
    BytesPerSecond,
    /// Clients at that moment of a ramp.
    Clients,
    /// Processors that were busy with the server.
    Processors,
    /// Proportional set size of the processes that are not PHP's, in KiB.
    FrontPss,
    /// Proportional set size of one PHP process, on average, in KiB.
    WorkerPss,
    /// Milliseconds: 99th percentile while no PHP process is busy, in the same round.
    Latency99Idle,
    /// 99th percentile as a multiple of that with idle PHP processes.
    SlowedDown,
    /// Microseconds of the first request for each of many files, on average.
    FirstRequest,
    /// The same of the second request.
    SecondRequest,
    /// Milliseconds of the longest first request.
    LongestRequest,
    /// What proportional set size has grown by, in KiB.
    GrownPss,
}

impl Figure {
    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Figure::RequestsPerSecond | Figure::Hits | Figure::BytesPerSecond)
    }

    /// Whether it is in KiB.
    pub fn is_memory(self) -> bool {
        matches!(
            self,
            Figure::Pss | Figure::PeakPss | Figure::FrontPss | Figure::WorkerPss | Figure::GrownPss
        )
    }

    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Figure::RequestsPerSecond => "requests/s",
            Figure::CpuPerRequest => "CPU µs/request",
            Figure::Pss => "memory under load",
            Figure::PeakPss => "highest memory",
            Figure::SwitchesPerRequest => "context switches/request",
            Figure::CallsPerRequest => "system calls/request",
            Figure::Latency50 => "median latency, ms",
            Figure::Latency99 => "99 % latency, ms",
            Figure::Latency999 => "99.9 % latency, ms",
            Figure::Hits => "hits",
            Figure::Errors => "errors",
            Figure::Timeouts => "time-outs",
            Figure::AcceptOverflows => "dropped connections",
            Figure::BytesPerSecond => "bytes/s",
            Figure::Clients => "clients",
            Figure::Processors => "busy processors",
            Figure::FrontPss => "memory without PHP's processes",
            Figure::WorkerPss => "memory of a PHP process",
            Figure::Latency99Idle => "99 % latency beside idle PHP, ms",
            Figure::FirstRequest => "first request, µs",
            Figure::SecondRequest => "second request, µs",
            Figure::LongestRequest => "longest first request, ms",
            Figure::GrownPss => "growth of memory",
            Figure::SlowedDown => "times the 99 % latency beside idle PHP",
        }
    }
}

impl Outcome {
    /// The rounds that count.
    pub fn valid(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.void.is_none())
    }

    /// A figure of every round that counts and has it.
    pub fn values(&self, figure: Figure) -> Vec<f64> {
        self.valid().filter_map(|round| round.figures.get(&figure).copied()).collect()
    }
}
