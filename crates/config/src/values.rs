//! The typed values that settings hold, beyond what the standard library names.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::log_format::LogFormat;
use crate::system_log::SystemLog;

/// A number of things, or as many as suit the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Chosen from the number of processors.
    Auto,
    /// Exactly this many; never zero.
    Exactly(usize),
}

impl Count {
    /// The number meant, where `automatic` is what suits this machine.
    pub fn resolve(self, automatic: usize) -> usize {
        match self {
            Count::Auto => automatic.max(1),
            Count::Exactly(number) => number,
        }
    }
}

/// The files that a configuration includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Includes {
    /// The patterns, as written.
    pub patterns: Vec<String>,
    /// The files that were found and read, those included by included files among them.
    pub files: Vec<PathBuf>,
}

/// A number of events in a time, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    seconds: u64,
}

impl Rate {
    /// No limit.
    pub const OFF: Rate = Rate { count: 0, seconds: 0 };

    /// `count` events, at least 1, in that many seconds.
    pub(crate) fn new(count: u32, seconds: u64) -> Rate {
        Rate { count, seconds }
    }

    /// The number of events; 0 is no limit.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The time in seconds; 0 where there is no limit.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// Nanoseconds between two events; 0 is no limit.
    pub fn interval(self) -> u64 {
        let time = self.seconds.saturating_mul(1_000_000_000);
        time.checked_div(u64::from(self.count)).unwrap_or(0)
    }
}

/// A way to show an authority for certificates that a name leads to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file on port 80.
    Http01,
    /// A certificate on port 443.
    TlsAlpn01,
    /// A DNS record.
    Dns01,
}

impl AcmeChallenge {
    /// All challenges.
    pub const ALL: [AcmeChallenge; 3] =
        [AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01, AcmeChallenge::Dns01];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Dns01 => "dns-01",
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Where a site's certificates come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// From files; without any, the site has no certificate.
    Files,
    /// From the local authority, for development.
    Internal,
    /// Ordered from the authorities of `[acme]`.
    Auto,
}

/// The treatment of a client without a certificate, where a site asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientVerify {
    /// The handshake fails.
    Require,
    /// The client is served. Rules and scripts see that it has shown none.
    Optional,
}

/// A list of cipher suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherPolicy {
    /// Every suite with forward secrecy and authenticated encryption.
    Intermediate,
    /// TLS 1.3, and TLS 1.2 with ECDSA.
    Modern,
}

/// A field in which a trusted proxy speaks for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedField {
    /// Forwarded (RFC 7239): all of it.
    Forwarded,
    /// X-Forwarded-For: the client's address.
    For,
    /// X-Forwarded-Proto: the scheme.
    Proto,
    /// X-Forwarded-Host: the host.
    Host,
    /// X-Forwarded-Port: the port that the client asked.
    Port,
}

impl ForwardedField {
    /// Every field.
    pub const ALL: [ForwardedField; 5] = [
        ForwardedField::For,
        ForwardedField::Proto,
        ForwardedField::Host,
        ForwardedField::Port,
        ForwardedField::Forwarded,
    ];

    /// The field's name.
    pub fn name(self) -> &'static str {
        match self {
            ForwardedField::Forwarded => "Forwarded",
            ForwardedField::For => "X-Forwarded-For",
            ForwardedField::Proto => "X-Forwarded-Proto",
            ForwardedField::Host => "X-Forwarded-Host",
            ForwardedField::Port => "X-Forwarded-Port",
        }
    }
}

/// The name of a user of this machine. Two names are equal if their texts are, wherever the file
/// has them.
#[derive(Clone, Debug)]
pub struct UserName {
    name: String,
    place: Option<String>,
}

impl UserName {
    /// A name that `place` of the configuration, as `file:line:column`, gives.
    pub(crate) fn at(name: &str, place: String) -> UserName {
        UserName {
            place: Some(place),
            ..UserName::from(name)
        }
    }

    /// The place of the name in the configuration, as `file:line:column`; `None` if no file has it.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }
}

impl From<&str> for UserName {
    fn from(name: &str) -> UserName {
        UserName { name: name.to_owned(), place: None }
    }
}

impl Deref for UserName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq for UserName {
    fn eq(&self, other: &UserName) -> bool {
        self.name == other.name
    }
}

/// How many workers a pool keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// As many as requests need and the memory has room for.
    Auto,
    /// All of them.
    Static,
    /// As many as are busy, and some that are free.
    Dynamic,
    /// As many as requests need.
    OnDemand,
}

