//! Properties of the first head on a stream of HTTP/3.

use crate::h3::{FirstHead, Released, STAND_IN};

/// The first head is the same however its bytes come. Only a protocol's name is replaced, once, and
/// no byte behind the head is touched.
pub fn h3_first_head(data: &[u8]) {
    let whole = FirstHead::default().take(data);
    let mut first = FirstHead::default();
    let mut in_parts = None;
    for (at, byte) in data.iter().enumerate() {
        if let Some(mut released) = first.take(&[*byte]) {
            released.bytes.extend_from_slice(&data[at + 1..]);
            in_parts = Some(released);
            break;
        }
    }
    assert_eq!(whole, in_parts);
    let Some(Released { bytes, is_websocket }) = whole else {
        assert_eq!(first.release().bytes, data);
        return;
    };
    if !is_websocket {
        assert_eq!(bytes, data);
        return;
    }
    let name = STAND_IN.as_bytes();
    assert!(bytes.windows(name.len()).any(|part| part == name));
    // The name, its length, and the length of the frame.
    assert!(bytes.len() <= data.len() + name.len() + 4);
    let again = FirstHead::default().take(&bytes);
    assert_eq!(again, Some(Released { bytes, is_websocket: false }));
}
