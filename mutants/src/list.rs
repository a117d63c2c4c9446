//! The list of the mutants that no test notices: docs/developers/mutants/CRATE.txt.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::find::Mutant;
use crate::run::Outcome;

/// The heading of the mutants that nobody has looked at.
const NO_REASON: &str = "No reason yet";

/// The list. People write its headings, which say why the mutants below them are left, and move
/// mutants below them. A new list keeps the headings.
#[derive(Default)]
pub struct List {
    pub counts: Counts,
    about: String,
    /// Headings with rows: outcome and name.
    parts: Vec<(String, Vec<(String, String)>)>,
}

impl List {
    /// Reads a list; an empty one if there is no file.
    pub fn read(path: &Path) -> Result<List, String> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(List::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(List::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> List {
        let mut list = List::default();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                list.parts.push((heading.to_owned(), vec![]));
            } else if let Some(counts) = line.strip_prefix("# ").and_then(Counts::parse) {
                list.counts = counts;
            } else if let (Some((outcome, name)), Some((_, rows))) =
                (line.split_once(": "), list.parts.last_mut())
            {
                rows.push((outcome.to_owned(), name.to_owned()));
            }
        }
        list
    }

    /// Makes the list of the mutants that no test noticed, with the headings of an old list.
    pub fn new(
        crate_name: &str,
        counts: Counts,
        left_out: &[String],
        outcomes: &[(&str, Outcome)],
        old: &List,
    ) -> List {
        let mut about = format!(
            "# The mutants of howdah-{crate_name} that no test notices. Written by\n\
             # `make mutants-fast CRATE={crate_name}`, which keeps the headings.\n"
        );
        for test in left_out {
            let _ = writeln!(about, "# Without the test {test}");
        }
        let headings = old.parts.iter().map(|(heading, _)| heading.clone());
        let mut headings: Vec<_> = headings.filter(|heading| heading != NO_REASON).collect();
        headings.push(NO_REASON.into());
        let mut parts: Vec<_> = headings.into_iter().map(|heading| (heading, vec![])).collect();
        for (name, outcome) in outcomes {
            if matches!(outcome, Outcome::Missed | Outcome::NotReached) {
                let heading = old.heading(name).unwrap_or(NO_REASON);
                let part = parts.iter_mut().find(|(other, _)| other == heading);
                let row = (outcome.to_string(), name.to_string());
                part.expect("every heading has a part").1.push(row);
            }
        }
        parts.retain(|(_, rows)| !rows.is_empty());
        List { counts, about, parts }
    }

    fn heading(&self, name: &str) -> Option<&str> {
        let mut parts = self.parts.iter();
        let found = parts.find(|(_, rows)| rows.iter().any(|(_, other)| other == name));
        found.map(|(heading, _)| heading.as_str())
    }

    /// Whether the mutant of this name is in the list.
    pub fn has(&self, name: &str) -> bool {
        self.heading(name).is_some()
    }

    /// How many mutants nobody has looked at.
    pub fn without_reason(&self) -> usize {
        let parts = self.parts.iter().filter(|(heading, _)| heading == NO_REASON);
        parts.map(|(_, rows)| rows.len()).sum()
    }

    /// Writes the list.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut text = format!("{}# {}\n", self.about, self.counts);
        for (heading, rows) in &self.parts {
            let _ = writeln!(text, "\n## {heading}");
            for (outcome, name) in rows {
                let _ = writeln!(text, "{outcome}: {name}");
            }
        }
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
        }
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Returns the names of mutants. Repeated ones get a number.
pub fn names(mutants: &[Mutant]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let name = |mutant: &Mutant| {
        let times: &mut u32 = seen.entry(mutant.name.clone()).or_default();
        *times += 1;
        if *times == 1 {
            mutant.name.clone()
        } else {
            format!("{} ({times})", mutant.name)
        }
    };
    mutants.iter().map(name).collect()
}

/// How many mutants had each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts([usize; OUTCOMES.len()]);

const OUTCOMES: [Outcome; 5] =
    [Outcome::Caught, Outcome::TimeOut, Outcome::Missed, Outcome::NotReached, Outcome::NotBuilt];

