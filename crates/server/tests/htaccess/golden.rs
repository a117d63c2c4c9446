//! Apache's recorded answers, which are kept beside the cases. Without an Apache, Howdah is
//! compared with them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::answer::Answer;

/// The answers recorded for a group of cases.
#[derive(Debug, Default)]
pub struct Golden {
    /// The version of the Apache that answered.
    pub version: String,
    answers: HashMap<(String, String), Answer>,
}

impl Golden {
    /// The recorded answers for the file of cases of that name; none where nothing was recorded.
    pub fn read(folder: &Path, group: &str) -> Golden {
        let text = std::fs::read_to_string(file(folder, group)).unwrap_or_default();
        let mut golden = Golden::default();
        let (mut title, mut request) = (String::new(), String::new());
        for line in text.lines() {
            if let Some(version) = line.strip_prefix("# ") {
                golden.version = version.to_owned();
            } else if let Some(words) = line.strip_prefix("== ") {
                title = words.to_owned();
            } else if let Some(words) = line.strip_prefix("> ") {
                request = words.to_owned();
                golden.answers.insert((title.clone(), request.clone()), Answer::default());
            } else if let Some(line) = line.strip_prefix("  ") {
                let answer = golden.answers.entry((title.clone(), request.clone())).or_default();
                answer.0.push(line.to_owned());
            }
        }
        golden
    }

    pub fn answer(&self, title: &str, request: &str) -> Option<&Answer> {
        self.answers.get(&(title.to_owned(), request.to_owned()))
    }
}

/// Writes a group's answers: title, request, answer, in the order of the cases.
pub fn write<'a>(
    folder: &Path,
    group: &str,
    version: &str,
    answers: impl Iterator<Item = (&'a str, &'a str, &'a Answer)>,
) {
    let mut text = format!("# {version}\n");
    let mut last = "";
    for (title, request, answer) in answers {
        if title != last {
            writeln!(text, "== {title}").unwrap();
            last = title;
        }
        write!(text, "> {request}\n{answer}").unwrap();
    }
    std::fs::write(file(folder, group), text).unwrap();
}

fn file(folder: &Path, group: &str) -> PathBuf {
    folder.join(format!("{group}.golden"))
}
