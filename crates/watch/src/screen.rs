//! Drawing the state.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use crate::printed::{size, visible};
use crate::rates::Rates;
use crate::state::{ShownServer, ShownSite, ShownTimes, ShownWorker};

/// The content of the screen.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) status: ShownServer,
    pub(crate) rates: Rates,
    /// The reason why there is no newer state.
    pub(crate) problem: Option<String>,
    /// Number of the first worker that is shown.
    pub(crate) first: usize,
}

impl View {
    /// Takes a new state, or the reason why there is none.
    pub(crate) fn update(&mut self, asked: Result<ShownServer, String>) {
        match asked {
            Ok(status) => {
                self.rates = Rates::of(&self.status, &status);
                self.status = status;
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// Scrolls the workers. Drawing corrects a position behind the last one.
    pub(crate) fn scroll(&mut self, lines: isize) {
        self.first = self.first.saturating_add_signed(lines);
    }
}

const BUSY: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the head, the sites, the workers and the foot.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    // The border above a table, and its heading.
    const FRAME: u16 = 2;
    let sites = u16::try_from(view.status.sites.len()).unwrap_or(u16::MAX);
    // The workers get at least half of a low screen.
    let sites = sites.saturating_add(FRAME).min(frame.area().height / 2);
    let [head, upper, lower, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(sites),
        Constraint::Min(FRAME),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view)), head);
    frame.render_widget(site_table(view, upper.width), upper);
    let workers = workers(&view.status);
    let room = usize::from(lower.height.saturating_sub(FRAME));
    view.first = view.first.min(workers.len().saturating_sub(room));
    frame.render_widget(worker_table(&workers, view, room, lower.width), lower);
    frame.render_widget(Paragraph::new(footer(view)), foot);
}

fn heading(view: &View) -> Line<'static> {
    let status = &view.status;
    Line::from(vec![
        Span::styled(
            format!("howdah {} {}", visible(&status.version), visible(&status.state)),
            HEADING,
        ),
        Span::raw(format!(
            "  up {}  generation {}  {:.1} requests/s  {} requests  {} of content  {} connections",
            period(status.uptime),
            status.generation,
            view.rates.requests,
            status.requests,
            size(status.bytes),
            status.connections.open,
        )),
    ])
}

fn footer(view: &View) -> Line<'static> {
    match &view.problem {
        Some(problem) => Line::styled(format!("no answer: {}", visible(problem)), BAD),
        None => Line::raw("q: quit  up, down, page up, page down: scroll the workers"),
    }
}

/// The columns of the sites.
const SITES: Columns = Columns {
    all: &[
        ("site", 20),
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
        "5xx",
        "script p95",
    ],
};

fn site_table(view: &View, width: u16) -> Table<'static> {
    let rows = view.status.sites.iter().map(|site| site_row(site, &view.rates));
    table("sites", &SITES, width, rows)
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
    first_to_go: &["requests", "cpu", "memory", "pid"],
};

/// All workers with the names of their sites: those that run a script first, the longest ones
/// before.
fn workers(status: &ShownServer) -> Vec<(String, ShownWorker)> {
    let mut workers: Vec<(String, ShownWorker)> = Vec::new();
    for site in &status.sites {
        let all = site.pool.iter().flat_map(|pool| &pool.workers);
        workers.extend(all.map(|worker| (site.name.clone(), worker.clone())));
    }
    workers.sort_by(|(_, one), (_, other)| {
        let running = other.is_running().cmp(&one.is_running());
        let time = || match one.is_running() {
            true => other.time.total_cmp(&one.time),
            false => std::cmp::Ordering::Equal,
        };
        running.then_with(time)
    });
    workers
}

fn worker_table(
    workers: &[(String, ShownWorker)],
    view: &View,
    room: usize,
    width: u16,
) -> Table<'static> {
    let shown = workers.iter().skip(view.first).take(room);
    let rows = shown.map(|(site, worker)| worker_row(site, worker, &view.rates));
    let title = match workers.len() > room {
        true => format!("workers {} to {} of {}", view.first + 1, view.first + room, workers.len()),
        false => format!("workers {}", workers.len()),
    };
    table(&title, &WORKERS, width, rows)
}

fn worker_row(site: &str, worker: &ShownWorker, rates: &Rates) -> (Vec<Cell<'static>>, Style) {
    let share = rates.worker(worker.pid);
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
        right(share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))),
        Cell::from(request),
    ];
    (cells, if worker.is_running() { BUSY } else { Style::new() })
}

/// The columns of a table: heading and width, where 0 is the rest.
struct Columns {
    all: &'static [(&'static str, u16)],
    /// Those that a narrow terminal does not show, in the order in which they go. A number that is
    /// cut looks like another one.
    first_to_go: &'static [&'static str],
}

/// The least width of a name, and of the column that gets the rest.
const LEAST_NAME: u16 = 12;
const LEAST_REST: u16 = 24;

