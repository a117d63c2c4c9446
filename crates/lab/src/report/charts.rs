//! The report's charts: bars for a single cell, lines for several cells over an axis.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::chart::{Bar, Series, bars, escape, lines};
use super::main_chart::capital;
use super::ramp;
use super::text::{BASE, shown, with_unit};
use super::verdict;
use crate::record::{Cell, Figure, Run};
use crate::statistics::median;

/// Number of colours in the style sheet.
const COLOURS: usize = 10;

/// Stacks of most scenarios, which have the same colour in all. Howdah has the first.
const COLOURED: [&str; COLOURS] = [
    BASE,
    "nginx-fpm",
    "apache-prefork-mod_php",
    "lighttpd-fpm",
    "h2o",
    "caddy",
    "apache-event-fpm",
    "nginx-fpm-keepalive",
    "apache-prefork-mod_php-htaccess",
    "apache-worker-fcgid",
];

/// A stack's colour, the same in every chart. Stacks without a colour of their own get the
/// remaining ones.
pub(super) fn colour(run: &Run, name: &str) -> usize {
    let own = |name: &str| COLOURED.iter().position(|known| *known == name);
    if let Some(colour) = own(name) {
        return colour;
    }
    let is_there = |name: &str| run.stacks.iter().any(|stack| stack.name == name);
    let free: Vec<usize> = (1..COLOURS).filter(|colour| !is_there(COLOURED[*colour])).collect();
    let others = run.stacks.iter().filter(|stack| own(&stack.name).is_none());
    let number = others.take_while(|stack| stack.name != name).count();
    free.get(number % free.len().max(1)).copied().unwrap_or(5)
}

/// Draws all charts of the run.
pub(super) fn charts(run: &Run) -> String {
    let mut text = "<h2>Results</h2><div class=charts>".to_owned();
    let mut is_bound = false;
    for (title, cells) in verdict::charts(run) {
        let first = cells[0];
        let drawing = if cells.len() > 1 {
            sweep(run, title, &cells)
        } else {
            single(run, first)
        };
        let Some(drawing) = drawing else { continue };
        is_bound |= drawing.contains('†');
        let direction = if first.figure.more_is_better() {
            "more is better"
        } else {
            "less is better"
        };
        let _ = write!(
            text,
            "<figure><h3>{}</h3>{drawing}<figcaption>{}, {direction}</figcaption>{}</figure>",
            escape(&capital(title)),
            first.figure.title(),
            memory(run, &cells)
        );
        if first.figure == Figure::Hits {
            for figure in ramp::BESIDE {
                text += &counted(run, &cells, figure);
            }
        }
    }
    text += "</div>";
    text += &side_by_side(run);
    if is_bound {
        text += "<p class=small>† The load generator used over 90 % of its processor: it, not the \
            server, was the limit.</p>";
    }
    text
}

/// Draws the smallest page beside the smallest file for each server, as the study of 2009 did.
fn side_by_side(run: &Run) -> String {
    let sweeps: Vec<(&str, Vec<&Cell>)> = verdict::charts(run)
        .into_iter()
        .filter(|(title, cells)| title.starts_with("HelloWorld.") && cells.len() > 1)
        .collect();
    if sweeps.len() < 2 {
        return String::new();
    }
    let mut text = String::new();
    for stack in &run.stacks {
        let series = |(number, (title, cells)): (usize, &(&str, Vec<&Cell>))| Series {
            title: (*title).to_owned(),
            colour: number,
            points: cells
                .iter()
                .filter_map(|cell| {
                    let value = median(&cell.results.get(&stack.name)?.values(cell.figure))?;
                    Some((cell.at.unwrap_or(0.0), value))
                })
                .collect(),
            from_study: false,
        };
        let series: Vec<Series> = sweeps.iter().enumerate().map(series).collect();
        let drawing = lines(&stack.title, "concurrent requests", &series);
        let _ = write!(text, "<figure><h3>{}</h3>{drawing}</figure>", escape(&stack.title));
    }
    format!(
        "<details><summary>HelloWorld.php beside HelloWorld.txt, for each server</summary><div \
         class=charts>{text}</div></details>"
    )
}

