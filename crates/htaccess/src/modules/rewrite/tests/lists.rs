//! Many rules and conditions at once must do what they do one after the other.

use super::{check, evaluate};
use crate::modules::rewrite::{RewriteOutcome, fixup};
use crate::mutation::Mutator;
use crate::testing::{Nowhere, request, settings, transaction};
use crate::trace::Trace;
use crate::{DirectiveSettings, WorkBudget};
use howdah_http::Status;

pub(super) const PATTERNS: [&str; 22] = [
    "^a$",
    "^A$",
    "^ab$",
    "^a\\.html$",
    "^a",
    "^ab(.*)$",
    "b$",
    "html",
    "^x/(.+)$",
    "^x/?$",
    "^sub/",
    "(.*)",
    "^",
    "!^a",
    "!html$",
    "^a|b$",
    "^(a|x)",
    "[ab]$",
    "^.$",
    "^x/y$",
    "\\.php$",
    "y",
];
pub(super) const RESULTS: [&str; 9] =
    ["-", "/a", "ab", "x/$1", "/sub/$0", "$1b", "http://o.example/$1", "/a?$1", "x/y"];
pub(super) const FLAGS: [&str; 16] = [
    "",
    "",
    "",
    "[L]",
    "[R=301]",
    "[NC]",
    "[C]",
    "[C,NC]",
    "[S=1]",
    "[S=3]",
    "[E=v:%{ENV:v}$0]",
    "[N=3]",
    "[F]",
    "[QSA]",
    "[NS]",
    "[PT]",
];
pub(super) const TARGETS: [&str; 12] = [
    "/",
    "/a",
    "/A",
    "/ab",
    "/a.html",
    "/x/y",
    "/x",
    "/x/",
    "/sub/a",
    "/b",
    "/a.html/info?q",
    "/y.php",
];

/// The result of a request: outcome, query, variables. With a trace, every rule is tried.
pub(super) fn result(settings: &DirectiveSettings, target: &str, is_traced: bool) -> String {
    let answer = evaluate(settings, target, "User-Agent: Mozilla bot7 x", |state| {
        state.trace = is_traced.then(|| Box::new(Trace::default()));
    });
    format!("{} {:?} {:?}", answer.outcome, answer.state.args, answer.state.env)
}

fn agree(rules: &str, targets: &[&str]) {
    let settings = settings(rules);
    for target in targets {
        let (indexed, in_order) =
            (result(&settings, target, false), result(&settings, target, true));
        assert_eq!(indexed, in_order, "GET {target} with\n{rules}");
    }
}

#[test]
fn rules_with_an_index_agree_with_rules_in_order() {
    let mut random = Mutator(11);
    for _ in 0..150 {
        let count = 24 + random.below(30);
        let lines = (0..count).map(|_| {
            let (pattern, result) = (PATTERNS[random.below(22)], RESULTS[random.below(9)]);
            format!("RewriteRule {pattern} {result} {}\n", FLAGS[random.below(16)])
        });
        let rules = format!("RewriteEngine On\n{}", lines.collect::<String>());
        agree(&rules, &TARGETS);
    }
}

#[test]
fn lists_of_alternatives_agree_with_conditions_in_order() {
    let mut random = Mutator(13);
    let patterns = [
        "bot7", "BOT7", "^Moz", "x$", "bot(.) x", "(z)", "spider", "^bot", "[0-9]", "Firefox",
        "a b",
    ];
    let subjects = ["%{HTTP_USER_AGENT}", "%{REQUEST_URI}", "$0"];
    for _ in 0..300 {
        let mut rules = String::from("RewriteEngine On\n");
        for _ in 0..random.below(3) + 1 {
            let subject = subjects[random.below(3)];
            for _ in 0..random.below(14) {
                let not = if random.below(25) == 0 { "!" } else { "" };
                let pattern = patterns[random.below(patterns.len())].replace(' ', "\\ ");
                let flags =
                    ["[OR]", "[OR]", "[OR]", "[NC,OR]", "[NC,OR]", "[OR,NV]", ""][random.below(7)];
                rules += &format!("RewriteCond {subject} {not}{pattern} {flags}\n");
            }
        }
        rules += "RewriteRule ^(.*)$ - [E=v:%0-%1]\n";
        agree(&rules, &["/bot7", "/x"]);
    }
}

#[test]
fn a_long_list_of_plain_redirects() {
    let lines =
        (0..2000).map(|number| format!("RewriteRule ^old/{number}$ /new/{number} [R=301,L]\n"));
    let settings = settings(&format!("RewriteEngine On\n{}", lines.collect::<String>()));
    let found = |target: &str| evaluate(&settings, target, "", |_| {}).outcome;
    assert_eq!(found("/old/1999"), "301 http://own.example/new/1999");
    assert_eq!(found("/old/2000"), "declined");
}