impl PoolMode {
    /// Every mode.
    pub const ALL: [PoolMode; 4] =
        [PoolMode::Auto, PoolMode::Static, PoolMode::Dynamic, PoolMode::OnDemand];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Auto => "auto",
            PoolMode::Static => "static",
            PoolMode::Dynamic => "dynamic",
            PoolMode::OnDemand => "ondemand",
        }
    }
}

/// The name under which PHP says that it runs: `PHP_SAPI`, `php_sapi_name()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sapi {
    /// The name of Apache's module.
    Apache2handler,
    /// The name of php-fpm.
    FpmFcgi,
}

impl Sapi {
    /// Every name.
    pub const ALL: [Sapi; 2] = [Sapi::Apache2handler, Sapi::FpmFcgi];

    /// The name as PHP gives it.
    pub fn name(self) -> &'static str {
        match self {
            Sapi::Apache2handler => "apache2handler",
            Sapi::FpmFcgi => "fpm-fcgi",
        }
    }
}

/// A content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstandard,
    /// gzip (RFC 1952).
    Gzip,
}

impl ContentCoding {
    /// All codings.
    pub const ALL: [ContentCoding; 3] =
        [ContentCoding::Brotli, ContentCoding::Zstandard, ContentCoding::Gzip];

    /// The coding's name in HTTP and in the configuration.
    pub fn token(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstandard => "zstd",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// The ending of files with this coding.
    pub fn suffix(self) -> &'static str {
        match self {
            ContentCoding::Brotli => ".br",
            ContentCoding::Zstandard => ".zst",
            ContentCoding::Gzip => ".gz",
        }
    }
}

/// A host name or names that a site answers for. Names are lower-case and without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Exactly this name, or this IP address (IPv6 in brackets, in its shortest form).
    Exact(String),
    /// Every name that ends in `.` and this suffix, at any depth: `*.example.org` holds
    /// `example.org` here.
    Wildcard(String),
    /// Every name that no other site answers for: `*`.
    Default,
}

impl HostPattern {
    /// Whether the pattern lists `host`, which is in lower case. `*` lists none.
    pub fn lists(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => name == host,
            HostPattern::Wildcard(suffix) => {
                let before = host.strip_suffix(suffix.as_str());
                before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
            }
            HostPattern::Default => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Wildcard(suffix) => write!(f, "*.{suffix}"),
            HostPattern::Default => f.write_str("*"),
        }
    }
}

/// A document root: one folder, or one folder per host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootTemplate {
    /// One folder for every name of the site.
    Fixed(PathBuf),
    /// `before` + the request's host name + `after`; the name is one whole component of the path.
    PerHost {
        /// Up to the name, ending in `/`.
        before: String,
        /// After the name: empty, or starting with `/`.
        after: String,
    },
}

impl RootTemplate {
    /// A root without a placeholder, whatever characters `path` holds.
    pub fn fixed(path: &Path) -> Self {
        RootTemplate::Fixed(path.to_path_buf())
    }

    /// The folder for `host`, which must have been checked to be a plain host name.
    pub fn expand(&self, host: &str) -> Cow<'_, Path> {
        match self {
            RootTemplate::Fixed(path) => Cow::Borrowed(path),
            RootTemplate::PerHost { before, after } => {
                Cow::Owned(PathBuf::from([before.as_str(), host, after.as_str()].concat()))
            }
        }
    }
}

impl fmt::Display for RootTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootTemplate::Fixed(path) => write!(f, "{}", path.display()),
            RootTemplate::PerHost { before, after } => write!(f, "{before}{{host}}{after}"),
        }
    }
}

/// Which symbolic links below a document root are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symlinks {
    /// Those whose target has the same owner as the link, as Apache's `SymLinksIfOwnerMatch`.
    Owner,
    /// All of them, as Apache's `FollowSymLinks`.
    Follow,
    /// Those that stay inside the document root.
    Inside,
}

/// How much of the machine a pool is kept from, beside its user's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sandbox {
    /// Nothing.
    Off,
    /// Other sites' files and processes, and system calls that no application of the web needs.
    Standard,
    /// All files but the site's and the system's, too.
    Strict,
}

impl Sandbox {
    /// Every level.
    pub const ALL: [Sandbox; 3] = [Sandbox::Off, Sandbox::Standard, Sandbox::Strict];

    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Sandbox::Off => "off",
            Sandbox::Standard => "standard",
            Sandbox::Strict => "strict",
        }
    }
}

/// A place that scripts may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A TCP port of one address.
    Tcp(SocketAddr),
    /// A TCP port of every address.
    Port(u16),
    /// A socket in the file system.
    Unix(PathBuf),
    /// UDP, to every address and port.
    Udp,
}

