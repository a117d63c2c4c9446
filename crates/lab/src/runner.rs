//! Carries out a plan: starts stacks, measures them in interleaved rounds and stops them. The run
//! is written after every round.

mod kept;
mod measure;
mod search;
mod start;
mod turns;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::loads::{self, Wrong, sample};
use crate::plan::{CellGroup, Effort, Plan, PlannedCell};
use crate::probes::calls;
use crate::probes::cgroup::Limit;
use crate::process::StackProgram;
use crate::record::{Cell, Figure, Round, Run, StackOutcome};
use crate::stack::{Running, Stack, StackEnvironment};
use crate::wordpress::Database;

pub use kept::write_run;
use measure::{SAMPLE, measure, shortened};

/// Receives the progress of a run.
pub trait RunProgress {
    /// Shows that a group begins; `stacks` are those that have started.
    fn group(&mut self, group: &CellGroup, stacks: &[&str]);
    /// Shows that a round has ended, number `done` of `all`.
    fn round(&mut self, cell: &PlannedCell, stack: &str, round: &Round, done: usize, all: usize);
    /// Shows a note for readers of the run.
    fn note(&mut self, text: &str);
}

/// Carries out plans with one environment.
pub struct Runner<'r> {
    /// The stacks' environment; the group's conditions replace parts of it.
    pub environment: StackEnvironment,
    /// The php.ini for groups without opcache.
    pub ini_without_opcache: PathBuf,
    /// Parent of the stacks' folders.
    pub folder: PathBuf,
    /// The database that stacks have inside their memory limit, where the plan wants it.
    pub database: Option<Database>,
    /// Rounds and durations.
    pub effort: Effort,
    /// Folder in which the run is written; `None`: the run is not written.
    pub out: Option<PathBuf>,
    /// Ends the run after the present round when it is set.
    pub interrupted: Arc<AtomicBool>,
    /// Receives the progress.
    pub progress: &'r mut dyn RunProgress,
}

/// Stacks of a group that run at the same time.
type Turn<'p> = (&'p CellGroup, &'p [Rc<dyn Stack>]);

/// A running stack of a group.
struct Started {
    stack: Rc<dyn Stack>,
    running: Running,
    /// The database inside the stack's memory limit. It ends after the stack.
    _database: Option<StackProgram>,
}

