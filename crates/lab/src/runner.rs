//! Carries out a plan: stacks are started, asked in interleaved rounds, and stopped; after every round the run is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::ground::give;
use crate::load::Load;
use crate::loads::{self, Measured, Wrong, sample};
use crate::plan::{Effort, Group, Plan, PlannedCell};
use crate::probes::cgroup::Limit;
use crate::probes::{Reading, calls, pss};
use crate::record::{Cell, Figure, Outcome, Round, Run, StackFacts};
use crate::stack::{Ground, Running, Stack};

/// Answers that are checked byte for byte before and after each load.
const SAMPLE: usize = 2;
/// For a server to finish with the connections that the loader has left.
const SETTLE: Duration = Duration::from_millis(200);
/// A loader that used more of its processor says nothing about how fast a server is.
const LOADER_BOUND: f64 = 0.9;

/// Who is told how far a run is.
pub trait Progress {
    /// A group begins; `stacks` are those that could be started.
    fn group(&mut self, group: &Group, stacks: &[&str]);
    /// A round is done. `done` of `all` rounds of the run are.
    fn round(&mut self, cell: &PlannedCell, stack: &str, round: &Round, done: usize, all: usize);
    /// Something that a reader must know.
    fn note(&mut self, text: &str);
}

/// Carries out plans.
pub struct Runner<'r> {
    /// What the stacks are given, but for a group's conditions.
    pub ground: Ground,
    /// The php.ini for groups without opcache.
    pub ini_without_opcache: PathBuf,
    /// Below it every stack gets a folder.
    pub folder: PathBuf,
    /// How thorough.
    pub effort: Effort,
    /// Where the run is kept; `None` is nowhere.
    pub out: Option<PathBuf>,
    /// Set to end after the present round.
    pub interrupted: Arc<AtomicBool>,
    /// Who is told.
    pub progress: &'r mut dyn Progress,
}

/// A stack of a group that runs.
struct Started {
    stack: Rc<dyn Stack>,
    running: Running,
}

