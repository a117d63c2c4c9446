//! HTTP without sockets and without a clock.
//!
//! The types that every protocol version and every way of answering share are at the root:
//! [`Request`], [`ResponseHead`], [`Fields`], [`Status`], [`Limits`]. [`h1`] turns bytes into a
//! request and a response head into bytes; [`h2`] fills the same types from decoded frames; [`h3`]
//! looks at bytes before a library decodes them.
//! [`date`], [`etag`], [`conditional`] and [`range`] decide how a stored representation answers.
//!
//! No function allocates per request once its buffers have grown: a [`Request`] is reused.
#![forbid(unsafe_code)]

mod authority;
mod connection_names;
mod fields;
mod limits;
mod list;
mod method;
mod refusal;
mod request;
mod response;
mod scan;
mod shared_head;
mod status;
mod target;
mod text;
mod tls;
mod version;

pub mod codings;
pub mod conditional;
pub mod date;
pub mod etag;
pub mod forwarded;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod priority;
#[cfg(any(test, fuzzing))]
pub mod properties;
pub mod proxy_protocol;
pub mod range;

pub use authority::check_authority;
pub use connection_names::ConnectionNames;
pub use fields::Fields;
pub use limits::Limits;
pub use list::members;
pub use method::Method;
pub use refusal::Refusal;
pub use request::{Content, Request};
pub use response::{BadField, ResponseHead};
pub use scan::{is_field_value, is_token};
pub use shared_head::SharedHead;
pub use status::Status;
pub use text::ShortText;
pub use tls::{CertificateVariables, ScriptVariables, Tls, hexadecimal};
pub use version::{Scheme, Version};
