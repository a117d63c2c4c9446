//! Normalising a URL's path: decoded once, slashes merged, `.` and `..` resolved, never above the
//! root.

use howdah_config::EncodedSlashes;
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
/// end, none of them empty, `.` or `..`, no NUL. On error `out` is as it was.
///
/// Follows Apache's `ap_normalize_path` with MergeSlashes, and its AllowEncodedSlashes by
/// `slashes`. A refused slash is 404, a `..` above the root and a broken escape are 400, also where
/// a decoded slash has made the `..` a name of its own. A NUL is 400. Backslashes and bytes that
/// are not UTF-8 are ordinary.
///
/// # Errors
/// The status of the answer: 404 for a refused slash, 400 for a `..` above the root, a broken
/// escape and a NUL. `out` is as it was.
#[inline]
pub(crate) fn normalize(
    raw: &[u8],
    slashes: EncodedSlashes,
    out: &mut Vec<u8>,
) -> Result<PathShape, Status> {
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
        [b'/', rest @ ..] => {
            let base = out.len();
            let shape = normalize_slowly(rest, slashes, out);
            if shape.is_err() {
                out.truncate(base);
            }
            shape
        }
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
fn normalize_slowly(
    rest: &[u8],
    slashes: EncodedSlashes,
    out: &mut Vec<u8>,
) -> Result<PathShape, Status> {
    let base = out.len();
    let mut slash = resolve_dots(rest, out, |component, out| decode(component, slashes, out))?;
    if out[base..].contains(&DECODED_SLASH) {
        if slashes == EncodedSlashes::Refuse {
            return Err(Status::NOT_FOUND);
        }
        // The slashes part names from here on, among them perhaps some that are empty, `.` or `..`.
        let mut parted = out.split_off(base);
        parted
            .iter_mut()
            .filter(|byte| **byte == DECODED_SLASH)
            .for_each(|byte| *byte = b'/');
        slash |= resolve_dots(&parted, out, |component, out| {
            out.extend_from_slice(component);
            Ok(())
        })?;
    }
    let dotted = out[base..]
        .split(|&byte| byte == b'/')
        .any(|component| component.starts_with(b"."));
    Ok(PathShape { slash, dotted })
}

/// Appends the components of `rest` that remain when empty ones, `.` and `..` are resolved. `push`
/// appends one of them. Returns whether a slash follows the last one.
fn resolve_dots(
    rest: &[u8],
    out: &mut Vec<u8>,
    push: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Status>,
) -> Result<bool, Status> {
    let base = out.len();
    let mut slash = true;
    // No byte that `push` appends can start another component.
    for component in rest.split(|&byte| byte == b'/') {
        let end = out.len();
        if end > base {
            out.push(b'/');
        }
        let start = out.len();
        push(component, out)?;
        match &out[start..] {
            b"" | b"." => {
                out.truncate(end);
                slash = true;
            }
            b".." => {
                out.truncate(end);
                if end == base {
                    return Err(Status::BAD_REQUEST);
                }
                let parent = memchr::memrchr(b'/', &out[base..]).unwrap_or(0);
                out.truncate(base + parent);
                slash = true;
            }
            _ => slash = false,
        }
    }
    Ok(slash)
}

/// Returns the URL's path of a request whose path has no normal form, as Apache's `r->uri` has it:
/// with the escapes that are none, without a `..` above the root, and cut at a NUL. It names no
/// file.
#[cold]
pub(crate) fn without_normal_form(raw: &[u8], slashes: EncodedSlashes) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = match after {
            [high, low, ..] if byte == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        let escape = escape.map(|(high, low)| high << 4 | low);
        let escape = escape.filter(|byte| *byte != b'/' || slashes != EncodedSlashes::Keep);
        rest = if escape.is_some() { &after[2..] } else { after };
        match escape.unwrap_or(byte) {
            0 => break,
            byte => decoded.push(byte),
        }
    }
    let (mut names, mut slash): (Vec<&[u8]>, bool) = (Vec::new(), false);
    for name in decoded.split(|&byte| byte == b'/') {
        slash = matches!(name, b"" | b"." | b"..");
        match name {
            b".." => drop(names.pop()),
            b"" | b"." => {}
            name => names.push(name),
        }
    }
    let mut path = Vec::with_capacity(decoded.len() + 1);
    names.iter().for_each(|name| path.extend([b"/", *name].concat()));
    if slash || path.is_empty() {
        path.push(b'/');
    }
    path
}

