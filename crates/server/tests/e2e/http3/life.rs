//! The life of a connection: idle, moving, draining, ended; and servers without UDP.

use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use howdah_sys::signal::{SIGHUP, SIGUSR2};
use quinn::TransportConfig;

use super::client::{Http3, reply};
use super::{Served, Special};
use crate::site::{HELD, Site};
use crate::support::{Folder, Setup, free_address, has_php, is_root, wait_until};
use crate::tls::client::{Authority, Trust, files};

#[test]
fn a_folder_is_served_for_development() {
    let (folder, home) = (Folder::new(), Folder::writable());
    folder.file("a.txt", "x");
    let root = folder.path().display().to_string();
    let start = || {
        let arguments =
            ["serve", &root, "--no-php", "--listen", "127.0.0.1:0", "--tls", "internal"];
        let setup = Setup::with(&arguments)
            .environment("HOME", home.path().to_str().unwrap())
            .environment("XDG_STATE_HOME", "");
        // Root's own state is of the machine.
        if is_root() {
            setup.user(65_534).start()
        } else {
            setup.start()
        }
    };
    // Another test's client may have the port for UDP.
    let server = std::iter::repeat_with(start)
        .take(20)
        .find(|server| !server.log().contains("no HTTP/3 on"))
        .unwrap();
    let authority = home.path().join(".local/state/howdah/authority/authority.pem");
    let pem = fs::read(authority).unwrap();
    let client =
        Http3::trusting_as(server.address(), "localhost", &pem, TransportConfig::default());
    assert_eq!(client.get("/a.txt").text(), "x");
}

#[test]
fn an_idle_connection_is_ended() {
    let limits = "keep_alive_timeout = \"1s\"";
    let served = Served::with(&[("a.txt", "x")], &Special { limits, ..Special::default() });
    let client = served.connect();
    assert_eq!(client.get("/a.txt").text(), "x");
    let why = client.ended();
    assert!(why.contains("closed by peer") || why == "timed out", "{why}");
}

#[test]
fn a_client_moves() {
    let served = Served::new(&[("a.txt", "hello")]);
    let client = served.connect();
    for _ in 0..6 {
        assert_eq!(client.get("/a.txt").text(), "hello");
        client.move_away();
    }
    assert_eq!(client.get("/a.txt").text(), "hello");
}

/// A client can send the packets of its connection from any address.
#[test]
fn a_client_gains_and_loses_nothing_by_another_address() {
    let rules = "<Files home.txt>\nRequire ip 127.0.0.2\n</Files>\n\
                 <Files away.txt>\nRequire ip 127.0.0.3\n</Files>\n";
    let files = [("home.txt", "home"), ("away.txt", "away"), (".htaccess", rules)];
    let served = Served::new(&files);
    let client = served.connect();
    let ask = || [client.get("/home.txt").status, client.get("/away.txt").status];
    assert_eq!(ask(), [200, 403]);
    client.move_to("127.0.0.3");
    assert_eq!(ask(), [200, 403]);
}

