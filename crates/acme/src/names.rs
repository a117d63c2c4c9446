//! The host names for which a certificate authority can issue certificates.

use std::net::IpAddr;

/// Top-level names that no public authority issues certificates for (RFC 6761, RFC 6762, RFC 8375,
/// RFC 9476, and `internal`, which ICANN has reserved).
const RESERVED: [&str; 6] = ["local", "internal", "test", "example", "onion", "alt"];
/// Top-level names that no authority can look up (RFC 6761).
const NOT_IN_DNS: [&str; 2] = ["localhost", "invalid"];
/// Second-level names of countries below which everybody registers.
const SHARED: [&str; 17] = [
    "ac", "co", "com", "edu", "gob", "gov", "govt", "gv", "ltd", "ne", "net", "nom", "or", "org",
    "plc", "sch", "web",
];
/// RFC 1035: the longest name. No certificate is ordered for a longer one.
const LONGEST_NAME: usize = 253;
/// RFC 1035: the longest label. No certificate is ordered for a name with a longer one.
const LONGEST_LABEL: usize = 63;

/// Checks that the authorities can issue a certificate for `name`, which may begin with `*.`. They
/// `are_own` where their roots are configured: such an authority knows names that are not in the
/// public DNS.
///
/// # Errors
/// The reason why not, as the end of a sentence about the name.
pub fn check_for(name: &str, are_own: bool) -> Result<(), &'static str> {
    if are_own { check(name) } else { check_public(name) }
}

/// Checks that a public authority can issue a certificate for `name`, which may begin with `*.`.
///
/// # Errors
/// The reason why not, as the end of a sentence about the name.
fn check_public(name: &str) -> Result<(), &'static str> {
    check(name)?;
    let Some((_, top)) = name.rsplit_once('.').filter(|(rest, _)| *rest != "*") else {
        return Err("is a name within a network: certificates are for names of the public DNS");
    };
    if RESERVED.contains(&top) || name.ends_with(".home.arpa") {
        return Err("is below a reserved name: certificates are for names of the public DNS");
    }
    Ok(())
}

/// Checks that an authority of one's own network can issue a certificate for `name`, which may
/// begin with `*.`.
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
    if NOT_IN_DNS.contains(&host.rsplit('.').next().unwrap_or(host)) {
        return Err("is no name that an authority can look up");
    }
    Ok(())
}

/// Returns the domain of the customer that `name` belongs to: the name one level below `suffix`, if
/// the server has a wildcard for it. Otherwise the domain that was registered, as far as this can
/// be seen: two labels, or three below names such as `co.uk`.
pub fn domain<'n>(name: &'n str, suffix: Option<&str>) -> &'n str {
    let below = suffix.and_then(|suffix| name.strip_suffix(suffix)?.strip_suffix('.'));
    let labels = match below {
        // The customer's label and those of the suffix.
        Some(below) => 1 + labels(name) - labels(below),
        None => {
            let mut last = name.rsplit('.');
            let is_country = last.next().is_some_and(|top| top.len() == 2);
            2 + usize::from(is_country && last.next().is_some_and(|word| SHARED.contains(&word)))
        }
    };
    let begins = name.rmatch_indices('.').map(|(at, _)| at + 1).nth(labels - 1);
    &name[begins.unwrap_or(0)..]
}

/// Returns the number of labels.
fn labels(name: &str) -> usize {
    name.split('.').count()
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
            assert_eq!(check_public(name), Ok(()), "{name}");
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_belong_to_a_domain() {
        for (name, suffix, expected) in [
            ("shop.example.org", None, "example.org"),
            ("a.b.shop.example.org", None, "example.org"),
            ("example.org", None, "example.org"),
            ("intranet", None, "intranet"),
            ("a.shop.co.uk", None, "shop.co.uk"),
            ("co.uk", None, "co.uk"),
            ("a.b.shop.com.au", None, "shop.com.au"),
            ("a.b.ab.de", None, "ab.de"),
            ("a.co.org", None, "co.org"),
            ("shop.example.org", Some("example.org"), "shop.example.org"),
            ("a.b.shop.example.org", Some("example.org"), "shop.example.org"),
            ("shop.example.org", Some("org"), "example.org"),
            ("a.shop.example.org", Some("example.net"), "example.org"),
            ("badexample.org", Some("example.org"), "badexample.org"),
        ] {
            assert_eq!(domain(name, suffix), expected, "{name} {suffix:?}");
        }
    }

    #[test]
    fn names_of_ones_own_network() {
        for name in ["intranet", "*.intranet", "shop.test", "printer.local", "router.home.arpa"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for (name, why) in [
            ("127.0.0.1", "address"),
            ("[::1]", "address"),
            ("localhost", "look up"),
            ("shop.localhost", "look up"),
            ("a.invalid", "look up"),
            ("intranet", "within a network"),
            ("*.intranet", "within a network"),
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
            let error = check_public(name).unwrap_err();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert!(check(&format!("{}.org", "a".repeat(64))).is_err());
        assert!(check(&"a.".repeat(130)).is_err());
    }
}
