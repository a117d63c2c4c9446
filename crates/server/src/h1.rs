//! HTTP/1 connections: bytes to requests, responses to bytes (RFC 9112). No other part of the front
//! knows HTTP/1's framing.

mod connection;
mod head;
mod plain_on_tls;
mod refusal;
mod request_body;
mod sink;
mod tunnel;

pub(crate) use self::connection::run;
pub(crate) use self::plain_on_tls::refuse_plain;
