//! Networks and domains that clients belong to, as `Require ip`, `Require host` and `Allow from`
//! name them (`apr_ipsubnet_create`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of IPv4 or IPv6 addresses. Small, because there are lists of thousands of IPv4
/// networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet(SubnetAddress);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SubnetAddress {
    V4 { network: u32, mask: u32 },
    V6(Box<V6>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct V6 {
    network: u128,
    mask: u128,
}

/// The reason why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSubnet {
    /// The text does not look like an address at all: it may be a host name.
    NoAddress,
    /// The text looks like an address and is none.
    BadAddress,
    /// The mask is neither a number of bits nor an IPv4 mask.
    BadMask,
}

impl Subnet {
    /// Parses an address, the beginning of an IPv4 address (`10.1.`), or an address with a mask
    /// (`10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `2001:db8::/32`).
    ///
    /// # Errors
    /// Where the text is none of these.
    pub fn new(text: &[u8]) -> Result<Subnet, BadSubnet> {
        let (address, mask) = match memchr::memchr(b'/', text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        if !looks_like_address(address) {
            return Err(BadSubnet::NoAddress);
        }
        let address = std::str::from_utf8(address).map_err(|_| BadSubnet::BadAddress)?;
        match address.parse::<IpAddr>() {
            // Clients that come by a mapped address count as IPv4.
            Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => Err(BadSubnet::BadAddress),
            Ok(IpAddr::V6(v6)) => {
                let mask =
                    mask.map_or(Ok(u128::MAX), |mask| Ok(u128::MAX << (128 - bits(mask, 128)?)))?;
                let network = v6.to_bits() & mask;
                Ok(Subnet(SubnetAddress::V6(Box::new(V6 { network, mask }))))
            }
            Ok(IpAddr::V4(v4)) => {
                let mask = mask.map_or(Ok(u32::MAX), mask_of)?;
                let network = v4.to_bits() & mask;
                Ok(Subnet(SubnetAddress::V4 { network, mask }))
            }
            Err(_) if mask.is_none() => beginning(address),
            Err(_) => Err(BadSubnet::BadAddress),
        }
    }

    /// Returns whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (&self.0, address.to_canonical()) {
            (SubnetAddress::V4 { network, mask }, IpAddr::V4(v4)) => {
                v4.to_bits() & mask == *network
            }
            (SubnetAddress::V6(own), IpAddr::V6(v6)) => v6.to_bits() & own.mask == own.network,
            _ => false,
        }
    }
}

/// The first address and the mask's bits; an address alone where the mask is all of them.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, ones, width) = match &self.0 {
            SubnetAddress::V4 { network, mask } => {
                (IpAddr::V4((*network).into()), mask.count_ones(), 32)
            }
            SubnetAddress::V6(own) => (IpAddr::V6(own.network.into()), own.mask.count_ones(), 128),
        };
        match ones {
            ones if ones == width => write!(f, "{address}"),
            ones => write!(f, "{address}/{ones}"),
        }
    }
}

/// Returns whether the address is one of this machine's own: what `Require local` grants.
pub fn is_local(remote: IpAddr, local: IpAddr) -> bool {
    let remote = remote.to_canonical();
    match remote {
        IpAddr::V4(v4) if v4.octets()[0] == Ipv4Addr::LOCALHOST.octets()[0] => true,
        IpAddr::V6(Ipv6Addr::LOCALHOST) => true,
        _ => remote == local.to_canonical(),
    }
}

/// Returns whether a host is a domain or lies in it.
pub(crate) fn in_domain(domain: &[u8], host: &[u8]) -> bool {
    let Some(at) = host.len().checked_sub(domain.len()) else {
        return false;
    };
    let is_whole = at == 0 || domain.first() == Some(&b'.') || host[at - 1] == b'.';
    is_whole && host[at..].eq_ignore_ascii_case(domain)
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
    Ok(Subnet(SubnetAddress::V4 { network, mask }))
}

/// Returns a number of bits, or an IPv4 mask.
fn mask_of(text: &[u8]) -> Result<u32, BadSubnet> {
    if let Ok(bits) = bits(text, 32) {
        return Ok(u32::MAX << (32 - bits));
    }
    let text = std::str::from_utf8(text).map_err(|_| BadSubnet::BadMask)?;
    let mask: Ipv4Addr = text.parse().map_err(|_| BadSubnet::BadMask)?;
    Ok(mask.to_bits())
}

/// Reads the number of a network's bits, from 1 to `width`.
fn bits(text: &[u8], width: u32) -> Result<u32, BadSubnet> {
    let bits = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    bits.filter(|bits| (1..=width).contains(bits)).ok_or(BadSubnet::BadMask)
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
            ("010.001.002.003", "10.1.2.3", true),
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
            assert_eq!(subnet.contains(address.parse().unwrap()), expected, "{network} {address}");
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
            ("0010.001.002.003", BadAddress),
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