#[test]
fn a_reload_ends_connections_and_no_request() {
    if !has_php() {
        return;
    }
    let echo = ("echo.php", "<?php echo strlen(file_get_contents('php://input'));");
    let served = Served::new(&[HELD, echo, ("a.txt", "hello")]);
    let (client, idle, fresh) = (served.connect(), served.connect(), served.connect());
    assert_eq!(idle.get("/a.txt").text(), "hello");
    let target = served.site.awaiting("/held.php");
    let begun = served.site.scratch().join("begun");
    let (held, mut upload) = client.run(async {
        let held = client.begin_get(&target).await.unwrap();
        let mut upload = client.begin(client.request("POST", "/echo.php", &[])).await.unwrap();
        upload.send_data(Bytes::from(vec![b'x'; 50_000])).await.unwrap();
        (held, upload)
    });
    client.run(async {
        while !begun.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    let front = served.site.server.front();
    served.site.server.signal(SIGHUP);
    assert!(idle.ended().contains("closed by peer"));
    // The packets go on to the former front.
    let uploaded = client.run(async {
        upload.send_data(Bytes::from(vec![b'x'; 950_000])).await.unwrap();
        upload.finish().await.unwrap();
        reply(upload).await.unwrap()
    });
    assert_eq!((uploaded.status, uploaded.text()), (200, "1000000"));
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
    // A connection without a request may send one.
    assert_eq!(fresh.get("/a.txt").text(), "hello");
    assert!(fresh.ended().contains("closed by peer"));
    assert!(front.lives(), "the former front has a request");
    served.site.allow("end");
    let reply = client.run(reply(held)).unwrap();
    assert_eq!((reply.status, reply.text(), reply.is_broken), (200, "done", false));
    assert!(client.ended().contains("closed by peer"));
    wait_until("the former front has ended", || !front.lives());
}

#[test]
fn requests_go_on_over_reloads() {
    let served = Served::new(&[("a.txt", "hello")]);
    let mut client = served.connect();
    for round in 0..3 {
        served.site.server.signal(SIGHUP);
        let mut connections = 0;
        for _ in 0..200 {
            let (answer, is_new) = client.ask_again("/a.txt");
            connections += usize::from(is_new);
            assert_eq!(answer.text(), "hello", "{round}");
        }
        assert!(connections < 50);
    }
}

#[test]
fn another_program_takes_the_connections_over() {
    let served = Served::new(&[("a.txt", "hello")]);
    let mut client = served.connect();
    let front = served.site.server.front();
    assert_eq!(client.ask_again("/a.txt").0.text(), "hello");
    let fresh = served.connect();
    served.site.server.signal(SIGUSR2);
    wait_until("the former front leaves", || {
        let mut fronts = served.site.server.processes();
        fronts.retain(|process| process.name() == "howdah-front" && *process != front);
        !fronts.is_empty()
    });
    assert_eq!(fresh.get("/a.txt").text(), "hello", "a connection of the former program");
    for _ in 0..50 {
        assert_eq!(client.ask_again("/a.txt").0.text(), "hello");
    }
    assert_eq!(served.connect().get("/a.txt").text(), "hello");
    assert_eq!(served.site.log_lines("no HTTP/3"), Vec::<String>::new());
}

#[test]
fn a_taken_udp_port_leaves_the_other_protocols_and_is_served_when_it_is_free() {
    let authority = Authority::new();
    let folder = files(&[("a", &authority.certify(&["a.example"]))]);
    let address = free_address();
    let taken = UdpSocket::bind(address).unwrap();
    let config = format!(
        "listen = [{{ address = \"{address}\", tls = true }}]\nadmin = \"unix:admin.sock\"\n\
         [[site]]\nhosts = [\"a.example\"]\n\
         root = \"public\"\nphp = false\ntls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n",
        folder.path().display()
    );
    let site = Site::configured(&[("a.txt", "x")], &config);
    site.server.wait_for_log(&format!(
        "no HTTP/3 on {address}: Address already in use (os error 98): another program has the UDP \
         port"
    ));
    let alternative = || {
        let mut wire = authority.connect(address, "a.example", Trust::Tls13);
        let reply = wire.ask("GET", "/a.txt", &[("Host", "a.example")], b"");
        assert_eq!(reply.text(), "x");
        reply.field("alt-svc").map(str::to_owned)
    };
    assert_eq!(alternative(), None);
    let monitor = |target: &str| {
        let mut stream = UnixStream::connect(site.path().join("admin.sock")).unwrap();
        let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("GET {target} {head}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(monitor("/metrics").contains("\nhowdah_listeners_missing 1\n"));
    assert!(monitor("/readyz").starts_with("HTTP/1.1 200 "));
    let status = monitor("/status");
    assert!(status.contains(&format!("\"listeners_without_http3\":[{{\"address\":\"{address}\"")));

    drop(taken);
    wait_until("clients are told of HTTP/3", || alternative().is_some());
    assert_eq!(Http3::connect(address, &authority).get("/a.txt").text(), "x");
    site.server
        .wait_for_log(&format!("the UDP port of {address} can be listened on now"));
    wait_until("nothing is missing", || {
        monitor("/metrics").contains("\nhowdah_listeners_missing 0\n")
    });
}
