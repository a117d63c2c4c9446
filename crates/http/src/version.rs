//! Protocol versions and URI schemes.

use std::fmt;

/// The protocol version of a request. HTTP/1.2 to 1.9 are treated as 1.1 (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0, RFC 1945.
    Http10,
    /// HTTP/1.1, RFC 9112.
    #[default]
    Http11,
    /// HTTP/2, RFC 9113.
    Http2,
    /// HTTP/3, RFC 9114.
    Http3,
}

impl Version {
    /// The version as access logs and `SERVER_PROTOCOL` write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }

    /// Returns whether each request has a stream of its own on its connection. The client can give
    /// up one alone, and fields can follow the content.
    pub fn has_streams(self) -> bool {
        matches!(self, Version::Http2 | Version::Http3)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The scheme of a request: a property of the connection, never of the request's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS.
    #[default]
    Http,
    /// Over TLS (or QUIC).
    Https,
}

impl Scheme {
    /// The name of the scheme: `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port that a URI of this scheme means when it names none (RFC 9110 §4.2).
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_schemes_have_the_names_that_scripts_know() {
        for (version, name, has_streams) in [
            (Version::Http10, "HTTP/1.0", false),
            (Version::Http11, "HTTP/1.1", false),
            (Version::Http2, "HTTP/2.0", true),
            (Version::Http3, "HTTP/3.0", true),
        ] {
            assert_eq!((version.as_str(), version.has_streams()), (name, has_streams));
        }
        for (scheme, name, port) in [(Scheme::Http, "http", 80), (Scheme::Https, "https", 443)] {
            assert_eq!((scheme.as_str(), scheme.default_port()), (name, port));
        }
    }
}
