//! A server with many names.

use std::fs;
use std::time::Instant;

use super::Site;
use super::pebble::{Habits, Pebble, has_pebble};

#[test]
#[ignore = "takes half a minute: make certificates"]
fn two_hundred_names_get_certificates_and_one_account() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let names: Vec<String> = (0..200).map(|number| format!("www{number}.example.org")).collect();
    let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
    let began = Instant::now();
    let server = site.start(&hosts, "");
    for part in names.chunks(20) {
        let ready: Vec<String> = part.iter().map(|name| format!("  {name}: ends at 20")).collect();
        let ready: Vec<&str> = ready.iter().map(String::as_str).collect();
        site.wait_for_status(&ready);
    }
    println!("{} names have certificates after {:?}", names.len(), began.elapsed());
    for name in &names {
        assert_eq!(site.client(name).connect(site.tls(), name).get("/").text(), "a page", "{name}");
    }
    assert_eq!(fs::read_dir(site.path("acme/accounts")).unwrap().count(), 1);
    let errors: Vec<String> = server
        .log()
        .lines()
        .filter(|line| line.contains(" error "))
        .map(str::to_owned)
        .collect();
    assert_eq!(errors, [""; 0], "half of all nonces are refused, which is no error");
    let before: Vec<_> = names.iter().map(|name| site.certificate(name)).collect();
    server.stop();
    let server = site.start(&hosts, "");
    for name in &names {
        assert_eq!(site.client(name).connect(site.tls(), name).get("/").text(), "a page", "{name}");
    }
    let after: Vec<_> = names.iter().map(|name| site.certificate(name)).collect();
    assert!(before == after, "none is ordered again");
    server.stop();
}
