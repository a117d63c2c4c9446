//! Certificates of the local authority.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_sys::signal::SIGHUP;

use super::client::{TlsClient, Trust};
use crate::site::Site;
use crate::support::{Folder, Setup, is_root, wait_until};

/// A client that trusts the authority in a state folder.
fn client(state: &Path) -> TlsClient {
    let pem = fs::read(state.join("authority/authority.pem")).unwrap();
    TlsClient::trusting(&pem, Trust::Tls13)
}

#[test]
fn the_local_authority_is_kept_and_used_again() {
    let config = "listen = [{ address = \"127.0.0.1:0\", tls = true }]\nstate_dir = \"kept\"\n\
                  [[site]]\nhosts = [\"a.example\", \"*.b.example\"]\nroot = \"public\"\n\
                  php = false\ntls = \"internal\"\n\
                  [[site]]\nroot = \"public\"\nphp = false\ntls = { from = \"internal\" }\n";
    let site = Site::configured(&[("a.txt", "x")], config);
    let (address, state) = (site.server.address(), site.path().join("kept"));
    site.server.wait_for_log("to trust it: sudo cp ");
    let mut client = client(&state);
    for name in ["a.example", "x.b.example", "localhost", "127.0.0.1"] {
        let reply = client.connect(address, name).ask("GET", "/a.txt", &[("Host", name)], b"");
        assert_eq!((reply.status, reply.text()), (200, "x"), "{name}");
    }
    let key = state.join("authority/authority.key");
    assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
    let before = fs::read(&key).unwrap();
    let front = site.server.front();
    site.server.signal(SIGHUP);
    wait_until("another front serves alone", || {
        let mut fronts = site.server.processes();
        fronts.retain(|process| process.name() == "howdah-front");
        fronts.len() == 1 && fronts[0] != front
    });
    assert_eq!(fs::read(&key).unwrap(), before);
    let reply =
        client
            .connect(address, "a.example")
            .ask("GET", "/a.txt", &[("Host", "a.example")], b"");
    assert_eq!(reply.text(), "x");
}

#[test]
fn a_folder_is_served_over_tls_for_development() {
    let (folder, home) = (Folder::new(), Folder::writable());
    folder.file("a.txt", "x");
    let root = folder.path().display().to_string();
    let mut setup = Setup::with(&[
        "serve",
        &root,
        "--no-php",
        "--listen",
        "http://127.0.0.1:0",
        "--listen",
        "127.0.0.1:0",
        "--tls",
        "internal",
    ])
    .environment("HOME", home.path().to_str().unwrap())
    .environment("XDG_STATE_HOME", "");
    if is_root() {
        // Root's own state is of the machine.
        setup = setup.user(65_534);
    }
    let server = setup.start();
    let [plain, encrypted] = server.addresses() else {
        panic!("{}", server.announcement())
    };
    let lines =
        format!("howdah: listening on http://{plain}\nhowdah: listening on https://{encrypted}\n");
    assert_eq!(server.announcement(), lines);
    assert_eq!(server.get("/a.txt").text(), "x", "no redirect");
    let mut client = client(&home.path().join(".local/state/howdah"));
    for name in ["localhost", "127.0.0.1"] {
        assert_eq!(client.connect(*encrypted, name).get("/a.txt").text(), "x", "{name}");
    }
}

#[test]
fn a_broken_authority_closes_its_sites_alone() {
    let state = Folder::new();
    state.file("authority/authority.key", "no key");
    state.file("authority/authority.pem", "no certificate");
    let config = format!(
        "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\nstate_dir = \
         \"{}\"\n[http3]\nenabled = false\n\
         [[site]]\nname = \"shop\"\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = \"internal\"\n\
         [[site]]\nname = \"plain\"\nhosts = [\"b.example\"]\nroot = \"public\"\nphp = false\n",
        state.path().display()
    );
    let site = Site::configured(&[("a.txt", "x")], &config);
    site.server.wait_for_log("site shop is closed: the local authority: ");
    assert_eq!(site.ask("GET", "/a.txt", &[("Host", "b.example")], b"").text(), "x");
    let closed = site.ask("GET", "/a.txt", &[("Host", "a.example")], b"");
    assert_eq!(closed.status, 503);
}
