//! Connections to upstreams that are kept for the next request.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::upstream::{Upstream, read_head};
use crate::site::Site;
use crate::support::{PATIENCE, free_address, wait_until};

/// An upstream that answers many requests on a connection, and the number of its connections. The
/// second request for `/twice` on a connection closes it without an answer.
fn upstream() -> (Upstream, Arc<AtomicUsize>) {
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    let upstream = Upstream::with(move |mut stream| {
        count.fetch_add(1, Ordering::SeqCst);
        serve(&mut stream);
    });
    (upstream, accepted)
}

fn serve(stream: &mut TcpStream) {
    let mut answered = 0;
    loop {
        let head = read_head(stream);
        let Some(path) = head.split(' ').nth(1) else {
            return;
        };
        let answer = match path {
            "/twice" if answered > 0 => return,
            "/chunks" => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
            }
            "/empty" => "HTTP/1.1 204 No Content\r\n\r\n",
            "/more" => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more",
            "/closes" => "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
            "/old" => "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            _ if head.starts_with("HEAD") => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        answered += 1;
    }
}

/// A site whose connections to the upstream are not closed by time.
fn site(upstream: &Upstream, more: &str) -> Site {
    upstream.site(&format!("upstream_kept_timeout = \"5m\"\n{more}"))
}

#[test]
fn requests_share_a_connection_until_the_upstream_closes_it() {
    let (upstream, accepted) = upstream();
    let site = site(&upstream, "");
    // One connection of a client is one thread's.
    let mut wire = site.connect();
    for (method, path) in [
        ("GET", "/ws/a"),
        ("GET", "/ws/chunks"),
        ("HEAD", "/ws/a"),
        ("GET", "/ws/empty"),
        ("POST", "/ws/a"),
        ("GET", "/ws/chunks"),
        ("GET", "/ws/closes"),
    ] {
        let reply = wire.ask(method, path, &[], b"");
        assert!([200, 204].contains(&reply.status), "{method} {path}: {reply:?}");
        assert_eq!(accepted.load(Ordering::SeqCst), 1, "{method} {path}");
    }
    for (path, number) in [("/ws/old", 2), ("/ws/more", 3), ("/ws/a", 4), ("/ws/a", 4)] {
        assert_eq!(wire.get(path).text(), "hi", "{path}");
        assert_eq!(accepted.load(Ordering::SeqCst), number, "{path}");
    }
}

#[test]
fn nothing_is_kept_where_the_site_says_so() {
    let (upstream, accepted) = upstream();
    let site = site(&upstream, "upstream_kept = 0");
    let mut wire = site.connect();
    for number in 1..4 {
        assert_eq!(wire.get("/ws/a").text(), "hi");
        assert_eq!(accepted.load(Ordering::SeqCst), number);
    }
}

#[test]
fn a_request_that_a_dead_connection_lost_is_sent_again_if_it_may_be() {
    let (upstream, accepted) = upstream();
    let site = site(&upstream, "");
    let mut wire = site.connect();
    assert_eq!(wire.get("/ws/a").text(), "hi");
    assert_eq!(wire.get("/ws/twice").text(), "hi", "over a new connection");
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
    assert_eq!(wire.ask("POST", "/ws/twice", &[], b"once").status, 502, "it may have been done");
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
}

#[test]
fn a_kept_connection_is_closed_after_its_time() {
    let (sender, ended) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let upstream = Upstream::with(move |mut stream| {
        serve(&mut stream);
        let _ = sender.lock().unwrap().send(());
    });
    let site = upstream.site("upstream_kept_timeout = \"1s\"");
    assert_eq!(site.get("/ws/a").text(), "hi");
    ended.recv_timeout(PATIENCE).expect("the upstream is told");
}

#[test]
fn an_upstream_that_cannot_be_reached_is_left_alone_for_a_while() {
    let address = free_address();
    let rules = format!("RewriteEngine On\nRewriteRule ^a$ http://{address}/ [P]\n");
    let site = |retry: &str| {
        Site::configured(
            &[(".htaccess", &rules)],
            &format!(
                "listen = [\"127.0.0.1:0\"]\nthreads = 1\n[[site]]\nroot = \"public\"\n\
                 php = false\n\
                 upstreams = [\"http://{address}\"]\nupstream_retry = \"{retry}\"\n"
            ),
        )
    };
    let (patient, usual) = (site("10m"), site("1s"));
    for site in [&patient, &usual] {
        assert_eq!(site.get("/a").status, 503);
        site.server.wait_for_log("it cannot be reached");
    }
    assert_eq!(patient.get("/a").status, 503);
    patient.server.wait_for_log("after `upstream_retry`");
    let listener = std::net::TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            serve(&mut stream);
        }
    });
    assert_eq!(patient.get("/a").status, 503, "it is not asked");
    wait_until("the upstream is found again", || usual.get("/a").status == 200);
}
