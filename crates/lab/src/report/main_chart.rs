//! The main chart as an SVG file: a panel of bars for each chart, in light and dark colours.

use std::fmt::Write;

use super::chart::{escape, short};
use super::charts::colour;
use super::text::shown;
use super::verdict::charts;
use crate::record::{Cell, Figure, Run, StackOutcome};
use crate::statistics::median;

/// Panels side by side.
const COLUMNS: usize = 2;
/// Upper limit of panels: more would be too small to read.
const MOST_PANELS: usize = 8;
const PANEL: f64 = 460.0;
const NAMES: f64 = 206.0;
const VALUES: f64 = 60.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 50.0;

const STYLE: &str = "text{font:12.5px system-ui,-apple-system,'Segoe \
    UI',sans-serif;fill:#1d2126}.t{font-weight:600;font-size:14px}\
    .s{fill:#5c6670;font-size:12px}.p{fill:#fbfaf7}\
    .c0{fill:#b3540a}.c1{fill:#2563a8}.c2{fill:#2c7d4f}.c3{fill:#8d3f97}.c4{fill:#b02a48}.c5{fill:#57707f}.c6{fill:#8a7400}.c7{fill:#1c8a8a}\
    .c8{fill:#6a5acd}.c9{fill:#99621e}\
    @media(prefers-color-scheme:dark){text{fill:#e8e6e1}.s{fill:#9aa4ae}.p{fill:#15181c}.c0{fill:#f79a4b}.c1{fill:#6fb0f5}.c2{fill:#6fce97}\
    .c3{fill:#d99be2}.c4{fill:#f5849c}.c5{fill:#a3b8c4}.c6{fill:#dcc75a}.c7{fill:#67d1d1}.c8{fill:#aea3fa}.c9{fill:#d8a873}}";

struct PanelBar<'r> {
    title: &'r str,
    colour: usize,
    value: f64,
    is_bound: bool,
}

struct Panel<'r> {
    title: &'r str,
    figure: Figure,
    is_sweep: bool,
    bars: Vec<PanelBar<'r>>,
}

/// The whole file.
pub(super) fn svg(run: &Run) -> String {
    let panels: Vec<Panel> = charts(run)
        .into_iter()
        .map(|(title, cells)| panel(run, title, &cells))
        .filter(|panel| panel.bars.len() > 1)
        .take(MOST_PANELS)
        .collect();
    let (mut body, mut top) = (String::new(), 0.0);
    for line in panels.chunks(COLUMNS) {
        for (column, panel) in line.iter().enumerate() {
            draw(&mut body, panel, PANEL * column as f64, top);
        }
        let most = line.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
        top += HEAD + LINE * most as f64 + 12.0;
    }
    let (width, height) = (PANEL * COLUMNS.min(panels.len().max(1)) as f64, top + 26.0);
    let machine = |name: &str| {
        let fact = run.machine.iter().find(|(known, _)| known == name);
        fact.map_or("?", |(_, value)| value.as_str())
    };
    let foot = format!(
        "howdah-lab run {}, {}: {} rounds on {} × {}; the load generator shares the processors",
        run.scenario,
        run.began.split('T').next().unwrap_or_default(),
        run.rounds,
        machine("processors"),
        machine("processor")
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"{0}\"><style>{STYLE}</style><rect class=\"p\" width=\"{width}\" \
         height=\"{height}\" rx=\"8\"/>{body}\
         <text class=\"s\" x=\"16\" y=\"{1}\">{0}</text></svg>\n",
        escape(&foot),
        height - 12.0
    )
}

/// Makes a panel. A sweep shows the best place of every stack.
fn panel<'r>(run: &'r Run, title: &'r str, cells: &[&'r Cell]) -> Panel<'r> {
    let figure = cells[0].figure;
    let best = |name: &str| {
        let values = cells.iter().filter_map(|cell| {
            let outcome = cell.results.get(name)?;
            Some((median(&outcome.values(figure))?, outcome.is_loader_bound()))
        });
        values.reduce(|a, b| if (b.0 > a.0) == figure.more_is_better() { b } else { a })
    };
    let mut bars: Vec<PanelBar> = run
        .stacks
        .iter()
        .filter_map(|stack| {
            let (value, is_bound) = best(&stack.name)?;
            Some(PanelBar {
                title: &stack.title,
                colour: colour(run, &stack.name),
                value,
                is_bound,
            })
        })
        .collect();
    sort(&mut bars, figure);
    Panel {
        title,
        figure,
        is_sweep: cells.len() > 1,
        bars,
    }
}

fn sort(bars: &mut [PanelBar], figure: Figure) {
    bars.sort_by(|a, b| {
        if figure.more_is_better() {
            b.value.total_cmp(&a.value)
        } else {
            a.value.total_cmp(&b.value)
        }
    });
}

fn draw(svg: &mut String, panel: &Panel, left: f64, top: f64) {
    let most = panel.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let unit = if panel.figure.is_memory() { ", MiB" } else { "" };
    let direction = if panel.figure.more_is_better() {
        "more is better"
    } else {
        "less is better"
    };
    let best = if panel.is_sweep { ", best of the sweep" } else { "" };
    let _ = write!(
        svg,
        "<text class=\"t\" x=\"{0}\" y=\"{1}\">{2}</text><text class=\"s\" x=\"{0}\" \
         y=\"{3}\">{4}{unit}, {direction}{best}</text>",
        left + 16.0,
        top + 24.0,
        escape(&capital(panel.title)),
        top + 41.0,
        panel.figure.title()
    );
    let room = PANEL - NAMES - VALUES - 24.0;
    for (at, bar) in panel.bars.iter().enumerate() {
        let y = top + HEAD + LINE * at as f64;
        let width = if most > 0.0 { room * bar.value / most } else { 0.0 };
        let bound = if bar.is_bound { "†" } else { "" };
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\">{}</text><rect class=\"c{}\" x=\"{:.0}\" y=\"{:.1}\" \
             width=\"{:.1}\" height=\"14\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}{bound}</text>",
            left + 16.0,
            y + 12.0,
            escape(&cut(bar.title)),
            bar.colour,
            left + NAMES,
            y + 1.0,
            width.max(1.0),
            left + NAMES + width.max(1.0) + 6.0,
            y + 12.0,
            short(shown(panel.figure, bar.value))
        );
    }
}

/// Returns the title with a capital first letter.
pub(super) fn capital(title: &str) -> String {
    let mut letters = title.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Shortens a name to the available room.
fn cut(title: &str) -> String {
    const MOST: usize = 25;
    if title.chars().count() <= MOST {
        return title.to_owned();
    }
    title.chars().take(MOST - 1).chain(['…']).collect()
}

impl StackOutcome {
    /// Returns whether the load generator was the limit in most of the rounds that count.
    pub(super) fn is_loader_bound(&self) -> bool {
        let bound = self.valid().filter(|round| round.loader_bound).count();
        bound * 2 > self.valid().count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::run;
    use super::*;

    #[test]
    fn it_is_a_file_of_its_own_that_knows_both_themes() {
        let text = svg(&run(&[40_000.0, 41_000.0], &[20_000.0, 20_000.0]));
        assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        for part in
            ["prefers-color-scheme:dark", "HelloWorld.php", "40.5k", "20k", "nginx + php-fpm"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // XML requires quotes around all values.
        assert!(!text.contains("=1") && !text.contains("=t>"), "{text}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("Apache prefork + mod_php, AllowOverride All").chars().count(), 25);
        assert_eq!(cut("Howdah"), "Howdah");
    }
}
