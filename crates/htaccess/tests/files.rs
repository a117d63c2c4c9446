//! Whole files, as applications bring them: `check` finds nothing wrong with them.
//!
//! `HOWDAH_HTACCESS_CORPUS` names a folder of real ones, which are looked at as well. They belong
//! to their projects and are not kept here.

#![allow(clippy::unwrap_used)] // A test's helpers fail the test.

use std::fs;
use std::path::{Path, PathBuf};

use howdah_htaccess::{CompileContext, Mistake, Severity, lint};

fn checked(file: &Path) -> Vec<Mistake> {
    let context = CompileContext::new(file.display().to_string(), b"/srv/site/");
    let source = fs::read(file).unwrap();
    lint::check(&source, &context, &mut |path| path.ends_with(b"/index.php"))
}

fn every_file(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn files_like_those_of_well_known_applications() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let files = every_file(&folder);
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let bad: Vec<String> = checked(&file)
            .iter()
            .filter(|remark| remark.kind.severity() > Severity::Note)
            .map(Mistake::to_string)
            .collect();
        assert_eq!(bad, [""; 0]);
    }
}

/// Directives of modules that hardly any Apache has; it answers 500 to them as well.
const NOT_IN_APACHE_EITHER: &[&str] = &["'ImapMenu'", "'ImapDefault'", "'ImapBase'", "'XBitHack'"];

#[test]
fn real_files() {
    let Some(folder) = std::env::var_os("HOWDAH_HTACCESS_CORPUS") else {
        howdah_skip::skip!("HOWDAH_HTACCESS_CORPUS names no folder");
        return;
    };
    let files = every_file(Path::new(&folder));
    assert!(!files.is_empty(), "{folder:?} is empty");
    let mut alarms = Vec::new();
    for remark in files.iter().flat_map(|file| checked(file)) {
        let is_known = NOT_IN_APACHE_EITHER.iter().any(|name| remark.message.contains(name));
        if remark.kind.severity() == Severity::Error && !is_known {
            alarms.push(remark.to_string());
        }
    }
    assert_eq!(alarms, [""; 0], "of {} files", files.len());
}
