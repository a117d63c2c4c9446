//! Tables for the terminal and for Markdown, CSV, and the comparison of two runs.

use std::fmt::Write;

use crate::record::{Cell, Figure, Run, StackOutcome};
use crate::statistics::{StackRatio, compare, median};

use super::beside;
use super::ramp;
use super::targets;
use super::verdict::verdict;

/// The stack that others are compared with.
pub(super) const BASE: &str = "howdah";

/// The best stack of a cell beside Howdah, by the median of the cell's figure. `None`: no other
/// stack has the figure.
pub(super) fn best_other(cell: &Cell) -> Option<(&str, f64)> {
    let others = cell.results.iter().filter(|(name, _)| !name.starts_with(BASE));
    let values = others
        .filter_map(|(name, outcome)| Some((name.as_str(), median(&outcome.values(cell.figure))?)));
    let more = cell.figure.more_is_better();
    values.max_by(|a, b| if more { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) })
}

/// Compares Howdah with another stack. `None`: one of them has no result.
pub(super) fn comparison(cell: &Cell, other: &str) -> Option<StackRatio> {
    compare(cell.results.get(BASE)?, cell.results.get(other)?, cell.figure)
}

/// A stack's name for people.
pub(super) fn title<'r>(run: &'r Run, name: &'r str) -> &'r str {
    run.stacks
        .iter()
        .find(|stack| stack.name == name)
        .map_or(name, |stack| stack.title.as_str())
}

/// A ratio in words: `1.32 (1.25–1.40)`, or that there is no difference.
pub(super) fn ratio_text(found: Option<StackRatio>) -> String {
    match found {
        None => "–".to_owned(),
        Some(found) if found.rounds < 2 => format!("{:.2} (one round)", found.ratio),
        Some(found) if found.is_no_difference() => {
            format!("no difference ({:.2}–{:.2})", found.low, found.high)
        }
        Some(found) => format!("{:.2} ({:.2}–{:.2})", found.ratio, found.low, found.high),
    }
}

/// A figure in its displayed unit: memory in MiB.
pub(super) fn shown(figure: Figure, value: f64) -> f64 {
    if figure.is_memory() { value / 1024.0 } else { value }
}

/// A figure with its unit, where it has one.
pub(super) fn with_unit(figure: Figure, value: f64) -> String {
    let unit = if figure.is_memory() { " MiB" } else { "" };
    number(shown(figure, value)) + unit
}

