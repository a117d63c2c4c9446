//! The variables `%{NAME}` of mod_rewrite's strings and of expressions: the server's, the
//! connection's and the request's.

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;

use howdah_http::{Scheme, date};

use crate::evaluation_context::EvaluationContext;
use crate::transaction::{FileKind, Transaction};
use crate::work;

/// The variables with fixed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerVariable {
    ApiVersion,
    AuthType,
    DocumentRoot,
    Filename,
    HopAddress,
    Https,
    Ipv6,
    IsSubrequest,
    LocalAddress,
    LocalPort,
    Method,
    PathInfo,
    Protocol,
    QueryString,
    RemoteAddress,
    RemotePort,
    RemoteUser,
    RequestLine,
    Scheme,
    Administrator,
    Name,
    Software,
    Time(TimeVariable),
    Uri,
    Owner,
    OwnerGroup,
}

/// The parts of the local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeVariable {
    All,
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Weekday,
}

/// Returns the variable of a name without a colon, given in capitals. `None` if there is no such
/// variable.
pub(crate) fn fixed(name: &[u8]) -> Option<ServerVariable> {
    Some(match name {
        b"API_VERSION" => ServerVariable::ApiVersion,
        b"AUTH_TYPE" => ServerVariable::AuthType,
        b"DOCUMENT_ROOT" | b"CONTEXT_DOCUMENT_ROOT" => ServerVariable::DocumentRoot,
        b"REQUEST_FILENAME" | b"SCRIPT_FILENAME" => ServerVariable::Filename,
        b"HTTPS" => ServerVariable::Https,
        b"IPV6" => ServerVariable::Ipv6,
        b"IS_SUBREQ" => ServerVariable::IsSubrequest,
        b"SERVER_ADDR" => ServerVariable::LocalAddress,
        b"SERVER_PORT" => ServerVariable::LocalPort,
        b"REQUEST_METHOD" => ServerVariable::Method,
        b"PATH_INFO" => ServerVariable::PathInfo,
        b"SERVER_PROTOCOL" => ServerVariable::Protocol,
        b"QUERY_STRING" => ServerVariable::QueryString,
        // Names of clients are never looked up, as with HostnameLookups Off: REMOTE_HOST is the
        // address.
        b"REMOTE_ADDR" | b"REMOTE_HOST" => ServerVariable::RemoteAddress,
        b"CONN_REMOTE_ADDR" => ServerVariable::HopAddress,
        b"REMOTE_PORT" => ServerVariable::RemotePort,
        b"REMOTE_USER" => ServerVariable::RemoteUser,
        b"THE_REQUEST" => ServerVariable::RequestLine,
        b"REQUEST_SCHEME" => ServerVariable::Scheme,
        b"SERVER_ADMIN" => ServerVariable::Administrator,
        b"SERVER_NAME" => ServerVariable::Name,
        b"SERVER_SOFTWARE" => ServerVariable::Software,
        b"SCRIPT_USER" => ServerVariable::Owner,
        b"SCRIPT_GROUP" => ServerVariable::OwnerGroup,
        b"TIME" => ServerVariable::Time(TimeVariable::All),
        b"TIME_YEAR" => ServerVariable::Time(TimeVariable::Year),
        b"TIME_MON" => ServerVariable::Time(TimeVariable::Month),
        b"TIME_DAY" => ServerVariable::Time(TimeVariable::Day),
        b"TIME_HOUR" => ServerVariable::Time(TimeVariable::Hour),
        b"TIME_MIN" => ServerVariable::Time(TimeVariable::Minute),
        b"TIME_SEC" => ServerVariable::Time(TimeVariable::Second),
        b"TIME_WDAY" => ServerVariable::Time(TimeVariable::Weekday),
        b"REQUEST_URI" => ServerVariable::Uri,
        _ => return None,
    })
}

