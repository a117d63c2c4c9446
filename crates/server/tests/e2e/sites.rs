//! The choice of the site by host name.

use crate::site::Site;
use crate::support::has_php;
use crate::wire::Wire;

fn host(site: &Site, host: &str, target: &str) -> (u16, String) {
    let reply = site.ask("GET", target, &[("Host", host)], b"");
    (reply.status, String::from_utf8(reply.body).unwrap())
}

fn four_sites(with_default: bool) -> Site {
    sites_with("strict_hosts = true\n", with_default)
}

fn sites_with(top: &str, with_default: bool) -> Site {
    let entry = |hosts: &str, root: &str| {
        format!("[[site]]\nhosts = {hosts}\nroot = \"public/{root}\"\nphp = false\n")
    };
    let mut config = format!(
        "{top}listen = [\"127.0.0.1:0\", \"127.0.0.2:0\"]\ncontrol = \"control\"\n[log]\n\
         access = \"access.log\"\n"
    );
    config += &entry("[\"one.example\", \"www.one.example\"]", "one");
    config += &entry("[\"*.example\"]", "wild");
    config += &entry("[\"*.deep.example\"]", "deep");
    if with_default {
        config += &entry("[\"*\"]", "rest");
    }
    let files = ["one", "wild", "deep", "rest"].map(|name| (format!("{name}/index.html"), name));
    let files: Vec<_> = files.iter().map(|(path, name)| (path.as_str(), *name)).collect();
    Site::configured(&files, &config)
}

#[test]
fn the_best_match_answers() {
    let site = four_sites(true);
    for (name, root) in [
        ("one.example", "one"),
        ("www.one.example", "one"),
        ("ONE.Example", "one"),
        ("one.example:8080", "one"),
        ("one.example.", "one"),
        ("two.example", "wild"),
        ("a.b.example", "wild"),
        ("x.deep.example", "deep"),
        ("deep.example", "wild"),
        ("example", "rest"),
        ("one.example.evil", "rest"),
        ("127.0.0.1", "rest"),
        ("[::1]:80", "rest"),
    ] {
        assert_eq!(host(&site, name, "/"), (200, root.to_owned()), "{name}");
    }
    let second = site
        .server
        .log()
        .split("127.0.0.2:")
        .nth(1)
        .unwrap()
        .split([' ', ';', ','])
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let mut other = Wire::connect(([127, 0, 0, 2], second).into());
    assert_eq!(other.ask("GET", "/", &[("Host", "one.example")], b"").text(), "one");
}

#[test]
fn a_name_without_a_site_is_misdirected() {
    let site = four_sites(false);
    assert_eq!(host(&site, "one.example", "/").0, 200);
    assert_eq!(host(&site, "elsewhere.test", "/").0, 421);
    // HTTP/1.0 without a name.
    let mut wire = site.connect();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    assert!(matches!(wire.reply("GET").status, 400 | 421));
}

#[test]
fn the_first_site_answers_for_a_name_without_a_site() {
    let site = sites_with("", false);
    for name in ["elsewhere.test", "127.0.0.1", "[::1]:80"] {
        assert_eq!(host(&site, name, "/"), (200, "one".to_owned()), "{name}");
    }
    let mut wire = site.connect();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(wire.reply("GET").text(), "one");
    // A default site comes before the first.
    assert_eq!(host(&sites_with("", true), "elsewhere.test", "/"), (200, "rest".to_owned()));
}

#[test]
fn an_absolute_target_names_the_site() {
    let site = four_sites(true);
    let mut wire = site.connect();
    wire.send("GET http://one.example/ HTTP/1.1\r\nHost: one.example\r\n\r\n");
    assert_eq!(wire.reply("GET").text(), "one");
    // RFC 9112 §3.2.2: the target's host replaces that of the field.
    let mut wire = site.connect();
    wire.send("GET http://one.example/index.html HTTP/1.1\r\nHost: x.deep.example\r\n\r\n");
    assert_eq!(wire.reply("GET").text(), "one");
}

