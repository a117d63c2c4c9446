//! One file for each site.

use std::fs;

use crate::site::Site;
use crate::support::{HOWDAH, Setup, wait_until};

const MAIN: &str = "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\ninclude = \"sites/*.toml\"\n\
                    [[site]]\nroot = \"public\"\nphp = false\n";

fn of(host: &str) -> String {
    format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"../{host}\"\nphp = false\n")
}

/// A server with the sites of the main file and of `one.example`.
fn site() -> Site {
    // The folder has to be there before the server starts: it is made with the document root.
    let site = Site::configured(&[("index.html", "main")], MAIN);
    for host in ["one.example", "two.example"] {
        fs::create_dir_all(site.path().join(host)).unwrap();
        fs::write(site.path().join(host).join("index.html"), host).unwrap();
    }
    fs::create_dir(site.path().join("sites")).unwrap();
    site
}

fn text(site: &Site, host: &str) -> String {
    site.ask("GET", "/", &[("Host", host)], b"").text().to_owned()
}

#[test]
fn a_reload_sees_sites_that_come_and_go() {
    let site = site();
    assert_eq!(text(&site, "one.example"), "main");
    let one = site.path().join("sites/one.toml");
    fs::write(&one, of("one.example")).unwrap();
    site.reconfigure(MAIN);
    wait_until("the site is there", || text(&site, "one.example") == "one.example");
    // The former generation may take a last connection.
    site.server.front();
    assert_eq!(text(&site, "two.example"), "main");
    // A mistake in an included file leaves what runs, and names the file.
    fs::write(site.path().join("sites/two.toml"), of("two.example") + "wrong = 1\n").unwrap();
    site.reconfigure(MAIN);
    site.server.wait_for_log("sites/two.toml:5:1: unknown key `wrong` in [[site]]");
    assert_eq!(text(&site, "one.example"), "one.example");
    fs::write(site.path().join("sites/two.toml"), of("two.example")).unwrap();
    fs::remove_file(one).unwrap();
    site.reconfigure(MAIN);
    wait_until("the other site is there", || text(&site, "two.example") == "two.example");
    wait_until("the first site has gone", || text(&site, "one.example") == "main");
}

#[test]
fn check_lists_the_files() {
    let site = site();
    fs::write(site.path().join("sites/one.toml"), of("one.example")).unwrap();
    let file = site.path().join("howdah.toml");
    let check = || Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    let (code, out, err) = check();
    assert_eq!(code, Some(0), "{HOWDAH}: {out}{err}");
    assert!(out.contains("includes ") && out.contains("/sites/one.toml"), "{out}");
    fs::write(site.path().join("sites/one.toml"), "include = \"one.toml\"\n").unwrap();
    let (code, out, err) = check();
    assert_ne!(code, Some(0), "{out}");
    assert!(err.contains("sites/one.toml:1:11: ") && err.contains("includes itself"), "{err}");
}
