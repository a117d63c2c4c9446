//! What a scenario asks for: cells, each put to several stacks under a load.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::load::{Load, Question};
use crate::loads::Wrong;
use crate::record::{Figure, Target};
use crate::stack::Stack;
use crate::wordpress;

/// Everything that a run is to measure, in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Groups of cells, one after the other. Between them all stacks are stopped.
    pub groups: Vec<Group>,
    /// What the study did differently because its software no longer exists, and what else a reader
    /// must know.
    pub notes: Vec<String>,
    /// What is to be reached.
    pub targets: Vec<Target>,
    /// How many folders with an `.htaccess` file each are written below the documents.
    pub folders: usize,
}

/// Cells that are measured on the same running stacks.
#[derive(Clone, Debug)]
pub struct Group {
    /// For people, while it runs.
    pub title: String,
    /// The stacks, in the order of a round.
    pub stacks: Vec<Rc<dyn Stack>>,
    /// What they are given.
    pub conditions: Conditions,
    /// What they are asked.
    pub cells: Vec<PlannedCell>,
}

/// What the stacks of a group are given.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// PHP processes of each.
    pub php_processes: usize,
    /// The most connections that will be open at once.
    pub connections: usize,
    /// Whether opcache is on.
    pub opcache: bool,
    /// Whether the stacks run all at once, idle ones beside the one that is asked (`false`), or one
    /// by one, as where memory is limited (`true`).
    pub alone: bool,
    /// Bytes of memory that a stack may use, its programs together, by cgroup.
    pub memory: Option<u64>,
    /// Settings of the study that replace the stacks' own.
    pub settings: BTreeMap<String, String>,
    /// A setting whose best value is searched for before the cells are measured.
    pub search: Option<Search>,
}

/// A setting whose best value is not known.
#[derive(Clone, Debug)]
pub struct Search {
    /// As in [`Environment::settings`](crate::stack::Environment::settings).
    pub setting: String,
    /// What is tried; the one with the most hits wins.
    pub candidates: Vec<u32>,
    /// What is asked.
    pub question: Question,
    /// How it is asked.
    pub load: Load,
}

/// A cell before it is measured.
#[derive(Clone, Debug)]
pub struct PlannedCell {
    /// Unique in the run.
    pub name: String,
    /// The chart that it belongs to.
    pub chart: String,
    /// Its place on the chart's axis.
    pub at: Option<f64>,
    /// What the axis counts.
    pub axis: String,
    /// The figure that the chart shows.
    pub figure: Figure,
    /// What is asked.
    pub question: Question,
    /// How it is asked.
    pub load: Load,
    /// Whether it needs PHP: stacks without are left out.
    pub php: bool,
    /// Whether system calls are counted in one round more.
    pub counts_calls: bool,
    /// The study's own figures.
    pub study: Vec<(String, f64)>,
    /// The stack that the others are compared with, as in [`Cell::base`](crate::record::Cell::base).
    pub base: Option<String>,
    /// No more rounds than these: for what hardly varies and takes long.
    pub most_rounds: Option<u32>,
    /// Whether the loads of all stacks take turns of a tenth of a second within each round, for
    /// differences that are smaller than the noise of the machine. Only for loads of wrk, and pages
    /// that fit into a socket's buffer.
    pub in_turns: bool,
}

impl PlannedCell {
    /// Its rounds in a run with that effort.
    pub fn rounds(&self, effort: &Effort) -> u32 {
        self.most_rounds.unwrap_or(u32::MAX).min(effort.rounds)
    }

    /// How long a stack is asked before it is measured: pages that take long to load get more of
    /// it.
    pub fn warm_up(&self, effort: &Effort) -> Duration {
        effort.warm_up.max(self.load.lasts().min(Duration::from_secs(2)))
    }
}

impl Group {
    /// Whether the stack is asked for the cell: files are served by all, scripts by those that run
    /// PHP.
    pub fn asks(&self, stack: &dyn Stack, planned: &PlannedCell) -> bool {
        stack.serves_php() || !planned.php
    }

    /// How long it takes, rather too long than too short.
    fn estimate(&self, effort: &Effort) -> Duration {
        let mut all = Duration::ZERO;
        for stack in &self.stacks {
            let mut warmed: Vec<&str> = Vec::new();
            all += START;
            if let Some(search) = &self.conditions.search {
                let tries = u32::try_from(search.candidates.len()).unwrap_or(u32::MAX);
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
            let known: Vec<&str> = cells().map(|cell| cell.name.as_str()).collect();
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

    /// Whether a cell needs WordPress and its database.
    pub fn asks_for_wordpress(&self) -> bool {
        let mut cells = self.groups.iter().flat_map(|group| &group.cells);
        cells.any(|cell| cell.question.path.starts_with(wordpress::PATH))
    }

    /// The same with opcache off everywhere.
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

    /// How long it takes, rather too long than too short.
    pub fn estimate(&self, effort: &Effort) -> Duration {
        self.groups.iter().map(|group| group.estimate(effort)).sum()
    }
}

/// A stack's start and end.
const START: Duration = Duration::from_millis(1500);
/// What a round needs beside its load: sampled answers, probes, a pause.
const BESIDE: Duration = Duration::from_millis(400);
/// System calls of one cell and stack.
const COUNTING: Duration = Duration::from_secs(3);

/// How thorough a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Rounds of each cell.
    pub rounds: u32,
    /// What numbers of requests are multiplied with.
    pub scale: f64,
    /// How long a load lasts that has no number of requests.
    pub time: Duration,
    /// The most that a load takes that has a number of requests.
    pub at_most: Duration,
    /// How long a stack is asked before it is measured.
    pub warm_up: Duration,
    /// Whether cells are left out to end within minutes.
    pub quick: bool,
    /// How long the run may take in all, WordPress's installation aside; rounds and times give way.
    pub budget: Option<Duration>,
}

impl Effort {
    /// Ends within five minutes on two cores.
    pub const QUICK: Effort = Effort {
        rounds: 5,
        scale: 0.02,
        time: Duration::from_secs(1),
        at_most: Duration::from_secs(1),
        warm_up: Duration::from_secs(1),
        quick: true,
        // The rest is for WordPress and the report.
        budget: Some(Duration::from_secs(265)),
    };
    /// As long as it takes.
    pub const FULL: Effort = Effort {
        rounds: 5,
        scale: 0.2,
        time: Duration::from_secs(5),
        at_most: Duration::from_secs(10),
        warm_up: Duration::from_secs(1),
        quick: false,
        budget: None,
    };

    /// A study's number of requests, scaled; at least 20.
    pub fn requests(&self, number: u64) -> u64 {
        ((number as f64 * self.scale) as u64).max(20)
    }

    /// The same, and less and less of it: first shorter loads, down to two seconds (wrk knows whole
    /// ones only), with two rounds more, and then fewer and fewer: many short rounds say more than
    /// few long ones.
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
