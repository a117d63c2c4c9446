//! HTTPS: certificates, handshakes, and what sites and scripts know of them.

pub mod client;
mod client_certificates;
mod closed;
mod closed_to_clients;
pub mod early_data;
mod first_messages;
pub mod hostile;
mod internal;
mod keys;
mod last_bytes;
mod mistakes;
mod mod_ssl;
mod records;
mod renewal;
mod several_pairs;
mod wildcards;
mod wrong_connection;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use self::client::{Authority, Trust};
use crate::site::Site;
use crate::support::{Folder, PATIENCE, has_php, wait_until};

/// Two listeners, one with TLS, and a site with this certificate.
const LISTEN: &str = "listen = [\"127.0.0.1:0\", { address = \"127.0.0.1:0\", tls = true }]\n";

/// A site `a.example` with a certificate, and the authority that made it. Its second listener is
/// for TLS.
fn site(files: &[(&str, &str)], more: &str) -> (Site, Authority) {
    let (site, authority, _) = site_with_tls(files, "", more);
    (site, authority)
}

/// A site `a.example` with the file `a.txt`, and the certificate `a.pem` of `folder`.
fn file_with_certificate(folder: &Folder) -> Site {
    Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    )
}

/// A site like that of [`site`], with further keys of `tls`. The last one is the folder of the
/// certificate.
fn site_with_tls(files: &[(&str, &str)], tls: &str, more: &str) -> (Site, Authority, Folder) {
    let authority = Authority::new();
    let pair = authority.certify(&["a.example", "*.a.example", "localhost"]);
    let folder = client::files(&[("a", &pair)]);
    let config = format!(
        "{LISTEN}threads = 2\n[log]\naccess = \"access.log\"\n[[site]]\nname = \"a\"\n\
            hosts = [\"a.example\", \"*.a.example\", \
         \"localhost\"]\nroot = \"public\"\ntls = {{ cert = \"{0}/a.pem\", key = \
         \"{0}/a.key\"{tls} }}\n{more}\n[site.php]\nworkers = 2\n\
         state_dir = \"state\"\n",
        folder.path().display()
    );
    let site = Site::configured(files, &config);
    (site, authority, folder)
}

#[test]
fn files_and_scripts_are_served_over_tls() {
    let large: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    let files = [
        ("a.txt", "hello"),
        ("big.txt", &large),
        (
            "echo.php",
            "<?php echo strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTPS'], ' ', \
                $_SERVER['REQUEST_SCHEME'], ' ', $_SERVER['SERVER_PORT'] == explode(':', \
                $_SERVER['HTTP_HOST'])[1] ? 'same' : 'other';",
        ),
        (
            "long.php",
            "<?php for ($i = 0; $i < 40; $i++) echo str_repeat(chr(97 + $i % 26), 100000);",
        ),
    ];
    let (site, authority) = site(&files, "");
    let encrypted = site.server.addresses()[1];
    assert!(
        site.server
            .announcement()
            .contains(&format!("howdah: listening on https://{encrypted}\n")),
        "{}",
        site.server.announcement()
    );
    for trust in [Trust::Tls13, Trust::Tls12] {
        let mut wire = authority.connect(encrypted, "a.example", trust);
        for _ in 0..2 {
            assert_eq!(wire.get("/a.txt").text(), "hello");
            assert_eq!(wire.get("/big.txt").text(), large);
            assert_eq!(wire.get("/none").status, 404);
        }
        let part = wire.ask("GET", "/big.txt", &[("Range", "bytes=100000-300000")], b"");
        assert_eq!((part.status, part.text()), (206, &large[100_000..=300_000]));
        if has_php() {
            let host = format!("a.example:{}", encrypted.port());
            let body = vec![b'x'; 300_000];
            let echoed = wire.ask("POST", "/echo.php", &[("Host", &host)], &body);
            assert_eq!(echoed.text(), "300000 on https same");
            let long = wire.get("/long.php");
            assert_eq!(long.body.len(), 4_000_000);
            assert!(long.body.chunks(100_000).all(|part| part.iter().all(|byte| *byte == part[0])));
        }
    }
    let plain = site.ask("GET", "/a.txt", &[("Host", "plain.example")], b"");
    assert_eq!(plain.text(), "hello", "the other listener is in the clear");
    assert_eq!(site.log_lines("handshake"), Vec::<String>::new());
}

