//! URLs made by directives: split from their query, and encoded.

use crate::redirect::is_path_byte;

/// Returns the path, still percent-encoded, and the query of the URL of an internal redirect or a
/// sub-request. Slashes at the start are merged, and the part after a `#` is dropped.
pub(super) fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut target = target;
    while let [b'/', b'/', ..] = target {
        target = &target[1..];
    }
    let target = &target[..memchr::memchr(b'#', target).unwrap_or(target.len())];
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Joins path and query.
pub(super) fn join(path: &[u8], args: Option<&[u8]>) -> Vec<u8> {
    let mut target = Vec::with_capacity(path.len() + args.map_or(0, |args| args.len() + 1));
    target.extend_from_slice(path);
    if let Some(args) = args {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    target
}

/// `name` as a reference from the page at `uri`, which is decoded (`ap_sub_req_method_uri`).
pub(super) fn relative_to(uri: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") {
        return name.to_vec();
    }
    let folder = &uri[..memchr::memrchr(b'/', uri).map_or(0, |at| at + 1)];
    let mut target = Vec::with_capacity(folder.len() + name.len() + 1);
    escape(folder, &mut target);
    if !target.ends_with(b"/") {
        target.push(b'/');
    }
    target.extend_from_slice(name);
    target
}

/// Writes a decoded path as a URL has it.
pub(super) fn escape(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        crate::redirect::push(byte, is_path_byte(byte), out);
    }
}

/// Returns a URL whose path has been escaped, with `%2F` where the path had that before, as
/// mod_proxy escapes under `AllowEncodedSlashes NoDecode`. The query is unchanged.
pub(super) fn with_kept_slashes(url: &[u8]) -> Vec<u8> {
    let (path, args) = url.split_at(memchr::memchr(b'?', url).unwrap_or(url.len()));
    let mut kept = Vec::with_capacity(url.len());
    let mut rest = path;
    while let Some(at) = memchr::memmem::find(rest, b"%252") {
        let is_slash = rest.get(at + 4).is_some_and(|byte| matches!(byte, b'F' | b'f'));
        kept.extend_from_slice(&rest[..at]);
        kept.extend_from_slice(if is_slash { b"%2" } else { b"%252" });
        rest = &rest[at + 4..];
    }
    kept.extend_from_slice(rest);
    kept.extend_from_slice(args);
    kept
}

/// The part of a rule's URL after the server, as a request line may hold it: it begins with a
/// slash, and bytes that could end the line are escaped.
pub(super) fn for_upstream(rest: &[u8]) -> Vec<u8> {
    let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
    let mut target = Vec::with_capacity(rest.len() + 1);
    if !rest.starts_with(b"/") {
        target.push(b'/');
    }
    for &byte in rest {
        crate::redirect::push(byte, byte.is_ascii_graphic(), &mut target);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_fall_apart() {
        type Parts = (&'static str, Option<&'static str>);
        let rows: [(&str, Parts); 8] = [
            ("/a", ("/a", None)),
            ("/a?", ("/a", Some(""))),
            ("/a?b?c", ("/a", Some("b?c"))),
            ("///a?b", ("/a", Some("b"))),
            ("/a#b?c", ("/a", None)),
            ("/a?b#c", ("/a", Some("b"))),
            ("//", ("/", None)),
            ("", ("", None)),
        ];
        for (target, (path, args)) in rows {
            let expected = (path.as_bytes(), args.map(str::as_bytes));
            assert_eq!(split(target.as_bytes()), expected, "{target}");
        }
    }

    #[test]
    fn targets_of_upstreams_are_one_word() {
        let rows = [
            ("", "/"),
            ("?a=b", "/?a=b"),
            ("/a%20b?c=%2F", "/a%20b?c=%2F"),
            ("/a b\r\nX: y#z", "/a%20b%0D%0AX:%20y"),
            ("/\u{e4}\u{7f}", "/%C3%A4%7F"),
        ];
        for (rest, expected) in rows {
            assert_eq!(
                String::from_utf8(for_upstream(rest.as_bytes())).unwrap(),
                expected,
                "{rest:?}"
            );
        }
    }

    #[test]
    fn kept_slashes_are_escaped_once() {
        let rows = [
            ("http://a/b%252Fc%252f%25%2525", "http://a/b%2Fc%2f%25%2525"),
            ("http://a/%252", "http://a/%252"),
            ("http://a/%252Fb?c=%252F", "http://a/%2Fb?c=%252F"),
        ];
        for (url, expected) in rows {
            let found = with_kept_slashes(url.as_bytes());
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn names_are_relative_to_the_folder() {
        let rows = [
            ("/", "index.php", "/index.php"),
            ("/a/", "index.php", "/a/index.php"),
            ("/a/b", "index.php", "/a/index.php"),
            ("/a b/", "i?x", "/a%20b/i?x"),
            ("/a/", "/i", "/i"),
        ];
        for (uri, name, expected) in rows {
            let found = relative_to(uri.as_bytes(), name.as_bytes());
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{uri} {name}");
        }
    }
}
