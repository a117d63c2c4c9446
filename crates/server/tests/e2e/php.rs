//! What PHP gets, what it gives, and what becomes of scripts that go wrong.

mod failures;
mod headers;
mod request;
mod response;
mod sessions;
mod settings;
mod streaming;
