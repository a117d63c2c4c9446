//! A site with a certificate for each of its names, of which one cannot be used.

use std::net::SocketAddr;

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use super::LISTEN;
use super::client::{self, Authority, Certified, Trust};
use crate::site::Site;
use crate::support::{Folder, Setup, wait_until};

fn site(folder: &Folder) -> Site {
    let config = format!(
        "{LISTEN}control = \"control\"\n[[site]]\nname = \"shop\"\n\
         hosts = [\"a.example\", \"b.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = [\"{0}/a.pem\", \"{0}/b.pem\"], key = [\"{0}/a.key\", \"{0}/b.key\"] }}\n",
        folder.path().display()
    );
    Site::configured(&[("a.txt", "x")], &config)
}

fn write(folder: &Folder, name: &str, pair: &Certified) {
    folder.file(&format!("{name}.pem"), &pair.certificate);
    folder.file(&format!("{name}.key"), &pair.key);
}

/// Whether a new client that asks for `name` is shown this certificate.
fn shows(authority: &Authority, address: SocketAddr, name: &str, expected: &Certified) -> bool {
    let mut wire = authority.connect(address, name, Trust::Tls13);
    assert_eq!(wire.ask("GET", "/a.txt", &[("Host", name)], b"").text(), "x");
    wire.tls().peer_certificates().unwrap()[0].as_ref() == expected.der()
}

#[test]
fn a_bad_pair_does_not_hold_back_the_new_one_beside_it() {
    let authority = Authority::new();
    let of = |name: &str| [(); 3].map(|()| authority.certify(&[name]));
    let (a, b) = (of("a.example"), of("b.example"));
    let folder = client::files(&[("a", &a[0]), ("b", &b[0])]);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    let told = || site.try_status(&[]).unwrap_or_default();
    // The first one is good, or the last one.
    folder.file("b.key", &a[0].key);
    write(&folder, "a", &a[1]);
    wait_until("the good one is shown", || shows(&authority, address, "a.example", &a[1]));
    assert!(shows(&authority, address, "b.example", &b[0]));
    wait_until("the bad one is told", || {
        let told = told();
        told.contains("the former certificate stays in use: ") && told.contains("b.key: ")
    });
    assert!(!told().contains("a.key: "), "{}", told());
    write(&folder, "b", &b[1]);
    wait_until("the other one is shown", || shows(&authority, address, "b.example", &b[1]));
    wait_until("nothing is told any more", || !told().contains("stays in use"));
    // Nor does a reload.
    folder.file("a.key", "");
    write(&folder, "b", &b[2]);
    let config = site.path().join("howdah.toml").display().to_string();
    let (code, answer, _) = Setup::with(&["reload", "--config", &config]).run();
    assert_eq!(code, Some(0), "{answer}");
    assert!(answer.contains("a.key: ") && !answer.contains("b.key: "), "{answer}");
    wait_until("the good one is shown", || shows(&authority, address, "b.example", &b[2]));
    assert!(shows(&authority, address, "a.example", &a[1]));
}

#[test]
fn at_the_start_a_bad_pair_is_left_out_and_its_name_gets_nothing_in_the_clear() {
    let authority = Authority::new();
    let (a, b) = (authority.certify(&["a.example"]), authority.certify(&["b.example"]));
    let folder = client::files(&[("a", &a), ("b", &b)]);
    folder.file("b.key", &a.key);
    let site = site(&folder);
    let address = site.server.addresses()[1];
    let told = || site.try_status(&[]).unwrap_or_default();
    let plain = |host| site.ask("GET", "/a.txt", &[("Host", host)], b"").status;
    for signal in [None, Some(SIGHUP), Some(SIGUSR2)] {
        if let Some(signal) = signal {
            let front = site.server.front();
            site.server.signal(signal);
            wait_until("another front serves alone", || {
                let mut fronts = site.server.processes();
                fronts.retain(|process| process.name() == "howdah-front");
                fronts.len() == 1 && fronts[0] != front
            });
        }
        assert!(shows(&authority, address, "a.example", &a));
        assert_eq!((plain("a.example"), plain("b.example")), (301, 503), "{signal:?}");
        wait_until("it is told", || {
            told().contains("a certificate is left out: ") && told().contains("b.key: ")
        });
    }
    write(&folder, "b", &b);
    wait_until("it is told no more", || !told().contains("is left out"));
    assert!(shows(&authority, address, "b.example", &b));
    assert_eq!(plain("b.example"), 301);
}