/// curl offers the protocol with `--http1.0`.
#[test]
fn clients_may_offer_http_1_0_and_nothing_unknown() {
    let (site, authority) = site(&[("a.txt", "hello")], "");
    let address = site.server.addresses()[1];
    let connect = |protocols: &[&[u8]]| {
        let mut settings = authority.client(Trust::Tls13).settings();
        settings.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("a.example").unwrap();
        let session = ClientConnection::new(Arc::new(settings), name).unwrap();
        let socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        rustls::StreamOwned::new(session, socket)
    };
    for (offer, chosen) in [
        (&[&b"http/1.0"[..]][..], &b"http/1.0"[..]),
        (&[b"http/0.9", b"http/1.0", b"http/1.1"], b"http/1.1"),
    ] {
        let mut stream = connect(offer);
        stream.write_all(b"GET /a.txt HTTP/1.0\r\nHost: a.example\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 ") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        assert_eq!(stream.conn.alpn_protocol(), Some(chosen));
    }
    for offer in [&b"http/0.9"[..], b"imap"] {
        let error = connect(&[offer]).write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap_err();
        assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    }
}

#[test]
fn scripts_see_what_mod_ssl_tells() {
    if !has_php() {
        return;
    }
    let script = "<?php foreach (['HTTPS', 'SSL_PROTOCOL', 'SSL_CIPHER', 'SSL_CIPHER_USEKEYSIZE', \
        'SSL_TLS_SNI', \
                  'SSL_SESSION_RESUMED', 'SSL_CLIENT_VERIFY'] as $name) echo $name, '=', \
                  $_SERVER[$name] ?? '-', ' ';";
    let (site, authority) = site(&[("a.php", script)], "");
    let encrypted = site.server.addresses()[1];
    let mut client = authority.client(Trust::Tls13);
    let told = client.connect(encrypted, "a.example").get("/a.php").text().to_owned();
    assert!(told.starts_with("HTTPS=on SSL_PROTOCOL=TLSv1.3 SSL_CIPHER=TLS_"), "{told}");
    let end = "SSL_TLS_SNI=a.example SSL_SESSION_RESUMED=Initial SSL_CLIENT_VERIFY=NONE ";
    assert!(told.ends_with(end), "{told}");
    let again = client.connect(encrypted, "a.example").get("/a.php").text().to_owned();
    assert!(again.contains("SSL_SESSION_RESUMED=Resumed"), "{again}");
    let old = authority
        .connect(encrypted, "b.a.example", Trust::Tls12)
        .get("/a.php")
        .text()
        .to_owned();
    assert!(old.starts_with("HTTPS=on SSL_PROTOCOL=TLSv1.2 SSL_CIPHER=ECDHE-ECDSA-AES"), "{old}");
    assert!(old.contains("SSL_TLS_SNI=b.a.example"), "{old}");
    let plain = site.ask("GET", "/a.php", &[("Host", "plain.example")], b"");
    assert!(plain.text().starts_with("HTTPS=- SSL_PROTOCOL=- "), "{}", plain.text());
}

