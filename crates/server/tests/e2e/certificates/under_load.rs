//! Handshakes while certificates are replaced.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::Site;
use super::pebble::{Habits, Pebble, has_pebble};
use crate::support::load::Raised;
use crate::support::wait_until;
use crate::tls::client::OnlySignatures;
use crate::wire::Wire;

/// Clients that shake hands at the same time.
const CLIENTS: usize = 3;

#[test]
fn a_renewal_under_load_fails_no_handshake() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    // Such short ones are renewed after a third of their life.
    let habits = Habits { validity: 6, ..Habits::default() };
    let _pebble = Pebble::start(site.ports, habits);
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    let (is_over, handshakes) = (AtomicBool::new(false), AtomicUsize::new(0));
    let shown = std::thread::scope(|scope| {
        let _end = Raised(&is_over);
        let client = || {
            let (mut shown, settings) = (HashSet::new(), whole_handshakes());
            while !is_over.load(Ordering::Relaxed) {
                let name = ServerName::try_from("example.org").unwrap();
                let session = ClientConnection::new(Arc::clone(&settings), name).unwrap();
                let mut wire = Wire::encrypted(site.tls(), session);
                // A handshake that fails ends the thread, and fails the test.
                assert_eq!(wire.get("/").text(), "a page");
                shown.insert(wire.tls().peer_certificates().unwrap()[0].to_vec());
                handshakes.fetch_add(1, Ordering::Relaxed);
            }
            shown
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let mut stored = HashSet::new();
        wait_until("certificates follow each other", || {
            stored.extend(site.certificate("example.org"));
            let before = handshakes.load(Ordering::Relaxed);
            let is_failed = || clients.iter().any(|client| client.is_finished());
            wait_until("handshakes go on", || {
                is_failed() || handshakes.load(Ordering::Relaxed) > before + CLIENTS
            });
            is_failed() || stored.len() >= 4
        });
        is_over.store(true, Ordering::Relaxed);
        let shown = clients.into_iter().flat_map(|client| client.join().unwrap());
        shown.collect::<HashSet<_>>()
    });
    assert!(shown.len() >= 3, "{} certificates were shown", shown.len());
    server.stop();
}

/// A client that continues no session, and looks at no clock: a slow machine may renew late.
fn whole_handshakes() -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().dangerous();
    let verifier = Arc::new(OnlySignatures::of_any_scheme());
    let mut settings = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    settings.resumption = Resumption::disabled();
    Arc::new(settings)
}