impl Runner<'_> {
    /// Carries out the plan and adds to `run`, in which rounds may be from before an interruption. Answers whether it came to
    /// the end.
    pub fn carry_out(&mut self, plan: &Plan, run: &mut Run) -> Result<bool, Wrong> {
        for note in &plan.notes {
            self.note(run, note);
        }
        let all: usize = plan.groups.iter().map(|group| self.rounds_of(group)).sum();
        let mut done = 0;
        for (number, group) in plan.groups.iter().enumerate() {
            if self.is_done(group, run) {
                done += self.rounds_of(group);
                continue;
            }
            let alone: Vec<&[Rc<dyn Stack>]> = if group.conditions.alone {
                group.stacks.chunks(1).collect()
            } else {
                vec![&group.stacks[..]]
            };
            for (turn, stacks) in alone.into_iter().enumerate() {
                let folder = self.folder.join(format!("group-{number}-{turn}"));
                std::fs::create_dir_all(&folder)?;
                let (limit, settings) = (self.limit(group, run), self.search(group, stacks, &folder, run)?);
                let mut started = self.start(
                    group,
                    &settings,
                    stacks,
                    &folder.join("measured"),
                    limit.as_ref(),
                    run,
                );
                self.warm_up(group, &mut started, run)?;
                let went_on = self.rounds(group, &mut started, run, &mut done, all);
                self.count_calls(group, &mut started, run);
                drop(started);
                if !went_on? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn rounds_of(&self, group: &Group) -> usize {
        group.cells.len() * group.stacks.len() * self.effort.rounds as usize
    }

    fn is_done(&self, group: &Group, run: &Run) -> bool {
        group.cells.iter().all(|planned| {
            group
                .stacks
                .iter()
                .filter(|stack| takes_part(stack.as_ref(), planned))
                .all(|stack| {
                    let absent = run.absent.iter().any(|(name, _)| name == stack.name());
                    let outcome = find(run, planned).and_then(|cell| cell.results.get(stack.name()));
                    absent
                        || outcome.is_some_and(|outcome| {
                            outcome.failure.is_some() || outcome.rounds.len() >= self.effort.rounds as usize
                        })
                })
        })
    }

    fn limit(&mut self, group: &Group, run: &mut Run) -> Option<Limit> {
        let limit = Limit::new(group.conditions.memory?);
        limit.map_err(|why| self.note(run, &why)).ok()
    }

    /// The group's settings, with the best value of the one that is searched for.
    fn search(
        &mut self,
        group: &Group,
        stacks: &[Rc<dyn Stack>],
        folder: &Path,
        run: &mut Run,
    ) -> Result<BTreeMap<String, String>, Wrong> {
        let mut settings = group.conditions.settings.clone();
        let (Some(search), [stack]) = (&group.conditions.search, stacks) else {
            return Ok(settings);
        };
        let (mut best, mut tried): (Option<(f64, u32)>, Vec<String>) = (None, Vec::new());
        for candidate in &search.candidates {
            if self.is_interrupted() {
                break;
            }
            settings.insert(search.setting.clone(), candidate.to_string());
            let limit = self.limit(group, run);
            let own = folder.join(format!("search-{candidate}"));
            let started = self.start(group, &settings, stacks, &own, limit.as_ref(), run);
            let Some(one) = started.first() else { break };
            let measured = loads::put(&search.load, &search.question, &one.running.target());
            let hits = measured.map_or(0.0, |measured| {
                measured.figures.get(&Figure::Hits).copied().unwrap_or(0.0)
            });
            tried.push(format!("{candidate}: {hits}"));
            if best.is_none_or(|(most, _)| hits > most) {
                best = Some((hits, *candidate));
            }
        }
        if let Some((_, candidate)) = best {
            settings.insert(search.setting.clone(), candidate.to_string());
            let tried = tried.join(", ");
            self.note(
                run,
                &format!(
                    "{}: {} = {candidate} (hits while searching: {tried})",
                    stack.title(),
                    search.setting
                ),
            );
        }
        Ok(settings)
    }

    /// System calls of those cells that ask for it, with their last round.
    fn count_calls(&mut self, group: &Group, started: &mut [Started], run: &mut Run) {
        for planned in group.cells.iter().filter(|planned| planned.counts_calls) {
            for one in started
                .iter_mut()
                .filter(|one| takes_part(one.stack.as_ref(), planned))
            {
                if self.is_interrupted() {
                    return;
                }
                let counted = calls::count(&planned.question, &one.running.target());
                let outcome = outcome(run, planned, one.stack.name());
                match (
                    counted,
                    outcome.rounds.iter_mut().rfind(|round| round.void.is_none()),
                ) {
                    (Ok(counts), Some(round)) => {
                        round
                            .figures
                            .insert(Figure::CallsPerRequest, counts.values().sum());
                        round.calls = counts;
                    }
                    (Err(why), _) => self.note(run, &format!("{}: {why}", one.stack.title())),
                    (Ok(_), None) => {}
                }
            }
        }
    }

    fn start(
        &mut self,
        group: &Group,
        settings: &BTreeMap<String, String>,
        stacks: &[Rc<dyn Stack>],
        folder: &Path,
        limit: Option<&Limit>,
        run: &mut Run,
    ) -> Vec<Started> {
        let ground = Ground {
            php_processes: group.conditions.php_processes,
            connections: group.conditions.connections,
            opcache: group.conditions.opcache,
            settings: settings.clone(),
            ini: if group.conditions.opcache {
                self.ground.ini.clone()
            } else {
                self.ini_without_opcache.clone()
            },
            ..self.ground.clone()
        };
        let mut started = Vec::new();
        for stack in stacks {
            let own = folder.join(stack.name());
            let running = match stack.missing(&ground) {
                Some(missing) => Err(missing),
                None => std::fs::create_dir_all(&own)
                    .map_err(|error| error.to_string())
                    .and_then(|()| {
                        give(&own, &ground);
                        let start = || stack.start(&ground, &own).map_err(|error| error.to_string());
                        match limit {
                            Some(limit) => limit.within(start).and_then(|started| started),
                            None => start(),
                        }
                    }),
            };
            match running {
                Ok(running) => {
                    self.remember(run, stack.as_ref(), &running, &ground);
                    started.push(Started {
                        stack: stack.clone(),
                        running,
                    });
                }
                Err(why) => {
                    self.note(run, &format!("without {}: {why}", stack.title()));
                    if !run.absent.iter().any(|(name, _)| name == stack.name()) {
                        run.absent.push((stack.name().to_owned(), why));
                    }
                }
            }
        }
        let names: Vec<&str> = started.iter().map(|one| one.stack.name()).collect();
        self.progress.group(group, &names);
        started
    }

    fn remember(&self, run: &mut Run, stack: &dyn Stack, running: &Running, ground: &Ground) {
        if run.stacks.iter().any(|known| known.name == stack.name()) {
            return;
        }
        let folder = self.folder.to_string_lossy().into_owned();
        let without_folder = |text: &String| text.replace(&folder, "$FOLDER");
        run.stacks.push(StackFacts {
            name: stack.name().to_owned(),
            title: stack.title().to_owned(),
            version: stack.version(ground),
            unequal: stack.unequal().map(str::to_owned),
            configuration: running
                .configuration
                .iter()
                .map(|(name, text)| (name.clone(), without_folder(text)))
                .collect(),
            idle_pss: pss(&running.roots()),
        });
    }

    /// Loads code into caches and starts what servers start late. Who answers wrongly here is not measured.
    fn warm_up(&mut self, group: &Group, started: &mut [Started], run: &mut Run) -> Result<(), Wrong> {
        for planned in &group.cells {
            for one in started
                .iter_mut()
                .filter(|one| takes_part(one.stack.as_ref(), planned))
            {
                let outcome = outcome(run, planned, one.stack.name());
                if outcome.failure.is_some() {
                    continue;
                }
                let load = shortened(&planned.load, self.effort.warm_up);
                let asked = sample::check(&planned.question, one.running.port, SAMPLE).and_then(|()| {
                    load.map_or(Ok(()), |load| {
                        loads::put(&load, &planned.question, &one.running.target()).map(drop)
                    })
                });
                outcome.failure = asked.err().map(|wrong| wrong.to_string());
            }
            if self.is_interrupted() {
                break;
            }
        }
        Ok(())
    }

    /// Every stack in turn, again and again. Answers whether it came to the end.
    fn rounds(
        &mut self,
        group: &Group,
        started: &mut [Started],
        run: &mut Run,
        done: &mut usize,
        all: usize,
    ) -> Result<bool, Wrong> {
        for planned in &group.cells {
            for number in 0..self.effort.rounds as usize {
                for one in started
                    .iter_mut()
                    .filter(|one| takes_part(one.stack.as_ref(), planned))
                {
                    if self.is_interrupted() {
                        self.write(run)?;
                        return Ok(false);
                    }
                    let outcome = outcome(run, planned, one.stack.name());
                    *done += 1;
                    if outcome.failure.is_some() || outcome.rounds.len() > number {
                        continue;
                    }
                    let round = measure(planned, one);
                    self.progress.round(planned, one.stack.name(), &round, *done, all);
                    outcome.rounds.push(round);
                    self.write(run)?;
                }
            }
        }
        Ok(true)
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

/// Writes `run.json` in that folder: whole, or not at all.
pub fn write_run(folder: &Path, run: &Run) -> Result<(), Wrong> {
    std::fs::create_dir_all(folder)?;
    let text = serde_json::to_string_pretty(run).map_err(|error| Wrong(error.to_string()))?;
    let (whole, part) = (folder.join("run.json"), folder.join("run.json.part"));
    let written = std::fs::write(&part, text + "\n").and_then(|()| std::fs::rename(&part, &whole));
    written.map_err(|error| Wrong(format!("cannot write {}: {error}", whole.display())))
}

/// Files are served by all, scripts by those that run PHP.
fn takes_part(stack: &dyn Stack, planned: &PlannedCell) -> bool {
    stack.serves_php() || !planned.php
}

/// One load on one stack, with what the kernel says of it.
fn measure(planned: &PlannedCell, one: &mut Started) -> Round {
    let mut round = Round::default();
    let port = one.running.port;
    let roots = one.running.roots();
    let before = Reading::take(&roots);
    let result = sample::check(&planned.question, port, SAMPLE)
        .and_then(|()| loads::put(&planned.load, &planned.question, &one.running.target()))
        .and_then(|measured| {
            std::thread::sleep(SETTLE);
            let used = Reading::take(&roots).since(&before);
            round
                .figures
                .extend(pss(&roots).map(|kibibytes| (Figure::Pss, kibibytes as f64)));
            fill(
                &mut round,
                &measured,
                used.processor,
                used.switches as f64,
                used.overflows as f64,
            );
            sample::check(&planned.question, port, SAMPLE)
        });
    if let Err(wrong) = result {
        round.void = Some(if one.running.is_alive() {
            wrong.to_string()
        } else {
            format!("the server has died: {wrong}")
        });
    }
    round
}

fn fill(round: &mut Round, measured: &Measured, processor: f64, switches: f64, overflows: f64) {
    round.figures.extend(measured.figures.iter());
    round.series = measured.series.clone();
    round.loader_bound = measured.loader_share > LOADER_BOUND;
    round.figures.insert(Figure::AcceptOverflows, overflows);
    if measured.requests > 0 {
        let requests = measured.requests as f64;
        round.figures.insert(Figure::CpuPerRequest, processor / requests);
        round
            .figures
            .insert(Figure::SwitchesPerRequest, switches / requests);
    }
}

/// The same load for a warm-up; `None` for those that need none.
fn shortened(load: &Load, time: Duration) -> Option<Load> {
    Some(match load {
        Load::Wrk(closed) => Load::Wrk(crate::load::Closed { time, ..*closed }),
        Load::H2load(closed) => Load::H2load(crate::load::Closed { time, ..*closed }),
        Load::Ab(bench) => Load::Ab(crate::load::Bench {
            requests: (bench.requests / 10).clamp(20, 2000),
            ..*bench
        }),
        Load::OpenLoop(_) | Load::Ramp(_) | Load::Idle(_) | Load::Slow(..) | Load::Reload(_) => return None,
    })
}

fn find<'r>(run: &'r Run, planned: &PlannedCell) -> Option<&'r Cell> {
    run.cells.iter().find(|cell| cell.name == planned.name)
}

fn outcome<'r>(run: &'r mut Run, planned: &PlannedCell, stack: &str) -> &'r mut Outcome {
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
            });
            run.cells.len() - 1
        }
    };
    run.cells[at].results.entry(stack.to_owned()).or_default()
}
