//! Draws a run: an HTML file without external parts, tables, CSV, and the comparison of two runs.

mod beside;
mod chart;
mod charts;
mod html;
mod main_chart;
mod ramp;
mod style;
mod targets;
mod text;
mod verdict;

use std::path::{Path, PathBuf};

use crate::loads::Wrong;
use crate::record::Run;
use crate::runner::write_run;

pub use text::{csv, diff_text, table};

/// Writes `run.json` and all that is drawn from it into that folder; returns the path of
/// `report.html`.
///
/// # Errors
///
/// A file cannot be written.
pub fn write(folder: &Path, run: &Run) -> Result<PathBuf, Wrong> {
    write_run(folder, run)?;
    draw(folder, run)
}

/// Writes `run.csv`, `table.md`, `chart.svg` and `report.html`; returns the path of the last one.
fn draw(folder: &Path, run: &Run) -> Result<PathBuf, Wrong> {
    let put = |name: &str, text: String| {
        let file = folder.join(name);
        std::fs::write(&file, text)
            .map_err(|error| Wrong(format!("cannot write {}: {error}", file.display())))?;
        Ok::<PathBuf, Wrong>(file)
    };
    put("run.csv", csv(run))?;
    put("table.md", table(run) + "\n")?;
    put("chart.svg", main_chart::svg(run))?;
    put("report.html", html::page(run)?)
}

/// Draws the report of a run from its `run.json`, which stays as it is.
///
/// # Errors
///
/// `run.json` cannot be read, or a drawing cannot be written.
pub fn redraw(folder: &Path) -> Result<PathBuf, Wrong> {
    draw(folder, &read(folder)?)
}

/// Reads the run in that folder.
///
/// # Errors
///
/// There is no `run.json` that this version can read.
pub fn read(folder: &Path) -> Result<Run, Wrong> {
    let file = folder.join("run.json");
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Wrong(format!("{}: {error}", file.display())))?;
    let run: Run = serde_json::from_str(&text)
        .map_err(|error| Wrong(format!("{}: {error}", file.display())))?;
    if run.format != 1 {
        return Err(Wrong(format!(
            "{}: format {} is of another version of howdah-lab",
            file.display(),
            run.format
        )));
    }
    Ok(run)
}

/// Compares two runs.
///
/// # Errors
///
/// One of the runs cannot be read.
pub fn diff(before: &Path, after: &Path) -> Result<String, Wrong> {
    Ok(diff_text(&read(before)?, &read(after)?))
}

/// The present time as `2026-01-31T12:34:56Z`.
pub fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(seconds)
}

/// Days into years, months and days as in Hinnant's `civil_from_days`.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
