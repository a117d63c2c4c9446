//! Mistakes with certificates and keys: each gets a message that names the file and says what to
//! do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::client::{self, Authority, Trust};
use crate::site::Site;
use crate::support::{Folder, Setup, is_root};

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
    folder.file(
        "traditional.key",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n\
         AAAA\n-----END RSA PRIVATE KEY-----\n",
    );
    let (half, _) = good.certificate.split_at(300);
    folder.file("half.pem", half);
    folder.file("authorities.pem", good.certificate.repeat(60));
    folder.file("bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let rows = [
        ("good", "other.key", "does not belong to the certificate"),
        ("none", "good.key", "none.pem: No such file or directory"),
        ("authorities", "good.key", "keep the server's own certificate and the intermediate ones"),
        ("good", "none.key", "none.key: No such file or directory"),
        ("empty", "good.key", "there is no certificate in it"),
        ("der", "good.key", "openssl x509 -inform DER"),
        ("bad", "good.key", "the certificate is malformed"),
        ("half", "good.key", "the line `-----END CERTIFICATE-----` is missing"),
        ("good", "good.pem", "there is no private key in it"),
        ("good", "encrypted.key", "openssl pkey -in FILE"),
        ("good", "traditional.key", "openssl pkey -in FILE"),
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
fn files_that_are_missing_for_orders_of_certificates_are_told() {
    let config = |key: &str| {
        format!(
            "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\ncontrol = \"control\"\n\
             [acme]\nterms_agreed = true\nstate_dir = \"acme\"\n{key}\n\
             [[site]]\nhosts = [\"www.example.org\"]\nroot = \"public\"\nphp = false\n\
             tls = \"auto\"\n"
        )
    };
    let folder = Folder::new();
    folder.folder("public");
    let file = folder.file("howdah.toml", config("dns_hook = [\"/none/hook\"]"));
    let (status, _, told) = Setup::with(&["check", "--config", &file.display().to_string()]).run();
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("`acme.dns_hook`: /none/hook: No such file"), "{told}");
    let site = Site::configured(&[], &config("ca_file = \"none.pem\""));
    let told = site.try_status(&[]).unwrap();
    assert!(told.contains("nothing is ordered: `acme.ca_file` "), "{told}");
}

#[test]
fn a_key_that_the_user_may_not_read_is_named() {
    if !is_root() {
        return;
    }
    let authority = Authority::new();
    let folder = client::files(&[("good", &authority.certify(&["a.example"]))]);
    let file = config(&folder, "{ cert = \"good.pem\", key = \"good.key\" }");
    let key = folder.path().join("good.key");
    for (mode, expected) in [(0o644, 0), (0o600, 1)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let (status, _, told) = Setup::with(&["check", "--config", &file]).user(65_534).run();
        assert_eq!(status, Some(expected), "{told}");
        let said = "good.key: Permission denied (os error 13); the user that starts the server \
                    must be able to read it";
        assert_eq!(told.contains(said), expected == 1, "{told}");
    }
}

/// The supervisor reads keys with root's rights.
#[test]
fn a_link_to_a_key_of_somebody_else_is_not_followed() {
    if !is_root() {
        return;
    }
    let folder = client::files(&[("good", &Authority::new().certify(&["a.example"]))]);
    let link = folder.path().join("link.key");
    std::os::unix::fs::symlink(folder.path().join("good.key"), &link).unwrap();
    let file = config(&folder, "{ cert = \"good.pem\", key = \"link.key\" }");
    for (owner, expected) in [(0, Some(0)), (65_534, Some(1))] {
        std::os::unix::fs::lchown(&link, Some(owner), None).unwrap();
        let (status, _, told) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, expected, "{told}");
        let is_told = told.contains("belongs neither to root nor to the owner of the place");
        assert_eq!(is_told, owner != 0, "{told}");
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
    let folder = client::files(&[
        ("expired", &authority.certify_expired(&["a.example"])),
        ("early", &authority.certify_too_early(&["a.example"])),
        ("strange", &authority.certify_rsa(&["b.example"])),
    ]);
    for (name, said, date) in [
        (
            "expired",
            "its certificate for a.example is expired: it ended at Sun, 01 Apr 2001 00:00:00 GMT; \
             browsers will refuse it: get a new one, or correct the clock of this machine, which \
             says ",
            " GMT",
        ),
        (
            "early",
            "its certificate for a.example is not valid yet: it begins at Tue, 01 Jan 2999 \
             00:00:00 GMT; browsers will refuse it until then: correct the clock of this machine, \
             which says ",
            " GMT, or use an older certificate",
        ),
        (
            "strange",
            "its certificate is for b.example, and for none of the site's `hosts`; browsers will \
             refuse it: get one for a.example",
            "",
        ),
    ] {
        let file = config(&folder, &format!("{{ cert = \"{name}.pem\", key = \"{name}.key\" }}"));
        let (status, _, told) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, Some(0), "{told}");
        assert!(told.contains(said) && told.contains(date), "{told}");
        let server = Setup::config(std::path::Path::new(&file)).start();
        server.wait_for_log(said);
        fs::write(folder.path().join("a.txt"), "x").unwrap();
        let mut wire = authority.connect(server.address(), "a.example", Trust::OnlyRsa);
        assert_eq!(wire.get("/a.txt").text(), "x");
    }
}

#[test]
fn names_without_a_certificate_are_warned_of() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let file = config(&folder, "{ cert = \"a.pem\", key = \"a.key\" }");
    let text = fs::read_to_string(&file).unwrap();
    let more = "[\"a.example\", \"b.example\", \"*.c.example\"]";
    for (hosts, expected) in [("[\"a.example\", \"*\"]", false), (more, true)] {
        fs::write(&file, text.replace("[\"a.example\"]", hosts)).unwrap();
        let (status, _, told) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, Some(0), "{told}");
        let said = "site shop: none of its certificates is for b.example, *.c.example; browsers \
                    will refuse them there";
        assert_eq!(told.contains(said), expected, "{told}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let authority = Authority::new();
    let folder = client::files(&[("good", &authority.certify(&["a.example"]))]);
    let file = config(&folder, "{ cert = \"good.pem\", key = \"good.key\", min_verson = \"1.3\" }");
    for (command, expected) in [("check", 1), ("serve", 2)] {
        let (status, _, told) = Setup::with(&[command, "--config", &file]).run();
        assert_eq!(status, Some(expected), "{told}");
        assert!(told.contains("unknown key `min_verson`"), "{told}");
        assert!(told.contains("did you mean `min_version`?"), "{told}");
    }
}
