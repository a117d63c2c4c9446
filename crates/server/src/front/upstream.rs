//! Requests that `RewriteRule … [P]` hands on: to one of the site's `upstreams`, over HTTP/1.1.
//!
//! The request's content is received whole first, as for a script, so no slow client keeps an
//! upstream waiting. Each request has a connection of its own, which no thread waits for. The
//! response goes to the client as it comes, as fast as the client takes it. What the upstream sends
//! is checked as if it came from a stranger: its head has a limit, and its framing is made anew.

mod reply;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use howdah_config::Upstream;
use howdah_htaccess::modules::filter::Filter;
use howdah_http::h1::{Framing, LAST_CHUNK, encode_head};
use howdah_http::{
    Content, Fields, Method, ResponseHead, Status, is_field_value, is_token, members,
};
use howdah_site::{Client, Ruled, Site};
use tokio::net::{TcpStream, UnixStream};

use super::answer::{Answer, Body, Head};
use super::body::Received;
use super::connection::{Connection, Cut};
use super::filtered::{Chain, frame};
use super::phase::Phase;
use super::rules::{self, Arrival};
use super::script;
use super::send::{self, Sent};
use super::trouble::{Failed, Trouble};
use super::workspace::Workspace;
use reply::Duplex;
pub(super) use reply::{Failure, Reply};

/// Fields that end at a hop (RFC 9110 §7.6.1), or that are made anew for the next.
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

/// Hands the request on, and waits for the head of the response. `number` is the upstream's among
/// the site's.
pub(super) async fn answer(
    connection: &mut Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<&mut Rc<Ruled>>,
    (number, target): (usize, &[u8]),
    is_error: bool,
) -> Result<Answer, Failed> {
    let Some(upstream) = site.config().upstreams.get(number) else {
        return Err(Status::INTERNAL_SERVER_ERROR.into());
    };
    if asks_for_websocket(&work.request.fields) {
        return Err(Status::NOT_IMPLEMENTED.into());
    }
    let content = script::content(
        connection,
        work,
        site,
        arrival,
        ruled.as_deref().map(Rc::as_ref),
        is_error,
    )
    .await?;
    connection.set_phase(Phase::WaitingForUpstream);
    let client = connection.client(&work.request, arrival.began);
    let has_content = !is_error && work.request.content != Content::None;
    let request = Request {
        head: request_head(
            &client,
            ruled.as_deref().map(Rc::as_ref),
            upstream,
            target,
            has_content.then(|| content.length()),
        ),
        content,
        is_head: ruled.as_deref().map_or(&work.request.method, |ruled| &ruled.state.method)
            == &Method::Head,
    };
    let exchange = exchange(upstream, site.config().upstream_timeout, request);
    match script::unless(|context| connection.poll_closed(context), exchange).await {
        None => Err(Trouble::gone(connection, &work.request, site).into()),
        Some(Err(failure)) => {
            let mut trouble =
                Trouble::upstream(connection, &work.request, &upstream.to_string(), &failure);
            trouble.site = Some(site.name().to_owned());
            Err(trouble.into())
        }
        Some(Ok((head, reply))) => {
            let length = head.content_length();
            let mut answer = Answer::new(Head::Plain(head), Body::Upstream(Box::new(reply)));
            answer.length = length;
            rules::dress(connection, work, site, arrival, ruled, answer)
        }
    }
}

