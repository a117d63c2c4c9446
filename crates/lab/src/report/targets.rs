//! The targets of a run, and whether they were reached.

use std::fmt::Write;

use super::chart::escape;
use super::text::{BASE, title};
use crate::record::{Bound, Cell, CellTarget, Run};
use crate::statistics::{StackRatio, compare, interval, median};

/// The state of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Reached,
    /// The interval contains the bound, or there is only one round.
    Unclear,
    Missed,
    NotMeasured,
}

impl Standing {
    fn text(self) -> &'static str {
        match self {
            Standing::Reached => "reached",
            Standing::Unclear => "within the noise",
            Standing::Missed => "not reached",
            Standing::NotMeasured => "not measured",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Standing::Reached => "good",
            Standing::Missed => "bad",
            Standing::Unclear | Standing::NotMeasured => "",
        }
    }
}

struct TargetRow {
    what: String,
    against: String,
    bound: String,
    measured: String,
    standing: Standing,
}

/// The best of the compared stacks, and the ratio in the direction of the bound.
fn measure<'r>(cell: &'r Cell, target: &CellTarget) -> Option<(Option<&'r str>, StackRatio)> {
    let ours = cell.results.get(&target.ours)?;
    if target.against.is_empty() {
        let values = ours.values(target.figure);
        let (low, high) = interval(&values)?;
        let ratio = median(&values)?;
        let rounds = values.len();
        return Some((None, StackRatio { ratio, low, high, rounds }));
    }
    let others = cell.results.iter().filter(|(name, _)| target.against.contains(name));
    let medians = others.filter_map(|(name, outcome)| {
        Some((name, median(&outcome.values(target.figure))?, outcome))
    });
    let more = target.figure.more_is_better();
    let (name, _, best) =
        medians.max_by(|a, b| if more { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) })?;
    let found = compare(ours, best, target.figure)?;
    let turned = match target.bound {
        Bound::AtLeast(_) => found,
        Bound::AtMost(_) => StackRatio {
            ratio: 1.0 / found.ratio,
            low: 1.0 / found.high,
            high: 1.0 / found.low,
            ..found
        },
    };
    Some((Some(name), turned))
}

fn standing(bound: Bound, found: &StackRatio) -> Standing {
    let (all_good, all_bad) = match bound {
        Bound::AtLeast(least) => (found.low >= least, found.high < least),
        Bound::AtMost(most) => (found.high <= most, found.low > most),
    };
    if found.rounds < 2 {
        return Standing::Unclear;
    }
    match (all_good, all_bad) {
        (true, _) => Standing::Reached,
        (_, true) => Standing::Missed,
        _ => Standing::Unclear,
    }
}

fn row(run: &Run, target: &CellTarget) -> TargetRow {
    let cell = run.cells.iter().find(|cell| cell.name == target.cell);
    let found = cell.and_then(|cell| measure(cell, target));
    let is_variant = target.ours != BASE;
    // A variant of Howdah is compared with the usual Howdah, or with others.
    let is_with_itself = target.against.iter().all(|name| name.starts_with(BASE));
    let whose = if is_variant {
        format!(" ({})", title(run, &target.ours))
    } else {
        String::new()
    };
    let what = format!("{}{whose}: {}", target.cell, target.figure.title());
    let names = || {
        let titles = target.against.iter().map(|name| title(run, name));
        titles.collect::<Vec<_>>().join(", ")
    };
    let best = found.and_then(|(best, _)| best).map(|best| title(run, best));
    TargetRow {
        what,
        against: match best {
            _ if is_with_itself => "itself".to_owned(),
            Some(best) if target.against.len() > 1 => format!("the best of others: {best}"),
            Some(best) => best.to_owned(),
            None => names(),
        },
        bound: match target.bound {
            Bound::AtLeast(least) => format!("≥ {least:.2} ×"),
            Bound::AtMost(most) => format!("≤ {most:.2} ×"),
        },
        measured: found.map_or("–".to_owned(), |(_, found)| {
            format!("{:.2} ({:.2}–{:.2})", found.ratio, found.low, found.high)
        }),
        standing: found.map_or(Standing::NotMeasured, |(_, found)| standing(target.bound, &found)),
    }
}