#[test]
fn rules_see_the_connection() {
    let rules = "RewriteEngine On\nRewriteCond %{HTTPS} =on\n\
        RewriteCond %{SSL:SSL_PROTOCOL} ^TLSv1\\.2$\n\
                 RewriteRule ^which$ /old.txt [L]\nRewriteCond %{SSL:SSL_PROTOCOL} ^TLSv1\\.3$\n\
                 RewriteRule ^which$ /new.txt [L]\n\
                 Header set X-Tls \"%{SSL_PROTOCOL}s %{HTTPS}s %{SSL_TLS_SNI}s\"\n\
                 <If \"%{SSL_SESSION_RESUMED} == 'Initial' && %{SSL_CIPHER} != ''\">\n\
                 Header set X-If yes\n</If>\n";
    let files = [
        (".htaccess", rules),
        ("old.txt", "old"),
        ("new.txt", "new"),
        ("closed/.htaccess", "SSLOptions +StdEnvVars\nSSLRequireSSL\n"),
        ("closed/a.txt", "x"),
        ("required/.htaccess", "Require ssl\n"),
        ("required/a.txt", "y"),
    ];
    let (site, authority) = site(&files, "");
    let address = site.server.addresses()[1];
    let mut old = authority.connect(address, "a.example", Trust::Tls12);
    let mut new = authority.connect(address, "a.example", Trust::Tls13);
    // Twice: the second answer may be a cached one.
    for _ in 0..2 {
        for (wire, text, version) in [(&mut old, "old", "TLSv1.2"), (&mut new, "new", "TLSv1.3")] {
            let reply = wire.get("/which");
            assert_eq!(reply.text(), text);
            let expected = format!("{version} on a.example");
            assert_eq!(reply.field("x-tls"), Some(expected.as_str()));
            assert_eq!(reply.field("x-if"), Some("yes"));
            assert_eq!(wire.get("/closed/a.txt").text(), "x");
            assert_eq!(wire.get("/required/a.txt").text(), "y");
        }
        for target in ["/closed/a.txt", "/required/a.txt"] {
            let plain = site.ask("GET", target, &[("Host", "plain.example")], b"");
            assert_eq!(plain.status, 403, "{target}");
        }
        let plain = site.ask("GET", "/old.txt", &[("Host", "plain.example")], b"");
        assert_eq!(plain.field("x-tls"), Some("(null) off (null)"));
        assert_eq!(plain.field("x-if"), None);
    }
}

#[test]
fn header_lines_for_https_alone_act_over_https_alone() {
    let rules = "Header always set Strict-Transport-Security max-age=300 env=HTTPS\n\
        Header set X-Plain yes env=!HTTPS\nHeader set X-Value \"%{HTTPS}e %{SSL_TLS_SNI}e\"\n\
        Header set X-Expr \"expr=[%{SSL:HTTPS}] [%{ssl:ssl_tls_sni}] [%{SSL:SSL_X}]\"\n\
        <If \"ssl('SSL_PROTOCOL') =~ /TLS/\">\nHeader set X-If yes\n</If>\n\
        RewriteEngine On\nRewriteCond %{ENV:HTTPS} on\nRewriteRule ^early$ /a.txt [L]\n\
        RewriteRule ^old$ /new.php [L]\n";
    let files = [
        (".htaccess", rules),
        ("a.txt", "x"),
        ("closed/.htaccess", "Require expr %{SSL:HTTPS} == 'on'\n"),
        ("closed/a.txt", "y"),
        ("new.php", "<?php echo $_SERVER['HTTPS'] ?? '-', $_SERVER['REDIRECT_HTTPS'] ?? '-';"),
    ];
    let (site, authority) = site(&files, "");
    let mut encrypted = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    // Twice: the second answer may be a cached one.
    for _ in 0..2 {
        let mut ask = |is_https: bool, target: &str| match is_https {
            true => encrypted.get(target),
            false => site.ask("GET", target, &[("Host", "plain.example")], b""),
        };
        for target in ["/a.txt", "/none"] {
            let secure = ask(true, target);
            assert_eq!(secure.field("strict-transport-security"), Some("max-age=300"), "{target}");
            let plain = ask(false, target);
            assert_eq!(plain.field("strict-transport-security"), None, "{target}");
        }
        let fields = ["x-plain", "x-value", "x-expr", "x-if"];
        let secure = ask(true, "/a.txt");
        let expected = [None, Some("on a.example"), Some("[on] [a.example] []"), Some("yes")];
        assert_eq!(fields.map(|name| secure.field(name)), expected);
        let plain = ask(false, "/a.txt");
        let expected = [Some("yes"), Some("(null) (null)"), Some("[off] [] []"), None];
        assert_eq!(fields.map(|name| plain.field(name)), expected);
        assert_eq!(ask(true, "/closed/a.txt").text(), "y");
        assert_eq!(ask(false, "/closed/a.txt").status, 403);
        assert_eq!(ask(true, "/early").status, 404, "mod_ssl sets the variable later");
        if has_php() {
            assert_eq!(ask(true, "/old").text(), "onon");
            assert_eq!(ask(false, "/old").text(), "--");
        }
    }
}

