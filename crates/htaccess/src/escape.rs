//! Escaping of text for pages and URLs.

/// Escapes HTML: text and the values of attributes (`ap_escape_html`).
pub(crate) fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Escapes one component of a URL's path (`ap_escape_path_segment`).
pub(crate) fn segment(name: &[u8]) -> Vec<u8> {
    percent(name, b"$-_.+!*'(),:@&=~")
}

/// Escapes a relative path as a URL (`ap_os_escape_path`): `./` is added before a path that looks
/// like a scheme.
pub(crate) fn path(path: &[u8]) -> Vec<u8> {
    let colon = path.iter().position(|&byte| byte == b':');
    let slash = path.iter().position(|&byte| byte == b'/');
    let has_scheme = colon.is_some_and(|colon| slash.is_none_or(|slash| colon < slash));
    let mut out = if has_scheme { b"./".to_vec() } else { Vec::new() };
    out.append(&mut uri(path));
    out
}

/// Escapes a path as part of a URL (`ap_escape_uri`).
pub(crate) fn uri(path: &[u8]) -> Vec<u8> {
    percent(path, URI)
}

/// Appends a path, escaped as [`uri`] does.
pub(crate) fn push_uri(path: &[u8], out: &mut Vec<u8>) {
    push_percent(path, URI, out);
}

/// The bytes that are not escaped in a URL's path, besides letters and digits.
const URI: &[u8] = b"$-_.+!*'(),:;@&=/~";

fn percent(text: &[u8], allowed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    push_percent(text, allowed, &mut out);
    out
}

fn push_percent(text: &[u8], allowed: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || allowed.contains(&byte) {
            out.push(byte);
        } else {
            push_byte(byte, out);
        }
    }
}

/// Appends `%xx`, with small letters as Apache has them.
pub(crate) fn push_byte(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped() {
        type Row = (fn(&[u8]) -> Vec<u8>, &'static str, &'static str);
        let table: [Row; 9] = [
            (html, "<a href=\"x\">&'", "&lt;a href=&quot;x&quot;&gt;&amp;'"),
            (segment, "a b;c/d?e%f", "a%20b%3bc%2fd%3fe%25f"),
            (segment, "a:b", "a:b"),
            (path, "a b;c/d?e%f", "a%20b;c/d%3fe%25f"),
            (path, "a:b", "./a:b"),
            (path, "a/b:c", "a/b:c"),
            (path, "a:b/c", "./a:b/c"),
            (path, "\"<>", "%22%3c%3e"),
            (path, "ä", "%c3%a4"),
        ];
        for (escape, text, expected) in table {
            assert_eq!(String::from_utf8(escape(text.as_bytes())).unwrap(), expected, "{text}");
        }
    }
}
