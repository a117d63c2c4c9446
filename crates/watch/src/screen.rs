//! Drawing the state.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::keys::{KEYS, KeyAction};
use crate::order::SiteOrder;
use crate::printed::{size, visible};
use crate::rates::Rates;
use crate::state::ShownServer;
use crate::table_position::TablePosition;
use crate::tables;

/// The content of the screen.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) status: ShownServer,
    pub(crate) rates: Rates,
    /// The reason why there is no newer state.
    problem: Option<String>,
    pub(crate) order: SiteOrder,
    /// The sites are sorted the other way round.
    pub(crate) is_reversed: bool,
    /// The site whose workers are shown; `None` for all sites.
    pub(crate) only: Option<String>,
    pub(crate) table: ShownTable,
    sites: TablePosition,
    workers: TablePosition,
}

/// The table in which keys move the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownTable {
    Sites,
    Workers,
}

impl View {
    pub(crate) fn new(status: ShownServer) -> View {
        View {
            rates: Rates::of(&status, &status),
            status,
            problem: None,
            order: SiteOrder::default(),
            is_reversed: false,
            only: None,
            table: ShownTable::Sites,
            sites: TablePosition::default(),
            workers: TablePosition::default(),
        }
    }

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

    /// Does what a key means.
    pub(crate) fn act(&mut self, action: KeyAction) {
        let place = match self.table {
            ShownTable::Sites => &mut self.sites,
            ShownTable::Workers => &mut self.workers,
        };
        match action {
            KeyAction::Move(rows) => place.step(rows),
            KeyAction::Page(screens) => place.page(screens),
            KeyAction::OtherTable => {
                self.table = match self.table {
                    ShownTable::Sites => ShownTable::Workers,
                    ShownTable::Workers => ShownTable::Sites,
                }
            }
            KeyAction::OneSite => {
                self.only = match self.only {
                    Some(_) => None,
                    None => {
                        tables::sites(self).get(self.sites.selected()).map(|site| site.name.clone())
                    }
                }
            }
            KeyAction::Sort(order) => {
                self.is_reversed = order == self.order && !self.is_reversed;
                self.order = order;
            }
            KeyAction::Quit | KeyAction::Nothing => {}
        }
    }
}

pub(crate) const BUSY: Style = Style::new().fg(Color::Green);
pub(crate) const BAD: Style = Style::new().fg(Color::Red);
pub(crate) const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws the head, the sites, the workers and the foot.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &mut View) {
    // The line above a table, and its heading.
    const FRAME: u16 = 2;
    let sites = tables::sites(view).len();
    let workers = tables::workers(view).len();
    let height = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(FRAME);
    // Without the lines of head and foot. Where the tables do not fit, the one in which keys move
    // gets two thirds.
    let body = frame.area().height.saturating_sub(2);
    let thirds = match view.table {
        ShownTable::Sites => 2,
        ShownTable::Workers => 1,
    };
    let most = (body / 3 * thirds).max(body.saturating_sub(height(workers))).max(height(1));
    let [head, upper, lower, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height(sites).min(most)),
        Constraint::Min(FRAME),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view)), head);
    let room = |height: u16| usize::from(height.saturating_sub(FRAME));
    let shown = view.sites.fit(sites, room(upper.height));
    let table = tables::site_table(view, shown, view.sites.selected(), upper.width);
    frame.render_widget(table, upper);
    let shown = view.workers.fit(workers, room(lower.height));
    let table = tables::worker_table(view, shown, view.workers.selected(), lower.width);
    frame.render_widget(table, lower);
    frame.render_widget(Paragraph::new(footer(view, foot.width)), foot);
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

