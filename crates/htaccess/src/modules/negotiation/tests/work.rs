//! The work of negotiation: it is counted, and ends where the budget does.

use super::{base, choose, found, request, settings, transaction};
use crate::WorkBudget;
use crate::evaluation_context::EvaluationContext;
use crate::host::{DirectiveHost, Probe, ProbeKind};
use howdah_http::Status;

/// A folder that counts the files that are looked at.
struct CountedFolder {
    names: Vec<String>,
    probes: usize,
}

impl EvaluationContext for CountedFolder {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
}

impl DirectiveHost for CountedFolder {
    fn probe(&mut self, _path: &[u8]) -> Option<Probe> {
        self.probes += 1;
        Some(Probe {
            kind: ProbeKind::File,
            size: 1,
            modified: 0,
            mode: 0o644,
        })
    }

    fn entries(&mut self, _folder: &[u8]) -> Vec<Box<[u8]>> {
        self.names.iter().map(|name| name.as_bytes().into()).collect()
    }
}

/// The size of an attack: files of a name, languages of each, members of Accept-Language.
#[derive(Clone, Copy)]
struct Attack {
    files: usize,
    languages: usize,
    items: usize,
}

/// The outcome of an attack, and its cost.
struct Taken {
    outcome: Result<Option<Vec<u8>>, Status>,
    steps: u64,
    probes: usize,
    is_exhausted: bool,
}

fn take(attack: Attack, most: u64) -> Taken {
    let directives: String =
        (0..KNOWN).map(|n| format!("AddLanguage {0} .{0}\n", language(n))).collect();
    let settings = settings(&directives);
    let of_file = |file: usize| -> String {
        (0..attack.languages)
            .map(|n| format!(".{}", language((file + n) % KNOWN)))
            .collect()
    };
    let names = (0..attack.files).map(|file| format!("page.html{}", of_file(file))).collect();
    let fields = format!("Accept-Language: {}", "zz,".repeat(attack.items));
    let request = request("/page", &fields);
    let budget = WorkBudget::new(most);
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    let mut context = CountedFolder { names, probes: 0 };
    let outcome = choose(&mut tx, &settings, &mut context, &base);
    Taken {
        outcome,
        steps: budget.used(),
        probes: context.probes,
        is_exhausted: budget.is_exhausted(),
    }
}

#[test]
fn many_variants_are_given_up_where_the_budget_ends() {
    let attack = Attack {
        files: 2_500,
        languages: 78,
        items: 2_000,
    };
    let taken = take(attack, EVENT_LOOP);
    assert_eq!(taken.outcome, Err(Status::INTERNAL_SERVER_ERROR));
    assert!(taken.is_exhausted);
    assert!(taken.probes < 200, "{} files were looked at", taken.probes);
    // Variants that are known are weighed no longer than the budget allows either.
    let few = Attack { files: 40, ..attack };
    let enough = take(few, UNLIMITED).steps;
    let taken = take(few, enough - 1);
    assert_eq!((taken.outcome, taken.probes), (Err(Status::INTERNAL_SERVER_ERROR), 40));
}

#[test]
fn the_work_grows_with_the_variants_and_not_with_what_they_are_compared_with() {
    let attack = Attack { files: 100, languages: 20, items: 200 };
    let steps = |attack| take(attack, UNLIMITED).steps;
    let one = steps(attack);
    assert!(one > 100 * 20, "{one}");
    let twice_the_files = steps(Attack { files: 200, ..attack });
    assert!(twice_the_files < 2 * one, "{one} {twice_the_files}");
    let twice_the_languages = steps(Attack { languages: 40, ..attack });
    assert!(twice_the_languages < 2 * one + one / 2, "{one} {twice_the_languages}");
    // Each language is compared with the members once, and only that many members count.
    let few_members = steps(Attack { items: 10, ..attack });
    assert!(one - few_members < (KNOWN * 2 * 200) as u64, "{few_members} {one}");
    assert_eq!(steps(Attack { items: 400, ..attack }), one);
}

#[test]
fn an_ordinary_choice_takes_little_work() {
    let taken = take(Attack { files: 10, languages: 1, items: 5 }, EVENT_LOOP);
    assert!(taken.steps < EVENT_LOOP / 20, "{}", taken.steps);
}

#[test]
fn members_beyond_the_most_do_not_count() {
    let directives = "AddLanguage de .de";
    let members = |before: usize| format!("Accept-Language: {}de", "xx, ".repeat(before));
    assert_eq!(found(directives, &["a.html.de"], "/a", &members(199)), "a.html.de");
    assert_eq!(found(directives, &["a.html.de"], "/a", &members(200)), "406");
}

#[test]
fn a_list_of_variants_has_an_end() {
    let names: Vec<&'static str> =
        (0..2_000).map(|n| -> &str { format!("a.html.{n}").leak() }).collect();
    let names: Vec<&'static str> = names.into_iter().chain(["a.png"]).collect();
    let directives: String = (0..2_000).map(|n| format!("AddLanguage l{n} .{n}\n")).collect();
    let answer = super::ask(&directives, &names, "/a", "Accept-Language: de");
    assert_eq!(answer.outcome.map(|_| ()), Ok(()));
    let answer = super::ask(&directives, &names[..2_000], "/a", "Accept-Language: de");
    assert_eq!(answer.outcome, Err(Status::NOT_ACCEPTABLE));
    let listed = answer.fields.value(b"alternates").unwrap().len();
    assert!((10_000..=64 << 10).contains(&listed), "{listed}");
    let listed = answer.notes.value(b"variant-list").unwrap().len();
    assert!((10_000..=66 << 10).contains(&listed), "{listed}");
}

/// The n-th language: two letters, but `zz`.
fn language(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 25) as u8);
    [letter(n / 25), letter(n)].iter().collect()
}

/// Languages that directives name.
const KNOWN: usize = 208;

/// The budget of an event loop.
const EVENT_LOOP: u64 = 200_000;
const UNLIMITED: u64 = u64::MAX;
