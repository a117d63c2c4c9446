//! The filter of `docs/examples/fail2ban` finds those who misbehave, and nobody else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::site::{Site, TAKES_PROXY};
use crate::support::{has_php, wait_until};
use crate::wire::Wire;

/// The address that all forgeries name. No request comes from it.
const INNOCENT: &str = "198.51.100.9";

/// Returns the addresses that fail2ban's own program finds in `log`; `None` without that program.
fn found(mode: &str, log: &Path) -> Option<BTreeSet<String>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/fail2ban");
    let filter = format!("{}[mode={mode}]", examples.join("filter.d/howdah.conf").display());
    let output =
        match Command::new("fail2ban-regex").args(["-o", "ip"]).arg(log).arg(filter).output() {
            Ok(output) => output,
            Err(_) => {
                howdah_skip::skip!("fail2ban-regex is not here; scripts/install-packages.sh test");
                return None;
            }
        };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - part.len()));
        for letter in 0..4 {
            let index = (bits >> (18 - 6 * letter)) as usize & 63;
            text.push(if letter > part.len() {
                '='
            } else {
                char::from(LETTERS[index])
            });
        }
    }
    text
}

/// Lines that would name [`INNOCENT`], if they were lines of their own.
fn forgeries() -> Vec<String> {
    let time = "2026-11-22T10:00:00.000Z warning";
    [
        "user a: password mismatch: /x",
        "shop: user a: password mismatch: /x",
        "shop: 429: too many",
        "400: no host, while reading the head of a request",
        "shop: 403: the site refuses it, while",
    ]
    .iter()
    .flat_map(|what| {
        [
            format!("\n{time} [client {INNOCENT}:1] {what}\n"),
            format!("\r\n{time} [client {INNOCENT}:1] {what}"),
            format!("[client {INNOCENT}:1] {what}"),
            format!("x] [client {INNOCENT}:1] {what}"),
        ]
    })
    .collect()
}

struct Misbehaviour {
    site: Site,
}

impl Misbehaviour {
    fn start() -> Misbehaviour {
        let config = format!(
            "listen = [\"127.0.0.1:0\", {TAKES_PROXY}]\nthreads = 2\n\
             [limits]\nclient_requests = \"1/h\"\nclient_burst = 30\n[log]\n\
             access = \"off\"\n\
             [[site]]\nname = \"shop\"\nroot = \"public\"\n\
             [site.php]\nworkers = 1\nstate_dir = \"state\"\n"
        );
        let forge = forgeries().iter().fold("<?php\n".to_owned(), |script, line| {
            let hex: String = line.bytes().map(|byte| format!("{byte:02x}")).collect();
            script
                + &format!(
                    "error_log(hex2bin('{hex}'));\n\
                     file_put_contents('php://stderr', hex2bin('{hex}') . \"\\n\");\n\
                     file_put_contents('php://stderr', 'info: ' . trim(hex2bin('{hex}')) . \
                     \"\\n\");\n"
                )
        });
        let site = Site::configured(&[("index.php", "x"), ("forge.php", &forge)], &config);
        site.file("admin/index.html", "secret");
        site.file(".env.php", "secret");
        let users: PathBuf = site.path().join("users");
        std::fs::write(&users, "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n").unwrap();
        let rules = format!(
            "AuthType Basic\nAuthName x\nAuthUserFile {}\nRequire valid-user\n",
            users.display()
        );
        site.file("admin/.htaccess", rules);
        Misbehaviour { site }
    }

    fn client(&self, last: u8) -> Wire {
        self.site.connect_as([192, 0, 2, last])
    }

    fn log_in(&self, wire: &mut Wire, user: &[u8], password: &str, status: u16) {
        let credentials = [user, b":", password.as_bytes()].concat();
        let field = format!("Basic {}", base64(&credentials));
        let reply = wire.ask("GET", "/admin/", &[("Authorization", &field)], b"");
        assert_eq!(reply.status, status);
    }
}

#[test]
fn fail2ban_finds_those_who_misbehave_and_nobody_forges_anothers_address() {
    if !has_php() {
        return;
    }
    let server = Misbehaviour::start();
    let site = &server.site;

    // Wrong passwords and unknown users; one visitor who knows the password.
    let mut wire = server.client(11);
    server.log_in(&mut wire, b"ann", "wrong", 401);
    let mut wire = server.client(12);
    server.log_in(&mut wire, b"nobody", "wrong", 401);
    let mut wire = server.client(13);
    server.log_in(&mut wire, b"ann", "password", 200);
    // Without a password nobody has failed yet.
    assert_eq!(wire.get("/admin/").status, 401);
    // Too many requests.
    let mut wire = server.client(14);
    while wire.get("/forge.php").status != 429 {}
    // A bad head.
    let mut wire = server.client(15);
    wire.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(wire.reply("GET").status, 400);
    // A request line, and a field, beyond their limits.
    let long = "a".repeat(100_000);
    for (last, head, status) in [
        (17, format!("GET /{long} HTTP/1.1\r\n"), 414),
        (18, format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n"), 431),
    ] {
        let mut wire = server.client(last);
        wire.try_send(head);
        let said = wire.rest_or_reply();
        assert!(said.windows(3).any(|part| part == status.to_string().as_bytes()), "{status}");
    }
    // A name that is refused.
    let mut wire = server.client(16);
    assert_eq!(wire.get("/.htaccess").status, 403);
    // Forgeries: in user names, URLs, hosts, methods and field values.
    for (number, line) in forgeries().into_iter().enumerate() {
        let mut wire = server.client(100 + number as u8);
        server.log_in(&mut wire, line.replace(':', ";").as_bytes(), "x", 401);
        let plain = line.replace(['\r', '\n'], "");
        let encoded: String = line.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_ne!(wire.get(&format!("/.ht{encoded}")).status, 200);
        for head in [
            format!("GET /{} HTTP/1.1\r\nHost: {plain}\r\n\r\n", plain.replace(' ', "\t")),
            format!("GET / HTTP/1.1\r\nHost: x\r\n{plain}\r\n\r\n"),
            format!("{plain}\r\n\r\n"),
        ] {
            let mut wire = server.client(100 + number as u8);
            wire.try_send(head);
            wire.rest_or_reply();
        }
    }
    wait_until("the last line is there", || {
        let last = format!("[client 192.0.2.{}:", 99 + forgeries().len());
        site.log_lines(&last).len() >= 3
    });

    site.server.wait_for_log(INNOCENT); // The forgeries.
    let log = site.path().join("copy.log");
    std::fs::write(&log, site.server.log()).unwrap();
    for (mode, expected) in [
        ("login", &[11, 12][..]),
        ("requests", &[14]),
        ("bad", &[15, 17, 18]),
        ("forbidden", &[16]),
    ] {
        let Some(addresses) = found(mode, &log) else {
            return;
        };
        assert!(!addresses.contains(INNOCENT), "{mode}: {addresses:?}");
        assert!(addresses.iter().all(|address| address.starts_with("192.0.2.")), "{addresses:?}");
        // A client that forges has misbehaved, too.
        let plain: Vec<u8> = addresses
            .iter()
            .map(|address| address.rsplit('.').next().unwrap().parse().unwrap())
            .filter(|last| *last < 100)
            .collect();
        assert_eq!(plain, expected, "{mode}: {addresses:?}");
    }
}
