//! `encoded_slashes`: the meaning of `%2F` in a path, beside Apache's `AllowEncodedSlashes`.

use std::io::Write;
use std::net::TcpStream;

use crate::apache::Apache;
use crate::site::{Options, Site};
use crate::support::{Folder, Setup, has_php};
use crate::websockets::upstream::{Upstream, read_head};
use crate::wire::{Reply, Wire};

const DUMP: &str = "<?php foreach (['SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_INFO', \
    'PATH_TRANSLATED', 'REQUEST_URI', 'PHP_SELF', 'QUERY_STRING', 'REDIRECT_URL', 'REDIRECT_V'] as \
    $name) echo $name, '=', $_SERVER[$name] ?? '(none)', '|';";

/// The files, with `UPSTREAM` for the upstream's URL.
const FILES: [(&str, &str); 11] = [
    ("dump.php", DUMP),
    ("a.txt", "a"),
    ("dir/b.txt", "b"),
    ("lit%2Fx.txt", "literal"),
    ("shut/.htaccess", "Require all denied\n"),
    ("shut/s.txt", "secret"),
    (".git/config", "secret"),
    ("dir/.env", "secret"),
    ("dir/.hidden", "secret"),
    (
        "rw/.htaccess",
        "RewriteEngine On\n\
         RewriteRule ^int/(.*)$ /dump.php/$1 [L]\n\
         RewriteRule ^b/(.*)$ /dump.php?p=$1 [B,L]\n\
         RewriteRule ^env/(.*)$ /dump.php [E=V:$1,L]\n\
         RewriteRule ^to/(.*)$ /dump.php/$1 [R,L]\n\
         RewriteRule ^tone/(.*)$ /dump.php/$1 [R,NE,L]\n\
         RewriteRule ^p/(.*)$ UPSTREAM/up/$1 [P,L]\n\
         RewriteRule ^pne/(.*)$ UPSTREAM/up/$1 [P,NE,L]\n\
         RewriteCond %{REQUEST_FILENAME} !-f\n\
         RewriteRule . index.php [L]\n",
    ),
    ("rw/index.php", DUMP),
];

/// The rules of the site's configuration.
const RULES: &str = "RewriteEngine On\n\
    RewriteRule ^/p/(.*)$ UPSTREAM/up/$1 [P]\n\
    RewriteRule ^/pne/(.*)$ UPSTREAM/up/$1 [P,NE]\n\
    RewriteRule ^/pt/(.*)$ /dump.php/$1 [PT]\n\
    RewriteRule ^/r/(.*)$ /dump.php/$1 [R]\n\
    Redirect /old /new\n\
    RedirectMatch ^/om/(.*)$ /dump.php/$1\n";

/// Paths for which both must give the same answer, whatever `%2F` means.
const SAME: [&str; 53] = [
    "/dir%2fb.txt",
    "/dir%2Fb.txt",
    "/lit%2Fx.txt",
    "/lit%2fx.txt",
    "/lit%252Fx.txt",
    "/dump.php/a%2Fb%20c",
    "/dump.php/a%252Fb",
    "/dump.php%2Fa",
    "/dump.php/a%2F%2Fb",
    "/dump.php/a%2F..%2Fb",
    "/dump.php/a/%2e%2e%2fb",
    "/dump.php/a%2Fb/../c",
    "/dump.php/%252e%252e%2fb",
    "/dump.php/a%2F?x=%2F",
    "/dir%2Fx/../a.txt",
    "/dir%2f..%2fa.txt",
    "/dir/..%2fa.txt",
    "/dir/%2e%2e%2fa.txt",
    "/%2fa.txt",
    "/%2F%2Fa.txt",
    "/a.txt%2F",
    "/a.txt%2Fb",
    "/shut%2Fs.txt",
    "/dir%2F..%2Fshut/s.txt",
    "/shut%2f%2e%2fs.txt",
    "/rw/int/a%2Fb%20c",
    "/rw/int/a%252Fb",
    "/rw/b/a%2Fb%20c",
    "/rw/env/a%2Fb",
    "/rw/to/a%2Fb%20c",
    "/rw/tone/a%2Fb",
    "/rw/p/a%2Fb%20c",
    "/rw/p/a%2fb",
    "/rw/p/a%252Fb",
    "/rw/p/a%25b",
    "/rw/p/%C3%A4%22",
    "/rw/pne/a%2Fb",
    "/rw/some%2Fpage",
    "/rw%2Fsome",
    "/rw/%C3%A4%2Fb",
    "/p/a%2Fb%20c",
    "/p/a%2fb",
    "/p/a%252Fb",
    "/p/%C3%A4%22%2F?%2F",
    "/pne/a%2Fb",
    "/pt/a%2Fb",
    "/pt/a%252Fb",
    "/r/a%2Fb%20c",
    "/old/a%2Fb%20c",
    "/old%2Fa",
    "/om/a%2Fb%20c",
    "/om%2Fa",
    "/a%2",
];

