mod tree;

use std::net::SocketAddr;

use super::*;
use crate::sites::Sites;
use howdah_config::{Config, RootTemplate, SiteSettings};
use tree::{FileSystem, shown};

const TREE: [&str; 28] = [
    "index.php",
    "a.txt",
    "dump.php",
    "x.phtml",
    "x.phps",
    "x.PHP",
    "a.php.bak",
    ".php",
    ".htaccess",
    ".hid/",
    ".hid/f",
    ".well-known/",
    ".well-known/acme",
    "dir/",
    "dir/index.php",
    "empty/",
    "static/",
    "static/index.html",
    "sub.php/",
    "sub.php/in.php",
    "s p/",
    "s p/q r.php",
    "d\\d/",
    "b\\s.txt",
    "no!",
    "locked/",
    "locked/index.php!",
    "page.html",
];

fn site(change: impl FnOnce(&mut SiteSettings)) -> Sites {
    let mut site = SiteSettings {
        root: RootTemplate::Fixed("/srv".into()),
        ..SiteSettings::default()
    };
    change(&mut site);
    Sites::compile(&Config { sites: vec![site], ..Config::default() })
}

fn framework() -> Sites {
    site(|site| site.try_files = vec![TryStep::Uri, TryStep::Path("/index.php".into())])
}

fn resolved(sites: &Sites, method: &str, target: &str, tree: &mut FileSystem) -> String {
    let request = Request {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        target: target.as_bytes().to_vec(),
        ..Request::default()
    };
    shown(&resolution(sites.find(b"h").unwrap(), &request, tree, &mut Scratch::default()))
}

fn resolution(
    site: &Site,
    request: &Request,
    tree: &mut FileSystem,
    scratch: &mut Scratch,
) -> Resolution {
    let end = SocketAddr::from(([127, 0, 0, 1], 80));
    let client = ClientRequest::new(request, end, end, 0);
    let resolved = resolve(site, &client, tree, scratch);
    assert!(resolved.ruled.is_none());
    resolved.resolution
}

fn check(sites: &Sites, rows: &[(&str, &str)]) {
    for (target, expected) in rows {
        let found = resolved(sites, "GET", target, &mut FileSystem::new(&TREE));
        assert_eq!(&found, expected, "GET {target}");
    }
}

#[test]
fn files_and_scripts() {
    check(
        &site(|_| ()),
        &[
            ("/a.txt", "file a.txt"),
            ("/a.txt?x=/../y", "file a.txt"),
            ("/%61.txt", "file a.txt"),
            ("//./a.txt", "file a.txt"),
            ("/dir/../a.txt", "file a.txt"),
            ("/b\\s.txt", "file b\\s.txt"),
            ("/b%5cs.txt", "file b\\s.txt"),
            ("/a.php.bak", "403"),
            ("/dump.php", "php dump.php"),
            ("/x.phtml", "php x.phtml"),
            ("/sub.php/in.php", "php sub.php/in.php"),
            ("/x.phps", "403"),
            ("/x.PHP", "403"),
            ("/none", "404"),
            ("/none.php", "404"),
            ("/none/", "404"),
            ("/%2561.txt", "404"),
            ("/A.TXT", "404"),
            ("/no", "403"),
        ],
    );
}

#[test]
fn paths_that_are_refused() {
    check(
        &framework(),
        &[
            ("/..", "400"),
            ("/../a.txt", "400"),
            ("/%2e%2e/a.txt", "400"),
            ("/dir/../../a.txt", "400"),
            ("/a%00.txt", "400"),
            ("/a%", "400"),
            ("/dir%2fa.txt", "404"),
            ("/dump.php/x%2fy", "404"),
            ("a.txt", "400"),
            ("*", "400"),
            ("", "400"),
        ],
    );
}

#[test]
fn folders() {
    check(
        &site(|_| ()),
        &[
            ("/", "php index.php"),
            ("//", "php index.php"),
            ("/dir/", "php dir/index.php"),
            ("/dir/.", "php dir/index.php"),
            ("/dir//", "php dir/index.php"),
            ("/dir", "301 /dir/"),
            ("/dir?", "301 /dir/?"),
            ("/dir?q=%20&r", "301 /dir/?q=%20&r"),
            ("/%64ir", "301 /dir/"),
            ("//dir", "301 /dir/"),
            ("/static", "301 /static/"),
            ("/static/", "file static/index.html"),
            ("/s%20p", "301 /s%20p/"),
            ("/d\\d", "301 /d%5cd/"),
            ("/empty", "301 /empty/"),
            ("/empty/", "folder empty"),
            ("/sub.php", "301 /sub.php/"),
            ("/sub.php/", "folder sub.php"),
            ("/locked/", "403"),
            ("/locked", "403"),
        ],
    );
    let nothing = site(|site| site.index = vec!["none.html".into()]);
    check(&nothing, &[("/", "folder "), ("/dir/", "folder dir")]);
}

