//! Charts: lines over an axis as SVG, bars as elements. The style sheet has the colours of both
//! themes.

use std::fmt::Write;

use super::text::number;

/// A line of a chart.
pub(super) struct Series {
    /// Name in the legend.
    pub(super) title: String,
    /// Number of a colour of the style sheet; a stack has the same one in every chart.
    pub(super) colour: usize,
    /// Place on the axis and value.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether the values are the study's, which are drawn dashed.
    pub(super) from_study: bool,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 58.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 26.0;

/// Draws lines over an axis with equal distances between its places, as the studies drew sweeps of
/// concurrency.
pub(super) fn lines(title: &str, axis: &str, series: &[Series]) -> String {
    let mut places: Vec<f64> =
        series.iter().flat_map(|one| one.points.iter().map(|(at, _)| *at)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let most = highest(series);
    let mut svg = begin(title, most);
    label_places(&mut svg, axis, &places);
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        draw(&mut svg, one, &places, most);
    }
    svg + "</svg>" + &legend(series)
}

fn x(at: f64, places: &[f64]) -> f64 {
    let index = places.iter().position(|place| *place == at).unwrap_or(0) as f64;
    LEFT + (WIDTH - LEFT - RIGHT)
        * if places.len() > 1 {
            index / (places.len() - 1) as f64
        } else {
            0.5
        }
}

fn label_places(svg: &mut String, axis: &str, places: &[f64]) {
    for (number_of_place, place) in places.iter().enumerate() {
        // As many labels as fit.
        if number_of_place % places.len().div_ceil(12).max(1) == 0 {
            let _ = write!(
                svg,
                "<text class=axis x={:.1} y={:.1} text-anchor=middle>{}</text>",
                x(*place, places),
                HEIGHT - BOTTOM + 24.0,
                number_of_axis(*place)
            );
        }
    }
    let _ = write!(
        svg,
        "<text class=axis x={:.1} y={:.1} text-anchor=middle>{}</text>",
        (LEFT + WIDTH) / 2.0,
        HEIGHT - 8.0,
        escape(axis)
    );
}

fn draw(svg: &mut String, series: &Series, places: &[f64], most: f64) {
    let path: Vec<String> = series
        .points
        .iter()
        .map(|(at, value)| format!("{:.1},{:.1}", x(*at, places), y(*value, most)))
        .collect();
    let study = if series.from_study { " study" } else { "" };
    let _ = write!(
        svg,
        "<polyline class=\"line c{}{study}\" points=\"{}\"/>",
        series.colour,
        path.join(" ")
    );
    for (at, value) in &series.points {
        let _ = write!(
            svg,
            "<circle class=\"dot c{}\" cx={:.1} cy={:.1} r=3.5><title>{}: {}</title></circle>",
            series.colour,
            x(*at, places),
            y(*value, most),
            escape(&series.title),
            number(*value)
        );
    }
}

/// A bar in a chart of bars.
pub(super) struct Bar {
    /// Name of the stack.
    pub(super) title: String,
    /// Number of a colour of the style sheet.
    pub(super) colour: usize,
    /// Length of the bar.
    pub(super) value: f64,
    /// The value in words.
    pub(super) label: String,
    /// Whether the values are the study's, which are drawn dashed.
    pub(super) from_study: bool,
}

/// Draws bars below each other with their names, as elements, which fit every width.
pub(super) fn bars(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let mut text = "<div class=bars>".to_owned();
    for bar in bars {
        let share = if most > 0.0 { 100.0 * bar.value / most } else { 0.0 };
        let study = if bar.from_study { " study" } else { "" };
        let _ = write!(
            text,
            "<div class=\"row{study}\"><span>{}</span><span class=track><i class=\"bar \
             c{}{study}\" style=\"width:{share:.1}%\"></i></span>\
             <b>{}</b></div>",
            escape(&bar.title),
            bar.colour,
            escape(&bar.label)
        );
    }
    text + "</div>"
}

fn begin(title: &str, most: f64) -> String {
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"{}\">", escape(title));
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let height = y(value, most);
        let _ = write!(
            svg,
            "<line class=grid x1={LEFT} x2={:.1} y1={height:.1} y2={height:.1} /><text class=axis \
             x={:.1} y={:.1} text-anchor=end>{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            height + 6.0,
            short(value)
        );
    }
    svg
}

fn y(value: f64, most: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (value / most).clamp(0.0, 1.0))
}

/// The end of the scale: a round number above the highest value, with room for a label.
fn highest(series: &[Series]) -> f64 {
    let most = series
        .iter()
        .flat_map(|one| one.points.iter().map(|(_, value)| *value))
        .fold(0.0, f64::max)
        * 1.08;
    if most <= 0.0 {
        return 1.0;
    }
    let magnitude = 10f64.powf(most.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0, 10.0];
    steps
        .iter()
        .map(|step| step * magnitude)
        .find(|end| *end >= most)
        .unwrap_or(10.0 * magnitude)
}

fn legend(series: &[Series]) -> String {
    let item = |one: &Series| {
        let study = if one.from_study { " study" } else { "" };
        format!("<li><i class=\"key c{}{study}\"></i>{}</li>", one.colour, escape(&one.title))
    };
    format!("<ul class=legend>{}</ul>", series.iter().map(item).collect::<String>())
}

/// A number for an axis: 12k, 1.5M.
pub(super) fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", trimmed(value / 1e6)),
        1e4.. => format!("{}k", trimmed(value / 1e3)),
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn number_of_axis(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

/// Escapes text for HTML and for attributes in double quotes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(f64, f64)]) -> Series {
        Series {
            title: "a <b>".to_owned(),
            colour: 1,
            points: values.to_vec(),
            from_study: false,
        }
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, end) in [(95.0, 120.0), (0.7, 0.8), (18_000.0, 20_000.0), (0.0, 1.0)] {
            assert!((highest(&[series(&[(1.0, value)])]) - end).abs() < end * 1e-9, "{value}");
        }
    }

    #[test]
    fn charts_hold_what_they_show() {
        let chart = lines("x", "clients", &[series(&[(1.0, 10.0), (2.0, 20.0)])]);
        assert_eq!(chart.matches("<circle").count(), 2);
        assert!(chart.contains("a &lt;b&gt;") && !chart.contains("a <b>"));
        let bar = |value| Bar {
            title: "a <b>".to_owned(),
            colour: 1,
            value,
            label: "5".to_owned(),
            from_study: false,
        };
        let chart = bars(&[bar(1.0), bar(2.0)]);
        assert!(
            chart.contains("width:50.0%")
                && chart.contains("width:100.0%")
                && !chart.contains("<b>\"")
        );
    }

    #[test]
    fn labels() {
        for (value, text) in
            [(0.25, "0.25"), (950.0, "950"), (12_500.0, "12.5k"), (2e6, "2M"), (5.0, "5")]
        {
            assert_eq!(short(value), text);
        }
    }
}
