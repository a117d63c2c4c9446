//! The head of a response (RFC 9113 §8.3.2).

use crate::{Fields, Method, ResponseHead, Status, h1, scan};

/// Returns whether a field line of a response's head is sent. Date, Server and Content-Length come
/// from the protocol alone; the fields of an HTTP/1 connection, and those that cannot be sent, are
/// left out.
pub fn is_sent(name: &[u8], value: &[u8]) -> bool {
    !h1::is_of_connection(name) && scan::is_token(name) && scan::is_field_value(value)
}

/// Returns the trailer fields that are sent, in order. Left out are those that say how the content
/// is to be read or kept, who the client is, or where it goes: they come too late for that
/// (RFC 9110 §6.5.1).
pub fn trailers_to_send(trailers: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    trailers.iter().filter(|(name, value)| {
        let is_late = LATE.iter().any(|late| name.eq_ignore_ascii_case(late));
        !is_late
            && !h1::is_of_connection(name)
            && scan::is_token(name)
            && scan::is_field_value(value)
    })
}

/// Fields that have no meaning after the content.
const LATE: [&[u8]; 24] = [
    b"accept-ranges",
    b"age",
    b"alt-svc",
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-length",
    b"content-location",
    b"content-range",
    b"content-type",
    b"date",
    b"expires",
    b"host",
    b"location",
    b"priority",
    b"proxy-authenticate",
    b"retry-after",
    b"server",
    b"set-cookie",
    b"strict-transport-security",
    b"te",
    b"trailer",
    b"vary",
    b"www-authenticate",
];

/// Returns the Content-Length of a response to `method` whose content has `length` bytes (`None`:
/// not known yet). As in HTTP/1, the head's own Content-Length is sent where no content follows and
/// GET would have got some.
pub fn content_length(method: &Method, head: &ResponseHead, length: Option<u64>) -> Option<u64> {
    match (head.status, length) {
        (Status::NO_CONTENT, _) => None,
        (status, _) if status.is_informational() => None,
        (status, _) if status.forbids_content() => head.content_length(),
        (_, None) if *method == Method::Head => head.content_length(),
        (_, length) => length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_are_left_out() {
        let mut head = ResponseHead::new(Status::OK);
        for (name, value) in [
            ("Content-Type", "text/html"),
            ("Connection", "close"),
            ("Keep-Alive", "timeout=5"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Proxy-Connection", "close"),
            ("Trailer", "x"),
            ("Date", "x"),
            ("Server", "x"),
            ("Content-Length", "7"),
            ("bad name", "x"),
            ("X-Split", "a\r\nb: c"),
            ("Set-Cookie", "a=1"),
            ("set-cookie", "b=2"),
        ] {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        let sent = head.fields.iter().filter(|(name, value)| is_sent(name, value));
        let sent: Vec<_> = sent.map(|(_, value)| value).collect();
        assert_eq!(sent, [&b"text/html"[..], b"a=1", b"b=2"]);
    }

    #[test]
    fn trailers_that_come_too_late_are_left_out() {
        let mut trailers = Fields::new();
        for (name, value) in [
            ("Grpc-Status", "0"),
            ("Content-Length", "7"),
            ("Transfer-Encoding", "chunked"),
            ("SET-COOKIE", "a=1"),
            ("Connection", "close"),
            ("X-Split", "a\r\nb: c"),
            ("bad name", "x"),
            ("Digest", "x"),
        ] {
            trailers.push(name.as_bytes(), value.as_bytes());
        }
        let sent: Vec<_> = trailers_to_send(&trailers).map(|(_, value)| value).collect();
        assert_eq!(sent, [b"0", b"x"]);
    }

    #[test]
    fn content_length_is_that_of_http1() {
        let mut head = ResponseHead::new(Status::OK);
        head.fields.push(b"Content-Length", b"7");
        let of = |status, method, length| {
            content_length(&method, &ResponseHead { status, ..head.clone() }, length)
        };
        assert_eq!(of(Status::OK, Method::Get, Some(5)), Some(5));
        assert_eq!(of(Status::OK, Method::Get, None), None);
        assert_eq!(of(Status::OK, Method::Head, Some(5)), Some(5));
        assert_eq!(of(Status::OK, Method::Head, None), Some(7));
        assert_eq!(of(Status::NOT_MODIFIED, Method::Get, Some(0)), Some(7));
        assert_eq!(of(Status::NO_CONTENT, Method::Get, Some(0)), None);
        assert_eq!(of(Status::EARLY_HINTS, Method::Get, None), None);
    }
}
