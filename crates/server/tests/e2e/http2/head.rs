//! Heads: what scripts, directives and logs see of a request, and what the client gets.

use super::client::Http2;
use super::frames::{END_HEADERS, END_STREAM, Frames, HEADERS, field, get};
use crate::site::{Options, Site};
use crate::support::{has_php, wait_until};

#[test]
fn a_file_comes_as_over_http1() {
    let site = Site::new(&[("a.txt", "hello"), (".htaccess", "Header set X-Ruled yes\n")]);
    let client = Http2::connect(&site);
    let reply = client.get("/a.txt");
    let h1 = site.get("/a.txt");
    assert_eq!((reply.status, reply.text()), (200, "hello"));
    for name in ["content-type", "etag", "last-modified", "content-length", "x-ruled", "server"] {
        assert_eq!(reply.field(name), h1.field(name), "{name}");
    }
    assert!(reply.field("date").is_some() && reply.field("connection").is_none());
    let etag = reply.field("etag").unwrap().to_owned();
    let reply = client.ask("GET", "/a.txt", &[("if-none-match", &etag)], b"");
    assert_eq!((reply.status, reply.text()), (304, ""));
    let reply = client.ask("GET", "/a.txt", &[("range", "bytes=1-2")], b"");
    assert_eq!((reply.status, reply.text()), (206, "el"));
    assert_eq!(reply.field("content-range"), Some("bytes 1-2/5"));
    let reply = client.ask("HEAD", "/a.txt", &[], b"");
    assert_eq!((reply.status, reply.text(), reply.field("content-length")), (200, "", Some("5")));
    let reply = client.get("/none");
    assert_eq!(reply.status, 404);
    assert!(reply.text().contains("404 Not Found"));
    assert_eq!(client.get("/../a.txt").status, site.get("/../a.txt").status);
}

#[test]
fn a_script_sees_the_request() {
    if !has_php() {
        return;
    }
    let script = "<?php header('X-Made: 1'); header('Connection: close'); header('X-B: a, b');
        setcookie('one', '1'); setcookie('two', '2');
        echo json_encode([$_SERVER['SERVER_PROTOCOL'], $_SERVER['REQUEST_METHOD'], \
        $_SERVER['REQUEST_URI'],
            $_SERVER['HTTP_HOST'], $_SERVER['HTTP_COOKIE'], $_COOKIE, $_SERVER['HTTP_X_Y'],
            $_SERVER['REQUEST_SCHEME'], getallheaders()['X-Y'], $_POST, \
            $_SERVER['CONTENT_LENGTH'] ?? '-']);";
    let site = Site::new(&[("index.php", script)]);
    let client = Http2::connect(&site);
    let host = site.server.address().to_string();
    let fields = [
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("x-y", "z"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let reply = client.ask("POST", "/?q=1", &fields, b"name=value");
    let seen: serde_json::Value = serde_json::from_str(reply.text()).unwrap();
    let expected = serde_json::json!([
        "HTTP/2.0", "POST", "/?q=1", host, "a=1; b=2", {"a": "1", "b": "2"}, "z", "http", "z",
        {"name": "value"}, "10"
    ]);
    assert_eq!(seen, expected);
    assert_eq!((reply.field("x-made"), reply.field("connection")), (Some("1"), None));
    let cookies = reply.fields.iter().filter(|(name, _)| name == "set-cookie").count();
    assert_eq!(cookies, 2, "{:?}", reply.fields);
    // Beside HTTP/1 to the same URL.
    assert!(site.get("/?q=1").status == 200);
    let again = client.ask("POST", "/?q=1", &fields, b"name=value");
    assert_eq!(again.text(), reply.text());
}

#[test]
fn the_access_log_names_the_protocol() {
    let site = Site::new(&[("a.txt", "hello")]);
    let client = Http2::connect(&site);
    client.ask("GET", "/a.txt", &[("user-agent", "x"), ("referer", "http://r/")], b"");
    client.get("/none");
    let line = "\"GET /a.txt HTTP/2.0\" 200 5 \"http://r/\" \"x\"";
    wait_until("the access log has the requests", || {
        let log = site.access_log();
        log.contains(line) && log.contains("\"GET /none HTTP/2.0\" 404 ")
    });
}

#[test]
fn a_bad_head_ends_its_stream_alone() {
    let options = Options {
        limits: "request_line = 100\nfield_count = 8\nbody = 10",
        ..Options::default()
    };
    let site = Site::with(&[("a.txt", "hello")], &options);
    let client = Http2::connect(&site);
    let long = format!("/{}", "x".repeat(100));
    assert_eq!(client.get(&long).status, 414);
    let names: Vec<String> = (0..9).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "y")).collect();
    assert_eq!(client.ask("GET", "/a.txt", &many, b"").status, 431);
    assert_eq!(client.ask("GET", "/a.txt", &[("host", "elsewhere")], b"").status, 400);
    assert_eq!(client.ask("GET", "/a.txt", &[("expect", "the unexpected")], b"").status, 417);
    assert_eq!(client.ask("POST", "/a.txt", &[("content-length", "11")], &[b'x'; 11]).status, 413);
    assert_eq!(client.get("/a.txt").text(), "hello", "the connection goes on");
    site.server.wait_for_log("[client 127.0.0.1:");
    for what in ["414", "431", "Host that differs from :authority", "417", "413"] {
        site.server.wait_for_log(what);
    }
    wait_until("the access log has the refusal", || site.access_log().contains("HTTP/2.0\" 431 "));
}