impl Destination {
    /// The TCP port, if it is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Destination::Tcp(address) => Some(address.port()),
            Destination::Port(port) => Some(*port),
            Destination::Unix(_) | Destination::Udp => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Tcp(address) => address.fmt(f),
            Destination::Port(port) => write!(f, "*:{port}"),
            Destination::Unix(path) => write!(f, "unix:{}", path.display()),
            Destination::Udp => f.write_str("udp"),
        }
    }
}

/// The directives that a site's `.htaccess` files may have, as Apache's `AllowOverride`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowOverride {
    /// The classes of directives that are allowed, each once.
    pub classes: Vec<OverrideClass>,
    /// The options that `Options=…` names, each as it was written; `None` is all.
    pub options: Option<Vec<String>>,
}

/// A class of directives, as Apache's manual gives one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideClass {
    /// Authorisation and authentication.
    AuthConfig,
    /// Types, rewriting, headers, environment.
    FileInfo,
    /// Listings and index files.
    Indexes,
    /// Order, Allow, Deny.
    Limit,
    /// Options and what needs it.
    Options,
}

impl OverrideClass {
    /// Every class.
    pub const ALL: [OverrideClass; 5] = [
        OverrideClass::AuthConfig,
        OverrideClass::FileInfo,
        OverrideClass::Indexes,
        OverrideClass::Limit,
        OverrideClass::Options,
    ];

    /// As Apache spells it.
    pub fn name(self) -> &'static str {
        match self {
            OverrideClass::AuthConfig => "AuthConfig",
            OverrideClass::FileInfo => "FileInfo",
            OverrideClass::Indexes => "Indexes",
            OverrideClass::Limit => "Limit",
            OverrideClass::Options => "Options",
        }
    }
}

impl AllowOverride {
    /// Everything: Apache's `AllowOverride All`.
    pub fn all() -> Self {
        AllowOverride {
            classes: OverrideClass::ALL.to_vec(),
            options: None,
        }
    }

    /// Nothing: Apache's `AllowOverride None`.
    pub fn none() -> Self {
        AllowOverride { classes: Vec::new(), options: None }
    }
}

/// One thing to try, in order, for a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryStep {
    /// `$uri`: the file that the path names, or the index file of the folder that it names.
    Uri,
    /// `$uri/`: the folder that the path names, even if it has no index file.
    UriDirectory,
    /// `$uri` with a suffix, such as `$uri.html`.
    UriSuffix(String),
    /// A fixed file or script below the root; it starts with `/`.
    Path(String),
    /// `=404`: this status. Only ever the last step.
    Status(u16),
}

impl fmt::Display for TryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryStep::Uri => f.write_str("$uri"),
            TryStep::UriDirectory => f.write_str("$uri/"),
            TryStep::UriSuffix(suffix) => write!(f, "$uri{suffix}"),
            TryStep::Path(path) => f.write_str(path),
            TryStep::Status(status) => write!(f, "={status}"),
        }
    }
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// The end of this file.
    File(PathBuf),
    /// The system's log.
    System(SystemLog),
}

/// How a line of the access log looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's and nginx's `combined`.
    Combined,
    /// One JSON object per line.
    Json,
    /// Any other format. Apache's `common` and `vhost_combined` have names.
    Own(LogFormat),
}

impl AccessFormat {
    /// Returns the words of a format that is none of Howdah's.
    pub fn own(&self) -> Option<&LogFormat> {
        match self {
            AccessFormat::Own(format) => Some(format),
            AccessFormat::Combined | AccessFormat::Json => None,
        }
    }
}

/// Where the error log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorTarget {
    /// Standard error.
    Stderr,
    /// The end of this file.
    File(PathBuf),
    /// The system's log.
    System(SystemLog),
}

/// How serious a line of the error log is, the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// A request, a process or a whole site failed.
    Error,
    /// Something needs attention, but requests are answered.
    Warning,
    /// A change of the server's state, such as its start or a reload.
    Notice,
    /// Ordinary events, and mistakes of clients.
    Info,
}

impl LogLevel {
    /// All levels, the most serious first.
    pub const ALL: [LogLevel; 4] =
        [LogLevel::Error, LogLevel::Warning, LogLevel::Notice, LogLevel::Info];

    /// The word for the level in the configuration and in the log.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warning => "warning",
            LogLevel::Notice => "notice",
            LogLevel::Info => "info",
        }
    }

    /// The level of that name.
    pub fn from_name(name: &[u8]) -> Option<LogLevel> {
        LogLevel::ALL.into_iter().find(|level| level.name().as_bytes() == name)
    }
}

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
    /// and what follows behind it.
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

    /// Returns path and query of `url`, if `url` is this server's. A URL that
    /// names no socket is also that of a server on one.
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
