//! TLS: the sites' certificates, and the handshake that makes an encrypted transport of a socket.
//!
//! The supervisor reads certificates and keys ([`PairText`]), because the front's user may not. The
//! front gets the bytes with its start and with each change, and makes the sites' certificates of
//! them. Private keys are therefore in the memory of both processes, and in no other that stays:
//! pools and the process that orders certificates are started by `exec`, and neither process can be
//! dumped or looked into by other users.

mod certificate;
mod certificate_variables;
mod certificates;
mod client_authorities;
mod client_sessions;
mod der;
mod established;
mod facts;
mod handshake;
mod internal;
mod pair;
mod policy;
mod quic;
mod settings;
mod site_certificates;
mod tickets;
mod upstreams;

pub(crate) use self::certificates::Certificates;
pub(crate) use self::client_authorities::{PassedEnds, clients, now, passed_ends};
pub(crate) use self::established::{
    EstablishedTls, HttpsPorts, InTheClear, may_redirect, redirect_status,
};
pub(crate) use self::handshake::{accept, is_hello};
pub(crate) use self::internal::LocalAuthority;
pub(crate) use self::pair::{PairText, SitePairs, names_left_out, read};
pub(crate) use self::policy::{TlsPolicy, TlsStart};
pub(crate) use self::quic::{quic_established, quic_failure, quic_sessions, quic_takes_early_data};
pub(crate) use self::settings::fill_random;
pub(crate) use self::tickets::{LIFETIME as TICKET_LIFETIME, TicketKeys};
pub(crate) use self::upstreams::{
    UpstreamSettings, handshake_advice, server_name, upstream_settings,
};
