//! Progress of a run in the terminal.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use crate::plan::{CellGroup, PlannedCell};
use crate::record::{Figure, Round};
use crate::runner::RunProgress;
use crate::statistics::median;

/// Prints a line for each round, and on a terminal a bar with the remaining time.
#[derive(Debug)]
pub struct Terminal {
    began: Instant,
    /// Rounds that were complete at the start.
    first: Option<usize>,
    interactive: bool,
    /// The present cell and its figures.
    cell: String,
    values: BTreeMap<String, Vec<f64>>,
}

const BAR: usize = 24;

impl Terminal {
    /// Prints to standard error.
    #[expect(clippy::new_without_default, reason = "it begins to count the time")]
    pub fn new() -> Terminal {
        Terminal {
            began: Instant::now(),
            first: None,
            interactive: std::io::stderr().is_terminal(),
            cell: String::new(),
            values: BTreeMap::new(),
        }
    }

    fn line(&self, text: &str) {
        if self.interactive {
            eprint!("\r\x1b[K");
        }
        eprintln!("{text}");
    }

    fn bar(&mut self, done: usize, all: usize) {
        let first = *self.first.get_or_insert(done.saturating_sub(1));
        if !self.interactive || all == 0 {
            return;
        }
        let share = done as f64 / all as f64;
        let full = (share * BAR as f64) as usize;
        let each = self.began.elapsed().as_secs_f64() / (done - first).max(1) as f64;
        let left = (each * (all - done) as f64) as u64;
        eprint!(
            "\r\x1b[K[{}{}] {done}/{all}, {} left",
            "█".repeat(full),
            "░".repeat(BAR - full),
            duration(left)
        );
        let _ = std::io::stderr().flush();
    }
}

/// A duration in words.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

impl RunProgress for Terminal {
    fn group(&mut self, group: &CellGroup, stacks: &[&str]) {
        self.line(&format!("{}: {}", group.title, stacks.join(", ")));
    }

    fn round(&mut self, cell: &PlannedCell, stack: &str, round: &Round, done: usize, all: usize) {
        if self.cell != cell.name {
            self.cell.clone_from(&cell.name);
            self.values.clear();
            self.line(&format!("  {}", cell.name));
        }
        let is_memory = cell.figure.is_memory();
        let value = round.figures.get(&cell.figure).copied();
        let value = value.map(|value| if is_memory { value / 1024.0 } else { value });
        let said = match (&round.void, value) {
            (Some(why), _) => format!("VOID: {why}"),
            (None, Some(value)) => {
                let values = self.values.entry(stack.to_owned()).or_default();
                values.push(value);
                let middle = median(values).unwrap_or(value);
                let bound = if round.loader_bound { ", loader-bound" } else { "" };
                let processor = round
                    .figures
                    .get(&Figure::CpuPerRequest)
                    .map_or(String::new(), |cpu| format!(", {cpu:.1} µs CPU"));
                let unit = if is_memory { " MiB" } else { "" };
                format!(
                    "{value:>12.1}{unit} {} (median {middle:.1}){processor}{bound}",
                    cell.figure.title()
                )
            }
            (None, None) => "nothing measured".to_owned(),
        };
        self.line(&format!("    {stack:<34}{said}"));
        self.bar(done, all);
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("  note: {text}"));
    }
}
