//! Addresses and networks, as `Require ip` and `Allow from` take them (`apr_ipsubnet_create`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of IPv4 or IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    network: Bits,
    mask: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    V4(u32),
    V6(u128),
}

/// Why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSubnet {
    /// It does not look like an address at all: it may be a host name.
    NoAddress,
    /// It looks like an address and is none.
    BadAddress,
    /// The mask is neither a number of bits nor an IPv4 mask.
    BadMask,
}

impl Subnet {
    /// An address, the beginning of an IPv4 address (`10.1.`), or an address with a mask (`10.0.0.0/8`,
    /// `10.0.0.0/255.0.0.0`, `2001:db8::/32`).
    pub fn new(text: &[u8]) -> Result<Subnet, BadSubnet> {
        let (address, mask) = match memchr::memchr(b'/', text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        if !looks_like_address(address) {
            return Err(BadSubnet::NoAddress);
        }
        let address = std::str::from_utf8(address).map_err(|_| BadSubnet::BadAddress)?;
        let network = match address.parse::<IpAddr>() {
            // Clients that come by a mapped address count as IPv4.
            Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => return Err(BadSubnet::BadAddress),
            Ok(IpAddr::V6(v6)) => Bits::V6(v6.to_bits()),
            Ok(IpAddr::V4(v4)) => Bits::V4(v4.to_bits()),
            Err(_) if mask.is_none() => return beginning(address),
            Err(_) => return Err(BadSubnet::BadAddress),
        };
        let mask = match mask {
            None => u128::MAX,
            Some(mask) => mask_of(mask, network)?,
        };
        Ok(Subnet { network, mask }.normal())
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (Bits::V4(network), IpAddr::V4(v4)) => v4.to_bits() & self.mask as u32 == network,
            (Bits::V6(network), IpAddr::V6(v6)) => v6.to_bits() & self.mask == network,
            _ => false,
        }
    }

    fn normal(self) -> Subnet {
        let network = match self.network {
            Bits::V4(v4) => Bits::V4(v4 & self.mask as u32),
            Bits::V6(v6) => Bits::V6(v6 & self.mask),
        };
        Subnet { network, ..self }
    }
}

/// The first address and the mask's bits; an address alone where the mask is all of them.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, ones, width) = match self.network {
            Bits::V4(v4) => (IpAddr::V4(v4.into()), (self.mask as u32).count_ones(), 32),
            Bits::V6(v6) => (IpAddr::V6(v6.into()), self.mask.count_ones(), 128),
        };
        match ones {
            ones if ones == width => write!(f, "{address}"),
            ones => write!(f, "{address}/{ones}"),
        }
    }
}

/// Whether the address is one of this machine's own: what `Require local` grants.
pub fn is_local(remote: IpAddr, local: IpAddr) -> bool {
    let remote = remote.to_canonical();
    match remote {
        IpAddr::V4(v4) if v4.octets()[0] == Ipv4Addr::LOCALHOST.octets()[0] => true,
        IpAddr::V6(Ipv6Addr::LOCALHOST) => true,
        _ => remote == local.to_canonical(),
    }
}

fn looks_like_address(text: &[u8]) -> bool {
    let is_numeric = |byte: &u8| *byte == b'.' || byte.is_ascii_digit();
    !text.is_empty() && (text.contains(&b':') || text.iter().all(is_numeric))
}

/// `10`, `10.1`, `10.1.2` with or without a dot at the end: the network that it begins.
fn beginning(text: &str) -> Result<Subnet, BadSubnet> {
    if text.len() > "255.255.255.255".len() {
        return Err(BadSubnet::BadAddress);
    }
    let (mut network, mut mask, mut count) = (0u32, 0u32, 0);
    for part in text.strip_suffix('.').unwrap_or(text).split('.') {
        let octet: u8 = part.parse().map_err(|_| BadSubnet::BadAddress)?;
        count += 1;
        if count > 4 || part.starts_with('+') {
            return Err(BadSubnet::BadAddress);
        }
        let shift = 32 - 8 * count;
        network |= u32::from(octet) << shift;
        mask |= 0xFF << shift;
    }
    Ok(Subnet {
        network: Bits::V4(network),
        mask: u128::from(mask),
    })
}

