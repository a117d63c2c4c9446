//! Tests the report of `scripts/run-tests` about test programs that have skipped tests.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Runs the script with programs that print what it is given, one for each.
const RUN: &str = r#"
import importlib.util, importlib.machinery, sys
loader = importlib.machinery.SourceFileLoader("run_tests", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
loader.exec_module(script)
print_and_exit = "import sys; sys.stdout.write(sys.argv[1]); sys.exit('FAILED' in sys.argv[1])"
programs = {
    f"a/{number}": ([sys.executable, "-c", print_and_exit, text], ".")
    for number, text in enumerate(sys.argv[2:])
}
sys.exit(script.run(programs))
"#;

/// Returns what the script prints about programs with these outputs.
fn report(outputs: &[&str]) -> (Option<i32>, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/run-tests");
    let output = Command::new("python3")
        .args(["-B", "-c", RUN, script])
        .args(outputs)
        .output()
        .expect("make needs python3, too");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

const GOOD: &str = "running 3 tests\n\
    skipped: one::a: no thing: install it\n\
    test one::a ... ok\n\
    skipped: one::a: no thing: install it\n\
    test one::b ... skipped: crates/x/src/lib.rs:7: no thing: install it\n\
    ok\n\
    test one::c ... ok\n\n\
    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";

#[test]
fn skipped_tests_are_listed_and_counted_once() {
    let (status, told) = report(&[GOOD]);
    assert_eq!(status, Some(0), "{told}");
    let list = "\nskipped: no thing: install it\n    \
                a/0 crates/x/src/lib.rs:7\n    a/0 one::a\n";
    assert!(told.contains(list), "{told}");
    assert!(told.contains("test result: ok. 3 passed; 0 failed; 1 ignored"), "{told}");
    assert!(told.ends_with("\n1 passed, 0 failed, 2 skipped\n"), "{told}");
}

#[test]
fn a_failed_test_is_no_skipped_one() {
    let bad = "running 2 tests\n\
        skipped: two::a: only half\n\
        test two::a ... FAILED\n\
        test two::b ... ok\n\n\
        failures:\n\n\
        ---- two::a stdout ----\n\
        thread 'two::a' panicked at x.rs:1:1:\nnot so\n\n\
        failures:\n    two::a\n\n\
        test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let (status, told) = report(&[GOOD, bad]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("FAILED a/1: two::a\n    x.rs:1:1:\n    not so\n"), "{told}");
    assert!(!told.contains("skipped: only half\n    a/1"), "{told}");
    assert!(told.ends_with("\n2 passed, 1 failed, 2 skipped\n"), "{told}");
}

#[test]
fn a_program_that_ends_without_counting_has_failed() {
    let (status, told) = report(&["FAILED to start\n"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.ends_with("\n0 passed, 1 failed, 0 skipped\n"), "{told}");
}

#[test]
fn without_skipped_tests_there_is_no_list() {
    let good = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let (status, told) = report(&[good, good]);
    assert_eq!(status, Some(0), "{told}");
    assert!(!told.contains("skipped:"), "{told}");
    assert!(told.ends_with("\n4 passed, 0 failed, 0 skipped\n"), "{told}");
}
