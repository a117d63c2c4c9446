//! Authorities that cannot be reached: the site answers over http, and the status says why there is
//! no certificate and what to do.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

use super::Site;
use crate::tls::client::Authority;

#[test]
fn an_authority_that_does_not_listen_is_named_with_advice() {
    // At an address that no other test uses, nobody takes the port.
    let address = TcpListener::bind("127.0.14.1:0").unwrap().local_addr().unwrap();
    let site = Site::new();
    let directory = format!("directory = \"https://{address}/directory\"\n");
    let server = site.start(&["www.example.org"], &directory);
    site.wait_for_status(&[
        "www.example.org: none yet",
        &format!("last error: https://{address}/directory: "),
        "Connection refused",
        "let this machine reach the authority by https",
    ]);
    let reply = server.get("/index.html");
    assert_eq!((reply.status, reply.text()), (200, "a page"));
}

#[test]
fn an_authority_whose_name_is_unknown_is_named_with_advice() {
    let site = Site::new();
    let directory = "directory = \"https://authority.invalid/directory\"\n";
    let server = site.start(&["www.example.org"], directory);
    site.wait_for_status(&[
        "www.example.org: none yet",
        "last error: https://authority.invalid/directory: ",
        "look whether the name is right, and at /etc/resolv.conf",
    ]);
    assert_eq!(server.get("/index.html").text(), "a page");
}

#[test]
fn an_authority_whose_certificate_is_of_another_time_is_blamed_on_the_clock() {
    let authority = Authority::new();
    let pair = authority.certify_expired(&["127.0.0.1"]);
    let chain = vec![CertificateDer::from(pair.der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = format!("directory = \"https://{}/\"\n", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut session = ServerConnection::new(Arc::clone(&config)).unwrap();
            // The client refuses the certificate.
            let _ = Stream::new(&mut session, &mut socket).write_all(b"nothing");
        }
    });
    let site = Site::new();
    site.folder.file("ca.pem", authority.pem());
    let server = site.start(&["www.example.org"], &directory);
    site.wait_for_status(&["none yet", "look at the clock of this machine, which says 20"]);
    assert_eq!(server.get("/index.html").text(), "a page");
}
