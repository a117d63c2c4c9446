//! Finds the small changes of a crate (*mutants*) that none of its tests notices.
//!
//! The sources are rewritten so that a number in the environment chooses the mutant. The crate is
//! built once. Each test is run by itself to find out which mutants it reaches, and each mutant
//! with the tests that reach it, the fastest first. See docs/developers/mutants.md.
#![forbid(unsafe_code)]

mod build;
mod find;
mod list;
mod operators;
mod rewrite;
mod run;
mod values;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use build::Tree;
use find::Source;
use list::{Counts, List};
use run::{Outcome, Tests};

const USAGE: &str = "usage: howdah-mutants CRATE [--listed] [--slowest SECONDS] [TEXT]
  CRATE      a folder of crates: http, site, htaccess, ipc, php
  --listed   only the mutants of docs/developers/mutants/CRATE.txt, with new tests
  --slowest  leave out the tests that take longer than this; 2 by default
  TEXT       only the mutants whose file, function or change contains this; writes no list";

fn main() -> ExitCode {
    let Some(wish) = Wish::from_arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match find_unnoticed(&wish) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("mutants: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The wish of the command line.
#[derive(Debug, PartialEq)]
struct Wish {
    name: String,
    is_listed: bool,
    slowest: Duration,
    text: Option<String>,
}

impl Wish {
    /// Reads the arguments; `None` if they are wrong.
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Option<Wish> {
        let name = arguments.next().filter(|name| !name.is_empty() && !name.starts_with('-'))?;
        let slowest = Duration::from_secs(2);
        let mut wish = Wish {
            name,
            is_listed: false,
            slowest,
            text: None,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--listed" => wish.is_listed = true,
                "--slowest" => {
                    let seconds = arguments.next()?.parse().ok()?;
                    wish.slowest = Duration::try_from_secs_f64(seconds).ok()?;
                }
                text if text.starts_with('-') || wish.text.is_some() => return None,
                text => wish.text = Some(text.to_owned()),
            }
        }
        Some(wish)
    }
}

fn find_unnoticed(wish: &Wish) -> Result<(), String> {
    let root = root()?;
    let path = root.join("docs/developers/mutants").join(format!("{}.txt", wish.name));
    let old = List::read(&path)?;
    let sources = find::sources(&root, &wish.name)?;
    let mutants: Vec<_> = sources.iter().flat_map(Source::mutants).collect();
    let tree = Tree::copy(&root, &wish.name)?;
    let (programs, unbuilt) = build::build(&tree, &sources)?;
    let tests = Tests::measure(&tree, &programs, mutants.len(), wish.slowest)?;

    let is_wanted = |name: &str| {
        wish.text.as_ref().is_none_or(|text| name.contains(text))
            && (!wish.is_listed || old.has(name))
    };
    let names = list::names(&mutants);
    let wanted: Vec<_> = mutants.iter().zip(&names).filter(|(_, name)| is_wanted(name)).collect();
    let mut outcomes = Vec::new();
    for (position, (mutant, name)) in wanted.iter().enumerate() {
        if position % 100 == 0 {
            eprintln!("mutants: {position} of {}", wanted.len());
        }
        let outcome = if unbuilt.contains(&mutant.number) {
            Outcome::NotBuilt
        } else {
            tests.try_mutant(&tree, mutant.number)?
        };
        if matches!(outcome, Outcome::Missed | Outcome::NotReached) {
            println!("{outcome}: {name}");
        }
        outcomes.push((name.as_str(), outcome));
    }
    let mut counts = Counts::of(outcomes.iter().map(|(_, outcome)| *outcome));
    if wish.is_listed {
        counts = counts.with_unlisted(&old.counts, outcomes.len(), mutants.len())?;
    }
    println!("{counts}");
    if wish.text.is_none() {
        let new = List::new(&wish.name, counts, tests.left_out(), &outcomes, &old);
        new.write(&path)?;
        println!("mutants: wrote {}; {} have no reason", path.display(), new.without_reason());
    }
    Ok(())
}

/// The folder of the workspace, which contains this package's.
fn root() -> Result<PathBuf, String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .map(Path::to_owned)
        .ok_or_else(|| "the package has no parent folder".into())
}

/// The numbers of some mutants.
type Numbers = BTreeSet<u32>;

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(arguments: &[&str]) -> Option<Wish> {
        Wish::from_arguments(arguments.iter().map(|argument| argument.to_string()))
    }

    #[test]
    fn arguments_are_read() {
        let all = wish(&["php"]).unwrap();
        assert_eq!((all.name.as_str(), all.is_listed, all.text), ("php", false, None));
        let some = wish(&["ipc", "--slowest", "0.5", "--listed", "src/queue.rs"]).unwrap();
        assert_eq!((some.slowest, some.is_listed), (Duration::from_millis(500), true));
        assert_eq!(some.text.as_deref(), Some("src/queue.rs"));
        for wrong in [&[] as &[&str], &["--listed"], &["php", "a", "b"], &["php", "--slowest"]] {
            assert_eq!(wish(wrong), None, "{wrong:?}");
        }
    }
}
