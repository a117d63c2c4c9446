//! Answers of upstreams that do not wait for the whole request, or whose framing is unusual.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::site::{Options, Site};

/// Bytes of an upload that no buffers of two sockets hold.
const LARGE: usize = 12 << 20;

/// Starts an upstream that reads the head of one request on each connection, and then does what
/// `answer` does with the path. Returns its URL.
fn upstream(answer: fn(&str, &mut TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap();
                answer(path, &mut stream);
                // The connection stays open, and nothing is read from it.
                thread::park();
            });
        }
    });
    url
}

fn site(url: &str) -> Site {
    let rules = format!(
        "RewriteEngine On\nRewriteRule ^app/(.*)$ {url}/$1 [P]\nErrorDocument 502 \"bad\"\n"
    );
    Site::with(
        &[(".htaccess", &rules)],
        &Options {
            site: &format!("upstreams = [{url:?}]\nupstream_timeout = \"5m\""),
            ..Options::default()
        },
    )
}

/// Answers before the content was read.
fn early(path: &str, stream: &mut TcpStream) {
    let say = |mut stream: &TcpStream, text: &str| stream.write_all(text.as_bytes()).unwrap();
    match path {
        "/refuse" => {
            say(stream, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 8\r\n\r\ntoo much")
        }
        "/redirect" => {
            say(stream, "HTTP/1.1 303 See Other\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")
        }
        "/refuse-and-close" => {
            say(
                stream,
                "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 8\r\n\
                 \r\ntoo much",
            );
            // The content that was not read makes a reset of the end.
            stream.shutdown(Shutdown::Both).unwrap();
        }
        // Answers while it reads.
        "/back" => {
            say(stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
            let (mut piece, mut left) = (vec![0; 64 * 1024], LARGE);
            while left > 0 {
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "the upload ended early");
                stream.write_all(&piece[..count]).unwrap();
                left -= count;
            }
        }
        // Reads when the answer has begun.
        "/late" => {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
            say(stream, &format!("{head}3\r\nall\r\n"));
            let (mut piece, mut left) = (vec![0; 64 * 1024], LARGE);
            while left > 0 {
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "the upload ended early");
                left -= count;
            }
            say(stream, "4\r\nread\r\n0\r\n\r\n");
        }
        _ => panic!("{path}"),
    }
}

#[test]
fn an_upstream_answers_an_upload_before_it_has_read_it() {
    let url = upstream(early);
    let site = site(&url);
    let content: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let mut wire = site.connect();
    let reply = wire.ask("POST", "/app/refuse", &[], &content);
    assert_eq!((reply.status, reply.text()), (413, "too much"));
    let reply = wire.ask("POST", "/app/redirect", &[], &content);
    assert_eq!((reply.status, reply.field("location")), (303, Some("/login")));
    let reply = wire.ask("POST", "/app/refuse-and-close", &[], &content);
    assert_eq!((reply.status, reply.text()), (413, "too much"));
    let reply = wire.ask("POST", "/app/late", &[], &content);
    assert_eq!((reply.status, reply.text()), (200, "allread"));
    let reply = wire.ask("POST", "/app/back", &[], &content);
    assert_eq!(reply.status, 200);
    assert!(reply.body == content, "the content came back");
}

/// Answers with the head that the path names, and content.
fn framed(path: &str, stream: &mut TcpStream) {
    let response: &str = match path {
        "/named" => {
            "HTTP/1.1 200 OK\r\nConnection: close, Transfer-Encoding\r\n\
             Transfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n"
        }
        "/named-length" => {
            "HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 4\r\n\r\n\
             textHTTP/1.1 200 OK\r\n\r\n"
        }
        "/twice" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 4, 4\r\n\r\ntextmore",
        "/both" => {
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n\
             4\r\ntext\r\n0\r\n\r\n"
        }
        "/both-named" => {
            "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding\r\nContent-Length: 2\r\n\
             Transfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n"
        }
        "/coded" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "/old" => "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "/differ" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ntext1",
        "/folded" => "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        "/hints" => {
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n\
             HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntext"
        }
        "/brief" => "HTTP/1.1 299\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntext",
        "/lf" => "HTTP/1.0 201 Made\nA: b\r\nContent-Length: 4\n\ntext",
        "/lf-head-chunks" => {
            "HTTP/1.1 200 OK\nConnection: close\nTransfer-Encoding: chunked\n\n\
             4\r\ntext\r\n0\r\n\r\n"
        }
        "/lf-chunks" => {
            "HTTP/1.1 200 OK\nConnection: close\nTransfer-Encoding: chunked\n\n4\ntext\n0\n\n"
        }
        _ => panic!("{path}"),
    };
    stream.write_all(response.as_bytes()).unwrap();
}

#[test]
fn early_hints_of_an_upstream_reach_the_client() {
    let url = upstream(framed);
    let reply = site(&url).get("/app/hints");
    assert_eq!((reply.status, reply.text()), (200, "text"));
    let link = ("Link".to_owned(), "</a.css>".to_owned());
    assert_eq!(reply.interim, [(103, vec![link])]);
}

/// Apache and nginx accept such heads, too. Chunk lines must have their CR, or a chunk could end at
/// two places.
#[test]
fn an_upstream_may_end_the_lines_of_its_head_with_lf_alone() {
    let url = upstream(framed);
    let site = site(&url);
    let reply = site.get("/app/lf");
    assert_eq!((reply.status, reply.text(), reply.field("a")), (201, "text", Some("b")));
    assert_eq!(reply.field("content-length"), Some("4"));
    let mut wire = site.connect();
    wire.request("GET", "/app/lf-chunks", &[], b"");
    assert_eq!(wire.head().0, 200);
    let rest = String::from_utf8(wire.rest()).unwrap();
    assert_eq!(rest, "", "neither content nor an end");
}

#[test]
fn chunks_of_an_upstream_never_reach_the_client_as_text() {
    let url = upstream(framed);
    let site = site(&url);
    let rows = [
        ("named", 200, "text"),
        ("named-length", 200, "text"),
        ("twice", 200, "text"),
        ("both", 502, "bad"),
        ("both-named", 502, "bad"),
        ("coded", 502, "bad"),
        ("old", 502, "bad"),
        ("differ", 502, "bad"),
        ("folded", 502, "bad"),
        ("brief", 299, "text"),
        ("lf-head-chunks", 200, "text"),
    ];
    for (path, status, text) in rows {
        let reply = site.get(&format!("/app/{path}"));
        assert_eq!((reply.status, reply.text()), (status, text), "{path}");
    }
}