impl Runner<'_> {
    /// Carries out the plan and adds the results to `run`, which may contain rounds from before an
    /// interruption. Returns whether the plan was completed.
    ///
    /// # Errors
    ///
    /// The run cannot be written, or what all stacks need cannot be prepared.
    pub fn carry_out(&mut self, plan: &Plan, run: &mut Run) -> Result<bool, Wrong> {
        for note in &plan.notes {
            self.note(run, note);
        }
        run.targets.clone_from(&plan.targets);
        let turns: Vec<Turn> = plan
            .groups
            .iter()
            .flat_map(|group| {
                let size = if group.conditions.alone {
                    1
                } else {
                    group.stacks.len().max(1)
                };
                group.stacks.chunks(size).map(move |stacks| (group, stacks))
            })
            .collect();
        let all: usize = turns.iter().map(|(group, stacks)| self.rounds_of(group, stacks)).sum();
        let rounds = self.effort.rounds;
        let passes = if plan.in_passes { 1..=rounds } else { rounds..=rounds };
        for pass in passes {
            // Every second pass runs backwards, which gives no stack the advantage of its place.
            let mut turns: Vec<&Turn> = turns.iter().collect();
            if plan.in_passes && pass % 2 == 0 {
                turns.reverse();
            }
            self.effort.rounds = pass;
            let finished = self.pass(&turns, all, run);
            self.effort.rounds = rounds;
            if !finished? {
                self.write(run)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Measures all stacks up to the present number of rounds. Returns whether that was completed.
    fn pass(&mut self, turns: &[&Turn], all: usize, run: &mut Run) -> Result<bool, Wrong> {
        let mut before = 0;
        for (number, (group, stacks)) in turns.iter().enumerate() {
            let mut done = before;
            before += self.rounds_of(group, stacks);
            if self.is_done(group, stacks, run) {
                continue;
            }
            let number = number + turns.len() * self.effort.rounds as usize;
            if self.is_interrupted() || !self.turn(group, stacks, number, run, (&mut done, all))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Measures stacks that run at the same time, from start to stop. Returns whether they were
    /// completed.
    fn turn(
        &mut self,
        group: &CellGroup,
        stacks: &[Rc<dyn Stack>],
        number: usize,
        run: &mut Run,
        (done, all): (&mut usize, usize),
    ) -> Result<bool, Wrong> {
        let folder = self.folder.join(format!("turn-{number}"));
        std::fs::create_dir_all(&folder)?;
        let settings = self.search(group, stacks, &folder, run)?;
        let limit = self.limit(group, run);
        let own = folder.join("measured");
        let mut started = self.start(group, &settings, stacks, &own, limit.as_ref(), run)?;
        self.note_php(group, &started, run);
        self.note_tls(group, &started, run);
        let group = agreed(group, &started);
        self.warm_up(&group, &mut started, run);
        let went_on = self.rounds(&group, &mut started, run, done, all);
        self.count_calls(&group, &mut started, run);
        drop(started);
        if let (Some(limit), [stack]) = (&limit, stacks) {
            count_kills(limit, &group, stack.name(), run);
        }
        went_on
    }

    fn rounds_of(&self, group: &CellGroup, stacks: &[Rc<dyn Stack>]) -> usize {
        let rounds = |stack: &Rc<dyn Stack>| -> usize {
            let asked = group.cells.iter().filter(|planned| group.asks(stack.as_ref(), planned));
            asked.map(|planned| planned.rounds(&self.effort) as usize).sum()
        };
        stacks.iter().map(rounds).sum()
    }

    fn is_done(&self, group: &CellGroup, stacks: &[Rc<dyn Stack>], run: &Run) -> bool {
        group.cells.iter().all(|planned| {
            stacks.iter().filter(|stack| group.asks(stack.as_ref(), planned)).all(|stack| {
                let absent = run.absent.iter().any(|(name, _)| name == stack.name());
                absent || self.has_all(planned, stack.name(), run)
            })
        })
    }

    /// Returns whether all rounds of the cell are there for the stack.
    fn has_all(&self, planned: &PlannedCell, stack: &str, run: &Run) -> bool {
        let outcome = find(run, planned).and_then(|cell| cell.results.get(stack));
        outcome.is_some_and(|outcome| {
            outcome.failure.is_some()
                || outcome.rounds.len() >= planned.rounds(&self.effort) as usize
        })
    }

    /// Counts system calls for the cells that ask for it, and adds them to the last round.
    fn count_calls(&mut self, group: &CellGroup, started: &mut [Started], run: &mut Run) {
        for planned in group.cells.iter().filter(|planned| planned.counts_calls) {
            for one in started.iter_mut().filter(|one| group.asks(one.stack.as_ref(), planned)) {
                if self.is_interrupted() {
                    return;
                }
                let counted = calls::count(&planned.question, &one.running.target());
                let outcome = outcome(run, planned, one.stack.name());
                match (counted, outcome.rounds.iter_mut().rfind(|round| round.void.is_none())) {
                    (Ok(counts), Some(round)) => {
                        round.figures.insert(Figure::CallsPerRequest, counts.values().sum());
                        round.calls = counts;
                    }
                    (Err(why), _) => self.note(run, &format!("{}: {why}", one.stack.title())),
                    (Ok(_), None) => {}
                }
            }
        }
    }

    /// Loads code into caches and starts processes that servers start late. A stack with a wrong
    /// answer is not measured.
    fn warm_up(&mut self, group: &CellGroup, started: &mut [Started], run: &mut Run) {
        let mut warmed: Vec<(String, String)> = Vec::new();
        for planned in &group.cells {
            for one in started.iter_mut().filter(|one| group.asks(one.stack.as_ref(), planned)) {
                if self.is_interrupted() {
                    return;
                }
                if self.has_all(planned, one.stack.name(), run) {
                    continue;
                }
                let key = (one.stack.name().to_owned(), planned.question.path.clone());
                let time = planned.warm_up(&self.effort);
                let load = shortened(&planned.load, time).filter(|_| !warmed.contains(&key));
                warmed.extend(load.is_some().then_some(key));
                let asked = sample::check(&planned.question, one.running.port, SAMPLE);
                if let (Ok(()), Some(load)) = (&asked, load) {
                    // The rounds show whether the stack answers many requests at once.
                    let _ = loads::put(&load, &planned.question, &one.running.target());
                }
                if !loads::is_aborted() {
                    outcome(run, planned, one.stack.name()).failure =
                        asked.err().map(|wrong| wrong.to_string());
                }
            }
        }
    }

    /// Measures every stack in turn, in every second round in the opposite order. Returns whether
    /// all rounds were completed.
    fn rounds(
        &mut self,
        group: &CellGroup,
        started: &mut [Started],
        run: &mut Run,
        done: &mut usize,
        all: usize,
    ) -> Result<bool, Wrong> {
        for planned in &group.cells {
            for number in 0..planned.rounds(&self.effort) as usize {
                let mut due: Vec<&mut Started> = Vec::new();
                for one in in_order_of(number, started) {
                    if group.asks(one.stack.as_ref(), planned) {
                        *done += 1;
                        let outcome = outcome(run, planned, one.stack.name());
                        if outcome.failure.is_none() && outcome.rounds.len() <= number {
                            due.push(one);
                        }
                    }
                }
                // All at once where their loads take turns, one by one elsewhere.
                let size = if planned.in_turns { due.len().max(1) } else { 1 };
                for together in due.chunks_mut(size) {
                    if self.is_interrupted() {
                        return Ok(false);
                    }
                    let rounds = if planned.in_turns {
                        let running = together.iter_mut().map(|one| &mut one.running);
                        turns::measure(planned, &mut running.collect::<Vec<_>>())?
                    } else {
                        together.iter_mut().map(|one| measure(planned, &mut one.running)).collect()
                    };
                    if loads::is_aborted() {
                        return Ok(false);
                    }
                    for (one, round) in together.iter().zip(rounds) {
                        self.keep(planned, one.stack.name(), round, run, (*done, all));
                    }
                    self.write(run)?;
                }
            }
        }
        Ok(true)
    }

    /// Reports a round and adds it to the run.
    fn keep(
        &mut self,
        planned: &PlannedCell,
        stack: &str,
        round: Round,
        run: &mut Run,
        (done, all): (usize, usize),
    ) {
        self.progress.round(planned, stack, &round, done, all);
        let outcome = outcome(run, planned, stack);
        if round.void.is_none() {
            // Figures of each second are kept for the last round only.
            outcome.rounds.iter_mut().for_each(|round| round.series.clear());
        }
        outcome.rounds.push(round);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn note(&mut self, run: &mut Run, text: &str) {
        if !run.notes.iter().any(|known| known == text) {
            self.progress.note(text);
            run.notes.push(text.to_owned());
        }
    }

    fn write(&self, run: &Run) -> Result<(), Wrong> {
        match &self.out {
            Some(folder) => write_run(folder, run),
            None => Ok(()),
        }
    }
}

/// Adds the processes that the kernel has ended to the last round of each cell: where memory is
/// limited, a stack is started for each cell.
fn count_kills(limit: &Limit, group: &CellGroup, stack: &str, run: &mut Run) {
    let killed = limit.killed() as f64;
    for planned in &group.cells {
        if let Some(round) = outcome(run, planned, stack).rounds.last_mut() {
            round.figures.entry(Figure::Kills).or_insert(killed);
        }
    }
}

/// The stacks in the order of a round: every second round runs backwards, which gives no stack
/// the advantage of its place.
fn in_order_of(round: usize, started: &mut [Started]) -> Vec<&mut Started> {
    let mut order: Vec<&mut Started> = started.iter_mut().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// The group with the bodies that all stacks must agree in. Each is the second answer of the first
/// stack, since the first answer may fill caches.
fn agreed(group: &CellGroup, started: &[Started]) -> CellGroup {
    let mut group = group.clone();
    let is_open = |cell: &PlannedCell| cell.question.is_agreed && cell.question.body.is_none();
    for at in 0..group.cells.len() {
        let planned = &group.cells[at];
        let first = started.iter().find(|one| group.asks(one.stack.as_ref(), planned));
        let Some(first) = first.filter(|_| is_open(planned)) else {
            continue;
        };
        let ask = || sample::ask(&planned.question, first.running.port);
        // An answer without status 200 fails in the warm-up, with a message.
        let answer = ask().and_then(|_| ask()).ok().filter(|answer| answer.status == 200);
        group.cells[at].question.body = answer.map(|answer| answer.body);
    }
    group
}

fn find<'r>(run: &'r Run, planned: &PlannedCell) -> Option<&'r Cell> {
    run.cells.iter().find(|cell| cell.name == planned.name)
}

fn outcome<'r>(run: &'r mut Run, planned: &PlannedCell, stack: &str) -> &'r mut StackOutcome {
    let at = match run.cells.iter().position(|cell| cell.name == planned.name) {
        Some(at) => at,
        None => {
            run.cells.push(Cell {
                name: planned.name.clone(),
                chart: planned.chart.clone(),
                at: planned.at,
                axis: planned.axis.clone(),
                figure: planned.figure,
                results: Default::default(),
                study: planned.study.clone(),
                base: planned.base.clone(),
            });
            run.cells.len() - 1
        }
    };
    run.cells[at].results.entry(stack.to_owned()).or_default()
}
