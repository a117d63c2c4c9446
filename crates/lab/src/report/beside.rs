//! Tables of cells with a base: two binaries, or a server with and without an `.htaccess` file.

use std::fmt::Write;

use super::text::{number, remarks, title, with_unit};
use crate::record::{Cell, Figure, Run, StackOutcome};
use crate::statistics::{compare, median, ratios};

/// The ratios of two stacks in all rounds.
struct Ratio {
    median: f64,
    /// The smallest and the largest ratio.
    spread: (f64, f64),
    /// The interval that holds 95 % of the bootstrap's medians.
    interval: (f64, f64),
    rounds: usize,
}

/// Rounds below which the interval cannot reach 95 %: the median of fewer rounds lies outside of
/// all of them too often (1/2 to the power of the rounds, on either side).
const LEAST_ROUNDS: usize = 6;

impl Ratio {
    /// `None` where no round counts for both stacks.
    fn of(outcome: &StackOutcome, base: &StackOutcome, figure: Figure) -> Option<Ratio> {
        let found = compare(outcome, base, figure)?;
        let rounds = ratios(outcome, base, figure);
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Ratio {
            median: found.ratio,
            spread: (least, greatest),
            interval: (found.low, found.high),
            rounds: found.rounds,
        })
    }

    fn text(&self) -> String {
        let ((least, greatest), (low, high)) = (self.spread, self.interval);
        format!("{:.3} | {least:.3}–{greatest:.3} | {low:.3}–{high:.3}", self.median)
    }

    fn is_no_difference(&self) -> bool {
        self.interval.0 <= 1.0 && self.interval.1 >= 1.0
    }
}

/// A stack's ratio to the base, for a cell of a table: `1.003 (rounds 0.985–1.021)`.
pub(super) fn short(cell: &Cell, base: &str, stack: &str) -> String {
    let both = cell.results.get(stack).zip(cell.results.get(base));
    let ratio = both.and_then(|(ours, plain)| Ratio::of(ours, plain, cell.figure));
    ratio.map_or_else(
        || "–".to_owned(),
        |ratio| {
            let (least, greatest) = ratio.spread;
            format!("{:.3} (rounds {least:.3}–{greatest:.3})", ratio.median)
        },
    )
}

/// The cell's table in Markdown.
pub(super) fn markdown(run: &Run, cell: &Cell, base: &str) -> String {
    let mut text = format!(
        "\n| stack | figure | median | ratio to {} | rounds | 95 % interval | difference | remarks \
         |\n\
         |---|---|---:|---:|---:|---:|---:|---|\n",
        title(run, base)
    );
    let plain = cell.results.get(base);
    for figure in [cell.figure, Figure::CpuPerRequest] {
        for stack in run.stacks.iter().filter(|stack| cell.results.contains_key(&stack.name)) {
            let outcome = &cell.results[&stack.name];
            let value = median(&outcome.values(figure));
            let shown = value.map_or_else(|| "–".to_owned(), |value| with_unit(figure, value));
            let _ = write!(text, "| {} | {} | {shown} | ", stack.title, figure.title());
            if stack.name == base {
                let _ = writeln!(text, "| | | | {} |", remarks(outcome));
                continue;
            }
            let ratio = plain.and_then(|plain| Ratio::of(outcome, plain, figure));
            let ratio = ratio.map_or_else(|| "– | – | –".to_owned(), |ratio| ratio.text());
            let plain = plain.and_then(|plain| median(&plain.values(figure)));
            let added = value.zip(plain);
            let added =
                added.map_or_else(|| "–".to_owned(), |(value, plain)| signed(value - plain));
            let _ = writeln!(text, "{ratio} | {added} | {} |", remarks(outcome));
        }
    }
    text
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", number(value.abs()))
}

/// One sentence for each stack in cells with a base; `None` without such cells.
pub(super) fn verdict(run: &Run) -> Option<String> {
    let cells: Vec<(&Cell, &str)> = run
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.base.as_deref()?)))
        .collect();
    if cells.is_empty() {
        return None;
    }
    let mut sentences = Vec::new();
    for stack in &run.stacks {
        let (mut found, mut even, mut open) = (Vec::new(), 0, 0);
        let mut beside = "";
        for (cell, base) in cells.iter().filter(|(_, base)| *base != stack.name) {
            let both = cell.results.get(&stack.name).zip(cell.results.get(*base));
            let ratios = [cell.figure, Figure::CpuPerRequest]
                .map(|figure| both.and_then(|(ours, plain)| Ratio::of(ours, plain, figure)));
            beside = if both.is_some() { title(run, base) } else { beside };
            let of_cell = if cell.figure == Figure::RequestsPerSecond {
                "requests"
            } else {
                cell.figure.title()
            };
            for (ratio, what) in ratios.iter().zip([of_cell, "CPU"]) {
                match ratio {
                    Some(ratio) if ratio.rounds < LEAST_ROUNDS => open += 1,
                    Some(ratio) if ratio.is_no_difference() => even += 1,
                    Some(ratio) => {
                        found.push(format!("{} {:.3} ({what})", cell.chart, ratio.median));
                    }
                    None => {}
                }
            }
        }
        if even > 0 {
            let plural = if even == 1 { "" } else { "s" };
            found.push(format!("no difference in {even} figure{plural}"));
        }
        if open > 0 {
            let plural = if open == 1 { "" } else { "s" };
            found.push(format!("too few rounds for {open} figure{plural} (under {LEAST_ROUNDS})"));
        }
        if !found.is_empty() {
            sentences.push(format!("{} beside {beside}: {}.", stack.title, found.join("; ")));
        }
    }
    sentences.push(EXPLAINED.to_owned());
    Some(sentences.join(" "))
}

const EXPLAINED: &str = "Ratios are medians of the ratios of each round; above 1 is better: more \
                         requests per second, or less time or memory.";

#[cfg(test)]
mod tests {
    use super::super::text::tests::run;
    use super::*;

    fn based(after: &[f64], before: &[f64]) -> Run {
        let mut run = run(after, before);
        run.cells[0].base = Some("nginx-fpm".to_owned());
        run
    }

    #[test]
    fn the_table_has_the_median_and_the_spread_of_the_rounds() {
        let run = based(&[10.0, 22.0, 30.0], &[10.0, 20.0, 20.0]);
        let text = markdown(&run, &run.cells[0], "nginx-fpm");
        assert!(
            text.contains(
                "| Howdah | requests/s | 22.0 | 1.100 | 1.000–1.500 | 1.000–1.500 | +2.00 |"
            ),
            "{text}"
        );
        assert!(text.contains("| nginx + php-fpm | requests/s | 20.0 | | | | |  |"), "{text}");
    }

    #[test]
    fn the_verdict_names_what_differs_and_counts_what_does_not() {
        let faster = verdict(&based(&[12.0; 6], &[10.0; 6])).unwrap();
        assert!(
            faster.starts_with("Howdah beside nginx + php-fpm: HelloWorld.php 1.200 (requests)."),
            "{faster}"
        );
        let even = verdict(&based(&[12.0, 8.0, 12.0, 8.0, 12.0, 8.0], &[10.0; 6])).unwrap();
        assert!(even.contains("no difference in 1 figure."), "{even}");
        let few = verdict(&based(&[12.0; 5], &[10.0; 5])).unwrap();
        assert!(few.contains("too few rounds for 1 figure (under 6)"), "{few}");
        assert_eq!(verdict(&run(&[1.0], &[1.0])), None);
    }
}
