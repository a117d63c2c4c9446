//! What tests of directives share.

use crate::compile::{Surroundings, compile};
use crate::settings::Settings;

/// What directives, one a line, set; or the first complaint.
pub(crate) fn settings(text: &str) -> Result<Settings, String> {
    settings_with(text, &surroundings())
}

/// The surroundings of a file with everything allowed.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings::new("/site/.htaccess", b"/site/")
}

/// The same, with other surroundings.
pub(crate) fn settings_with(text: &str, surroundings: &Surroundings) -> Result<Settings, String> {
    let compiled = compile(text.as_bytes(), surroundings);
    match compiled.mistake {
        Some(mistake) => Err(mistake.message),
        None => Ok(compiled.settings),
    }
}
