//! What tests of directives share.

use crate::compile::{Scope, Surroundings};
use crate::directive::{self, Arguments, Call, Overrides};
use crate::mistake::Place;
use crate::settings::Settings;

use super::core::word::{next_word, words};

/// What directives, one a line, set; or the first complaint.
pub(crate) fn settings(text: &str) -> Result<Settings, String> {
    settings_with(text, &surroundings())
}

/// The surroundings of a file with everything allowed.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        file: "/site/.htaccess".into(),
        folder: (*b"/site/").into(),
        overrides: Overrides::ALL,
        override_list: Vec::new(),
        options: None,
        defines: Vec::new(),
    }
}

/// The same, with other surroundings.
pub(crate) fn settings_with(text: &str, surroundings: &Surroundings) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (index, line) in text.lines().enumerate() {
        let Some((name, rest)) = next_word(line.as_bytes()) else {
            continue;
        };
        let name = String::from_utf8(name).unwrap();
        let directive = directive::all()
            .find(|directive| directive.name.eq_ignore_ascii_case(&name))
            .unwrap_or_else(|| panic!("no directive {name}"));
        let words = match directive.arguments {
            Arguments::Raw => Vec::new(),
            _ => words(rest),
        };
        let call = Call {
            name: &name,
            raw: rest,
            words: &words,
            place: &Place {
                file: surroundings.file.clone(),
                line: index as u32 + 1,
                column: 1,
            },
            scope: &Scope {
                surroundings,
                methods: None,
                in_files: false,
                in_condition: false,
            },
        };
        (directive.apply)(&call, &mut settings).map_err(|complaint| complaint.message)?;
    }
    Ok(settings)
}
