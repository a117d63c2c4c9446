//! The tables of the sites and of the workers.

use std::cmp::Ordering;
use std::ops::Range;

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Row, Table};

use crate::printed::{size, visible};
use crate::rates::Rates;
use crate::screen::{BAD, BUSY, HEADING, ShownTable, View};
use crate::state::{ShownSite, ShownTimes, ShownWorker};

/// The columns of the sites.
const SITES: Columns = Columns {
    all: &[
        ("site", 32),
        ("req/s", 8),
        ("requests", 10),
        ("4xx", 7),
        ("5xx", 7),
        ("workers", 7),
        ("busy", 5),
        ("queue", 6),
        ("wait p95", 9),
        ("script p95", 10),
        ("memory", 10),
        ("cpu", 6),
        ("slow", 6),
        ("time-outs", 9),
    ],
    first_to_go: &[
        "time-outs",
        "4xx",
        "requests",
        "slow",
        "workers",
        "wait p95",
        "memory",
        "cpu",
        "5xx",
        "script p95",
        "busy",
        "req/s",
        "queue",
    ],
};

/// The sites in the order that the view has.
pub(crate) fn sites(view: &View) -> Vec<&ShownSite> {
    view.order.sorted(&view.status, &view.rates, view.is_reversed)
}

/// The rows `shown` of the sites.
pub(crate) fn site_table(
    view: &View,
    shown: Range<usize>,
    selected: usize,
    width: u16,
) -> Table<'static> {
    let sites = sites(view);
    let reversed = if view.is_reversed { ", reversed" } else { "" };
    let title =
        format!("{}, by {}{reversed}", counted("sites", &shown, sites.len()), view.order.name());
    let rows = sites.iter().map(|site| site_row(site, &view.rates));
    let frame = TableFrame {
        title,
        columns: &SITES,
        sorted: Some(view.order.column()),
        has_keys: view.table == ShownTable::Sites,
        width,
    };
    frame.table(rows, shown, selected)
}

fn site_row(site: &ShownSite, rates: &Rates) -> (Vec<Cell<'static>>, Style) {
    let class = |name: &str| site.classes.get(name).copied().unwrap_or(0);
    let rate = rates.site(&site.name).map_or("-".to_owned(), |rate| format!("{rate:.1}"));
    let mut cells = vec![
        Cell::from(visible(&site.name)),
        right(rate),
        right(site.requests),
        right(class("4xx")),
        right(class("5xx")),
    ];
    if let Some(pool) = &site.pool {
        cells.extend([
            right(pool.workers.len()),
            right(pool.active).style(if pool.active > 0 { BUSY } else { Style::new() }),
            right(pool.queue).style(if pool.queue > 0 { BAD } else { Style::new() }),
            right(quantile(&pool.queue_wait)),
            right(quantile(&pool.duration)),
            right(size(pool.memory)),
            right(share(rates.pool(&site.name))),
            right(pool.slow),
            right(pool.timeouts),
        ]);
    }
    (cells, Style::new())
}

/// The columns of the workers. The last one gets the rest.
const WORKERS: Columns = Columns {
    all: &[
        ("worker", 20),
        ("pid", 8),
        ("state", 8),
        ("time", 9),
        ("requests", 9),
        ("memory", 10),
        ("cpu", 6),
        ("request", 0),
    ],
    first_to_go: &["requests", "cpu", "memory", "pid", "state"],
};

/// The workers with the names of their sites: those that run a script first, the longest ones
/// before.
pub(crate) fn workers(view: &View) -> Vec<(&str, &ShownWorker)> {
    let is_shown = |site: &&ShownSite| view.only.as_ref().is_none_or(|only| *only == site.name);
    let mut workers: Vec<(&str, &ShownWorker)> = Vec::new();
    for site in view.status.sites.iter().filter(is_shown) {
        let all = site.pool.iter().flat_map(|pool| &pool.workers);
        workers.extend(all.map(|worker| (site.name.as_str(), worker)));
    }
    workers.sort_by(|(_, one), (_, other)| {
        let running = other.is_running().cmp(&one.is_running());
        let time = || match one.is_running() {
            true => other.time.total_cmp(&one.time),
            false => Ordering::Equal,
        };
        running.then_with(time)
    });
    workers
}

/// The rows `shown` of the workers.
pub(crate) fn worker_table(
    view: &View,
    shown: Range<usize>,
    selected: usize,
    width: u16,
) -> Table<'static> {
    let workers = workers(view);
    let what = match &view.only {
        Some(site) => format!("workers of {}", visible(site)),
        None => "workers".to_owned(),
    };
    let rows = workers.iter().map(|(site, worker)| worker_row(site, worker, &view.rates));
    let frame = TableFrame {
        title: counted(&what, &shown, workers.len()),
        columns: &WORKERS,
        sorted: None,
        has_keys: view.table == ShownTable::Workers,
        width,
    };
    frame.table(rows, shown, selected)
}

