//! Names with `*`: in certificates, and in `hosts`.

use super::LISTEN;
use super::client::{Authority, Trust, files};
use crate::site::Site;
use crate::support::{Folder, Setup};

/// A server whose sites have these hosts, each with the certificate of that file.
fn served(folder: &Folder, sites: &[(&str, &str)]) -> Site {
    let site = |(hosts, file): &(&str, &str)| {
        let path = folder.path().join(file).display().to_string();
        format!(
            "[[site]]\nhosts = [{hosts}]\nroot = \"public/{file}\"\nphp = false\n\
             tls = {{ cert = \"{path}.pem\", key = \"{path}.key\" }}\n"
        )
    };
    let config: String = sites.iter().map(site).collect();
    let pages = [("all/a.txt", "all"), ("deep/a.txt", "deep")];
    Site::configured(&pages, &format!("{LISTEN}{config}"))
}

#[test]
fn a_wildcard_stands_for_one_label_and_the_deepest_one_is_used() {
    let authority = Authority::new();
    let all = authority.certify(&["*.a.example"]);
    let deep = authority.certify(&["*.b.a.example"]);
    let folder = files(&[("all", &all), ("deep", &deep)]);
    let site = served(&folder, &[("\"*.a.example\"", "all"), ("\"*.b.a.example\"", "deep")]);
    let address = site.server.addresses()[1];
    for (name, page, pair) in [
        ("x.a.example", "all", &all),
        ("b.a.example", "all", &all),
        ("x.b.a.example", "deep", &deep),
        ("X.B.A.Example", "deep", &deep),
    ] {
        let mut wire = authority.connect(address, name, Trust::Tls13);
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", name)], b"").text(), page, "{name}");
        let shown = &wire.tls().peer_certificates().unwrap()[0];
        assert_eq!(shown.as_ref(), pair.der(), "{name}");
    }
    for name in ["a.example", "xa.example"] {
        let refusal = authority.client(Trust::Tls13).refused(address, name);
        assert!(refusal.contains("UnrecognisedName"), "{name}: {refusal}");
        site.server.wait_for_log(&format!("there is no certificate for {name:?}"));
    }
    // Sites have these names; browsers say that their certificates do not.
    for name in ["x.c.a.example", "x.y.b.a.example"] {
        let refusal = authority.client(Trust::Tls13).refused(address, name);
        assert!(refusal.contains("certificate not valid for name"), "{name}: {refusal}");
    }
}

/// RFC 9525 §6.3: such a name in a certificate stands for nothing.
#[test]
fn a_star_in_two_labels_of_a_certificate_stands_for_no_name() {
    let authority = Authority::new();
    let pair = authority.certify_rsa(&["*.*.a.example", "own.a.example", "w*.a.example"]);
    let folder = files(&[("all", &pair)]);
    let site = served(&folder, &[("\"own.a.example\"", "all")]);
    let address = site.server.addresses()[1];
    let mut wire = authority.connect(address, "own.a.example", Trust::OnlyRsa);
    assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "own.a.example")], b"").text(), "all");
    for name in ["x.y.a.example", "x.a.example", "www.a.example"] {
        let refusal = authority.client(Trust::OnlyRsa).refused(address, name);
        assert!(refusal.contains("UnrecognisedName"), "{name}: {refusal}");
    }
}

#[test]
fn a_star_in_two_labels_of_a_host_is_a_mistake_of_the_configuration() {
    for host in ["*.*.example.org", "www.*.example.org", "w*.example.org"] {
        let folder = Folder::new();
        folder.folder("public");
        let config = format!(
            "listen = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"{host}\"]\nroot = \"public\"\n"
        );
        let config = folder.file("howdah.toml", config);
        let (status, _, error) =
            Setup::with(&["check", "--config", &config.display().to_string()]).run();
        assert_ne!(status, Some(0), "{error}");
        assert!(error.contains("has a `*` in the wrong place"), "{error}");
        assert!(error.contains("howdah.toml:3"), "{error}");
    }
}
