//! Certificates for names that are in no configuration: visitors ask for them.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use super::Site;
use super::pebble::{Habits, Pebble, has_pebble, own_certificate};
use crate::support::{Process, Server, wait_until};
use crate::tls::client::{TlsClient, Trust};
use crate::wire::Wire;

/// A server with a folder for each of the names.
fn site_with(names: &[&str]) -> Site {
    let mut site = Site::new();
    site.root = "sites/{host}";
    site.redirect = true;
    site.folder.folder("sites");
    for name in names {
        site.folder
            .file(&format!("sites/{name}/index.html"), format!("the page of {name}"));
    }
    site
}

/// Visits a name over https that has no certificate yet.
fn visit(site: &Site, name: &str) {
    let client = TlsClient::trusting(own_certificate().0.as_bytes(), Trust::Tls13);
    let error = client.refused(site.tls(), name);
    assert!(error.contains("UnrecognisedName"), "{error}");
}

/// Visits names over https until the status says all of `what`. Returns the status. A visit before
/// the process that orders has started orders nothing.
fn visit_until(site: &Site, names: &[&str], what: &[&str]) -> String {
    let client = TlsClient::trusting(own_certificate().0.as_bytes(), Trust::Tls13);
    let mut told = String::new();
    wait_until(&format!("the status says {what:?}"), || {
        // A name that has its certificate by now has one that this client does not trust.
        for name in names {
            client.is_accepted(site.tls(), name);
        }
        told = site.ask("status");
        what.iter().all(|words| told.contains(words))
    });
    site.wait_for_status(what);
    told
}

/// The page of a name over https.
fn page(site: &Site, name: &str) -> String {
    let mut wire = site.client(name).connect(site.tls(), name);
    wire.ask("GET", "/", &[("Host", name)], b"").text().to_owned()
}

/// The page of a name over http.
fn plain_page(server: &Server, name: &str) -> String {
    Wire::connect(server.address())
        .ask("GET", "/", &[("Host", name)], b"")
        .text()
        .to_owned()
}

#[test]
fn the_first_visit_of_a_name_orders_its_certificate_if_its_folder_exists() {
    if !has_pebble() {
        return;
    }
    let (shop, blog) = ("shop.example.org", "blog.example.org");
    let site = site_with(&[shop, blog, "example.net"]);
    let _pebble = Pebble::start(site.ports, Habits::default());
    let hosts = ["*.example.org"];
    let server = site.start(&hosts, "");
    site.wait_for_status(&["*.example.org: on demand", "at most 60 in an hour"]);
    // No folder, no name of the site, no host name: none of them reaches the authority.
    for name in ["none.example.org", "example.net"] {
        visit(&site, name);
    }
    assert_eq!(plain_page(&server, shop), "the page of shop.example.org", "over http meanwhile");
    visit(&site, shop);
    visit_until(&site, &[shop], &["  shop.example.org: ends at 20", ", on demand"]);
    assert_eq!(page(&site, shop), "the page of shop.example.org");
    // One name's certificate is no certificate for another.
    assert_eq!(plain_page(&server, blog), "the page of blog.example.org", "no redirect");
    // The redirect was a visit as well.
    let told = site.wait_for_status(&["  blog.example.org: ends at 20"]);
    assert_eq!(page(&site, blog), "the page of blog.example.org");
    assert!(!told.contains("none.example.org") && !told.contains("example.net"), "{told}");
    assert!(site.certificate("none.example.org").is_none());
    assert!(site.certificate("example.net").is_none());
    let first = site.certificate(shop);
    server.stop();
    let server = site.start(&hosts, "");
    assert_eq!(page(&site, shop), "the page of shop.example.org", "from the first moment on");
    assert_eq!(site.certificate(shop), first);
    server.stop();
}

#[test]
fn a_url_of_the_operator_decides_about_names_without_a_folder() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let Some(target) = head.first().and_then(|line| line.split(' ').nth(1)) else {
                continue;
            };
            noted.lock().unwrap().push(target.to_owned());
            let is_allowed = target.ends_with("domain=good.example.org");
            let status = if is_allowed { "200 OK" } else { "403 Forbidden" };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            // A client that is gone needs no answer.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let ask = format!("ask = \"http://{address}/may?key=1\"");
    let server = site.start(&["*.example.org"], &ask);
    visit(&site, "bad.example.org");
    let names = ["bad.example.org", "good.example.org"];
    let told = visit_until(&site, &names, &["  good.example.org: ends at 20"]);
    assert!(told.contains("or `ask` allows the name"), "{told}");
    assert_eq!(page(&site, "good.example.org"), "a page");
    let bad = "/may?key=1&domain=bad.example.org".to_owned();
    wait_until("both names are asked about", || asked.lock().unwrap().contains(&bad));
    assert!(!told.contains("bad.example.org"), "{told}");
    assert!(site.certificate("bad.example.org").is_none());
    server.stop();
}

#[test]
fn a_url_that_does_not_answer_allows_no_name_and_is_told() {
    if !has_pebble() {
        return;
    }
    let site = Site::new();
    let _pebble = Pebble::start(site.ports, Habits::default());
    let server = site.start(&["*.example.org"], "ask = \"http://127.0.0.1:1/may\"");
    let what = "shop.example.org gets no certificate on demand: `acme.ask` gives no answer";
    wait_until(what, || {
        visit(&site, "shop.example.org");
        server.log().contains(what)
    });
    assert!(site.certificate("shop.example.org").is_none());
    server.stop();
}

#[test]
fn orders_on_demand_stop_at_the_limit_of_an_hour() {
    if !has_pebble() {
        return;
    }
    let names = ["a.example.org", "b.example.org", "c.example.org"];
    let site = site_with(&names);
    let _pebble = Pebble::start(site.ports, Habits::default());
    let server = site.start(&["*.example.org"], "on_demand_per_hour = 2");
    let waits = "c.example.org: none yet, all orders on demand of this hour have begun";
    // The third one waits behind the two others.
    for (number, name) in names.into_iter().enumerate() {
        let ordered = format!("{name}: ends at");
        visit_until(&site, &[name], &[if number < 2 { &ordered } else { waits }]);
    }
    assert!(site.certificate("c.example.org").is_none());
    assert_eq!(plain_page(&server, "c.example.org"), "the page of c.example.org");
    server.stop();
}

#[test]
fn a_domain_with_many_names_leaves_orders_to_others() {
    if !has_pebble() {
        return;
    }
    let greedy =
        ["a.many.example.org", "b.many.example.org", "c.many.example.org", "d.many.example.org"];
    let small = "small.example.org";
    let site = site_with(&[&greedy[..], &[small]].concat());
    let _pebble = Pebble::start(site.ports, Habits::default());
    let server = site.start(&["*.example.org"], "on_demand_per_hour = 6");
    site.wait_for_status(&["*.example.org: on demand", "each owner of folders and domain leaves"]);
    // As another user than root all folders are of one owner, who has five of the orders.
    let had = if Process::own().uid() == 0 { 3 } else { 2 };
    let waits = "none yet, its domain has had its share of the orders on demand in this hour";
    for (number, name) in greedy.into_iter().enumerate() {
        let text = format!("{name}: {}", if number < had { "ends at" } else { waits });
        visit_until(&site, &[name], &[&text]);
    }
    // The next one is served at once.
    visit_until(&site, &[small], &["  small.example.org: ends at 20"]);
    assert_eq!(page(&site, small), "the page of small.example.org");
    server.stop();
}