/// The cells with another figure.
fn by_figure(cells: &[&Cell], figure: Figure) -> Vec<Cell> {
    let other = |cell: &&Cell| Cell {
        figure,
        study: Vec::new(),
        ..(*cell).clone()
    };
    cells.iter().map(other).collect()
}

/// A chart of what went wrong beside the hits; nothing where it was not measured.
fn counted(run: &Run, cells: &[&Cell], figure: Figure) -> String {
    let cells = by_figure(cells, figure);
    let Some(drawing) = sweep(run, figure.title(), &cells.iter().collect::<Vec<_>>()) else {
        return String::new();
    };
    format!(
        "<figure><h3>{} in the ramp</h3>{drawing}<figcaption>{}, less is \
         better</figcaption></figure>",
        capital(figure.title()),
        figure.title()
    )
}

/// Memory under the same load, collapsed.
fn memory(run: &Run, cells: &[&Cell]) -> String {
    if !cells[0].figure.more_is_better() {
        return String::new();
    }
    let cells = by_figure(cells, Figure::Pss);
    let cells: Vec<&Cell> = cells.iter().collect();
    let drawing = match cells.as_slice() {
        [cell] => single(run, cell),
        cells => sweep(run, "memory under load, MiB", cells),
    };
    drawing.map_or(String::new(), |drawing| {
        format!("<details class=more><summary>memory under load, MiB</summary>{drawing}</details>")
    })
}

/// Draws a single cell: bars, the best first, then the study's.
fn single(run: &Run, cell: &Cell) -> Option<String> {
    let mut drawn: Vec<Bar> = run
        .stacks
        .iter()
        .filter_map(|stack| {
            let outcome = cell.results.get(&stack.name)?;
            let value = median(&outcome.values(cell.figure))?;
            let mark = if outcome.is_loader_bound() { "†" } else { "" };
            Some(Bar {
                title: stack.title.clone(),
                colour: colour(run, &stack.name),
                value,
                label: with_unit(cell.figure, value) + mark,
                from_study: false,
            })
        })
        .collect();
    if drawn.is_empty() {
        return None;
    }
    drawn.sort_by(|a, b| {
        if cell.figure.more_is_better() {
            b.value.total_cmp(&a.value)
        } else {
            a.value.total_cmp(&b.value)
        }
    });
    drawn.extend(cell.study.iter().map(|(name, value)| Bar {
        title: format!("the study: {name}"),
        colour: 5,
        value: *value,
        label: with_unit(cell.figure, *value),
        from_study: true,
    }));
    Some(bars(&drawn))
}

/// Draws cells over an axis: lines.
fn sweep(run: &Run, title: &str, cells: &[&Cell]) -> Option<String> {
    let point = |cell: &Cell, name: &str| {
        let value = median(&cell.results.get(name)?.values(cell.figure))?;
        Some((cell.at.unwrap_or(0.0), shown(cell.figure, value)))
    };
    let mut series: Vec<Series> = run
        .stacks
        .iter()
        .map(|stack| Series {
            title: stack.title.clone(),
            colour: colour(run, &stack.name),
            points: cells.iter().filter_map(|cell| point(cell, &stack.name)).collect(),
            from_study: false,
        })
        .filter(|one| !one.points.is_empty())
        .collect();
    if series.is_empty() {
        return None;
    }
    series.extend(study(cells));
    Some(lines(title, &cells[0].axis, &series))
}

/// The study's own figures, dashed.
fn study(cells: &[&Cell]) -> Vec<Series> {
    let mut found: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for cell in cells {
        for (name, value) in &cell.study {
            found.entry(name).or_default().push((cell.at.unwrap_or(0.0), *value));
        }
    }
    let mut series: Vec<Series> = Vec::new();
    for (name, points) in found {
        series.push(Series {
            title: format!("the study: {name}"),
            colour: (5 + series.len()) % COLOURS,
            points,
            from_study: true,
        });
    }
    series
}
