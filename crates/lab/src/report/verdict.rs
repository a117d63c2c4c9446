//! The first sentence of the report: the best stack for each purpose, and its lead.

use super::text::{BASE, title};
use crate::record::{Cell, Run, StackOutcome};
use crate::statistics::{compare, median};

/// Number of charts that are named for each stack; the others are counted.
const NAMED: usize = 3;

/// The best stack of a chart.
struct Lead<'r> {
    chart: &'r str,
    winner: &'r str,
    second: &'r str,
    /// Ratio to the second best; `None` where there is no difference.
    ratio: Option<f64>,
}

/// The verdict of a run in one sentence.
pub(super) fn verdict(run: &Run) -> String {
    if let Some(text) = super::beside::verdict(run) {
        return text;
    }
    let found: Vec<Lead> = charts(run)
        .into_iter()
        .filter_map(|(chart, cells)| finding(chart, &cells))
        .collect();
    if found.is_empty() {
        return "Nothing could be compared: fewer than two stacks were measured.".to_owned();
    }
    let mut winners: Vec<&str> = Vec::new();
    for one in found.iter().filter(|one| one.ratio.is_some()) {
        if !winners.contains(&one.winner) {
            winners.push(one.winner);
        }
    }
    let won = |name: &str| -> Vec<&Lead> {
        let won = found.iter().filter(|one| one.ratio.is_some() && one.winner == name);
        won.collect()
    };
    // The sort is stable: of equal stacks the first remains first.
    winners.sort_by_key(|name| std::cmp::Reverse(won(name).len()));
    let parts: Vec<String> = winners
        .iter()
        .map(|name| {
            let mut before = "";
            let items = won(name).into_iter().map(|one| {
                // The compared stack is repeated only where it changes.
                let second = title(run, one.second);
                let whom = if second == before {
                    String::new()
                } else {
                    format!(" {second}")
                };
                before = second;
                format!("{} ({} ×{whom})", one.chart, times(one.ratio.unwrap_or(1.0)))
            });
            let items = some_of(items.collect());
            format!("{} for {items}", title(run, name))
        })
        .collect();
    let even: Vec<String> = found
        .iter()
        .filter(|one| one.ratio.is_none())
        .map(|one| one.chart.to_owned())
        .collect();
    let mut text = if parts.is_empty() {
        String::new()
    } else {
        format!("Choose {}", parts.join("; "))
    };
    if !even.is_empty() {
        text += if text.is_empty() { "For " } else { "; for " };
        text += &some_of(even);
        text += " there is no difference between the best two";
    }
    text + "."
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.0}")
    }
}

fn some_of(items: Vec<String>) -> String {
    let (count, shown) = (items.len(), items.len().min(NAMED));
    let mut named = items.into_iter().take(shown).collect::<Vec<_>>();
    if count > shown {
        named.push(format!("{} more", count - shown));
    }
    match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Cells grouped by chart, in order.
pub(super) fn charts(run: &Run) -> Vec<(&str, Vec<&Cell>)> {
    let mut charts: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for cell in &run.cells {
        match charts.iter_mut().find(|(title, _)| *title == cell.chart) {
            Some((_, cells)) => cells.push(cell),
            None => charts.push((&cell.chart, vec![cell])),
        }
    }
    charts
}

/// Returns whether a stack can be recommended. Variants of Howdah are only shown.
fn is_choice(name: &str) -> bool {
    name == BASE || !name.starts_with("howdah")
}

/// The best two of a cell.
fn best_two(cell: &Cell) -> Option<(&str, &str)> {
    let mut values: Vec<(&str, f64)> = cell
        .results
        .iter()
        .filter(|(name, _)| is_choice(name))
        .filter_map(|(name, outcome)| Some((name.as_str(), median(&outcome.values(cell.figure))?)))
        .collect();
    let more = cell.figure.more_is_better();
    values.sort_by(|a, b| if more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    match values.as_slice() {
        [(first, _), (second, _), ..] => Some((first, second)),
        _ => None,
    }
}

/// The stack that leads at most places of a sweep, with the median of its leads.
fn finding<'r>(chart: &'r str, cells: &[&'r Cell]) -> Option<Lead<'r>> {
    let places: Vec<(&str, &str, &Cell)> = cells
        .iter()
        .filter_map(|cell| best_two(cell).map(|(first, second)| (first, second, *cell)))
        .collect();
    let wins = |name: &str| places.iter().filter(|(first, ..)| *first == name).count();
    let winner = places
        .iter()
        .rev()
        .max_by_key(|(first, ..)| wins(first))
        .map(|(first, ..)| *first)?;
    let mut leads = Vec::new();
    let mut even = 0;
    for (_, second, cell) in places.iter().filter(|(first, ..)| *first == winner) {
        let result = |name: &str| -> Option<&StackOutcome> { cell.results.get(name) };
        let Some(found) = compare(result(winner)?, result(second)?, cell.figure) else {
            continue;
        };
        if found.is_no_difference() {
            even += 1;
        } else {
            leads.push((found.ratio, *second));
        }
    }
    leads.sort_by(|a, b| a.0.total_cmp(&b.0));
    match leads.get(leads.len() / 2) {
        Some((ratio, second)) if leads.len() >= even => Some(Lead {
            chart,
            winner,
            second,
            ratio: Some(*ratio),
        }),
        _ if even > 0 => Some(Lead {
            chart,
            winner,
            second: winner,
            ratio: None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::run;
    use super::*;

    #[test]
    fn it_says_whom_to_choose_for_what() {
        let ahead = verdict(&run(&[40.0, 41.0, 42.0], &[20.0, 20.0, 21.0]));
        assert_eq!(ahead, "Choose Howdah for HelloWorld.php (2.00 × nginx + php-fpm).");
        let behind = verdict(&run(&[10.0, 10.0, 10.0], &[20.0, 20.0, 20.0]));
        assert_eq!(behind, "Choose nginx + php-fpm for HelloWorld.php (2.00 × Howdah).");
        let level = verdict(&run(&[10.0, 20.0, 10.0], &[20.0, 10.0, 10.0]));
        assert_eq!(level, "For HelloWorld.php there is no difference between the best two.");
        assert!(verdict(&Run::default()).contains("Nothing could be compared"));
    }

    #[test]
    fn many_are_counted() {
        let items = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(some_of(items), "a, b, c and 2 more");
        assert_eq!(some_of(vec!["a".to_owned()]), "a");
    }
}
