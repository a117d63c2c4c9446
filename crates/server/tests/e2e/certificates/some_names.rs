//! Names of a site that have no certificate, and challenges that fail.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use super::Site;
use super::pebble::{Habits, Pebble, has_pebble};
use crate::support::{Server, Setup, free_address};
use crate::tls::client::{Authority, Trust};
use crate::wire::{Reply, Wire};

/// Asks for the first page of `host` in the clear.
fn plain(server: &Server, host: &str) -> Reply {
    Wire::connect(server.address()).ask("GET", "/", &[("Host", host)], b"")
}

/// Some names of a site have certificates, others have none yet, or never get one.
#[test]
fn a_name_without_a_certificate_is_served_over_http_and_refused_over_tls() {
    let mut site = Site::new();
    site.redirect = true;
    let authority = Authority::new();
    let pair = authority.certify(&["good.example.org"]);
    let stored = site.path("acme/certificates/good.example.org");
    fs::create_dir_all(&stored).unwrap();
    fs::write(stored.join("certificate.pem"), pair.key + &pair.certificate).unwrap();
    // No authority is there for the others.
    let hosts = ["good.example.org", "bad.example.org", "*.example.org", "site.test"];
    let server = site.start(&hosts, "");
    site.wait_for_status(&["  bad.example.org: none yet", "last error"]);
    let mut good = authority.connect(site.tls(), "good.example.org", Trust::Tls13);
    let fields = [("Host", "good.example.org")];
    assert_eq!(good.ask("GET", "/", &fields, b"").text(), "a page");
    let reply = plain(&server, "good.example.org");
    assert_eq!(reply.status, 301, "{reply:?}");
    for name in ["bad.example.org", "foo.example.org", "site.test"] {
        let reply = plain(&server, name);
        assert_eq!((reply.status, reply.text()), (200, "a page"), "{name}");
        let refusal = authority.client(Trust::Tls13).refused(site.tls(), name);
        assert!(refusal.contains("UnrecognisedName"), "{name}: {refusal}");
    }
    server.stop();
}

/// Port 80 may be another server's, or closed.
#[test]
fn a_server_without_a_listener_in_the_clear_tries_no_challenge_over_http() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let config = site.configure(&["example.org"], "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace(&format!("\"127.0.0.1:{}\", ", site.ports.http), "")).unwrap();
    let server = Setup::config(&config).start();
    site.wait_for_status(&["example.org: ends at"]);
    assert!(!server.log().contains("http-01"), "{}", server.log());
    server.stop();
}

/// The next order begins when the first one has failed: the log has its time.
#[test]
fn after_a_challenge_that_fails_the_next_one_is_tried_at_once() {
    if !has_pebble() {
        return;
    }
    let mut site = Site::new();
    let mut ports = site.ports;
    // At this port nobody answers the authority.
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    ports.http = closed.local_addr().unwrap().port();
    let _pebble = Pebble::start(ports, Habits::default());
    std::thread::spawn(move || closed.incoming().flatten().for_each(drop));
    site.ports.http = free_address().port();
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("gets no certificate: ")).unwrap();
    assert!(line.contains("http-01: "), "{line}");
    let (_, next) = line.split_once("the next attempt is at ").unwrap();
    assert!(next[..19] <= line[..19], "{line}");
    server.stop();
}