/// Paths for which they differ: the key's value, Apache's status, ours, and why.
const DIFFERENT: [(&str, &str, u16, u16, &str); 10] = [
    ("/dir/..%2f..%2fa.txt", "decode", 200, 400, "above the root, as with `/../..` everywhere"),
    ("/..%2f..%2fa.txt", "decode", 200, 400, "above the root, as with `/../..` everywhere"),
    ("/a%00%2f", "keep", 404, 400, "a NUL is never meant"),
    ("/a%00%2f", "decode", 404, 400, "a NUL is never meant"),
    ("/%2egit%2fconfig", "decode", 200, 403, "names that hold secrets are not served"),
    ("/dir%2f..%2f.git/config", "decode", 200, 403, "names that hold secrets are not served"),
    ("/dir%2f.env", "decode", 200, 403, "names that hold secrets are not served"),
    ("/dir%2F%2ehidden", "decode", 200, 404, "dot files are not served unless listed"),
    ("/shut/%2e%2e%2fshut", "keep", 403, 404, "dot files are not served unless listed"),
    ("/p/a%25b", "keep", 400, 200, "Apache takes `%b` for a broken escape"),
];

/// Both servers, with one meaning of `%2F` and an upstream that answers with the request line.
struct Both {
    site: Site,
    apache: Apache,
}

impl Both {
    fn start(value: &str, apaches: &str) -> Both {
        let upstream = Upstream::with(tell_request_line);
        let with_upstream = |text: &str| text.replace("UPSTREAM", &upstream.url);
        let files = FILES.map(|(name, content)| (name, with_upstream(content)));
        let files = files.each_ref().map(|(name, content)| (*name, content.as_str()));
        let rules = with_upstream(RULES);
        let keys = format!(
            "encoded_slashes = \"{value}\"\nupstreams = [{:?}]\nrules = '''\n{rules}'''\n",
            upstream.url
        );
        let site = Site::with(&files, &Options { site: &keys, ..Options::default() });
        let more = format!("AllowEncodedSlashes {apaches}\n{rules}");
        let modules = ["alias", "proxy", "proxy_http"];
        let apache = Apache::with(&site.path().join("apache"), &site.root(), &modules, &more);
        Both { site, apache }
    }

    /// Returns both answers: ours, and Apache's.
    fn ask(&self, target: &str) -> [(u16, String, String); 2] {
        let ask = |mut wire: Wire| told(&wire.ask("GET", target, &[], b""));
        let mut answers = [ask(self.site.connect()), ask(Wire::connect(self.apache.address()))];
        if target.starts_with("/pt/") {
            // Rules of the site leave the former path in REDIRECT_URL, those of Apache's do not.
            answers.iter_mut().for_each(|answer| {
                answer.2.truncate(answer.2.find("|REDIRECT_URL").unwrap_or_default());
            });
        }
        answers
    }
}

/// Returns status, the path of Location, and the content of what is no page of an error.
fn told(reply: &Reply) -> (u16, String, String) {
    let location = reply.field("location").unwrap_or_default();
    let location = location.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
    let text = if reply.status == 200 { reply.text() } else { "" };
    (reply.status, location, text.to_owned())
}

fn tell_request_line(mut stream: TcpStream) {
    let head = read_head(&mut stream);
    let line = head.lines().next().unwrap_or_default();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close", line.len());
    stream.write_all(format!("{head}\r\n\r\n{line}").as_bytes()).unwrap();
}

#[test]
fn an_encoded_slash_means_what_the_site_says_as_on_apache() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    for (value, apaches) in [("refuse", "Off"), ("keep", "NoDecode"), ("decode", "On")] {
        let both = Both::start(value, apaches);
        let asked = SAME.map(|target| (target, both.ask(target)));
        let differ: Vec<_> = asked.iter().filter(|(_, [ours, theirs])| ours != theirs).collect();
        assert!(differ.is_empty(), "with {value}: {differ:#?}");
        for (target, _, theirs, ours, why) in DIFFERENT.iter().filter(|row| row.1 == value) {
            let found = both.ask(target).map(|answer| answer.0);
            assert_eq!(found, [*ours, *theirs], "{target} with {value}: {why}");
        }
    }
}