fn rows(run: &Run) -> Vec<TargetRow> {
    run.targets.iter().map(|target| row(run, target)).collect()
}

fn summary(rows: &[TargetRow]) -> String {
    let count = |standing| rows.iter().filter(|row| row.standing == standing).count();
    let mut text = format!(
        "{} of {} reached, {} within the noise, {} not reached",
        count(Standing::Reached),
        rows.len(),
        count(Standing::Unclear),
        count(Standing::Missed)
    );
    if count(Standing::NotMeasured) > 0 {
        let _ = write!(text, ", {} not measured", count(Standing::NotMeasured));
    }
    text
}

/// The targets in HTML; empty where a scenario has none.
pub(super) fn html(run: &Run) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<h2>What Howdah is to reach</h2><p class=meta>{}. ≥: how many times as good; ≤: how many \
         times as much memory or time</p>\
         <div class=scroll><table class=targets><tr><th>what</th><th>against</th><th \
         class=n>target</th><th class=n>measured</th>\
         <th></th></tr>",
        summary(&rows)
    );
    for row in rows {
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{}</td><td class=n>{}</td><td class=n>{}</td><td \
             class=\"{}\">{}</td></tr>",
            escape(&row.what),
            escape(&row.against),
            row.bound,
            row.measured,
            row.standing.class(),
            row.standing.text()
        );
    }
    text + "</table></div>"
}

/// The targets in Markdown.
pub(super) fn markdown(run: &Run) -> String {
    let rows = rows(run);
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n## What Howdah is to reach\n\n{}.\n\n| what | against | target | measured | |\n\
         |---|---|---:|---:|---|\n",
        summary(&rows)
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.what,
            row.against,
            row.bound,
            row.measured,
            row.standing.text()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::run;
    use super::*;
    use crate::record::Figure;

    fn target(against: &[&str], bound: Bound) -> CellTarget {
        CellTarget {
            cell: "HelloWorld.php".to_owned(),
            figure: Figure::RequestsPerSecond,
            ours: "howdah".to_owned(),
            against: against.iter().map(|name| (*name).to_owned()).collect(),
            bound,
        }
    }

    #[test]
    fn targets_are_judged_by_their_interval() {
        let (clear, mixed) = ([40.0, 40.0, 40.0], [30.0, 40.0, 60.0]);
        let theirs = [20.0, 20.0, 20.0];
        for (ours, bound, expected) in [
            (&clear, Bound::AtLeast(2.0), Standing::Reached),
            (&clear, Bound::AtLeast(2.5), Standing::Missed),
            (&mixed, Bound::AtLeast(2.0), Standing::Unclear),
        ] {
            let run = run(ours, &theirs);
            assert_eq!(
                row(&run, &target(&["nginx-fpm"], bound)).standing,
                expected,
                "{ours:?} {bound:?}"
            );
        }
    }

    /// For memory a ratio above 1 is worse.
    #[test]
    fn of_costs_the_ratio_is_turned_round() {
        let mut run = run(&[40.0, 40.0], &[20.0, 20.0]);
        for outcome in run.cells[0].results.values_mut() {
            for round in &mut outcome.rounds {
                let value = round.figures[&Figure::RequestsPerSecond];
                round.figures.insert(Figure::Pss, value);
            }
        }
        let memory = |bound| CellTarget {
            figure: Figure::Pss,
            ..target(&["nginx-fpm"], bound)
        };
        let missed = row(&run, &memory(Bound::AtMost(1.0)));
        assert_eq!(
            (missed.measured.as_str(), missed.standing),
            ("2.00 (2.00–2.00)", Standing::Missed)
        );
        assert_eq!(row(&run, &memory(Bound::AtMost(2.0))).standing, Standing::Reached);
        run.targets = vec![memory(Bound::AtMost(1.0)), target(&[], Bound::AtMost(50.0))];
        assert!(markdown(&run).contains("1 of 2 reached"), "{}", markdown(&run));
        run.targets[0].cell = "gone".to_owned();
        assert!(html(&run).contains("not measured"), "{}", html(&run));
    }
}
