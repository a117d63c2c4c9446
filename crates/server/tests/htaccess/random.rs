//! Random small sets of rules, for which both servers must answer alike. A set with a difference is
//! reduced as far as possible.

use std::ops::Range;

use crate::apache::Apache;
use crate::case::{Case, Entry, Request, Tree};
use crate::differences::left;
use crate::report::Report;
use crate::rules::{Rules, TARGETS};
use crate::servers::{Clients, Servers, Sides, questions};
use crate::support::has_php;

/// The number of sets that are tried, each with some requests. The sets are always the same.
const SETS: u64 = 500;
const REQUESTS: usize = 6;

#[test]
fn random_rules_agree() {
    if Apache::version().is_none() || !has_php() {
        return;
    }
    let seeds = std::env::var("HOWDAH_HTACCESS_SEEDS").map_or(0..SETS, |range| seeds(&range));
    let cases: Vec<Case> = seeds.map(case).collect();
    let sides = Sides { apache: true, howdah: true };
    let servers = Servers::start(cases.iter().map(|case| &case.tree), sides);
    let outcomes = servers.ask_all(&questions(&cases));
    let asked = cases
        .iter()
        .flat_map(|case| case.requests.iter().map(move |request| (case, request)));
    let mut report = Report::default();
    let mut clients = servers.clients();
    for ((case, request), outcome) in asked.zip(outcomes) {
        let mut case = case.clone();
        let mut outcome = outcome;
        if differs(&servers, &mut clients, &case, request) {
            let smaller = shrunk(&servers, &mut clients, &case, request);
            servers.write(&case.tree, &smaller);
            outcome = servers.ask(&mut clients, &case.tree, request);
            servers.write(&case.tree, &case.tree);
            case.tree = smaller;
        }
        report.compare(&case, request, &outcome, String::new);
    }
    report.finish("htaccess-random");
}

/// `100` for the first hundred, `500..600` for others.
fn seeds(range: &str) -> Range<u64> {
    let (from, to) = range.split_once("..").unwrap_or(("0", range));
    from.parse().unwrap()..to.parse().unwrap()
}

/// Returns the set of rules of a seed, and its requests.
fn case(seed: u64) -> Case {
    let mut rules = Rules::new(seed);
    let mut entries = vec![(".htaccess".to_owned(), Entry::File(rules.file()))];
    if rules.chance(40) {
        entries.push(("dir/.htaccess".to_owned(), Entry::File(rules.file())));
    }
    let mut requests: Vec<Request> = Vec::new();
    while requests.len() < REQUESTS {
        let request = Request::parse(rules.pick(TARGETS));
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
    Case {
        group: "random".to_owned(),
        title: format!("seed {seed}"),
        line: 0,
        tree: Tree { overrides: String::new(), entries },
        requests,
    }
}

/// Returns whether the servers differ on a request, with the rules that are there now.
fn differs(servers: &Servers, clients: &mut Clients, case: &Case, request: &Request) -> bool {
    let outcome = servers.ask(clients, &case.tree, request);
    let (theirs, ours) =
        left(&case.name(), &request.text, &outcome.apache, &outcome.howdah, |_| {});
    !theirs.is_empty() || !ours.is_empty()
}

/// The rules without every line that the difference does not need.
fn shrunk(servers: &Servers, clients: &mut Clients, case: &Case, request: &Request) -> Tree {
    let mut smallest = case.tree.clone();
    for file in (0..smallest.entries.len()).rev() {
        let Entry::File(content) = &smallest.entries[file].1 else {
            continue;
        };
        let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
        let mut at = 0;
        while at < lines.len() {
            let length = section_length(&lines[at..]);
            let removable = [at..at + length, at..at + 1];
            let shorter = removable.into_iter().find_map(|range| {
                let mut fewer = lines.clone();
                fewer.drain(range);
                let mut tree = smallest.clone();
                tree.entries[file].1 =
                    Entry::File(fewer.iter().map(|line| format!("{line}\n")).collect());
                servers.write(&case.tree, &tree);
                differs(servers, clients, case, request).then_some((fewer, tree))
            });
            match shorter {
                Some((fewer, tree)) => (lines, smallest) = (fewer, tree),
                None => at += 1,
            }
        }
    }
    servers.write(&case.tree, &case.tree);
    smallest
}

/// Returns the number of lines of the section that the first line begins; 1 if it begins none.
fn section_length(lines: &[String]) -> usize {
    let mut depth = 0;
    for (at, line) in lines.iter().enumerate() {
        depth += i32::from(line.starts_with('<') && !line.starts_with("</"));
        depth -= i32::from(line.starts_with("</"));
        if depth <= 0 {
            return at + 1;
        }
    }
    lines.len()
}
