//! The head of a forwarded request, as mod_proxy_http writes it.

use howdah_config::Upstream;
use howdah_http::ConnectionNames;
use howdah_http::h1::{RequestConnection, RequestHead};
use howdah_site::{ClientRequest, RuledRequest};

use super::websocket_key::WebsocketKey;

/// Hop-by-hop fields (RFC 9110 §7.6.1), and fields that are made anew for the upstream.
const OURS: [&[u8]; 15] = [
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
    b"x-forwarded-proto",
    b"x-forwarded-server",
];

/// The field with the client's scheme. A value from the client is not believed, one
/// from a directive is.
const PROTO: &[u8] = b"X-Forwarded-Proto";

/// The request's statements about its connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionOptions<'k> {
    /// The connection is kept for the next request.
    Persist,
    Close,
    /// The connection becomes a WebSocket, with this key where the client has none.
    Upgrade(Option<&'k WebsocketKey>),
}

/// Returns the request's head as mod_proxy_http writes it.
///
/// # Errors
/// Connection lists too many names, which tells why.
pub(super) fn request_head(
    client: &ClientRequest<'_>,
    ruled: Option<&RuledRequest>,
    upstream: &Upstream,
    target: &[u8],
    length: Option<u64>,
    connection: ConnectionOptions<'_>,
) -> Result<Vec<u8>, &'static str> {
    let state = ruled.map(|ruled| &ruled.state);
    let method = state.map_or(&client.request().method, |state| &state.method);
    let edited = state.and_then(|state| state.request_fields.as_ref());
    let fields = edited.unwrap_or(&client.request().fields);
    let named = ConnectionNames::of(fields)?;
    let mut head = RequestHead::new(method, target);
    head.push(b"Host", upstream.authority().as_bytes());
    let (connection, key) = match connection {
        ConnectionOptions::Upgrade(key) => (RequestConnection::WebSocket, key),
        ConnectionOptions::Persist => (RequestConnection::Persist, None),
        ConnectionOptions::Close => (RequestConnection::Close, None),
    };
    for (name, value) in fields.iter() {
        let is_key = key.is_some() && name.eq_ignore_ascii_case(b"sec-websocket-key");
        if !is_key && !is_ours(name) && !named.contain(name) {
            head.push(name, value);
        }
    }
    if let Some(key) = key {
        head.push(b"Sec-WebSocket-Key", key.as_bytes());
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
        head.push(name, &all.join(&b", "[..]));
    }
    // Apache sends no such field. An upstream cannot know otherwise that the client speaks https.
    let sent = client.request().fields.value(PROTO);
    let set = fields.value(PROTO).filter(|value| Some(*value) != sent);
    head.push(PROTO, set.unwrap_or(client.request().scheme.as_str().as_bytes()));
    if let Some(length) = length {
        head.push(b"Content-Length", length.to_string().as_bytes());
    }
    // A client that wants the fields behind the content says so (RFC 9110 §10.1.4). Few clients
    // without streams know what to do with them.
    let wants_trailers = client.request().version.has_streams()
        && fields.value(b"te").is_some_and(|value| value.eq_ignore_ascii_case(b"trailers"));
    Ok(head.finish(connection, wants_trailers))
}

/// Returns whether a field is one of [`OURS`].
fn is_ours(name: &[u8]) -> bool {
    OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}
