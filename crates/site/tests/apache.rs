//! The same requests to a real Apache with mod_php and to this crate: the meaning of a path, and
//! what `$_SERVER` holds, must be the same, but for differences that are listed here with their
//! reasons.
//!
//! Skipped, with the reason printed, where Debian's apache2 and libapache2-mod-php are not
//! installed.

// All of this is test code; Clippy knows only the marked functions as such.
#![allow(clippy::unwrap_used)]

#[path = "apache/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use howdah_config::{Config, RootTemplate, SiteSettings, TryStep};
use howdah_http::{Limits, Request, h1};
use howdah_site::{
    ClientRequest, DirectiveHost, DocumentPath, PathKind, Resolution, Scratch, SiteHost, Sites,
    resolve, server_variables,
};

use server::{Apache, Ends, Reply};

type Variables = BTreeMap<String, String>;

/// The results of both sides for a request, in one form.
#[derive(Debug, PartialEq)]
enum Outcome {
    Script(Variables),
    Status(u16),
    /// A redirect to this path and query.
    Redirect(u16, String),
}

struct RealDisk;

impl DirectiveHost for RealDisk {}

impl SiteHost for RealDisk {
    fn kind(&mut self, path: &DocumentPath) -> PathKind {
        match fs::metadata(path.absolute()) {
            Ok(found) if found.is_dir() => PathKind::Directory,
            Ok(found) if found.is_file() => PathKind::File,
            Ok(_) => PathKind::Forbidden,
            Err(_) => PathKind::Missing,
        }
    }
}

/// Paths for which both must give the same result.
const SAME: &[&str] = &[
    "/",
    "//",
    "/a.txt",
    "/a.txt?x",
    "//a.txt",
    "/./a.txt",
    "/%61.txt",
    "/%2561.txt",
    "/dir/../a.txt",
    "/b%5cs.txt",
    "/a.txt/",
    "/a.txt/b",
    "/A.TXT",
    "/none",
    "/none/",
    "/none.php/x",
    "/%c3%a9",
    "/%ff",
    "/%C3%A4.txt",
    "/dir",
    "/dir?",
    "/dir?q=1&%20",
    "/dir/",
    "/dir//",
    "/dir/./",
    "/dir/.",
    "/dir/index.php/..",
    "/s%20p",
    "/s%20p?x",
    "/d%5cd",
    "/sub.php",
    "/sub.php/none",
    "/sub.php/in.php/z",
    "/.htpasswd",
    "/.htnone",
    "/.php",
    "/.phps",
    "/x.phps",
    "/x.phtml",
    "/x.phtml/y",
    "/dump.php",
    "/dump.php?",
    "/dump.php?a=b&c",
    "/dump.php/a",
    "/dump.php/a/",
    "/dump.php/a//b%20c/../d?x=1&y",
    "/dump.php/.hid",
    "/dump.php/.htaccess",
    "/dump.php/..",
    "/s%20p/q%20r.php/x%20y",
    "/..",
    "/../a.txt",
    "/%2e%2e/a.txt",
    "/dir/%2e%2e/a.txt",
    "/dir/..%2fa.txt",
    "/dump.php/x%2fy",
    "/a%zz",
    "/a%2",
    "/a%",
];

/// Paths for which they differ: Apache's status, ours, and why.
const DIFFERENT: &[(&str, u16, u16, &str)] = &[
    ("/a%00.txt", 404, 400, "a NUL is never meant; 400 says whose mistake it is"),
    ("/x.PHP", 200, 403, "Apache sends the source"),
    ("/x.php5", 200, 403, "Apache sends the source"),
    ("/.hid/f", 200, 404, "dot files are not served unless listed"),
    ("/a.php.bak", 200, 403, "the source of a program is not sent"),
    ("/none.phps", 403, 404, "only what is there can be refused"),
    ("/x.phps/a", 403, 404, "no more than behind any other file"),
    ("/empty/", 404, 403, "as Apache with mod_autoindex and Options -Indexes"),
];

