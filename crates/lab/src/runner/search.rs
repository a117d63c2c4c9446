//! The search for a stack's best settings: processes, and how long connections are kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::Runner;
use super::measure::SAMPLE;
use crate::loads::{self, Wrong, sample};
use crate::plan::{CellGroup, SettingsSearch};
use crate::record::{Figure, Run};
use crate::stack::{KEEP_ALIVE, Stack};

/// The result of one try.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tried {
    processes: u32,
    keep_alive: u32,
    hits: f64,
    /// Processes that the kernel has ended for want of memory.
    kills: u64,
}

impl Tried {
    /// Returns whether an administrator would rather have this one: nothing is killed, then more
    /// hits.
    fn is_better_than(&self, other: &Tried) -> bool {
        (self.kills == 0, self.hits) > (other.kills == 0, other.hits)
    }

    fn text(&self) -> String {
        let killed = match self.kills {
            0 => String::new(),
            kills => format!(", {kills} killed"),
        };
        let Tried { processes, keep_alive, hits, .. } = self;
        format!("{processes}/{keep_alive} s: {hits}{killed}")
    }
}

/// Goes up in doublings of the processes until two in a row are worse, looks between the neighbours
/// of the best, then tries the other times for which connections are kept. Returns all tries, the
/// best one first. `ask` is `None` where the search has to end.
fn climb(
    most: u32,
    keep_alive: &[u32],
    mut ask: impl FnMut(u32, u32) -> Option<Tried>,
) -> Vec<Tried> {
    let mut tried: Vec<Tried> = Vec::new();
    let best = |tried: &[Tried]| {
        tried.iter().copied().reduce(|a, b| if b.is_better_than(&a) { b } else { a })
    };
    let first = keep_alive.first().copied().unwrap_or(0);
    let doublings = std::iter::successors(Some(1), |number| Some(number * 2));
    let (mut worse, mut steps) = (0, doublings.take_while(|number| *number <= most));
    while worse < 2
        && let Some(found) = steps.next().and_then(|processes| ask(processes, first))
    {
        let is_better = best(&tried).is_none_or(|best| found.is_better_than(&best));
        worse = if is_better { 0 } else { worse + 1 };
        tried.push(found);
    }
    if let Some(top) = best(&tried) {
        for processes in [top.processes * 3 / 4, top.processes * 3 / 2] {
            let is_new = tried.iter().all(|one| one.processes != processes);
            if is_new && (1..=most).contains(&processes) {
                tried.extend(ask(processes, first));
            }
        }
    }
    if let Some(top) = best(&tried) {
        let others = keep_alive.iter().skip(1);
        tried.extend(others.filter_map(|seconds| ask(top.processes, *seconds)));
    }
    if let Some(top) = best(&tried) {
        tried.retain(|one| *one != top);
        tried.insert(0, top);
    }
    tried
}

