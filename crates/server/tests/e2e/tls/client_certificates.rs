//! Sites that ask their clients for certificates.

use super::LISTEN;
use super::client::{self, Authority, TlsClient, Trust};
use crate::site::Site;
use crate::support::has_php;

/// A client may send 64 KB of certificates, and no more.
#[test]
fn a_chain_of_certificates_without_end_is_refused() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    folder.file("ca.pem", authority.pem());
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", client_ca = \"{0}/ca.pem\" }}\n",
            folder.path().display()
        ),
    );
    let address = site.server.addresses()[1];
    let own = authority.certify_client("ann");
    let mut ann = TlsClient::showing_chain(&authority, &own);
    assert_eq!(ann.connect(address, "a.example").get("/a.txt").text(), "x");
    for certificates in [300, 10_000] {
        let refusal = TlsClient::showing_often(&authority, &own, certificates);
        assert!(!refusal.refused(address, "a.example").is_empty());
    }
    assert_eq!(ann.connect(address, "a.example").get("/a.txt").text(), "x");
}

#[test]
fn clients_without_a_certificate_are_refused_or_told_apart() {
    let (authority, other) = (Authority::new(), Authority::new());
    let pair = authority.certify(&["open.example", "closed.example", "both.example"]);
    let folder = client::files(&[("a", &pair)]);
    folder.file("ca.pem", authority.pem());
    let table = |name: &str, more: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false{more} \
             }}\n[site.php]\nworkers = 1\nstate_dir = \"state-{name}\"\n",
            folder.path().display()
        )
    };
    let ca = format!(", client_ca = \"{}/ca.pem\"", folder.path().display());
    let script = "<?php foreach (['VERIFY', 'S_DN', 'S_DN_CN', 'I_DN', 'CERT'] as $name) echo \
        $_SERVER['SSL_CLIENT_' . $name] ?? '-', '|';";
    let rules = "RequestHeader set X-Cert \"%{SSL_CLIENT_CERT}s\"\n";
    let site = Site::configured(
        &[
            ("a.txt", "x"),
            ("who.php", script),
            ("own/.htaccess", "Require ssl-verify-client\n"),
            ("own/a.txt", "y"),
            (".htaccess", rules),
        ],
        &format!(
            "{LISTEN}{}{}{}",
            table("open", ""),
            table("closed", &ca),
            table("both", &format!("{ca}, client_verify = \"optional\""))
        ),
    );
    let address = site.server.addresses()[1];
    let nobody = authority.client(Trust::Tls13);
    let stranger = TlsClient::showing(&authority, &other.certify_client("mallory"));
    let mut ann = TlsClient::showing(&authority, &authority.certify_client("ann"));
    let refusal = nobody.refused(address, "closed.example");
    assert!(refusal.contains("CertificateRequired"), "{refusal}");
    let refusal = stranger.refused(address, "closed.example");
    assert!(refusal.contains("UnknownCA") || refusal.contains("DecryptError"), "{refusal}");
    site.server.wait_for_log("the TLS handshake failed: ");

    let get = |client: &mut TlsClient, name: &str, target: &str| {
        let mut wire = client.connect(address, name);
        wire.ask("GET", target, &[("Host", name)], b"")
    };
    // Twice: the second time the session is continued.
    for _ in 0..2 {
        assert_eq!(get(&mut ann, "closed.example", "/own/a.txt").text(), "y");
    }
    let mut nobody = nobody;
    assert_eq!(get(&mut nobody, "both.example", "/a.txt").text(), "x");
    assert_eq!(get(&mut nobody, "both.example", "/own/a.txt").status, 403);
    // A connection for the open site is none for the closed one, even with the same certificate.
    let mut wire = nobody.connect(address, "open.example");
    for (host, status) in [("open.example", 200), ("closed.example", 421), ("both.example", 421)] {
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", host)], b"").status, status, "{host}");
    }
    // Nor is one in the clear.
    for (host, status) in [("open.example", 200), ("closed.example", 403), ("both.example", 200)] {
        let reply = site.ask("GET", "/a.txt", &[("Host", host)], b"");
        assert_eq!(reply.status, status, "{host}");
    }
    if has_php() {
        let dn = "CN=ann,O=Example\\, Inc.";
        let told = get(&mut ann, "closed.example", "/who.php").text().to_owned();
        assert_eq!(told, format!("SUCCESS|{dn}|ann|CN=Authority of the tests|-|"));
        let told = get(&mut nobody, "both.example", "/who.php").text().to_owned();
        assert_eq!(told, "NONE|-|-|-|-|");
    }
}
