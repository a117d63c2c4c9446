//! A site whose authorities of clients cannot be used: nobody gets in, the other sites are served,
//! and the site opens as soon as the file is right.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use howdah_sys::signal::{SIGHUP, SIGUSR2};
use quinn::{Endpoint, TransportConfig};
use rustls::HandshakeKind;
use serde_json::Value;

use super::client::{self, Authority, TlsClient, Trust};
use crate::http3::client::{Http3, handshake, settings_with};
use crate::site::Site;
use crate::support::{Folder, PATIENCE, Setup, wait_until};

/// A site called `members`, whose clients need certificates, and a good one without that demand.
struct Members {
    site: Site,
    authority: Authority,
    folder: Folder,
}

impl Members {
    /// `authorities` is the content of the file; `None`: there is none. `tls` are further keys.
    fn new(authorities: Option<&str>, tls: &str) -> Members {
        Members::with(authorities, tls, false)
    }

    fn with(authorities: Option<&str>, tls: &str, http3: bool) -> Members {
        let authority = Authority::new();
        let folder = client::files(&[
            ("a", &authority.certify(&["a.example"])),
            ("b", &authority.certify(&["b.example"])),
        ]);
        if let Some(text) = authorities {
            folder.file("ca.pem", text);
        }
        let config = format!(
            "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\nthreads = 1\n\
             control = \"control\"\nadmin = \"unix:admin.sock\"\n[http3]\nenabled = {http3}\n\
             [[site]]\nname = \"members\"\nhosts = [\"a.example\"]\nroot = \"public\"\n\
             php = false\ntls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\", \
             client_ca = \"{0}/ca.pem\"{tls} }}\n\
             [[site]]\nname = \"good\"\nhosts = [\"b.example\"]\nroot = \"public\"\n\
             php = false\ntls = {{ cert = \"{0}/b.pem\", key = \"{0}/b.key\" }}\n",
            folder.path().display()
        );
        Members {
            site: Site::configured(&[("a.txt", "x")], &config),
            authority,
            folder,
        }
    }

    fn encrypted(&self) -> SocketAddr {
        self.site.server.addresses()[1]
    }

    /// A client with a certificate of this authority.
    fn member(&self, authority: &Authority) -> TlsClient {
        TlsClient::showing(&self.authority, &authority.certify_client("member"))
    }

