//! `host[:port]` (RFC 3986 §3.2, RFC 9110 §4.2, §7.2).
//!
//! Stricter than the URI grammar on purpose: a host may become part of a path (mass hosting) and of
//! every URL that a script builds, so only the bytes of DNS names and IP literals are accepted.

use std::net::Ipv6Addr;

use crate::scan;

/// Checks `authority` and appends it to `into`, lower-cased, without the final dot of a rooted name
/// and without an empty port.
///
/// # Errors
/// The mistake in `authority`, for the log; `into` is left as it was.
pub fn check_authority(authority: &[u8], into: &mut Vec<u8>) -> Result<(), &'static str> {
    let (host, port) = match authority {
        [b'[', ..] => ip_literal(authority)?,
        _ => name(authority)?,
    };
    check_port(port)?;
    let start = into.len();
    into.extend_from_slice(host);
    into[start..].make_ascii_lowercase();
    if port.len() > 1 {
        into.extend_from_slice(port);
    }
    Ok(())
}

/// Returns host and port of a checked authority.
pub(crate) fn split(authority: &[u8]) -> (&[u8], Option<u16>) {
    let colon = match authority {
        [b'[', ..] => authority.iter().position(|&byte| byte == b']').map(|at| at + 1),
        _ => authority.iter().position(|&byte| byte == b':'),
    };
    let (host, port) = authority.split_at(colon.unwrap_or(authority.len()));
    let port = port.split_first().and_then(|(_, digits)| scan::decimal(digits));
    (host, port.and_then(|port| u16::try_from(port).ok()))
}

/// Splits `name[:port]`; the port keeps its colon.
#[inline]
fn name(authority: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let mut dot = true; // A dot may stand neither first nor behind another.
    let mut end = authority.len();
    for (at, &byte) in authority.iter().enumerate() {
        match scan::is_host(byte) {
            true if byte != b'.' => dot = false,
            true if dot => return Err("empty label in the host name"),
            true => dot = true,
            false => {
                end = at;
                break;
            }
        }
    }
    let (host, port) = authority.split_at(end);
    match port {
        [] | [b':', ..] => {}
        [b'@', ..] => return Err("user information in the authority"),
        _ => return Err("byte in the host name that no host name has"),
    }
    let host = host.strip_suffix(b".").unwrap_or(host);
    match host.len() {
        0 => Err("empty host name"),
        1..=HOST_LIMIT => Ok((host, port)),
        _ => Err("host name longer than DNS allows"),
    }
}

/// Splits `[address][:port]`; the port keeps its colon.
fn ip_literal(authority: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let end = authority
        .iter()
        .position(|&byte| byte == b']')
        .ok_or("unclosed bracket in the authority")?;
    let address = std::str::from_utf8(&authority[1..end])
        .ok()
        .and_then(|text| text.parse::<Ipv6Addr>().ok());
    if address.is_none() {
        return Err("the address in brackets is no IPv6 address");
    }
    Ok(authority.split_at(end + 1))
}

fn check_port(port: &[u8]) -> Result<(), &'static str> {
    match port {
        [] | [b':'] => Ok(()),
        [b':', digits @ ..] => match scan::decimal(digits) {
            Some(0) => Err("port 0, which no server has"),
            Some(number) if number <= u64::from(u16::MAX) && digits.len() <= 5 => Ok(()),
            Some(_) => Err("port beyond 65535"),
            None if digits.contains(&b'@') => Err("user information in the authority"),
            None => Err("port that is not a number"),
        },
        _ => Err("byte behind the IPv6 address"),
    }
}

/// RFC 1035 §2.3.4; more cannot be resolved.
const HOST_LIMIT: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_come_out_lower_cased() {
        let table = [
            ("example.org", "example.org"),
            ("EXAMPLE.Org:8080", "example.org:8080"),
            ("example.org.", "example.org"),
            ("example.org.:80", "example.org:80"),
            ("example.org:", "example.org"),
            ("a_b-c.d", "a_b-c.d"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[2001:DB8::1]:65535", "[2001:db8::1]:65535"),
            ("h:1", "h:1"),
        ];
        for (authority, expected) in table {
            let mut into = Vec::new();
            assert_eq!(check_authority(authority.as_bytes(), &mut into), Ok(()), "{authority}");
            assert_eq!(String::from_utf8(into).unwrap(), expected);
        }
    }

    #[test]
    fn bad_ones_leave_nothing_behind() {
        let long = "a".repeat(254);
        let table = [
            ("", "empty host name"),
            (".", "empty label"),
            (".a", "empty label"),
            ("a..b", "empty label"),
            (":80", "empty host name"),
            ("a b", "byte in the host name"),
            ("a/b", "byte in the host name"),
            ("a%41", "byte in the host name"),
            ("a\\b", "byte in the host name"),
            ("a,b", "byte in the host name"),
            ("caf\u{e9}", "byte in the host name"),
            ("user@host", "user information"),
            ("user:pass@host", "user information"),
            ("h:0", "port 0"),
            ("h:00", "port 0"),
            ("h:65536", "port beyond"),
            ("h:000080", "port beyond"),
            ("h:8x", "port that is not"),
            ("h:-1", "port that is not"),
            ("h:80:80", "port that is not"),
            ("::1", "empty host name"),
            ("[::1", "unclosed bracket"),
            ("[]", "no IPv6 address"),
            ("[::g]", "no IPv6 address"),
            ("[fe80::1%25eth0]", "no IPv6 address"),
            ("[v1.a]", "no IPv6 address"),
            ("[::1]x", "byte behind"),
            ("[::1]:x", "port that is not"),
            (&long, "longer than DNS"),
        ];
        for (authority, why) in table {
            let mut into = Vec::new();
            let error = check_authority(authority.as_bytes(), &mut into).unwrap_err();
            assert!(error.contains(why), "{authority}: {error}");
            assert!(into.is_empty());
        }
    }

    #[test]
    fn names_have_as_many_bytes_as_dns_allows() {
        let (longest, rooted) = ("a".repeat(253), format!("{}.", "a".repeat(253)));
        for (authority, host) in [(&longest, &longest), (&rooted, &longest)] {
            let mut into = b"before ".to_vec();
            assert_eq!(check_authority(authority.as_bytes(), &mut into), Ok(()));
            assert_eq!(into, format!("before {host}").into_bytes());
        }
    }

    #[test]
    fn a_checked_authority_has_a_host_and_perhaps_a_port() {
        let table = [
            ("a.example", "a.example", None),
            ("a.example:8080", "a.example", Some(8080)),
            ("a.example:65535", "a.example", Some(65535)),
            ("[::1]", "[::1]", None),
            ("[::1]:443", "[::1]", Some(443)),
            ("", "", None),
        ];
        for (authority, host, port) in table {
            assert_eq!(split(authority.as_bytes()), (host.as_bytes(), port), "{authority}");
        }
    }
}
