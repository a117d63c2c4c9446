//! A redirect's target, escaped except its query and fragment.

use crate::escape::push_uri;

/// Returns the target, percent-encoded up to its query. As in Apache, the URL is parsed and written
/// again first: the scheme's own port is dropped, a password becomes X's, and the text after a port
/// that is no number is lost.
pub(super) fn escaped(target: &[u8]) -> Vec<u8> {
    let url = Url::parse(target);
    let mut out = Vec::with_capacity(target.len() + 16);
    push_uri(&url.put_together(), &mut out);
    for (mark, part) in [(b'?', url.query), (b'#', url.fragment)] {
        if let Some(part) = part {
            out.push(mark);
            out.extend_from_slice(part);
        }
    }
    out
}

/// Returns whether it begins with a scheme (`ap_is_url`).
pub(super) fn is_url(target: &[u8]) -> bool {
    let scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let length = target.iter().take_while(|byte| scheme(byte)).count();
    length > 0 && target.get(length) == Some(&b':')
}

/// The parts of a URL, as APR sees them.
#[derive(Default)]
struct Url<'u> {
    scheme: Option<&'u [u8]>,
    user: Option<&'u [u8]>,
    has_password: bool,
    host: Option<&'u [u8]>,
    port: Option<&'u [u8]>,
    path: &'u [u8],
    query: Option<&'u [u8]>,
    fragment: Option<&'u [u8]>,
}

impl<'u> Url<'u> {
    fn parse(text: &'u [u8]) -> Url<'u> {
        let mut url = Url::default();
        let mut rest = text;
        match scheme(text) {
            Some((scheme, after)) => {
                url.scheme = Some(scheme);
                rest = after;
                if let [b'/', b'/', after @ ..] = after {
                    match url.authority(after) {
                        Some(after) => rest = after,
                        None => return url,
                    }
                }
            }
            None => {
                if let [b'/', b'/', third, ..] = text
                    && *third != b'/'
                {
                    match url.authority(&text[2..]) {
                        Some(after) => rest = after,
                        None => return url,
                    }
                }
            }
        }
        url.path_and_query(rest);
        url
    }

    /// Reads user, host and port, and returns the rest; `None` where the port is no number.
    fn authority(&mut self, text: &'u [u8]) -> Option<&'u [u8]> {
        let end = text.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(text.len());
        let (mut host, rest) = text.split_at(end);
        if let Some(at) = memchr::memrchr(b'@', host) {
            let user = &host[..at];
            let colon = memchr::memchr(b':', user);
            self.user = Some(&user[..colon.unwrap_or(user.len())]);
            self.has_password = colon.is_some();
            host = &host[at + 1..];
        }
        let bracket = match host {
            [b'[', ..] => memchr::memchr(b']', host)?,
            _ => 0,
        };
        let Some(colon) = memchr::memchr(b':', &host[bracket..]).map(|at| at + bracket) else {
            self.host = Some(host);
            return Some(rest);
        };
        self.host = Some(&host[..colon]);
        let port = &host[colon + 1..];
        self.port = Some(port);
        port.iter().all(u8::is_ascii_digit).then_some(rest)
    }

    fn path_and_query(&mut self, text: &'u [u8]) {
        let (text, fragment) = split(text, b'#');
        let (path, query) = split(text, b'?');
        (self.path, self.query, self.fragment) = (path, query, fragment);
    }

    /// Returns everything before the query.
    fn put_together(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(scheme) = self.scheme {
            out.extend_from_slice(scheme);
            out.push(b':');
        }
        if let Some(host) = self.host {
            out.extend_from_slice(b"//");
            if let Some(user) = self.user {
                out.extend_from_slice(user);
                out.extend_from_slice(if self.has_password { b":XXXXXXXX@" } else { b"@" });
            }
            out.extend_from_slice(host);
            if let Some(port) = self.port.filter(|port| !self.is_default(port)) {
                out.push(b':');
                out.extend_from_slice(port);
            }
        }
        out.extend_from_slice(self.path);
        out
    }

    fn is_default(&self, port: &[u8]) -> bool {
        let number = port
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0u32, |value, digit| (value * 10 + u32::from(digit - b'0')) & 0xffff);
        let scheme = self.scheme.unwrap_or_default().to_ascii_lowercase();
        let default = PORTS.iter().find(|(name, _)| *name == scheme.as_slice());
        number == 0 || default.is_some_and(|(_, default)| *default == number)
    }
}

/// The schemes whose port APR leaves out.
const PORTS: &[(&[u8], u32)] = &[
    (b"http", 80),
    (b"ftp", 21),
    (b"https", 443),
    (b"gopher", 70),
    (b"ldap", 389),
    (b"nntp", 119),
    (b"snews", 563),
    (b"imap", 143),
    (b"pop", 110),
    (b"sip", 5060),
    (b"rtsp", 554),
    (b"wais", 210),
    (b"z39.50r", 210),
    (b"z39.50s", 210),
    (b"prospero", 191),
    (b"nfs", 2049),
    (b"tip", 3372),
    (b"acap", 674),
    (b"telnet", 23),
    (b"ssh", 22),
];

/// Returns the scheme, and the text after its colon.
fn scheme(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let length = text.iter().take_while(|byte| is_in_scheme(byte)).count();
    let begins = text.first().is_some_and(u8::is_ascii_alphabetic);
    (begins && text.get(length) == Some(&b':')).then(|| (&text[..length], &text[length + 1..]))
}

fn split(text: &[u8], mark: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(mark, text) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is what Apache 2.4.71 answers.
    #[test]
    fn targets_are_escaped() {
        let table = [
            ("http://h:80/x", "http://h/x"),
            ("http://h:8080", "http://h:8080"),
            ("http://h:/x", "http://h/x"),
            ("http://h:x/y", "http://h"),
            ("https://h:443/", "https://h/"),
            ("HTTP://h/", "HTTP://h/"),
            ("http://user:pw@h/", "http://user:XXXXXXXX@h/"),
            ("http://@h/", "http://@h/"),
            ("mailto:x", "mailto:x"),
            ("foo:bar", "foo:bar"),
            ("//host/x", "//host/x"),
            ("///host/x", "///host/x"),
            ("//user:pw@h/x", "//user:XXXXXXXX@h/x"),
            ("///user:pw@h/x", "///user:pw@h/x"),
            ("/rel/pa th?x y#z w", "/rel/pa%20th?x y#z w"),
            ("http://h?x", "http://h?x"),
            ("http://h/a b%20", "http://h/a%20b%2520"),
            ("http://[::1]:8080/x", "http://%5b::1%5d:8080/x"),
            ("http://h/é", "http://h/%c3%a9"),
            ("http://h/x#f?q", "http://h/x#f?q"),
            ("#f", "#f"),
            ("", ""),
        ];
        for (target, expected) in table {
            assert_eq!(String::from_utf8(escaped(target.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn schemes_make_urls() {
        let table = [
            ("http://h", true),
            ("a:", true),
            ("9+-.:", true),
            (":a", false),
            ("a/b:", false),
            ("", false),
        ];
        for (target, expected) in table {
            assert_eq!(is_url(target.as_bytes()), expected, "{target}");
        }
    }
}
