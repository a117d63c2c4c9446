//! The parts of a media type with parameters.

/// A media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// Type, subtype and the parameters but charset.
    pub text: Vec<u8>,
    /// Whether the text is a valid media type. Other text is sent unchanged, without a charset.
    pub is_readable: bool,
}

impl MediaType {
    /// Returns the media type, and the charset where there is one.
    pub(crate) fn split(value: &[u8]) -> (MediaType, Option<Vec<u8>>) {
        match parts(value) {
            Some((text, charset)) => (MediaType { text, is_readable: true }, charset),
            None => {
                let text = value.to_vec();
                (MediaType { text, is_readable: false }, None)
            }
        }
    }
}

fn parts(value: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let mut pieces = Pieces(value);
    let essence = pieces.next()?.trim_ascii();
    let slash = essence.iter().position(|&byte| byte == b'/')?;
    let (main, sub) = (essence[..slash].trim_ascii(), essence[slash + 1..].trim_ascii());
    if main.is_empty() || sub.is_empty() || essence.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    let mut text = [main, b"/", sub].concat();
    let mut charset = None;
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        let Some(equals) = piece.iter().position(|&byte| byte == b'=') else {
            // A word at the very end is ignored.
            if pieces.peek().is_none() && !piece.trim_ascii().is_empty() {
                break;
            }
            return None;
        };
        let (name, parameter) = (piece[..equals].trim_ascii(), piece[equals + 1..].trim_ascii());
        if name.is_empty() || parameter.is_empty() {
            return None;
        }
        if name == b"charset" {
            charset.get_or_insert_with(|| parameter.to_vec());
        } else {
            text.extend_from_slice(&[&b"; "[..], name, b"=", parameter].concat());
        }
    }
    Some((text, charset))
}

/// The parts between semicolons that are not in quotes.
struct Pieces<'v>(&'v [u8]);

impl<'v> Iterator for Pieces<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let mut quoted = false;
        let mut escaped = false;
        let end = self.0.iter().position(|&byte| {
            let ends = byte == b';' && !quoted;
            quoted ^= byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(self.0.len());
        let piece = &self.0[..end];
        self.0 = &self.0[self.0.len().min(end + 1)..];
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_apart() {
        let table = [
            ("text/html", "text/html", true, None),
            ("text/html;charset=utf-8", "text/html", true, Some("utf-8")),
            ("text/html ; charset = \"a;b\" ; q=1", "text/html; q=1", true, Some("\"a;b\"")),
            ("text/html; level=1; charset=a; charset=b", "text/html; level=1", true, Some("a")),
            (r#"text/html; a="\";b"; charset=x"#, r#"text/html; a="\";b""#, true, Some("x")),
            (r#"text/html; a="\\"; charset=x"#, r#"text/html; a="\\""#, true, Some("x")),
            ("text", "text", false, None),
            ("text/", "text/", false, None),
            ("text/html; charset", "text/html", true, None),
            ("text/html; charset; q=1", "text/html; charset; q=1", false, None),
            ("text/html; charset=", "text/html; charset=", false, None),
            ("", "", false, None),
        ];
        for (value, text, is_readable, charset) in table {
            let expected = MediaType { text: text.into(), is_readable };
            let charset = charset.map(|charset| charset.as_bytes().to_vec());
            assert_eq!(MediaType::split(value.as_bytes()), (expected, charset), "{value}");
        }
    }
}