#[test]
fn what_the_library_refuses_ends_its_stream_alone() {
    let site = Site::new(&[("a.txt", "hello")]);
    let mut frames = Frames::connect(&site, &[]);
    let bad = [
        [get("/a.txt"), field("connection", "close")].concat(),
        [get("/a.txt"), field("te", "gzip")].concat(),
        [get("/a.txt"), field(":path", "/b.txt")].concat(),
        field(":method", "GET"),
    ];
    let ends = END_STREAM | END_HEADERS;
    for (number, head) in bad.iter().enumerate() {
        let stream = 2 * number as u32 + 1;
        frames.send(HEADERS, ends, stream, head);
        let answer = loop {
            let frame = frames.next().expect("the connection goes on");
            if frame.stream == stream {
                break frame;
            }
        };
        // Reset, or answered with 400.
        let is_refused = answer.kind == super::frames::RST_STREAM
            || (answer.kind == HEADERS && answer.payload.first() == Some(&0x8c));
        assert!(is_refused, "{number}: {answer:?}");
    }
    frames.send_get(101, "/a.txt");
    while frames.next().expect("an answer").stream != 101 {}
}

#[test]
fn http1_and_other_bytes_go_on_as_before() {
    let site = Site::new(&[("a.txt", "hello")]);
    assert_eq!(site.get("/a.txt").text(), "hello");
    for bytes in
        ["PRI * HTTP/2.0\r\n\r\nXX", "PRI * HTTP/2.0\r\nHost: x\r\n\r\n", "PRI / HTTP/2.0\r\n\r\n"]
    {
        let mut wire = site.connect();
        wire.send(bytes);
        let answer = String::from_utf8(wire.rest()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 505 "), "{bytes:?}: {answer}");
    }
    let mut wire = site.connect();
    wire.request("GET", "/a.txt", &[], b"");
    assert_eq!(wire.reply("GET").text(), "hello");
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = String::from_utf8(wire.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 505 "), "not on a connection of HTTP/1: {answer}");
}

#[test]
fn it_can_be_switched_off() {
    let limits = "[http2]\nenabled = false";
    let site = Site::with(&[("a.txt", "hello")], &Options { limits, ..Options::default() });
    let mut wire = site.connect();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = String::from_utf8(wire.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
}

#[test]
fn the_preface_may_come_in_pieces() {
    let site = Site::new(&[("a.txt", "hello")]);
    let mut wire = site.connect();
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0" {
        wire.send([*byte]);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // The server's SETTINGS, and the answer to ours.
    let answer = wire.exactly(9);
    assert_eq!(answer[3], 4, "{answer:?}");
}

#[test]
fn a_trusted_proxy_names_the_client() {
    if !has_php() {
        return;
    }
    let script = "<?php echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['HTTPS'] ?? '-', ' ', \
        $_SERVER['HTTP_HOST'];";
    let options = Options {
        top: "trusted_proxies = [\"127.0.0.1\"]",
        ..Options::default()
    };
    let site = Site::with(&[("index.php", script)], &options);
    let client = Http2::connect(&site);
    let fields = [
        ("x-forwarded-for", "192.0.2.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example.org"),
    ];
    assert_eq!(client.ask("GET", "/", &fields, b"").text(), "192.0.2.9 on shop.example.org");
    let other = [("x-forwarded-for", "192.0.2.10")];
    assert!(client.ask("GET", "/", &other, b"").text().starts_with("192.0.2.10 - "));
    let bad = [("x-forwarded-for", "nobody")];
    assert_eq!(client.ask("GET", "/", &bad, b"").status, 400);
}