#[test]
fn paths_stand_for_the_same() {
    let Some(apache) = Apache::start() else {
        return;
    };
    let sites = plain_site(&apache.root("plain"));
    for target in SAME {
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: Foo.Example\r\nConnection: close\r\n\r\n");
        let (theirs, ours) = both(&apache, apache.plain, &sites, &head);
        assert_eq!(ours, theirs, "{target}");
    }
    for &(target, apache_status, our_status, why) in DIFFERENT {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let (theirs, ours) = both(&apache, apache.plain, &sites, &head);
        assert_eq!(theirs, Outcome::Status(apache_status), "{target}: {why}");
        assert_eq!(ours, Outcome::Status(our_status), "{target}: {why}");
    }
}

#[test]
fn a_front_controller_sees_the_same() {
    let Some(apache) = Apache::start() else {
        return;
    };
    let root = apache.root("rewritten");
    let sites = compile(SiteSettings {
        root: RootTemplate::Fixed(root),
        try_files: vec![TryStep::Uri, TryStep::Path("/index.php".to_owned())],
        ..SiteSettings::default()
    });
    let targets = [
        "/",
        "/none",
        "/none/",
        "/none?z=1",
        "/a%20b//c/?q=1",
        "/none.php",
        "/none.php/route",
        "/index.php/route",
        "/dir",
        "/dir/",
        "/a.txt",
        "/sub.php/none",
        "/.htpasswd",
        "/x.phps",
        "/..",
        "/a%2fb",
    ];
    for target in targets {
        let head =
            format!("GET {target} HTTP/1.1\r\nHost: foo.example:81\r\nConnection: close\r\n\r\n");
        let mut outcomes: [Outcome; 2] = both(&apache, apache.rewritten, &sites, &head).into();
        for outcome in &mut outcomes {
            // Where rules apply, Apache gives `redirect:/index.php` as the path of `/route`. This
            // value is not compared.
            if let Outcome::Script(variables) = outcome {
                variables.remove("PATH_TRANSLATED");
            }
        }
        let [theirs, ours] = outcomes;
        assert_eq!(ours, theirs, "{target}");
    }
}

#[test]
fn requests_look_the_same_to_a_script() {
    let Some(apache) = Apache::start() else {
        return;
    };
    let sites = plain_site(&apache.root("plain"));
    let heads = [
        "GET /dump.php HTTP/1.1\r\nHost: Foo.Example\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: FOO.example.\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: foo.example:443\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: [::1]\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: [::1]:7\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "GET /dump.php HTTP/1.0\r\nHost: foo.example\r\n",
        "HEAD /a.txt HTTP/1.1\r\nHost: h\r\n",
        "POST /dump.php?q HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
        "POST /dir/ HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain; x=y\r\nContent-Length: 3\r\n\
         \r\nabc",
        "POST /dir HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
        "PUT /dump.php/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "DELETE /dump.php HTTP/1.1\r\nHost: h\r\n",
        "PATCH /dump.php HTTP/1.1\r\nHost: h\r\n",
        "OPTIONS /dump.php HTTP/1.1\r\nHost: h\r\n",
        "PROPFIND /dump.php HTTP/1.1\r\nHost: h\r\n",
        "PUT /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\nAccept-Language: de\r\nX-A:3\r\n\
         X-Empty:\r\n",
        "GET /dump.php HTTP/1.1\r\nHost: h\r\nX_U: 1\r\nX.D: 2\r\nProxy: p\r\nX-9-z: \t v w \r\n",
        "GET /dump.php HTTP/1.1\r\nHost: h\r\nCookie: a=1; b=2\r\nReferer: http://x/\r\n\
         If-None-Match: \"e\"\r\n",
    ];
    for head in heads {
        let (lines, body) = head.split_once("\r\n\r\n").unwrap_or((head.trim_end(), ""));
        let whole = format!("{lines}\r\nConnection: close\r\n\r\n{body}");
        let (theirs, ours) = both(&apache, apache.plain, &sites, &whole);
        assert_eq!(ours, theirs, "{head}");
    }
}