/// The reason why the state is an old one, or the keys.
fn footer(view: &View, width: u16) -> Line<'static> {
    match &view.problem {
        Some(problem) => Line::styled(format!("no answer: {}", visible(problem)), BAD),
        None => {
            let fits = |keys: &&&str| keys.chars().count() <= usize::from(width);
            let [.., shortest] = KEYS;
            Line::raw(*KEYS.iter().find(fits).unwrap_or(&shortest))
        }
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
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    /// The lines of the screen, and those of them that are drawn in reverse.
    fn drawn_with_marks(view: &mut View, width: u16, height: u16) -> (Vec<String>, Vec<String>) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let text = |row: u16, only: Modifier| -> String {
            let cells = (0..width).map(|column| &buffer[(column, row)]);
            cells
                .filter(|cell| cell.modifier.contains(only))
                .map(|cell| cell.symbol())
                .collect()
        };
        let lines = (0..height).map(|row| text(row, Modifier::empty())).collect();
        let marked = (0..height).map(|row| words(&text(row, Modifier::REVERSED)));
        (lines, marked.filter(|text| !text.is_empty()).collect())
    }

    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        drawn_with_marks(view, width, height).0
    }

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn press(view: &mut View, keys: &[KeyCode]) {
        let none = KeyModifiers::NONE;
        keys.iter().for_each(|key| view.act(KeyAction::of(KeyEvent::new(*key, none))));
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
        View::new(ShownServer::parse(&text).unwrap())
    }

    /// 50 sites with two workers each. Later sites have more requests, earlier ones more memory.
    fn many() -> View {
        let site = |number: usize| {
            format!(
                r#"{{"name": "site-{number:02}", "requests": {number}, "pool": {{"memory": {},
                    "workers": [{{"pid": {}}}, {{"pid": {}}}]}}}}"#,
                100 - number,
                1000 + number,
                2000 + number
            )
        };
        let sites: Vec<String> = (1..=50).map(site).collect();
        let text = format!(r#"{{"version": "1.0", "sites": [{}]}}"#, sites.join(","));
        View::new(ShownServer::parse(&text).unwrap())
    }

    #[test]
    fn sites_and_workers_have_lines() {
        let lines = drawn(&mut view(5), 160, 20);
        assert!(lines[0].starts_with("howdah 1.0 serving  up 1 d 1 h  generation 0"), "{lines:#?}");
        assert_eq!(words(&lines[3]), "shop - 7 2 0 5 1 9 - 250 ms 1.0 MiB - 0 0");
        assert_eq!(words(&lines[4]), "plain - 0 0 0");
        // The one that runs is the first, and cannot control the terminal.
        assert_eq!(words(&lines[7]), "shop 103 running 1.5 s 0 3.0 MiB - GET /a\u{fffd}[2J3");
        assert_eq!(words(&lines[8]), "shop 100 idle 1.5 s 0 3.0 MiB - GET /a\u{fffd}[2J0");
        assert!(lines[19].starts_with("q quit "), "{lines:#?}");
        assert!(lines[19].contains("m memory"), "{lines:#?}");
    }

    #[test]
    fn a_narrow_terminal_shows_whole_columns_and_the_request() {
        for (width, headings, values) in [
            (
                80,
                "site req/s 5xx busy queue script p95 memory cpu",
                "shop - 0 1 9 250 ms 1.0 MiB -",
            ),
            (60, "site req/s 5xx busy queue script p95 cpu", "shop - 0 1 9 250 ms -"),
            (40, "site req/s busy queue", "shop - 1 9"),
        ] {
            let lines = drawn(&mut view(5), width, 24);
            assert_eq!(words(&lines[2]), headings, "{lines:#?}");
            assert_eq!(words(&lines[3]), values, "{lines:#?}");
        }
        let lines = drawn(&mut view(5), 80, 24);
        assert_eq!(words(&lines[6]), "worker pid state time memory request", "{lines:#?}");
        assert_eq!(words(&lines[7]), "shop 103 running 1.5 s 3.0 MiB GET /a\u{fffd}[2J3");
        let at = lines[6].find(" request").unwrap();
        assert!(lines[6].chars().count() - at >= 24, "{lines:#?}");
    }

    #[test]
    fn more_sites_than_lines_are_scrolled_below_their_headings() {
        let mut view = many();
        let shown = |view: &mut View| {
            // Two thirds of 18 lines for the sites, less two for the title and the headings.
            let (lines, marked) = drawn_with_marks(view, 100, 20);
            assert!(words(&lines[2]).starts_with("site req/s "), "{lines:#?}");
            let names = [3, 12].map(|line: usize| words(&lines[line])[..7].to_owned());
            let selected = marked.last().map(|line| line[..7].to_owned());
            (words(lines[1].trim_matches('─')), names, selected.unwrap_or_default())
        };
        let expect = |title: &str, first: &str, last: &str, selected: &str| {
            (title.to_owned(), [first, last].map(str::to_owned), selected.to_owned())
        };
        press(&mut view, &[KeyCode::Char('n')]);
        let title = "sites 1–10 of 50, by name";
        assert_eq!(shown(&mut view), expect(title, "site-01", "site-10", "site-01"));
        press(&mut view, &[KeyCode::PageDown]);
        let title = "sites 2–11 of 50, by name";
        assert_eq!(shown(&mut view), expect(title, "site-02", "site-11", "site-11"));
        press(&mut view, &[KeyCode::End]);
        let title = "sites 41–50 of 50, by name";
        assert_eq!(shown(&mut view), expect(title, "site-41", "site-50", "site-50"));
        press(&mut view, &[KeyCode::Up]);
        assert_eq!(shown(&mut view), expect(title, "site-41", "site-50", "site-49"));
        press(&mut view, &[KeyCode::Home, KeyCode::Char('n')]);
        let title = "sites 1–10 of 50, by name, reversed";
        assert_eq!(shown(&mut view), expect(title, "site-50", "site-41", "site-50"));
        press(&mut view, &[KeyCode::Char('m')]);
        let title = "sites 1–10 of 50, by memory";
        assert_eq!(shown(&mut view), expect(title, "site-01", "site-10", "site-01"));
        press(&mut view, &[KeyCode::Char('r')]);
        let title = "sites 1–10 of 50, by req/s";
        assert_eq!(shown(&mut view), expect(title, "site-50", "site-41", "site-50"));
    }

    #[test]
    fn the_keys_move_in_the_workers_of_all_sites_or_of_one() {
        let mut view = many();
        press(&mut view, &[KeyCode::Char('n'), KeyCode::Down, KeyCode::Tab, KeyCode::End]);
        let (lines, marked) = drawn_with_marks(&mut view, 120, 20);
        assert!(lines.iter().any(|line| line.contains(" workers 91–100 of 100 ")), "{lines:#?}");
        assert!(marked.last().unwrap().starts_with("site-50 2050"), "{marked:?}");
        press(&mut view, &[KeyCode::Enter]);
        let lines = drawn(&mut view, 120, 20);
        assert!(lines.iter().any(|line| line.contains(" workers of site-02 2 ")), "{lines:#?}");
        let pids = |lines: &[String]| {
            ["1002", "2002", "1001"].map(|pid| lines.iter().any(|line| line.contains(pid)))
        };
        assert_eq!(pids(&lines), [true, true, false], "{lines:#?}");
        press(&mut view, &[KeyCode::Enter, KeyCode::Home]);
        let lines = drawn(&mut view, 120, 20);
        assert!(lines.iter().any(|line| line.contains(" workers 1–10 of 100 ")), "{lines:#?}");
    }

    #[test]
    fn a_small_terminal_has_the_count_the_order_and_the_keys() {
        let mut view = many();
        press(&mut view, &[KeyCode::End, KeyCode::Char('m')]);
        let lines = drawn(&mut view, 40, 10);
        assert!(lines[1].contains(" sites 49–50 of 50, by memory "), "{lines:#?}");
        assert_eq!(words(&lines[2]), "site req/s queue memory");
        assert!(words(&lines[4]).starts_with("site-50 - 0 50 B"), "{lines:#?}");
        assert_eq!(lines[9].trim(), KEYS[2]);
        press(&mut view, &[KeyCode::Tab]);
        let lines = drawn(&mut view, 40, 10);
        assert!(lines[1].contains(" sites 50–50 of 50, by memory "), "{lines:#?}");
        assert!(words(&lines[3]).starts_with("site-50 "), "{lines:#?}");
        assert!(lines[4].contains(" workers 1–3 of 100 "), "{lines:#?}");
        press(&mut view, &[KeyCode::Tab]);
        // The same view after the terminal has grown.
        let lines = drawn(&mut view, 200, 60);
        assert!(lines[1].contains(" sites 15–50 of 50, by memory "), "{lines:#?}");
        for (width, height) in [(1, 1), (10, 3), (300, 2), (40, 5), (3, 40), (40, 10)] {
            for key in [KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Tab] {
                press(&mut view, &[key]);
                drawn(&mut view, width, height);
            }
        }
    }

    #[test]
    fn a_lost_server_is_told_and_its_last_state_stays() {
        let mut view = view(5);
        view.update(Err("it is gone".to_owned()));
        let lines = drawn(&mut view, 100, 12);
        assert!(lines[11].starts_with("no answer: it is gone"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("shop")), "{lines:#?}");
    }
}
