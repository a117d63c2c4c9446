//! The offer of HTTP/3 to clients of the other protocols (RFC 7838).

use std::borrow::Cow;

use http::HeaderValue;

use crate::protocols;

/// The time that clients may remember that a listener has HTTP/3.
const OFFER_SECONDS: u32 = 24 * 60 * 60;

/// The value of Alt-Svc for a listener.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The listener's own port.
    port: u16,
    value: HeaderValue,
}

impl Offer {
    /// The offer of a listener on `port`.
    pub(super) fn new(port: u16) -> Offer {
        Offer { port, value: value(port) }
    }

    /// Returns the value that names the listener's own port.
    pub(crate) fn own(&self) -> Cow<'_, HeaderValue> {
        Cow::Borrowed(&self.value)
    }

    /// Returns the value for a client that has used `port`. Where it is not the listener's own,
    /// something before this server maps ports, and the client cannot reach the own one.
    pub(crate) fn of_port(&self, port: u16) -> Cow<'_, HeaderValue> {
        match port == self.port {
            true => self.own(),
            false => Cow::Owned(value(port)),
        }
    }
}

fn value(port: u16) -> HeaderValue {
    let value = format!("{}=\":{port}\"; ma={OFFER_SECONDS}", protocols::ON_QUIC);
    HeaderValue::from_str(&value).expect("digits and ASCII are a valid value")
}