/// A try of a rule takes steps, and so does each byte that it looks at. The budget holds for all
/// rounds together.
#[test]
fn every_try_of_a_rule_takes_its_part_of_the_work() {
    let rules = settings("RewriteEngine On\nRewriteRule ^ - [N=30000]");
    let config = rules.rewrite.as_deref().unwrap();
    // A rule takes work even where it looks at next to nothing; a long URL takes more.
    for (length, too_little) in [(1, 200_000), (1000, 3_500_000)] {
        let request = request(&format!("/{}", "a".repeat(length)), "");
        let complaint = |steps: u64| {
            let budget = WorkBudget::new(steps);
            let mut tx = transaction(&request);
            tx.client = tx.client.within(&budget);
            let outcome = fixup(&mut tx, config, &mut Nowhere::default());
            assert_eq!(outcome, RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR), "{steps}");
            assert_eq!(budget.is_exhausted(), steps < 10_000_000, "{} used", budget.used());
            assert_eq!(
                budget.meter().failure().is_some_and(|(place, _)| place.is_some()),
                budget.is_exhausted()
            );
            tx.state.complaints.pop().map(|(_, what)| what).unwrap_or_default()
        };
        let within = complaint(10_000_000);
        assert!(within.contains("exceeded maximum number of rounds (30000)"), "{within}");
        assert_eq!(complaint(too_little), "", "{length}");
    }
}

#[test]
fn only_alternatives_are_tested_at_once() {
    let condition = |pattern: &str| format!("RewriteCond %{{REQUEST_URI}} {pattern}\n");
    let rule = "RewriteRule ^ - [F]";
    let all = condition("^/x").repeat(9);
    let none = condition("!^/x [OR]").repeat(8) + &condition("!^/x");
    check(&[
        (&format!("{all}{rule}"), "/x", "403"),
        (&format!("{}{all}{rule}", condition("x$")), "/xy", "declined"),
        (&format!("{all}{}{rule}", condition("x$")), "/xy", "declined"),
        (&format!("{none}{rule}"), "/x", "declined"),
        (&format!("{none}{rule}"), "/y", "403"),
    ]);
}

/// Templates that contain a long variable hundreds of times, and conditions that copy captures.
#[test]
fn an_expansion_that_becomes_too_long_is_never_put_together() {
    let variables = "%{ENV:A}".repeat(900);
    let captures = "%1".repeat(3_900);
    let taken = "RewriteCond %{ENV:A} (.*)\n";
    for (rules, line) in [
        (format!("RewriteRule ^ - [E=B:{variables}]"), 2),
        (format!("RewriteCond {variables} x\nRewriteRule ^ -"), 3),
        (format!("RewriteRule ^ /{variables}"), 2),
        (format!("{taken}RewriteRule ^ /{captures} [B]"), 3),
        (format!("{taken}RewriteRule ^ - [CO=a:{captures}:b]"), 3),
        (format!("RewriteCond expr \"-n '{}'\"\nRewriteRule ^ -", "%{reqenv:A}".repeat(700)), 2),
    ] {
        let settings = settings(&format!("RewriteEngine On\n{rules}"));
        let request = request("/x", "");
        let budget = WorkBudget::new(200_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        tx.state.env.push(b"A", &[b'/'; 10_000]);
        let config = settings.rewrite.as_deref().unwrap();
        let outcome = fixup(&mut tx, config, &mut Nowhere::default());
        let rules = &rules[..40];
        assert_eq!(outcome, RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR), "{rules}");
        let told = budget.meter().failure().or_else(|| tx.state.complaints.pop());
        let (place, message) = told.expect(rules);
        assert_eq!(place.map(|place| place.line), Some(line), "{rules}");
        assert!(message.contains("64 KiB"), "{rules}: {message}");
        assert!(!budget.is_exhausted() || budget.is_refused(), "{rules}");
    }
}

/// A step for each part of a string, and more by its length.
#[test]
fn the_parts_of_an_expansion_cost_steps() {
    for (rule, least) in [
        ("RewriteRule ^ - [E=B:x%{ENV:A}%{ENV:A}]", 2 * 10_000 / 16),
        ("RewriteRule ^(.*)$ - [E=B:$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1]", 16),
        ("RewriteCond x%{REMOTE_ADDR}%{REMOTE_ADDR}%{REMOTE_ADDR} y\nRewriteRule ^ -", 3 * 8),
        ("RewriteCond %{ENV:A} (.*)\nRewriteRule ^ - [E=B:x%1]", 2 * 10_000 / 16),
    ] {
        let settings = settings(&format!("RewriteEngine On\n{rule}"));
        let request = request("/", "");
        let budget = WorkBudget::new(1_000_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        tx.state.env.push(b"A", &[b'a'; 10_000]);
        fixup(&mut tx, settings.rewrite.as_deref().unwrap(), &mut Nowhere::default());
        assert!(budget.used() >= least, "{rule}: {}", budget.used());
    }
}
