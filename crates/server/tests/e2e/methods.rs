//! Methods other than GET and HEAD, on files and on scripts: the answers of Apache.

use crate::site::{Options, Site};
use crate::support::has_php;

const ALLOW: &str = "GET,POST,OPTIONS,HEAD";

/// With and without a `.htaccess` file: directives are evaluated in another way.
fn sites() -> [Site; 2] {
    let files = [("a.txt", "content"), ("index.html", "front"), ("empty/x.txt", "x")];
    let ruled = [&files[..], &[(".htaccess", "Header set X-Ruled 1\n")]].concat();
    [Site::new(&files), Site::new(&ruled)]
}

#[test]
fn a_post_to_a_file_gets_the_file() {
    for site in sites() {
        let mut wire = site.connect();
        let form = b"status=paid&next=GET+/a.txt";
        for (target, text) in [("/a.txt", "content"), ("/", "front"), ("/?paid=1", "front")] {
            let reply = wire.ask("POST", target, &[], form);
            assert_eq!((reply.status, reply.text()), (200, text), "{target}");
            assert_eq!(reply.field("etag"), wire.get(target).field("etag"), "{target}");
            // The content was read: the connection goes on.
            assert_eq!(wire.ask("POST", target, &[], b"").text(), text, "{target}");
        }
        let chunked = "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                       4\r\nGET \r\n5\r\n/none\r\n0\r\n\r\n";
        wire.send(chunked);
        assert_eq!(wire.reply("POST").text(), "content");
        let reply = wire.ask("POST", "/a.txt", &[("If-None-Match", "*")], form);
        assert_eq!(reply.status, 412, "a precondition of a request that is no GET");
        let reply = wire.ask("POST", "/a.txt", &[("Range", "bytes=0-1")], form);
        assert_eq!((reply.status, reply.text()), (200, "content"), "Range is for GET");
        assert_eq!(wire.ask("POST", "/none", &[], b"").status, 404);
        assert_eq!(wire.get("/a.txt").text(), "content");
    }
}

#[test]
fn content_that_a_file_does_not_need_has_the_limits_of_any_content() {
    let options = Options {
        limits: "body = 10\nbody_timeout = \"1s\"",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "content")], &options);
    let long = "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n";
    let chunked = "POST /a.txt HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   b\r\n12345678901\r\n0\r\n\r\n";
    let late = "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345";
    for (request, status) in [(long, 413), (chunked, 413), (late, 408)] {
        let mut wire = site.connect();
        wire.send(request);
        let reply = wire.reply("POST");
        assert_eq!(reply.status, status, "{request}");
        assert!(reply.is_last(), "{request}");
    }
    // A client that asks before it sends is answered without its content.
    let mut wire = site.connect();
    wire.send(
        "POST /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    let reply = wire.reply("POST");
    assert_eq!((reply.status, reply.text()), (200, "content"));
    assert!(reply.interim.is_empty() && reply.is_last());
}

#[test]
fn methods_that_would_change_a_file_are_not_allowed() {
    for site in sites() {
        for method in ["PUT", "DELETE", "PATCH", "PROPFIND", "MKCOL", "FOO", "get", "TRACE"] {
            for target in ["/a.txt", "/empty/", "/none"] {
                let reply = site.ask(method, target, &[], b"content");
                assert_eq!(reply.status, 405, "{method} {target}");
                assert_eq!(reply.field("allow"), Some(ALLOW), "{method} {target}");
            }
        }
        assert_eq!(site.get("/a.txt").text(), "content");
    }
}

#[test]
fn trace_is_not_allowed_for_a_folder_without_its_slash() {
    for site in sites() {
        for (target, with_get) in [("/empty", 301), ("/empty?q", 301), ("/empty/", 403)] {
            assert_eq!(site.get(target).status, with_get, "GET {target}");
            let reply = site.ask("TRACE", target, &[], b"");
            assert_eq!((reply.status, reply.field("location")), (405, None), "{target}");
            assert_eq!(reply.field("allow"), Some(ALLOW), "{target}");
        }
    }
}

#[test]
fn what_follows_a_connect_that_is_refused_is_no_request() {
    // With a length, it is still for the tunnel.
    for (site, field) in sites().into_iter().zip(["", "Content-Length: 3\r\n"]) {
        let mut wire = site.connect();
        wire.send(format!(
            "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n{field}\r\n\
             GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n"
        ));
        let reply = wire.reply("CONNECT");
        assert_eq!(reply.status, 405, "{reply:?}");
        assert!(reply.is_last());
        wire.expect_close();
        assert!(!site.access_log().contains("/a.txt"), "{}", site.access_log());
    }
}

#[test]
fn options_tells_the_methods() {
    for site in sites() {
        let mut wire = site.connect();
        for target in ["/a.txt", "/empty/", "/none"] {
            let reply = wire.ask("OPTIONS", target, &[], b"");
            assert_eq!((reply.status, reply.text()), (200, ""), "{target}");
            assert_eq!(reply.field("allow"), Some(ALLOW), "{target}");
            assert_eq!(reply.field("content-length"), Some("0"), "{target}");
        }
        let reply = wire.ask("OPTIONS", "*", &[], b"");
        assert_eq!(reply.status, 200);
        assert!(reply.field("allow").unwrap().contains("GET"));
    }
}

#[test]
fn every_method_reaches_a_script() {
    if !has_php() {
        return;
    }
    let echo = "<?php header('X-Method: ' . $_SERVER['REQUEST_METHOD']); echo \
        file_get_contents('php://input');";
    let plain = [("dav.php", echo), ("index.php", echo)];
    let ruled = [&plain[..], &[(".htaccess", "Header set X-Ruled 1\n")]].concat();
    for site in [Site::new(&plain), Site::new(&ruled)] {
        let methods = [
            "OPTIONS",
            "PUT",
            "DELETE",
            "PATCH",
            "PROPFIND",
            "PROPPATCH",
            "MKCOL",
            "COPY",
            "MOVE",
            "LOCK",
            "UNLOCK",
            "REPORT",
            "SEARCH",
            "PURGE",
            "M-SEARCH",
            "get",
        ];
        for method in methods {
            for target in ["/dav.php/calendars/x.ics", "/"] {
                let reply = site.ask(method, target, &[("Depth", "1")], b"<propfind/>");
                assert_eq!(reply.status, 200, "{method} {target}");
                assert_eq!(reply.field("x-method"), Some(method), "{target}");
                assert_eq!(reply.text(), "<propfind/>", "{method} {target}");
            }
        }
    }
}
