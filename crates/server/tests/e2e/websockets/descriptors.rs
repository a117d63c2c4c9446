//! Descriptors of connections to upstreams: those of one site leave enough for all others.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::upstream::{ACCEPTED, ASKS, Upstream, read_head};
use crate::http2::client::Http2;
use crate::site::far_limits;
use crate::support::{Folder, HOWDAH, Process, Server, Setup, wait_until};
use crate::wire::{Reply, Wire};

/// Two sites, `shop` and `blog`, each with an upstream, of a front with few descriptors.
struct Sites {
    server: Server,
    _folder: Folder,
}

/// The log's words about a site with too many connections.
const REFUSED: &str = "it is not asked: the site has as many connections to its upstreams as its \
                       share of the limit of open files";

impl Sites {
    /// `shop` has a second upstream below `other`.
    fn start(shop: &Upstream, other: &Upstream, blog: &Upstream) -> Sites {
        let folder = Folder::new();
        let site = |name: &str, upstreams: &[(&str, &Upstream)]| {
            let rule = |(path, upstream): &(&str, &Upstream)| {
                format!("RewriteRule ^{path}/(.*)$ {}/$1 [P]\n", upstream.url)
            };
            let rules: String = upstreams.iter().map(rule).collect();
            folder.file(&format!("{name}/.htaccess"), format!("RewriteEngine On\n{rules}"));
            folder.file(&format!("{name}/file.txt"), name);
            let urls: Vec<&str> =
                upstreams.iter().map(|(_, upstream)| upstream.url.as_str()).collect();
            format!(
                "[[site]]\nname = \"{name}\"\nhosts = [\"{name}\"]\nroot = \"{name}\"\n\
                 php = false\nupstreams = {urls:?}\nupstream_timeout = \"5m\"\n\
                 tunnel_timeout = \"5m\"\nupstream_kept = 100\nupstream_kept_timeout = \"5m\"\n"
            )
        };
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nthreads = 1\n[log]\naccess = \"off\"\n[limits]\n{}{}{}",
            far_limits(""),
            site("shop", &[("app", shop), ("other", other)]),
            site("blog", &[("app", blog)])
        );
        let config = folder.file("howdah.toml", text);
        // As an ordinary user: root may raise the limit.
        let limited =
            folder.program("limited", "#!/bin/sh\nulimit -n 300\nexec \"$HOWDAH\" \"$@\"\n");
        let mut setup = Setup::config(&config).environment("HOWDAH", HOWDAH).program(&limited);
        if Process::own().uid() == 0 {
            setup = setup.user(65_534);
        }
        Sites { server: setup.start(), _folder: folder }
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.server.address())
    }

    fn get(&self, site: &str, target: &str) -> Reply {
        self.connect().ask("GET", target, &[("Host", site)], b"")
    }

    /// Asks both sites for all that needs descriptors and is not refused.
    fn others_are_served(&self) {
        for _ in 0..20 {
            assert_eq!(self.get("blog", "/app/a").text(), "hi");
            assert_eq!(self.get("blog", "/file.txt").text(), "blog");
            assert_eq!(self.get("shop", "/file.txt").text(), "shop");
        }
        assert!(!self.server.log().contains("cannot accept"), "{}", self.server.log());
    }

    fn is_refused(&self) {
        let refused = self.get("shop", "/app/a");
        assert_eq!((refused.status, refused.field("retry-after")), (503, Some("2")));
    }
}

const HI: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Answers every request but those for `/held`.
fn answer(mut stream: TcpStream) {
    loop {
        let head = read_head(&mut stream);
        let is_held = head.starts_with("GET /held");
        if head.is_empty() || is_held {
            return hold(stream);
        }
        if stream.write_all(HI).is_err() {
            return;
        }
    }
}

/// Keeps a connection until the other side closes it.
fn hold(mut stream: TcpStream) {
    // A reset is an end, too.
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

#[test]
fn requests_that_an_upstream_never_answers_leave_descriptors_to_other_sites() {
    let (upstream, other) = (Upstream::with(answer), Upstream::with(answer));
    let sites = Sites::start(&upstream, &other, &other);
    let clients: Vec<Http2> = (0..10)
        .map(|_| Http2::with(sites.server.address(), &h2::client::Builder::new()))
        .collect();
    let ask = |client: &Http2| {
        let request = http::Request::get("http://shop/app/held").body(()).unwrap();
        client.run(client.begin(request, true))
    };
    let held: Vec<_> =
        clients.iter().flat_map(|client| (0..60).map(move |_| ask(client))).collect();
    assert!(clients.iter().all(Http2::is_open));
    sites.server.wait_for_log(REFUSED);
    sites.others_are_served();
    sites.is_refused();
    drop((held, clients));
    wait_until("there is room again", || sites.get("shop", "/app/a").status == 200);
}

#[test]
fn tunnels_of_one_site_leave_descriptors_to_other_sites() {
    let upstream = Upstream::with(|mut stream| {
        if read_head(&mut stream).to_ascii_lowercase().contains("upgrade: websocket") {
            stream.write_all(ACCEPTED.as_bytes()).unwrap();
            hold(stream);
        }
    });
    let other = Upstream::with(answer);
    let sites = Sites::start(&upstream, &other, &other);
    let open = || {
        let mut wire = sites.connect();
        let fields = [&[("Host", "shop")][..], &ASKS].concat();
        wire.request("GET", "/app/ws", &fields, b"");
        let (status, _, _) = wire.head();
        (status, wire)
    };
    let mut tunnels = Vec::new();
    while let (101, tunnel) = open() {
        tunnels.push(tunnel);
        assert!(tunnels.len() < 60, "there is no limit");
    }
    assert_eq!(open().0, 503);
    sites.server.wait_for_log(REFUSED);
    sites.others_are_served();
    drop(tunnels);
    wait_until("there is room again", || open().0 == 101);
}

#[test]
fn connections_that_wait_for_a_request_make_room_for_one_to_another_upstream() {
    let is_over = Arc::new(AtomicBool::new(false));
    let upstream = {
        let is_over = Arc::clone(&is_over);
        Upstream::with(move |mut stream| {
            while !read_head(&mut stream).is_empty() {
                while !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                let _ = stream.write_all(HI);
            }
        })
    };
    let other = Upstream::with(answer);
    let sites = Sites::start(&upstream, &other, &other);
    let ask = |_| {
        let mut wire = sites.connect();
        wire.request("GET", "/app/a", &[("Host", "shop")], b"");
        wire
    };
    let mut wires: Vec<Wire> = (0..60).map(ask).collect();
    sites.server.wait_for_log(REFUSED);
    is_over.store(true, Ordering::Relaxed);
    let replies: Vec<u16> = wires.iter_mut().map(|wire| wire.reply("GET").status).collect();
    assert!(replies.iter().all(|status| [200, 503].contains(status)), "{replies:?}");
    assert!(replies.contains(&200), "{replies:?}");
    assert_eq!(sites.get("shop", "/other/a").text(), "hi", "all connections wait, and one ends");
    sites.others_are_served();
}