/// Decodes the escapes of a component. A slash among them becomes [`DECODED_SLASH`], or stays
/// encoded.
fn decode(component: &[u8], slashes: EncodedSlashes, out: &mut Vec<u8>) -> Result<(), Status> {
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
        match (high << 4 | low, slashes) {
            (0, _) => return Err(Status::BAD_REQUEST),
            (b'/', EncodedSlashes::Keep) => out.extend_from_slice(&rest[at..at + 3]),
            (b'/', EncodedSlashes::Refuse | EncodedSlashes::Decode) => out.push(DECODED_SLASH),
            (byte, _) => out.push(byte),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Stands for a decoded slash until the components of the URL itself are resolved: Apache takes
/// `/a%2Fb/..` for `/`, and refuses only slashes that remain. No path may have a NUL of its own.
const DECODED_SLASH: u8 = 0;

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
    use EncodedSlashes::{Decode, Keep, Refuse};

    use super::*;

    #[test]
    fn a_path_without_a_normal_form_is_told_as_apache_tells_it() {
        let rows = [
            ("/%zz", "/%zz"),
            ("/x/%zz/%41", "/x/%zz/A"),
            ("/../q/./a/../%2e%2e/zz%z", "/zz%z"),
            ("/..", "/"),
            ("/a%00b", "/a"),
            ("/a%2fb", "/a/b"),
            ("/a//%4/", "/a/%4/"),
            ("/%", "/%"),
        ];
        for (raw, expected) in rows {
            let told = without_normal_form(raw.as_bytes(), Refuse);
            assert_eq!(String::from_utf8(told).unwrap(), expected, "{raw}");
        }
        assert_eq!(without_normal_form(b"/a%2fb/%", Keep), b"/a%2fb/%");
    }

    #[test]
    fn paths() {
        let ok = |path: &str, slash: bool| Ok((path.as_bytes().to_vec(), slash));
        type Normal = Result<(Vec<u8>, bool), Status>;
        let rows: [(&[u8], Normal); 48] = [
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
            (b"/a%2f..%2fb/", Err(Status::NOT_FOUND)),
            (b"/a%2fb/../c", ok("c", false)),
            (b"/a%2fb/%zz", Err(Status::BAD_REQUEST)),
            (b"/a%00b", Err(Status::BAD_REQUEST)),
            (b"/a\0b", Err(Status::BAD_REQUEST)),
            (b"/a\0b%20", Err(Status::BAD_REQUEST)),
            (b"/a%", Err(Status::BAD_REQUEST)),
            (b"/a%4", Err(Status::BAD_REQUEST)),
            (b"/a%zz", Err(Status::BAD_REQUEST)),
            (b"a", Err(Status::BAD_REQUEST)),
        ];
        for (raw, expected) in rows {
            assert_eq!(normal(raw, Refuse), expected, "{}", String::from_utf8_lossy(raw));
        }
    }

    #[test]
    fn kept_slashes_part_no_names() {
        let bad = Err(Status::BAD_REQUEST);
        let rows: [Row; 13] = [
            ("/a%2fb", Ok(("a%2fb", false))),
            ("/a%2Fb%20c/", Ok(("a%2Fb c", true))),
            ("/a%252Fb", Ok(("a%2Fb", false))),
            ("/%2F", Ok(("%2F", false))),
            ("/a%2F", Ok(("a%2F", false))),
            ("/a/..%2fb", Ok(("a/..%2fb", false))),
            ("/a/%2e%2e%2fb", Ok(("a/..%2fb", false))),
            ("/..%2f..%2fb", Ok(("..%2f..%2fb", false))),
            ("/a%2F../b", Ok(("a%2F../b", false))),
            ("/a%2Fb/../c", Ok(("c", false))),
            ("/%2F/../..", bad),
            ("/a%2Fb%00", bad),
            ("/a%2F%2", bad),
        ];
        for (raw, expected) in rows {
            let expected = expected.map(|(path, slash)| (path.into(), slash));
            assert_eq!(normal(raw.as_bytes(), Keep), expected, "{raw}");
        }
    }

    #[test]
    fn decoded_slashes_part_names_before_dots_are_resolved() {
        let bad = Err(Status::BAD_REQUEST);
        let rows: [Row; 21] = [
            ("/a%2fb", Ok(("a/b", false))),
            ("/a%2F", Ok(("a", true))),
            ("/a/%2F%2f", Ok(("a", true))),
            ("/%2F%2fa%2F/%2Fb", Ok(("a/b", false))),
            ("/%2f", Ok(("", true))),
            ("/a%2F.%2Fb", Ok(("a/b", false))),
            ("/a%2F..%2Fb", Ok(("b", false))),
            ("/a/%2e%2e%2fb", Ok(("b", false))),
            ("/a/..%2fb", Ok(("b", false))),
            ("/a%2f..", Ok(("", true))),
            ("/a%2f%2e%2e/", Ok(("", true))),
            ("/x/a%2Fb/../c", Ok(("x/c", false))),
            ("/a%2F../b", Ok(("b", false))),
            ("/a%252Fb", Ok(("a%2Fb", false))),
            ("/a/%252e%252e%2fb", Ok(("a/%2e%2e/b", false))),
            ("/..%2f..%2fetc/passwd", bad),
            ("/a/..%2f..%2fb", bad),
            ("/%2f%2e%2e%2fa", bad),
            ("/a%2f..%2f..", bad),
            ("/a%2f%00b", bad),
            ("/a%2f\0b", bad),
        ];
        for (raw, expected) in rows {
            let expected = expected.map(|(path, slash)| (path.into(), slash));
            assert_eq!(normal(raw.as_bytes(), Decode), expected, "{raw}");
        }
    }

    #[test]
    fn a_normal_path_is_safe_whatever_was_sent() {
        const PARTS: [&str; 12] =
            ["/", "%2f", "%2F", ".", "%2e", "..", "a", "%25", "2f", "%00", "%", "%2"];
        let mut state = 1_u32;
        let mut random = move |most: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % most
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let parts = (0..random(10)).map(|_| PARTS[random(PARTS.len())]);
            let raw = format!("/{}", parts.collect::<String>());
            for slashes in [Refuse, Keep, Decode] {
                let Ok((path, _)) = normal(raw.as_bytes(), slashes) else {
                    continue;
                };
                found += 1;
                assert!(!path.contains(&0), "{raw}");
                let mut components = path.split(|&byte| byte == b'/');
                let is_plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
                assert!(path.is_empty() || components.all(is_plain), "{raw} {slashes:?}");
                let slashes_sent = raw.bytes().filter(|&byte| byte == b'/').count();
                let slashes_made = path.iter().filter(|&&byte| byte == b'/').count();
                assert!(slashes == Decode || slashes_made < slashes_sent, "{raw} {slashes:?}");
            }
        }
        assert!(found > 1000, "only {found} paths were normal");
    }

    /// A path as it was sent, its normal form, and whether a slash follows that.
    type Row = (&'static str, Result<(&'static str, bool), Status>);

    /// Returns the normal form, and whether a slash follows it.
    fn normal(raw: &[u8], slashes: EncodedSlashes) -> Result<(Vec<u8>, bool), Status> {
        let mut out = b"root/".to_vec();
        let shape = normalize(raw, slashes, &mut out);
        assert!(out.starts_with(b"root/") && (shape.is_ok() || out.len() == 5));
        shape.map(|shape| (out[5..].to_vec(), shape.slash))
    }

    #[test]
    fn dotted_components_behind_decoded_slashes_are_noticed() {
        for (raw, dotted) in [
            ("/a%2f.git%2fx", true),
            ("/%2e%2fa", false),
            ("/a%2f%2egit", true),
            ("/a%2fb.c", false),
        ] {
            let shape = normalize(raw.as_bytes(), Decode, &mut Vec::new());
            assert_eq!(shape.unwrap().dotted, dotted, "{raw}");
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
            let shape = normalize(raw.as_bytes(), Refuse, &mut Vec::new());
            assert_eq!(shape.unwrap().dotted, dotted, "{raw}");
        }
    }
}
