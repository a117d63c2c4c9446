//! An account that its authority no longer accepts.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};

use super::Site;
use super::pebble::{Habits, Pebble, has_pebble, own_certificate};
use crate::tls::client::{TlsClient, Trust};
use crate::wire::Wire;

#[test]
fn an_account_that_was_revoked_is_replaced() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let habits = Habits { refused_nonces: 0, ..Habits::default() };
    let _pebble = Pebble::start(site.ports, habits);
    let server = site.start(&["example.org"], "");
    site.wait_for_status(&["example.org: ends at"]);
    let accounts = site.path("acme/accounts");
    let folder = fs::read_dir(accounts).unwrap().next().unwrap().unwrap().path();
    let about = fs::read_to_string(folder.join("account.json")).unwrap();
    let key = fs::read_to_string(folder.join("account.pem")).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    let answer = revoke(&site, about["account"].as_str().unwrap(), &key);
    assert_eq!(answer["status"], "deactivated", "{answer}");
    site.configure(&["example.org", "www.example.org"], "");
    site.ask("reload");
    site.wait_for_status(&["www.example.org: ends at"]);
    assert_eq!(fs::read_to_string(folder.join("account.pem.retired")).unwrap(), key);
    assert_ne!(fs::read_to_string(folder.join("account.pem")).unwrap(), key);
    server.stop();
}

/// Deactivates an account (RFC 8555 §7.3.6). Returns the account as the authority has it then.
fn revoke(site: &Site, account: &str, key: &str) -> Value {
    let mut pebble = connect(site);
    pebble.request("HEAD", "/nonce-plz", &[("Host", "127.0.0.1"), ("User-Agent", "test")], b"");
    let (_, _, fields) = pebble.head();
    let is_nonce = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("replay-nonce");
    let nonce = &fields.iter().find(is_nonce).unwrap().1;
    let head = json!({ "alg": "ES256", "kid": account, "nonce": nonce, "url": account });
    let head = BASE64_URL_SAFE_NO_PAD.encode(head.to_string().as_bytes());
    let content =
        BASE64_URL_SAFE_NO_PAD.encode(json!({ "status": "deactivated" }).to_string().as_bytes());
    let signed = KeyPair::from_pem(key).unwrap().sign(format!("{head}.{content}").as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(two_numbers(&signed.unwrap()));
    let body = json!({ "protected": head, "payload": content, "signature": signature });
    let (_, rest) = account.split_once("://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let fields = [
        ("Host", host),
        ("User-Agent", "test"),
        ("Content-Type", "application/jose+json"),
        ("Connection", "close"),
    ];
    pebble.request("POST", &format!("/{path}"), &fields, body.to_string().as_bytes());
    let (status, _, fields) = pebble.head();
    let content = pebble.rest();
    serde_json::from_slice(&content).unwrap_or_else(|error| {
        panic!("{status} {fields:?} {}: {error}", String::from_utf8_lossy(&content))
    })
}

fn connect(site: &Site) -> Wire {
    let client = TlsClient::trusting(own_certificate().0.as_bytes(), Trust::Tls13);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, site.ports.directory));
    Wire::encrypted(address, client.session("127.0.0.1"))
}

/// The two numbers of an ECDSA signature in DER, of 32 bytes each (RFC 7518 §3.4).
fn two_numbers(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let (number, after) = rest[2..].split_at(usize::from(rest[1]));
        // A zero keeps a large number positive; small ones are shorter.
        let bytes = &number[number.len().saturating_sub(32)..];
        numbers.extend(vec![0; 32 - bytes.len()]);
        numbers.extend_from_slice(bytes);
        rest = after;
    }
    numbers
}
