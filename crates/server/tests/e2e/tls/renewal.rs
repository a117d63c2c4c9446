//! Certificates and keys that change while the server runs.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use super::LISTEN;
use super::client::{self, Authority, Certified, TlsClient, Trust};
use crate::site::Site;
use crate::support::{Folder, Setup, has_php, wait_until};

fn site(folder: &Folder) -> Site {
    Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}control = \"control\"\n[[site]]\nname = \"shop\"\nhosts = [\"a.example\"]\n\
             root = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    )
}

fn write(folder: &Folder, pair: &Certified) {
    folder.file("a.pem", &pair.certificate);
    folder.file("a.key", &pair.key);
}

/// The certificate that a new client is shown.
fn shown(authority: &Authority, address: SocketAddr) -> Vec<u8> {
    let mut wire = authority.connect(address, "a.example", Trust::Tls13);
    assert_eq!(wire.get("/a.txt").text(), "x");
    wire.tls().peer_certificates().unwrap()[0].to_vec()
}

fn is_resumed(client: &mut TlsClient, address: SocketAddr) -> bool {
    let mut wire = client.connect(address, "a.example");
    assert_eq!(wire.get("/a.txt").text(), "x");
    wire.tls().handshake_kind() == Some(rustls::HandshakeKind::Resumed)
}

#[test]
fn a_new_certificate_is_used_without_a_reload() {
    let authority = Authority::new();
    let (first, second) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("a", &first)]);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    let mut kept = authority.connect(address, "a.example", Trust::Tls13);
    assert_eq!(kept.get("/a.txt").text(), "x");
    assert_eq!(shown(&authority, address), first.der());
    let front = site.server.front();
    write(&folder, &second);
    wait_until("the new certificate is shown", || shown(&authority, address) == second.der());
    assert_eq!(kept.get("/a.txt").text(), "x", "the connection goes on");
    site.server.wait_for_log("site shop: its new certificate is in use");
    assert_eq!(site.server.front(), front, "the same process");
}

/// `howdah status`, its JSON for the site, and the answer to `/readyz`.
fn told(site: &Site) -> [String; 3] {
    let json = site.try_status(&["--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let error = json["sites"][0]["certificate_error"].as_str().unwrap_or_default().to_owned();
    let mut control = UnixStream::connect(site.path().join("control")).unwrap();
    control.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    control.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "visitors get answers: {answer}");
    [site.try_status(&[]).unwrap(), error, answer]
}

#[test]
fn files_that_cannot_be_used_are_told_until_they_can() {
    const WHY: &str = "a.key: the key does not belong to the certificate";
    let authority = Authority::new();
    let (first, second) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("a", &first)]);
    let site = site(&folder);
    let are_told = |expected: bool| {
        let told = told(&site);
        let are_whole = |text: &String| {
            let parts = ["the former certificate stays in use: ", WHY, "is valid until "];
            parts.iter().all(|part| text.contains(part))
        };
        match expected {
            true => told.iter().all(are_whole),
            false => !told.iter().any(|text| text.contains("stays in use")),
        }
    };
    assert!(are_told(false));
    folder.file("a.key", &second.key);
    wait_until("it is told", || are_told(true));
    // The plan of a new generation has it, too, and so has the answer to a reload.
    let config = site.path().join("howdah.toml").display().to_string();
    let (code, answer, _) = Setup::with(&["reload", "--config", &config]).run();
    assert_eq!(code, Some(0), "{answer}");
    assert!(answer.contains(WHY) && answer.contains("is valid until "), "{answer}");
    wait_until("it is told again", || are_told(true));
    // The former files are right as well.
    folder.file("a.key", &first.key);
    wait_until("nothing is told any more", || are_told(false));
    folder.file("a.pem", "");
    wait_until("something is told", || !are_told(false));
    write(&folder, &second);
    wait_until("nothing is told any more", || are_told(false));
}

