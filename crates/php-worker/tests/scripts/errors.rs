//! Everything that can go wrong in a script, and what the client and the log get.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::script::{Script, assert_contains};

/// The settings of php.ini-production.
const QUIET: [&str; 6] =
    ["-d", "display_errors=0", "-d", "log_errors=1", "-d", "output_buffering=0"];

#[test]
fn a_missing_script_is_not_found() {
    let script = Script::new("").run("missing.php");
    let response = script.response();
    assert_eq!((response.status, response.body.as_str()), (404, "File not found.\n"));
    assert_contains(&response.log, "notice: script not found, worker ");
}

#[test]
fn an_unreadable_script_is_forbidden() {
    let script = Script::new("echo 'secret';");
    fs::set_permissions(script.at("index.php"), fs::Permissions::from_mode(0o0)).unwrap();
    let response = script.by_nobody().response();
    assert_eq!((response.status, response.body.as_str()), (403, "Access denied.\n"));
}

#[test]
fn fatal_errors_are_500_unless_something_was_sent() {
    let cases = [
        ("nothing();", "Call to undefined function nothing()"),
        (
            "throw new RuntimeException(\"two\\nlines\");",
            "Uncaught RuntimeException: two\\nlines in",
        ),
        ("require 'nowhere.php';", "Failed opening required 'nowhere.php'"),
        ("$x = ", "syntax error, unexpected end of file"),
        ("trigger_error('mine', E_USER_ERROR);", "mine"),
        ("$a = str_repeat('x', 1 << 30);", "Allowed memory size of"),
    ];
    for (php, message) in cases {
        let response = Script::new(php).with(&QUIET).with(&["-d", "memory_limit=64M"]).response();
        assert_eq!((response.status, response.body.as_str()), (500, ""), "{php}");
        assert_contains(&response.log, message);
        assert_contains(&response.log, "index.php for GET /index.php\n");
        assert!(
            response
                .log
                .lines()
                .all(|line| line.starts_with("error: ") || line.starts_with("warning: ")),
            "{}",
            response.log
        );

        let script = format!("echo 'begun'; flush(); {php}");
        if php != "$x = " {
            let response =
                Script::new(&script).with(&QUIET).with(&["-d", "memory_limit=64M"]).response();
            assert_eq!((response.status, response.body.as_str()), (200, "begun"), "{php}");
        }
    }
}

#[test]
fn displayed_errors_come_with_200_as_in_php_fpm() {
    let response = Script::new("nothing();")
        .with(&["-d", "display_errors=1", "-d", "html_errors=0"])
        .response();
    assert_eq!(response.status, 200);
    assert_contains(
        &response.body,
        "Fatal error: Uncaught Error: Call to undefined function nothing()",
    );
}

#[test]
fn warnings_are_logged_and_the_script_goes_on() {
    let response = Script::new("echo $undefined; error_log('mine'); echo 'on';")
        .with(&QUIET)
        .response();
    assert_eq!((response.status, response.body.as_str()), (200, "on"));
    let mut lines = response.log.lines();
    assert_contains(
        lines.next().unwrap(),
        "warning: PHP Warning:  Undefined variable $undefined in ",
    );
    assert_contains(lines.next().unwrap(), "notice: mine, worker ");
}

#[test]
fn error_log_to_a_file_stays_there() {
    let script = Script::new("error_log('mine');");
    let file = script.at("errors");
    let script = script.with(&["-d", &format!("error_log={}", file.display())]);
    assert_eq!(script.response().log, "");
    assert_contains(&fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn shutdown_functions_run_after_exit_and_fatal_errors() {
    for end in ["exit(3);", "nothing();", "throw new Exception('x');", "exit('bye');"] {
        let php = format!(
            "register_shutdown_function(function () {{ echo 'shut'; }}); echo 'a'; {end} echo \
             'never';"
        );
        let response = Script::new(&php).with(&QUIET).response();
        assert!(
            response.body.starts_with('a') && response.body.ends_with("shut"),
            "{end}: {}",
            response.body
        );
        assert!(!response.body.contains("never"));
    }
}

#[test]
fn processor_time_is_limited() {
    let php = "register_shutdown_function(function () { echo 'shut'; }); while (true) { }";
    let response = Script::new(php).with(&QUIET).with(&["-d", "max_execution_time=1"]).response();
    assert_eq!((response.status, response.body.as_str()), (500, "shut"));
    assert_contains(&response.log, "Maximum execution time of 1 second exceeded");
}

#[test]
fn a_head_that_is_too_long_is_the_scripts_fault() {
    // Only the shared memory has a limit; here it shows that PHP itself has none.
    let response = Script::new("header('X-A: ' . str_repeat('x', 100000)); echo 'x';").response();
    assert_eq!(response.field("X-A")[0].len(), 100_000);
}

#[test]
fn the_next_request_starts_afresh() {
    let php = "ini_set('memory_limit', '33M'); date_default_timezone_set('Asia/Tokyo'); \
        $GLOBALS['x'] = 1;
        static $count = 0; echo ++$count, ini_get('memory_limit') , \"\\n\"; define('ONCE', 1); \
        function once() {} nothing();";
    let output = Script::new(php).with(&QUIET).with(&["--repeat", "3"]).output();
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("\r\n\r\n133M\n").count(), 3);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr)
            .matches("undefined function nothing")
            .count(),
        3
    );
}
