//! A packet on its way to the front of another generation.
//!
//! ```text
//! 1 byte    bits of congestion notification
//! 22 bytes  the client's address as IPv6, port and scope
//! 17 bytes  bits: the client's address is IPv4; there is a local one; that one is IPv4; then the
//!           address that the packet was sent to, as IPv6
//! …         the packet
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes before the packet.
const HEAD: usize = 1 + 16 + 2 + 4 + 1 + 16;

/// A packet and what the system said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForwardedPacket {
    /// The client.
    pub(super) remote: SocketAddr,
    /// The address that the packet was sent to.
    pub(super) local: Option<IpAddr>,
    /// Explicit congestion notification.
    pub(super) congestion: u8,
    pub(super) packet: Vec<u8>,
}

impl ForwardedPacket {
    /// Encodes the packet as one message.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.packet.len());
        out.push(self.congestion);
        out.extend_from_slice(&six(self.remote.ip()).octets());
        out.extend_from_slice(&self.remote.port().to_be_bytes());
        let scope = match self.remote {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        out.extend_from_slice(&scope.to_be_bytes());
        let families = u8::from(self.remote.is_ipv4()) | u8::from(self.local.is_some()) << 1;
        out.push(families | u8::from(self.local.is_some_and(|local| local.is_ipv4())) << 2);
        let none = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        out.extend_from_slice(&six(self.local.unwrap_or(none)).octets());
        out.extend_from_slice(&self.packet);
        out
    }

    /// Decodes a message; `None` if it is malformed.
    pub(super) fn decode(bytes: &[u8]) -> Option<ForwardedPacket> {
        let (&[congestion], rest) = bytes.split_first_chunk()?;
        let (remote, rest) = rest.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk()?;
        let (scope, rest) = rest.split_first_chunk()?;
        let (&[families], rest) = rest.split_first_chunk()?;
        let (local, packet) = rest.split_first_chunk::<16>()?;
        let (port, scope) = (u16::from_be_bytes(*port), u32::from_be_bytes(*scope));
        let remote = match ip(*remote, families & 1 != 0)? {
            IpAddr::V4(address) => SocketAddr::from((address, port)),
            IpAddr::V6(address) => {
                SocketAddr::V6(std::net::SocketAddrV6::new(address, port, 0, scope))
            }
        };
        let local = match families & 2 {
            0 => None,
            _ => Some(ip(*local, families & 4 != 0)?),
        };
        Some(ForwardedPacket {
            remote,
            local,
            congestion,
            packet: packet.to_vec(),
        })
    }
}

fn six(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn ip(octets: [u8; 16], is_four: bool) -> Option<IpAddr> {
    let address = Ipv6Addr::from(octets);
    match is_four {
        true => address.to_ipv4_mapped().map(|address: Ipv4Addr| IpAddr::V4(address)),
        false => Some(IpAddr::V6(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_arrives_as_it_was_sent() {
        let rows: [(&str, Option<&str>); 4] = [
            ("192.0.2.1:443", Some("192.0.2.2")),
            ("[2001:db8::1]:1", Some("2001:db8::2")),
            ("[::ffff:192.0.2.1]:7", Some("::ffff:192.0.2.2")),
            ("[fe80::1%3]:7", None),
        ];
        for (remote, local) in rows {
            let forwarded = ForwardedPacket {
                remote: remote.parse().unwrap(),
                local: local.map(|local| local.parse().unwrap()),
                congestion: 2,
                packet: b"packet".to_vec(),
            };
            let bytes = forwarded.encode();
            assert_eq!(bytes.len(), HEAD + 6);
            assert_eq!(ForwardedPacket::decode(&bytes), Some(forwarded));
            for length in 0..HEAD {
                assert_eq!(ForwardedPacket::decode(&bytes[..length]), None, "{length}");
            }
        }
        let mut malformed = ForwardedPacket {
            remote: "192.0.2.1:443".parse().unwrap(),
            local: None,
            congestion: 0,
            packet: Vec::new(),
        }
        .encode();
        malformed[1] = 1;
        assert_eq!(ForwardedPacket::decode(&malformed), None, "an IPv4 address that is none");
    }
}
