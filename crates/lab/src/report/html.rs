//! The report: one HTML file without external parts.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::chart::{Series, escape, lines};
use super::charts::{charts, colour};
use super::style::SHEET;
use super::text::{BASE, comparison, csv, number, ratio_text, remarks, with_unit};
use super::{beside, targets, verdict};
use crate::loads::Wrong;
use crate::record::{Cell, Figure, Run, StackFacts, StackOutcome};
use crate::statistics::median;

/// The whole page.
///
/// # Errors
/// The run cannot be encoded as JSON.
pub(super) fn page(run: &Run) -> Result<String, Wrong> {
    let json = serde_json::to_string(run).map_err(|error| Wrong(error.to_string()))?;
    let mut page = format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport \
         content=\"width=device-width,initial-scale=1\">\
         <title>{0}: Howdah's laboratory</title><style>{SHEET}</style></head>\n\
         <body><main><h1>Howdah's laboratory · {0}</h1>\
         <p class=verdict>{1}</p><p class=meta>{2}</p>\n",
        escape(&run.scenario),
        escape(&verdict::verdict(run)),
        escape(&meta(run))
    );
    page += &charts(run);
    page += &targets::html(run);
    page += &series_charts(run);
    page += &tables(run);
    page += &calls(run);
    page += &knowledge(run);
    page += &stacks(run);
    // `</` would end the element. JSON allows the slash to be escaped.
    let _ = writeln!(
        page,
        "<h2>Raw data</h2><p><button class=link data-of=json>run.json</button> · <button \
         class=link data-of=csv>run.csv</button></p>\
         <script type=application/json id=json>{}</script><script type=text/csv \
         id=csv>{}</script><script>{SCRIPT}</script>\
         </main></body></html>",
        json.replace("</", "<\\/"),
        csv(run).replace("</", "<\\/")
    );
    Ok(page)
}

/// Saves the embedded data as files.
const SCRIPT: &str = "for(const b of \
    document.querySelectorAll('button[data-of]'))b.onclick=()=>{const k=b.dataset.of,\
    a=document.createElement('a');a.href=URL.createObjectURL(new \
    Blob([document.getElementById(k).textContent]));a.download='run.'+k;a.click()}";

fn meta(run: &Run) -> String {
    let fact = |name: &str| {
        run.machine
            .iter()
            .find(|(known, _)| known == name)
            .map_or("?", |(_, value)| value.as_str())
    };
    let quick = if run.quick { "quick run" } else { "full run" };
    let (processor, cores, distribution) =
        (fact("processor"), fact("processors"), fact("distribution"));
    format!(
        "{quick} of {}, {cores} × {processor}, {distribution}; {} rounds, interleaved; ratios are \
         medians over rounds with 95 % bootstrap intervals; “2 ×” is twice as good: twice the \
         requests, or half of the time or memory",
        run.began, run.rounds
    )
}

/// Figures of each second, where a load records them: hits, errors and time-outs of each stack, and
/// memory of all.
fn series_charts(run: &Run) -> String {
    let mut all = String::new();
    for cell in &run.cells {
        let mut text = String::new();
        let mut memory = Vec::new();
        for (name, outcome) in &cell.results {
            let Some(round) = outcome.valid().last() else {
                continue;
            };
            let title = super::text::title(run, name);
            memory.extend(round.series.get(&Figure::Pss).map(|points| Series {
                title: title.to_owned(),
                colour: colour(run, name),
                points:
                    points.iter().map(|(at, kibibytes)| (at.round(), kibibytes / 1024.0)).collect(),
                from_study: false,
            }));
            let counts = [Figure::Hits, Figure::Errors, Figure::Timeouts, Figure::Clients];
            let counts = counts.iter().enumerate().filter_map(|(colour, figure)| {
                Some(Series {
                    title: figure.title().to_owned(),
                    colour: [2, 4, 6, 5][colour],
                    points: round.series.get(figure)?.clone(),
                    from_study: *figure == Figure::Clients,
                })
            });
            text +=
                &over_time(title, "in each second of the last round", &counts.collect::<Vec<_>>());
        }
        text += &over_time("memory of all", "MiB", &memory);
        if !text.is_empty() {
            let name = escape(&cell.name);
            let _ = write!(
                all,
                "<details><summary>{name}</summary><div class=charts>{text}</div></details>"
            );
        }
    }
    if all.is_empty() {
        all
    } else {
        format!("<h2>Over time</h2>{all}")
    }
}

