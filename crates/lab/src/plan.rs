//! What a scenario asks for: cells, each put to several stacks under a load.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::load::{Load, Question};
use crate::record::Figure;
use crate::stack::Stack;

/// Everything that a run is to measure, in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// Groups of cells, one after the other. Between them all stacks are stopped.
    pub groups: Vec<Group>,
    /// What the study did differently because its software no longer exists, and what else a reader must know.
    pub notes: Vec<String>,
}

/// Cells that are measured on the same running stacks.
#[derive(Debug)]
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
    /// Whether the stacks run all at once, idle ones beside the one that is asked (`false`), or one by one, as where memory is
    /// limited (`true`).
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
    /// As in [`Ground::settings`](crate::stack::Ground::settings).
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
}

/// How thorough a run is.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds of each cell.
    pub rounds: u32,
    /// What numbers of requests are multiplied with.
    pub scale: f64,
    /// How long a load lasts that has no number of requests.
    pub time: Duration,
    /// How long a stack is asked before it is measured.
    pub warm_up: Duration,
    /// Whether cells are left out to end within minutes.
    pub quick: bool,
}

impl Effort {
    /// Ends within five minutes on two cores.
    pub const QUICK: Effort = Effort {
        rounds: 3,
        scale: 0.02,
        time: Duration::from_secs(1),
        warm_up: Duration::from_millis(500),
        quick: true,
    };
    /// As long as it takes.
    pub const FULL: Effort = Effort {
        rounds: 5,
        scale: 0.2,
        time: Duration::from_secs(5),
        warm_up: Duration::from_secs(2),
        quick: false,
    };

    /// A study's number of requests, scaled; at least 20.
    pub fn requests(&self, number: u64) -> u64 {
        ((number as f64 * self.scale) as u64).max(20)
    }
}
