//! A request, of any protocol version.

use memchr::memchr;

use crate::{Fields, Limits, Method, Refusal, Scheme, Version, authority, scan, target};

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
    /// Scheme and authority of a target in absolute form, as sent, such as `http://Host:80`. The
    /// rest of it is in `target`. Empty for every other form.
    pub origin: Vec<u8>,
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
    /// The first line of a head that is refused, as received, for the log; see
    /// [`h1::first_line`](crate::h1::first_line). Empty for every other request.
    pub refused_line: Vec<u8>,
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

    /// Returns a GET by the server itself, in a client's name: no protocol has carried it. `host`
    /// is as in a Host field, or empty; the request gets that field. `fields` are all others.
    ///
    /// # Errors
    /// A part that no client could send.
    pub fn internal<'p>(
        scheme: Scheme,
        host: &[u8],
        target: &[u8],
        fields: impl Iterator<Item = (&'p [u8], &'p [u8])>,
        limits: &Limits,
    ) -> Result<Request, Refusal> {
        let mut request = Request { scheme, ..Request::new() };
        if target.len() > limits.request_line || scan::target_run(target) < target.len() {
            return Err(Refusal::bad("byte in the target that no target has, or too many"));
        }
        target::read(target, &mut request)?;
        if !host.is_empty() {
            // The authority of an absolute target overrules Host (RFC 9112 §3.2.2).
            let mut named = Vec::new();
            authority::check_authority(host, &mut named).map_err(Refusal::bad)?;
            match request.authority.is_empty() {
                true => {
                    request.authority = named;
                    request.fields.push(b"Host", host);
                }
                false => request.fields.push(b"Host", &request.authority),
            }
        }
        for (name, value) in fields {
            if !scan::is_token(name) || !scan::is_field_value(value) {
                return Err(Refusal::bad("field that cannot be sent"));
            }
            request.fields.push(name, value);
        }
        let is_long = request.fields.length() > limits.fields_total;
        match is_long || request.fields.len() > limits.field_count {
            true => Err(Refusal::bad("fields over their limits")),
            false => Ok(request),
        }
    }

    /// Returns whether the request's connection, or its stream, can become a tunnel.
    pub fn can_tunnel(&self) -> bool {
        self.is_extended_connect || self.version == Version::Http11
    }

    /// Empties the request, and keeps its memory and its scheme.
    pub fn reset(&mut self) {
        self.method = Method::Get;
        self.version = Version::Http11;
        self.target.clear();
        self.origin.clear();
        self.authority.clear();
        self.fields.clear();
        self.content = Content::None;
        self.is_extended_connect = false;
        self.is_early = false;
        self.refused_line = Vec::new();
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
    fn a_request_of_the_server_s_own_is_one_that_a_client_could_send() {
        let limits = Limits {
            request_line: 9,
            fields_total: 30,
            field_count: 3,
            ..Limits::default()
        };
        let made = |host: &str, target: &str, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
            Request::internal(Scheme::Https, host.as_bytes(), target.as_bytes(), fields, &limits)
        };
        let request = made("A.b:80", "/x?y", &[("Accept", "*/*"), ("Cookie", "")]).unwrap();
        let mut expected = Request {
            scheme: Scheme::Https,
            target: b"/x?y".to_vec(),
            authority: b"a.b:80".to_vec(),
            ..Request::new()
        };
        for (name, value) in [("Host", "A.b:80"), ("Accept", "*/*"), ("Cookie", "")] {
            expected.fields.push(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(request, expected);
        assert_eq!(made("", "/12345678", &[]).unwrap().fields.len(), 0);
        let long = "v".repeat(25);
        assert_eq!(made("", "/", &[("Names", &long)]).unwrap().authority, b"");
        for (host, target, fields) in [
            ("a b", "/", &[][..]),
            ("h", "x", &[]),
            ("h", "*", &[]),
            ("h", "/a b", &[]),
            ("h", "/a\r\n", &[]),
            ("h", "/123456789", &[]),
            ("h", "/", &[("A b", "c")]),
            ("h", "/", &[("A", "b\r\nC: d")]),
            ("h", "/", &[("A", ""), ("A", ""), ("A", "")]),
            ("", "/", &[("Names1", &*long)]),
        ] {
            assert!(made(host, target, fields).is_err(), "{host} {target} {fields:?}");
        }
    }

    #[test]
    fn only_a_client_that_knows_tunnels_gets_one() {
        for (version, is_extended_connect, expected) in [
            (Version::Http11, false, true),
            (Version::Http10, false, false),
            (Version::Http2, false, false),
            (Version::Http2, true, true),
        ] {
            let request = Request {
                version,
                is_extended_connect,
                ..Request::new()
            };
            assert_eq!(request.can_tunnel(), expected, "{version:?} {is_extended_connect}");
        }
    }

    #[test]
    fn reset_keeps_the_scheme_only() {
        let mut request = Request {
            method: Method::Post,
            version: Version::Http10,
            scheme: Scheme::Https,
            target: b"/x".to_vec(),
            origin: b"http://h".to_vec(),
            authority: b"h".to_vec(),
            fields: Fields::new(),
            content: Content::Length(4),
            is_extended_connect: true,
            is_early: true,
            refused_line: b"GET".to_vec(),
        };
        request.fields.push(b"A", b"b");
        request.reset();
        assert_eq!(request, Request { scheme: Scheme::Https, ..Request::new() });
    }
}