fn over_time(title: &str, caption: &str, series: &[Series]) -> String {
    if series.is_empty() {
        return String::new();
    }
    let drawing = lines(title, "seconds", series);
    format!(
        "<figure><h3>{}</h3>{drawing}<figcaption>{caption}</figcaption></figure>",
        escape(title)
    )
}

fn tables(run: &Run) -> String {
    let mut text = "<h2>Figures</h2>".to_owned();
    for cell in &run.cells {
        let further = further_figures(cell);
        let heads: String = further
            .iter()
            .map(|figure| format!("<th class=n>{}</th>", figure.title()))
            .collect();
        let _ = write!(
            text,
            "<details><summary>{}</summary><div class=scroll><table><tr><th>stack</th><th \
             class=n>{}</th><th>{}</th>\
             <th>remarks</th>{heads}</tr>",
            escape(&cell.name),
            cell.figure.title(),
            cell.base.as_ref().map_or("Howdah is better by".to_owned(), |base| {
                format!("ratio to {}", escape(super::text::title(run, base)))
            })
        );
        for stack in &run.stacks {
            if let Some(outcome) = cell.results.get(&stack.name) {
                text += &row_of_stack(cell, stack, outcome, &further);
            }
        }
        for (name, value) in &cell.study {
            let _ = write!(
                text,
                "<tr class=study><td>the study: {}</td><td class=n>{}</td>\
                 <td colspan={}></td></tr>",
                escape(name),
                with_unit(cell.figure, *value),
                further.len() + 2
            );
        }
        text += "</table></div></details>";
    }
    text
}

/// Returns the figures that the cell has values of, beside its own.
fn further_figures(cell: &Cell) -> Vec<Figure> {
    let has_values = |figure: &Figure| {
        *figure != cell.figure
            && cell.results.values().any(|outcome| !outcome.values(*figure).is_empty())
    };
    FURTHER_FIGURES.into_iter().filter(has_values).collect()
}

fn row_of_stack(
    cell: &Cell,
    stack: &StackFacts,
    outcome: &StackOutcome,
    further: &[Figure],
) -> String {
    let value = |figure: Figure| match median(&outcome.values(figure)) {
        Some(value) => with_unit(figure, value),
        None => "–".to_owned(),
    };
    let own = stack.name == cell.base.as_deref().unwrap_or(BASE);
    let ratio = match &cell.base {
        _ if own => String::new(),
        Some(base) => beside::short(cell, base, &stack.name),
        None => ratio_text(comparison(cell, &stack.name)),
    };
    let values: String = further
        .iter()
        .map(|figure| format!("<td class=n>{}</td>", value(*figure)))
        .collect();
    format!(
        "<tr{}><td>{}</td><td class=n>{}</td><td>{ratio}</td><td class=remark>{}</td>{values}</tr>",
        if own { " class=own" } else { "" },
        escape(&stack.title),
        value(cell.figure),
        escape(&remarks(outcome))
    )
}

/// The figures beside a cell's own, in the order of the columns.
const FURTHER_FIGURES: [Figure; 15] = [
    Figure::CpuPerRequest,
    Figure::SwitchesPerRequest,
    Figure::CallsPerRequest,
    Figure::Latency50,
    Figure::Latency99,
    Figure::Latency99Idle,
    Figure::SecondRequest,
    Figure::LongestRequest,
    Figure::GrownPss,
    Figure::Errors,
    Figure::Timeouts,
    Figure::Pss,
    Figure::PeakPss,
    Figure::FrontPss,
    Figure::WorkerPss,
];

