//! A change of a file takes effect at the next request.

use std::fs;

use howdah_sys::signal;

use crate::site::{Options, Site};
use crate::support::{Client, Folder, Setup, has_php, wait_until};

fn tag(value: &str) -> String {
    format!("Header set X-Tag {value}\n")
}

#[test]
fn an_edit_is_seen_at_the_next_request() {
    let site = Site::new(&[("a/b/file.txt", "x"), ("a/none.txt", "")]);
    let mut wires = [site.connect(), site.connect(), site.connect()];
    let path = site.root().join("a/.htaccess");
    for round in 0..200 {
        let value = format!("{round:03}");
        // Same size, same second: only the content differs.
        fs::write(&path, tag(&value)).unwrap();
        let reply = wires[round % 3].get("/a/b/file.txt");
        assert_eq!(reply.field("x-tag"), Some(value.as_str()), "round {round}");
    }
    fs::remove_file(&path).unwrap();
    for wire in &mut wires {
        assert_eq!(wire.get("/a/b/file.txt").field("x-tag"), None);
    }
}

#[test]
fn cached_answers_are_dropped_in_time() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteRule . /fallback.txt [L]\n\
        RewriteCond %{HTTP:X-Door} =closed\nRewriteRule ^ - [F]\n";
    let site =
        Site::new(&[(".htaccess", rules), ("fallback.txt", "fallback"), ("a/kept.txt", "kept")]);
    let root = site.root();
    let mut wires = [site.connect(), site.connect()];
    for round in 0..20 {
        let mut all = |target: &str, status: u16, body: &str| {
            for number in 0..8 {
                let reply = wires[number % 2].get(target);
                assert_eq!((reply.status, reply.text()), (status, body), "{round}: {target}");
            }
        };
        all("/a/new.txt", 200, "fallback");
        all("/a/kept.txt", 200, "kept");
        fs::write(root.join("a/new.txt"), format!("new {round}")).unwrap();
        all("/a/new.txt", 200, &format!("new {round}"));
        all("/a/kept.txt", 200, "kept");
        let refused = wires[0].ask("GET", "/a/kept.txt", &[("X-Door", "closed")], b"");
        assert_eq!(refused.status, 403);
        fs::remove_file(root.join("a/new.txt")).unwrap();
    }
}

#[test]
fn every_way_to_put_one_there() {
    let site = Site::new(&[("a/file.txt", "x")]);
    let mut wire = site.connect();
    let mut seen = || wire.get("/a/file.txt").field("x-tag").map(str::to_owned);
    let root = site.root();
    assert_eq!(seen(), None);
    fs::write(root.join("a/new"), tag("renamed")).unwrap();
    fs::rename(root.join("a/new"), root.join("a/.htaccess")).unwrap();
    assert_eq!(seen().as_deref(), Some("renamed"));
    fs::rename(root.join("a/.htaccess"), root.join("a/off")).unwrap();
    assert_eq!(seen(), None);
    fs::rename(root.join("a"), root.join("b")).unwrap();
    fs::create_dir(root.join("a")).unwrap();
    fs::write(root.join("a/file.txt"), "y").unwrap();
    fs::write(root.join("a/.htaccess"), tag("fresh")).unwrap();
    assert_eq!(seen().as_deref(), Some("fresh"));
    fs::write(root.join(".htaccess"), tag("root")).unwrap();
    fs::remove_file(root.join("a/.htaccess")).unwrap();
    assert_eq!(seen().as_deref(), Some("root"));
}

#[test]
fn a_release_is_swapped() {
    let site = Site::new(&[
        ("releases/1/.htaccess", "Header set X-Tag one\n"),
        ("releases/1/file.txt", "1"),
        ("releases/2/.htaccess", "Require all denied\n"),
        ("releases/2/file.txt", "2"),
    ]);
    let root = site.root();
    let mut wire = site.connect();
    for round in 0..10 {
        let release = 1 + round % 2;
        std::os::unix::fs::symlink(format!("releases/{release}"), root.join("new")).unwrap();
        fs::rename(root.join("new"), root.join("current")).unwrap();
        let reply = wire.get("/current/file.txt");
        match release {
            1 => assert_eq!((reply.status, reply.field("x-tag")), (200, Some("one"))),
            _ => assert_eq!(reply.status, 403),
        }
    }
}

