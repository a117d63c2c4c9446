//! Listeners: addresses to accept connections on, and who may speak for others there.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// An address to accept connections on, with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address.
    pub address: ListenAddress,
    /// Every connection begins with the header of the PROXY protocol, which names the client.
    pub proxy_protocol: bool,
    /// The proxies that are believed here; `None` for those of `trusted_proxies`.
    pub trusted: Option<TrustedProxies>,
    /// The permissions of a Unix socket.
    pub mode: u32,
    /// The owner of a Unix socket; `None` for the user that starts the server.
    pub owner: Option<String>,
    /// The group of a Unix socket; `None` for the front's group.
    pub group: Option<String>,
    /// Connections are encrypted.
    pub tls: bool,
}

/// An address to accept connections on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address and a port; 0 is any free port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The proxies whose words about a client are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Every peer is one.
    pub everyone: bool,
    /// Peers on Unix sockets are.
    pub unix: bool,
    /// Peers with these addresses are.
    pub networks: Vec<Network>,
}

/// A network of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl ListenerSettings {
    /// A listener with the default settings.
    pub fn new(address: ListenAddress) -> ListenerSettings {
        ListenerSettings {
            tls: address.is_for_https(),
            address,
            proxy_protocol: false,
            trusted: None,
            mode: SOCKET_MODE,
            owner: None,
            group: None,
        }
    }
}

/// The permissions of a Unix socket: its owner and its group may connect.
pub(crate) const SOCKET_MODE: u32 = 0o660;

impl From<SocketAddr> for ListenerSettings {
    fn from(address: SocketAddr) -> ListenerSettings {
        ListenerSettings::new(ListenAddress::Tcp(address))
    }
}

/// Writes the value in the form that the configuration has.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// The port of https.
pub const HTTPS_PORT: u16 = 443;

/// The beginning of the text of a Unix socket's address.
pub(crate) const UNIX: &str = "unix:";

impl ListenAddress {
    /// Returns whether the port is that of https, 443.
    pub(crate) fn is_for_https(&self) -> bool {
        matches!(self, ListenAddress::Tcp(address) if address.port() == HTTPS_PORT)
    }

    /// Returns whether `self` and `other` are the same socket: the same path, or the same address
    /// with a port that is known.
    pub(crate) fn conflicts_with(&self, other: &ListenAddress) -> bool {
        match self {
            ListenAddress::Tcp(address) if address.port() == 0 => false,
            _ => self == other,
        }
    }
}

impl TrustedProxies {
    /// Returns whether no peer is trusted.
    pub fn is_empty(&self) -> bool {
        !self.everyone && !self.unix && self.networks.is_empty()
    }

    /// Returns whether a peer is trusted; `None` is a peer on a Unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        self.everyone || peer.map_or(self.unix, |address| self.contains(address))
    }

    /// Returns whether one of the networks has the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }
}

impl Network {
    /// Parses an address or `address/bits`.
    ///
    /// # Errors
    /// The mistake, and advice.
    pub(crate) fn parse(text: &str) -> Result<Network, (String, String)> {
        let forms = || {
            "write an address such as `\"10.1.2.3\"`, a network such as `\"10.0.0.0/8\"`, or \
             `\"unix\"`"
                .to_owned()
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err((format!("`{text}` is not a network"), forms()));
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(|bits| bits.parse::<u8>().ok().filter(|bits| *bits <= most)) {
            None => most,
            Some(Some(bits)) => bits,
            Some(None) => {
                return Err((
                    format!("`{text}` has no number of bits from 0 to {most} behind its slash"),
                    forms(),
                ));
            }
        };
        let network = Network { address: masked(address, bits), bits };
        if network.address != address {
            return Err((
                format!("`{text}` has an address with more bits than its network"),
                format!("write `\"{network}\"`, or the address alone"),
            ));
        }
        if address.to_canonical() != address {
            let help = format!("write `\"{}\"`", address.to_canonical());
            return Err((format!("`{text}` is an IPv4 address in an IPv6 form"), help));
        }
        Ok(network)
    }

    /// Returns whether the network has the address. IPv4 in an IPv6 form counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.bits) == self.address
    }

    /// Returns whether every address of its family is in the network.
    pub fn is_everyone(&self) -> bool {
        self.bits == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        self.address.fmt(f)?;
        if self.bits < most {
            write!(f, "/{}", self.bits)?;
        }
        Ok(())
    }
}

/// The first `bits` bits of an address; the others are 0.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_their_addresses() {
        let rows = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("10.1.2.2/31", "10.1.2.3", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("::/0", "::1", true),
            ("::/0", "127.0.0.1", false),
        ];
        for (network, address, expected) in rows {
            let parsed = Network::parse(network).unwrap();
            assert_eq!(parsed.contains(address.parse().unwrap()), expected, "{network} {address}");
            assert_eq!(parsed.to_string(), network);
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_advice() {
        for (text, advice) in [
            ("", "10.0.0.0/8"),
            ("proxy.example", "10.0.0.0/8"),
            ("10.0.0.0/33", "10.0.0.0/8"),
            ("10.0.0.0/", "10.0.0.0/8"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("10.0.0.1/8", "`\"10.0.0.0/8\"`"),
            ("::1/129", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "`\"10.0.0.1\"`"),
        ] {
            let (_, help) = Network::parse(text).unwrap_err();
            assert!(help.contains(advice), "{text}: {help}");
        }
    }

    #[test]
    fn only_those_who_are_named_are_trusted() {
        let nobody = TrustedProxies::default();
        assert!(nobody.is_empty());
        assert!(!nobody.trusts(None) && !nobody.trusts(Some([127, 0, 0, 1].into())));
        let some = TrustedProxies {
            unix: true,
            networks: vec![Network::parse("127.0.0.1").unwrap()],
            ..TrustedProxies::default()
        };
        assert!(some.trusts(None) && some.trusts(Some([127, 0, 0, 1].into())));
        assert!(!some.trusts(Some([127, 0, 0, 2].into())));
    }
}
