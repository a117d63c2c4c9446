//! Checks of single answers, byte for byte.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustls::ClientConnection;

use super::{Wrong, http2};
use crate::load::{LoadProtocol, Question};
use crate::tls::{self, plain_client, server_name};

/// A response with its transfer coding removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedResponse {
    /// The status code.
    pub status: u16,
    /// Field lines: names in lower case, values.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Time-out of an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is read, in bytes.
pub(super) const LARGEST: u64 = 256 << 20;

/// Sends `count` requests, each on a new connection. Every status must be 200, every body as
/// expected.
///
/// # Errors
///
/// The first answer that differs, or a connection that failed.
pub fn check(question: &Question, port: u16, count: usize) -> Result<(), Wrong> {
    for _ in 0..count {
        let answer = ask(question, port)?;
        if answer.status != 200 {
            return Err(Wrong(format!("status {}", answer.status)));
        }
        if let Some(body) = &question.body
            && *body != answer.body
        {
            return Err(Wrong(difference(body, &answer.body)));
        }
    }
    Ok(())
}

/// Sends one request on a new connection.
///
/// # Errors
///
/// The connection failed, or the answer is no HTTP.
pub fn ask(question: &Question, port: u16) -> Result<DecodedResponse, Wrong> {
    ask_within(TIMEOUT, question, port)
}

/// Sends one request on a new connection, and gives the answer up when nothing comes for `timeout`.
///
/// # Errors
///
/// The connection failed or took too long, or the answer is no HTTP.
pub fn ask_within(
    timeout: Duration,
    question: &Question,
    port: u16,
) -> Result<DecodedResponse, Wrong> {
    let mut stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let bytes = match question.protocol {
        LoadProtocol::Http => exchange(&mut stream, question, port)?,
        LoadProtocol::Https => {
            let connection = ClientConnection::new(plain_client("http/1.1")?, server_name()?);
            let mut connection = connection.map_err(|error| Wrong(format!("TLS: {error}")))?;
            exchange(&mut rustls::Stream::new(&mut connection, &mut stream), question, port)?
        }
        LoadProtocol::Http2 => return http2::ask(timeout, question, stream),
    };
    parse(&bytes).ok_or_else(|| {
        Wrong(format!(
            "not an answer: {:?}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
        ))
    })
}

/// Sends the request and reads until the connection ends.
fn exchange(
    stream: &mut (impl Read + Write),
    question: &Question,
    port: u16,
) -> Result<Vec<u8>, Wrong> {
    stream.write_all(&request(question, port, false))?;
    let mut bytes = Vec::new();
    match stream.take(LARGEST).read_to_end(&mut bytes) {
        // The end of a connection that TLS does not announce; the answer's length is checked.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(bytes),
        read => Ok(read.map(|_| bytes)?),
    }
}

/// The Host field.
pub(super) fn host(question: &Question, port: u16) -> String {
    question.host.clone().unwrap_or_else(|| match question.protocol {
        LoadProtocol::Http => format!("127.0.0.1:{port}"),
        LoadProtocol::Https | LoadProtocol::Http2 => format!("{}:{port}", tls::HOST),
    })
}

/// The request in HTTP/1.1.
pub fn request(question: &Question, port: u16, keep_alive: bool) -> Vec<u8> {
    let host = host(question, port);
    let mut text = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n", question.path);
    if !question.fields.iter().any(|(name, _)| name == "User-Agent") {
        text += "User-Agent: howdah-lab\r\n";
    }
    for (name, value) in &question.fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += if keep_alive {
        "\r\n"
    } else {
        "Connection: close\r\n\r\n"
    };
    text.into_bytes()
}

fn parse(bytes: &[u8]) -> Option<DecodedResponse> {
    let end = find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let fields: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let value = |wanted: &str| {
        fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    let body = match (value("transfer-encoding"), value("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => unchunk(rest)?,
        (_, Some(length)) => rest.get(..length.parse().ok()?)?.to_vec(),
        _ => rest.to_vec(),
    };
    Some(DecodedResponse { status, fields, body })
}

/// Decodes a chunked body (RFC 9112 §7.1); `None` where it is incomplete.
pub(super) fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 2 + size + 2..)?;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn difference(expected: &[u8], found: &[u8]) -> String {
    let at = expected
        .iter()
        .zip(found)
        .position(|(a, b)| a != b)
        .unwrap_or(expected.len().min(found.len()));
    let part = String::from_utf8_lossy(&found[at..found.len().min(at + 60)]);
    format!(
        "a wrong body: {} bytes instead of {}, the first difference at {at}: {part:?}",
        found.len(),
        expected.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_unframed() {
        let table: [(&str, u16, &str); 4] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n\
                 0\r\n\r\n",
                200,
                "abc",
            ),
            ("HTTP/1.0 404 Not Found\r\n\r\nabc", 404, "abc"),
            ("HTTP/1.1 204 No Content\r\nA: b\r\n\r\n", 204, ""),
        ];
        for (bytes, status, body) in table {
            let answer = parse(bytes.as_bytes()).unwrap();
            assert_eq!(
                (answer.status, answer.body.as_slice()),
                (status, body.as_bytes()),
                "{bytes}"
            );
        }
    }

    #[test]
    fn what_is_cut_short_is_no_answer() {
        for bytes in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ] {
            assert_eq!(parse(bytes.as_bytes()), None, "{bytes:?}");
        }
    }

    #[test]
    fn differences_are_shown_where_they_begin() {
        let text = difference(b"Hello, World!", b"Hello, Venus!");
        assert!(text.contains("at 7") && text.contains("Venus"), "{text}");
    }
}
