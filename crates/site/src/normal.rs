//! Normalising a URL's path: decoded once, slashes merged, `.` and `..` resolved, never above the
//! root.

use howdah_http::Status;

/// The shape of a path besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathShape {
    /// The path ended in `/`, `/.` or `/..`, so it names a folder (or the start of PATH_INFO).
    pub(crate) slash: bool,
    /// Some component starts with a dot, so the rules for dot files must be asked.
    pub(crate) dotted: bool,
}

/// Appends the normal form of `raw` to `out`: components joined by single slashes, none at either
/// end, none of them empty, `.` or `..`, no NUL. On error `out` holds what was written so far.
///
/// Follows Apache's `ap_normalize_path` with MergeSlashes and AllowEncodedSlashes Off: an encoded
/// slash is 404, a `..` above the root and a broken escape are 400. A NUL is 400. Backslashes and
/// bytes that are not UTF-8 are ordinary.
#[inline]
pub(crate) fn normalize(raw: &[u8], out: &mut Vec<u8>) -> Result<PathShape, Status> {
    match raw {
        [b'/'] => Ok(PathShape { slash: true, dotted: false }),
        [b'/', rest @ ..] if is_normal(rest) => {
            let (body, slash) = match rest {
                [body @ .., b'/'] => (body, true),
                body => (body, false),
            };
            out.extend_from_slice(body);
            Ok(PathShape { slash, dotted: false })
        }
        [b'/', rest @ ..] => normalize_slowly(rest, out),
        _ => Err(Status::BAD_REQUEST),
    }
}

/// Returns whether `rest` (behind the first slash) is its own normal form but for a slash at the
/// end, with no dot at the start of any component. Most paths are.
fn is_normal(rest: &[u8]) -> bool {
    let mut at_start = true;
    for &byte in rest {
        match byte {
            b'%' | 0 => return false,
            b'/' | b'.' if at_start => return false,
            _ => at_start = byte == b'/',
        }
    }
    true
}

#[cold]
fn normalize_slowly(rest: &[u8], out: &mut Vec<u8>) -> Result<PathShape, Status> {
    let base = out.len();
    let mut shape = PathShape { slash: true, dotted: false };
    // Escapes are decoded per component. Since `%2F` is refused, no decoded byte can start another
    // component.
    for component in rest.split(|&byte| byte == b'/') {
        let end = out.len();
        if end > base {
            out.push(b'/');
        }
        let start = out.len();
        decode(component, out)?;
        match &out[start..] {
            b"" | b"." => {
                out.truncate(end);
                shape.slash = true;
            }
            b".." => {
                out.truncate(end);
                if end == base {
                    return Err(Status::BAD_REQUEST);
                }
                let parent = memchr::memrchr(b'/', &out[base..]).unwrap_or(0);
                out.truncate(base + parent);
                shape.slash = true;
            }
            _ => shape.slash = false,
        }
    }
    shape.dotted = out[base..]
        .split(|&byte| byte == b'/')
        .any(|component| component.starts_with(b"."));
    Ok(shape)
}

fn decode(component: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
    if component.contains(&0) {
        return Err(Status::BAD_REQUEST);
    }
    let mut rest = component;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [high, low, after @ ..] = &rest[at + 1..] else {
            return Err(Status::BAD_REQUEST);
        };
        let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) else {
            return Err(Status::BAD_REQUEST);
        };
        match high << 4 | low {
            0 => return Err(Status::BAD_REQUEST),
            b'/' => return Err(Status::NOT_FOUND),
            byte => out.push(byte),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(())
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let ok = |path: &str, slash: bool| Ok((path.as_bytes().to_vec(), slash));
        type Normal = Result<(Vec<u8>, bool), Status>;
        let rows: [(&[u8], Normal); 45] = [
            (b"/", ok("", true)),
            (b"//", ok("", true)),
            (b"/a", ok("a", false)),
            (b"/a/", ok("a", true)),
            (b"/a/b.html", ok("a/b.html", false)),
            (b"/a//b", ok("a/b", false)),
            (b"//a", ok("a", false)),
            (b"/a///", ok("a", true)),
            (b"/./a", ok("a", false)),
            (b"/a/./b", ok("a/b", false)),
            (b"/a/.", ok("a", true)),
            (b"/a/..", ok("", true)),
            (b"/a/../", ok("", true)),
            (b"/a/../b", ok("b", false)),
            (b"/a/b/../../c/", ok("c", true)),
            (b"/a/b/..", ok("a", true)),
            (b"/.well-known/x", ok(".well-known/x", false)),
            (b"/...", ok("...", false)),
            (b"/a..b", ok("a..b", false)),
            (b"/..a", ok("..a", false)),
            (b"/a\\..\\b", ok("a\\..\\b", false)),
            (b"/\\", ok("\\", false)),
            (b"/a%20b", ok("a b", false)),
            (b"/%61", ok("a", false)),
            (b"/%c3%a9", ok("\u{e9}", false)),
            (b"/%FF", Ok((vec![0xff], false))),
            (b"/\xff", Ok((vec![0xff], false))),
            (b"/a/%2e%2e/b", ok("b", false)),
            (b"/a/%2E/b", ok("a/b", false)),
            (b"/a/.%2e", ok("", true)),
            (b"/%252e%252e/x", ok("%2e%2e/x", false)),
            (b"/a%3fb", ok("a?b", false)),
            (b"/a%5cb", ok("a\\b", false)),
            (b"/..", Err(Status::BAD_REQUEST)),
            (b"/../a", Err(Status::BAD_REQUEST)),
            (b"/a/../../b", Err(Status::BAD_REQUEST)),
            (b"/%2e%2e/", Err(Status::BAD_REQUEST)),
            (b"/a%2fb", Err(Status::NOT_FOUND)),
            (b"/a%00b", Err(Status::BAD_REQUEST)),
            (b"/a\0b", Err(Status::BAD_REQUEST)),
            (b"/a\0b%20", Err(Status::BAD_REQUEST)),
            (b"/a%", Err(Status::BAD_REQUEST)),
            (b"/a%4", Err(Status::BAD_REQUEST)),
            (b"/a%zz", Err(Status::BAD_REQUEST)),
            (b"a", Err(Status::BAD_REQUEST)),
        ];
        for (raw, expected) in rows {
            let mut out = b"root/".to_vec();
            let found = normalize(raw, &mut out).map(|shape| (out[5..].to_vec(), shape.slash));
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(raw));
            assert!(out.starts_with(b"root/"));
        }
    }

    #[test]
    fn dotted_components_are_noticed() {
        for (raw, dotted) in [
            ("/a.b", false),
            ("/.a", true),
            ("/a/.b/c", true),
            ("/%2egit", true),
            ("/.a/../b", false),
        ] {
            assert_eq!(normalize(raw.as_bytes(), &mut Vec::new()).unwrap().dotted, dotted, "{raw}");
        }
    }
}
