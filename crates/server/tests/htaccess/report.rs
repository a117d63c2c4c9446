//! The report on answers that differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use crate::answer::Answer;
use crate::case::{Case, Entry, Request};
use crate::differences::{DECIDED, Decided, left};
use crate::servers::Outcome;

/// Comparisons, and those that failed.
#[derive(Default)]
pub struct Report {
    /// The number of comparisons of each case, by its name.
    cases: BTreeMap<String, usize>,
    failures: Vec<Failure>,
    /// For each decided difference that was seen: where.
    decided: BTreeMap<usize, Vec<String>>,
}

struct Failure {
    group: String,
    text: String,
}

/// Failures that are printed; all of them go into a file.
const SHOWN: usize = 12;

impl Report {
    /// Compares what Apache is known to answer with what Howdah answered.
    pub fn compare(
        &mut self,
        case: &Case,
        request: &Request,
        outcome: &Outcome,
        logs: impl FnOnce() -> String,
    ) {
        let name = case.name();
        *self.cases.entry(name.clone()).or_default() += 1;
        let decided = &mut self.decided;
        let (theirs, ours) =
            left(&name, &request.text, &outcome.apache, &outcome.howdah, |number| {
                decided.entry(number).or_default().push(format!("{name} > {}", request.text));
            });
        self.expect(case, request, "Apache", &outcome.apache);
        self.expect(case, request, "howdah", &outcome.howdah);
        if theirs.is_empty() && ours.is_empty() {
            return;
        }
        let mut text = format!("{}.txt:{} {}\n", case.group, case.line, case.title);
        for (path, entry) in &case.tree.entries {
            match entry {
                Entry::File(content) => {
                    writeln!(text, "  -- {path}").unwrap();
                    content.lines().for_each(|line| writeln!(text, "     {line}").unwrap());
                }
                other => writeln!(text, "  -- {path} {other:?}").unwrap(),
            }
        }
        writeln!(text, "  > {}", request.text).unwrap();
        let both = outcome.apache.0.iter().filter(|line| outcome.howdah.0.contains(line));
        both.for_each(|line| writeln!(text, "    both: {line}").unwrap());
        theirs.iter().for_each(|line| writeln!(text, "  Apache: {line}").unwrap());
        ours.iter().for_each(|line| writeln!(text, "  howdah: {line}").unwrap());
        if outcome.apache.0.first() != outcome.howdah.0.first() {
            text += &logs();
        }
        self.failures.push(Failure { group: case.group.clone(), text });
    }

    /// Checks what the case itself says about an answer.
    pub fn expect(&mut self, case: &Case, request: &Request, name: &str, answer: &Answer) {
        let lacks =
            |expected: &&String| !answer.0.iter().any(|line| line.starts_with(expected.as_str()));
        for expected in request.expected.iter().filter(lacks) {
            self.fail(
                case,
                &format!("{}: {name} does not say {expected:?} but\n{answer}", request.text),
            );
        }
    }

    /// Notes something else that is wrong with a case.
    pub fn fail(&mut self, case: &Case, what: &str) {
        let text = format!("{}.txt:{} {}: {what}\n", case.group, case.line, case.title);
        self.failures.push(Failure { group: case.group.clone(), text });
    }

    /// Fails if a decided difference was seen nowhere.
    pub fn check_decided(&mut self) {
        for (number, decided) in DECIDED.iter().enumerate() {
            let is_seen_elsewhere =
                ["corpus: ", "random: "].iter().any(|group| decided.cases.starts_with(group));
            if !is_seen_elsewhere && !self.decided.contains_key(&number) {
                let text = format!(
                    "the difference {:?} {:?} is seen in no case\n",
                    decided.cases, decided.why
                );
                self.failures.push(Failure { group: "differences".to_owned(), text });
            }
        }
    }

    /// The decided differences, each with the requests that showed it.
    fn seen(&self) -> String {
        let mut text = String::new();
        for (&number, places) in &self.decided {
            let Decided { cases, request, apache, howdah, why, .. } = &DECIDED[number];
            writeln!(text, "{cases:?} {request:?} {apache:?} {howdah:?}: {why} ({})", places.len())
                .unwrap();
            places.iter().for_each(|place| writeln!(text, "  {place}").unwrap());
        }
        text
    }

    /// Says how it went; fails if something failed. The whole of it is in a file called `name`, and
    /// where decided differences were seen in another beside it.
    pub fn finish(self, name: &str) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
        let all: String = self
            .failures
            .iter()
            .map(|failure| failure.text.as_str())
            .collect::<Vec<_>>()
            .join("\n");
        std::fs::write(&file, all).unwrap();
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        self.failures
            .iter()
            .for_each(|failure| *groups.entry(&failure.group).or_default() += 1);
        let decided: usize = self.decided.values().map(Vec::len).sum();
        std::fs::write(file.with_extension("decided.txt"), self.seen()).unwrap();
        let (cases, compared) = (self.cases.len(), self.cases.values().sum::<usize>());
        let line = format!(
            "{name}: {cases} distinct cases, {compared} requests compared, {decided} decided \
             differences"
        );
        say(&line);
        if self.failures.is_empty() {
            return;
        }
        for failure in self.failures.iter().take(SHOWN) {
            println!("{}", failure.text);
        }
        panic!("{} of {compared} differ, see {}: {groups:?}", self.failures.len(), file.display());
    }
}

/// Prints a message that is visible even if the tests pass.
#[allow(clippy::explicit_write)] // The test harness keeps what eprintln! prints to itself.
pub fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").unwrap();
}
