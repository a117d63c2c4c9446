//! Base64, as in `apr_base64`.

use std::iter;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes up to the first byte that is not of the alphabet.
pub(crate) fn decode(text: &[u8]) -> Vec<u8> {
    let values: Vec<u8> = text.iter().map_while(|byte| value_of(*byte)).collect();
    let mut bytes = Vec::with_capacity(values.len() / 4 * 3 + 3);
    for group in values.chunks(4) {
        let bits = group
            .iter()
            .chain(iter::repeat(&0))
            .take(4)
            .fold(0u32, |bits, value| bits << 6 | u32::from(*value));
        let whole = bits.to_be_bytes();
        bytes.extend_from_slice(&whole[1..][..group.len().saturating_sub(1)]);
    }
    bytes
}

/// Encodes with padding.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, index| {
            bits << 8 | u32::from(group.get(index).copied().unwrap_or(0))
        });
        for index in 0..4 {
            let is_padding = index > group.len();
            let value = (bits >> (18 - 6 * index)) as usize & 63;
            text.push(if is_padding { b'=' } else { ALPHABET[value] });
        }
    }
    text
}

fn value_of(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(plain.as_bytes()), text.as_bytes());
            assert_eq!(decode(text.as_bytes()), plain.as_bytes());
            assert_eq!(decode(text.trim_end_matches('=').as_bytes()), plain.as_bytes());
        }
        assert_eq!(decode(b"Zm9v Zm9v"), b"foo");
        assert_eq!(decode(b"Z"), b"");
        assert_eq!(decode(b"!"), b"");
    }
    #[test]
    fn every_byte_comes_through() {
        assert_eq!(encode(&[0xfb, 0xff]), b"+/8=");
        let bytes: Vec<u8> = (0..=255).collect();
        for length in [253, 254, 255] {
            assert_eq!(decode(&encode(&bytes[..length])), &bytes[..length], "{length}");
        }
    }
}