#[test]
fn differences_on_purpose() {
    let Some(apache) = Apache::start() else {
        return;
    };
    let sites = plain_site(&apache.root("plain"));
    // (fields, variable, Apache's value, our value)
    let rows = [
        ("Cookie: a=1\r\nCookie: b=2\r\n", "HTTP_COOKIE", Some("a=1, b=2"), Some("a=1; b=2")),
        ("Authorization: Basic dTpw\r\n", "HTTP_AUTHORIZATION", None, Some("Basic dTpw")),
    ];
    for (fields, name, apache_value, our_value) in rows {
        let head =
            format!("GET /dump.php HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n");
        let (Outcome::Script(theirs), Outcome::Script(ours)) =
            both(&apache, apache.plain, &sites, &head)
        else {
            panic!("no script ran for {fields}");
        };
        assert_eq!(theirs.get(name).map(String::as_str), apache_value, "{name}");
        assert_eq!(ours.get(name).map(String::as_str), our_value, "{name}");
    }
}

fn plain_site(root: &Path) -> Sites {
    compile(SiteSettings {
        root: RootTemplate::fixed(root),
        ..SiteSettings::default()
    })
}

fn compile(site: SiteSettings) -> Sites {
    Sites::compile(&Config { sites: vec![site], ..Config::default() })
}

/// Sends `head` to Apache on `port`, and resolves it here.
fn both(apache: &Apache, port: u16, sites: &Sites, head: &str) -> (Outcome, Outcome) {
    let (reply, ends) = apache.ask(port, head);
    (theirs(&reply), ours(sites, head, &ends))
}

fn theirs(reply: &Reply) -> Outcome {
    match (reply.status, &reply.location) {
        (200, _) if reply.body.starts_with("$_SERVER\n") => {
            let lines = reply.body.lines().skip(1).filter_map(|line| line.split_once('='));
            Outcome::Script(common(
                lines.map(|(name, value)| (name.to_owned(), decoded(value))).collect(),
            ))
        }
        (status, Some(location)) => {
            // Apache names itself in the Location, a path serves as well.
            let path = location.splitn(4, '/').nth(3).unwrap_or_default();
            Outcome::Redirect(status, format!("/{path}"))
        }
        (status, None) => Outcome::Status(status),
    }
}

fn ours(sites: &Sites, head: &str, ends: &Ends) -> Outcome {
    let mut request = Request::new();
    h1::parse_request(head.as_bytes(), &Limits::default(), &mut request)
        .expect("a well-formed request");
    let site = sites.find(request.host()).expect("the only site answers for every host");
    let client = ClientRequest::new(&request, ends.remote, ends.local, 0);
    match resolve(site, &client, &mut RealDisk, &mut Scratch::default()).resolution {
        Resolution::Php(script) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut found = Variables::new();
            server_variables(&client, &script, None, &mut |name, value| {
                found.insert(text(name), text(value));
            });
            Outcome::Script(common(found))
        }
        Resolution::File { .. } => Outcome::Status(200),
        Resolution::Directory { .. } => Outcome::Status(403),
        Resolution::Status(status) | Resolution::Allow { status, .. } => {
            Outcome::Status(status.code())
        }
        Resolution::Redirect { status, location } => {
            Outcome::Redirect(status.code(), String::from_utf8_lossy(&location).into_owned())
        }
        other => panic!("directives made {other:?}, and there are none"),
    }
}

/// Without what can never be the same: PHP's own variables, and what tells the two servers apart.
fn common(mut variables: Variables) -> Variables {
    const PHP: [&str; 7] = [
        "PHP_SELF",
        "PHP_AUTH_USER",
        "PHP_AUTH_PW",
        "REQUEST_TIME",
        "REQUEST_TIME_FLOAT",
        "argv",
        "argc",
    ];
    const SERVERS: [&str; 2] = ["PATH", "SERVER_SOFTWARE"];
    for name in PHP.iter().chain(&SERVERS) {
        variables.remove(*name);
    }
    // Apache maps the PATH_INFO `/` on to the root's index file.
    if variables.get("PATH_INFO").is_some_and(|path_info| path_info == "/") {
        variables.remove("PATH_TRANSLATED");
    }
    variables
}

/// The value that PHP's rawurlencode wrote.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(&after[..2]).expect("two hexadecimal digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
