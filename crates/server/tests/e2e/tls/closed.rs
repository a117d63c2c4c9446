//! A site whose certificate cannot be used when the server starts: the site is closed, the others
//! are served, and the site opens as soon as its files are right.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use howdah_sys::signal::{SIGHUP, SIGUSR2};
use serde_json::Value;

use super::client::{self, Authority, Certified, TlsClient, Trust};
use crate::site::Site;
use crate::support::{Folder, wait_until};
use crate::wire::Reply;

/// A good site, and one called `shop`, whose certificate is `a.pem` with the key of another one.
struct Shop {
    site: Site,
    authority: Authority,
    pair: Certified,
    folder: Folder,
}

impl Shop {
    /// `tls` are further keys of the shop's table.
    fn new(tls: &str) -> Shop {
        let authority = Authority::new();
        let pair = authority.certify(&["a.example"]);
        let good = authority.certify(&["b.example"]);
        let folder = client::files(&[("a", &pair), ("b", &good)]);
        folder.file("a.key", &good.key);
        let config = format!(
            "listen = [\"127.0.0.1:0\", {{ address = \"127.0.0.1:0\", tls = true }}]\n\
             control = \"control\"\nadmin = \"unix:admin.sock\"\n[http3]\nenabled = false\n\
             [[site]]\nname = \"shop\"\nhosts = [\"a.example\", \"*\"]\nroot = \"public\"\n\
             php = false\ntls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\"{tls} }}\n\
             [[site]]\nname = \"good\"\nhosts = [\"b.example\"]\nroot = \"public\"\n\
             php = false\ntls = {{ cert = \"{0}/b.pem\", key = \"{0}/b.key\" }}\n",
            folder.path().display()
        );
        let files = [("a.txt", "x"), (".well-known/acme-challenge/a.txt", "token")];
        Shop {
            site: Site::configured(&files, &config),
            authority,
            pair,
            folder,
        }
    }

    fn encrypted(&self) -> SocketAddr {
        self.site.server.addresses()[1]
    }

    fn client(&self) -> TlsClient {
        self.authority.client(Trust::Tls13)
    }

    fn plain(&self, host: &str, target: &str) -> Reply {
        self.site.ask("GET", target, &[("Host", host)], b"")
    }

    /// Runs `howdah status` and returns what it prints.
    fn status(&self, more: &[&str]) -> String {
        self.site.try_status(more).unwrap()
    }

    /// The shop in `howdah status --json`.
    fn json(&self) -> Value {
        let status: Value = serde_json::from_str(&self.status(&["--json"])).unwrap();
        let sites = status["sites"].as_array().unwrap().iter();
        sites.clone().find(|site| site["name"] == "shop").unwrap().clone()
    }

    /// Waits until this generation serves and the former ones have ended. A program that just takes
    /// over answers nobody.
    fn wait_for_generation(&self, number: u32) {
        wait_until("the generation serves alone", || {
            let told = self.site.try_status(&[]).unwrap_or_default();
            told.contains(&format!("generation {number} is serving"))
                && !told.contains("is draining")
        });
    }

    fn is_open(&self) -> bool {
        let mut client = self.client();
        client.is_accepted(self.encrypted(), "a.example")
            && client.connect(self.encrypted(), "a.example").get("/a.txt").text() == "x"
    }
}

const WHY: &str = "the key does not belong to the certificate";

#[test]
fn a_site_without_a_usable_certificate_is_closed_and_the_others_are_served() {
    let shop = Shop::new("");
    shop.site.server.wait_for_log(WHY);
    shop.site.server.wait_for_log("it has no https, and requests over http get 503");
    let mut good = shop.authority.connect(shop.encrypted(), "b.example", Trust::Tls13);
    assert_eq!(good.ask("GET", "/a.txt", &[("Host", "b.example")], b"").text(), "x");
    assert_eq!(shop.plain("b.example", "/a.txt").status, 301);
    let refusal = shop.client().refused(shop.encrypted(), "a.example");
    assert!(refusal.contains("UnrecognisedName"), "{refusal}");
    // Not in the clear: the certificate might be for every one of these names.
    for host in ["a.example", "other.example", "127.0.0.1"] {
        assert_eq!(shop.plain(host, "/a.txt").status, 503, "{host}");
    }
    let challenge = shop.plain("a.example", "/.well-known/acme-challenge/a.txt");
    assert_eq!(challenge.text(), "token");
    let told = shop.status(&[]);
    assert!(told.contains("site shop: ") && told.contains(WHY), "{told}");
    assert!(shop.json()["certificate_error"].as_str().unwrap().contains(WHY));
}

