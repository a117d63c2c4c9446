//! HTTP on the control socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{TOP, named};
use crate::site::Site;
use crate::support::{Setup, is_root, wait_until};

const PLAIN: &str = "[[site]]\nname = \"blog\"\nroot = \"public\"\nphp = false\n";

fn socket(site: &Site) -> PathBuf {
    site.path().join("control")
}

/// Sends a request, and returns the head and the content of the response.
fn ask(socket: &Path, line: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    // In two parts: the server waits for the rest of a head.
    let (begin, end) = line.split_at(3);
    stream.write_all(begin.as_bytes()).unwrap();
    stream
        .write_all(format!("{end} HTTP/1.1\r\nHost: howdah\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, content) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), content.to_owned())
}

#[test]
fn the_control_socket_answers_http_like_the_admin_listener() {
    let site = Site::configured(&[("f.txt", "content")], &format!("{TOP}{PLAIN}"));
    let socket = socket(&site);
    let (head, content) = ask(&socket, "GET /status");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/json"), "{head}");
    let status: Value = serde_json::from_str(&content).unwrap();
    assert_eq!(named(&status, "blog")["pool"], Value::Null);
    for (line, expected, part) in [
        ("GET /metrics", "HTTP/1.1 200 ", "# EOF\n"),
        ("GET /healthz", "HTTP/1.1 200 ", "ok\n"),
        ("GET /f.txt", "HTTP/1.1 404 ", "Not Found"),
        ("GET /reload", "HTTP/1.1 405 ", "use POST"),
        ("PUT /status", "HTTP/1.1 405 ", "use GET"),
    ] {
        let (head, content) = ask(&socket, line);
        assert!(head.starts_with(expected) && content.contains(part), "{line}: {head} {content}");
        for field in ["Date: ", "X-Content-Type-Options: nosniff", "Connection: close"] {
            assert!(head.contains(field), "{line}: {head}");
        }
    }
    for (line, allow) in
        [("HEAD /reload", "POST"), ("DELETE /stop", "POST"), ("PUT /", "GET, HEAD")]
    {
        let (head, content) = ask(&socket, line);
        assert!(head.contains(&format!("\r\nAllow: {allow}\r\n")), "{line}: {head}");
        assert_eq!(content.is_empty(), line.starts_with("HEAD"), "{line}: {content}");
    }
}

#[test]
fn the_control_socket_reloads_and_stops_the_server_over_http() {
    let mut site = Site::configured(&[("f.txt", "content")], &format!("{TOP}{PLAIN}"));
    let socket = socket(&site);
    let (head, content) = ask(&socket, "POST /reload");
    assert!(head.starts_with("HTTP/1.1 200 ") && content.starts_with("generation 2 "), "{content}");
    let file = site.path().join("howdah.toml");
    let right = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, right.replace("root =", "rot =")).unwrap();
    let (head, content) = ask(&socket, "POST /reload");
    assert!(head.starts_with("HTTP/1.1 409 ") && content.contains("`rot`"), "{head} {content}");
    assert_eq!(site.get("/f.txt").text(), "content");
    let (head, content) = ask(&socket, "POST /stop");
    assert!(head.starts_with("HTTP/1.1 200 ") && content == "stopped\n", "{head} {content}");
    assert!(site.server.wait().success());
}

#[test]
fn the_control_group_may_ask_and_change_nothing() {
    let setpriv = Path::new("/usr/bin/setpriv").exists() && Path::new("/usr/bin/curl").exists();
    if !is_root() || !setpriv {
        howdah_skip::skip!("needs root, setpriv and curl");
        return;
    }
    let config = format!("control_group = \"games\"\n{TOP}{PLAIN}");
    let site = Site::configured(&[("f.txt", "content")], &config);
    let socket = socket(&site);
    let ask_as = |group: &str, method: &str, path: &str| {
        let told = Command::new("/usr/bin/setpriv")
            .args(["--reuid", "nobody", "--regid", group, "--clear-groups", "/usr/bin/curl"])
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", method, "--unix-socket"])
            .arg(&socket)
            .arg(format!("http://howdah{path}"))
            .output()
            .unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    assert_eq!(ask_as("games", "GET", "/status"), "200");
    assert_eq!(ask_as("games", "POST", "/reload"), "403");
    assert_eq!(ask_as("games", "POST", "/stop"), "403");
    // curl has no connection.
    assert_eq!(ask_as("nogroup", "GET", "/status"), "000");
    // Without the key nobody else may connect any more.
    site.reconfigure(&format!("{TOP}{PLAIN}"));
    assert!(ask(&socket, "POST /reload").0.starts_with("HTTP/1.1 200 "));
    wait_until("the group is shut out", || ask_as("games", "GET", "/status") == "000");
}

#[test]
fn a_control_group_that_does_not_exist_is_refused() {
    let mistake = |config: &str| format!("control_group = \"no-such-group\"\n{config}");
    let config = format!("{TOP}{PLAIN}");
    let site = Site::configured(&[("f.txt", "content")], &config);
    site.reconfigure(&mistake(&config));
    let file = site.path().join("howdah.toml");
    let told = "`control_group`: there is no group no-such-group on this machine; create it, or \
                name another";
    for (command, expected) in [("check", 1), ("serve", 2), ("reload", 1)] {
        let (code, _, errors) = Setup::with(&[command, "--config", file.to_str().unwrap()]).run();
        assert!(code == Some(expected) && errors.contains(told), "{command}: {code:?} {errors}");
    }
    assert_eq!(site.get("/f.txt").text(), "content");
}