#[test]
fn a_secret_is_never_served_while_files_come_and_go() {
    let site = Site::new(&[("secret/file.txt", "secret"), (".htaccess", "Require all denied\n")]);
    let address = site.server.address();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let askers: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut asked = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let status = client.get("/secret/file.txt").status;
                    assert!(status == 403, "{status}");
                    asked += 1;
                    if asked % 1000 == 0 {
                        // No connection is kept for more than keep_alive_requests.
                        client = Client::connect(address);
                    }
                }
                asked
            })
        })
        .collect();
    let inner = site.root().join("secret/.htaccess");
    for round in 0..300 {
        fs::write(
            &inner,
            if round % 2 == 0 {
                "# nothing\n"
            } else {
                "Options -Indexes\n"
            },
        )
        .unwrap();
        if round % 5 == 0 {
            fs::remove_file(&inner).unwrap();
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for asker in askers {
        assert!(asker.join().unwrap() > 10);
    }
}

#[test]
fn settings_of_the_configuration() {
    let files = [
        (".htaccess", "Header set X-Tag file\nRewriteEngine On\nRewriteRule ^old$ /file.txt\n"),
        ("file.txt", "x"),
    ];
    let with = |lines| {
        let options = Options { site: lines, ..Options::default() };
        Site::with(&files, &options)
    };
    let off = with("htaccess = false");
    assert_eq!(off.get("/file.txt").field("x-tag"), None);
    assert_eq!(off.get("/old").status, 404);
    let limited = with("allow_override = [\"AuthConfig\"]");
    assert_eq!(limited.get("/file.txt").status, 500);
    wait_until("it is in the log", || !limited.log_lines(".htaccess:1:1: ").is_empty());
    let none = with("allow_override = \"None\"");
    assert_eq!((none.get("/file.txt").status, none.get("/old").status), (200, 404));
    let inline = with("htaccess = false\nrules = \"\"\"\nHeader set X-Tag inline\n\"\"\"");
    assert_eq!(inline.get("/file.txt").field("x-tag"), Some("inline"));
    let both = with("rules = \"Header set X-Other inline\"");
    let reply = both.get("/old");
    assert_eq!((reply.field("x-tag"), reply.field("x-other")), (Some("file"), Some("inline")));
}

#[test]
fn not_if_the_command_line_says_so() {
    let folder = Folder::new();
    folder.file(".htaccess", "Require all denied\n");
    folder.file("file.txt", "x");
    assert_eq!(Setup::folder(&folder).start().get("/file.txt").status, 403);
    let server = Setup::folder(&folder).and(&["--no-htaccess"]).start();
    assert_eq!(server.get("/file.txt").status, 200);
    assert_eq!(server.get("/.htaccess").status, 403);
}

#[test]
fn a_reload_keeps_them_in_force() {
    if !has_php() {
        return;
    }
    let site = Site::new(&[
        (".htaccess", "RewriteEngine On\nRewriteRule ^page/(.*) /page.php?name=$1 [L]\n"),
        ("page.php", "<?php echo $_GET['name'];"),
        ("secret/.htaccess", "Require all denied\n"),
        ("secret/file.txt", "secret"),
    ]);
    assert_eq!(site.get("/page/one").text(), "one");
    let before = site.server.processes();
    site.server.signal(signal::SIGHUP);
    wait_until("the former generation has gone", || {
        let supervisor = site.server.supervisor().number();
        let mut former = before.iter().filter(|process| process.number() != supervisor);
        !former.any(|process| process.lives())
    });
    for _ in 0..20 {
        assert_eq!(site.get("/page/two").text(), "two");
        assert_eq!(site.get("/secret/file.txt").status, 403);
    }
}
