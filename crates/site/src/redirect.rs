//! The Location of a redirect to a folder's own URL.

use crate::path::DocumentPath;

/// The URL of the folder at `path`: its path with a slash at the end, percent-encoded anew, and the
/// query as it was.
///
/// The Location is a path, not a whole URL, so it is right behind any proxy. It starts with exactly
/// one slash: `//host` and `/\host` would be another server to a browser, and a backslash is always
/// encoded.
pub(crate) fn to_directory(path: &DocumentPath, query: Option<&[u8]>) -> Vec<u8> {
    let url_path = path.url_path();
    let mut location =
        Vec::with_capacity(url_path.len() + 1 + query.map_or(0, |query| query.len() + 1));
    for &byte in url_path {
        push_as(SMALL, byte, is_path_byte(byte), &mut location);
    }
    if !location.ends_with(b"/") {
        location.push(b'/');
    }
    if let Some(query) = query {
        location.push(b'?');
        for &byte in query {
            // As sent, but for bytes that could not have come in a well-formed request.
            push_as(SMALL, byte, byte.is_ascii_graphic(), &mut location);
        }
    }
    location
}

/// Appends the byte, encoded with capital letters unless it is plain.
pub(crate) fn push(byte: u8, plain: bool, out: &mut Vec<u8>) {
    push_as(CAPITAL, byte, plain, out);
}

fn push_as(digits: &[u8; 16], byte: u8, plain: bool, out: &mut Vec<u8>) {
    if plain {
        out.push(byte);
    } else {
        let [high, low] = [byte >> 4, byte & 15].map(|half| digits[usize::from(half)]);
        out.extend_from_slice(&[b'%', high, low]);
    }
}

/// The digits of escapes in a URL for an upstream, as mod_proxy has them (RFC 3986 §2.1).
const CAPITAL: &[u8; 16] = b"0123456789ABCDEF";

/// The digits of escapes in a Location, as Apache has them.
const SMALL: &[u8; 16] = b"0123456789abcdef";

/// Bytes that are not encoded in a path: unreserved, sub-delims, `:`, `@` and the slash (RFC 3986
/// §3.3).
pub(crate) fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_config::Symlinks;

    #[test]
    fn locations() {
        type Query = Option<&'static [u8]>;
        let rows: [(&[u8], Query, &str); 8] = [
            (b"a", None, "/a/"),
            (b"a/b", Some(b"x=1&y=%20"), "/a/b/?x=1&y=%20"),
            (b"a", Some(b""), "/a/?"),
            (b"a b?c#d%", None, "/a%20b%3fc%23d%25/"),
            (b"\\evil.example", None, "/%5cevil.example/"),
            (b"\xc3\xa9\xff", None, "/%c3%a9%ff/"),
            (b"a:b@c", None, "/a:b@c/"),
            (b"a", Some(b"x\r\ny z"), "/a/?x%0d%0ay%20z"),
        ];
        for (relative, query, expected) in rows {
            let mut path = DocumentPath::at_root(Vec::new(), Symlinks::Owner, 0, |root| {
                root.extend_from_slice(b"/srv")
            });
            path.push_component(relative);
            assert_eq!(String::from_utf8(to_directory(&path, query)).unwrap(), expected);
        }
    }
}
