use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::super::connection::UpstreamPlace;
use super::super::upload::ForwardedRequest;
use super::*;
use crate::body::{Duplex, ReceivedContent};
use crate::budget::{Budget, BudgetUnit};

impl Duplex for tokio::io::Join<io::Cursor<Vec<u8>>, tokio::io::Sink> {}

/// Reads a response. Returns its status and content, or the failure.
fn read(response: &str, expected: ExpectedContent) -> String {
    let mut read = read_in_pieces(response, expected);
    while let Some((start, end)) = read.find('[').zip(read.find(']')) {
        read.replace_range(start..=end, "");
    }
    read
}

/// Reads a response like [`read`]. The number of pieces in brackets follows the content.
fn read_in_pieces(response: &str, expected: ExpectedContent) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let response = io::Cursor::new(response.as_bytes().to_vec());
        let places = Arc::new(Budget::of_descriptors(BudgetUnit::Connections, 1, &[true]));
        let connection = UpstreamConnection {
            stream: Box::new(tokio::io::join(response, tokio::io::sink())),
            place: UpstreamPlace::take(&places, 0).unwrap(),
        };
        let request = ForwardedRequest {
            head: Vec::new(),
            content: ReceivedContent::Memory(Vec::new()),
            is_idempotent: false,
            expected,
        };
        let upload = Upload::new(Rc::new(request));
        let mut reply =
            UpstreamResponse::new(String::new(), connection, upload, Duration::from_secs(5), None);
        let mut interim = String::new();
        let head = loop {
            match reply.read_head(expected).await {
                Ok(head) if head.status.is_informational() => {
                    interim += &format!("{} ", head.status)
                }
                Ok(head) => break head,
                Err(failure) => return failure.status().to_string(),
            }
        };
        let mut content = Vec::new();
        let mut pieces = 0;
        let failure = loop {
            match poll_fn(|context| reply.poll_available(context)).await {
                Ok(available) if available.bytes == 0 => break String::new(),
                Ok(available) => {
                    let start = content.len();
                    content.resize(start + available.bytes, 0);
                    reply.piece().read(&mut content[start..]).unwrap();
                    reply.consume(available.bytes);
                    pieces += 1;
                }
                Err(SourceError::Upstream(error)) => break format!(" ({})", error.failure),
                Err(error) => panic!("{error:?}"),
            }
        };
        let fields: Vec<&[u8]> = head.fields.iter().map(|(name, _)| name).collect();
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!(
            "{interim}{} {}: {}[{pieces}]{failure}",
            head.status,
            shown(&fields.join(&b","[..])),
            shown(&content)
        )
    })
}

#[test]
fn chunks_that_come_together_are_one_piece() {
    let chunks = "1\r\nx\r\n".repeat(1000);
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let content = "x".repeat(1000);
    for (end, expected) in [
        ("0\r\n\r\n", format!("200 : {content}[1]")),
        ("3\r\nabc\r\n0\r\nT: u\r\n\r\n", format!("200 : {content}abc[1]")),
        // The content before the mistake is sent.
        ("z", format!("200 : {content}[1] (its response is malformed: ")),
        ("", format!("200 : {content}[1] (it closed the connection")),
    ] {
        let read = read_in_pieces(&format!("{head}{chunks}{end}"), ExpectedContent::Content);
        assert!(read.starts_with(&expected), "{end:?}: {read}");
    }
}

#[test]
fn responses() {
    let rows = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "200 Content-Length: abc"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            "200 Content-Length: abc",
        ),
        ("HTTP/1.0 404 No\r\nA: b\r\n\r\nto the end", "404 A: to the end"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\
             T: u\r\n\r\nnext",
            "200 : abcd",
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 201 Made\r\n\
             Content-Length: 0\r\n\r\n",
            "103 201 Content-Length: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n",
            "200 X-End: ",
        ),
        ("HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", "204 Content-Length: "),
        ("HTTP/1.1 304 Not\r\nTransfer-Encoding: gzip\r\n\r\nabc", "304 : "),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "200 Content-Length: abc (it closed the connection before its response was complete)",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
            "200 : abc \
             (it closed the connection before its response was complete)",
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "502"),
        (
            "HTTP/1.1 200 OK\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\
             \r\n1\r\nd\r\n0\r\n\r\n",
            "200 : d",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "502"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", "502"),
        ("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n", "502"),
        ("HTTP/1.1 200 OK\r\nA: b", "502"),
        ("HTTP/1.1 999999 OK\r\n\r\n", "502"),
        ("SSH-2.0-OpenSSH\r\n", "502"),
        ("", "502"),
    ];
    for (response, expected) in rows {
        assert_eq!(read(response, ExpectedContent::Content), expected, "{response:?}");
    }
    assert_eq!(
        read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", ExpectedContent::NoContent),
        "200 Content-Length: "
    );
    let long =
        format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(2 * HEAD_LIMITS.fields_total));
    assert_eq!(read(&long, ExpectedContent::Content), "502");
    let lines =
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(HEAD_LIMITS.field_count + 1));
    assert_eq!(read(&lines, ExpectedContent::Content), "502");
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(MOST_INTERIM + 1);
    assert_eq!(read(&interim, ExpectedContent::Content), "502");
    let interim = "HTTP/1.1 103 Early\r\n\r\n".repeat(MOST_INTERIM + 1);
    assert_eq!(read(&interim, ExpectedContent::Content), "502");
}
