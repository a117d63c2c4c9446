//! Names of hosts in the machine's own list (`Require host localhost`, `Allow from localhost`).
//! Names that are not in the list are not looked up: a client could make every request wait for its
//! own name server.

use std::net::IpAddr;

use howdah_htaccess::host::LookedUp;

/// The path of the list.
pub(super) const LIST: &[u8] = b"/etc/hosts";

/// Returns the name of an address: the first that a line for it has.
pub(super) fn name_of(address: IpAddr, list: &[u8]) -> LookedUp<Vec<u8>> {
    let address = address.to_canonical();
    let mut found = lines(list).filter(|(of, _)| *of == address);
    match found.find_map(|(_, mut names)| names.next()) {
        Some(name) => LookedUp::Found(name.to_vec()),
        None => LookedUp::Never,
    }
}

/// Returns the addresses of a name.
pub(super) fn addresses_of(name: &[u8], list: &[u8]) -> LookedUp<Vec<IpAddr>> {
    let found = lines(list)
        .filter(|(_, names)| names.clone().any(|other| other.eq_ignore_ascii_case(name)));
    let addresses: Vec<IpAddr> = found.map(|(address, _)| address).collect();
    if addresses.is_empty() {
        LookedUp::Never
    } else {
        LookedUp::Found(addresses)
    }
}

/// Returns address and names of each line.
fn lines(list: &[u8]) -> impl Iterator<Item = (IpAddr, impl Iterator<Item = &[u8]> + Clone)> {
    list.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address: IpAddr = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        Some((address.to_canonical(), words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[u8] =
        b"127.0.0.1\tlocalhost here # there\n::1 localhost ip6-localhost\n#10.0.0.1 gone\n\
          10.0.0.2\nx y\n";

    #[test]
    fn names_and_addresses() {
        let rows = [
            ("127.0.0.1", Some("localhost")),
            ("::ffff:127.0.0.1", Some("localhost")),
            ("10.0.0.1", None),
            ("10.0.0.2", None),
        ];
        for (address, expected) in rows {
            let expected = expected.map_or(LookedUp::Never, |name| LookedUp::Found(name.into()));
            assert_eq!(name_of(address.parse().unwrap(), SOME), expected, "{address}");
        }
        let found = |name: &str| match addresses_of(name.as_bytes(), SOME) {
            LookedUp::Found(addresses) => addresses.len(),
            _ => 0,
        };
        assert_eq!(
            [found("LocalHost"), found("here"), found("there"), found("gone"), found("")],
            [2, 1, 0, 0, 0]
        );
    }
}
