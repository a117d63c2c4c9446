//! The key of a WebSocket's handshake (RFC 6455 §4.1). HTTP/2 has none: there the server makes one
//! for the upstream, and looks at the upstream's answer itself.

use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The value of Sec-WebSocket-Key.
#[derive(Debug)]
pub(super) struct WebsocketKey(String);

impl WebsocketKey {
    /// Returns a random key; `None`: the system has no random numbers.
    pub(super) fn random() -> Option<WebsocketKey> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        Some(WebsocketKey(STANDARD.encode(bytes)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns whether this is the value of Sec-WebSocket-Accept for the key.
    pub(super) fn is_accepted_by(&self, value: &[u8]) -> bool {
        let text = [self.0.as_bytes(), GUID].concat();
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
        STANDARD.encode(digest).as_bytes() == value
    }
}

/// The text that shows an answer to be one of WebSocket (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard() {
        let key = WebsocketKey("dGhlIHNhbXBsZSBub25jZQ==".to_owned());
        assert!(key.is_accepted_by(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(!key.is_accepted_by(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOp="));
        assert!(!WebsocketKey::random().unwrap().is_accepted_by(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }
}
