//! Rules that folders inherit: they are searched by the index of the file that they come from.

use super::lists::{FLAGS, PATTERNS, RESULTS, TARGETS, result};
use crate::modules::rewrite::{RewriteOutcome, fixup};
use crate::mutation::Mutator;
use crate::testing::{Nowhere, request, settings, transaction};
use crate::{DirectiveSettings, WorkBudget};

/// The steps that an event loop may take for a request.
const HERE: u64 = 200_000;

/// The steps of `GET target`, and the outcome.
fn steps(settings: &DirectiveSettings, target: &str) -> (u64, RewriteOutcome) {
    let budget = WorkBudget::new(HERE);
    let request = request(target, "Host: own.example");
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    let config = settings.rewrite.as_deref().unwrap();
    let outcome = fixup(&mut tx, config, &mut Nowhere::default());
    assert!(!budget.is_exhausted(), "GET {target}");
    (budget.used(), outcome)
}

fn numbered(from: usize, count: usize) -> String {
    (from..from + count)
        .map(|number| format!("RewriteRule ^old/{number}$ /new/{number} [R=301,L]\n"))
        .collect()
}

#[test]
fn folders_that_inherit_thousands_of_rules_take_few_steps_each() {
    for options in ["Inherit", "InheritBefore"] {
        let mut merged = settings(&format!("RewriteEngine On\n{}", numbered(0, 3000)));
        for depth in 1..=20 {
            let own = format!(
                "RewriteEngine On\nRewriteOptions {options}\n{}",
                numbered(depth * 10_000, 30)
            );
            let own = settings(&own);
            assert!(merged.copied_with(&own) <= depth, "rules are not copied");
            merged = merged.merge(&own);
            for target in ["/old/2999", "/old/0", &format!("/old/{depth}0029")] {
                let (used, outcome) = steps(&merged, target);
                assert!(used < 1000 + 100 * depth as u64, "{used} at depth {depth}");
                assert!(
                    matches!(outcome, RewriteOutcome::Redirect { .. }),
                    "{target}: {outcome:?}"
                );
            }
            assert_eq!(steps(&merged, "/old/3000").1, RewriteOutcome::Declined);
        }
    }
}

/// Chains and skips lead from the rules of one file into those of the next, as in Apache, which
/// makes one list of them.
#[test]
fn inherited_rules_agree_with_rules_in_order() {
    let mut random = Mutator(17);
    for round in 0..200 {
        let mut file = |options: &str| {
            let count = [3, 24 + random.below(20)][random.below(2)];
            let lines = (0..count).map(|_| {
                let (pattern, result) = (PATTERNS[random.below(22)], RESULTS[random.below(9)]);
                format!("RewriteRule {pattern} {result} {}\n", FLAGS[random.below(16)])
            });
            let rules: String = lines.collect();
            settings(&format!("RewriteEngine On\n{options}{rules}"))
        };
        let options = ["RewriteOptions Inherit\n", "RewriteOptions InheritBefore\n"];
        let mut merged = file("");
        for _ in 0..1 + round % 3 {
            merged = merged.merge(&file(options[round % 2]));
        }
        for target in TARGETS {
            let (indexed, in_order) =
                (result(&merged, target, false), result(&merged, target, true));
            assert_eq!(indexed, in_order, "GET {target}, round {round}");
        }
    }
}
