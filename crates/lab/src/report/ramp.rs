//! The table of a ramp: what went wrong beside the hits.

use std::fmt::Write;

use super::text::with_unit;
use crate::record::{Cell, Figure, Run};
use crate::statistics::median;

/// The figures beside the hits, in the order of the columns.
pub(super) const BESIDE: [Figure; 4] =
    [Figure::Errors, Figure::Timeouts, Figure::Kills, Figure::Recovery];

/// The cell's table in Markdown; empty where none of these figures was measured.
pub(super) fn markdown(run: &Run, cell: &Cell) -> String {
    let values = |stack: &str, figure| {
        cell.results.get(stack).and_then(|outcome| median(&outcome.values(figure)))
    };
    let is_measured =
        |figure: &Figure| run.stacks.iter().any(|stack| values(&stack.name, *figure).is_some());
    let figures: Vec<Figure> = BESIDE.into_iter().filter(is_measured).collect();
    if figures.is_empty() {
        return String::new();
    }
    let titles: Vec<&str> = figures.iter().map(|figure| figure.title()).collect();
    let mut text =
        format!("\n| stack | {} |\n|---|{}\n", titles.join(" | "), "---:|".repeat(titles.len()));
    for stack in run.stacks.iter().filter(|stack| cell.results.contains_key(&stack.name)) {
        let shown = figures.iter().map(|figure| {
            let value = values(&stack.name, *figure);
            value.map_or_else(|| "–".to_owned(), |value| with_unit(*figure, value))
        });
        let _ = writeln!(text, "| {} | {} |", stack.title, shown.collect::<Vec<_>>().join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::run;
    use super::*;

    #[test]
    fn what_went_wrong_stands_beside_the_hits() {
        let mut run = run(&[40.0, 42.0], &[20.0, 20.0]);
        assert_eq!(markdown(&run, &run.cells[0]), "");
        for outcome in run.cells[0].results.values_mut() {
            for round in &mut outcome.rounds {
                round.figures.extend([(Figure::Kills, 3.0), (Figure::Recovery, 12.5)]);
            }
        }
        let text = markdown(&run, &run.cells[0]);
        let head = "| stack | processes killed for want of memory | recovery, s |";
        assert!(text.contains(head) && text.contains("| Howdah | 3.00 | 12.5 |"), "{text}");
    }
}