#[test]
fn the_first_index_file_wins() {
    let tree = || {
        FileSystem::new(&["index.html", "index.php", "deep/", "deep/index.html/", "deep/index.htm"])
    };
    let php_first = site(|_| ());
    assert_eq!(resolved(&php_first, "GET", "/", &mut tree()), "php index.php");
    let html_first =
        site(|site| site.index = vec!["index.html".into(), "index.php".into(), "index.htm".into()]);
    assert_eq!(resolved(&html_first, "GET", "/", &mut tree()), "file index.html");
    // A folder that is called like an index file is none.
    assert_eq!(resolved(&html_first, "GET", "/deep/", &mut tree()), "file deep/index.htm");
}

#[test]
fn path_info_is_for_scripts() {
    check(
        &site(|_| ()),
        &[
            ("/dump.php/", "php dump.php + /"),
            ("/dump.php//", "php dump.php + /"),
            ("/dump.php/.", "php dump.php + /"),
            ("/dump.php/a//b%20c/../d?x", "php dump.php + /a/d"),
            ("/dump.php/a/", "php dump.php + /a/"),
            ("/dump.php/other.php/x", "php dump.php + /other.php/x"),
            ("/dump.php/..", "php index.php"),
            ("/s%20p/q%20r.php/y", "php s p/q r.php + /y"),
            ("/sub.php/in.php/z", "php sub.php/in.php + /z"),
            ("/sub.php/none", "404"),
            ("/a.txt/", "404"),
            ("/a.txt/b", "404"),
            ("/x.phps/b", "404"),
            ("/none.php/b", "404"),
        ],
    );
}

#[test]
fn hidden_names() {
    check(
        &framework(),
        &[
            ("/.htaccess", "403"),
            ("/%2ehtaccess", "403"),
            ("/.htnone", "403"),
            ("/dir/.htpasswd", "403"),
            ("/.git/config", "403"),
            ("/.env", "403"),
            ("/.php", "403"),
            ("/.hid/f", "404"),
            ("/.hid", "404"),
            ("/.hid/../a.txt", "file a.txt"),
            ("/.well-known/acme", "file .well-known/acme"),
            ("/.well-known/none", "php index.php < /.well-known/none"),
            // In PATH_INFO they are names like any other.
            ("/dump.php/.htaccess", "php dump.php + /.htaccess"),
            ("/dump.php/.git/config", "php dump.php + /.git/config"),
            ("/.git/dump.php/x", "403"),
        ],
    );
    let open = site(|site| site.dot_names = vec![".*".into()]);
    check(&open, &[("/.hid/f", "file .hid/f"), ("/.htaccess", "403"), ("/.php", "403")]);
}

#[test]
fn a_framework_gets_what_is_not_there() {
    check(
        &framework(),
        &[
            ("/a.txt", "file a.txt"),
            ("/", "php index.php"),
            ("/dir", "301 /dir/"),
            ("/dir/", "php dir/index.php"),
            ("/none", "php index.php < /none"),
            ("/none/", "php index.php < /none/"),
            ("/a%20b//c/?q=1", "php index.php < /a b/c/"),
            ("/none.php", "php index.php < /none.php"),
            ("/empty/", "php index.php < /empty/"),
            ("/empty", "php index.php < /empty"),
            ("/index.php/route", "php index.php + /route"),
            ("/none.php/route", "php index.php < /none.php/route"),
            ("/x.phps", "403"),
            ("/no", "403"),
        ],
    );
}

#[test]
fn steps_are_tried_in_order() {
    let steps = |steps: &[TryStep]| {
        let steps = steps.to_vec();
        site(|site| site.try_files = steps)
    };
    use TryStep::{Path, Status, Uri, UriDirectory, UriSuffix};
    check(
        &steps(&[Uri, UriSuffix(".html".into()), Status(410)]),
        &[
            ("/page", "file page.html"),
            ("/page/", "410"),
            ("/none", "410"),
            ("/empty/", "410"),
            ("/", "php index.php"),
        ],
    );
    check(
        &steps(&[Uri, UriDirectory, Path("/index.php".into())]),
        &[
            ("/empty/", "folder empty"),
            ("/empty", "301 /empty/"),
            ("/none", "php index.php < /none"),
        ],
    );
    check(
        &steps(&[UriDirectory, Status(404)]),
        &[("/dir/", "php dir/index.php"), ("/dir", "301 /dir/"), ("/a.txt", "404"), ("/no", "403")],
    );
    check(&steps(&[Uri, Path("/none.php".into())]), &[("/x", "404"), ("/a.txt", "file a.txt")]);
    check(
        &steps(&[Uri, Path("/none.php".into()), Path("/page.html".into())]),
        &[("/x", "file page.html")],
    );
    check(&steps(&[Path("/no".into()), Uri]), &[("/a.txt", "403")]);
    check(
        &steps(&[Path("/dir".into()), Uri]),
        &[("/a.txt", "file a.txt"), ("/empty/", "folder empty")],
    );
    check(
        &steps(&[Path("/dump.php".into())]),
        &[("/a.txt", "php dump.php < /a.txt"), ("/", "php dump.php < /")],
    );
}

