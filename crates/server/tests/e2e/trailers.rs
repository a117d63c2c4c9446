//! Fields that an upstream sends behind the content of its response.

use std::io::Write;
use std::net::TcpStream;

use bytes::Buf;
use http::HeaderMap;

use crate::http2::client::Http2;
use crate::http3::client::Http3;
use crate::http3::{Served, Special};
use crate::websockets::upstream::{Upstream, read_head};

const LARGE: usize = 300_000;

/// Answers one request. The fields behind the content tell what the request has said in TE.
fn serve(mut stream: TcpStream) {
    let head = read_head(&mut stream);
    let te = head.lines().find(|line| line.starts_with("TE: ")).unwrap_or("none").to_owned();
    let content = match head.split(' ').nth(1).unwrap() {
        "/empty" => Vec::new(),
        "/large" => vec![b'x'; LARGE],
        _ => b"hello".to_vec(),
    };
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for part in content.chunks(10_000) {
        answer.extend(format!("{:x}\r\n", part.len()).bytes());
        answer.extend_from_slice(part);
        answer.extend_from_slice(b"\r\n");
    }
    let trailers = match head.contains(" /none ") {
        true => String::new(),
        false => format!("X-Sum: 42\r\nSet-Cookie: a=1\r\nContent-Length: 1\r\nX-Told: {te}\r\n"),
    };
    answer.extend(format!("0\r\n{trailers}\r\n").bytes());
    stream.write_all(&answer).unwrap();
}

/// A path, the length of its content, and the fields behind the content.
type Row = (&'static str, usize, &'static [(&'static str, &'static str)]);

const ROWS: [Row; 4] = [
    ("/ws/some", 5, &[("x-sum", "42"), ("x-told", "TE: trailers")]),
    ("/ws/empty", 0, &[("x-sum", "42"), ("x-told", "TE: trailers")]),
    ("/ws/large", LARGE, &[("x-sum", "42"), ("x-told", "TE: trailers")]),
    ("/ws/none", 5, &[]),
];

fn check(path: &str, length: usize, trailers: Option<HeaderMap>) {
    let (_, expected, fields) = ROWS.iter().find(|row| row.0 == path).unwrap();
    assert_eq!(length, *expected, "{path}");
    let told: Vec<(String, String)> = trailers
        .iter()
        .flatten()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let told: Vec<_> = told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(told, *fields, "{path}");
}

#[test]
fn fields_behind_the_content_are_sent_over_http2() {
    let upstream = Upstream::with(serve);
    let site = upstream.site("");
    let client = Http2::connect(&site);
    for (path, ..) in ROWS {
        client.run(async {
            let request = client.request("GET", path, &[("te", "trailers")]);
            let (pending, _) = client.begin(request, true).await;
            let mut content = pending.await.unwrap().into_body();
            let mut length = 0;
            while let Some(part) = content.data().await {
                let part = part.unwrap();
                length += part.len();
                content.flow_control().release_capacity(part.len()).unwrap();
            }
            check(path, length, content.trailers().await.unwrap());
        });
    }
    // HTTP/1 has no place for them that all clients know.
    assert_eq!(site.ask("GET", "/ws/some", &[("TE", "trailers")], b"").text(), "hello");
    assert_eq!(client.get("/ws/some").text(), "hello");
}

#[test]
fn fields_behind_the_content_are_sent_over_http3() {
    let upstream = Upstream::with(serve);
    let special = Special {
        site: &upstream.keys(""),
        ..Special::default()
    };
    let served = Served::with(&[(".htaccess", &upstream.rules())], &special);
    let client: Http3 = served.connect();
    for (path, ..) in ROWS {
        client.run(async {
            let request = client.request("GET", path, &[("te", "trailers")]);
            let mut stream = client.begin(request).await.unwrap();
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            let mut length = 0;
            while let Some(part) = stream.recv_data().await.unwrap() {
                length += part.remaining();
            }
            check(path, length, stream.recv_trailers().await.unwrap());
        });
    }
}
