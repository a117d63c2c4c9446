//! The host names for which a certificate authority can issue certificates.

use std::net::IpAddr;

/// Top-level names that no public authority issues certificates for (RFC 6761, RFC 6762, RFC 8375,
/// RFC 9476, and `internal`, which ICANN has reserved).
const RESERVED: [&str; 8] =
    ["localhost", "local", "internal", "test", "invalid", "example", "onion", "alt"];
/// RFC 1035: the longest name.
const LONGEST_NAME: usize = 253;
/// RFC 1035: the longest label.
const LONGEST_LABEL: usize = 63;

/// Checks that an authority can issue a certificate for `name`, which may begin with `*.`.
///
/// # Errors
/// The reason why not, as the end of a sentence about the name.
pub fn check(name: &str) -> Result<(), &'static str> {
    let host = name.strip_prefix("*.").unwrap_or(name);
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
        return Err("is an address: certificates are for names");
    }
    if host.len() > LONGEST_NAME || !host.split('.').all(is_label) {
        return Err("is not a host name");
    }
    let Some((_, top)) = host.rsplit_once('.') else {
        return Err("is a name within a network: certificates are for names of the public DNS");
    };
    if RESERVED.contains(&top) || host.ends_with(".home.arpa") {
        return Err("is below a reserved name: certificates are for names of the public DNS");
    }
    Ok(())
}

/// Returns whether `name` stands for all names one level below another.
pub fn is_wildcard(name: &str) -> bool {
    name.starts_with("*.")
}

fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !label.is_empty()
        && label.len() <= LONGEST_LABEL
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_public_dns() {
        for name in ["example.org", "www.example.org", "*.example.org", "xn--bcher-kva.example.org"]
        {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for (name, why) in [
            ("127.0.0.1", "address"),
            ("[::1]", "address"),
            ("localhost", "within a network"),
            ("intranet", "within a network"),
            ("*.intranet", "within a network"),
            ("shop.localhost", "reserved"),
            ("printer.local", "reserved"),
            ("db.internal", "reserved"),
            ("shop.test", "reserved"),
            ("router.home.arpa", "reserved"),
            ("", "not a host name"),
            ("a..b", "not a host name"),
            ("-a.org", "not a host name"),
            ("a_b.example.org", "not a host name"),
            ("../etc.org", "not a host name"),
            ("*", "not a host name"),
            ("a.*.org", "not a host name"),
        ] {
            let error = check(name).unwrap_err();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert!(check(&format!("{}.org", "a".repeat(64))).is_err());
        assert!(check(&"a.".repeat(130)).is_err());
    }
}