impl Counts {
    /// Counts outcomes.
    pub fn of(outcomes: impl Iterator<Item = Outcome>) -> Counts {
        let mut counts = Counts::default();
        for outcome in outcomes {
            *counts.count(outcome) += 1;
        }
        counts
    }

    fn count(&mut self, outcome: Outcome) -> &mut usize {
        let position = OUTCOMES.iter().position(|other| *other == outcome);
        &mut self.0[position.expect("every outcome has a place")]
    }

    /// Adds what an older list counted of the mutants that it does not name. Fails if the crate had
    /// another number of mutants then, or not all listed ones were tried.
    pub fn with_unlisted(
        mut self,
        old: &Counts,
        tried: usize,
        mutants: usize,
    ) -> Result<Counts, String> {
        let mut unlisted = *old;
        let listed = [Outcome::Missed, Outcome::NotReached];
        let listed: usize = listed.iter().map(|one| std::mem::take(unlisted.count(*one))).sum();
        if old.0.iter().sum::<usize>() != mutants || listed != tried {
            return Err("the sources have changed since the list was made; try all mutants".into());
        }
        for outcome in OUTCOMES {
            *self.count(outcome) += *unlisted.count(outcome);
        }
        Ok(self)
    }

    /// Reads what [`Counts`] display as; `None` for other text.
    fn parse(text: &str) -> Option<Counts> {
        let (_, counts) = text.split_once(" mutants: ")?;
        let mut parsed = Counts::default();
        for (part, outcome) in counts.split(", ").zip(OUTCOMES) {
            *parsed.count(outcome) = part.strip_suffix(&format!(" {outcome}"))?.parse().ok()?;
        }
        Some(parsed)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            self.0.iter().zip(OUTCOMES).map(|(count, outcome)| format!("{count} {outcome}"));
        let parts: Vec<_> = parts.collect();
        write!(f, "{} mutants: {}", self.0.iter().sum::<usize>(), parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# The mutants\n\
        # 6 mutants: 2 caught, 1 time-out, 2 missed, 1 not reached, 0 not built\n\n\
        ## Equal: it changes nothing\nmissed: src/a.rs, f: a: b\n\n\
        ## No reason yet\nmissed: src/b.rs, g\nnot reached: src/c.rs, h\n";

    #[test]
    fn a_new_list_keeps_the_headings() {
        let old = List::parse(OLD);
        assert!(old.has("src/a.rs, f: a: b") && !old.has("src/a.rs, f"));
        let outcomes = [
            ("src/a.rs, f: a: b", Outcome::NotReached),
            ("src/b.rs, g", Outcome::Caught),
            ("src/d.rs, i", Outcome::Missed),
        ];
        let new = List::new("php", old.counts, &[], &outcomes, &old);
        let rows = |outcome: &str, name: &str| vec![(outcome.to_string(), name.to_string())];
        assert_eq!(
            new.parts,
            [
                ("Equal: it changes nothing".into(), rows("not reached", "src/a.rs, f: a: b")),
                (NO_REASON.into(), rows("missed", "src/d.rs, i")),
            ]
        );
        assert_eq!(new.without_reason(), 1);
    }

    #[test]
    fn listed_mutants_are_counted_with_the_others() {
        let old = List::parse(OLD).counts;
        let tried = [Outcome::Caught, Outcome::Missed, Outcome::Caught];
        let counts = Counts::of(tried.into_iter()).with_unlisted(&old, 3, 6).unwrap();
        let shown = "6 mutants: 4 caught, 1 time-out, 1 missed, 0 not reached, 0 not built";
        assert_eq!((counts.to_string(), Counts::parse(shown)), (shown.into(), Some(counts)));
        assert!(Counts::default().with_unlisted(&old, 3, 7).is_err());
        assert!(Counts::default().with_unlisted(&old, 2, 6).is_err());
    }

    #[test]
    fn repeated_names_get_a_number() {
        let mutant = |name: &str| Mutant {
            number: 1,
            name: name.into(),
            code: String::new(),
        };
        assert_eq!(names(&[mutant("a"), mutant("b"), mutant("a")]), ["a", "b", "a (2)"]);
    }
}