impl Columns {
    /// Returns the columns that fit: number, heading and width.
    fn within(&self, width: u16) -> Vec<(usize, &'static str, Constraint)> {
        let least = |(number, (_, width)): &(usize, &(&str, u16))| match (*number, *width) {
            (0, _) => LEAST_NAME,
            (_, 0) => LEAST_REST,
            (_, width) => width,
        };
        let mut kept: Vec<_> = self.all.iter().enumerate().collect();
        let needed = |kept: &[(usize, &(&str, u16))]| {
            kept.iter().map(|column| least(column) + 1).sum::<u16>() - 1
        };
        for name in self.first_to_go {
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

/// A table below a line with its title, as far as its columns fit into `width`.
fn table(
    title: &str,
    columns: &Columns,
    width: u16,
    rows: impl Iterator<Item = (Vec<Cell<'static>>, Style)>,
) -> Table<'static> {
    let shown = columns.within(width);
    let heading = shown.iter().map(|(_, name, _)| match *name {
        "state" | "request" => Cell::from(format!(" {name}")),
        "site" | "worker" => Cell::from(*name),
        name => right(name),
    });
    let heading = Row::new(heading).style(HEADING);
    let rows = rows.map(|(cells, style)| {
        let cells =
            shown.iter().map(|(number, ..)| cells.get(*number).cloned().unwrap_or_default());
        Row::new(cells).style(style)
    });
    let widths = shown.iter().map(|(.., constraint)| *constraint);
    let block = Block::new().borders(Borders::TOP).title(format!(" {title} "));
    Table::new(rows, widths).header(heading).block(block)
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

/// A long time in its two largest units.
fn period(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// The lines of the screen.
    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect();
        (0..height).map(line).collect()
    }

    fn view(workers: usize) -> View {
        let workers: Vec<String> = (0..workers)
            .map(|number| {
                let state = if number == 3 { "running" } else { "idle" };
                format!(
                    r#"{{"pid": {}, "state": "{state}", "method": "GET", "url": "/a\u001b[2J{number}",
                        "time": 1.5, "pss": 3145728, "cpu": 1.0}}"#,
                    100 + number
                )
            })
            .collect();
        let text = format!(
            r#"{{"version": "1.0", "state": "serving", "uptime": 90061, "time": 5, "requests": 7,
                "sites": [{{"name": "shop", "requests": 7, "classes": {{"4xx": 2}}, "pool": {{
                "workers": [{}], "active": 1, "queue": 9, "memory": 1048576,
                "duration": {{"buckets": [[0.01, 3], [0.25, 7]], "count": 7}}}}}},
                {{"name": "plain"}}]}}"#,
            workers.join(",")
        );
        let status = ShownServer::parse(&text).unwrap();
        View {
            rates: Rates::of(&status, &status),
            status,
            problem: None,
            first: 0,
        }
    }

    #[test]
    fn sites_and_workers_have_lines() {
        let lines = drawn(&mut view(5), 150, 20);
        assert!(lines[0].starts_with("howdah 1.0 serving  up 1 d 1 h  generation 0"), "{lines:#?}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[3]), "shop - 7 2 0 5 1 9 - 250 ms 1.0 MiB 0 0");
        assert_eq!(words(&lines[4]), "plain - 0 0 0");
        // The one that runs is the first, and cannot control the terminal.
        assert_eq!(words(&lines[7]), "shop 103 running 1.5 s 0 3.0 MiB - GET /a\u{fffd}[2J3");
        assert_eq!(words(&lines[8]), "shop 100 idle 1.5 s 0 3.0 MiB - GET /a\u{fffd}[2J0");
        assert!(lines[19].starts_with("q: quit"), "{lines:#?}");
    }

    #[test]
    fn a_narrow_terminal_shows_whole_columns_and_the_request() {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        for (width, headings, values) in [
            (
                80,
                "site req/s 5xx busy queue wait p95 script p95 memory",
                "shop - 0 1 9 - 250 ms 1.0 MiB",
            ),
            (60, "site req/s 5xx busy queue script p95", "shop - 0 1 9 250 ms"),
        ] {
            let lines = drawn(&mut view(5), width, 24);
            assert_eq!(words(&lines[2]), headings, "{lines:#?}");
            assert_eq!(words(&lines[3]), values, "{lines:#?}");
        }
        let lines = drawn(&mut view(5), 80, 24);
        assert_eq!(words(&lines[6]), "worker pid state time memory request", "{lines:#?}");
        assert_eq!(words(&lines[7]), "shop 103 running 1.5 s 3.0 MiB GET /a\u{fffd}[2J3");
        let at = lines[6].find(" request").unwrap();
        assert!(width_of(&lines[6]) - at >= usize::from(LEAST_REST), "{lines:#?}");
    }

    fn width_of(line: &str) -> usize {
        line.chars().count()
    }

    #[test]
    fn more_workers_than_lines_are_scrolled() {
        let mut view = view(50);
        view.scroll(isize::MAX);
        let lines = drawn(&mut view, 120, 20);
        assert!(lines.iter().any(|line| line.contains("workers 39 to 50 of 50")), "{lines:#?}");
        assert!(lines[18].contains(" 149 "), "{lines:#?}");
        view.scroll(-1);
        assert_eq!(view.first, 37);
        view.scroll(isize::MIN);
        assert_eq!(view.first, 0);
    }

    #[test]
    fn a_tiny_screen_and_a_lost_server_are_no_mistake() {
        let mut view = view(5);
        for (width, height) in [(1, 1), (10, 3), (300, 2)] {
            drawn(&mut view, width, height);
        }
        view.update(Err("it is gone".to_owned()));
        let lines = drawn(&mut view, 100, 12);
        assert!(lines[11].starts_with("no answer: it is gone"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("shop")), "{lines:#?}");
    }
}