impl Runner<'_> {
    /// The group's settings with the best values of the searched ones.
    ///
    /// # Errors
    /// A measurement of the search fails.
    pub(super) fn search(
        &mut self,
        group: &CellGroup,
        stacks: &[Rc<dyn Stack>],
        folder: &Path,
        run: &mut Run,
    ) -> Result<BTreeMap<String, String>, Wrong> {
        let mut settings = group.conditions.settings.clone();
        let (Some(search), [stack]) = (&group.conditions.search, stacks) else {
            return Ok(settings);
        };
        if let Some(found) = run.tuned.get(stack.name()) {
            settings.extend(found.clone());
            return Ok(settings);
        }
        let mut failed = None;
        let tried = climb(search.most, &search.keep_alive, |processes, keep_alive| {
            if self.is_interrupted() || failed.is_some() {
                return None;
            }
            let own = folder.join(format!("search-{processes}-{keep_alive}"));
            let settings = with(&settings, search, processes, keep_alive);
            self.ask(group, search, stacks, &settings, &own, run)
                .map_err(|wrong| failed = Some(wrong))
                .ok()
                .flatten()
                .map(|(hits, kills)| Tried { processes, keep_alive, hits, kills })
        });
        if let Some(wrong) = failed {
            return Err(wrong);
        }
        let Some(best) = tried.first().filter(|_| !self.is_interrupted()) else {
            return Ok(settings);
        };
        let none = BTreeMap::new();
        let found = with(&none, search, best.processes, best.keep_alive);
        settings.extend(found.clone());
        run.tuned.insert(stack.name().to_owned(), found);
        let all: Vec<String> = tried.iter().map(Tried::text).collect();
        let text = format!(
            "{}: {} = {}, connections kept for {} s (hits while searching, the best first: {})",
            stack.title(),
            search.processes,
            best.processes,
            best.keep_alive,
            all.join("; ")
        );
        self.note(run, &text);
        Ok(settings)
    }

    /// Hits and kills of a stack with these settings; `None` where it cannot be started.
    fn ask(
        &mut self,
        group: &CellGroup,
        search: &SettingsSearch,
        stacks: &[Rc<dyn Stack>],
        settings: &BTreeMap<String, String>,
        folder: &Path,
        run: &mut Run,
    ) -> Result<Option<(f64, u64)>, Wrong> {
        let limit = self.limit(group, run);
        let started = self.start(group, settings, stacks, folder, limit.as_ref(), run)?;
        let Some(one) = started.first() else {
            return Ok(None);
        };
        // The first answers load code. A stack that cannot give them has no hits.
        let _ = sample::check(&search.question, one.running.port, 4 * SAMPLE);
        let measured = loads::put(&search.load, &search.question, &one.running.target());
        let hits = measured
            .map_or(0.0, |measured| measured.figures.get(&Figure::Hits).copied().unwrap_or(0.0));
        Ok(Some((hits, limit.as_ref().map_or(0, |limit| limit.killed()))))
    }
}

fn with(
    settings: &BTreeMap<String, String>,
    search: &SettingsSearch,
    processes: u32,
    keep_alive: u32,
) -> BTreeMap<String, String> {
    let mut settings = settings.clone();
    settings.insert(search.processes.clone(), processes.to_string());
    settings.insert(KEEP_ALIVE.to_owned(), keep_alive.to_string());
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack with the most hits at `best` processes and 2 seconds, and killed above 16.
    fn stack(best: u32) -> impl FnMut(u32, u32) -> Option<Tried> {
        move |processes, keep_alive| {
            let distance = f64::from(processes.abs_diff(best));
            let hits = 100.0 - distance + if keep_alive == 2 { 5.0 } else { 0.0 };
            let kills = u64::from(processes > 16);
            Some(Tried { processes, keep_alive, hits, kills })
        }
    }

    #[test]
    fn the_best_number_of_processes_is_found_and_then_the_time() {
        for (best, found) in [(1, 1), (4, 4), (6, 6), (12, 12), (40, 16)] {
            let tried = climb(64, &[0, 2, 5], stack(best));
            assert_eq!((tried[0].processes, tried[0].keep_alive), (found, 2), "{best}: {tried:?}");
            assert!(tried.len() <= 12, "{best}: {tried:?}");
        }
    }

    #[test]
    fn what_is_killed_is_never_the_best() {
        let tried = climb(64, &[0], |processes, keep_alive| {
            let (hits, kills) = (f64::from(processes), u64::from(processes > 2));
            Some(Tried { processes, keep_alive, hits, kills })
        });
        assert_eq!((tried[0].processes, tried[0].kills), (2, 0), "{tried:?}");
        assert_eq!(tried[1].text(), "1/0 s: 1");
        assert!(tried.iter().any(|one| one.text() == "4/0 s: 4, 1 killed"), "{tried:?}");
    }

    #[test]
    fn a_search_that_has_to_end_keeps_what_it_has() {
        let mut left = 2;
        let tried = climb(64, &[0, 2], |processes, keep_alive| {
            left -= 1;
            (left >= 0).then(|| stack(8)(processes, keep_alive)).flatten()
        });
        assert_eq!(tried.len(), 2, "{tried:?}");
        assert!(climb(64, &[0], |_, _| None).is_empty());
    }
}
