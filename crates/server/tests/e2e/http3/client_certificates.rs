//! Sites that ask their clients for certificates, over QUIC; requests for a site with another one.

use quinn::{Endpoint, TransportConfig};

use super::client::{Http3, Reply, handshake, settings_with};
use super::configured;
use crate::support::{Folder, Setup, has_php};
use crate::tls::client::{Authority, TlsClient, Trust, files};

const LISTEN: &str = "listen = [{ address = \"127.0.0.1:0\", tls = true }]\nthreads = 2\n";

fn table(folder: &Folder, name: &str, hosts: &str, more: &str) -> String {
    format!(
        "[[site]]\nname = \"{name}\"\nhosts = [{hosts}]\nroot = \"public\"\n\
         tls = {{ cert = \"{0}/{name}.pem\", key = \"{0}/{name}.key\"{more} }}\n[site.php]\n\
         workers = 1\n\
         state_dir = \"state-{name}\"\n",
        folder.path().display()
    )
}

/// Asks for a file of `host` on the connection, whatever site the connection is for.
fn get(client: &Http3, host: &str, target: &str) -> Reply {
    let uri = format!("https://{host}{target}");
    let request = http::Request::get(uri).body(()).unwrap();
    client.run(async {
        let mut stream = client.begin(request).await.unwrap();
        stream.finish().await.unwrap();
        super::client::reply(stream).await.unwrap()
    })
}

#[test]
fn clients_without_a_certificate_are_refused_or_told_apart() {
    let (authority, other) = (Authority::new(), Authority::new());
    let pair = authority.certify(&["open.example", "closed.example", "both.example"]);
    let folder = files(&[("open", &pair), ("closed", &pair), ("both", &pair)]);
    folder.file("ca.pem", authority.pem());
    let ca = format!(", client_ca = \"{}/ca.pem\"", folder.path().display());
    let script = "<?php foreach (['VERIFY', 'S_DN', 'S_DN_CN', 'I_DN', 'CERT'] as $name) echo \
        $_SERVER['SSL_CLIENT_' . $name] ?? '-', '|'; echo $_SERVER['SSL_SESSION_RESUMED'];";
    let site = configured(
        &[
            ("a.txt", "x"),
            ("who.php", script),
            ("own/.htaccess", "Require ssl-verify-client\n"),
            ("own/a.txt", "y"),
        ],
        &format!(
            "{LISTEN}{}{}{}",
            table(&folder, "open", "\"open.example\"", ""),
            table(&folder, "closed", "\"closed.example\"", &ca),
            table(
                &folder,
                "both",
                "\"both.example\"",
                &format!("{ca}, client_verify = \"optional\"")
            )
        ),
    );
    let address = site.server.address();
    let connect = |client: &TlsClient, name: &str| {
        let settings = settings_with(client.settings());
        Http3::with_settings(address, name, settings, TransportConfig::default())
    };
    let nobody = authority.client(Trust::Tls13);
    let stranger = TlsClient::showing(&authority, &other.certify_client("stranger"));
    let visitor = TlsClient::showing(&authority, &authority.certify_client("visitor"));
    // The client's side of the handshake is over before the server has seen the certificate.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (client, alerts) in [(&nobody, &[0x174][..]), (&stranger, &[0x130, 0x133])] {
        let settings = settings_with(client.settings());
        let why = runtime.block_on(async {
            let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
            match handshake(&endpoint, &settings, address, "closed.example").await {
                Ok(connection) => connection.closed().await,
                Err(why) => why,
            }
        });
        let quinn::ConnectionError::ConnectionClosed(close) = &why else {
            panic!("{why}");
        };
        assert!(alerts.contains(&u64::from(close.error_code)), "{why}");
    }
    site.server.wait_for_log("the QUIC handshake failed: ");

    let mut known = connect(&visitor, "closed.example");
    // The second time the session is continued.
    for resumed in ["Initial", "Resumed"] {
        assert_eq!(known.get("/own/a.txt").text(), "y");
        if has_php() {
            let expected =
                "SUCCESS|CN=visitor,O=Example\\, Inc.|visitor|CN=Authority of the tests|-|";
            assert_eq!(known.get("/who.php").text(), format!("{expected}{resumed}"));
        }
        known.reconnect();
    }
    let unknown = connect(&nobody, "both.example");
    assert_eq!(unknown.get("/a.txt").text(), "x");
    assert_eq!(unknown.get("/own/a.txt").status, 403);
    if has_php() {
        assert_eq!(unknown.get("/who.php").text(), "NONE|-|-|-|-|Initial");
    }
    let shown = connect(&visitor, "both.example");
    assert_eq!(shown.get("/own/a.txt").text(), "y");
    // A connection for the open site is none for the closed one, even with the same certificate.
    let open = connect(&visitor, "open.example");
    for (host, status) in [("open.example", 200), ("closed.example", 421), ("both.example", 421)] {
        assert_eq!(get(&open, host, "/a.txt").status, status, "{host}");
    }
    // Other protocols tell of HTTP/3 there, too.
    let mut wire = authority.connect(address, "both.example", Trust::Tls13);
    let host = format!("both.example:{}", address.port());
    let reply = wire.ask("GET", "/a.txt", &[("Host", &host)], b"");
    assert_eq!(reply.field("alt-svc"), Some(&*format!("h3=\":{}\"; ma=86400", address.port())));
}

#[test]
fn a_request_for_a_site_with_another_certificate_is_misdirected() {
    let authority = Authority::new();
    let folder = files(&[
        ("a", &authority.certify(&["a.example", "shared.example"])),
        ("b", &authority.certify(&["b.example"])),
    ]);
    let site = configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}{}{}",
            table(&folder, "a", "\"a.example\"", ""),
            table(&folder, "b", "\"b.example\", \"shared.example\"", "")
        ),
    );
    let client = Http3::connect(site.server.address(), &authority);
    for (host, status) in [("a.example", 200), ("b.example", 421), ("shared.example", 200)] {
        assert_eq!(get(&client, host, "/a.txt").status, status, "{host}");
    }
}

#[test]
fn a_listener_behind_a_proxy_says_that_it_has_no_http3() {
    let authority = Authority::new();
    let folder = files(&[("a", &authority.certify(&["a.example"]))]);
    folder.folder("public");
    let listen = "listen = [{ address = \"127.0.0.1:8443\", tls = true, proxy_protocol = true, \
        trusted = true }]\n";
    for (more, is_told) in [("", true), ("[http3]\nenabled = false\n", false)] {
        let config = format!("{listen}{more}{}", table(&folder, "a", "\"a.example\"", ""));
        let file = folder.file("howdah.toml", config).display().to_string();
        let (status, _, told) = Setup::with(&["check", "--config", &file]).run();
        assert_eq!(status, Some(0), "{told}");
        let what = "no HTTP/3 on 127.0.0.1:8443, because of `proxy_protocol`";
        assert_eq!(told.contains(what), is_told, "{told}");
    }
}