    /// Returns whether a new client with a certificate of this authority gets in.
    fn lets_in(&self, authority: &Authority) -> bool {
        let mut session = self.member(authority).session("a.example");
        let mut socket = TcpStream::connect(self.encrypted()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        let request = b"GET /a.txt HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        // In TLS 1.3 the server's refusal may come after the client's last word.
        let mut answer = Vec::new();
        let ended = sent.and_then(|()| stream.read_to_end(&mut answer));
        ended.is_ok() && answer.ends_with(b"\r\n\r\nx")
    }

    /// Checks that no session begins without a certificate, and that the other site is served.
    fn keeps_strangers_out(&self) {
        let nobody = self.authority.client(Trust::Tls13);
        nobody.refused(self.encrypted(), "a.example");
        let mut good = self.authority.connect(self.encrypted(), "b.example", Trust::Tls13);
        assert_eq!(good.ask("GET", "/a.txt", &[("Host", "b.example")], b"").text(), "x");
        assert_eq!(good.ask("GET", "/a.txt", &[("Host", "a.example")], b"").status, 421);
    }

    fn status(&self, more: &[&str]) -> String {
        self.site.try_status(more).unwrap()
    }

    /// The reason why the site is closed. Empty: it is open.
    fn why(&self) -> String {
        let status: Value = serde_json::from_str(&self.status(&["--json"])).unwrap();
        let mut sites = status["sites"].as_array().unwrap().iter();
        let site = sites.find(|site| site["name"] == "members").unwrap();
        site["certificate_error"].as_str().unwrap_or_default().to_owned()
    }

    fn readiness(&self) -> String {
        let mut stream = UnixStream::connect(self.site.path().join("admin.sock")).unwrap();
        let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn wait_for_generation(&self, number: u32) {
        wait_until("the generation serves alone", || {
            let told = self.site.try_status(&[]).unwrap_or_default();
            told.contains(&format!("generation {number} is serving"))
                && !told.contains("is draining")
        });
    }
}

#[test]
fn a_site_whose_authorities_cannot_be_used_is_closed_until_they_can() {
    let members = Members::new(None, "");
    let server = &members.site.server;
    server.wait_for_log("ca.pem: No such file or directory");
    server.wait_for_log("it has no https, and requests over http get 503");
    let front = server.front();
    for (content, why) in [
        (None, "No such file or directory"),
        (Some("nothing".to_owned()), "there is no certificate in it"),
        (Some(Authority::expired().pem()), "an authority of clients is expired: it ended at"),
    ] {
        if let Some(content) = content {
            members.folder.file("ca.pem", content);
        }
        wait_until(why, || members.why().contains(why));
        assert!(members.status(&[]).contains(why));
        let readiness = members.readiness();
        assert!(readiness.starts_with("HTTP/1.1 200 ") && readiness.contains(why), "{readiness}");
        members.keeps_strangers_out();
        let refusal = members.member(&members.authority).refused(members.encrypted(), "a.example");
        assert!(refusal.contains("UnrecognisedName"), "{refusal}");
        let plain = members.site.ask("GET", "/a.txt", &[("Host", "a.example")], b"");
        assert_eq!(plain.status, 503);
        let file = members.site.path().join("howdah.toml");
        let check = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
        assert_eq!(check.0, Some(1), "{check:?}");
        assert!(check.2.contains(why), "{check:?}");
    }
    members.folder.file("ca.pem", members.authority.pem());
    wait_until("the site is open", || members.lets_in(&members.authority));
    server.wait_for_log("site members: its new authorities of clients are in use");
    wait_until("the state says so", || members.why().is_empty());
    members.keeps_strangers_out();
    assert!(!members.lets_in(&Authority::new()));
    assert_eq!(server.front(), front, "the same process");
}

#[test]
fn changed_authorities_are_used_and_bad_ones_leave_the_former_in_use() {
    let (first, second) = (Authority::new(), Authority::new());
    let members = Members::new(Some(&first.pem()), "");
    let server = &members.site.server;
    assert!(members.lets_in(&first) && !members.lets_in(&second));
    members.folder.file("ca.pem", second.pem());
    wait_until("the second one is in use", || members.lets_in(&second));
    assert!(!members.lets_in(&first));
    fs::remove_file(members.folder.path().join("ca.pem")).unwrap();
    server.wait_for_log("site members: the former authorities of clients stay in use: ");
    // The configuration is not refused because of one site's file, by no way to change it.
    for (generation, signal) in [(2, SIGHUP), (3, SIGUSR2), (4, SIGUSR2)] {
        server.signal(signal);
        members.wait_for_generation(generation);
        assert!(members.lets_in(&second) && !members.lets_in(&first), "{generation}");
        members.keeps_strangers_out();
        let why = members.why();
        assert!(why.starts_with("the former authorities of clients stay in use: "), "{why}");
    }
    server.kill_front();
    members.wait_for_generation(5);
    assert!(members.lets_in(&second));
    members.keeps_strangers_out();
    members.folder.file("ca.pem", first.pem());
    wait_until("the first one is in use again", || members.lets_in(&first));
}

#[test]
fn a_closed_site_stays_closed_in_every_generation_and_opens_in_the_last() {
    let members = Members::new(Some("nothing"), ", client_verify = \"optional\"");
    for (generation, signal) in [(2, SIGHUP), (3, SIGUSR2)] {
        members.site.server.signal(signal);
        members.wait_for_generation(generation);
        assert!(members.why().contains("there is no certificate in it"));
        members.keeps_strangers_out();
    }
    members.folder.file("ca.pem", members.authority.pem());
    wait_until("the site is open", || members.lets_in(&members.authority));
    // Without a certificate as well: that is what the site wants.
    let mut nobody = members.authority.client(Trust::Tls13);
    let mut wire = nobody.connect(members.encrypted(), "a.example");
    assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").text(), "x");
}

#[test]
fn a_closed_site_is_closed_over_quic_and_opens_there_too() {
    let members = Members::with(None, "", true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The client's side of the handshake is over before the server has seen the certificate.
    let refusal = |client: &TlsClient| {
        let settings = settings_with(client.settings());
        runtime.block_on(async {
            let endpoint = Endpoint::client("127.0.0.2:0".parse().unwrap()).unwrap();
            match handshake(&endpoint, &settings, members.encrypted(), "a.example").await {
                Ok(connection) => {
                    // A request would be answered.
                    tokio::select! {
                        why = connection.closed() => Some(why.to_string()),
                        stream = connection.accept_uni() => stream.err().map(|why| why.to_string()),
                    }
                }
                Err(why) => Some(why.to_string()),
            }
        })
    };
    let nobody = members.authority.client(Trust::Tls13);
    let member = members.member(&members.authority);
    for client in [&nobody, &member] {
        assert!(refusal(client).is_some());
    }
    members.folder.file("ca.pem", members.authority.pem());
    wait_until("the site is open", || refusal(&member).is_none());
    assert!(refusal(&nobody).is_some());
}

/// A reload changes what a site demands. Sessions that began before do not continue.
#[test]
fn a_session_without_a_certificate_does_not_go_on_where_one_is_required() {
    let authority = Authority::new();
    let members = Members::with(Some(&authority.pem()), ", client_verify = \"optional\"", true);
    let address = members.encrypted();
    let mut nobody = members.authority.client(Trust::Tls13);
    let mut old = members.authority.client(Trust::Tls12);
    for client in [&mut nobody, &mut old] {
        let mut wire = client.connect(address, "a.example");
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").text(), "x");
    }
    let settings = settings_with(members.authority.client(Trust::Tls13).settings());
    let mut http3 =
        Http3::with_settings(address, "a.example", settings, TransportConfig::default());
    assert_eq!(http3.get("/a.txt").text(), "x");
    http3.reconnect();
    assert_eq!(http3.get("/a.txt").text(), "x");
    let file = members.site.path().join("howdah.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("\"optional\"", "\"require\"")).unwrap();
    members.site.server.signal(SIGHUP);
    members.wait_for_generation(2);
    for client in [&nobody, &old] {
        let refusal = client.refused(address, "a.example");
        assert!(
            refusal.contains("CertificateRequired") || refusal.contains("Handshake"),
            "{refusal}"
        );
    }
    assert!(!is_answered(&http3, address));
}

/// One of two authorities ends while the server runs. Sessions of its clients end with it.
#[test]
fn no_session_goes_on_when_the_authority_has_ended() {
    // A machine may be too slow for the first ones.
    let lives = [10, 40, 160].map(Duration::from_secs);
    assert!(lives.into_iter().any(sessions_end_with_their_authority), "the machine is too slow");
}

/// Returns `false` if the authority has ended before all clients were there.
fn sessions_end_with_their_authority(life: Duration) -> bool {
    let ends = SystemTime::now() + life;
    let (short, long) = (Authority::until(ends), Authority::new());
    let members = Members::with(Some(&(short.pem() + &long.pem())), "", true);
    let address = members.encrypted();
    let own = short.certify_client("member");
    let showing = |trust| TlsClient::showing_as(&members.authority, &own, trust);
    let mut clients = [showing(Trust::Tls13), showing(Trust::Tls12)];
    let mut follower = members.member(&long);
    let settings = settings_with(showing(Trust::Tls13).settings());
    let is_resumed = |client: &mut TlsClient| {
        let mut wire = client.connect(address, "a.example");
        assert_eq!(wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"").text(), "x");
        wire.tls().handshake_kind() == Some(HandshakeKind::Resumed)
    };
    let visited = std::panic::catch_unwind(AssertUnwindSafe(|| {
        for client in clients.iter_mut().chain([&mut follower]) {
            assert!(!is_resumed(client));
            assert!(is_resumed(client));
        }
        let mut http3 =
            Http3::with_settings(address, "a.example", settings, TransportConfig::default());
        assert_eq!(http3.get("/a.txt").text(), "x");
        http3.reconnect();
        assert_eq!(http3.get("/a.txt").text(), "x");
        http3
    }));
    let http3 = match visited {
        Ok(http3) => http3,
        Err(_) if SystemTime::now() > ends => return false,
        Err(failure) => std::panic::resume_unwind(failure),
    };
    // The last second is over with the next one.
    wait_until("the authority has ended", || SystemTime::now() > ends + Duration::from_secs(1));
    for client in &clients {
        client.refused(address, "a.example");
    }
    assert!(!is_answered(&http3, address), "over QUIC");
    let log = &members.site.server;
    log.wait_for_log("ca.pem: an authority of clients is expired: it ended at");
    is_resumed(&mut follower);
    assert!(is_resumed(&mut follower), "sessions of other authorities go on");
    true
}

/// Returns whether another connection of this client begins, and is kept.
fn is_answered(http3: &Http3, address: SocketAddr) -> bool {
    http3.run(async {
        let Ok(connection) =
            handshake(&http3.endpoint, &http3.settings, address, "a.example").await
        else {
            return false;
        };
        // The refusal follows the client's last word.
        tokio::select! {
            _ = connection.closed() => false,
            stream = connection.accept_uni() => stream.is_ok(),
        }
    })
}