#[test]
fn a_name_without_a_certificate_gets_an_alert_that_says_so() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let encrypted = site.server.addresses()[1];
    let refusal = authority.client(Trust::Tls13).refused(encrypted, "other.example");
    assert!(refusal.contains("UnrecognisedName"), "{refusal}");
    site.server.wait_for_log("there is no certificate for \"other.example\"");
    assert_eq!(authority.connect(encrypted, "x.a.example", Trust::Tls13).get("/a.txt").text(), "x");
}

#[test]
fn a_request_in_the_clear_on_a_port_for_tls_gets_a_page_that_says_so() {
    let (site, _) = site(&[("a.txt", "x")], "");
    let encrypted = site.server.addresses()[1];
    let mut wire = crate::wire::Wire::connect(encrypted);
    let host = format!("a.example:{}", encrypted.port());
    let reply = wire.ask("GET", "/a.txt", &[("Host", &host)], b"");
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains(&format!("<a href=\"https://{host}/\">")), "{}", reply.text());
    wire.expect_close();
    let mut wire = crate::wire::Wire::connect(encrypted);
    wire.send("what is this\r\n\r\n");
    assert_eq!(wire.reply("GET").status, 400);
    wire.expect_close();
    wait_until("both are in the access log", || site.access_log().matches(" 400 ").count() == 2);
    site.server.wait_for_log("the port is for https");
    // The other way round: a handshake on a port in the clear.
    let mut wire = site.connect();
    wire.send([22, 3, 1, 0, 4, 1, 0, 0, 0, b'\r', b'\n', b'\r', b'\n']);
    assert_eq!(wire.reply("GET").status, 400);
}

