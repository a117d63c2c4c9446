//! The demo as `make serve` starts it: over http and https, in every protocol.

use std::path::Path;
use std::process::Command;

use quinn::TransportConfig;

use crate::http2::client::Http2;
use crate::http3::client::Http3;
use crate::support::{Folder, HOWDAH, Server, Setup, has_php, is_root};
use crate::tls::client::{TlsClient, Trust};

/// A user without any right, of root's tests: root's own state is of the machine.
const NOBODY: u32 = 65_534;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/serve-demo");

fn start(programs: &str, home: &Path) -> Server {
    let setup = Setup::with(&[programs, "127.0.0.1:0", "127.0.0.1:0"])
        .program(Path::new(SCRIPT))
        .environment("HOME", home.to_str().unwrap())
        .environment("XDG_STATE_HOME", "");
    match is_root() {
        true => setup.user(NOBODY).start(),
        false => setup.start(),
    }
}

/// Returns whether the user of a test may run that program.
fn is_open(program: &str) -> bool {
    let user = format!("--reuid={NOBODY}");
    let tried = Command::new("setpriv")
        .args([&user, "--regid=65534", "--clear-groups", "--", "test", "-x", program])
        .status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn make_serve_answers_https_in_every_protocol() {
    if !has_php() {
        return;
    }
    let programs = Path::new(HOWDAH).parent().unwrap().display().to_string();
    if is_root() && !(is_open(&format!("{programs}/howdah")) && is_open(SCRIPT)) {
        howdah_skip::skip!("other users may not enter {programs} or the working copy");
        return;
    }
    let home = Folder::writable();
    // The port of TCP is free; another test's client may have it for UDP.
    let servers = std::iter::repeat_with(|| start(&programs, home.path())).take(20);
    let server = servers
        .into_iter()
        .find(|server| !server.log().contains("no HTTP/3 on"))
        .expect("a free UDP port");
    let [_, encrypted] = *server.addresses() else {
        panic!("{}", server.announcement())
    };
    let page = server.get("/");
    assert!(page.status == 200 && page.text().contains("Howdah"), "{page:?}");
    let pem = std::fs::read(home.path().join(".local/state/howdah/authority/authority.pem"));
    let pem = pem.unwrap();
    let mut client = TlsClient::trusting(&pem, Trust::Tls13);
    let page = client.connect(encrypted, "localhost").get("/");
    assert!(page.status == 200 && page.text().contains("Howdah"), "{page:?}");
    let page = Http2::encrypted_as(encrypted, client.settings(), "localhost").get("/");
    assert!(page.status == 200 && page.text().contains("Howdah"), "{page:?}");
    let transport = TransportConfig::default();
    let page = Http3::trusting_as(encrypted, "localhost", &pem, transport).get("/");
    assert!(page.status == 200 && page.text().contains("Howdah"), "{page:?}");
}