#[test]
fn rules_and_scripts_see_the_host_of_an_absolute_target() {
    let rules = "SetEnvIf Host (.*) SEEN=$1\nRewriteEngine On\n\
        RewriteCond %{HTTP_HOST} !=a.example:81\nRewriteRule ^ - [F]\n\
        Header set X-Seen \"expr=%{req:Host} %{HTTP_HOST} %{SERVER_NAME} %{reqenv:SEEN}\"\n";
    let script = "<?php echo getallheaders()['Host'], ' ', $_SERVER['HTTP_HOST'], ' ', \
        $_SERVER['SERVER_NAME'], ' ', $_SERVER['REQUEST_URI'];";
    let site = Site::new(&[(".htaccess", rules), ("a.txt", "x"), ("a.php", script)]);
    let ask = |target: &str| {
        let mut wire = site.connect();
        wire.send(format!(
            "GET http://a.example:81{target} HTTP/1.1\r\nHost: other.example\r\n\r\n"
        ));
        wire.reply("GET")
    };
    let reply = ask("/a.txt");
    let expected = "a.example:81 a.example:81 a.example a.example:81";
    assert_eq!((reply.status, reply.field("x-seen")), (200, Some(expected)));
    if has_php() {
        assert_eq!(ask("/a.php?b").text(), "a.example:81 a.example:81 a.example /a.php?b");
    }
}

#[test]
fn one_entry_serves_a_folder_per_host() {
    if !has_php() {
        return;
    }
    let config = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[log]\n\
        access = \"access.log\"\n[[site]]\nname = \"mass\"\n\
        hosts = [\"*\"]\nroot = \"public/{host}/htdocs\"\n[site.php]\nworkers = 2\n\
        state_dir = \"state\"\n";
    let script = "<?php echo $_SERVER['DOCUMENT_ROOT'], ' ', $_SERVER['SERVER_NAME'];";
    let site = Site::configured(
        &[
            ("a.example/htdocs/index.php", script),
            ("b.example/htdocs/index.php", script),
            ("b.example/htdocs/b.txt", "only b"),
            ("secret/x.txt", "the secret"),
        ],
        config,
    );
    let root = site.root().display().to_string();
    for name in ["a.example", "b.example"] {
        assert_eq!(host(&site, name, "/"), (200, format!("{root}/{name}/htdocs {name}")));
    }
    assert_eq!(host(&site, "B.EXAMPLE:80", "/b.txt"), (200, "only b".into()));
    assert_eq!(host(&site, "a.example", "/b.txt").0, 404);
    assert_eq!(host(&site, "c.example", "/").0, 404);
    for evil in [
        "..",
        ".",
        "a.example/../secret",
        "..%2fsecret",
        "a..example",
        "-",
        "%2e%2e",
        ".a.example",
        "a.example\\..",
        "[::1]",
    ] {
        let (status, text) = host(&site, evil, "/x.txt");
        assert!(matches!(status, 400 | 404 | 421), "{evil}: {status}");
        assert!(!text.contains("the secret"), "{evil}");
    }
    // A folder that is made while the server runs is a new site.
    site.file("c.example/htdocs/index.php", script);
    crate::support::wait_until("the new site is there", || host(&site, "c.example", "/").0 == 200);
    assert_eq!(site.server.zygotes().len(), 1, "one pool for all of them");
}

#[test]
fn a_fall_back_runs_the_front_controller() {
    if !has_php() {
        return;
    }
    let site = Site::with(
        &[
            (
                "index.php",
                "<?php echo json_encode([$_SERVER['REQUEST_URI'], $_SERVER['SCRIPT_NAME'], \
                 $_SERVER['PATH_INFO'] ?? null, $_GET, $_SERVER['PHP_SELF']]);",
            ),
            ("style.css", "css"),
            ("dir/x.txt", "x"),
            ("other.php", "<?php echo 'other';"),
        ],
        &crate::site::Options {
            site: "try = [\"$uri\", \"/index.php\"]",
            ..Default::default()
        },
    );
    let mut wire = site.connect();
    let said = wire.get("/blog/2026/hello?page=2").json();
    assert_eq!(
        said,
        serde_json::json!([
            "/blog/2026/hello?page=2", "/index.php", null, {"page": "2"}, "/index.php"
        ])
    );
    assert_eq!(wire.get("/style.css").text(), "css");
    assert_eq!(wire.get("/other.php").text(), "other");
    assert_eq!(wire.get("/missing.php").json()[0], "/missing.php");
    assert_eq!(wire.get("/").json()[0], "/");
    assert_eq!(wire.ask("POST", "/api/x", &[], b"body").json()[0], "/api/x");
    assert!(matches!(wire.get("/.env").status, 403 | 404), "a refused name stays refused");
    assert_eq!(wire.get("/../x").status / 100, 4);
}

#[test]
fn without_php_scripts_are_refused_and_never_sent() {
    let site = four_sites(true);
    site.file("one/index.php", "<?php echo 'secret';");
    site.file("one/a.phtml", "<?php echo 'secret';");
    for target in ["/index.php", "/a.phtml", "/index.php/x"] {
        let (status, text) = host(&site, "one.example", target);
        assert!(matches!(status, 403 | 404), "{target}: {status}");
        assert!(!text.contains("secret"));
    }
}
