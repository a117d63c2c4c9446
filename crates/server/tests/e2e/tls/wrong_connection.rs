//! Requests over the wrong connection: in the clear, or with the certificate of another site.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::LISTEN;
use super::client::{self, Authority, Trust};
use crate::http2::client::{Http2, reply};
use crate::site::Site;
use crate::support::PATIENCE;

#[test]
fn requests_in_the_clear_are_redirected_to_https() {
    let authority = Authority::new();
    let pair = authority.certify(&["a.example", "c.example"]);
    let folder = client::files(&[("a", &pair)]);
    let tls = format!("cert = \"{0}/a.pem\", key = \"{0}/a.key\"", folder.path().display());
    let site = Site::configured(
        &[("a.txt", "x"), (".well-known/acme-challenge/token", "challenge")],
        &format!(
            "{LISTEN}trusted_proxies = [\"127.0.0.9\"]\n[[site]]\n\
             hosts = [\"a.example\", \"b.example\"]\n\
             root = \"public\"\nphp = false\ntls = {{ {tls} }}\n\
             [[site]]\nhosts = [\"c.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ {tls}, redirect = false }}\n"
        ),
    );
    let port = site.server.addresses()[1].port();
    let to = |host: &str, target: &str| format!("https://{host}:{port}{target}");
    let mapped = |host: &str, target: &str| format!("https://{host}{target}");
    let named = format!("a.example:{}", site.server.address().port());
    for (method, host, target, status, location) in [
        ("GET", &*named, "/a.txt?b=%20c", 301, Some(to("a.example", "/a.txt?b=%20c"))),
        ("HEAD", "A.EXAMPLE:8080", "/a.txt", 301, Some(to("a.example", "/a.txt"))),
        // The client has used port 80, which something else has led here: 443 is led here, too.
        ("GET", "a.example", "/a.txt", 301, Some(mapped("a.example", "/a.txt"))),
        ("POST", "a.example", "/none", 308, Some(mapped("a.example", "/none"))),
        // The site's certificate is not for this name: a browser could not follow.
        ("GET", "b.example", "/a.txt", 200, None),
        ("GET", "a.example", "/.well-known/acme-challenge/token", 200, None),
        ("GET", "a.example", "/.well-known/acme-challenge/token?a=/", 200, None),
        ("GET", "c.example", "/a.txt", 200, None),
        ("GET", "nobody.example", "/a.txt", 200, None),
    ] {
        let reply = site.ask(method, target, &[("Host", host)], b"");
        assert_eq!(reply.status, status, "{method} {host} {target}");
        assert_eq!(reply.field("location"), location.as_deref(), "{method} {host} {target}");
    }
    // Only a token is exempt: these lead elsewhere.
    for rest in ["..", "../../a.txt", "%2e%2e/%2e%2e/a.txt", "..%2f..%2fa.txt", "a/token", ""] {
        let target = format!("/.well-known/acme-challenge/{rest}");
        let reply = site.ask("GET", &target, &[("Host", "a.example")], b"");
        assert_eq!(reply.status, 301, "{target}");
    }
    // A request that a trusted proxy has received over https is where it belongs.
    let mut proxy = crate::wire::Wire::connect_from([127, 0, 0, 9], site.server.address());
    for (scheme, status) in [("https", 200), ("http", 301)] {
        let fields = [("Host", "a.example"), ("X-Forwarded-Proto", scheme)];
        let reply = proxy.ask("GET", "/a.txt", &fields, b"");
        assert_eq!(reply.status, status, "{scheme}");
        let location = (status == 301).then(|| mapped("a.example", "/a.txt"));
        assert_eq!(reply.field("location"), location.as_deref(), "{scheme}");
    }
    let mut wire = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").status, 200);
    // The certificate that the operator has chosen is shown nevertheless.
    let refusal = authority.client(Trust::Tls13).refused(site.server.addresses()[1], "b.example");
    assert!(refusal.contains("certificate not valid for name"), "{refusal}");
}

