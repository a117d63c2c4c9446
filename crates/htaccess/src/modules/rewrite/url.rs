//! The parts of URLs, as mod_rewrite splits them: schemes, queries; and their escaping.

use super::rule::Switches;
use crate::escape::push_uri;

/// The beginning of an absolute URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UrlScheme {
    /// The length, with `://`, or with `:` where no host follows.
    pub length: usize,
    /// Whether a `?` begins a query in it.
    pub has_query: bool,
}

/// The schemes by which mod_rewrite knows an absolute URL: any other is a path.
const SCHEMES: &[(&[u8], bool)] = &[
    (b"http://", true),
    (b"https://", true),
    (b"ajp://", true),
    (b"balancer://", true),
    (b"ftp://", false),
    (b"fcgi://", true),
    (b"gopher://", false),
    (b"h2://", true),
    (b"h2c://", true),
    (b"ldap://", false),
    (b"mailto:", true),
    (b"news:", false),
    (b"nntp://", false),
    (b"scgi://", true),
    (b"ws://", true),
    (b"wss://", true),
    (b"unix://", true),
    (b"unix:", true),
];

/// Returns the scheme of an absolute URL. `None`: the URL is a path, or its scheme is not known.
pub(super) fn scheme(url: &[u8]) -> Option<UrlScheme> {
    if url.len() <= 5 || url[0] == b'/' {
        return None;
    }
    SCHEMES
        .iter()
        .find(|(name, _)| starts_with_caseless(url, name))
        .map(|(name, has_query)| UrlScheme {
            length: name.len(),
            has_query: *has_query,
        })
}

/// Percent-encodes the part of an absolute URL after its host. In `ldap:` the question marks
/// separate parts.
pub(super) fn escape_absolute(url: &[u8], scheme: UrlScheme) -> Vec<u8> {
    let mut out = Vec::with_capacity(url.len() + 16);
    let mut plain = scheme.length;
    if url[scheme.length - 1] == b'/' {
        match memchr::memchr(b'/', &url[scheme.length..]) {
            Some(at) => plain += at + 1,
            None => return url.to_vec(),
        }
    }
    out.extend_from_slice(&url[..plain]);
    let parts = if starts_with_caseless(url, b"ldap") { 5 } else { 1 };
    for (number, part) in url[plain..].splitn(parts, |&byte| byte == b'?').enumerate() {
        if number > 0 {
            out.push(b'?');
        }
        push_uri(part, &mut out);
    }
    out
}

/// Gives the escapes of an escaped URL capital letters, as mod_proxy writes them.
pub(super) fn capitalize_escapes(url: &mut [u8]) {
    let mut rest = url;
    while let Some(at) = memchr::memchr(b'%', rest) {
        let (escape, behind) = rest[at + 1..].split_at_mut_checked(2).unwrap_or_default();
        escape.make_ascii_uppercase();
        rest = behind;
    }
}

/// Takes the query off a substitution's result, as the rule's flags have it.
pub(super) fn split_query(name: &mut Vec<u8>, args: &mut Option<Vec<u8>>, switches: Switches) {
    if switches.has(Switches::QUERY_NONE) {
        *args = None;
        return;
    }
    let scheme = scheme(name);
    if scheme.is_some_and(|scheme| !scheme.has_query) {
        *args = None;
        return;
    }
    if switches.has(Switches::QUERY_DISCARD) {
        *args = None;
    }
    let from = scheme.map_or(0, |scheme| scheme.length);
    let found = if switches.has(Switches::QUERY_LAST) {
        memchr::memrchr(b'?', &name[from..])
    } else {
        memchr::memchr(b'?', &name[from..])
    };
    let Some(at) = found.map(|at| at + from) else {
        return;
    };
    let mut query = name[at + 1..].to_vec();
    name.truncate(at);
    if switches.has(Switches::QUERY_APPEND) {
        if !query.is_empty() {
            query.push(b'&');
            query.extend_from_slice(args.as_deref().unwrap_or_default());
            *args = Some(query);
        }
    } else {
        *args = Some(query);
    }
    if let Some(query) = args
        && query.last() == Some(&b'&')
    {
        query.pop();
    } else if args.as_ref().is_some_and(Vec::is_empty) {
        *args = None;
    }
}

