//! A mistake in a file closes everything that the file covers; and error pages.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::site::{Options, Site};
use crate::support::{Client, has_php, wait_until};

#[test]
fn a_broken_file_closes_what_it_covers() {
    let site = Site::new(&[
        ("open.txt", "open"),
        ("closed/.htaccess", "# a comment\n  RewriteEngin On\nRequire all granted\n"),
        ("closed/file.txt", "secret"),
        ("closed/below/file.txt", "secret"),
    ]);
    for _ in 0..5 {
        for target in [
            "/closed/file.txt",
            "/closed/below/file.txt",
            "/closed/none",
            "/closed/",
            "/closed/.htaccess",
        ] {
            let reply = site.get(target);
            assert_eq!(reply.status, 500, "{target}");
            assert!(!reply.text().contains("secret"));
        }
    }
    assert_eq!(site.get("/open.txt").text(), "open");
    let place = format!("{}:2:3: ", site.root().join("closed/.htaccess").display());
    wait_until("it is in the log", || !site.log_lines(&place).is_empty());
    let lines = site.log_lines(&place);
    assert!(lines.len() <= 2, "not once per request: {lines:#?}");
    assert!(lines[0].contains("RewriteEngin") && lines[0].contains("RewriteEngine"), "{lines:#?}");

    fs::write(site.root().join("closed/.htaccess"), "Require all granted\n").unwrap();
    assert_eq!(site.get("/closed/file.txt").text(), "secret");
}

#[test]
fn a_file_that_cannot_be_read_closes_what_it_covers() {
    let site = Site::new(&[("a/.htaccess", "Header set X-Tag yes\n"), ("a/file.txt", "secret")]);
    let path = site.root().join("a/.htaccess");
    assert_eq!(site.get("/a/file.txt").status, 200);
    if crate::support::is_root() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(site.get("/a/file.txt").status, 403);
        wait_until("it is in the log", || {
            !site.log_lines("a/.htaccess: it cannot be read").is_empty()
        });
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(site.get("/a/file.txt").field("x-tag"), Some("yes"));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(site.get("/a/file.txt").status, 403);
    fs::remove_dir(&path).unwrap();
    assert_eq!(site.get("/a/file.txt").status, 200);
}

#[test]
fn a_catastrophic_expression_ends_in_500_and_delays_no_other_request() {
    let site = Site::new(&[
        ("bad/.htaccess", "RewriteEngine On\nRewriteRule ^(a+)+$ /ok.txt\n"),
        ("bad/x.txt", "x"),
        ("ok.txt", "ok"),
    ]);
    let address = site.server.address();
    let target = format!("/bad/{}b", "a".repeat(4000));
    let asker = std::thread::spawn(move || {
        let mut client = Client::connect(address);
        (0..200).map(|_| client.get(&target).status).collect::<Vec<_>>()
    });
    for _ in 0..100 {
        assert_eq!(site.get("/ok.txt").text(), "ok");
    }
    let statuses = asker.join().unwrap();
    assert!(statuses.iter().all(|status| *status == 500), "{statuses:?}");
    // The event loops have left the work to threads of its own.
    let front = site.server.front();
    let crew = front.time_of_threads(|name| name.starts_with("directives"));
    let others = front.time_of_threads(|name| !name.starts_with("directives"));
    assert!(crew.is_none() || crew > others, "{crew:?}, and {others:?} in all other threads");
    wait_until("it is in the log", || !site.log_lines("bad/.htaccess:2:1: ").is_empty());
}

#[test]
fn redirects_that_never_end() {
    let site = Site::new(&[
        ("loop/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ x$1\n"),
        ("rounds/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ /rounds/x$1\n"),
        ("next/.htaccess", "RewriteEngine On\nRewriteRule ^(.*)$ x$1 [N]\n"),
    ]);
    for target in ["/loop/a", "/rounds/a", "/next/a"] {
        assert_eq!(site.get(target).status, 500, "{target}");
    }
    wait_until("it is in the log", || !site.log_lines("limit of 10 internal redirects").is_empty());
}

