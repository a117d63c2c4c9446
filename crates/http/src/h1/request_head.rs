//! The head of a request that we send as a client of HTTP/1.1 (RFC 9112 §3).

use crate::Method;
use crate::scan::{is_field_value, is_token};

/// The head of a request while it is written.
#[derive(Debug)]
pub struct RequestHead {
    bytes: Vec<u8>,
}

/// The statements of a request about its connection (RFC 9110 §7.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestConnection {
    /// The connection is kept for the next request.
    Persist,
    /// The connection ends after the response.
    Close,
    /// The connection becomes a WebSocket (RFC 6455 §4.1).
    WebSocket,
}

impl RequestHead {
    /// Begins with the request line.
    pub fn new(method: &Method, target: &[u8]) -> RequestHead {
        RequestHead {
            bytes: [method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"].concat(),
        }
    }

    /// Appends a field. Leaves out what is no name or no value of a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if is_token(name) && is_field_value(value) {
            for part in [name, b": ", value, b"\r\n"] {
                self.bytes.extend_from_slice(part);
            }
        }
    }

    /// Appends the fields about the connection and the empty line. `wants_trailers`: the fields
    /// behind the content are wanted (RFC 9110 §10.1.4).
    pub fn finish(mut self, connection: RequestConnection, wants_trailers: bool) -> Vec<u8> {
        self.bytes.extend_from_slice(match (connection, wants_trailers) {
            (RequestConnection::WebSocket, _) => {
                b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            }
            (RequestConnection::Close, true) => b"TE: trailers\r\nConnection: TE, close\r\n\r\n",
            (RequestConnection::Persist, true) => b"TE: trailers\r\nConnection: TE\r\n\r\n",
            (RequestConnection::Close, false) => b"Connection: close\r\n\r\n",
            (RequestConnection::Persist, false) => b"\r\n",
        });
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_its_connection_at_its_end() {
        let table = [
            (RequestConnection::Persist, false, ""),
            (RequestConnection::Persist, true, "TE: trailers\r\nConnection: TE\r\n"),
            (RequestConnection::Close, false, "Connection: close\r\n"),
            (RequestConnection::Close, true, "TE: trailers\r\nConnection: TE, close\r\n"),
            (RequestConnection::WebSocket, true, "Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        ];
        for (connection, wants_trailers, expected) in table {
            let mut head = RequestHead::new(&Method::Get, b"/a?b");
            head.push(b"Host", b"example.org");
            head.push(b"a b", b"no name");
            head.push(b"X", b"no\r\nvalue");
            let head = head.finish(connection, wants_trailers);
            let expected = format!("GET /a?b HTTP/1.1\r\nHost: example.org\r\n{expected}\r\n");
            assert_eq!(String::from_utf8_lossy(&head), expected);
        }
    }
}
