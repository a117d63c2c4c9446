//! Foreign programs: curl, nghttp, and h2spec, which tests a server against RFC 9113.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::site::Site;
use crate::support::has_php;

/// Returns the program, from `target/tools` or `$PATH`. `None`: it is not there, which is said.
fn program(name: &str, source: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap_or(Path::new("target"));
    let own = target.join("tools/bin").join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = [own]
        .into_iter()
        .find(|own| own.exists())
        .or_else(|| places.find(|at| at.exists()));
    if found.is_none() {
        howdah_skip::skip!("there is no {name}: {source} installs it");
    }
    found
}

fn run(program: &Path, arguments: &[&str]) -> (Output, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn curl_gets_and_sends() {
    let packages = "`scripts/install-packages.sh test`";
    let Some(curl) = program("curl", packages).filter(|_| has_php()) else {
        return;
    };
    let script =
        "<?php echo $_SERVER['SERVER_PROTOCOL'], ' ', strlen(file_get_contents('php://input'));";
    let site = Site::new(&[("index.php", script)]);
    let url = format!("http://{}/", site.server.address());
    let upload = site.path().join("upload");
    std::fs::write(&upload, vec![b'x'; 1_000_000]).unwrap();
    let data = format!("@{}", upload.display());
    let common = ["-sS", "--http2-prior-knowledge", "-w", " %{http_version} %{http_code}", &url];
    let (output, text) = run(&curl, &common);
    assert_eq!(text, "HTTP/2.0 0 2 200", "{output:?}");
    let (output, text) = run(&curl, &[&common[..], &["--data-binary", &data]].concat());
    assert_eq!(text, "HTTP/2.0 1000000 2 200", "{output:?}");
}

#[test]
fn nghttp_gets_several_at_once() {
    let Some(nghttp) = program("nghttp", "`scripts/install-packages.sh test`") else {
        return;
    };
    let large = "x".repeat(300_000);
    let site = Site::new(&[("a.txt", "hello"), ("large.txt", &large)]);
    let [small, one, two] = ["a.txt", "large.txt?1", "large.txt?2"]
        .map(|name| format!("http://{}/{name}", site.server.address()));
    let (output, text) = run(&nghttp, &["-n", "-s", &one, &small, &two]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.matches(" 200 ").count(), 3, "{text}");
}

const TLS: &str = "listen = [{ address = \"127.0.0.1:0\", tls = true }]\nstate_dir = \"kept\"\n\
                   [[site]]\nroot = \"public\"\ntls = { from = \"internal\" }\n\
                   [site.php]\nworkers = 2\nstate_dir = \"state\"\n";

#[test]
fn curl_chooses_http2_over_tls() {
    let packages = "`scripts/install-packages.sh test`";
    let Some(curl) = program("curl", packages).filter(|_| has_php()) else {
        return;
    };
    let script = "<?php echo $_SERVER['SERVER_PROTOCOL'], ' ', $_SERVER['HTTPS'];";
    for (http2, protocol, version) in [(true, "HTTP/2.0", "2"), (false, "HTTP/1.1", "1.1")] {
        let config = format!("{TLS}[http2]\nenabled = {http2}\n");
        let site = Site::configured(&[("index.php", script)], &config);
        let url = format!("https://{}/", site.server.address());
        let form = " %{http_version} %{http_code}";
        let (output, text) = run(&curl, &["-sS", "-k", "--http2", "-w", form, &url]);
        assert_eq!(text, format!("{protocol} on {version} 200"), "{output:?}");
    }
}

/// The script reads the content of requests: a file is sent before h2spec has sent its whole
/// mistake.
const H2SPEC_SCRIPT: (&str, &str) = (
    "index.php",
    "<?php echo strlen(file_get_contents('php://input')), str_repeat('x', 100000);",
);

/// Every case of h2spec passes.
#[test]
fn h2spec_finds_nothing() {
    let Some(h2spec) = program("h2spec", "`scripts/install-h2spec`").filter(|_| has_php()) else {
        return;
    };
    let site = Site::configured(&[H2SPEC_SCRIPT], TLS);
    let port = site.server.address().port().to_string();
    let (output, text) = run(&h2spec, &["-t", "-k", "-h", "127.0.0.1", "-p", &port, "-o", "30"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(" 0 failed"), "{text}\n{said}");
}

/// In the clear one case fails, as it must on a port that speaks HTTP/1, too: bytes that begin no
/// HTTP/2 are answered as HTTP/1, where h2spec wants them unanswered.
#[test]
fn h2spec_finds_http1_in_the_clear() {
    let Some(h2spec) = program("h2spec", "`scripts/install-h2spec`").filter(|_| has_php()) else {
        return;
    };
    let site = Site::new(&[H2SPEC_SCRIPT]);
    let port = site.server.address().port().to_string();
    let (output, text) = run(&h2spec, &["-h", "127.0.0.1", "-p", &port, "-o", "30"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(" 1 failed"), "{text}\n{said}");
    assert!(text.contains("× 2: Sends invalid connection preface"), "{text}\n{said}");
}
