//! Mistakes with certificates and keys: each gets a message that names the file and says what to
//! do.

use std::fs;

use super::client::{self, Authority, Trust};
use crate::support::{Folder, Setup};

/// A configuration with this value of `tls`, and the folder that it is in.
fn config(folder: &Folder, tls: &str) -> String {
    let text = format!(
        "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\n[[site]]\nname = \"shop\"\n\
         hosts = [\"a.example\"]\n\
         root = \".\"\nphp = false\ntls = {tls}\n"
    );
    folder.file("howdah.toml", text).display().to_string()
}

#[test]
fn unusable_certificates_and_keys_are_refused_with_advice() {
    let authority = Authority::new();
    let (good, other) = (authority.certify(&["a.example"]), authority.certify(&["a.example"]));
    let folder = client::files(&[("good", &good), ("other", &other)]);
    folder.file("empty.pem", "");
    folder.file("der.pem", good.der());
    folder.file("encrypted.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n");
    folder.file("bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let rows = [
        ("good", "other.key", "does not belong to the certificate"),
        ("none", "good.key", "none.pem: No such file or directory"),
        ("good", "none.key", "none.key: No such file or directory"),
        ("empty", "good.key", "there is no certificate in it"),
        ("der", "good.key", "openssl x509 -inform DER"),
        ("bad", "good.key", "the certificate is malformed"),
        ("good", "good.pem", "there is no private key in it"),
        ("good", "encrypted.key", "openssl pkey -in FILE"),
        ("good", "../", "it is not a regular file"),
    ];
    for (certificate, key, said) in rows {
        let file = config(&folder, &format!("{{ cert = \"{certificate}.pem\", key = \"{key}\" }}"));
        for (command, expected) in [("check", 1), ("serve", 2)] {
            let (status, _, err) = Setup::with(&[command, "--config", &file]).run();
            assert_eq!(status, Some(expected), "{command} {certificate} {key}: {err}");
            assert!(err.contains(said) && err.contains("site shop"), "{command}: {err}");
        }
    }
}

#[test]
fn early_data_and_certificates_of_clients_exclude_each_other() {
    let authority = Authority::new();
    let folder = client::files(&[("good", &authority.certify(&["a.example"]))]);
    folder.file("ca.pem", authority.pem());
    let pair = "cert = \"good.pem\", key = \"good.key\", early_data = true";
    for (more, expected) in [("", 0), (", client_ca = \"ca.pem\"", 1)] {
        let file = config(&folder, &format!("{{ {pair}{more} }}"));
        let (status, _, told) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, Some(expected), "{told}");
        assert_eq!(told.contains("have not shown the certificate of `client_ca`"), expected == 1);
    }
}

#[test]
fn certificates_that_browsers_refuse_are_used_with_a_warning() {
    let authority = Authority::new();
    let (expired, strange) =
        (authority.certify_expired(&["a.example"]), authority.certify_rsa(&["b.example"]));
    let folder = client::files(&[("expired", &expired), ("strange", &strange)]);
    for (name, said) in [
        ("expired", "its certificate for a.example is expired"),
        ("strange", "its certificate is for b.example, and for none of the site's `hosts`"),
    ] {
        let file = config(&folder, &format!("{{ cert = \"{name}.pem\", key = \"{name}.key\" }}"));
        let server = Setup::config(std::path::Path::new(&file)).start();
        server.wait_for_log(said);
        fs::write(folder.path().join("a.txt"), "x").unwrap();
        let mut wire = authority.connect(server.address(), "a.example", Trust::OnlyRsa);
        assert_eq!(wire.get("/a.txt").text(), "x");
    }
}