#[test]
fn an_encoded_slash_opens_nothing_that_is_shut() {
    let secrets = ["shut", "shut%2f.", "%2e%2fshut", "dir%2f..%2fshut", "dir/..%2fshut", "%2fshut"];
    for value in ["refuse", "keep", "decode"] {
        let keys = format!("encoded_slashes = \"{value}\"\nphp = false");
        let site = Site::configured(
            &FILES,
            &format!(
                "listen = [\"127.0.0.1:0\"]\ncontrol = \"control\"\n[[site]]\nroot = \"public\"\n\
                 {keys}\n"
            ),
        );
        let mut wire = site.connect();
        for folder in secrets {
            for slash in ["/", "%2f", "%2F", "%2f%2f", "/%2f./"] {
                let target = format!("/{folder}{slash}s.txt");
                let reply = wire.get(&target);
                assert!(matches!(reply.status, 403 | 404), "{target}: {}", reply.status);
            }
        }
        for name in ["howdah.toml", "..%2fhowdah.toml", "%2e%2e%2f..%2fhowdah.toml"] {
            for before in ["/..%2f", "/%2e%2e%2f", "/dir%2f..%2f..%2f", "/dir/..%2f../"] {
                let target = format!("{before}{name}");
                let reply = wire.get(&target);
                assert!(matches!(reply.status, 400 | 404), "{target}: {}", reply.status);
            }
        }
        let allowed = wire.get("/dir%2Fb.txt").status;
        assert_eq!(allowed, if value == "decode" { 200 } else { 404 });
    }
}

#[test]
fn check_and_explain_know_what_an_encoded_slash_means() {
    let folder = Folder::new();
    folder.file("public/dir/b.txt", "b");
    let file = folder.file(
        "howdah.toml",
        "[[site]]\nroot = \"public\"\nphp = false\nencoded_slashes = \"decode\"\n",
    );
    let run = |words: &[&str]| {
        let arguments = [words, &["--config", file.to_str().unwrap()]].concat();
        Setup::with(&arguments).run()
    };
    let (code, told, errors) = run(&["explain", "http://localhost/dir%2Fb.txt"]);
    assert!(code == Some(0) && told.contains("public/dir/b.txt"), "{told}{errors}");
    folder.file("howdah.toml", "[[site]]\nroot = \"public\"\nphp = false\n");
    let (_, told, errors) = run(&["explain", "http://localhost/dir%2Fb.txt"]);
    assert!(told.contains("404") && told.contains("encoded_slashes"), "{told}{errors}");
    folder.file("howdah.toml", "[[site]]\nroot = \"public\"\nencoded_slashes = \"On\"\n");
    let (code, _, errors) = run(&["check"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("`On` says nothing about encoded slashes"), "{errors}");
    assert!(errors.contains("`\"refuse\"`, `\"keep\"` or `\"decode\"`"), "{errors}");
}

#[test]
fn scripts_look_paths_with_encoded_slashes_up_as_on_apache() {
    if !has_php() || !Apache::is_here() {
        return;
    }
    let script = "<?php $found = @apache_lookup_uri($_GET['uri']); echo json_encode(!$found ? false
        : [$found->status, $found->uri, $found->filename, $found->path_info ?? '',
            $found->args ?? null, $found->unparsed_uri]);";
    let files = [
        ("l.php", script),
        ("v.php", "<?php echo @virtual($_GET['uri']) ? '' : 'refused';"),
        ("dir/a.txt", "of the folder"),
        ("dir%2Fa.txt", "of the name"),
        ("p.php", "<?php echo 'a script';"),
    ];
    let asked = [
        "/dir%2Fa.txt",
        "/dir%2fa.txt",
        "/dir/a.txt?x=%2F",
        "/none%2Fat/all",
        "/p.php/x%2Fy",
        "/dir%2F",
        "/dir%252Fa.txt",
    ];
    for (value, apaches) in [("refuse", "Off"), ("keep", "NoDecode"), ("decode", "On")] {
        let keys = format!("encoded_slashes = \"{value}\"\n");
        let site = Site::with(&files, &Options { site: &keys, ..Options::default() });
        let more = format!("AllowEncodedSlashes {apaches}\n");
        let apache = Apache::with(&site.path().join("apache"), &site.root(), &[], &more);
        for uri in asked {
            for script in ["l", "v"] {
                let target = format!("/{script}.php?uri={}", uri.replace('%', "%25"));
                let ask = |mut wire: Wire| wire.ask("GET", &target, &[], b"").text().to_owned();
                let (ours, theirs) = (ask(site.connect()), ask(Wire::connect(apache.address())));
                assert_eq!(ours, theirs, "{script} of {uri} with {value}");
            }
        }
    }
}
