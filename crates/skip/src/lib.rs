//! How a test says that it was skipped. `scripts/run-tests` collects these lines, counts the tests
//! and lists the reasons. Only tests use this crate.
#![forbid(unsafe_code)]

use std::io::Write;
use std::panic::Location;

/// Prints that the running test, or a part of it, is skipped, and why. Takes what [`format!`]
/// takes. The test ends afterwards, or goes on without the part.
#[macro_export]
macro_rules! skip {
    ($($why:tt)+) => {
        $crate::say(&format!($($why)+))
    };
}

/// Prints `skipped: TEST: WHY` on standard error, past the test harness, which does not show what a
/// passed test has printed otherwise. `skip!` calls it.
#[track_caller]
pub fn say(why: &str) {
    let thread = std::thread::current();
    let line = line(thread.name(), Location::caller(), why);
    // Nobody is left to tell where standard error is closed.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The harness names a test's thread after the test. A test that it runs in the main thread, and a
/// thread that the test has started, are named by their place in the sources.
fn line(thread: Option<&str>, place: &Location<'_>, why: &str) -> String {
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    match thread {
        Some(test) if test != "main" => format!("skipped: {test}: {why}\n"),
        _ => format!("skipped: {}:{}: {why}\n", place.file(), place.line()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "an example for the test below"]
    fn an_example() {
        skip!("there is no {}:\n  install it", "thing");
    }

    #[test]
    fn the_reason_is_shown_although_the_test_passes() {
        let program = std::env::current_exe().unwrap();
        for threads in ["1", "2"] {
            let output = Command::new(&program)
                .args(["--ignored", "--exact", "tests::an_example", "--test-threads", threads])
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            let (begin, why) = said.trim_end().split_once(": there").unwrap();
            let name = begin.strip_prefix("skipped: ").unwrap();
            assert!(name == "tests::an_example" || name.starts_with(file!()), "{said}");
            assert_eq!(why, " is no thing: install it", "{said}");
        }
    }

    #[test]
    fn a_thread_without_a_name_says_its_place() {
        let place = Location::caller();
        let expected = format!("skipped: {}:{}: why\n", place.file(), place.line());
        assert_eq!(line(None, place, "why"), expected);
        assert_eq!(line(Some("main"), place, "why"), expected);
        assert_eq!(line(Some("a::b"), place, " why\n not "), "skipped: a::b: why not\n");
    }
}
