//! Host names as requests give them.

use std::fmt::Write;
use std::net::Ipv6Addr;

/// A request's host in its normal form: lower-case, without port and final dot; an IPv6 address in
/// brackets and in its shortest form. Held in place, since every request needs one.
#[derive(Clone, Copy)]
pub(crate) struct HostName {
    bytes: [u8; LONGEST],
    length: usize,
}

impl HostName {
    /// Returns the normal form of `host`, which may have a port. `None`: the host is too long to be
    /// a name.
    pub(crate) fn new(host: &[u8]) -> Option<Self> {
        let mut name = HostName { bytes: [0; LONGEST], length: 0 };
        if host.first() == Some(&b'[') {
            let end = memchr::memchr(b']', host)?;
            let address: Ipv6Addr = std::str::from_utf8(&host[1..end]).ok()?.parse().ok()?;
            write!(name, "[{address}]").ok()?;
            return Some(name);
        }
        let host = &host[..memchr::memchr(b':', host).unwrap_or(host.len())];
        let host = host.strip_suffix(b".").unwrap_or(host);
        let place = name.bytes.get_mut(..host.len())?;
        place.copy_from_slice(host);
        place.make_ascii_lowercase();
        name.length = host.len();
        Some(name)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the name as a component of a path, if it is one by RFC 1123 §2.1 to the letter:
    /// labels of 1 to 63 letters, digits and inner hyphens, joined by dots, 253 bytes at most. Such
    /// a name is never empty, `.` or `..`, and holds no slash. Underscores are refused, although a
    /// site may be named so in the configuration. `None` for any other name.
    pub(crate) fn as_component(&self) -> Option<&[u8]> {
        let name = self.as_bytes();
        let sound = name.len() <= 253
            && name.split(|&byte| byte == b'.').all(|label| {
                (1..=63).contains(&label.len())
                    && label.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
                    && !label.starts_with(b"-")
                    && !label.ends_with(b"-")
            });
        sound.then_some(name)
    }
}

impl Write for HostName {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// No name in the DNS is longer than 253 bytes.
const LONGEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(host: &str) -> Option<String> {
        HostName::new(host.as_bytes())
            .map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn normal_forms() {
        let rows = [
            ("example.org", Some("example.org")),
            ("Example.ORG", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("example.org:8080", Some("example.org")),
            ("example.org.:8080", Some("example.org")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[::1]:80", Some("[::1]")),
            ("[0:0:0:0:0:0:0:1]:80", Some("[::1]")),
            ("[FE80::1]", Some("[fe80::1]")),
            ("", Some("")),
            ("[::1", None),
            ("[]", None),
        ];
        for (host, expected) in rows {
            assert_eq!(normal(host).as_deref(), expected, "{host}");
        }
        assert_eq!(normal(&"a".repeat(300)), None);
    }

    #[test]
    fn only_strict_names_become_paths() {
        let long_label = "a".repeat(64);
        let long_name = "a.".repeat(126) + "aa";
        let longest_name = "a.".repeat(126) + "a";
        let rows = [
            ("example.org", true),
            ("xn--bcher-kva.example", true),
            ("127.0.0.1", true),
            ("a", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a..b", false),
            (".a", false),
            ("a/b", false),
            ("../a", false),
            ("a_b", false),
            ("-a", false),
            ("a-", false),
            ("a\\b", false),
            ("a b", false),
            ("a\0b", false),
            ("b\u{fc}cher", false),
            ("[::1]", false),
            (&long_label, false),
            (&long_name, false),
            (&longest_name, true),
        ];
        for (host, expected) in rows {
            let found =
                HostName::new(host.as_bytes()).is_some_and(|name| name.as_component().is_some());
            assert_eq!(found, expected, "{host}");
        }
    }
}