#[test]
fn a_request_for_a_site_with_another_certificate_is_misdirected() {
    let authority = Authority::new();
    let folder = client::files(&[
        ("a", &authority.certify(&["a.example", "shared.example"])),
        ("b", &authority.certify(&["b.example"])),
    ]);
    let table = |name: &str, hosts: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [{hosts}]\nroot = \"public/{name}\"\n\
             php = false\n\
             tls = {{ cert = \"{0}/{name}.pem\", key = \"{0}/{name}.key\" }}\n",
            folder.path().display()
        )
    };
    let site = Site::configured(
        &[("a/a.txt", "of a"), ("b/a.txt", "of b")],
        &format!(
            "{LISTEN}{}{}",
            table("a", "\"a.example\""),
            table("b", "\"b.example\", \"shared.example\"")
        ),
    );
    let address = site.server.addresses()[1];
    let mut wire = authority.connect(address, "a.example", Trust::Tls13);
    for (host, status, text) in [
        ("a.example", 200, "of a"),
        ("b.example", 421, ""),
        // The certificate that the client has seen is for this name, too.
        ("shared.example", 200, "of b"),
        ("A.example", 200, "of a"),
    ] {
        let reply = wire.ask("GET", "/a.txt", &[("Host", host)], b"");
        assert_eq!(reply.status, status, "{host}");
        assert!(status != 200 || reply.text() == text, "{host}: {}", reply.text());
    }
    // A browser that knows one connection of HTTP/2 for both names uses it for both.
    let client = Http2::encrypted(address, authority.client(Trust::Tls13).settings(), "a.example");
    for (host, status) in [("a.example", 200), ("b.example", 421), ("shared.example", 200)] {
        let uri = format!("https://{host}/a.txt");
        let request = http::Request::get(uri).body(()).unwrap();
        let reply = client.run(async { reply(client.begin(request, true).await.0).await });
        assert_eq!(reply.status, status, "{host} over HTTP/2");
    }
}

#[test]
fn responses_over_https_promise_to_use_it_alone() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let value = "max-age=31536000; includeSubDomains";
    let site = Site::configured(
        &[
            ("a.txt", "x"),
            ("own/.htaccess", "Header set Strict-Transport-Security max-age=1\n"),
            ("own/a.txt", "y"),
        ],
        &format!(
            "{LISTEN}trusted_proxies = [\"127.0.0.9\"]\n[[site]]\n\
             hosts = [\"a.example\", \"b.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", redirect = false, hsts = \
             \"{value}\" }}\n",
            folder.path().display()
        ),
    );
    let mut wire = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    for (target, expected) in
        [("/a.txt", value), ("/a.txt", value), ("/none", value), ("/own/a.txt", "max-age=1")]
    {
        let reply = wire.ask("GET", target, &[("Host", "a.example")], b"");
        assert_eq!(reply.field("strict-transport-security"), Some(expected), "{target}");
    }
    // Nothing is promised for a name that the certificate is not for.
    let reply = wire.ask("GET", "/a.txt", &[("Host", "b.example")], b"");
    assert_eq!((reply.status, reply.field("strict-transport-security")), (200, None));
    let plain = site.ask("GET", "/a.txt", &[("Host", "a.example")], b"");
    assert_eq!((plain.status, plain.field("strict-transport-security")), (200, None));
    // A proxy that has received a request over https has a certificate of its own.
    let mut proxy = crate::wire::Wire::connect_from([127, 0, 0, 9], site.server.address());
    let fields = [("Host", "b.example"), ("X-Forwarded-Proto", "https")];
    let reply = proxy.ask("GET", "/a.txt", &fields, b"");
    assert_eq!(reply.field("strict-transport-security"), Some(value));
}

#[test]
fn a_site_s_demands_hold_on_connections_for_sites_with_the_same_certificate() {
    let authority = Authority::new();
    let names = ["a.example", "strict.example", "modern.example"];
    let folder = client::files(&[("a", &authority.certify_rsa(&names))]);
    let table = |name: &str, more: &str| {
        format!(
            "[[site]]\nhosts = [\"{name}\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\"{more} }}\n",
            folder.path().display()
        )
    };
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}{}{}{}",
            table("a.example", ""),
            table("strict.example", ", min_version = \"1.3\""),
            table("modern.example", ", ciphers = \"modern\"")
        ),
    );
    let address = site.server.addresses()[1];
    for (trust, status) in [(Trust::Tls13, 200), (Trust::Tls12, 421)] {
        let mut wire = authority.connect(address, "a.example", trust);
        for (host, status) in [("strict.example", status), ("modern.example", status)] {
            let reply = wire.ask("GET", "/a.txt", &[("Host", host)], b"");
            assert_eq!(reply.status, status, "{trust:?} {host}");
        }
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").status, 200);
    }
}

#[test]
fn http2_over_tls_is_for_clients_that_have_negotiated_it() {
    let authority = Authority::new();
    let pair = authority.certify(&["a.example"]);
    let folder = client::files(&[("a", &pair)]);
    let config = format!(
        "{LISTEN}[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
         tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display()
    );
    let site = Site::configured(&[("a.txt", "x")], &config);
    for protocols in [vec![], vec![b"http/1.1".to_vec()]] {
        let mut settings = authority.client(Trust::Tls13).settings();
        settings.alpn_protocols = protocols.clone();
        let name = ServerName::try_from("a.example").unwrap();
        let session = ClientConnection::new(Arc::new(settings), name).unwrap();
        let socket = TcpStream::connect(site.server.addresses()[1]).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        let mut answer = [0; 13];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 505 ", "{protocols:?}");
    }
}