/// Returns `text` with the folder `from` at its beginning replaced by `to`; `None` where it is not
/// in that folder.
pub(super) fn replace_prefix(text: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let from = from.strip_suffix(b"/").unwrap_or(from);
    let rest = text.strip_prefix(from)?.strip_prefix(b"/")?;
    let slash: &[u8] = if to.is_empty() || to.ends_with(b"/") { b"" } else { b"/" };
    Some([to, slash, rest].concat())
}

fn starts_with_caseless(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        let table: &[(&str, Option<(usize, bool)>)] = &[
            ("http://h/", Some((7, true))),
            ("HTTPS://h", Some((8, true))),
            ("mailto:a@b", Some((7, true))),
            ("ftp://h/a", Some((6, false))),
            ("unix:/run/x", Some((5, true))),
            ("unix://run", Some((7, true))),
            ("h2://", None),
            ("h2://h", Some((5, true))),
            ("http:/h/", None),
            ("httpx://h/", None),
            ("file://h/", None),
            ("/http://h/", None),
            ("", None),
        ];
        for (url, expected) in table {
            let found = scheme(url.as_bytes()).map(|scheme| (scheme.length, scheme.has_query));
            assert_eq!(found, *expected, "{url}");
        }
    }

    #[test]
    fn absolute_urls_are_escaped_behind_the_host() {
        let table = [
            ("http://h o/a b?c%20", "http://h o/a%20b%3fc%2520"),
            ("http://h o", "http://h o"),
            ("http://h/", "http://h/"),
            ("mailto:a b", "mailto:a%20b"),
            ("ldap://h/o=a b?cn x?sub?f?e?g", "ldap://h/o=a%20b?cn%20x?sub?f?e%3fg"),
            ("http://h/\u{e9}^|\"", "http://h/%c3%a9%5e%7c%22"),
            ("http://h/$-_.+!*'(),:;@&=/~", "http://h/$-_.+!*'(),:;@&=/~"),
        ];
        for (url, expected) in table {
            let escaped = escape_absolute(url.as_bytes(), scheme(url.as_bytes()).unwrap());
            assert_eq!(String::from_utf8_lossy(&escaped), expected);
        }
    }

    #[test]
    fn queries_are_split_off() {
        use Switches as S;
        type Row =
            (&'static str, Option<&'static str>, Switches, &'static str, Option<&'static str>);
        let table: &[Row] = &[
            ("/a", Some("q"), S::NONE, "/a", Some("q")),
            ("/a?b", Some("q"), S::NONE, "/a", Some("b")),
            ("/a?", Some("q"), S::NONE, "/a", None),
            ("/a?b", Some("q"), S::QUERY_APPEND, "/a", Some("b&q")),
            ("/a?b", None, S::QUERY_APPEND, "/a", Some("b")),
            ("/a?", Some("q&"), S::QUERY_APPEND, "/a", Some("q")),
            ("/a?b&", None, S::NONE, "/a", Some("b")),
            ("/a?b&&", None, S::NONE, "/a", Some("b&")),
            ("/a", Some("q"), S::QUERY_DISCARD, "/a", None),
            ("/a?b", Some("q"), S::QUERY_DISCARD, "/a", Some("b")),
            ("/a?b?c", None, S::NONE, "/a", Some("b?c")),
            ("/a?b?c", None, S::QUERY_LAST, "/a?b", Some("c")),
            ("/a?b", Some("q"), S::QUERY_NONE, "/a?b", None),
            ("ftp://h/a?b", Some("q"), S::NONE, "ftp://h/a?b", None),
            ("http://h/a?b", Some("q"), S::NONE, "http://h/a", Some("b")),
        ];
        for (name, args, switches, path, query) in table {
            let (mut name, mut args) =
                (name.as_bytes().to_vec(), args.map(|args| args.as_bytes().to_vec()));
            split_query(&mut name, &mut args, *switches);
            assert_eq!(
                (String::from_utf8(name).unwrap().as_str(), args.as_deref()),
                (*path, query.map(str::as_bytes))
            );
        }
    }

    #[test]
    fn prefixes_are_replaced() {
        let table = [
            ("/www/a/b", "/www/a/", "/x/", Some("/x/b")),
            ("/www/a/b", "/www/a", "/x", Some("/x/b")),
            ("/www/a/b", "/www/a", "", Some("b")),
            ("/www/ab", "/www/a/", "/x/", None),
            ("/www/a", "/www/a/", "/x/", None),
        ];
        for (text, from, to, expected) in table {
            let found = replace_prefix(text.as_bytes(), from.as_bytes(), to.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