#[test]
fn pages_of_errors() {
    let site = Site::new(&[
        (
            ".htaccess",
            "ErrorDocument 404 /pages/404.html\nErrorDocument 403 \"stay out\"\n\
             ErrorDocument 410 http://other.example/gone\n\
             ErrorDocument 416 /pages/416.html\nErrorDocument 500 /none\nRedirect gone /old\n",
        ),
        ("pages/404.html", "not here"),
        ("pages/416.html", "no such part"),
        ("file.txt", "0123456789"),
        ("secret/.htaccess", "Require all denied\n"),
        ("secret/x.txt", "x"),
        ("broken/.htaccess", "Nonsense\n"),
    ]);
    let mut wire = site.connect();
    for method in ["GET", "POST"] {
        let reply =
            wire.ask(method, "/none", &[("Range", "bytes=0-1"), ("If-Match", "\"x\"")], b"");
        assert_eq!((reply.status, reply.text()), (404, "not here"), "{method}");
        assert_eq!(reply.field("content-type"), Some("text/html"));
    }
    let reply = wire.ask("HEAD", "/none", &[], b"");
    assert_eq!((reply.status, reply.field("content-length")), (404, Some("8")));
    let reply = wire.get("/secret/x.txt");
    assert_eq!((reply.status, reply.text()), (403, "stay out"));
    let reply = wire.get("/old");
    assert_eq!((reply.status, reply.field("location")), (302, Some("http://other.example/gone")));
    let reply = wire.ask("GET", "/file.txt", &[("Range", "bytes=100-200")], b"");
    assert_eq!((reply.status, reply.text()), (416, "no such part"));
    let reply = wire.get("/broken/x");
    assert_eq!(reply.status, 500, "an error whose page fails itself is a page of the server's");
    assert!(reply.text().contains("500 Internal Server Error"));
}

#[test]
fn the_page_of_an_error_learns_a_path_that_names_nothing() {
    if !has_php() {
        return;
    }
    let page = "<?php echo $_SERVER['REDIRECT_STATUS'], ' ', $_SERVER['REDIRECT_URL'], ' ', \
                $_SERVER['REQUEST_URI'];";
    let rules = "rules = '''\nErrorDocument 400 /error.php\nErrorDocument 404 /error.php\n'''";
    let options = Options { site: rules, ..Options::default() };
    let site = Site::with(&[("error.php", page)], &options);
    // The answers of Apache 2.4.71.
    for (target, status, url) in [
        ("/%zz?q=1", 400, "/%zz"),
        ("/%zz/%41b", 400, "/%zz/Ab"),
        ("/../q/./a/../%2e%2e/zz%z", 400, "/zz%z"),
        ("/..", 400, "/"),
        ("/a%2fb", 404, "/a/b"),
    ] {
        let reply = site.get(target);
        let expected = format!("{status} {url} {target}");
        assert_eq!((reply.status, reply.text()), (status, &*expected), "{target}");
    }
}