/// PHP of the next generation does not start before a file is there.
#[test]
fn a_certificate_that_is_renewed_during_a_reload_is_used_after_it() {
    if !has_php() {
        return;
    }
    let authority = Authority::new();
    let (first, second) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("a", &first)]);
    let at = folder.path().display();
    let wait =
        format!("<?php while (!file_exists('{at}/start')) {{ usleep(1000); clearstatcache(); }}");
    folder.file("wait.php", wait);
    folder.file("start", "");
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[[site]]\nname = \"shop\"\nhosts = [\"a.example\"]\nroot = \"public\"\n\
             tls = {{ cert = \"{at}/a.pem\", key = \"{at}/a.key\" }}\n[site.php]\nworkers = 1\n\
             state_dir = \"state\"\nadmin_ini = {{ \"opcache.preload\" = \"{at}/wait.php\", \
             \"opcache.preload_user\" = \"www-data\" }}\n",
        ),
    );
    let address = site.server.addresses()[1];
    std::fs::remove_file(folder.path().join("start")).unwrap();
    site.server.signal(SIGHUP);
    site.server.wait_for_log("reloading ");
    // The next generation reads the files at once. On a slow machine it may read the new ones.
    std::thread::sleep(Duration::from_millis(500));
    write(&folder, &second);
    wait_until("the new certificate is shown", || shown(&authority, address) == second.der());
    folder.file("start", "");
    site.server.wait_for_log("reloaded; ");
    // The former front has gone.
    site.server.front();
    wait_until("it is shown again", || shown(&authority, address) == second.der());
}

#[test]
fn a_new_pair_that_cannot_be_used_leaves_the_former_one() {
    let authority = Authority::new();
    let (first, second) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("a", &first)]);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    folder.file("a.key", &second.key);
    site.server.wait_for_log("site shop: the former certificate stays in use: ");
    site.server.wait_for_log("the key does not belong to the certificate");
    assert_eq!(shown(&authority, address), first.der());
    // Nor does a reload do harm, or a certificate that is missing.
    folder.file("a.pem", "");
    for number in 1..=2 {
        site.server.signal(SIGHUP);
        wait_until("another front serves", || site.log_lines("reloaded; ").len() == number);
        assert_eq!(shown(&authority, address), first.der());
    }
    write(&folder, &second);
    wait_until("the new certificate is shown", || shown(&authority, address) == second.der());
}

#[test]
fn a_roll_back_to_the_certificate_that_is_in_use_is_no_news() {
    if !has_php() {
        return;
    }
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let at = folder.path().display();
    let with_limit = |limit| folder.file("php.ini", format!("memory_limit = {limit}\n"));
    with_limit("200M");
    let fails = "<?php if ((int) ini_get('memory_limit') < 100) http_response_code(500);";
    let site = Site::configured(
        &[("index.php", fails)],
        &format!(
            "probation = \"1h\"\n{LISTEN}[[site]]\nname = \"shop\"\nhosts = [\"a.example\"]\n\
             root = \"public\"\n\
             tls = {{ cert = \"{at}/a.pem\", key = \"{at}/a.key\", redirect = false }}\n\
             [site.php]\nworkers = 1\nstate_dir = \"state\"\nini_file = \"{at}/php.ini\"\n",
        ),
    );
    assert_eq!(site.get("/").status, 200);
    with_limit("50M");
    site.server.signal(SIGHUP);
    wait_until("the reload is undone", || {
        site.get("/");
        !site.log_lines("generation 2 is rolled back to generation 1").is_empty()
    });
    site.server.wait_for_log("site shop: its files are those that are in use");
    let news = site.log_lines("its new certificate is in use");
    assert!(news.is_empty(), "{news:?}");
}