fn worker_row(site: &str, worker: &ShownWorker, rates: &Rates) -> (Vec<Cell<'static>>, Style) {
    let request = match (&worker.method, &worker.url) {
        (Some(method), Some(url)) => format!(" {} {}", visible(method), visible(url)),
        _ => String::new(),
    };
    let cells = vec![
        Cell::from(visible(site)),
        right(worker.pid),
        Cell::from(format!(" {}", visible(&worker.state))),
        right(seconds(worker.time)),
        right(worker.requests),
        right(worker.pss.map_or("-".to_owned(), size)),
        right(share(rates.worker(worker.pid))),
        Cell::from(request),
    ];
    (cells, if worker.is_running() { BUSY } else { Style::new() })
}

/// The columns of a table: heading and width, where 0 is the rest.
struct Columns {
    all: &'static [(&'static str, u16)],
    /// The columns that a narrow terminal does not show, in the order in which they go. A number
    /// that is cut looks like another one.
    first_to_go: &'static [&'static str],
}

/// The least width of a name, and of the column that gets the rest.
const LEAST_NAME: u16 = 12;
const LEAST_REST: u16 = 24;

impl Columns {
    /// Returns the columns that fit, among them `sorted`: number, heading and width.
    fn within(&self, width: u16, sorted: Option<&str>) -> Vec<(usize, &'static str, Constraint)> {
        let least = |(number, (_, width)): &(usize, &(&str, u16))| match (*number, *width) {
            (0, _) => LEAST_NAME,
            (_, 0) => LEAST_REST,
            (_, width) => width,
        };
        let mut kept: Vec<_> = self.all.iter().enumerate().collect();
        let needed = |kept: &[(usize, &(&str, u16))]| {
            kept.iter().map(|column| least(column) + 1).sum::<u16>() - 1
        };
        for name in self.first_to_go.iter().filter(|name| Some(**name) != sorted) {
            if needed(&kept) > width {
                kept.retain(|(_, (known, _))| known != name);
            }
        }
        let spare = width.saturating_sub(needed(&kept));
        let columns = kept.into_iter().map(|(number, (name, width))| {
            let constraint = match (number, *width) {
                (0, width) => Constraint::Length(width.min(LEAST_NAME + spare)),
                (_, 0) => Constraint::Fill(1),
                (_, width) => Constraint::Length(width),
            };
            (number, *name, constraint)
        });
        columns.collect()
    }
}

/// Title, columns and order of a table.
struct TableFrame {
    title: String,
    columns: &'static Columns,
    /// The heading of the column that the rows are sorted by.
    sorted: Option<&'static str>,
    /// Keys move the selection in this table.
    has_keys: bool,
    width: u16,
}

impl TableFrame {
    /// The rows `shown` below a line with the title, as far as the columns fit.
    fn table(
        self,
        rows: impl Iterator<Item = (Vec<Cell<'static>>, Style)>,
        shown: Range<usize>,
        selected: usize,
    ) -> Table<'static> {
        let columns = self.columns.within(self.width, self.sorted);
        let heading = columns.iter().map(|(_, name, _)| {
            let cell = match *name {
                "state" | "request" => Cell::from(format!(" {name}")),
                "site" | "worker" => Cell::from(*name),
                name => right(name),
            };
            match Some(*name) == self.sorted {
                true => cell.style(Style::new().add_modifier(Modifier::REVERSED)),
                false => cell,
            }
        });
        let heading = Row::new(heading).style(HEADING);
        let is_selected = |number: usize| self.has_keys && number == selected;
        let rows = rows.enumerate().skip(shown.start).take(shown.len());
        let rows = rows.map(|(number, (cells, style))| {
            let cells = columns.iter().map(|(at, ..)| cells.get(*at).cloned().unwrap_or_default());
            Row::new(cells).style(match is_selected(number) {
                true => style.add_modifier(Modifier::REVERSED),
                false => style,
            })
        });
        let widths = columns.iter().map(|(.., constraint)| *constraint);
        let style = if self.has_keys { HEADING } else { Style::new() };
        let title = Span::styled(format!(" {} ", self.title), style);
        let block = Block::new().borders(Borders::TOP).title(title);
        Table::new(rows, widths).header(heading).block(block)
    }
}

/// The number of rows, and those of them that are shown if there are more.
fn counted(what: &str, shown: &Range<usize>, count: usize) -> String {
    match shown.len() < count {
        true => format!("{what} {}–{} of {count}", shown.start + 1, shown.end),
        false => format!("{what} {count}"),
    }
}

/// A value at the right of its column.
fn right(value: impl ToString) -> Cell<'static> {
    Cell::from(Text::from(value.to_string()).alignment(Alignment::Right))
}

/// The time that 95 of 100 do not exceed.
fn quantile(histogram: &ShownTimes) -> String {
    match histogram.quantile(0.95) {
        _ if histogram.is_empty() => "-".to_owned(),
        None => "> 60 s".to_owned(),
        Some(bound) => seconds(bound),
    }
}

/// A time in the unit that suits it.
fn seconds(time: f64) -> String {
    match time {
        short if short < 0.001 => format!("{:.0} µs", short * 1e6),
        short if short < 1.0 => format!("{:.0} ms", short * 1e3),
        long => format!("{long:.1} s"),
    }
}

/// A share of a processor.
fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}
