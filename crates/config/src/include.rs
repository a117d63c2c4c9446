//! The files of a configuration: the first one, and those that `include` names.
//!
//! This module alone reads the disk.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Errors, MistakeCollector, Position, SourceText};

/// The files of a configuration, each with its text, and the mistakes in what they include.
pub(crate) struct ConfigFiles {
    /// The first one, then those that it includes.
    pub(crate) sources: Vec<SourceText>,
    /// The paths of `sources`, without links.
    real_paths: Vec<PathBuf>,
    mistakes: Vec<(Position, String, String)>,
}

/// A chain of files longer than this is refused.
const MOST_DEPTH: usize = 8;

/// More files than this are refused.
const MOST_FILES: usize = 10_000;

impl ConfigFiles {
    /// Reads the file at `path` and the files that it includes.
    ///
    /// # Errors
    /// The file at `path` cannot be read. Mistakes in what it includes are kept for
    /// [`report`](ConfigFiles::report).
    pub(crate) fn load(path: &Path) -> Result<ConfigFiles, Errors> {
        let name = path.display().to_string();
        let text = read(path).map_err(|why| Errors::unreadable(&name, why))?;
        let mut files = ConfigFiles {
            sources: Vec::new(),
            real_paths: Vec::new(),
            mistakes: Vec::new(),
        };
        files.add(path, text, &mut Vec::new());
        Ok(files)
    }

    /// A single text, which is not on a disk. Files that it includes are not read.
    pub(crate) fn of_text(text: &str, name: &str) -> ConfigFiles {
        ConfigFiles {
            sources: vec![SourceText {
                name: name.to_owned(),
                text: text.to_owned(),
            }],
            real_paths: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    /// Adds the mistakes in what the files include.
    pub(crate) fn report(&self, report: &mut MistakeCollector<'_>) {
        for (position, message, help) in &self.mistakes {
            report.add_at(position.clone(), message.clone(), Some(help.clone()));
        }
    }

    /// Adds a file, and those that it includes. `chain`: the numbers of the files that have led to
    /// it.
    fn add(&mut self, path: &Path, text: String, chain: &mut Vec<usize>) {
        let number = self.sources.len();
        let included = includes(&text);
        let name = path.display().to_string();
        self.sources.push(SourceText { name, text });
        self.real_paths.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        chain.push(number);
        let folder = path.parent().unwrap_or(Path::new(""));
        for (span, pattern) in included {
            let position = Position { file: number, span };
            if chain.len() > MOST_DEPTH {
                let message = format!("more than {MOST_DEPTH} files include each other in turn");
                self.refuse(&position, message, "include the file from one of the first files");
                continue;
            }
            let found = find(&folder.join(&pattern));
            if found.is_empty() && !is_pattern(pattern.as_bytes()) {
                self.refuse(&position, format!("there is no file `{pattern}`"), LOST);
            }
            for path in found {
                self.include(&path, &position, chain);
            }
        }
        chain.pop();
    }

    fn include(&mut self, path: &Path, position: &Position, chain: &mut Vec<usize>) {
        let shown = path.display();
        if self.sources.len() >= MOST_FILES {
            let message = format!("more than {MOST_FILES} files are included");
            return self.refuse(position, message, "put several sites into one file");
        }
        let real_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(first) = self.real_paths.iter().position(|known| *known == real_path) {
            let (message, help) = match chain.contains(&first) {
                true => (format!("{shown} includes itself"), "leave one of the files out"),
                false => (format!("{shown} is included twice"), "include each file once"),
            };
            return self.refuse(position, message, help);
        }
        match read(path) {
            Ok(text) => self.add(path, text, chain),
            Err(why) => self.refuse(position, format!("{shown} {why}"), LOST),
        }
    }

    fn refuse(&mut self, position: &Position, message: String, help: &str) {
        self.mistakes.push((position.clone(), message, help.to_owned()));
    }
}

const LOST: &str =
    "paths start at the folder of the file that includes; `sites/*.toml` may match none";

/// Returns the patterns of the key `include`, with their spans. Wrong values are left to the reader
/// of the keys.
fn includes(text: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let (document, _) = DeTable::parse_recoverable(text);
    let Some(value) = document.get_ref().get("include") else {
        return Vec::new();
    };
    let one = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(pattern) if !pattern.is_empty() => {
            Some((value.span(), pattern.to_string()))
        }
        _ => None,
    };
    match value.get_ref().as_array() {
        Some(items) => items.iter().filter_map(one).collect(),
        None => one(value).into_iter().collect(),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let text = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    String::from_utf8(text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("is not UTF-8 text (first bad byte at offset {at})")
    })
}

/// Returns the files that match a path with `*` and `?` in its names, in the order of their names.
/// A pattern does not match a name that begins with a dot, unless it does so, too.
fn find(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut has_pattern = false;
    for part in pattern.components() {
        let name = part.as_os_str();
        if !is_pattern(name.as_bytes()) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        has_pattern = true;
        found = found.iter().flat_map(|folder| matching(folder, name.as_bytes())).collect();
    }
    found.retain(|path| match has_pattern {
        true => path.is_file(),
        false => path.exists(),
    });
    found
}

fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?".contains(byte))
}

/// Returns the paths in a folder whose names match, sorted.
fn matching(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let place = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name())
        .filter(|name| {
            let name = name.as_bytes();
            (pattern.starts_with(b".") || !name.starts_with(b".")) && matches(pattern, name)
        })
        .collect();
    names.sort();
    names.iter().map(|name| folder.join(name)).collect()
}

/// Returns whether a name matches a pattern, in which `*` stands for any bytes and `?` for one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut rest) = (0, pattern);
    // The last `*` and the place up to which it stands for bytes.
    let mut star: Option<(&[u8], usize)> = None;
    loop {
        match rest {
            [b'*', after @ ..] => {
                star = Some((after, at));
                rest = after;
                continue;
            }
            [] if at == name.len() => return true,
            [byte, after @ ..] if at < name.len() && (*byte == b'?' || *byte == name[at]) => {
                rest = after;
                at += 1;
                continue;
            }
            _ => {}
        }
        match &mut star {
            Some((after, end)) if *end < name.len() => {
                *end += 1;
                (rest, at) = (*after, *end);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let rows = [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.toml~", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2", false),
            ("??", "ab", true),
            ("??", "abc", false),
            ("*", "", true),
            ("**a", "aaa", true),
            ("", "", true),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