#[test]
fn a_client_gets_the_certificate_with_an_ecdsa_key_if_it_can_check_it() {
    let authority = Authority::new();
    let (ecdsa, rsa) = (authority.certify(&["a.example"]), authority.certify_rsa(&["a.example"]));
    let folder = client::files(&[("ecdsa", &ecdsa), ("rsa", &rsa)]);
    for [first, second] in [["ecdsa", "rsa"], ["rsa", "ecdsa"]] {
        let site = Site::configured(
            &[("a.txt", "x")],
            &format!(
                "{LISTEN}[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
                 tls = [{{ cert = \"{0}/{first}.pem\", key = \"{0}/{first}.key\" }}, {{ cert = \
                 \"{0}/{second}.pem\", key = \"{0}/{second}.key\" }}]\n",
                folder.path().display()
            ),
        );
        let encrypted = site.server.addresses()[1];
        for (trust, expected) in
            [(Trust::Tls13, &ecdsa), (Trust::Tls12, &ecdsa), (Trust::OnlyRsa, &rsa)]
        {
            let mut wire = authority.connect(encrypted, "a.example", trust);
            assert_eq!(wire.get("/a.txt").text(), "x");
            let shown = &wire.tls().peer_certificates().unwrap()[0];
            assert_eq!(shown.as_ref(), expected.der(), "{first} {trust:?}");
        }
    }
}

#[test]
fn old_versions_and_ciphers_are_refused_as_configured() {
    let authority = Authority::new();
    let rsa = authority.certify_rsa(&["a.example", "b.example"]);
    let folder = client::files(&[("rsa", &rsa)]);
    let pair = format!("cert = \"{0}/rsa.pem\", key = \"{0}/rsa.key\"", folder.path().display());
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[[site]]\nhosts = [\"a.example\"]\nroot = \"public\"\nphp = false\n\
                tls = {{ {pair}, min_version = \"1.3\" }}\n\
             [[site]]\nhosts = [\"b.example\"]\nroot = \"public\"\nphp = false\n\
             tls = {{ {pair}, ciphers = \"modern\" }}\n",
        ),
    );
    let encrypted = site.server.addresses()[1];
    for name in ["a.example", "b.example"] {
        let mut wire = authority.connect(encrypted, name, Trust::Tls13);
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", name)], b"").text(), "x");
        let refusal = authority.client(Trust::Tls12).refused(encrypted, name);
        let expected = if name == "a.example" {
            "ProtocolVersion"
        } else {
            "HandshakeFailure"
        };
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn a_client_that_is_slow_in_its_handshake_is_closed() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["localhost"]))]);
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{LISTEN}[limits]\nhandshake_timeout = \"1s\"\n[[site]]\nroot = \"public\"\n\
                php = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    );
    let encrypted = site.server.addresses()[1];
    for bytes in [&b""[..], &[22], &[22, 3, 1, 2, 0, 1, 0]] {
        let mut wire = crate::wire::Wire::connect(encrypted);
        wire.send(bytes);
        let mut rest = Vec::new();
        wire.stream().set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = wire.stream().read_to_end(&mut rest);
        assert_eq!(rest, b"", "{bytes:?}");
    }
    site.server.wait_for_log("it took longer than `handshake_timeout`");
    assert_eq!(site.get("/a.txt").status, 301, "the server goes on");
}

#[test]
fn the_proxy_protocol_comes_before_the_handshake() {
    let authority = Authority::new();
    let folder = client::files(&[("a", &authority.certify(&["a.example"]))]);
    let listen = "listen = [{ address = \"127.0.0.1:0\", tls = true, proxy_protocol = true, \
        trusted = true }]";
    let site = Site::configured(
        &[("a.txt", "x")],
        &format!(
            "{listen}\n[log]\naccess = \"access.log\"\n[[site]]\nroot = \"public\"\nphp = false\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
            folder.path().display()
        ),
    );
    let mut wire = crate::wire::Wire::connect(site.server.address());
    wire.send("PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n");
    let mut wire = wire.encrypt(authority.client(Trust::Tls13).session("a.example"));
    assert_eq!(wire.get("/a.txt").text(), "x");
    wait_until("the client is in the access log", || site.access_log().starts_with("192.0.2.7 "));
}

#[test]
fn connections_end_with_a_goodbye() {
    let (site, authority) = site(&[("a.txt", "x")], "");
    let encrypted = site.server.addresses()[1];
    let mut wire = authority.connect(encrypted, "a.example", Trust::Tls13);
    let reply = wire.ask("GET", "/a.txt", &[("Connection", "close")], b"");
    assert_eq!(reply.text(), "x");
    // Without one, the client's library reports that the connection was cut off.
    wire.expect_close();
}

#[test]
fn a_client_that_leaves_ends_its_script() {
    if !has_php() {
        return;
    }
    let script = "<?php ignore_user_abort(false); touch($_GET['in'] . '/begun'); \
        register_shutdown_function(fn() => \
                  touch($_GET['in'] . '/over')); while (true) { echo 'x'; flush(); usleep(1000); }";
    let (site, authority) = site(&[("a.php", script)], "");
    let mut wire = authority.connect(site.server.addresses()[1], "a.example", Trust::Tls13);
    wire.request("GET", &site.awaiting("/a.php"), &[], b"");
    wait_until("the script runs", || site.scratch().join("begun").exists());
    drop(wire);
    wait_until("the script has ended", || site.scratch().join("over").exists());
}
