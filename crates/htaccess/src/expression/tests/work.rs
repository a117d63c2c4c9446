//! The work of expressions: it is counted by the bytes that are copied and compared, and values
//! have a greatest length.

use super::context::FilesContext;
use crate::expression::Expression;
use crate::pattern::Captures;
use crate::testing::{request, transaction};
use crate::transaction::Transaction;
use crate::work::WorkBudget;

/// The request's variable `A`.
const LONG: usize = 10_000;

/// Evaluates a condition within a budget. Returns the result and the steps.
fn held(
    text: &str,
    budget: &WorkBudget,
    change: fn(&mut Transaction<'_>),
) -> (Result<bool, String>, u64) {
    let compiled = Expression::condition(text.as_bytes()).expect(text);
    let request = request("/", &format!("X-Long: {}", "x".repeat(LONG)));
    let mut tx = transaction(&request);
    tx.client = tx.client.within(budget);
    tx.state.env.push(b"A", &[b'a'; LONG]);
    tx.state.env.push(b"DIGITS", &[b'7'; LONG]);
    change(&mut tx);
    let answer = compiled.holds(&mut tx, &mut FilesContext, &mut Captures::default());
    (answer, budget.used())
}

#[test]
fn what_is_copied_and_compared_costs_steps() {
    let once = LONG as u64 / 16;
    let rows = [
        ("%{reqenv:A} == 'x'", once),
        ("-n '%{reqenv:A}%{reqenv:A}%{reqenv:A}'", 3 * once),
        ("-n '%{HTTP:X-Long}%{HTTP:X-Long}'", 2 * once),
        ("%{reqenv:A} == %{reqenv:A}", 3 * once),
        ("%{reqenv:A} =~ /(.*)/ && '$1$1$1' == 'x'", 5 * once),
        ("%{reqenv:DIGITS} -eq %{reqenv:DIGITS}", 8 * once),
        ("%{reqenv:A} -in {'x', %{reqenv:A}, 'y', %{reqenv:A}}", 3 * once),
        ("%{reqenv:A} -ipmatch '192.0.2.0/24'", 2 * once),
        ("-e '%{reqenv:A}'", 4 * once),
        ("-F '%{reqenv:A}'", 4 * once),
        ("-n tolower(%{reqenv:A})", LONG as u64),
        ("-n md5(%{reqenv:A})", LONG as u64),
        ("-n escape(%{reqenv:A})", LONG as u64),
    ];
    for (text, least) in rows {
        let budget = WorkBudget::new(1_000_000);
        let (answer, used) = held(text, &budget, |_| {});
        assert!(answer.is_ok(), "{text}: {answer:?}");
        assert!((least..3 * least + 500).contains(&used), "{text}: {used} steps of {least}");
    }
}

#[test]
fn the_fields_of_a_response_are_looked_through_for_steps() {
    type Change = fn(&mut Transaction<'_>);
    let many: [(&str, Change); 3] = [
        ("%{resp:X} == 'x'", |tx| (0..10_000).for_each(|_| tx.state.fields.push(b"A", b""))),
        ("%{resp:X} == 'x'", |tx| (0..10_000).for_each(|_| tx.state.error_fields.push(b"A", b""))),
        ("%{LAST_MODIFIED} == 'x'", |tx| {
            (0..10_000).for_each(|_| tx.state.fields.push(b"A", b""));
        }),
    ];
    for (text, change) in many {
        let budget = WorkBudget::new(1_000_000);
        let (answer, used) = held(text, &budget, change);
        assert_eq!(answer, Ok(false), "{text}");
        assert!(used >= 5_000, "{text}: {used}");
    }
}

/// A condition that only failed would protect nothing.
#[test]
fn a_value_of_more_than_64_kib_ends_the_evaluation() {
    let captures =
        |times: usize| format!("%{{reqenv:A}} =~ /(.*)/ && '{}' == 'x'", "$1".repeat(times));
    let variables = |times: usize| format!("-n '{}'", "%{reqenv:A}".repeat(times));
    let functions = |times: usize| format!("-n '{}'", "%{tolower:%{reqenv:A}}".repeat(times));
    let longer = |times: usize| format!("-n escape('{}')", "%{reqenv:A} ".repeat(times));
    type Row<'t> = (&'t dyn Fn(usize) -> String, [usize; 2]);
    let rows: [Row<'_>; 4] = [
        (&captures, [6, 3_900]),
        (&variables, [6, 700]),
        (&functions, [6, 340]),
        (&longer, [6, 600]),
    ];
    for (text, [most, many]) in rows {
        let budget = WorkBudget::new(1_000_000);
        let (answer, _) = held(&text(most), &budget, |_| {});
        assert!(answer.is_ok() && !budget.is_exhausted(), "{answer:?}");
        let (answer, used) = held(&text(many), &WorkBudget::new(1_000_000), |_| {});
        let few = WorkBudget::new(1_000_000);
        let (seventh, at_seven) = held(&text(7), &few, |_| {});
        assert!(few.is_refused(), "{}", &text(7)[..40]);
        assert_eq!(answer, seventh);
        assert!(answer.unwrap_err().contains("longer than 64 KiB"));
        // The rest is not looked at: refusing leaves no steps.
        assert_eq!((used, at_seven), (1_000_000, 1_000_000));
        let short = WorkBudget::new(100_000);
        assert!(held(&text(many), &short, |_| {}).0.is_err());
        assert!(short.is_refused(), "the limit comes first: {}", &text(7)[..40]);
    }
}

#[test]
fn vary_has_64_kib_at_most() {
    let names = |times: usize| {
        let name = |number: usize| format!("-n req(%{{reqenv:A}} . '{number}')");
        (0..times).map(name).collect::<Vec<_>>().join(" || ")
    };
    for (times, expected) in [(6, false), (7, true)] {
        let budget = WorkBudget::new(10_000_000);
        let (answer, _) = held(&names(times), &budget, |_| {});
        assert_eq!(answer.is_err(), expected, "{times}");
        assert_eq!(budget.is_refused(), expected, "{times}");
    }
}