#[test]
fn a_closed_site_opens_when_its_files_are_right() {
    let shop = Shop::new("");
    assert_eq!(shop.plain("a.example", "/a.txt").status, 503);
    // Another mistake takes the place of the first.
    shop.folder.file("a.key", "nothing");
    shop.site.server.wait_for_log("site shop: it still has no https: ");
    wait_until("the reason is a new one", || {
        let why = shop.json()["certificate_error"].clone();
        why.as_str().is_some_and(|why| why.contains("there is no private key in it"))
    });
    let front = shop.site.server.front();
    shop.folder.file("a.key", &shop.pair.key);
    wait_until("the site is open", || shop.is_open());
    shop.site.server.wait_for_log("site shop: its new certificate is in use");
    wait_until("requests are redirected", || shop.plain("a.example", "/a.txt").status == 301);
    assert_eq!(shop.site.server.front(), front, "the same process");
    assert_eq!(shop.json()["certificate_error"], Value::Null);
    assert!(!shop.status(&[]).contains(WHY));
}

#[test]
fn a_closed_site_that_redirects_nobody_is_served_over_http() {
    let shop = Shop::new(", redirect = false");
    shop.site.server.wait_for_log("it is served over http alone");
    assert_eq!(shop.plain("a.example", "/a.txt").text(), "x");
    let refusal = shop.client().refused(shop.encrypted(), "a.example");
    assert!(refusal.contains("UnrecognisedName"), "{refusal}");
}

#[test]
fn a_closed_site_keeps_no_reload_and_no_new_front_from_serving() {
    let shop = Shop::new("");
    shop.site.server.signal(SIGHUP);
    shop.wait_for_generation(2);
    shop.site.server.kill_front();
    shop.wait_for_generation(3);
    assert_eq!(shop.plain("a.example", "/a.txt").status, 503);
    shop.folder.file("a.key", &shop.pair.key);
    wait_until("the site is open", || shop.is_open());
    // Now a mistake is one in a site that works, and the site goes on with what it has.
    shop.folder.file("a.key", "nothing");
    shop.site
        .server
        .wait_for_log("site shop: the former certificate stays in use: ");
    shop.site.server.signal(SIGHUP);
    shop.wait_for_generation(4);
    assert!(shop.is_open());
}

#[test]
fn a_new_program_serves_the_other_sites_and_leaves_the_site_closed() {
    let shop = Shop::new("");
    shop.site.server.signal(SIGUSR2);
    shop.wait_for_generation(2);
    assert_eq!(shop.plain("a.example", "/a.txt").status, 503);
    let mut good = shop.authority.connect(shop.encrypted(), "b.example", Trust::Tls13);
    assert_eq!(good.ask("GET", "/a.txt", &[("Host", "b.example")], b"").text(), "x");
    shop.folder.file("a.key", &shop.pair.key);
    wait_until("the site is open", || shop.is_open());
    // Now a mistake is one in a site that works. The next program gets the pair that is in use, and
    // so does the one after it.
    shop.folder.file("a.key", "nothing");
    for number in [3, 4] {
        shop.site.server.signal(SIGUSR2);
        shop.wait_for_generation(number);
        assert!(shop.is_open());
    }
    // A new front has it as well.
    shop.site.server.kill_front();
    shop.wait_for_generation(5);
    assert!(shop.is_open());
    shop.folder.file("a.key", &shop.pair.key);
    shop.site.server.wait_for_log("site shop: its files are those that are in use");
    assert!(shop.is_open());
}

#[test]
fn monitors_learn_of_a_closed_site_and_keep_the_machine() {
    let shop = Shop::new("");
    let socket = shop.site.path().join("admin.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\r\n\r\nready\nsite shop has no https: "), "{answer}");
}
