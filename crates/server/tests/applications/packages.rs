//! The packages that a test needs. A test without its packages is skipped with a message.

use std::io::Write;
use std::path::Path;

use crate::support::has_php;

/// Returns whether PHP can be run and all of `files` exist; if not, prints why `test` is skipped.
pub(crate) fn installed(test: &str, files: &[&str]) -> bool {
    let missing: Vec<_> = files.iter().filter(|file| !Path::new(file).exists()).collect();
    if !has_php() {
        skip(test, "howdah-php is not built, or without PHP");
    } else if !missing.is_empty() {
        skip(test, &format!("{missing:?} not found; scripts/install-packages.sh test installs it"));
    } else {
        return true;
    }
    false
}

/// Says that `test` is skipped.
#[allow(clippy::explicit_write)] // The test harness keeps what eprintln! prints to itself.
pub(crate) fn skip(test: &str, why: &str) {
    writeln!(std::io::stderr(), "skipped: {test}: {why}").unwrap();
}