fn mask_of(text: &[u8], network: Bits) -> Result<u128, BadSubnet> {
    let text = std::str::from_utf8(text).map_err(|_| BadSubnet::BadMask)?;
    let width = if matches!(network, Bits::V4(_)) { 32 } else { 128 };
    match text.parse::<u32>() {
        Ok(bits @ 1..) if bits <= width => {
            let ones = u128::MAX << (width - bits);
            Ok(if width == 32 {
                ones & u128::from(u32::MAX)
            } else {
                ones
            })
        }
        _ => match (text.parse::<Ipv4Addr>(), network) {
            (Ok(mask), Bits::V4(_)) => Ok(u128::from(mask.to_bits())),
            _ => Err(BadSubnet::BadMask),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_addresses() {
        let rows = [
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("192.0.2.7", "::ffff:192.0.2.7", true),
            ("10", "10.200.3.4", true),
            ("10.", "10.200.3.4", true),
            ("10.1", "10.1.3.4", true),
            ("10.1", "10.2.3.4", false),
            ("10.1.2.", "10.1.2.255", true),
            ("10.01", "10.1.3.4", true),
            ("010.1.2.3", "10.1.2.3", true),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.0.0.0/255.0.0.0", "10.9.9.9", true),
            ("10.0.0.0/255.0.0.0", "11.9.9.9", false),
            ("10.0.0.0/0.0.0.0", "11.9.9.9", true),
            ("192.0.2.0/25", "192.0.2.127", true),
            ("192.0.2.0/25", "192.0.2.128", false),
            ("2001:db8::1", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("2001:db8::/128", "2001:db8::1", false),
            ("::1", "127.0.0.1", false),
            ("127.0.0.1", "::1", false),
        ];
        for (network, address, expected) in rows {
            let subnet = Subnet::new(network.as_bytes()).expect(network);
            assert_eq!(
                subnet.contains(address.parse().unwrap()),
                expected,
                "{network} {address}"
            );
        }
    }

    #[test]
    fn what_is_no_network() {
        use BadSubnet::{BadAddress, BadMask, NoAddress};
        let rows = [
            ("example.org", NoAddress),
            ("", NoAddress),
            ("10.1.2.3x", NoAddress),
            ("10.1.2.3.4", BadAddress),
            ("300.1", BadAddress),
            (".10", BadAddress),
            ("10..1", BadAddress),
            ("...............", BadAddress),
            ("10.1/16", BadAddress),
            ("::ffff:1.2.3.4", BadAddress),
            ("fe80::1%eth0", BadAddress),
            ("a:b", BadAddress),
            ("10.0.0.0/33", BadMask),
            ("10.0.0.0/0", BadMask),
            ("10.0.0.0/", BadMask),
            ("10.0.0.0/x", BadMask),
            ("2001:db8::/129", BadMask),
            ("2001:db8::/255.0.0.0", BadMask),
        ];
        for (text, expected) in rows {
            assert_eq!(Subnet::new(text.as_bytes()), Err(expected), "{text}");
        }
    }

    #[test]
    fn what_is_local() {
        let rows = [
            ("127.0.0.1", "192.0.2.1", true),
            ("127.9.9.9", "192.0.2.1", true),
            ("::ffff:127.0.0.1", "192.0.2.1", true),
            ("::1", "2001:db8::1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.2", "192.0.2.1", false),
        ];
        for (remote, local, expected) in rows {
            let found = is_local(remote.parse().unwrap(), local.parse().unwrap());
            assert_eq!(found, expected, "{remote} {local}");
        }
    }
}
