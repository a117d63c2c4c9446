//! Forwarding a request to one of the site's `upstreams` over HTTP/1.1 (`RewriteRule … [P]`).
//!
//! The request's content is received completely first, as for a script: no slow client keeps an
//! upstream waiting. The content is sent while the response is read ([`Upload`]): an upstream may
//! answer before it has read everything. Connections are kept for the next request; no thread waits
//! for one. The response goes to the client as it arrives, as fast as the client takes it.
//! Upstreams are not trusted: their response heads are limited in size, and the framing is made
//! anew.
//!
//! A request for a WebSocket (RFC 6455) that the upstream accepts becomes a
//! [`Tunnel`](crate::body::Tunnel).

mod connect;
mod connection;
mod failure;
mod kept;
mod names;
mod request;
mod response;
mod tunnel_place;
mod upload;
mod websocket_key;

use std::fmt;
use std::io;
use std::rc::Rc;

use howdah_http::{Content, Method, Request, ResponseHead, Status, members};
use howdah_site::{RuledRequest, Site};

use super::script;
use crate::body::{self, BodySource, ResponseBody};
use crate::budget::BudgetUsedUp;
use crate::front::FrontThread;
use crate::observe::{Phase, RequestError, RespondError};
use crate::pipeline::{RequestContext, Response, ResponseHeadSource, adjust};
use connect::connect;
use connection::UpstreamConnection;
use failure::UpstreamFailure;
use kept::ConnectionHome;
pub(crate) use kept::KeptConnections;
pub(crate) use names::UpstreamNames;
use request::{ConnectionOptions, request_head};
use response::{ExpectedContent, UpstreamResponse};
use tunnel_place::TunnelPlace;
use upload::{ForwardedRequest, Upload};
use websocket_key::WebsocketKey;

/// Forwards the request, and waits for the head of the response. `number` is the index of the
/// upstream in the site's `upstreams`.
///
/// # Errors
/// There is no response, and the reason.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    (number, target): (usize, &[u8]),
    is_error: bool,
) -> Result<Response, RespondError> {
    let Some(upstream) = site.config().upstreams.get(number) else {
        return Err(Status::INTERNAL_SERVER_ERROR.into());
    };
    let rules = ruled.as_deref().map(Rc::as_ref);
    let content = script::content(context, rules, is_error).await?;
    context.phase.set(Phase::WaitingForUpstream);
    let has_content = !is_error && context.request.content != Content::None;
    let length = has_content.then(|| content.length());
    let method = rules.map_or(&context.request.method, |ruled| &ruled.state.method);
    let switch = match !is_error && asks_for_websocket(context.request, rules) {
        true => Some(Switch::ask(context, site)?),
        false => None,
    };
    let connection = match (&switch, site.config().upstream_kept) {
        (Some(switch), _) => ConnectionOptions::Upgrade(switch.key.as_ref()),
        (None, 0) => ConnectionOptions::Close,
        (None, _) => ConnectionOptions::Persist,
    };
    let expected = match (*method == Method::Head, &switch) {
        (true, _) => ExpectedContent::NoContent,
        (false, Some(_)) => ExpectedContent::Switch,
        (false, None) => ExpectedContent::Content,
    };
    let head = request_head(&context.client(), rules, upstream, target, length, connection)
        .map_err(|why| RequestError::head(context.situation(), Status::BAD_REQUEST, why))?;
    let request = ForwardedRequest {
        head,
        content,
        is_idempotent: method.is_idempotent(),
        expected,
    };
    context.is_made = true;
    let (head, mut reply) = final_response(context, site, number, request).await?;
    if let (Status::SWITCHING_PROTOCOLS, Some(switch)) = (head.status, switch) {
        let switched = switch.respond(context.thread, site, head, reply);
        return switched.map_err(|failure| failed(context, upstream, failure));
    }
    let length_hint = head.content_length().or(reply.length());
    let trailers = reply.keep_trailers();
    let body = ResponseBody::Stream(Box::new(reply));
    let mut response = Response {
        length_hint,
        trailers,
        ..Response::new(ResponseHeadSource::Own(head), body)
    };
    adjust(context, site, ruled, &mut response).await?;
    Ok(response)
}

