//! The head of a request, and its pseudo-fields (RFC 9113 §8.3).

use super::field_lines::FieldLines;
use crate::{Limits, Method, Refusal, Request, Scheme, Status, Version, scan, target};

/// The pseudo-fields of a request (RFC 9113 §8.3.1). `:path` and `:scheme` are absent from CONNECT
/// alone.
#[derive(Clone, Copy, Debug)]
pub struct PseudoFields<'h> {
    /// `:method`.
    pub method: &'h [u8],
    /// `:scheme`. `None` also where the connection does not decide on the scheme: a trusted proxy
    /// has received the request elsewhere.
    pub scheme: Option<&'h [u8]>,
    /// `:authority`.
    pub authority: Option<&'h [u8]>,
    /// `:path`.
    pub path: Option<&'h [u8]>,
    /// `:protocol` of an extended CONNECT (RFC 8441).
    pub protocol: Option<&'h [u8]>,
}

/// Reads a head of HTTP/2 or HTTP/3, which have the same rules (RFC 9114 §4.2, §4.3), into `into`,
/// whose memory is reused and whose scheme is kept. `fields` are the lines in order, `ends` says
/// that no content follows. Returns whether the client waits for 100 (Continue).
///
/// The lines of Cookie become one (RFC 9113 §8.2.3), and a Host line is added where there is
/// `:authority` alone, so that directives and scripts find what they know from HTTP/1. Names are
/// written as HTTP/1 writes them (`Accept-Language`), as Apache does.
///
/// An extended CONNECT for a WebSocket (RFC 8441) becomes what a client of HTTP/1.1 would send: GET
/// with Upgrade and Connection, without content. Its stream goes on in both directions.
///
/// On a refusal `into` holds the known part of the request line, for the log, and no fields, unless
/// the refusal keeps the head ([`Refusal::keeps_head`]).
///
/// # Errors
/// The status to refuse the request with. The connection goes on.
pub fn read_request<'h>(
    version: Version,
    pseudo: &PseudoFields<'h>,
    fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ends: bool,
    limits: &Limits,
    into: &mut Request,
) -> Result<bool, Refusal> {
    into.reset();
    into.version = version;
    let outcome = read_head(pseudo, fields, ends, limits, into);
    if outcome.is_err_and(|refusal| !refusal.keeps_head()) {
        into.fields.clear();
    }
    outcome
}

fn read_head<'h>(
    pseudo: &PseudoFields<'h>,
    fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ends: bool,
    limits: &Limits,
    into: &mut Request,
) -> Result<bool, Refusal> {
    request_line(pseudo, limits, into)?;
    let mut seen = FieldLines::default();
    for (name, value) in fields {
        seen.note(name, value, limits, into)?;
    }
    seen.conclude(pseudo, ends, limits, into)
}

/// The pseudo-fields that HTTP/1 has in its request line. The limit counts the line that HTTP/1
/// would send.
fn request_line(
    pseudo: &PseudoFields<'_>,
    limits: &Limits,
    into: &mut Request,
) -> Result<(), Refusal> {
    into.method =
        Method::from_bytes(pseudo.method).ok_or(Refusal::bad("method that is no token"))?;
    if let Some(protocol) = pseudo.protocol {
        extended_connect(protocol, into)?;
    }
    let is_connect = into.method == Method::Connect;
    let path = match (is_connect, pseudo.path, pseudo.authority) {
        (false, Some(path), _) | (true, None, Some(path)) => path,
        (false, None, _) => return Err(Refusal::bad("request without :path")),
        (true, Some(_), _) => return Err(Refusal::bad("CONNECT with :path")),
        (true, None, None) => return Err(Refusal::bad("CONNECT without :authority")),
    };
    if pseudo.method.len() + path.len() + LINE_OVERHEAD > limits.request_line {
        return Err(Refusal {
            status: Status::URI_TOO_LONG,
            why: "method and :path over the limit of a request line",
        });
    }
    if scan::target_run(path) < path.len() {
        return Err(Refusal::bad("byte in :path that no target has"));
    }
    if !is_connect && path != b"*" && !path.starts_with(b"/") {
        return Err(Refusal::bad(":path that does not begin with a slash"));
    }
    let is_https = pseudo.scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"));
    if is_https && into.scheme == Scheme::Http {
        // RFC 9110 §4.3.3: an https resource is not served over a connection without TLS.
        return Err(Refusal {
            status: Status::MISDIRECTED_REQUEST,
            why: "https request on a connection in the clear",
        });
    }
    target::read(path, into)
}

