//! One connection of the admin listener: one request, one answer.

use std::net::IpAddr;
use std::time::Duration;

use howdah_http::h1::{self, HeadProgress};
use howdah_http::{Limits, Method, Request, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::Admin;
use super::answer::{self, AdminAnswer};
use super::connection_limit::AdminPlace;

/// Time in which a request must arrive and its answer must be taken.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of a request. Beyond it: 431.
const MOST_BYTES: usize = 16 * 1024;

/// A client's connection.
pub(super) trait AdminStream: AsyncRead + AsyncWrite + Unpin {
    /// The client has connected through the file system.
    const IS_UNIX: bool;

    /// Lets the system drop what the client has not taken, once the connection is closed. It would
    /// keep that for minutes.
    fn forget_unsent(&self);
}

impl AdminStream for TcpStream {
    const IS_UNIX: bool = false;

    fn forget_unsent(&self) {
        // The system's memory has a bound of its own.
        let _ = self.set_zero_linger();
    }
}

impl AdminStream for UnixStream {
    const IS_UNIX: bool = true;

    fn forget_unsent(&self) {}
}

/// Answers one request, of which some bytes were `received`, and closes the connection. An exchange
/// that takes too long is cut off, and so is one whose place another connection needs: no request
/// has come, or the client has not taken its answer.
pub(super) async fn serve<S: AdminStream>(
    admin: &Admin,
    mut stream: S,
    received: Vec<u8>,
    mut place: AdminPlace,
) {
    let exchange = async {
        let mut request = Request::new();
        let heard = hear(admin, &mut stream, received, &mut request);
        let Some(Ok(Some(answer))) = place.hear(heard).await else {
            return true;
        };
        // A client that is gone gets nothing.
        place.send(&mut stream, &answer.encode(&request)).await.is_some()
    };
    let is_over = tokio::time::timeout(TIME, exchange).await;
    if !is_over.unwrap_or(false) {
        stream.forget_unsent();
    }
}

/// Receives a request, and returns the answer; `None` at the end of the stream.
async fn hear<S: AdminStream>(
    admin: &Admin,
    stream: &mut S,
    mut input: Vec<u8>,
    request: &mut Request,
) -> std::io::Result<Option<AdminAnswer>> {
    let limits = Limits { body: 1, ..Limits::default() };
    loop {
        match h1::parse_request(&input, &limits, request) {
            Ok(HeadProgress::Complete(_)) => return Ok(Some(respond(admin, request, S::IS_UNIX))),
            Ok(HeadProgress::Incomplete) if input.len() >= MOST_BYTES => {
                return Ok(Some(AdminAnswer::error(Status::REQUEST_HEADER_FIELDS_TOO_LARGE)));
            }
            Ok(HeadProgress::Incomplete) => {}
            Err(refusal) => return Ok(Some(AdminAnswer::error(refusal.status))),
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(None);
        }
    }
}

fn respond(admin: &Admin, request: &Request, is_unix: bool) -> AdminAnswer {
    // OPTIONS gets the status of GET: HAProxy's `option httpchk /readyz` asks with it.
    if !matches!(request.method, Method::Get | Method::Head | Method::Options) {
        return AdminAnswer::error(Status::METHOD_NOT_ALLOWED);
    }
    if !(is_unix || may_ask(request, &admin.shared.config.admin_hosts)) {
        return AdminAnswer::error(Status::FORBIDDEN);
    }
    answer::of(admin, request)
}

/// Returns whether the request is no other site's. A page of another site could name this server by
/// a host name of its own (DNS rebinding), or send requests from its own origin. Every browser
/// names a host; health checks with HTTP/1.0 may name none.
fn may_ask(request: &Request, hosts: &[String]) -> bool {
    let host = String::from_utf8_lossy(request.host());
    let is_known = request.authority.is_empty()
        || host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || hosts.iter().any(|known| host.eq_ignore_ascii_case(known));
    let is_own_origin = |origin: &[u8]| {
        let authority = origin.strip_prefix(b"http://").or(origin.strip_prefix(b"https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(&request.authority))
    };
    let is_same_site = |site: &[u8]| matches!(site, b"same-origin" | b"none");
    let fields = &request.fields;
    is_known
        && fields.values(b"origin").all(is_own_origin)
        && fields.values(b"sec-fetch-site").all(is_same_site)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> Request {
        let mut request = Request::new();
        let head = format!("GET / HTTP/1.1\r\n{head}\r\n\r\n");
        h1::parse_request(head.as_bytes(), &Limits::default(), &mut request).unwrap();
        request
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let hosts = ["metrics.example.org".to_owned()];
        for (head, expected) in [
            ("Host: 127.0.0.1:9180", true),
            ("Host: [::1]:9180", true),
            ("Host: localhost:9180", true),
            ("Host: metrics.example.org", true),
            ("Host: attacker.example", false),
            ("Host: localhost.attacker.example", false),
            ("Host: 127.0.0.1:9180\r\nOrigin: http://127.0.0.1:9180", true),
            ("Host: 127.0.0.1:9180\r\nOrigin: http://attacker.example", false),
            ("Host: 127.0.0.1:9180\r\nOrigin: null", false),
            ("Host: 127.0.0.1:9180\r\nSec-Fetch-Site: same-origin", true),
            ("Host: 127.0.0.1:9180\r\nSec-Fetch-Site: cross-site", false),
        ] {
            assert_eq!(may_ask(&asked(head), &hosts), expected, "{head}");
        }
    }

    #[test]
    fn a_health_check_with_http_1_0_names_no_host() {
        for (head, expected) in [
            ("OPTIONS / HTTP/1.0\r\n\r\n", true),
            ("GET /readyz HTTP/1.0\r\nHost: attacker.example\r\n\r\n", false),
            ("GET http://attacker.example/readyz HTTP/1.0\r\n\r\n", false),
            ("GET /readyz HTTP/1.0\r\nOrigin: http://attacker.example\r\n\r\n", false),
        ] {
            let mut request = Request::new();
            h1::parse_request(head.as_bytes(), &Limits::default(), &mut request).unwrap();
            assert_eq!(may_ask(&request, &[]), expected, "{head}");
        }
    }
}
