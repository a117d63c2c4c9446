//! Forwarding a request to one of the site's `upstreams` over HTTP/1.1 (`RewriteRule … [P]`).
//!
//! The request's content is received completely first, as for a script: no slow client keeps an
//! upstream waiting. Each request has a connection of its own, for which no thread waits. The
//! response goes to the client as it arrives, as fast as the client takes it. Upstreams are not
//! trusted: their response heads are limited in size, and the framing is made anew.

mod reply;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use howdah_config::Upstream;
use howdah_http::{
    Content, Fields, Method, ResponseHead, Status, is_field_value, is_token, members,
};
use howdah_site::{Client, Ruled, Site};
use tokio::net::{TcpStream, UnixStream};

use super::script;
use crate::body::{Body, Received, Source};
use crate::observe::{Phase, RequestError, RespondError};
use crate::pipeline::{Head, RequestContext, Response, adjust};
use reply::{Duplex, Failure, Reply};

/// Hop-by-hop fields (RFC 9110 §7.6.1), and fields that are made anew for the upstream.
const OURS: [&[u8]; 14] = [
    b"connection",
    b"content-length",
    b"expect",
    b"host",
    b"keep-alive",
    b"proxy",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-server",
];

/// Forwards the request, and waits for the head of the response. `number` is the index of the
/// upstream in the site's `upstreams`.
///
/// # Errors
/// There is no response, and the reason.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<Ruled>>,
    (number, target): (usize, &[u8]),
    is_error: bool,
) -> Result<Response, RespondError> {
    let Some(upstream) = site.config().upstreams.get(number) else {
        return Err(Status::INTERNAL_SERVER_ERROR.into());
    };
    if asks_for_websocket(&context.request.fields) {
        return Err(Status::NOT_IMPLEMENTED.into());
    }
    let rules = ruled.as_deref().map(Rc::as_ref);
    let content = script::content(context, rules, is_error).await?;
    context.phase.set(Phase::WaitingForUpstream);
    let has_content = !is_error && context.request.content != Content::None;
    let length = has_content.then(|| content.length());
    let method = rules.map_or(&context.request.method, |ruled| &ruled.state.method);
    let request = Request {
        head: request_head(&context.client(), rules, upstream, target, length),
        content,
        is_head: *method == Method::Head,
    };
    let exchange = exchange(upstream, site.config().upstream_timeout, request);
    let is_gone = |poll: &mut std::task::Context<'_>| context.stream.poll_closed(poll);
    match script::unless(is_gone, exchange).await {
        None => Err(RequestError::gone(context.situation()).into()),
        Some(Err(error)) => Err(RequestError::upstream(context.situation(), &error).into()),
        Some(Ok((head, reply))) => {
            let length_hint = head.content_length().or(reply.length());
            let body = Body::Stream(Box::new(reply));
            let response = Response {
                length_hint,
                ..Response::new(Head::Own(head), body)
            };
            adjust(context, site, ruled, response).await
        }
    }
}

/// The failure of an upstream.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    upstream: String,
    failure: Failure,
}

impl UpstreamError {
    /// The status for the client.
    pub(crate) fn status(&self) -> Status {
        self.failure.status()
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.upstream, self.failure)
    }
}

fn asks_for_websocket(fields: &Fields) -> bool {
    let mut upgrades = fields.values(b"upgrade").flat_map(members);
    upgrades.any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// The request for an upstream.
struct Request {
    head: Vec<u8>,
    content: Received,
    is_head: bool,
}

/// Returns the request's head as mod_proxy_http writes it.
fn request_head(
    client: &Client<'_>,
    ruled: Option<&Ruled>,
    upstream: &Upstream,
    target: &[u8],
    length: Option<u64>,
) -> Vec<u8> {
    let state = ruled.map(|ruled| &ruled.state);
    let method = state.map_or(&client.request().method, |state| &state.method);
    let edited = state.and_then(|state| state.request_fields.as_ref());
    let fields = edited.unwrap_or(&client.request().fields);
    let mut head = [method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"].concat();
    let mut push = |name: &[u8], value: &[u8]| {
        if is_token(name) && is_field_value(value) {
            head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
    };
    push(b"Host", upstream.authority().as_bytes());
    for (name, value) in fields.iter() {
        if !is_ours(name, fields) {
            push(name, value);
        }
    }
    let remote = client.remote().ip().to_canonical().to_string();
    let host = fields.value(b"host").unwrap_or(&client.request().authority);
    for (name, value) in [
        (&b"X-Forwarded-For"[..], remote.as_bytes()),
        (b"X-Forwarded-Host", host),
        (b"X-Forwarded-Server", client.host()),
    ] {
        let sent = fields.values(name).chain([value]);
        let all: Vec<&[u8]> = sent.filter(|value| !value.is_empty()).collect();
        push(name, &all.join(&b", "[..]));
    }
    if let Some(length) = length {
        push(b"Content-Length", length.to_string().as_bytes());
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    head
}

/// Returns whether a field is not forwarded: it is one of [`OURS`], or Connection names it.
fn is_ours(name: &[u8], fields: &Fields) -> bool {
    let is = |other: &[u8]| other.eq_ignore_ascii_case(name);
    OURS.iter().any(|ours| is(ours)) || fields.values(b"connection").flat_map(members).any(is)
}

/// Sends a request, and waits for the head of the response to it.
async fn exchange(
    upstream: &Upstream,
    patience: Duration,
    request: Request,
) -> Result<(ResponseHead, Reply), UpstreamError> {
    let failed = |failure| UpstreamError { upstream: upstream.to_string(), failure };
    let stream = match tokio::time::timeout(patience, connect(upstream)).await {
        Ok(stream) => stream.map_err(|error| failed(Failure::Unreachable(error)))?,
        Err(_) => return Err(failed(Failure::Unreachable(io::ErrorKind::TimedOut.into()))),
    };
    let mut reply = Reply::new(upstream.to_string(), stream, patience);
    match reply.write(&request.head, request.content).await {
        // An upstream that refused the request early may have sent its response already.
        Ok(()) | Err(Failure::Broken(_)) => {}
        Err(failure) => return Err(failed(failure)),
    }
    let head = reply.read_head(request.is_head).await.map_err(failed)?;
    Ok((head, reply))
}

async fn connect(upstream: &Upstream) -> io::Result<Box<dyn Duplex>> {
    if let Some(socket) = &upstream.socket {
        return Ok(Box::new(UnixStream::connect(socket).await?));
    }
    let addresses: &[IpAddr] = match upstream.host.trim_matches(['[', ']']) {
        "localhost" => &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        host => &[host.parse().map_err(|_| io::ErrorKind::InvalidInput)?],
    };
    let mut failed = io::ErrorKind::InvalidInput.into();
    for address in addresses {
        match TcpStream::connect((*address, upstream.port)).await {
            Ok(stream) => return Ok(Box::new(stream)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests;