/// Sends the request to the upstream with that number, and waits for the final response.
///
/// # Errors
/// The upstream has failed, or the client is gone.
async fn final_response(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    number: usize,
    request: ForwardedRequest,
) -> Result<(ResponseHead, UpstreamResponse), RespondError> {
    let expected = request.expected;
    let exchange = exchange(context.thread, site, number, request);
    let is_gone = |poll: &mut std::task::Context<'_>| context.stream.poll_closed(poll);
    let answered = match body::unless(is_gone, exchange).await {
        Some(Ok((head, mut reply))) => final_head(context, &mut reply, head, expected)
            .await
            .map(|head| head.map(|head| (head, reply))),
        answered => answered,
    };
    match answered {
        Some(Ok(answered)) => Ok(answered),
        Some(Err(failure)) => Err(failed(context, &site.config().upstreams[number], failure)),
        None => Err(RequestError::gone(context.situation()).into()),
    }
}

/// Returns the error of a request whose upstream has failed.
fn failed(
    context: &RequestContext<'_, '_>,
    upstream: &impl ToString,
    failure: UpstreamFailure,
) -> RespondError {
    let error = UpstreamError { upstream: upstream.to_string(), failure };
    RequestError::upstream(context.situation(), &error).into()
}

/// Returns the head of the final response, and sends the interim responses before it to the client,
/// as mod_proxy_http does. `head` is the first one. `None`: the client is gone.
async fn final_head(
    context: &mut RequestContext<'_, '_>,
    reply: &mut UpstreamResponse,
    mut head: ResponseHead,
    expected: ExpectedContent,
) -> Option<Result<ResponseHead, UpstreamFailure>> {
    while head.status.is_informational() && head.status != Status::SWITCHING_PROTOCOLS {
        context.stream.send_interim(&head).await;
        let is_gone = |poll: &mut std::task::Context<'_>| context.stream.poll_closed(poll);
        head = match body::unless(is_gone, reply.read_head(expected)).await? {
            Ok(head) => head,
            Err(failure) => return Some(Err(failure)),
        };
    }
    Some(Ok(head))
}

/// The request for a WebSocket, which the upstream may accept.
struct Switch {
    place: TunnelPlace,
    /// The key that the server has made in the place of a client of HTTP/2 or HTTP/3, which has
    /// none and does not look at the answer to one.
    key: Option<WebsocketKey>,
}

impl Switch {
    /// Takes a place for the tunnel.
    ///
    /// # Errors
    /// There is no place, or no key.
    fn ask(context: &RequestContext<'_, '_>, site: &Site) -> Result<Switch, RespondError> {
        let place = TunnelPlace::take(context, site)?;
        let key = match context.request.is_extended_connect {
            true => Some(WebsocketKey::random().ok_or(Status::INTERNAL_SERVER_ERROR)?),
            false => None,
        };
        Ok(Switch { place, key })
    }

    /// Returns the response that begins the tunnel. `head` is the upstream's 101.
    ///
    /// # Errors
    /// The upstream has not answered the key.
    fn respond(
        self,
        thread: &FrontThread,
        site: &Site,
        mut head: ResponseHead,
        reply: UpstreamResponse,
    ) -> Result<Response, UpstreamFailure> {
        if let Some(key) = self.key {
            let accept = head.fields.value(b"sec-websocket-accept");
            if !accept.is_some_and(|accept| key.is_accepted_by(accept)) {
                return Err(UpstreamFailure::Malformed("its Sec-WebSocket-Accept is wrong"));
            }
            head.fields.remove(b"sec-websocket-accept");
        }
        thread.counters().count_tunnel(site.number());
        let tunnel = reply.into_tunnel(site.config().tunnel_timeout, Box::new(self.place));
        Ok(Response {
            tunnel: tunnel.map(Box::new),
            ..Response::new(ResponseHeadSource::Own(head), ResponseBody::none())
        })
    }
}

/// The failure of an upstream.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    upstream: String,
    failure: UpstreamFailure,
}

impl UpstreamError {
    /// The error of an upstream whose connection broke in the middle of a tunnel.
    pub(crate) fn broken(upstream: String, error: io::Error) -> UpstreamError {
        UpstreamError {
            upstream,
            failure: UpstreamFailure::Broken(error),
        }
    }

