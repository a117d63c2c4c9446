//! Functions that scripts know from Apache and php-fpm.

use crate::script::{Script, assert_contains};

#[test]
fn request_header_fields() {
    for function in ["getallheaders", "apache_request_headers"] {
        let script =
            Script::new(&format!("$all = {function}(); ksort($all); echo json_encode($all);"))
                .with(&[
                    "--field",
                    "X-Some-Thing: 1",
                    "--field",
                    "Content-Type: text/plain",
                    "--field",
                    "Host: a.example",
                ]);
        assert_eq!(
            script.body(),
            r#"{"Content-Type":"text\/plain","Host":"a.example","X-Some-Thing":"1"}"#
        );
    }
}

#[test]
fn response_header_fields() {
    let php = "header('X-A: 1'); header('X-B:2'); echo json_encode(apache_response_headers());";
    assert_eq!(Script::new(php).with(&["-d", "expose_php=0"]).body(), r#"{"X-A":"1","X-B":"2"}"#);
}

#[test]
fn apaches_environment() {
    let php =
        "var_dump(apache_setenv('A', '1'), apache_getenv('A'), getenv('A'), apache_getenv('B'),
        apache_getenv('REQUEST_METHOD'));";
    let script = Script::new(php);
    let expected = "bool(true)\nstring(1) \"1\"\nstring(1) \"1\"\nbool(false)\nstring(3) \"GET\"\n";
    assert_eq!(script.body(), expected);
    let output = Script::new("echo json_encode(apache_getenv('A')); apache_setenv('A', 'x');")
        .with(&["--repeat", "3"])
        .output();
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("false").count(), 3);
}

#[test]
fn opcache_is_on_and_keeps_scripts() {
    let php = "$status = opcache_get_status(true); echo json_encode([$status['opcache_enabled'],
        $status['scripts'][__FILE__]['hits'] ?? null]), \"\\n\";";
    let script =
        Script::new(php).with(&["--repeat", "5", "-d", "opcache.file_update_protection=0"]);
    let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
    assert_contains(&output, "[true,4]");
}

#[test]
fn sessions_are_written_after_the_response() {
    let script = Script::new(
        "session_id('abc'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo \
         $_SESSION['n'], \"\\n\";",
    );
    script.file("sessions/keep", "");
    let folder = script.at("sessions");
    let script =
        script.with(&["-d", &format!("session.save_path={}", folder.display()), "--repeat", "3"]);
    let output = String::from_utf8_lossy(&script.output().stdout).into_owned();
    assert_contains(&output, "\r\n\r\n3\n");
    assert_eq!(std::fs::read_to_string(folder.join("sess_abc")).unwrap(), "n|i:3;");
}

#[test]
fn the_names_that_applications_look_for() {
    let php = "echo PHP_SAPI, ini_get('user_ini.filename'), extension_loaded('howdah');";
    assert_eq!(Script::new(php).body(), "apache2handler.user.ini1");
    assert_eq!(Script::new(php).with(&["--sapi", "fpm-fcgi"]).body(), "fpm-fcgi.user.ini1");
}
