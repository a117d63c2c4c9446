//! Pebble, an authority for tests, with the DNS server of its own. It refuses half of all requests
//! for their nonce, which clients have to bear.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Folder, HOWDAH, free_address, wait_until};

/// Where Pebble listens, and where it looks for challenges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) directory: u16,
    management: u16,
    dns: u16,
    pub(super) dns_management: u16,
    pub(super) http: u16,
    pub(super) tls: u16,
}

impl Ports {
    pub(super) fn choose() -> Ports {
        Ports {
            directory: free_address().port(),
            management: free_address().port(),
            dns: free_address().port(),
            dns_management: free_address().port(),
            http: free_address().port(),
            tls: free_address().port(),
        }
    }

    /// The URL of the directory.
    pub(super) fn url(self) -> String {
        format!("https://127.0.0.1:{}/dir", self.directory)
    }
}

/// A running Pebble.
#[derive(Debug)]
pub(super) struct Pebble {
    processes: Vec<Child>,
    folder: Folder,
}

/// Pebble's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Seconds for which certificates are valid.
    pub(super) validity: u64,
    /// Percent of nonces that are refused.
    pub(super) refused_nonces: u8,
    /// Whether accounts have to be bound to one that the authority knows.
    pub(super) binds_accounts: bool,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits {
            validity: 90 * 86_400,
            refused_nonces: 50,
            binds_accounts: false,
        }
    }
}

/// The external account that Pebble knows: its name and key.
pub(super) const EXTERNAL_ACCOUNT: (&str, &str) =
    ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W");

/// The folder of Pebble's programs; `None`, and a message, if they were not built.
fn programs() -> Option<PathBuf> {
    let folder = Path::new(HOWDAH).parent()?.parent()?.join("tools");
    let is_there = folder.join("pebble").exists() && folder.join("pebble-challtestsrv").exists();
    if !is_there {
        howdah_skip::skip!("there is no Pebble: `scripts/install-pebble` builds it, with Go");
    }
    is_there.then_some(folder)
}

/// Returns whether Pebble was built. If not, says so.
pub(super) fn has_pebble() -> bool {
    programs().is_some()
}

impl Pebble {
    /// Starts it, and waits until it answers.
    pub(super) fn start(ports: Ports, habits: Habits) -> Pebble {
        let programs = programs().expect("the caller has asked `has_pebble`");
        let folder = Folder::new();
        let (certificate, key) = own_certificate();
        folder.file("own.pem", certificate);
        folder.file("own.key", key);
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (kid, hmac) = EXTERNAL_ACCOUNT;
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", ports.directory),
            "managementListenAddress": format!("127.0.0.1:{}", ports.management),
            "certificate": path("own.pem"),
            "privateKey": path("own.key"),
            "httpPort": ports.http,
            "tlsPort": ports.tls,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": habits.binds_accounts,
            "externalAccountMACKeys": { kid: hmac },
            "retryAfter": { "authz": 0, "order": 0 },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "", "validityPeriod": habits.validity } },
        }});
        let config = folder.file("pebble.json", config.to_string());
        let log = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let mut dns = Command::new(programs.join("pebble-challtestsrv"));
        dns.args(["-dnsserver", &format!("127.0.0.1:{}", ports.dns)]);
        dns.args(["-management", &format!("127.0.0.1:{}", ports.dns_management)]);
        dns.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        dns.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        dns.stdin(Stdio::null()).stdout(log("dns.log")).stderr(log("dns.err"));
        let mut pebble = Command::new(programs.join("pebble"));
        pebble
            .arg("-config")
            .arg(config)
            .args(["-dnsserver", &format!("127.0.0.1:{}", ports.dns)]);
        pebble.env("PEBBLE_WFE_NONCEREJECT", habits.refused_nonces.to_string());
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        pebble.stdin(Stdio::null()).stdout(log("pebble.log")).stderr(log("pebble.err"));
        let processes = vec![dns.spawn().unwrap(), pebble.spawn().unwrap()];
        let pebble = Pebble { processes, folder };
        for port in [ports.directory, ports.dns_management] {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            wait_until("Pebble answers", || TcpStream::connect(address).is_ok());
        }
        pebble
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            for name in ["pebble.log", "pebble.err", "dns.err"] {
                let text = std::fs::read_to_string(self.folder.path().join(name));
                let text = text.unwrap_or_default();
                let start = text.floor_char_boundary(text.len().saturating_sub(4000));
                let _ = writeln!(std::io::stderr(), "--- {name}\n{}", &text[start..]);
            }
        }
    }
}

/// The certificate of Pebble itself, which clients must trust, and its key. Both are the same for
/// all of this program's tests.
pub(super) fn own_certificate() -> (String, String) {
    static OWN: std::sync::OnceLock<(String, String)> = std::sync::OnceLock::new();
    let make = || {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    OWN.get_or_init(make).clone()
}