    /// The error of an upstream that is not asked because there is no room.
    #[cfg(test)]
    pub(crate) fn without_room(no_room: BudgetUsedUp) -> UpstreamError {
        UpstreamError {
            upstream: "http://127.0.0.1:1".to_owned(),
            failure: UpstreamFailure::NoRoom(no_room),
        }
    }

    /// The status for the client.
    pub(crate) fn status(&self) -> Status {
        self.failure.status()
    }

    /// Returns the budget that has no room for a connection, where the upstream was not asked for
    /// that reason.
    pub(crate) fn no_room(&self) -> Option<BudgetUsedUp> {
        match self.failure {
            UpstreamFailure::NoRoom(no_room) => Some(no_room),
            _ => None,
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.upstream, self.failure)
    }
}

/// Returns whether the request asks for a WebSocket (RFC 9110 §7.8, RFC 6455 §4.1). Directives may
/// have removed the fields that say so. Any other protocol is not forwarded: a client could speak
/// to the upstream past all rules.
fn asks_for_websocket(request: &Request, ruled: Option<&RuledRequest>) -> bool {
    let state = ruled.map(|ruled| &ruled.state);
    let fields = state.and_then(|state| state.request_fields.as_ref()).unwrap_or(&request.fields);
    let method = state.map_or(&request.method, |state| &state.method);
    let has = |name: &[u8], word: &[u8]| {
        fields
            .values(name)
            .flat_map(members)
            .any(|member| member.eq_ignore_ascii_case(word))
    };
    has(b"upgrade", b"websocket")
        && has(b"connection", b"upgrade")
        && *method == Method::Get
        && request.can_tunnel()
        && request.content == Content::None
}

/// Sends a request to the upstream with that number, and waits for the first head. A request that a
/// kept connection has lost is sent again over a new one, if it is idempotent and no byte of a
/// response has come (RFC 9110 §9.2.2).
async fn exchange(
    thread: &Rc<FrontThread>,
    site: &Site,
    number: usize,
    request: ForwardedRequest,
) -> Result<(ResponseHead, UpstreamResponse), UpstreamFailure> {
    let (key, settings) = ((site.number(), number), site.config());
    let (request, upstream) = (Rc::new(request), &settings.upstreams[number]);
    let mut kept = thread.kept().take(key);
    loop {
        let is_kept = kept.is_some();
        let connection = match kept.take() {
            Some(connection) => connection,
            None if thread.kept().rests(key) => return Err(UpstreamFailure::Resting),
            None => connect_anew(thread, site, number).await?,
        };
        thread.counters().count_upstream(site.number(), is_kept);
        let home = (settings.upstream_kept > 0).then(|| ConnectionHome {
            thread: Rc::clone(thread),
            key,
            most: settings.upstream_kept,
            timeout: settings.upstream_kept_timeout,
        });
        let upload = Upload::new(Rc::clone(&request));
        let (name, patience) = (upstream.to_string(), settings.upstream_timeout);
        let mut reply = UpstreamResponse::new(name, connection, upload, patience, home);
        match reply.read_head(request.expected).await {
            Ok(head) => {
                thread.counters().count_upstream_answer(site.number());
                return Ok((head, reply));
            }
            Err(UpstreamFailure::Broken(_) | UpstreamFailure::Short)
                if is_kept && request.is_idempotent && !reply.has_begun() => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Makes a connection to the upstream with that number, which takes a place before it has a
/// descriptor. An upstream that cannot be reached is left alone for `upstream_retry`.
async fn connect_anew(
    thread: &Rc<FrontThread>,
    site: &Site,
    number: usize,
) -> Result<UpstreamConnection, UpstreamFailure> {
    let settings = site.config();
    let places = &thread.shared.upstream_places;
    let place = thread.kept().place(places, site.number()).map_err(UpstreamFailure::NoRoom)?;
    let tls = thread.shared.upstream_tls.get(site.number()).and_then(Option::as_ref);
    let names = &thread.shared.upstream_names;
    let connected = connect(settings, &settings.upstreams[number], tls, names).await;
    if let Err(UpstreamFailure::Unreachable(_) | UpstreamFailure::Unanswered) = connected {
        thread.kept().rest((site.number(), number), settings.upstream_retry);
    }
    Ok(UpstreamConnection { stream: connected?, place })
}

#[cfg(test)]
mod tests;