/// Makes a GET of an extended CONNECT (RFC 8441 §4, §5).
fn extended_connect(protocol: &[u8], into: &mut Request) -> Result<(), Refusal> {
    if into.method != Method::Connect {
        return Err(Refusal::bad(":protocol without CONNECT"));
    }
    if !protocol.eq_ignore_ascii_case(b"websocket") {
        return Err(Refusal {
            status: Status::NOT_IMPLEMENTED,
            why: "extended CONNECT for a protocol other than websocket",
        });
    }
    into.method = Method::Get;
    into.is_extended_connect = true;
    Ok(())
}

/// Bytes of HTTP/1's request line beside method and target.
const LINE_OVERHEAD: usize = " ".len() + " HTTP/1.1".len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;

    const GET: PseudoFields<'static> = PseudoFields {
        method: b"GET",
        scheme: Some(b"http"),
        authority: Some(b"Example.org"),
        path: Some(b"/a?b"),
        protocol: None,
    };

    fn read(
        pseudo: &PseudoFields<'_>,
        fields: &[(&str, &str)],
        ends: bool,
    ) -> Result<Request, Refusal> {
        let mut request = Request::new();
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        read_request(Version::Http2, pseudo, fields, ends, &Limits::default(), &mut request)?;
        Ok(request)
    }

    fn lines(request: &Request) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lines = request.fields.iter();
        lines.map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
    }

    #[test]
    fn a_head_is_read_as_http1_would_bring_it() {
        let fields = [
            ("accept-language", "de"),
            ("cookie", "a=1"),
            ("x-y", ""),
            ("cookie", ""),
            ("cookie", "b=2"),
            ("te", "trailers"),
        ];
        let request = read(&GET, &fields, true).unwrap();
        let raw = PseudoFields { path: Some(b"/\xc3\xa9"), ..GET };
        assert_eq!(read(&raw, &[], true).unwrap().target, b"/\xc3\xa9");
        assert_eq!(
            (&request.target[..], &request.authority[..], request.version, request.content),
            (&b"/a?b"[..], &b"example.org"[..], Version::Http2, Content::None)
        );
        assert_eq!(
            lines(&request),
            [
                "Accept-Language: de",
                "X-Y: ",
                "Te: trailers",
                "Host: Example.org",
                "Cookie: a=1; b=2"
            ]
        );
    }

    #[test]
    fn a_connection_with_tls_takes_requests_for_https_and_for_the_whole_server() {
        let mut request = Request { scheme: Scheme::Https, ..Request::new() };
        let options = PseudoFields {
            method: b"OPTIONS",
            scheme: Some(b"https"),
            path: Some(b"*"),
            ..GET
        };
        let fields = std::iter::empty();
        let read =
            read_request(Version::Http2, &options, fields, true, &Limits::default(), &mut request);
        assert_eq!((read, &request.target[..]), (Ok(false), &b"*"[..]));
    }

    #[test]
    fn a_refused_request_has_fields_where_only_its_expectation_is_refused() {
        for (name, status, count) in [("expect", 417, 3), ("a b", 400, 0)] {
            let mut request = Request::new();
            let fields = [(&b"accept"[..], &b"*/*"[..]), (name.as_bytes(), b"x")].into_iter();
            let limits = Limits::default();
            let read = read_request(Version::Http2, &GET, fields, true, &limits, &mut request);
            assert_eq!(read.map_err(|refusal| refusal.status.code()), Err(status), "{name}");
            assert_eq!(request.fields.len(), count, "{name}");
        }
    }

    #[test]
    fn host_serves_where_there_is_no_authority() {
        let pseudo = PseudoFields { authority: None, ..GET };
        let request = read(&pseudo, &[("host", "H.org:81")], true).unwrap();
        assert_eq!(request.authority, b"h.org:81");
        assert_eq!(lines(&request), ["Host: H.org:81"]);
        let request = read(&GET, &[("host", "example.ORG.")], true).unwrap();
        assert_eq!(lines(&request), ["Host: example.ORG."]);
    }

    #[test]
    fn content_follows_what_the_head_and_the_stream_say() {
        let rows = [
            (None, true, Content::None),
            (None, false, Content::Unknown),
            (Some("0"), true, Content::Length(0)),
            (Some("12"), false, Content::Length(12)),
        ];
        for (length, ends, expected) in rows {
            let fields: Vec<_> =
                length.map(|length| ("content-length", length)).into_iter().collect();
            assert_eq!(read(&GET, &fields, ends).unwrap().content, expected, "{length:?} {ends}");
        }
    }

    #[test]
    fn a_client_waits_for_100_if_it_says_so_and_has_content() {
        let rows = [
            ("", false, Ok(false)),
            ("100-Continue", false, Ok(true)),
            ("100-continue, 100-continue", false, Ok(true)),
            ("100-continue", true, Ok(false)),
            ("100-continue, other", false, Err(417)),
            ("other, another", false, Err(417)),
        ];
        for (value, ends, expected) in rows {
            let fields = [(&b"expect"[..], value.as_bytes())].into_iter();
            let limits = Limits::default();
            let waits =
                read_request(Version::Http2, &GET, fields, ends, &limits, &mut Request::new());
            assert_eq!(waits.map_err(|refusal| refusal.status.code()), expected, "{value} {ends}");
        }
    }

    #[test]
    fn connect_has_an_authority_and_nothing_else() {
        let connect = PseudoFields {
            method: b"CONNECT",
            scheme: None,
            path: None,
            ..GET
        };
        let with_port = PseudoFields { authority: Some(b"H:443"), ..connect };
        let request = read(&with_port, &[], false).unwrap();
        assert_eq!((&request.target[..], &request.authority[..]), (&b"h:443"[..], &b"h:443"[..]));
        assert!(read(&connect, &[], false).is_err(), "without a port");
        assert!(read(&PseudoFields { path: Some(b"/"), ..with_port }, &[], false).is_err());
        assert!(read(&PseudoFields { authority: None, ..connect }, &[], false).is_err());
    }

    #[test]
    fn an_extended_connect_is_read_as_a_get_with_upgrade() {
        let extended = PseudoFields {
            method: b"CONNECT",
            protocol: Some(b"websocket"),
            ..GET
        };
        let version = [("sec-websocket-version", "13")];
        let request = read(&extended, &version, false).unwrap();
        assert_eq!(
            (&request.method, &request.target[..], request.content, request.is_extended_connect),
            (&Method::Get, &b"/a?b"[..], Content::None, true)
        );
        let expected = [
            "Sec-Websocket-Version: 13",
            "Host: Example.org",
            "Upgrade: websocket",
            "Connection: Upgrade",
        ];
        assert_eq!(lines(&request), expected);
        let status = |pseudo: PseudoFields<'_>, fields: &[(&str, &str)], ends| {
            read(&pseudo, fields, ends).unwrap_err().status
        };
        let bad = Status::BAD_REQUEST;
        assert_eq!(status(extended, &[], true), bad, "its stream has ended");
        assert_eq!(status(extended, &[("content-length", "1")], false), bad);
        assert_eq!(status(extended, &[("upgrade", "websocket")], false), bad);
        assert_eq!(status(PseudoFields { method: b"GET", ..extended }, &[], false), bad);
        assert_eq!(status(PseudoFields { path: None, ..extended }, &[], false), bad);
        let other = PseudoFields {
            protocol: Some(b"connect-udp"),
            ..extended
        };
        assert_eq!(status(other, &[], false), Status::NOT_IMPLEMENTED);
    }

    #[test]
    fn what_could_be_understood_differently_is_refused() {
        let field = |name, value| vec![(name, value)];
        type Row<'r> = (PseudoFields<'r>, Vec<(&'r str, &'r str)>, u16);
        let rows: Vec<Row<'_>> = vec![
            (GET, field("host", "elsewhere.org"), 400),
            (GET, field("host", "example.org:81"), 400),
            (GET, vec![("host", "example.org"), ("host", "example.org")], 400),
            (GET, field("connection", "close"), 400),
            (GET, field("transfer-encoding", "chunked"), 400),
            (GET, field("upgrade", "h2c"), 400),
            (GET, field("keep-alive", "1"), 400),
            (GET, field("proxy-connection", "close"), 400),
            (GET, field("te", "gzip"), 400),
            (GET, field("Accept", "x"), 400),
            (GET, field("a b", "x"), 400),
            (GET, field(":path", "/x"), 400),
            (GET, field("", "x"), 400),
            (GET, field("a", "x\r\nb: c"), 400),
            (GET, field("a", " x"), 400),
            (GET, field("a", "x\t"), 400),
            (GET, field("content-length", "5"), 400),
            (GET, field("content-length", "+0"), 400),
            (GET, vec![("content-length", "0"), ("content-length", "0")], 400),
            (GET, field("expect", "200-ok"), 417),
            (PseudoFields { authority: None, ..GET }, vec![], 400),
            (PseudoFields { authority: Some(b""), ..GET }, vec![], 400),
            (PseudoFields { authority: Some(b"u@h"), ..GET }, vec![], 400),
            (PseudoFields { path: Some(b"a"), ..GET }, vec![], 400),
            (PseudoFields { path: Some(b""), ..GET }, vec![], 400),
            (PseudoFields { path: Some(b"*"), ..GET }, vec![], 400),
            (
                PseudoFields {
                    path: Some(b"http://example.org/"),
                    ..GET
                },
                vec![],
                400,
            ),
            (PseudoFields { path: Some(b"/\x7f"), ..GET }, vec![], 400),
            (PseudoFields { path: Some(b"/a b"), ..GET }, vec![], 400),
            (PseudoFields { path: None, ..GET }, vec![], 400),
            (PseudoFields { method: b"G T", ..GET }, vec![], 400),
            (PseudoFields { scheme: Some(b"https"), ..GET }, vec![], 421),
        ];
        for (pseudo, fields, status) in rows {
            let refusal =
                read(&pseudo, &fields, true).expect_err(&format!("{pseudo:?} {fields:?}"));
            assert_eq!(refusal.status.code(), status, "{pseudo:?} {fields:?}: {}", refusal.why);
        }
    }

    #[test]
    fn the_limits_of_http1_hold() {
        let limits = Limits {
            request_line: 40,
            field_line: 30,
            fields_total: 100,
            field_count: 3,
            body: 10,
        };
        let long = "x".repeat(40);
        let path = format!("/{}", "x".repeat(26));
        let too_long = format!("{path}x");
        // 64 bytes of two lines, and 36 of two others whose last value has eight.
        let all_of = |last: usize| {
            let (a, cookie) = (("a", &long[..27]), ("cookie", &long[..8]));
            vec![a, a, cookie, ("cookie", &long[..last])]
        };
        type Row<'r> = (&'r str, Vec<(&'r str, &'r str)>, bool, Option<u16>);
        let rows: Vec<Row<'_>> = vec![
            (&path, vec![], true, None),
            (&too_long, vec![], true, Some(414)),
            ("/", vec![("a", &long)], true, Some(431)),
            ("/", vec![("a", &long[..27])], true, None),
            ("/", vec![("a", &long[..28])], true, Some(431)),
            ("/", vec![("cookie", &long[..10]); 2], true, None),
            ("/", vec![("cookie", &long[..10]), ("cookie", &long[..11])], true, Some(431)),
            ("/", all_of(8), true, None),
            ("/", all_of(9), true, Some(431)),
            ("/", vec![("a", "1"); 3], true, None),
            ("/", vec![("a", "1"); 4], true, Some(431)),
            ("/", vec![("a", "12345678901234567890"); 4], true, Some(431)),
            ("/", vec![("cookie", "a=1"); 4], true, None),
            ("/", vec![("cookie", "a=1"); 6], true, Some(431)),
            ("/", vec![("content-length", "10")], false, None),
            ("/", vec![("content-length", "11")], false, Some(413)),
        ];
        for (path, fields, ends, expected) in rows {
            let pseudo = PseudoFields { path: Some(path.as_bytes()), ..GET };
            let lines = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let result =
                read_request(Version::Http2, &pseudo, lines, ends, &limits, &mut Request::new());
            let status = result.err().map(|refusal| refusal.status.code());
            assert_eq!(status, expected, "{path} {fields:?}");
        }
    }
}
