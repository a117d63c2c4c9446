//! Files that slow clients take their time for: those of one site, or for one client, leave
//! descriptors to all others.

use crate::http2::client::Http2;
use crate::site::far_limits;
use crate::support::{Folder, HOWDAH, Process, Server, Setup, wait_until};
use crate::wire::{Reply, Wire};

/// Two sites, `shop` and `blog`, of a front with few descriptors behind a proxy, which names the
/// clients.
struct Sites {
    server: Server,
    _folder: Folder,
}

/// Files of `shop` that are larger than what is read into memory. Together they are more than the
/// front has descriptors.
const LARGE: usize = 400;
/// Their length in bytes, and that of the others.
const LENGTH: usize = 1_100_000;
const MEDIUM: usize = 600_000;

impl Sites {
    fn start() -> Sites {
        let folder = Folder::new();
        folder.file("shop/0", vec![b's'; LENGTH]);
        // Links to one file are files of their own for the server.
        for number in 1..LARGE {
            let root = folder.path().join("shop");
            std::fs::hard_link(root.join("0"), root.join(number.to_string())).unwrap();
        }
        for site in ["shop", "blog"] {
            folder.file(&format!("{site}/medium"), vec![b'm'; MEDIUM]);
            folder.file(&format!("{site}/small"), site);
            folder.file(&format!("{site}/large"), vec![b'l'; LENGTH]);
        }
        folder.file("shop/.htaccess", "ErrorDocument 503 /busy.html\n");
        folder.file("shop/busy.html", "busy");
        let site = |name: &str| {
            format!(
                "[[site]]\nname = \"{name}\"\nhosts = [\"{name}\"]\nroot = \"{name}\"\n\
                 php = false\n"
            )
        };
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nthreads = 1\ntrusted_proxies = [\"127.0.0.1\"]\n\
             [log]\naccess = \"off\"\n[limits]\n{}{}{}",
            far_limits(""),
            site("shop"),
            site("blog")
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

    fn get(&self, client: &str, site: &str, target: &str) -> Reply {
        let fields = [("Host", site), ("X-Forwarded-For", client)];
        Wire::connect(self.server.address()).ask("GET", target, &fields, b"")
    }

    /// Begins to get every large file of `shop`, each by the client that `client` returns for its
    /// number. Nobody reads them.
    fn take_all(&self, client: impl Fn(usize) -> String) -> impl Sized {
        let connections: Vec<Http2> = (0..8)
            .map(|_| Http2::with(self.server.address(), &h2::client::Builder::new()))
            .collect();
        let ask = |number: usize| {
            let connection = &connections[number % 8];
            let request = http::Request::get(format!("http://shop/{number}"))
                .header("X-Forwarded-For", client(number))
                .body(())
                .unwrap();
            connection.run(connection.begin(request, true))
        };
        let taken: Vec<_> = (0..LARGE).map(ask).collect();
        assert!(connections.iter().all(Http2::is_open));
        (taken, connections)
    }

    fn sends(&self, client: &str, site: &str, (target, length): (&str, usize)) {
        let reply = self.get(client, site, target);
        assert_eq!((reply.status, reply.body.len()), (200, length), "{}", self.server.log());
    }
}

#[test]
fn slow_downloads_of_one_site_leave_descriptors_to_other_sites() {
    let sites = Sites::start();
    let taken = sites.take_all(|number| format!("192.0.2.{}", 1 + number % 200));
    sites.server.wait_for_log(
        "503: the file is not sent: as many of the site's files are being sent as its share of the \
         limit of open files (`ulimit -n`)",
    );
    for _ in 0..20 {
        sites.sends("198.51.100.1", "blog", ("/large", LENGTH));
        sites.sends("198.51.100.1", "blog", ("/medium", MEDIUM));
        sites.sends("198.51.100.1", "shop", ("/small", 4));
        // Files of usual size are read into memory.
        sites.sends("198.51.100.1", "shop", ("/medium", MEDIUM));
    }
    let refused = sites.get("198.51.100.1", "shop", "/large");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("2")));
    assert_eq!(refused.text(), "busy");
    assert!(!sites.server.log().contains("cannot accept"), "{}", sites.server.log());
    drop(taken);
    wait_until("there is room again", || sites.get("198.51.100.1", "shop", "/large").status == 200);
}

#[test]
fn slow_downloads_of_one_client_leave_descriptors_to_other_clients() {
    let sites = Sites::start();
    let taken = sites.take_all(|_| "192.0.2.1".to_owned());
    sites.server.wait_for_log(
        "503: the file is not sent: as many files are being sent to the client as its share of the \
         limit of open files (`ulimit -n`)",
    );
    for _ in 0..20 {
        sites.sends("198.51.100.1", "blog", ("/large", LENGTH));
        sites.sends("198.51.100.1", "shop", ("/small", 4));
    }
    assert_eq!(sites.get("192.0.2.1", "blog", "/large").status, 503, "{}", sites.server.log());
    assert!(!sites.server.log().contains("cannot accept"), "{}", sites.server.log());
    drop(taken);
    wait_until("there is room again", || sites.get("192.0.2.1", "blog", "/large").status == 200);
}
