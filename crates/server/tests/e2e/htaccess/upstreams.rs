//! `RewriteRule … [P]`: the requests that upstreams get, and the handling of their responses.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::site::{Options, Site};
use crate::support::{PATIENCE, free_address, is_root, wait_until};

/// Starts an upstream that answers each connection as the path demands. Returns its URL.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream.try_clone().unwrap(), stream));
        }
    });
    url
}

fn serve(mut input: impl Read, mut output: impl Write) {
    let mut bytes = Vec::new();
    let head = loop {
        let mut more = [0; 4096];
        let count = input.read(&mut more).unwrap_or(0);
        bytes.extend_from_slice(&more[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if count == 0 {
            return;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let lower = text.to_ascii_lowercase();
    let length = lower
        .split("content-length: ")
        .nth(1)
        .map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let mut content = bytes.split_off(head);
    let already = content.len();
    content.resize(length, 0);
    input.read_exact(&mut content[already.min(length)..]).unwrap();
    let path = text.split(' ').nth(1).unwrap().to_owned();
    let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
    let mut say =
        |text: &str| drop(output.write_all(text.as_bytes()).and_then(|()| output.flush()));
    match path.split('?').next().unwrap() {
        "/echo" => {
            let body = format!("{text}{length} bytes, sum {sum}");
            say(&format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close, X-Hop\r\n\
                 X-Hop: 1\r\nX-End: 2\r\nContent-Length: {}\r\n\r\n",
                body.len()
            ));
            // HEAD has no content.
            if !text.starts_with("HEAD") {
                say(&body);
            }
        }
        "/chunks" => {
            say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 203 Mine\r\nTransfer-Encoding: chunked\r\n\
                    Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n");
            // HEAD has no content. The connection is kept: content would be the next response.
            if text.starts_with("HEAD") {
                return;
            }
            say("5\r\nfirst\r\n");
            if let Some((_, folder)) = path.split_once("?in=") {
                let step = Path::new(folder).join("first");
                wait_until("the client has the first part", || step.exists());
            }
            say("6\r\nsecond\r\n0\r\n\r\n");
        }
        "/close" => say("HTTP/1.0 200 OK\r\n\r\nuntil the end"),
        "/large" => {
            say("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n");
            (0..50).for_each(|_| say(&"x".repeat(100_000)));
        }
        "/short" => say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        "/own404" => say("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nmine"),
        "/moved" => say(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:3000/inside\r\nContent-Length: 0\r\n\
             \r\n",
        ),
        "/rubbish" => say("nonsense\r\n\r\n"),
        "/silent" => thread::sleep(Duration::from_secs(600)),
        _ => {} // Closes without a word.
    }
}

fn site(upstreams: &str, files: &[(&str, &str)]) -> Site {
    site_with("5m", upstreams, files)
}

fn site_with(upstream_timeout: &str, upstreams: &str, files: &[(&str, &str)]) -> Site {
    Site::with(
        files,
        &Options {
            site: &format!("upstreams = {upstreams}\nupstream_timeout = \"{upstream_timeout}\""),
            ..Options::default()
        },
    )
}

#[test]
fn requests_are_handed_on() {
    let url = upstream();
    let rules = format!(
        "DirectoryIndex disabled\nRewriteEngine On\nRewriteRule ^file.txt$ - [L]\n\
         RewriteRule ^app/(.*)$ {url}/$1 [P]\n\
         RequestHeader set X-Made by-hand\nHeader set X-Site yes\nErrorDocument 502 \"bad\"\n\
         ErrorDocument 504 \"late\"\n\
         RequestHeader set X-Forwarded-Proto wss \"expr=%{{QUERY_STRING}} == 'own'\"\n\
         <Files close>\nSetOutputFilter DEFLATE\n</Files>\nLimitRequestBody 3000000\n"
    );
    let files = [(".htaccess", rules.as_str()), ("file.txt", "a file"), ("app/chunks", "a file")];
    let site = site(&format!("[{url:?}]"), &files);
    let mut wire = site.connect();
    let fields = [
        ("X-Forwarded-For", "192.0.2.9"),
        ("Connection", "X-Own"),
        ("X-Own", "1"),
        ("Proxy", "x"),
        ("X-Forwarded-Proto", "https"),
    ];
    let reply = wire.ask("GET", "/app/echo?a=b%20c", &fields, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let authority = url.strip_prefix("http://").unwrap();
    assert!(
        reply
            .text()
            .starts_with(&format!("GET /echo?a=b%20c HTTP/1.1\r\nHost: {authority}\r\n")),
        "{}",
        reply.text()
    );
    assert!(reply.text().ends_with("\r\n\r\n0 bytes, sum 0"), "{}", reply.text());
    for line in ["X-Made: by-hand", "X-Forwarded-For: 192.0.2.9, 127.0.0.1", "X-Forwarded-Host: "] {
        assert!(reply.text().contains(line), "{line}: {}", reply.text());
    }
    let scheme = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("X-Forwarded-Proto: "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(scheme(reply.text()), ["http"], "the client's own is replaced");
    let own = wire.ask("GET", "/app/echo?own", &fields, b"");
    assert_eq!(scheme(own.text()), ["wss"], "a directive's is not");
    assert!(!reply.text().contains("X-Own") && !reply.text().contains("Proxy"), "{}", reply.text());
    assert_eq!(
        (reply.field("x-end"), reply.field("x-hop"), reply.field("x-site")),
        (Some("2"), None, Some("yes"))
    );

    for length in [0, 10, 2_500_000] {
        let reply = wire.ask("POST", "/app/echo", &[], &vec![1; length]);
        assert!(
            reply.text().ends_with(&format!("{length} bytes, sum {length}")),
            "{}",
            reply.text()
        );
    }
    wire.send(
        "POST /app/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\
         \r\n",
    );
    assert!(wire.reply("POST").text().ends_with("3 bytes, sum 294"));
    let reply = wire.ask("HEAD", "/app/echo", &[], b"");
    let length = reply.field("content-length").and_then(|length| length.parse().ok());
    assert!(length.is_some_and(|length: u64| length > 0), "{reply:?}");
    for path in ["/app/chunks", "/app/close"] {
        let reply = wire.ask("HEAD", path, &[], b"");
        assert_eq!(reply.field("content-length"), None, "{reply:?}");
    }

    let reply = wire.get("/app/chunks");
    assert_eq!(
        (reply.status, reply.text()),
        (203, "firstsecond"),
        "though a file of the name is there"
    );
    assert_eq!(reply.all("set-cookie"), ["a=1", "b=2"]);
    wire.request("GET", &site.awaiting("/app/chunks"), &[], b"");
    wire.until("first");
    site.allow("first");
    wire.until("second");
    wire.until("0\r\n\r\n");
    assert_eq!(wire.get("/app/close").text(), "until the end");
    assert_eq!(wire.get("/app/large").text().len(), 5_000_000);
    let reply = wire.get("/app/own404");
    assert_eq!((reply.status, reply.text()), (404, "mine"), "its errors are its own");
    assert_eq!(wire.get("/app/moved").field("location"), Some("http://127.0.0.1:3000/inside"));
    assert_eq!(wire.get("/file.txt").text(), "a file");

    for target in ["/app/none", "/app/rubbish"] {
        let reply = site.get(target);
        assert_eq!((reply.status, reply.text()), (502, "bad"), "{target}");
    }
    let impatient = site_with("1s", &format!("[{url:?}]"), &files);
    let reply = impatient.get("/app/silent");
    assert_eq!((reply.status, reply.text()), (504, "late"));
    impatient.server.wait_for_log("has not gone on for `upstream_timeout`");
    let mut wire = site.connect();
    wire.send("GET /app/short HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(wire.rest().ends_with(b"half"), "and the connection is closed");
    assert_eq!(site.ask("POST", "/app/echo", &[], &vec![1; 3_000_001]).status, 413);
}

#[test]
fn only_to_upstreams_of_the_site() {
    let (url, other) = (upstream(), upstream());
    let rules = format!(
        "RewriteEngine On\nRewriteRule ^other$ {other}/echo [P]\n\
         RewriteRule ^as/(.*)$ http://$1/ [P]\n\
         RewriteRule ^at/(.*)$ {url}$1/echo [P]\nRewriteRule ^tls$ https://127.0.0.1/ [P]\n\
         RewriteRule ^query {url}/echo?%{{QUERY_STRING}} [P,NE]\n"
    );
    let site = site(&format!("[{url:?}]"), &[(".htaccess", &rules)]);
    let host = other.strip_prefix("http://").unwrap();
    let unlisted = [
        "/other".to_owned(),
        format!("/as/{host}"),
        format!("/at/@{host}"),
        "/at/1".to_owned(),
        "/at/.example".to_owned(),
        "/tls".to_owned(),
    ];
    for target in unlisted {
        assert_eq!(site.get(&target).status, 403, "{target}");
    }
    site.server.wait_for_log("`upstreams`");
    let reply = site.get("/query?a%0D%0AX-Forged:%201");
    assert!(reply.status == 403 || !reply.text().contains("\r\nX-Forged"), "{}", reply.text());
    let without = site_without();
    assert_eq!(without.get("/x").status, 403);
    wait_until("it is in the log", || !without.log_lines("`upstreams`").is_empty());
}

fn site_without() -> Site {
    Site::new(&[(".htaccess", "RewriteEngine On\nRewriteRule ^x$ http://127.0.0.1:1/ [P]\n")])
}

#[test]
fn sockets_and_upstreams_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream.try_clone().unwrap(), stream);
        }
    });
    let gone = format!("http://{}", free_address());
    let socket = format!("unix:{}|http://app", path.display());
    let rules = format!(
        "RewriteEngine On\nRewriteRule ^a/(.*)$ {socket}/$1 [P]\n\
         RewriteRule ^b/(.*)$ http://app/$1 [P]\n\
         RewriteRule ^gone {gone}/ [P]\nErrorDocument 503 \"soon\"\n"
    );
    let site = site(&format!("[{socket:?}, {gone:?}]"), &[(".htaccess", &rules)]);
    for target in ["/a/echo", "/b/echo"] {
        let reply = site.get(target);
        assert!(
            reply.text().contains("\r\nHost: app\r\n"),
            "{target}: {} {}",
            reply.status,
            reply.text()
        );
    }
    let reply = site.get("/gone");
    assert_eq!((reply.status, reply.text()), (503, "soon"), "as mod_proxy");
    assert!(reply.field("retry-after").is_some());
    site.server.wait_for_log("it cannot be reached");
}

#[test]
fn a_socket_behind_a_link_of_somebody_else_is_not_asked() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["site", "other"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    symlink("../other", at("site/run")).unwrap();
    let listener = UnixListener::bind(at("other/app.sock")).unwrap();
    std::fs::set_permissions(at("other/app.sock"), Permissions::from_mode(0o666)).unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for (name, owner) in [("site", 7), ("site/run", 7), ("other", 8)] {
        lchown(at(name), Some(owner), None).unwrap();
    }
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            serve(stream.try_clone().unwrap(), stream);
        }
    });
    let socket = format!("unix:{}|http://app", at("site/run/app.sock").display());
    let rules = format!("RewriteEngine On\nRewriteRule ^a/(.*)$ {socket}/$1 [P]\n");
    let site = site(&format!("[{socket:?}]"), &[(".htaccess", &rules)]);
    assert_eq!(site.get("/a/echo").status, 503);
    site.server.wait_for_log("belongs neither to root");
    lchown(at("site/run"), Some(0), None).unwrap();
    wait_until("root's link is followed", || {
        site.get("/a/echo").text().contains("\r\nHost: app\r\n")
    });
}

#[test]
fn a_client_that_leaves_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let rules = format!("RewriteEngine On\nRewriteRule ^app$ {url}/ [P]\n");
    let site = Site::with(
        &[(".htaccess", &rules), ("file.txt", "a file")],
        &Options {
            site: &format!("upstreams = {url:?}"),
            ..Options::default()
        },
    );
    let mut wire = site.connect();
    wire.request("GET", "/app", &[], b"");
    let (mut stream, _) = listener.accept().unwrap();
    assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    drop(wire);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "the upstream is told");
    assert_eq!(site.get("/file.txt").text(), "a file");
}

/// A slow client gets the whole response, and delays no other client.
#[test]
fn slow_readers() {
    let url = upstream();
    let rules = format!("RewriteEngine On\nRewriteRule ^app/(.*)$ {url}/$1 [P]\n");
    let site = site(&format!("[{url:?}]"), &[(".htaccess", &rules)]);
    let mut slow = TcpStream::connect(site.server.address()).unwrap();
    slow.write_all(b"GET /app/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(site.get("/app/own404").text(), "mine");
    let mut all = Vec::new();
    slow.read_to_end(&mut all).unwrap();
    assert!(all.len() > 5_000_000);
}
