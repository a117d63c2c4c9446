//! HTTP/1 connections: bytes to requests, responses to bytes (RFC 9112). No other protocol that
//! serves clients knows HTTP/1's framing. `admin` and the supervisor's control socket answer their
//! own connections, upstreams are servers to which Howdah is the client, and `body::unchunked`
//! reads chunks that scripts make.

mod connection;
mod head;
mod plain_on_tls;
mod refusal;
mod request_body;
mod sink;
mod tunnel;
mod unwanted_content;

pub(crate) use self::connection::run;
pub(crate) use self::plain_on_tls::refuse_plain;
