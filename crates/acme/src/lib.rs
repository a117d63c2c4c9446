//! Certificates from authorities that speak ACME (RFC 8555): when to order them ([`schedule`]), the
//! orders, and the folder in which certificates and account keys are kept ([`storage`]).
//!
//! [`run`] is the main function of a process of its own, without privileges, that holds the account
//! keys and speaks with the authorities. It talks with the supervisor in [`message`]s: the front
//! answers the challenges, and gets each new certificate.

#![forbid(unsafe_code)]

mod ask;
mod authority;
mod certificate;
mod demand;
mod dns_hook;
mod failure;
pub mod message;
pub mod names;
mod order;
mod process;
pub mod schedule;
mod settings;
pub mod storage;

pub use process::run;
pub use settings::{AcmeSettings, ChallengeKind, read_roots};