/// Table of system calls per request by stack, where they were counted.
fn calls(run: &Run) -> String {
    let mut text = String::new();
    for cell in &run.cells {
        let counts: Vec<(&str, &BTreeMap<String, f64>)> = run
            .stacks
            .iter()
            .filter_map(|stack| {
                let round =
                    cell.results.get(&stack.name)?.valid().find(|round| !round.calls.is_empty())?;
                Some((stack.title.as_str(), &round.calls))
            })
            .collect();
        if counts.is_empty() {
            continue;
        }
        let most = |name: &str| {
            counts
                .iter()
                .map(|(_, calls)| calls.get(name).copied().unwrap_or(0.0))
                .fold(0.0, f64::max)
        };
        let mut names: Vec<&str> =
            counts.iter().flat_map(|(_, calls)| calls.keys().map(String::as_str)).collect();
        names.sort_by(|a, b| most(b).total_cmp(&most(a)).then(a.cmp(b)));
        names.dedup();
        names.retain(|name| most(name) >= 0.05);
        let heads: String = counts
            .iter()
            .map(|(title, _)| format!("<th class=n>{}</th>", escape(title)))
            .collect();
        let _ = write!(
            text,
            "<h3>{}</h3><div class=scroll><table><tr><th>call</th>{heads}</tr>",
            escape(&cell.name)
        );
        for name in names {
            let values: String = counts
                .iter()
                .map(|(_, calls)| match calls.get(name) {
                    Some(count) if *count >= 0.005 => format!("<td class=n>{count:.2}</td>"),
                    _ => "<td></td>".to_owned(),
                })
                .collect();
            let _ = write!(text, "<tr><td>{}</td>{values}</tr>", escape(name));
        }
        let sums: String = counts
            .iter()
            .map(|(_, calls)| format!("<td class=n>{:.1}</td>", calls.values().sum::<f64>()))
            .collect();
        let _ = write!(text, "<tr class=own><td>all</td>{sums}</tr></table></div>");
    }
    if text.is_empty() {
        text
    } else {
        format!("<h2>System calls per request</h2>{text}")
    }
}

fn knowledge(run: &Run) -> String {
    let facts: String = run
        .machine
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
        .collect();
    let unequal = run
        .stacks
        .iter()
        .filter_map(|stack| Some(format!("{}: {}", stack.title, stack.unequal.as_ref()?)));
    let absent = run.absent.iter().map(|(name, why)| {
        format!("{name} did not take part: {}", why.lines().next().unwrap_or_default())
    });
    let known = |note: &String| !run.absent.iter().any(|(_, why)| note.ends_with(why.as_str()));
    let notes: String = unequal
        .chain(absent)
        .chain(run.notes.iter().filter(|note| known(note)).cloned())
        .map(|note| format!("<li>{}</li>", escape(&note)))
        .collect();
    format!("<h2>To know</h2><ul>{notes}</ul><h2>The machine</h2><dl>{facts}</dl>")
}

fn stacks(run: &Run) -> String {
    let mut text = "<h2>The stacks</h2>".to_owned();
    for stack in &run.stacks {
        let _ = write!(
            text,
            "<details><summary>{} <span class=small>{}</span></summary>",
            escape(&stack.title),
            escape(&stack.version)
        );
        if let Some(kibibytes) = stack.idle_pss {
            let _ = write!(
                text,
                "<p class=small>{} MiB before the first request</p>",
                number(kibibytes as f64 / 1024.0)
            );
        }
        for (name, configuration) in &stack.configuration {
            let _ = write!(text, "<h3>{}</h3><pre>{}</pre>", escape(name), escape(configuration));
        }
        text += "</details>";
    }
    text
}
