//! Servers behind this one.

use std::fmt;
use std::path::{Path, PathBuf};

/// A server that requests may be handed on to, over HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The scheme of its URL.
    pub scheme: UpstreamScheme,
    /// The socket in the file system that it listens on, instead of a port.
    pub socket: Option<PathBuf>,
    /// Its address, IPv6 in brackets, or its name, in small letters.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The scheme of an upstream's URL. `ws` and `http` mean the same server, and so do `wss` and
/// `https`: a WebSocket begins with a request of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamScheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
    /// Without TLS.
    Ws,
    /// Over TLS.
    Wss,
}

impl UpstreamScheme {
    const ALL: [UpstreamScheme; 4] =
        [UpstreamScheme::Http, UpstreamScheme::Https, UpstreamScheme::Ws, UpstreamScheme::Wss];

    /// Returns whether connections are encrypted.
    pub fn is_tls(self) -> bool {
        matches!(self, UpstreamScheme::Https | UpstreamScheme::Wss)
    }

    /// Returns the beginning of a URL of this scheme.
    fn prefix(self) -> &'static str {
        match self {
            UpstreamScheme::Http => "http://",
            UpstreamScheme::Https => "https://",
            UpstreamScheme::Ws => "ws://",
            UpstreamScheme::Wss => "wss://",
        }
    }

    /// Returns the port of a URL that names none (RFC 9110 §4.2, RFC 6455 §3).
    fn default_port(self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }
}

impl Upstream {
    /// The server that a URL names, as `http://host:port/path` or `unix:/socket|http://host/path`,
    /// and what follows behind it. `None` if the URL names no server.
    pub(crate) fn split(url: &[u8]) -> Option<(Upstream, &[u8])> {
        let (socket, url) = match strip(url, b"unix:") {
            Some(rest) => {
                // A rule's URL has been escaped.
                let is_bar =
                    |at: &usize| rest[*at] == b'|' || strip(&rest[*at..], b"%7c").is_some();
                let bar = (0..rest.len()).find(is_bar)?;
                let length = if rest[bar] == b'|' { 1 } else { 3 };
                let socket = std::str::from_utf8(&rest[..bar]).ok()?;
                let socket = Path::new(socket);
                if !socket.is_absolute() {
                    return None;
                }
                (Some(socket), &rest[bar + length..])
            }
            None => (None, url),
        };
        let (scheme, rest) = UpstreamScheme::ALL
            .into_iter()
            .find_map(|scheme| Some((scheme, strip(url, scheme.prefix().as_bytes())?)))?;
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let authority = std::str::from_utf8(&rest[..end]).ok()?;
        let (host, port) = host_and_port(authority, scheme.default_port())?;
        let upstream = Upstream {
            scheme,
            socket: socket.map(Path::to_path_buf),
            host: host.to_ascii_lowercase(),
            port,
        };
        Some((upstream, &rest[end..]))
    }

    /// Returns the name of the host, which has to be looked up; `None` for an address, for
    /// `localhost`, and for a socket.
    pub fn name(&self) -> Option<&str> {
        let host = self.host.trim_matches(['[', ']']);
        let is_known = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
        (self.socket.is_none() && !is_known).then_some(host)
    }

    /// Returns path and query of `url`, if `url` is this server's. A URL that names no socket is
    /// also that of a server on one. `None` for a URL of another server.
    pub fn path_of<'u>(&self, url: &'u [u8]) -> Option<&'u [u8]> {
        let (named, rest) = Upstream::split(url)?;
        let is_same = named.host == self.host
            && named.port == self.port
            && named.scheme.is_tls() == self.scheme.is_tls();
        (is_same && (named.socket.is_none() || named.socket == self.socket)).then_some(rest)
    }

    /// Host and port as Host and URLs have them.
    pub fn authority(&self) -> String {
        match self.port {
            port if port == self.scheme.default_port() => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(socket) = &self.socket {
            write!(f, "unix:{}|", socket.display())?;
        }
        write!(f, "{}{}", self.scheme.prefix(), self.authority())
    }
}

/// Returns the text after `prefix`, whose letters may be of any case.
fn strip<'t>(text: &'t [u8], prefix: &[u8]) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The parts of a URL's authority; a name, an address, or one in brackets, and nothing else.
fn host_and_port(authority: &str, default_port: u16) -> Option<(&str, u16)> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if is_digits(port) => {
            (host, port.parse().ok().filter(|port| *port > 0)?)
        }
        _ => (authority, default_port),
    };
    let is_sound = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !host.is_empty() && host.bytes().all(plain)
        }
    };
    is_sound.then_some((host, port))
}
