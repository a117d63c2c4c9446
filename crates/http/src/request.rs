//! A request, of any protocol version.

use memchr::memchr;

use crate::{Fields, Method, Scheme, Version, authority};

/// The head of a request. Reused from one request of a connection to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method, as sent.
    pub method: Method,
    /// The protocol version.
    pub version: Version,
    /// The scheme of the connection; set once per connection and kept by [`reset`](Request::reset).
    pub scheme: Scheme,
    /// Path and query as sent (always beginning with `/`), `*`, or for CONNECT the authority.
    /// Printable ASCII only, no fragment.
    pub target: Vec<u8>,
    /// `host[:port]` of the absolute-form target, else of Host: lower-cased, checked, without a
    /// final dot. Empty only in HTTP/1.0 without Host and for `OPTIONS *`.
    pub authority: Vec<u8>,
    /// Every field line as sent.
    pub fields: Fields,
    /// The delimitation of the content that follows.
    pub content: Content,
    /// The request is an extended CONNECT for a WebSocket (RFC 8441, RFC 9220). Method and fields
    /// are those that a client of HTTP/1.1 would send: GET, Upgrade, Connection.
    pub is_extended_connect: bool,
    /// The request came in early data (0-RTT) of a handshake that is not complete. Somebody who has
    /// recorded the request may have sent it (RFC 8470).
    pub is_early: bool,
}

/// The delimitation of a request's content (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Neither Content-Length nor Transfer-Encoding: there is no content.
    #[default]
    None,
    /// Exactly this many bytes.
    Length(u64),
    /// A length that is known at its end only: chunked in HTTP/1.
    Unknown,
}

impl Request {
    /// Returns an empty request.
    pub fn new() -> Request {
        Request::default()
    }

    /// Empties the request, and keeps its memory and its scheme.
    pub fn reset(&mut self) {
        self.method = Method::Get;
        self.version = Version::Http11;
        self.target.clear();
        self.authority.clear();
        self.fields.clear();
        self.content = Content::None;
        self.is_extended_connect = false;
        self.is_early = false;
    }

    /// Returns the target up to its `?`, still percent-encoded.
    pub fn path(&self) -> &[u8] {
        self.path_and_query().0
    }

    /// Returns the part of the target after its first `?`, as sent. `None` without a `?`; empty
    /// after a final one.
    pub fn query(&self) -> Option<&[u8]> {
        self.path_and_query().1
    }

    /// Returns path and query, with one search.
    pub fn path_and_query(&self) -> (&[u8], Option<&[u8]>) {
        match memchr(b'?', &self.target) {
            Some(at) => (&self.target[..at], Some(&self.target[at + 1..])),
            None => (&self.target, None),
        }
    }

    /// Returns the authority without its port. An IPv6 address keeps its brackets.
    pub fn host(&self) -> &[u8] {
        authority::split(&self.authority).0
    }

    /// Returns the port of the authority. `None` if it names none.
    pub fn port(&self) -> Option<u16> {
        authority::split(&self.authority).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query() {
        type Row = (&'static [u8], &'static [u8], Option<&'static [u8]>);
        let table: [Row; 5] = [
            (b"/", b"/", None),
            (b"/a/b?c=d", b"/a/b", Some(b"c=d")),
            (b"/a?", b"/a", Some(b"")),
            (b"/a?b?c", b"/a", Some(b"b?c")),
            (b"*", b"*", None),
        ];
        for (target, path, query) in table {
            let request = Request {
                target: target.to_vec(),
                ..Request::new()
            };
            assert_eq!((request.path(), request.query()), (path, query));
        }
    }

    #[test]
    fn host_and_port() {
        let table: [(&[u8], &[u8], Option<u16>); 5] = [
            (b"example.org", b"example.org", None),
            (b"example.org:8080", b"example.org", Some(8080)),
            (b"[::1]", b"[::1]", None),
            (b"[::1]:443", b"[::1]", Some(443)),
            (b"", b"", None),
        ];
        for (authority, host, port) in table {
            let request = Request {
                authority: authority.to_vec(),
                ..Request::new()
            };
            assert_eq!((request.host(), request.port()), (host, port));
        }
    }

    #[test]
    fn reset_keeps_the_scheme_only() {
        let mut request = Request {
            method: Method::Post,
            version: Version::Http10,
            scheme: Scheme::Https,
            target: b"/x".to_vec(),
            authority: b"h".to_vec(),
            fields: Fields::new(),
            content: Content::Length(4),
            is_extended_connect: true,
            is_early: true,
        };
        request.fields.push(b"A", b"b");
        request.reset();
        assert_eq!(request, Request { scheme: Scheme::Https, ..Request::new() });
    }
}