fn asks_for_websocket(fields: &Fields) -> bool {
    let mut upgrades = fields.values(b"upgrade").flat_map(members);
    upgrades.any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// What an upstream is sent.
struct Request {
    head: Vec<u8>,
    content: Received,
    is_head: bool,
}

/// The request's head as mod_proxy_http writes it.
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

/// Whether a field does not go on as it is: it is one of [`OURS`], or Connection names it.
fn is_ours(name: &[u8], fields: &Fields) -> bool {
    let is = |other: &[u8]| other.eq_ignore_ascii_case(name);
    OURS.iter().any(|ours| is(ours)) || fields.values(b"connection").flat_map(members).any(is)
}

/// Sends a request, and waits for the head of the response to it.
async fn exchange(
    upstream: &Upstream,
    patience: Duration,
    request: Request,
) -> Result<(ResponseHead, Reply), Failure> {
    let stream = match tokio::time::timeout(patience, connect(upstream)).await {
        Ok(stream) => stream.map_err(Failure::Unreachable)?,
        Err(_) => return Err(Failure::Unreachable(io::ErrorKind::TimedOut.into())),
    };
    let mut reply = Reply::new(upstream.to_string(), stream, patience);
    match reply.write(&request.head, request.content).await {
        // Who refuses a request early may have answered all the same.
        Ok(()) | Err(Failure::Broken(_)) => {}
        Err(failure) => return Err(failure),
    }
    let head = reply.read_head(request.is_head).await?;
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

/// Sends a response on to the client as it comes.
pub(super) async fn send(
    connection: &mut Connection,
    work: &mut Workspace,
    head: &ResponseHead,
    mut reply: Reply,
    filters: &[Filter],
    persistent: bool,
) -> Sent {
    let length = reply.length().filter(|_| filters.is_empty());
    let request = &work.request;
    let is_empty = request.method == Method::Head;
    let framing =
        Framing::of(&request.method, request.version, head.status, length.filter(|_| !is_empty));
    let date = connection.thread().date();
    encode_head(&mut work.out, request.version, head, framing, persistent, &date);
    let after = send::after(connection, persistent && framing != Framing::Close);
    if !framing.has_content() {
        return Sent::new(0, connection.write_all(&work.out).await, after);
    }
    let mut chain = Chain::new(filters);
    let mut sent = 0;
    match relay(connection, work, &mut reply, &mut chain, framing, &mut sent).await {
        Ok(()) => Sent::new(sent, Ok(()), after),
        Err(Stopped::Client(cut)) => Sent::new(sent, Err(cut), after),
        Err(Stopped::Upstream(failure)) => {
            Sent::broken(sent, Trouble::upstream(connection, &work.request, &reply.name, &failure))
        }
        Err(Stopped::Filter(why)) => {
            Sent::broken(sent, Trouble::server(connection, &work.request, why))
        }
    }
}

/// Why a response ended before its end.
enum Stopped {
    Client(Cut),
    Upstream(Failure),
    Filter(&'static str),
}

/// Sends what is in `work.out`, and the content as it comes.
async fn relay(
    connection: &mut Connection,
    work: &mut Workspace,
    reply: &mut Reply,
    chain: &mut Chain,
    framing: Framing,
    sent: &mut u64,
) -> Result<(), Stopped> {
    let (mut piece, mut made) = (Vec::new(), Vec::new());
    loop {
        // What there is goes out before anything is waited for.
        connection.write_all(&work.out).await.map_err(Stopped::Client)?;
        work.out.clear();
        piece.clear();
        made.clear();
        let next = reply.next(&mut piece);
        let next = script::unless(|context| connection.poll_broken(context), next).await;
        let goes_on = next.ok_or(Stopped::Client(Cut::Broken))?.map_err(Stopped::Upstream)?;
        let passed = match goes_on {
            true => chain.push(&piece, &mut made).and_then(|()| match reply.is_waiting() {
                true => chain.flush(&mut made),
                false => Ok(()),
            }),
            false => chain.finish(&mut made),
        };
        passed.map_err(|broken| Stopped::Filter(broken.0))?;
        frame(&mut work.out, &made, framing);
        *sent += made.len() as u64;
        if !goes_on {
            if framing == Framing::Chunked {
                work.out.extend_from_slice(LAST_CHUNK);
            }
            return connection.write_all(&work.out).await.map_err(Stopped::Client);
        }
    }
}

#[cfg(test)]
mod tests;