/// Returns the request field of a variable's name, such as `HTTP_HOST`. `None` if the variable is
/// no field.
pub(crate) fn field(name: &[u8]) -> Option<&'static [u8]> {
    Some(match name {
        b"HTTP_ACCEPT" => b"Accept",
        b"HTTP_COOKIE" => b"Cookie",
        b"HTTP_FORWARDED" => b"Forwarded",
        b"HTTP_HOST" => b"Host",
        b"HTTP_PROXY_CONNECTION" => b"Proxy-Connection",
        b"HTTP_REFERER" => b"Referer",
        b"HTTP_USER_AGENT" => b"User-Agent",
        _ => return None,
    })
}

impl ServerVariable {
    /// Returns the value.
    pub fn value<'t>(
        self,
        transaction: &'t Transaction<'_>,
        context: &mut dyn EvaluationContext,
    ) -> Cow<'t, [u8]> {
        let (client, state) = (&transaction.client, &transaction.state);
        Cow::Borrowed(match self {
            ServerVariable::Filename => &state.filename,
            ServerVariable::Uri => &state.uri,
            ServerVariable::QueryString => state.args.as_deref().unwrap_or_default(),
            ServerVariable::Method => state.method.as_str().as_bytes(),
            ServerVariable::PathInfo => &state.path_info,
            ServerVariable::DocumentRoot => &state.document_root,
            ServerVariable::RemoteUser => state.user.as_deref().unwrap_or_default(),
            ServerVariable::AuthType => state.auth_type.unwrap_or_default().as_bytes(),
            ServerVariable::Https if client.scheme() == Scheme::Https => b"on",
            ServerVariable::Https => b"off",
            ServerVariable::Scheme => scheme(transaction),
            ServerVariable::IsSubrequest if state.is_subrequest => b"true",
            ServerVariable::IsSubrequest => b"false",
            ServerVariable::Protocol if state.is_subrequest => b"INCLUDED",
            ServerVariable::Protocol => client.version().as_str().as_bytes(),
            ServerVariable::Name if !client.authority().is_empty() => client.host(),
            ServerVariable::Name => return server_name(transaction).into_owned().into(),
            ServerVariable::Ipv6 if is_ipv6(client.remote().ip()) => b"on",
            ServerVariable::Ipv6 => b"off",
            ServerVariable::Software => SERVER_SOFTWARE,
            ServerVariable::Administrator => SERVER_ADMIN,
            ServerVariable::ApiVersion => b"20120211:142",
            ServerVariable::Owner | ServerVariable::OwnerGroup => {
                return owner(self, transaction, context).into();
            }
            ServerVariable::LocalAddress => return printed(client.local().ip().to_canonical()),
            ServerVariable::LocalPort => return printed(client.server_port()),
            ServerVariable::RemoteAddress => return printed(client.remote().ip().to_canonical()),
            ServerVariable::HopAddress => return printed(client.hop().ip().to_canonical()),
            ServerVariable::RemotePort => return printed(client.remote().port()),
            ServerVariable::RequestLine => return request_line(transaction).into(),
            ServerVariable::Time(part) => return time(part, transaction, context).into(),
        })
    }
}

/// Returns the value of a request field; several lines are joined by commas.
pub(crate) fn field_value<'s>(transaction: &'s Transaction<'_>, name: &'s [u8]) -> Cow<'s, [u8]> {
    let mut values = transaction.request_values(name);
    let first = values.next().unwrap_or_default();
    let mut joined = Cow::Borrowed(first);
    for value in values {
        transaction.client.meter().note(1 + work::bytes(value.len()));
        joined.to_mut().extend_from_slice(b", ");
        joined.to_mut().extend_from_slice(value);
    }
    joined
}