/// A number with the digits that are significant.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(whole, fraction)| (whole, Some(fraction)));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit != '-' && !grouped.ends_with('-')
        {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

/// Numbers of void and of loader-bound rounds in words; empty where there are none.
pub(super) fn remarks(outcome: &StackOutcome) -> String {
    let void = outcome.rounds.iter().filter(|round| round.void.is_some()).count();
    let mut words = Vec::new();
    if let Some(failure) = &outcome.failure {
        words.push(format!("not measured: {}", failure.lines().next().unwrap_or_default()));
    }
    if let Some(why) = outcome.rounds.iter().find_map(|round| round.void.as_deref()) {
        let why: String = why.lines().next().unwrap_or_default().chars().take(90).collect();
        words.push(format!("{void} of {} rounds void: {why}", outcome.rounds.len()));
    }
    if outcome.is_loader_bound() {
        words.push("loader-bound".to_owned());
    }
    words.join(", ")
}

/// The run as Markdown.
pub fn table(run: &Run) -> String {
    let mut text = format!("# {}: {}\n\n{}\n", run.scenario, run.began, verdict(run));
    text += &targets::markdown(run);
    for cell in &run.cells {
        let figure = cell.figure.title();
        let _ = writeln!(text, "\n## {}", cell.name);
        if let Some(base) = &cell.base {
            text += &beside::markdown(run, cell, base);
            continue;
        }
        let _ = write!(
            text,
            "\n| stack | {figure} | Howdah is better by | CPU µs/request | remarks |\n\
             |---|---:|---|---:|---|\n",
        );
        for stack in run.stacks.iter().filter(|stack| cell.results.contains_key(&stack.name)) {
            let outcome = &cell.results[&stack.name];
            let middle = |figure| {
                median(&outcome.values(figure))
                    .map_or_else(|| "–".to_owned(), |value| with_unit(figure, value))
            };
            let ratio = if stack.name == BASE {
                String::new()
            } else {
                ratio_text(comparison(cell, &stack.name))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {ratio} | {} | {} |",
                stack.title,
                middle(cell.figure),
                middle(Figure::CpuPerRequest),
                remarks(outcome)
            );
        }
        for (name, value) in &cell.study {
            let _ = writeln!(text, "| *the study: {name}* | *{}* | | | |", number(*value));
        }
        if cell.figure == Figure::Hits {
            text += &ramp::markdown(run, cell);
        }
    }
    let _ = write!(text, "\n## To know\n\n");
    for (name, value) in &run.machine {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for stack in run.stacks.iter().filter(|stack| stack.unequal.is_some()) {
        let _ =
            writeln!(text, "- {}: {}", stack.title, stack.unequal.as_deref().unwrap_or_default());
    }
    for note in &run.notes {
        let _ = writeln!(text, "- {}", note.lines().next().unwrap_or_default());
    }
    text
}

/// CSV with one line for each figure of each round.
pub fn csv(run: &Run) -> String {
    let mut text = "cell,at,stack,round,void,figure,value\n".to_owned();
    let quoted = |value: &str| format!("\"{}\"", value.replace('"', "\"\""));
    for cell in &run.cells {
        let at = cell.at.map_or(String::new(), |at| at.to_string());
        for (stack, outcome) in &cell.results {
            for (number, round) in outcome.rounds.iter().enumerate() {
                let void = round.void.as_deref().map_or(String::new(), quoted);
                for (figure, value) in &round.figures {
                    let _ = writeln!(
                        text,
                        "{},{at},{stack},{},{void},{},{value}",
                        quoted(&cell.name),
                        number + 1,
                        quoted(figure.title())
                    );
                }
            }
        }
    }
    text
}

/// The changes of each stack between two runs, cell by cell, after differences of the machines.
pub fn diff_text(before: &Run, after: &Run) -> String {
    let mut text = String::new();
    if before.scenario != after.scenario {
        let _ = writeln!(
            text,
            "these are different scenarios: {} and {}",
            before.scenario, after.scenario
        );
    }
    for (name, value) in &before.machine {
        let other = after.machine.iter().find(|(other, _)| other == name).map(|(_, value)| value);
        if other.is_some_and(|other| other != value) && name != "load before" {
            let _ = writeln!(text, "{name} differs: {value}; {}", other.map_or("", String::as_str));
        }
    }
    let _ = writeln!(
        text,
        "Absolute figures of different runs are shown for orientation; Howdah's ratio to the best \
         other stack counts.\n"
    );
    for cell in &after.cells {
        let Some(earlier) = before.cells.iter().find(|earlier| earlier.name == cell.name) else {
            continue;
        };
        let _ = writeln!(text, "{}", cell.name);
        for (stack, outcome) in &cell.results {
            let was = earlier
                .results
                .get(stack)
                .and_then(|outcome| median(&outcome.values(cell.figure)));
            let (Some(was), Some(is)) = (was, median(&outcome.values(cell.figure))) else {
                continue;
            };
            let _ = writeln!(
                text,
                "  {stack:<34}{:>14} → {:>14} {} ({:+.1} %)",
                number(was),
                number(is),
                cell.figure.title(),
                (is / was - 1.0) * 100.0
            );
        }
        if cell.base.is_some() {
            continue;
        }
        let ratio =
            |cell: &Cell| ratio_text(best_other(cell).and_then(|(name, _)| comparison(cell, name)));
        let _ = writeln!(
            text,
            "  {:<34}{:>14} → {:>14}",
            "Howdah to the best other",
            ratio(earlier),
            ratio(cell)
        );
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::{Round, StackFacts};

    fn outcome(values: &[f64]) -> StackOutcome {
        let round = |value: &f64| Round {
            figures: [(Figure::RequestsPerSecond, *value)].into(),
            ..Round::default()
        };
        StackOutcome {
            rounds: values.iter().map(round).collect(),
            failure: None,
        }
    }

    pub(in crate::report) fn run(ours: &[f64], theirs: &[f64]) -> Run {
        let facts = |name: &str, title: &str| StackFacts {
            name: name.to_owned(),
            title: title.to_owned(),
            ..StackFacts::default()
        };
        Run {
            format: 1,
            scenario: "today".to_owned(),
            stacks: vec![facts("howdah", "Howdah"), facts("nginx-fpm", "nginx + php-fpm")],
            cells: vec![Cell {
                name: "HelloWorld.php".to_owned(),
                chart: "HelloWorld.php".to_owned(),
                results: [
                    ("howdah".to_owned(), outcome(ours)),
                    ("nginx-fpm".to_owned(), outcome(theirs)),
                ]
                .into(),
                study: vec![("nginx then".to_owned(), 5166.0)],
                ..Cell::default()
            }],
            ..Run::default()
        }
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_are_worth() {
        for (value, text) in [
            (0.5, "0.50"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (1234567.0, "1,234,567"),
            (100.0, "100"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn tables_name_void_rounds_and_the_study() {
        let mut run = run(&[40.0, 41.0], &[20.0, 20.0]);
        run.cells[0].results.get_mut("nginx-fpm").unwrap().rounds[1].void =
            Some("status 502".to_owned());
        let text = table(&run);
        assert!(
            text.contains("1 of 2 rounds void: status 502")
                && text.contains("the study: nginx then"),
            "{text}"
        );
        assert!(
            csv(&run)
                .contains("\"HelloWorld.php\",,nginx-fpm,2,\"status 502\",\"requests/s\",20\n"),
            "{}",
            csv(&run)
        );
    }

    #[test]
    fn two_runs_are_compared_by_ratios() {
        let text = diff_text(&run(&[40.0], &[20.0]), &run(&[60.0], &[20.0]));
        assert!(
            text.contains("+50.0 %")
                && text.contains("2.00 (one round)")
                && text.contains("3.00 (one round)"),
            "{text}"
        );
    }
}
