//! The plan of a scenario: cells, each measured on several stacks under a load.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use crate::load::{Load, Question, TlsHandshake};
use crate::loads::Wrong;
use crate::record::{CellTarget, Figure};
use crate::stack::Stack;
use crate::tls::KeyKind;
use crate::wordpress;

/// Everything that a run measures, in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Groups of cells, measured one after the other. All stacks are stopped in between.
    pub groups: Vec<CellGroup>,
    /// Notes for readers: differences to the study, and their reasons.
    pub notes: Vec<String>,
    /// The targets.
    pub targets: Vec<CellTarget>,
    /// Whether the groups are visited once in each round: stacks that run alone take turns then.
    pub in_passes: bool,
    /// Number of folders with an `.htaccess` file each that the plan needs.
    pub folders: usize,
}

/// Cells that are measured on the same running stacks.
#[derive(Clone, Debug)]
pub struct CellGroup {
    /// Title for the terminal.
    pub title: String,
    /// The stacks, in the order of a round.
    pub stacks: Vec<Rc<dyn Stack>>,
    /// The conditions of the stacks.
    pub conditions: GroupConditions,
    /// The cells.
    pub cells: Vec<PlannedCell>,
}

/// Conditions that all stacks of a group share.
#[derive(Clone, Debug)]
pub struct GroupConditions {
    /// PHP processes of each stack.
    pub php_processes: usize,
    /// Upper limit of connections that are open at once.
    pub connections: usize,
    /// Whether opcache is on.
    pub opcache: bool,
    /// Whether stacks run one at a time, as where memory is limited. Otherwise all run, and idle
    /// ones stay beside the one that is measured.
    pub alone: bool,
    /// Memory limit of a stack in bytes, all programs together, by control group.
    pub memory: Option<u64>,
    /// Bytes of swap besides.
    pub swap: u64,
    /// Whether the database runs inside the limit, started anew with each stack.
    pub database: bool,
    /// The key of the certificate, where all connections are encrypted.
    pub tls: Option<KeyKind>,
    /// Settings of the study that replace the stacks' own.
    pub settings: BTreeMap<String, String>,
    /// Settings whose best values are searched for before cells are measured.
    pub search: Option<SettingsSearch>,
}

/// Settings with unknown best values: the number of processes, and how long connections are kept.
#[derive(Clone, Debug)]
pub struct SettingsSearch {
    /// The number of processes: key, as in
    /// [`StackEnvironment::settings`](crate::stack::StackEnvironment::settings).
    pub processes: String,
    /// The largest number of processes.
    pub most: u32,
    /// Seconds for which connections are kept, beginning with the one that is tried first.
    pub keep_alive: Vec<u32>,
    /// The question.
    pub question: Question,
    /// The load.
    pub load: Load,
}

/// A cell that is to be measured.
#[derive(Clone, Debug)]
pub struct PlannedCell {
    /// Unique in the run.
    pub name: String,
    /// The chart that the cell belongs to.
    pub chart: String,
    /// Place on the chart's axis.
    pub at: Option<f64>,
    /// Unit of the axis.
    pub axis: String,
    /// The figure that the chart shows.
    pub figure: Figure,
    /// The question.
    pub question: Question,
    /// The load.
    pub load: Load,
    /// Whether the cell needs PHP: stacks without PHP are left out.
    pub php: bool,
    /// Whether system calls are counted in one additional round.
    pub counts_calls: bool,
    /// The study's own figures.
    pub study: Vec<(String, f64)>,
    /// The stack that the others are compared with, as in
    /// [`Cell::base`](crate::record::Cell::base).
    pub base: Option<String>,
    /// Upper limit of the rounds, for figures that hardly vary and take long.
    pub most_rounds: Option<u32>,
    /// Whether the loads of all stacks take turns of a tenth of a second within each round, for
    /// differences that are smaller than the noise of the machine. Only for loads of wrk, and pages
    /// that fit into a socket's buffer.
    pub in_turns: bool,
}

impl PlannedCell {
    /// Number of rounds for that effort.
    pub fn rounds(&self, effort: &Effort) -> u32 {
        self.most_rounds.unwrap_or(u32::MAX).min(effort.rounds)
    }

    /// Duration of the warm-up: longer for pages that take long to load.
    pub fn warm_up(&self, effort: &Effort) -> Duration {
        effort.warm_up.max(self.load.lasts().min(Duration::from_secs(2)))
    }
}

impl CellGroup {
    /// Returns whether the stack takes part in the cell: all serve files, those with PHP serve
    /// scripts, those that renew tickets can be resumed again and again.
    pub fn asks(&self, stack: &dyn Stack, planned: &PlannedCell) -> bool {
        let resumes = matches!(planned.load, Load::Handshakes(_, TlsHandshake::Resumed));
        (stack.serves_php() || !planned.php) && (stack.renews_tickets() || !resumes)
    }

    /// Estimated duration, rather too long than too short.
    fn estimate(&self, effort: &Effort) -> Duration {
        let mut all = Duration::ZERO;
        for stack in &self.stacks {
            let mut warmed: Vec<&str> = Vec::new();
            all += START;
            if let Some(search) = &self.conditions.search {
                let tries = u32::try_from(search.keep_alive.len()).unwrap_or(u32::MAX) + TRIES;
                all += tries * (START + effort.warm_up + search.load.lasts());
            }
            for cell in self.cells.iter().filter(|cell| self.asks(stack.as_ref(), cell)) {
                all += cell.rounds(effort) * (cell.load.lasts() + BESIDE);
                if cell.counts_calls {
                    all += COUNTING;
                }
                if cell.load.is_warmed_up() && !warmed.contains(&cell.question.path.as_str()) {
                    warmed.push(&cell.question.path);
                    all += cell.warm_up(effort);
                }
            }
        }
        all
    }
}