/// Returns a variable as mod_ssl looks it up (`ssl_var_lookup`), by its name in any case: one of
/// TLS, of the server or of the request, `HTTP:field`, or `ENV:variable`. `None` for a variable
/// without a value, as every `SSL_` one is over http. HTTPS is `on` or `off` by the scheme, which a
/// trusted proxy may have named.
pub(crate) fn tls_variable<'t>(
    transaction: &'t Transaction<'_>,
    context: &mut dyn EvaluationContext,
    name: &'t [u8],
) -> Option<Cow<'t, [u8]>> {
    let capitals = name.to_ascii_uppercase();
    let found = if capitals.starts_with(b"SSL_") {
        // Some are read from a certificate each time.
        transaction.client.meter().note(work::PROBE);
        transaction.client.tls_variable(&capitals)
    } else if capitals.starts_with(b"ENV:") {
        transaction.variable(&name[4..]).map(Cow::Borrowed)
    } else if capitals.starts_with(b"HTTP:") {
        Some(field_value(transaction, &name[5..]))
    } else if let Some(field) = field(&capitals) {
        Some(field_value(transaction, field))
    } else {
        fixed(&capitals).map(|server| server.value(transaction, context))
    };
    found.filter(|value| !value.is_empty())
}

/// `http` or `https`.
pub(crate) fn scheme(transaction: &Transaction<'_>) -> &'static [u8] {
    match transaction.client.scheme() {
        Scheme::Http => b"http",
        Scheme::Https => b"https",
    }
}

/// Returns the host that the client named, or the address that it reached where it named none
/// (HTTP/1.0).
fn server_name<'t>(transaction: &'t Transaction<'_>) -> Cow<'t, [u8]> {
    let client = &transaction.client;
    match client.local().ip().to_canonical() {
        _ if !client.authority().is_empty() => Cow::Borrowed(client.host()),
        IpAddr::V4(address) => printed(address),
        IpAddr::V6(address) => Cow::Owned(format!("[{address}]").into_bytes()),
    }
}

/// Returns `scheme://host[:port]` of this server, as the client knows it.
pub(crate) fn origin(transaction: &Transaction<'_>) -> Vec<u8> {
    let mut origin = [scheme(transaction), b"://", &server_name(transaction)].concat();
    let port = transaction.client.server_port();
    if port != transaction.client.scheme().default_port() {
        // Writing to memory cannot fail.
        let _ = write!(origin, ":{port}");
    }
    origin
}

fn request_line(transaction: &Transaction<'_>) -> Vec<u8> {
    let request = transaction.client.request();
    let (method, version) = (request.method.as_str(), request.version.as_str());
    let (origin, target) = (&request.origin[..], &request.target[..]);
    [method.as_bytes(), b" ", origin, target, b" ", version.as_bytes()].concat()
}

/// Returns the owner of a file, or of its folder where the file is missing.
fn owner(
    which: ServerVariable,
    transaction: &Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> Vec<u8> {
    let state = &transaction.state;
    let end = match state.found {
        FileKind::Missing => memchr::memrchr(b'/', &state.filename).unwrap_or_default(),
        FileKind::File | FileKind::Directory => state.filename.len(),
    };
    let unrepeatable = transaction.client.depends_on_everything();
    let owners = context.host().owners(unrepeatable, &state.filename[..end]).unwrap_or_default();
    let name = if which == ServerVariable::Owner {
        owners.user
    } else {
        owners.group
    };
    name.map_or_else(|| b"<unknown>".to_vec(), Vec::from)
}

fn is_ipv6(address: IpAddr) -> bool {
    address.to_canonical().is_ipv6()
}

fn time(
    part: TimeVariable,
    transaction: &Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> Vec<u8> {
    let seconds = transaction.client.time() / 1_000_000;
    let zone = context.host().zone(transaction.client.depends_on_everything(), seconds);
    let local = seconds.saturating_add_signed(i64::from(zone));
    // Such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    let text = date::format(local);
    let weekday = place_of(&text[..3], WEEKDAYS);
    let month = format!("{:02}", 1 + place_of(&text[8..11], MONTHS));
    match part {
        TimeVariable::All => [
            &text[12..16],
            month.as_bytes(),
            &text[5..7],
            &text[17..19],
            &text[20..22],
            &text[23..25],
        ]
        .concat(),
        TimeVariable::Year => text[12..16].to_vec(),
        TimeVariable::Month => month.into_bytes(),
        TimeVariable::Day => text[5..7].to_vec(),
        TimeVariable::Hour => text[17..19].to_vec(),
        TimeVariable::Minute => text[20..22].to_vec(),
        TimeVariable::Second => text[23..25].to_vec(),
        TimeVariable::Weekday => weekday.to_string().into_bytes(),
    }
}

fn place_of(name: &[u8], names: &[u8]) -> usize {
    names.chunks(3).position(|candidate| candidate == name).unwrap_or(0)
}

fn printed(value: impl std::fmt::Display) -> Cow<'static, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

const WEEKDAYS: &[u8] = b"SunMonTueWedThuFriSat";
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
/// `SERVER_ADMIN`, in the words of an Apache without the directive ServerAdmin: some programs put
/// the variable into their pages and do not ask whether it is there.
pub const SERVER_ADMIN: &[u8] = b"[no address given]";
/// `SERVER_SOFTWARE`, as directives and scripts see it.
///
/// WordPress, and others after it, look for the word `Apache` to learn whether they may write
/// rewrite rules and pretty addresses for it. A script's view of Howdah is Apache's, so the word is
/// there.
pub const SERVER_SOFTWARE: &[u8] = concat!(
    "Howdah/",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR"),
    " (Apache)"
)
.as_bytes();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientRequest;
    use crate::testing::{Nowhere, request, transaction};

    fn value(transaction: &Transaction<'_>, name: &str) -> String {
        let variable = fixed(name.as_bytes()).expect(name);
        let value = variable.value(transaction, &mut Nowhere::default());
        String::from_utf8_lossy(&value).into_owned()
    }

    #[test]
    fn of_a_client_that_names_no_host() {
        let request = request("/x", "");
        let mut tx = transaction(&request);
        for (name, expected) in [
            ("SERVER_NAME", "192.0.2.2"),
            ("SERVER_PORT", "80"),
            ("HTTPS", "off"),
            ("IPV6", "off"),
            ("API_VERSION", "20120211:142"),
            ("SCRIPT_USER", "<unknown>"),
            ("SCRIPT_GROUP", "<unknown>"),
            ("IS_SUBREQ", "false"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
        ] {
            assert_eq!(value(&tx, name), expected, "{name}");
        }
        assert!(value(&tx, "SERVER_SOFTWARE").contains("Apache"));
        tx.state.is_subrequest = true;
        assert_eq!(value(&tx, "IS_SUBREQ"), "true");
        assert_eq!(value(&tx, "SERVER_PROTOCOL"), "INCLUDED");
    }

    #[test]
    fn of_an_encrypted_connection_over_version_6() {
        let mut request = request("/x", "");
        request.scheme = Scheme::Https;
        let mut tx = transaction(&request);
        let address = |text: &str| text.parse().expect("an address");
        let (client, server) = (address("[2001:db8::1]:1234"), address("[2001:db8::2]:8443"));
        tx.client = ClientRequest::new(&request, client, server, 0);
        for (name, expected) in [
            ("HTTPS", "on"),
            ("IPV6", "on"),
            ("SERVER_NAME", "[2001:db8::2]"),
            ("SERVER_PORT", "8443"),
        ] {
            assert_eq!(value(&tx, name), expected, "{name}");
        }
        assert_eq!(origin(&tx), b"https://[2001:db8::2]:8443");
    }

    #[test]
    fn an_origin_has_its_port_where_that_is_not_the_usual_one() {
        for (authority, expected) in [
            ("example.org", "http://example.org"),
            ("example.org:80", "http://example.org"),
            ("example.org:8080", "http://example.org:8080"),
        ] {
            let mut request = request("/x", "");
            request.authority = authority.into();
            assert_eq!(origin(&transaction(&request)), expected.as_bytes(), "{authority}");
        }
    }

    #[test]
    fn fields_have_names_of_their_own() {
        for (name, expected) in [
            ("HTTP_FORWARDED", Some("Forwarded")),
            ("HTTP_PROXY_CONNECTION", Some("Proxy-Connection")),
            ("HTTP_X_OTHER", None),
        ] {
            assert_eq!(field(name.as_bytes()), expected.map(str::as_bytes), "{name}");
        }
    }
}
