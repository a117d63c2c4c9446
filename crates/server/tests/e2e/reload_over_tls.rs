//! Reloads and new programs while clients of HTTP/1.1, HTTP/2 and HTTP/3 send requests over TLS.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use crate::http2::client::Http2;
use crate::http3::{Served, configured};
use crate::site::{Site, far_limits, far_php};
use crate::support::{Process, has_php, wait_until};
use crate::tls::client::{Authority, Trust, files};

/// The files that are asked for in turn, each with its content.
const TARGETS: [(&str, &str); 2] = [("/a.txt", "hello"), ("/a.php", "from PHP")];

/// The requests that each client has had answered.
#[derive(Default)]
struct Load {
    counts: [AtomicUsize; 3],
    is_over: AtomicBool,
}

/// Ends a load, also if the test fails.
struct Ending<'l>(&'l Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Sends requests until the load is over. A failure ends the thread, and fails the test.
    fn run(&self, client: usize, mut ask: impl FnMut(&str) -> (u16, String)) {
        let targets = if has_php() { &TARGETS[..] } else { &TARGETS[..1] };
        for (target, expected) in targets.iter().cycle() {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let (status, text) = ask(target);
            assert_eq!((status, &*text), (200, *expected), "client {client}, {target}");
            self.counts[client].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> [usize; 3] {
        [0, 1, 2].map(|client| self.counts[client].load(Ordering::Relaxed))
    }
}

/// A client of HTTP/1.1, which keeps its connection until a response announces the end.
fn http1(load: &Load, served: &Served) {
    let connect = || {
        let address = served.site.server.address();
        served.authority.connect(address, "a.example", Trust::Tls13)
    };
    let mut wire = connect();
    load.run(0, |target| {
        let reply = wire.get(target);
        if reply.field("connection") == Some("close") {
            wire = connect();
        }
        (reply.status, reply.text().to_owned())
    });
}

fn http2(load: &Load, served: &Served) {
    let connect = || {
        let settings = served.authority.client(Trust::Tls13).settings();
        Http2::encrypted_as(served.site.server.address(), settings, "a.example")
    };
    let mut client = connect();
    load.run(1, |target| {
        let reply = client.try_get(target).unwrap_or_else(|| {
            client = connect();
            client.get(target)
        });
        assert_eq!(reply.reset, None);
        (reply.status, reply.text().to_owned())
    });
}

fn http3(load: &Load, served: &Served) {
    let mut client = served.connect();
    load.run(2, |target| {
        let (reply, _) = client.ask_again(target);
        assert!(!reply.is_broken);
        (reply.status, reply.text().to_owned())
    });
}

/// Reloads that many times, each `pause` after the one before, and starts the program anew once.
fn reload(times: usize, pause: Duration) {
    let served = Served::new(&TARGETS.map(|(target, content)| match target {
        "/a.php" => ("a.php", "<?php echo 'from PHP';"),
        _ => (&target[1..], content),
    }));
    let (served, load) = (&served, &Load::default());
    let fronts = || -> Vec<Process> {
        let all = served.site.server.processes().into_iter();
        all.filter(|process| process.name() == "howdah-front").collect()
    };
    std::thread::scope(|scope| {
        let _ending = Ending(load);
        let clients = [http1, http2, http3].map(|client| scope.spawn(move || client(load, served)));
        let goes_on = |why: &str| {
            let before = load.counts();
            wait_until(why, || {
                assert!(!clients.iter().any(|client| client.is_finished()), "a client has failed");
                load.counts().iter().zip(before).all(|(now, before)| *now > before + 5)
            });
        };
        goes_on("every client is served");
        for number in 0..times {
            let before = fronts();
            let signal = if number == times / 2 { SIGUSR2 } else { SIGHUP };
            served.site.server.signal(signal);
            std::thread::sleep(pause);
            wait_until("another front serves", || {
                fronts().iter().any(|front| !before.contains(front))
            });
            goes_on("every client is served after a reload");
        }
    });
    println!("{times} reloads; answered over HTTP/1.1, HTTP/2 and HTTP/3: {:?}", load.counts());
}

#[test]
fn no_request_over_tls_is_lost_by_reloads_and_a_new_program() {
    reload(4, Duration::ZERO);
}

#[test]
#[ignore = "takes a minute: make chaos"]
fn no_request_over_tls_is_lost_by_a_reload_every_second_for_a_minute() {
    reload(60, Duration::from_secs(1));
}

/// Lets the scripts of [`two_sites`] end, also if the test fails.
struct Allowing<'s>(&'s Site);

impl Drop for Allowing<'_> {
    fn drop(&mut self) {
        self.0.allow("end");
    }
}

/// The sites `a.example` and `b.example`, each with PHP, over all protocols.
fn two_sites() -> Served {
    let authority = Authority::new();
    let folder = files(&[("a", &authority.certify(&["a.example"]))]);
    let site = |name: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nhosts = [\"{name}.example\"]\nroot = \"public\"\n\
             tls = {{ cert = \"{0}/a.pem\", key = \"{0}/a.key\" }}\n[site.php]\nworkers = 2\n\
             state_dir = \"state/{name}\"\n{1}",
            folder.path().display(),
            far_php("")
        )
    };
    let config = format!(
        "listen = [{{ address = \"127.0.0.1:0\", tls = true }}]\nthreads = 2\n\
         control = \"control\"\n[limits]\ndrain_timeout = \"10m\"\n{}{}{}",
        far_limits(""),
        site("a"),
        site("b")
    );
    let script = "<?php touch($_GET['in'] . '/begun-' . $_GET['of']); \
                  while (!file_exists($_GET['in'] . '/end')) usleep(1000); echo 'done';";
    Served::of(configured(&[("long.php", script)], &config), authority, folder)
}

#[test]
fn a_long_request_keeps_no_php_of_another_site_after_a_reload() {
    if !has_php() {
        return;
    }
    let served = &two_sites();
    let site = &served.site;
    let zygotes = site.server.zygotes();
    let of = |name: &str| *zygotes.iter().find(|one| one.arguments().ends_with(name)).unwrap();
    let (own, other) = (of(" a"), of(" b"));
    let target = |number: u8| format!("{}&of={number}", site.awaiting("/long.php"));
    std::thread::scope(|scope| {
        let allowing = Allowing(site);
        let second = scope.spawn(|| {
            let settings = served.authority.client(Trust::Tls13).settings();
            let client = Http2::encrypted_as(site.server.address(), settings, "a.example");
            client.get(&target(2)).text().to_owned()
        });
        let third = scope.spawn(|| served.connect().get(&target(3)).text().to_owned());
        for number in 2..=3 {
            let begun = site.scratch().join(format!("begun-{number}"));
            wait_until("the script has begun", || begun.exists());
        }
        site.server.signal(SIGHUP);
        wait_until("the other site's former zygote has ended", || !other.lives());
        assert!(own.lives());
        drop(allowing);
        assert_eq!([second, third].map(|client| client.join().unwrap()), ["done", "done"]);
    });
    wait_until("the former generation has ended", || !own.lives());
}