#[test]
fn a_script_makes_the_page_of_an_error() {
    if !has_php() {
        return;
    }
    let files = [
        (
            ".htaccess",
            "ErrorDocument 403 /error.php\nErrorDocument 404 /error.php\n\
             ErrorDocument 413 /error.php\nErrorDocument 504 /slow.html\n\
             ErrorDocument 502 /error.php\nLimitRequestBody 10\n",
        ),
        (
            "error.php",
            "<?php echo http_response_code(), ' ', $_SERVER['REDIRECT_STATUS'], ' ', \
             $_SERVER['REDIRECT_URL'], ' ', $_SERVER['REQUEST_METHOD'], ' ', \
             strlen(file_get_contents('php://input')); if (isset($_GET['fine'])) \
             http_response_code(200);",
        ),
        ("echo.php", "<?php echo file_get_contents('php://input');"),
        ("hang.php", "<?php sleep(600);"),
        ("die.php", "<?php posix_kill(getmypid(), 9); sleep(5);"),
        ("own.php", "<?php http_response_code(404); echo 'its own';"),
        ("slow.html", "too slow"),
        ("secret/.htaccess", "Require all denied\n"),
    ];
    let site = Site::new(&files);
    let reply = site.get("/none");
    assert_eq!((reply.status, reply.text()), (404, "404 404 /none GET 0"));
    let reply = site.ask("POST", "/none", &[], b"abc");
    assert_eq!(
        (reply.status, reply.text()),
        (404, "404 404 /none GET 0"),
        "as Apache: content for what is not there is thrown away"
    );
    let reply = site.ask("POST", "/echo.php", &[], b"0123456789");
    assert_eq!((reply.status, reply.text()), (200, "0123456789"));
    let reply = site.ask("POST", "/echo.php", &[], b"0123456789a");
    assert_eq!((reply.status, reply.text()), (413, "413 413 /echo.php GET 0"));
    let mut wire = site.connect();
    wire.send(
        "POST /echo.php HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n\
         0123456789ab\r\n0\r\n\r\n",
    );
    assert_eq!(wire.reply("POST").status, 413);
    let reply = Site::with_php(&files, "request_timeout = \"1s\"").get("/hang.php");
    assert_eq!((reply.status, reply.text()), (504, "too slow"));
    let reply = site.get("/die.php");
    assert_eq!((reply.status, reply.text()), (502, "502 502 /die.php GET 0"));
    let reply = site.get("/own.php");
    assert_eq!(
        (reply.status, reply.text()),
        (404, "its own"),
        "what a script answers itself stays"
    );
    let reply = site.ask("POST", "/secret/x", &[], b"abc");
    assert_eq!(
        (reply.status, reply.text()),
        (403, "403 403 /secret/x GET 3"),
        "as Apache: the content was not looked at yet"
    );
    fs::write(site.root().join(".htaccess"), "ErrorDocument 404 /error.php?fine\n").unwrap();
    assert_eq!(site.get("/none").status, 200, "the script has the last word");
}

#[test]
fn unwanted_content_has_a_limit() {
    let site = Site::new(&[
        (
            ".htaccess",
            "LimitRequestBody 4\nErrorDocument 413 \"too much\"\nErrorDocument 404 /404.html\n",
        ),
        ("file.txt", "a file"),
        ("404.html", "not here"),
        ("dir/index.html", "dir"),
        ("secret/.htaccess", "Require all denied\n"),
    ]);
    // The target; what little content gets, and much, and whether it gets the ErrorDocument.
    let rows = [
        ("/file.txt", 200, 413, true),
        ("/none", 404, 413, true),
        ("/dir", 301, 413, false),
        ("/secret/x", 403, 413, false),
        ("/secret/", 403, 413, false),
    ];
    for (target, little, much, has_page) in rows {
        for (content, status) in [("1234", little), ("12345", much)] {
            let length = content.len();
            let plain = format!("Content-Length: {length}\r\n\r\n{content}");
            let chunked =
                format!("Transfer-Encoding: chunked\r\n\r\n{length}\r\n{content}\r\n0\r\n\r\n");
            for body in [plain, chunked] {
                let mut wire = site.connect();
                wire.send(format!(
                    "POST {target} HTTP/1.1\r\nHost: x\r\n{body}GET /file.txt HTTP/1.1\r\n\
                     Host: x\r\n\r\n"
                ));
                let reply = wire.reply("POST");
                assert_eq!(reply.status, status, "{target} {body}");
                assert_eq!(
                    reply.text() == "too much",
                    status == 413 && has_page,
                    "{target} {body}"
                );
                // The following bytes on the connection are the next request, or nothing.
                if reply.is_last() {
                    assert_eq!(wire.rest(), b"", "{target} {body}");
                } else {
                    assert_eq!(wire.reply("GET").text(), "a file", "{target} {body}");
                }
            }
        }
    }
}