#[test]
fn a_suffix_does_not_reach_what_is_refused() {
    let refusing = site(|site| {
        site.refuse = vec!["page.html".into()];
        site.try_files = vec![TryStep::Uri, TryStep::UriSuffix(".html".into())];
    });
    check(&refusing, &[("/page.html", "403"), ("/page", "403"), ("/none", "404")]);
}

#[test]
fn methods() {
    let rows = [
        ("HEAD", "/a.txt", "file a.txt"),
        ("OPTIONS", "/a.txt", "200 GET,POST,OPTIONS,HEAD"),
        ("POST", "/a.txt", "file a.txt"),
        ("PUT", "/a.txt", "405 GET,POST,OPTIONS,HEAD"),
        ("PROPFIND", "/a.txt", "405 GET,POST,OPTIONS,HEAD"),
        ("get", "/a.txt", "405 GET,POST,OPTIONS,HEAD"),
        ("POST", "/empty/", "404"),
        ("PUT", "/empty/", "405 GET,POST,OPTIONS,HEAD"),
        ("OPTIONS", "/empty/", "200 GET,POST,OPTIONS,HEAD"),
        ("PUT", "/none", "405 GET,POST,OPTIONS,HEAD"),
        ("OPTIONS", "/none", "200 GET,POST,OPTIONS,HEAD"),
        ("POST", "/none", "404"),
        ("POST", "/dir", "301 /dir/"),
        ("POST", "/dump.php", "php dump.php"),
        ("PUT", "/dump.php/x", "php dump.php + /x"),
        ("DELETE", "/", "php index.php"),
        ("OPTIONS", "/dump.php", "php dump.php"),
        ("PROPFIND", "/dump.php", "php dump.php"),
        ("TRACE", "/dump.php", "405 GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        ("TRACE", "/a.txt", "405 GET,POST,OPTIONS,HEAD"),
        ("CONNECT", "h:80", "405 GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        ("OPTIONS", "*", "200 GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    ];
    for (method, target, expected) in rows {
        let found = resolved(&site(|_| ()), method, target, &mut FileSystem::new(&TREE));
        assert_eq!(found, expected, "{method} {target}");
    }
}

#[test]
fn without_php_its_files_are_refused() {
    let plain = site(|site| site.php = None);
    check(
        &plain,
        &[
            ("/dump.php", "403"),
            ("/x.phtml", "403"),
            ("/x.phps", "403"),
            ("/dump.php/x", "404"),
            ("/a.txt", "file a.txt"),
            ("/a.php.bak", "403"),
            ("/static/", "file static/index.html"),
        ],
    );
}

#[test]
fn mass_hosting() {
    let root = RootTemplate::PerHost {
        before: "/srv/".into(),
        after: "/web".into(),
    };
    let sites = site(|site| site.root = root);
    let rows = [
        ("a.example", "/x.txt", "/srv/a.example/web x.txt"),
        ("A.example.:8080", "/x.txt", "/srv/a.example/web x.txt"),
        ("b.example", "/x.txt", "404"),
        ("..", "/x.txt", "404"),
        ("a_b", "/x.txt", "404"),
        ("", "/x.txt", "404"),
        ("a.example", "/", "/srv/a.example/web "),
        ("b.example", "/", "404"),
    ];
    for (authority, target, expected) in rows {
        let request = Request {
            authority: authority.into(),
            target: target.into(),
            ..Request::default()
        };
        let site = sites.find(request.host()).unwrap();
        let found = match resolution(
            site,
            &request,
            &mut FileSystem::new(&["a.example/web//", "a.example/web/x.txt"]),
            &mut Scratch::default(),
        ) {
            Resolution::File { path, .. } | Resolution::Directory { path } => {
                format!("{} {}", path.root().display(), String::from_utf8_lossy(path.relative()))
            }
            other => shown(&other),
        };
        assert_eq!(found, expected, "{authority}");
    }
}

#[test]
fn the_disk_is_asked_as_seldom_as_possible() {
    let rows = [
        ("/a.txt", 1),
        ("/dump.php", 1),
        ("/", 1),
        ("/dir/", 2),
        ("/dump.php/a/b/c", 2),
        // A framework's route: once for the file, once for the script in its place.
        ("/2024/05/a-post/with/a/long/path/", 2),
        // An ErrorDocument might be in force there.
        ("/.git/config", 1),
    ];
    for (target, asked) in rows {
        let mut tree = FileSystem::new(&TREE);
        resolved(&framework(), "GET", target, &mut tree);
        assert_eq!(tree.asked, asked, "{target}");
    }
}

#[test]
fn a_reused_buffer_is_not_allocated_again() {
    let sites = site(|_| ());
    let request = Request {
        target: b"/a.txt".to_vec(),
        ..Request::default()
    };
    let mut scratch = Scratch::default();
    let mut places = Vec::new();
    for _ in 0..3 {
        let Resolution::File { path, .. } = resolution(
            sites.find(b"h").unwrap(),
            &request,
            &mut FileSystem::new(&TREE),
            &mut scratch,
        ) else {
            panic!("a file was expected");
        };
        places.push(path.absolute_bytes().as_ptr());
        scratch.reuse(path);
    }
    assert!(places.iter().all(|place| *place == places[0]));
}