impl Plan {
    /// Drops all cells but those whose name begins with one of `names`, and groups without cells.
    ///
    /// # Errors
    ///
    /// A name with which no cell begins is answered with the cells that there are.
    pub fn keep(&mut self, names: &[String]) -> Result<(), Wrong> {
        let cells = || self.groups.iter().flat_map(|group| &group.cells);
        let is_known = |name: &&String| cells().any(|cell| cell.name.starts_with(name.as_str()));
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            // A cell of stacks that run alone is there once for each of them.
            let known: BTreeSet<&str> = cells().map(|cell| cell.name.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            let known = known.join("; ");
            return Err(Wrong(format!("there is no cell {unknown}; there are {known}")));
        }
        for group in &mut self.groups {
            let is_named = |name: &String| names.iter().any(|begin| name.starts_with(begin));
            group.cells.retain(|cell| is_named(&cell.name));
        }
        self.groups.retain(|group| !group.cells.is_empty());
        let cells: Vec<&PlannedCell> = self.groups.iter().flat_map(|group| &group.cells).collect();
        self.targets.retain(|target| cells.iter().any(|cell| cell.name == target.cell));
        Ok(())
    }

    /// Returns whether a cell needs WordPress and its database.
    pub fn asks_for_wordpress(&self) -> bool {
        let mut cells = self.groups.iter().flat_map(|group| &group.cells);
        cells.any(|cell| cell.question.path.starts_with(wordpress::PATH))
    }

    /// Turns opcache off for all stacks.
    ///
    /// # Errors
    ///
    /// The plan compares stacks with and without opcache.
    pub fn without_opcache(&mut self) -> Result<(), Wrong> {
        let is_compared = self.groups.iter().any(|group| !group.conditions.opcache);
        if is_compared {
            return Err(Wrong(
                "this scenario compares opcache on with opcache off by itself".to_owned(),
            ));
        }
        for group in &mut self.groups {
            group.conditions.opcache = false;
        }
        self.notes.push("opcache is off for all stacks".to_owned());
        self.targets.clear();
        Ok(())
    }

    /// Estimated duration, rather too long than too short.
    pub fn estimate(&self, effort: &Effort) -> Duration {
        self.groups.iter().map(|group| group.estimate(effort)).sum()
    }
}

/// Usual number of processes that a search tries.
const TRIES: u32 = 4;
/// Time for a stack's start and stop.
const START: Duration = Duration::from_millis(1500);
/// Time of a round besides its load: sampled answers, probes, a pause.
const BESIDE: Duration = Duration::from_millis(400);
/// Time for counting system calls for one cell and stack.
const COUNTING: Duration = Duration::from_secs(3);

/// Rounds and durations of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Rounds of each cell.
    pub rounds: u32,
    /// Factor for the studies' numbers of requests.
    pub scale: f64,
    /// Duration of a load without a number of requests.
    pub time: Duration,
    /// Upper limit of the duration of a load with a number of requests.
    pub at_most: Duration,
    /// Duration of the warm-up.
    pub warm_up: Duration,
    /// Whether cells are left out so that the run takes minutes.
    pub quick: bool,
    /// Upper limit of the run's duration, without WordPress's installation; rounds and durations
    /// are reduced until the run fits.
    pub budget: Option<Duration>,
}

impl Effort {
    /// The effort of `--quick`: five minutes on two processors.
    pub const QUICK: Effort = Effort {
        rounds: 5,
        scale: 0.02,
        time: Duration::from_secs(1),
        at_most: Duration::from_secs(1),
        warm_up: Duration::from_secs(1),
        quick: true,
        // The remaining time is for WordPress and the report.
        budget: Some(Duration::from_secs(265)),
    };
    /// The usual effort of a full run.
    pub const FULL: Effort = Effort {
        rounds: 5,
        scale: 0.2,
        time: Duration::from_secs(5),
        at_most: Duration::from_secs(10),
        warm_up: Duration::from_secs(1),
        quick: false,
        budget: None,
    };

    /// A study's number of requests, multiplied with `scale`; at least 20.
    pub fn requests(&self, number: u64) -> u64 {
        ((number as f64 * self.scale) as u64).max(20)
    }

    /// Efforts of decreasing duration, beginning with this one: first shorter loads, down to two
    /// seconds (wrk knows whole ones only), then two more rounds of that length, then fewer and
    /// fewer. Many short rounds say more than few long ones.
    pub fn less_and_less(self) -> impl Iterator<Item = Effort> {
        let with_time = move |seconds| Effort {
            time: Duration::from_secs(seconds),
            ..self
        };
        let longest = self.time.as_secs().max(1);
        let shortest = longest.min(2);
        let most = if self.quick { self.rounds } else { self.rounds + 2 };
        let fewer = (1..=most).rev().map(move |rounds| Effort { rounds, ..with_time(shortest) });
        let shorter = (shortest + 1..=longest).rev().map(with_time);
        shorter.chain(fewer)
    }
}