#[test]
fn the_status_shows_each_certificate_and_its_end() {
    let authority = Authority::new();
    let (ecdsa, rsa) = (authority.certify(&["a.example"]), authority.certify_rsa(&["a.example"]));
    let folder = client::files(&[("a", &ecdsa), ("b", &rsa)]);
    let at = folder.path().display();
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "control = \"control\"\n{LISTEN}[[site]]\nname = \"shop\"\n\
             hosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = [{{ cert = \"{at}/a.pem\", key = \"{at}/a.key\" }}, \
             {{ cert = \"{at}/b.pem\", key = \"{at}/b.key\" }}]\n"
        ),
    );
    let has_both = |first: &str| {
        let told = site.try_status(&[]).unwrap();
        let line = |file: &str| {
            let begin = "certificate of shop: a.example: ";
            let of_file = |line: &&str| line.starts_with(begin) && line.ends_with(file);
            told.lines().find(of_file).map(|line| line[begin.len()..].to_owned())
        };
        assert!(line("b.pem").is_some_and(|told| told.starts_with("ends at ")), "{told}");
        line("a.pem").is_some_and(|told| told.starts_with(first))
    };
    assert!(has_both("ends at "), "{:?}", site.try_status(&[]));
    for (other, first) in [
        (authority.certify_expired(&["a.example"]), "ended at 2001-04-01T00:00:00Z, "),
        (authority.certify_too_early(&["a.example"]), "begins at 2999-01-01T00:00:00Z, ends at "),
    ] {
        write(&folder, &other);
        wait_until("the status shows the new one", || has_both(first));
    }
    let told = site.try_status(&["--json"]).unwrap();
    let status: serde_json::Value = serde_json::from_str(&told).unwrap();
    let certificate = &status["sites"][0]["certificates"][0];
    assert_eq!(certificate["source"], "files", "{told}");
    assert_eq!(certificate["names"][0], "a.example", "{told}");
    assert_eq!(certificate["begins"], 32_472_144_000_u64, "{told}");
}

#[test]
fn a_reload_that_names_unusable_files_is_refused() {
    let authority = Authority::new();
    let (first, second) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("a", &first), ("b", &second)]);
    folder.file("b.key", &first.key);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    let text = std::fs::read_to_string(site.path().join("howdah.toml")).unwrap();
    let rows = [
        // The same site with other files, of which one or both are new.
        (text.replace("a.pem", "b.pem").replace("a.key", "b.key"), "b.key: the key does not"),
        (text.replace("a.key", "b.pem"), "b.pem: there is no private key in it"),
        (text.replace("a.pem", "none.pem"), "none.pem: No such file"),
    ];
    for (number, (text, why)) in (1..).zip(rows) {
        site.reconfigure(&text);
        let refused = "the reload is refused, and what was served goes on";
        wait_until("the reload is refused", || site.log_lines(refused).len() == number);
        assert_eq!(site.log_lines(why).len(), 1, "{}", site.server.log());
        assert_eq!(shown(&authority, address), first.der());
    }
    // With the right key the other certificate is used.
    folder.file("b.key", &second.key);
    site.reconfigure(&text.replace("a.pem", "b.pem").replace("a.key", "b.key"));
    wait_until("the other is shown", || shown(&authority, address) == second.der());
}

/// A session that the server kept would have no end, whatever happens to the tickets' keys.
#[test]
fn sessions_are_continued_by_tickets_alone() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    let mut client = authority.client(Trust::Tls12).without_tickets();
    for _ in 0..3 {
        assert!(!is_resumed(&mut client, address));
    }
}

#[test]
fn clients_continue_their_sessions_after_a_reload_and_under_a_new_program() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    for trust in [Trust::Tls13, Trust::Tls12] {
        let mut client = authority.client(trust);
        assert!(!is_resumed(&mut client, address));
        for signal in [SIGHUP, SIGUSR2] {
            let front = site.server.front();
            site.server.signal(signal);
            wait_until("another front serves alone", || {
                let mut fronts = site.server.processes();
                fronts.retain(|process| process.name() == "howdah-front");
                fronts.len() == 1 && fronts[0] != front
            });
            assert!(is_resumed(&mut client, address), "{trust:?} {signal}");
        }
    }
}
