//! The packages that a test needs. A test without its packages is skipped with a message.

use std::path::Path;

use howdah_skip::skip;

use crate::support::has_php;

/// Returns whether PHP can be run and all of `files` exist; if not, says why the test is
/// skipped.
pub(crate) fn installed(files: &[&str]) -> bool {
    let missing: Vec<_> = files.iter().filter(|file| !Path::new(file).exists()).collect();
    if !has_php() {
        return false;
    }
    if !missing.is_empty() {
        skip!("{missing:?} not found; scripts/install-packages.sh test installs it");
    }
    missing.is_empty()
}
