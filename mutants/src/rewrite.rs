//! A source that asks at every place which mutant is chosen.

use std::ops::RangeInclusive;

use crate::Numbers;
use crate::find::{Kind, Site, Source};

/// A rewritten source.
pub struct Rewritten {
    pub text: String,
    /// Lines with the mutants that they are part of.
    lines: Vec<(RangeInclusive<usize>, Numbers)>,
}

impl Rewritten {
    /// Rewrites a source, without the mutants that do not compile.
    pub fn new(source: &Source, unbuilt: &Numbers) -> Rewritten {
        let mut rewritten = Rewritten { text: String::new(), lines: vec![] };
        let mut open: Vec<Open> = Vec::new();
        let mut done = 0;
        for site in &source.sites {
            let numbers: Numbers = site.mutants.iter().map(|mutant| mutant.number).collect();
            let numbers: Numbers = numbers.difference(unbuilt).copied().collect();
            if numbers.is_empty() {
                continue;
            }
            while let Some(inner) = open.pop_if(|inner| inner.end <= site.place.start) {
                rewritten.push(&source.text[done..inner.end]);
                done = inner.end;
                rewritten.close(inner);
            }
            rewritten.push(&source.text[done..site.place.start]);
            done = site.place.start;
            let first_line = rewritten.line();
            rewritten.open(site, &numbers);
            if site.kind == Kind::Expression {
                open.push(Open { end: site.place.end, first_line, numbers });
            }
        }
        while let Some(inner) = open.pop() {
            rewritten.push(&source.text[done..inner.end]);
            done = inner.end;
            rewritten.close(inner);
        }
        rewritten.push(&source.text[done..]);
        rewritten
    }

    /// The mutants that an error in a line belongs to: those of the smallest place with the line.
    /// None if the line is in no rewritten place.
    pub fn mutants_at(&self, line: usize) -> Option<&Numbers> {
        let around = self.lines.iter().filter(|(lines, _)| lines.contains(&line));
        around
            .min_by_key(|(lines, _)| lines.end() - lines.start())
            .map(|(_, numbers)| numbers)
    }

    fn open(&mut self, site: &Site, numbers: &Numbers) {
        let left = site.mutants.iter().filter(|mutant| numbers.contains(&mutant.number));
        for (position, mutant) in left.enumerate() {
            let is_chosen = format!("crate::mutant::is({})", mutant.number);
            match site.kind {
                Kind::Expression if position == 0 => self.push(&format!("(if {is_chosen} {{\n")),
                Kind::Expression => self.push(&format!(" else if {is_chosen} {{\n")),
                Kind::Body => self.push(&format!("if {is_chosen} {{\n")),
                Kind::Arm | Kind::Let => self.push("\n"),
            }
            let first = self.line();
            match site.kind {
                Kind::Expression => self.push(&mutant.code),
                Kind::Body => self.push(&format!("return {};", mutant.code)),
                Kind::Arm => self.push(&format!("if !{is_chosen}")),
                Kind::Let => self.push(&format!("!{is_chosen} &&")),
            }
            self.lines.push((first..=self.line(), [mutant.number].into()));
            match site.kind {
                Kind::Expression | Kind::Body => self.push("\n}"),
                Kind::Arm | Kind::Let => self.push("\n"),
            }
        }
        if site.kind == Kind::Expression {
            self.push(" else {");
        }
    }

    fn close(&mut self, site: Open) {
        self.push("})");
        self.lines.push((site.first_line..=self.line(), site.numbers));
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The number of the line that is being written, from 1.
    fn line(&self) -> usize {
        self.text.bytes().filter(|byte| *byte == b'\n').count() + 1
    }
}

/// An expression whose end is not written yet.
struct Open {
    end: usize,
    first_line: usize,
    numbers: Numbers,
}

/// Returns the module that the rewritten places ask. Appended to the root of the crate.
pub fn module(mutants: usize) -> String {
    MODULE.replace("COUNT", &(mutants + 1).to_string())
}

/// `MUTANT` is the number of the chosen mutant. Where `MUTANTS_REACHED` names a file, the number of
/// each mutant is written there when the place is first reached. The file stays open, because a
/// test may take all descriptors.
const MODULE: &str = r#"
#[doc(hidden)]
pub mod mutant {
    use std::io::Write;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
    });
    static REACHED: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var("MUTANTS_REACHED").ok()?;
        std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
    });
    static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    pub fn is(number: u32) -> bool {
        if let Some(mut file) = REACHED.as_ref()
            && !SEEN[number as usize].swap(true, Ordering::Relaxed)
        {
            let _ = file.write_all(format!("{number}\n").as_bytes());
        }
        *CHOSEN == number
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn source(text: &str) -> Source {
        let (sites, _) =
            crate::find::find(&PathBuf::from("src/a.rs"), text, &mut 0).expect("the text is Rust");
        Source {
            path: "src/a.rs".into(),
            text: text.into(),
            sites,
        }
    }

    fn on_one_line(text: &str) -> String {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("crate::mutant::is", "is")
    }

    #[test]
    fn places_are_rewritten() {
        for (text, expected) in [
            (
                "fn f() { a == (b != c) ; d() }",
                "fn f() {if is(1) { return (); } (if is(2) { a != (b != c) } else {a == \
                 ((if is(3) { b == c } else {b != c}))}) ; d() }",
            ),
            (
                "fn f() -> ! { if !x && let A = b {} match c { A => 1, B if d => 2, _ => 3 } }",
                "fn f() -> ! { if !is(1) && (if is(2) { true } else {(if is(3) { x } else {!x})}) \
                 && let A = b {} match c { A if !is(4) => 1, B if (if is(5) { true } else if \
                 is(6) { false } else {d}) => 2, _ => 3 } }",
            ),
        ] {
            let rewritten = Rewritten::new(&source(text), &Numbers::new());
            assert_eq!(on_one_line(&rewritten.text), expected);
            assert!(syn::parse_file(&rewritten.text).is_ok());
        }
        let unbuilt = Numbers::from([1, 2]);
        let rewritten = Rewritten::new(&source("fn f() { a == (b != c) }"), &unbuilt);
        assert_eq!(
            on_one_line(&rewritten.text),
            "fn f() { a == ((if is(3) { b == c } else {b != c})) }"
        );
    }

    #[test]
    fn an_error_belongs_to_the_mutant_of_its_line() {
        let rewritten = Rewritten::new(&source("fn f() {\n a ==\n b(c) }"), &Numbers::new());
        let line_of = |part| {
            let end = rewritten.text.find(part).expect("the text has the part");
            rewritten.text[..end].matches('\n').count() + 1
        };
        assert_eq!(rewritten.mutants_at(line_of("return")), Some(&Numbers::from([1])));
        assert_eq!(rewritten.mutants_at(line_of("a !=")), Some(&Numbers::from([2])));
        assert_eq!(rewritten.mutants_at(line_of("a ==")), Some(&Numbers::from([2])));
        assert_eq!(rewritten.mutants_at(1), None);
    }
}
