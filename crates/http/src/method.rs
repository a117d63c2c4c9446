//! Request methods (RFC 9110 §9).

use std::fmt;

use crate::scan;

/// A request method. Methods are case-sensitive: `get` is an extension method without an
/// implementation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// RFC 9110 §9.3.1.
    #[default]
    Get,
    /// RFC 9110 §9.3.2.
    Head,
    /// RFC 9110 §9.3.3.
    Post,
    /// RFC 9110 §9.3.4.
    Put,
    /// RFC 9110 §9.3.5.
    Delete,
    /// RFC 9110 §9.3.6.
    Connect,
    /// RFC 9110 §9.3.7.
    Options,
    /// RFC 9110 §9.3.8.
    Trace,
    /// RFC 5789.
    Patch,
    /// Any other token, such as WebDAV's `PROPFIND`. The only kind that allocates.
    Other(Box<str>),
}

impl Method {
    /// Returns the method of that name. `None`: the bytes are not a token (RFC 9110 §5.6.2).
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Option<Method> {
        Some(match bytes {
            b"GET" => Method::Get,
            b"POST" => Method::Post,
            b"HEAD" => Method::Head,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            other => return Method::extension(other),
        })
    }

    #[cold]
    fn extension(bytes: &[u8]) -> Option<Method> {
        if !scan::is_token(bytes) {
            return None;
        }
        std::str::from_utf8(bytes).ok().map(|text| Method::Other(text.into()))
    }

    /// Returns the method as it is on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(text) => text,
        }
    }

    /// Returns whether the method asks for no change on the server (RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// Returns whether sending the request twice means the same as sending it once (RFC 9110
    /// §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_comes_back_as_it_was_written() {
        let names = [
            "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
            "PROPFIND", "get",
        ];
        for name in names {
            assert_eq!(Method::from_bytes(name.as_bytes()).unwrap().as_str(), name);
        }
    }

    #[test]
    fn methods_are_case_sensitive() {
        assert_eq!(Method::from_bytes(b"get"), Some(Method::Other("get".into())));
    }

    #[test]
    fn what_is_no_token_is_no_method() {
        for bytes in [&b""[..], b"G ET", b"GET\0", b"G\xc3\x89T", b"GET,", b"(GET)"] {
            assert_eq!(Method::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn safe_and_idempotent() {
        let table = [
            (Method::Get, true, true),
            (Method::Head, true, true),
            (Method::Options, true, true),
            (Method::Trace, true, true),
            (Method::Put, false, true),
            (Method::Delete, false, true),
            (Method::Post, false, false),
            (Method::Patch, false, false),
            (Method::Connect, false, false),
            (Method::Other("GET2".into()), false, false),
        ];
        for (method, safe, idempotent) in table {
            assert_eq!((method.is_safe(), method.is_idempotent()), (safe, idempotent), "{method}");
        }
    }
}
