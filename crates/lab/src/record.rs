//! The results of a run, as `run.json` keeps them and the report shows them.
//!
//! A run is written after every round: results are never lost, and an interrupted run can be
//! continued.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run of one scenario on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the format: 1.
    pub format: u32,
    /// The scenario's name on the command line.
    pub scenario: String,
    /// Start of the run, as `2026-01-31T12:34:56Z`.
    pub began: String,
    /// Whether the run was made with `--quick`: fewer rounds, shorter loads.
    pub quick: bool,
    /// Factor for the study's numbers of requests.
    pub scale: f64,
    /// Planned rounds of each cell.
    pub rounds: u32,
    /// Facts about the machine, in the order in which they are shown.
    pub machine: Vec<(String, String)>,
    /// The measured stacks, in the order of a round.
    pub stacks: Vec<StackFacts>,
    /// The stacks that could not be started, and why.
    pub absent: Vec<(String, String)>,
    /// Questions and results.
    pub cells: Vec<Cell>,
    /// Notes for readers: adaptations of the study, disturbances, differences between the stacks.
    pub notes: Vec<String>,
    /// The targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<CellTarget>,
    /// Whether opcache was off for all stacks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_opcache: bool,
    /// Best values of searched settings, by stack: a continued run uses them again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tuned: BTreeMap<String, BTreeMap<String, String>>,
}

/// A target for one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellTarget {
    /// Name of the cell.
    pub cell: String,
    /// The figure that counts.
    pub figure: Figure,
    /// The stack that is to reach the target.
    pub ours: String,
    /// The best of these stacks is compared with; where there are none, the figure itself counts.
    pub against: Vec<String>,
    /// The bound for the ratio.
    pub bound: Bound,
}

/// The ratios that are good enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// This ratio or more.
    AtLeast(f64),
    /// This multiple of the others' figure, or less.
    AtMost(f64),
}

impl Default for Bound {
    fn default() -> Bound {
        Bound::AtLeast(1.0)
    }
}

/// A stack as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackFacts {
    /// Name on the command line.
    pub name: String,
    /// Name for people.
    pub title: String,
    /// The versions of its programs.
    pub version: String,
    /// A difference to the other stacks that cannot be avoided.
    pub unequal: Option<String>,
    /// Every configuration file as used, by name; the temporary folder's name is replaced.
    pub configuration: BTreeMap<String, String>,
    /// Proportional set size of all of its processes before the first request, in KiB.
    pub idle_pss: Option<u64>,
}

/// One question to several stacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique in the run, such as `HelloWorld.php/keep-alive/32`.
    pub name: String,
    /// The chart that the cell belongs to, such as `HelloWorld.php, keep-alive`.
    pub chart: String,
    /// Place on the chart's axis, such as a concurrency; `None` for a chart of bars.
    pub at: Option<f64>,
    /// Unit of the axis.
    pub axis: String,
    /// The figure that the chart shows and that is compared with the study.
    pub figure: Figure,
    /// Results by the stack's name.
    pub results: BTreeMap<String, StackOutcome>,
    /// The study's own figures, by what the study called its stacks.
    pub study: Vec<(String, f64)>,
    /// The stack that the others of the cell are compared with. `None`: Howdah is compared with
    /// each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// The results of one stack in one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackOutcome {
    /// Rounds in order, with void ones.
    pub rounds: Vec<Round>,
    /// The reason why the stack was not measured at all.
    pub failure: Option<String>,
}

/// One load on one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The reason why the round does not count.
    pub void: Option<String>,
    /// Whether the load generator used more than 90 % of its processor: then the load generator was
    /// the limit, not the server.
    pub loader_bound: bool,
    /// The measured figures.
    pub figures: BTreeMap<Figure, f64>,
    /// Figures of each second: time since the start and value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<Figure, Vec<(f64, f64)>>,
    /// System calls per request by name, where counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, f64>,
}

/// A measured quantity.
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
    /// Right answers.
    Hits,
    /// Wrong answers and failed connections.
    Errors,
    /// Requests without an answer in time.
    Timeouts,
    /// Connections that the kernel dropped because the server did not accept them.
    AcceptOverflows,
    /// Bytes of the body per second.
    BytesPerSecond,
    /// Clients at that moment of a ramp.
    Clients,
    /// Processors that the server kept busy.
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
    /// Microseconds of the second request for each of many files, on average.
    SecondRequest,
    /// Milliseconds of the longest first request.
    LongestRequest,
    /// Growth of the proportional set size, in KiB.
    GrownPss,
    /// Answered requests per second of the server's processor time.
    PerCpuSecond,
    /// Processes that the kernel has ended for want of memory.
    Kills,
    /// Seconds after a ramp until the server gives right answers again.
    Recovery,
}

impl Figure {
    /// Returns whether a larger value is better.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Figure::RequestsPerSecond
                | Figure::Hits
                | Figure::BytesPerSecond
                | Figure::PerCpuSecond
        )
    }

    /// Returns whether the figure is memory in KiB.
    pub fn is_memory(self) -> bool {
        matches!(
            self,
            Figure::Pss | Figure::PeakPss | Figure::FrontPss | Figure::WorkerPss | Figure::GrownPss
        )
    }

    /// The figure's name in headings.
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
            Figure::Kills => "processes killed for want of memory",
            Figure::Recovery => "recovery, s",
            Figure::PerCpuSecond => "requests per CPU second",
            Figure::SlowedDown => "times the 99 % latency beside idle PHP",
        }
    }
}

impl StackOutcome {
    /// The rounds that are not void.
    pub fn valid(&self) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(|round| round.void.is_none())
    }

    /// The values of a figure in all rounds that count.
    pub fn values(&self, figure: Figure) -> Vec<f64> {
        self.valid().filter_map(|round| round.figures.get(&figure).copied()).collect()
    }
}
