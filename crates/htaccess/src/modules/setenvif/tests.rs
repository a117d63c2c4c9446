use howdah_http::Status;

use super::header_parser;
use crate::merge::Merge;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};
use crate::trace::Trace;
use crate::transaction::Transaction;
use crate::work::WorkBudget;

const FIELDS: &str = "Host: example.org
    User-Agent: Mozilla/5.0 (compatible; BadBot/2.1)
    X-One: first
    X-Two: second
    X-Two: third
    X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa#
    X-Empty:";

/// Applies the files, outermost first, to a request with `SEEN=before`.
fn passed<T>(files: &[&str], look: fn(&Transaction<'_>, Result<(), Status>) -> T) -> T {
    let merged = files
        .iter()
        .map(|lines| settings(lines).setenvif.unwrap_or_default().as_ref().clone())
        .reduce(|base, add| Merge::merge(&base, &add))
        .expect("a file");
    let request = request("/folder/page.php?a=b", FIELDS);
    let mut transaction = transaction(&request);
    transaction.state.env.push(b"SEEN", b"before");
    transaction.state.trace = Some(Box::new(Trace::default()));
    let answer = header_parser(&mut transaction, &merged, &mut Nowhere::default());
    look(&transaction, answer)
}

/// The variables, without the one that was there.
fn variables(files: &[&str]) -> String {
    passed(files, |transaction, answer| {
        if let Err(status) = answer {
            return status.code().to_string();
        }
        let pairs = transaction.state.env.iter().filter(|(_, value)| *value != b"before");
        let pairs = pairs.map(|(name, value)| [name, b"=", value].concat());
        String::from_utf8(pairs.collect::<Vec<_>>().join(&b' ')).unwrap()
    })
}

fn check(rows: &[(&str, &str)]) {
    for (lines, expected) in rows {
        assert_eq!(variables(&[lines]), *expected, "{lines}");
    }
}

#[test]
fn attributes() {
    check(&[
        ("SetEnvIf Remote_Addr ^192\\.0\\.2\\. A", "A=1"),
        ("SetEnvIf Remote_Host ^192\\.0\\.2\\.1$ A", "A=1"),
        ("SetEnvIf server_addr ^192\\.0\\.2\\.2$ A", "A=1"),
        ("SetEnvIf Request_URI \\.php$ A", "A=1"),
        ("SetEnvIf Request_URI a=b A", ""),
        ("SetEnvIf Request_Method ^GET$ A", "A=1"),
        ("SetEnvIf Request_Protocol ^HTTP/1\\.1$ A", "A=1"),
        ("SetEnvIf user-agent BadBot A", "A=1"),
        ("SetEnvIf User-Agent badbot A", ""),
        ("SetEnvIfNoCase User-Agent badbot A", "A=1"),
        ("BrowserMatch BadBot/([0-9]) A=$1", "A=2"),
        ("BrowserMatch badbot A", ""),
        ("BrowserMatchNoCase badbot A", "A=1"),
        ("SetEnvIf X-Two ^(.*)$ A=$1", "A=second, third"),
        ("SetEnvIf User-Agent BadBot/\\d A", "A=1"),
        ("SetEnvIf User-Agent BadBo\\d A", ""),
        ("SetEnvIf X-None ^$ A", "A=1"),
        ("SetEnvIf X-Empty ^$ A", "A=1"),
        ("SetEnvIf SEEN before A", "A=1"),
        ("SetEnvIf seen ^before$ A", "A=1"),
        ("SetEnvIf ^X- ^(.*)$ A=$1", "A="),
        ("SetEnvIf ^X-.*o$ ^(.*)$ A=$1", "A=second, third"),
        ("SetEnvIf ^x- . A", ""),
        ("SetEnvIfNoCase ^x-o ^(.*)$ A=$1", "A=first"),
        ("SetEnvIf ^Nothing ^$ A", "A=1"),
    ]);
}

#[test]
fn values() {
    check(&[
        ("SetEnvIf X-One f A B=2 C=", "A=1 B=2 C=1"),
        ("SetEnvIf X-One f A==x=y", "A=x=y"),
        ("SetEnvIf X-One f A_B\nSetEnvIf A_B 1 C", "A_B=1 C=1"),
        ("SetEnvIf X-One f \"A=one two\"", "A=one two"),
        ("SetEnvIf X-One f !SEEN", ""),
        ("SetEnvIf X-One f A\nSetEnvIf X-Two s !A B", "B=1"),
        ("SetEnvIf X-One f A=!x", ""),
        ("SetEnvIf X-One f !A=x", "!A=x"),
        ("SetEnvIf X-One f A a=2", "A=2"),
        ("SetEnvIf X-One f A\nSetEnvIf X-Two s a=2", "A=2"),
        // Text is no regular expression, and its values are taken literally.
        ("SetEnvIf X-One first A=$0\\x", "A=$0\\x"),
        ("SetEnvIf X-One firs. A=$0\\x$9\\$1$", "A=firstx$1$"),
        ("SetEnvIf User-Agent \\(compatible A=$0", "A=$0"),
        ("SetEnvIf X-One (i)(r)(s) A=$3$2$1", "A=sri"),
    ]);
    let long = "$0".repeat(3_000);
    assert_eq!(variables(&[&format!("SetEnvIf User-Agent ..+ A={long}")]), "500");
}

/// Rules in a row look at what the attribute was at the first of them.
#[test]
fn runs_of_the_same_attribute() {
    check(&[
        ("SetEnvIf A ^$ A=x\nSetEnvIf A ^$ B", "A=x B=1"),
        ("SetEnvIf A ^$ A=x\nSetEnvIf X-One f C\nSetEnvIf A ^$ B", "A=x C=1"),
        ("SetEnvIf A ^$ A=x\nSetEnvIf X-One f C\nSetEnvIf a ^x B", "A=x C=1 B=1"),
        ("SetEnvIf X-One f A\nSetEnvIf X-One f a=2 B", "A=2 B=1"),
        ("SetEnvIf X-One f A\nSetEnvIfNoCase X-One F !A", ""),
    ]);
    assert_eq!(variables(&["SetEnvIf A ^$ A=x", "SetEnvIf A ^$ B"]), "A=x");
    let robots: String = (0..100)
        .map(|at| format!("SetEnvIfNoCase User-Agent bot{at}/ A=bot{at}\n"))
        .collect();
    let and = |line: &str| variables(&[&format!("{robots}{line}\n{robots}")]);
    assert_eq!(and("SetEnvIfNoCase User-Agent badBOT/(.) A=$1 B"), "A=2 B=1");
    assert_eq!(and("SetEnvIfNoCase User-Agent nobody B"), "");
    assert_eq!(and("SetEnvIfNoCase X-One f B"), "B=1");
}

#[test]
fn expressions() {
    check(&[
        ("SetEnvIfExpr \"%{REQUEST_URI} =~ m#page#\" A=x", "A=x"),
        ("SetEnvIfExpr \"%{REQUEST_URI} =~ m#(p.)ge#\" A=$1\\$1", "A=pa$1"),
        ("SetEnvIfExpr \"%{REQUEST_URI} !~ m#(none)#\" A=$1\\$1", "A=$1\\$1"),
        ("SetEnvIfExpr \"false\" A", ""),
        ("SetEnvIfExpr \"reqenv('SEEN') == 'before'\" A", "A=1"),
        ("SetEnvIf X-One f A\nSetEnvIfExpr \"reqenv('A') == '1'\" B !A", "B=1"),
        // The value is then what the expression matched last.
        (
            "SetEnvIf X-One none A\nSetEnvIfExpr \"'other' =~ /(o)/\" B\nSetEnvIf X-One ^other$ C",
            "B=1 C=1",
        ),
    ]);
}

#[test]
fn what_is_wrong() {
    let rows = [
        "SetEnvIf",
        "SetEnvIf X-One",
        "SetEnvIf X-One f",
        "SetEnvIf X-One ( A",
        "SetEnvIf X-One( f A",
        "BrowserMatch",
        "BrowserMatch f",
        "BrowserMatchNoCase \"\" A",
        "SetEnvIfExpr",
        "SetEnvIfExpr true",
        "SetEnvIfExpr \"true &&\" A",
    ];
    for row in rows {
        let complaint = try_settings(row).expect_err(row);
        assert!(complaint.message.starts_with(row.split(' ').next().unwrap()), "{complaint:?}");
    }
}

#[test]
fn what_tries_too_much_is_answered_with_500() {
    let lines = "SetEnvIf X-Long (a+)+$ A";
    passed(&[lines], |transaction, answer| {
        assert_eq!(answer, Err(Status::INTERNAL_SERVER_ERROR));
        let (place, what) = &transaction.state.complaints[0];
        assert_eq!(
            (place.as_ref().unwrap().line, what.contains("too many steps")),
            (1, true),
            "{what}"
        );
    });
}

/// Values that contain a long one thousands of times.
#[test]
fn a_value_that_becomes_too_long_is_never_put_together() {
    let rules = format!("SetEnvIf X-Long ^.*$ B={}", "$0".repeat(4_000));
    let config = settings(&rules).setenvif.unwrap();
    for (length, most) in [(10, 9_000), (16, 15_000), (17, 9_000), (10_000, 7_000)] {
        let request = request("/", &format!("X-Long: {}", "x".repeat(length)));
        let budget = WorkBudget::new(1_000_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        let answer = header_parser(&mut tx, &config, &mut Nowhere::default());
        assert_eq!(answer.is_ok(), 4_000 * length < 64 << 10, "{length}");
        assert!(budget.used() < most, "{length}: {}", budget.used());
        if answer.is_err() {
            let (place, what) = &tx.state.complaints[0];
            assert!(place.is_some() && what.contains("too long"), "{what}");
        } else {
            assert_eq!(tx.variable(b"B").unwrap().len(), 4_000 * length);
            assert!(budget.used() > 4_000, "{}", budget.used());
        }
    }
}

#[test]
fn values_are_copied_for_expressions_at_a_price() {
    let rules = format!("SetEnvIf X-Long x A\n{}", "SetEnvIfExpr true B\n".repeat(1_000));
    let config = settings(&rules).setenvif.unwrap();
    let request = request("/", &format!("X-Long: {}", "x".repeat(8_000)));
    let budget = WorkBudget::new(50_000_000);
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    header_parser(&mut tx, &config, &mut Nowhere::default()).unwrap();
    assert!(budget.used() > 1_000 * 2 * 8_000 / 16, "{}", budget.used());
}

#[test]
fn what_is_told() {
    let told = passed(
        &["SetEnvIf X-One nothing A\nSetEnvIfNoCase X-One ^(f) A=$1 !SEEN"],
        |transaction, _| {
            let events = &transaction.state.trace.as_ref().unwrap().events;
            events
                .iter()
                .map(|event| format!("{} | {:?} | {}", event.text, event.facts, event.outcome))
                .collect::<Vec<_>>()
        },
    );
    assert_eq!(
        told,
        ["SetEnvIfNoCase X-One ^(f) | [(\"subject\", \"first\"), (\"pattern\", \"^(f)\")] | sets \
                A=f, unsets SEEN"]
    );
}
