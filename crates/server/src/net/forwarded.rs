//! The client of a request, as trusted proxies name it in fields.
//!
//! Each proxy adds the address that the request came from behind those that it got. The list is
//! therefore read from its end, while the addresses are those of trusted proxies: the first other
//! one is the client's. The part before that address is the client's own claim and never read.
//!
//! Which fields are believed is the operator's choice (`forwarded_fields`,
//! `client_address_header`). A proxy that sets one field passes others on as they came: a server
//! that believed whatever is there would believe the client.
//!
//! A value that cannot be understood is refused with 400 where a trusted proxy has written it.
//! Falling back to the proxy's address would give the client the proxy's rights (`Require ip`).

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use howdah_config::{Config, ForwardedField, TrustedProxies};
use howdah_http::forwarded::{
    ForwardedElement, ForwardedNode, elements, members_from_the_end, read_port,
};
use howdah_http::{Fields, Refusal, Request, Scheme, check_authority};

use super::Peer;

/// An address, and the port where it is known.
type ForwardedAddress = (IpAddr, Option<u16>);

/// The client of a request as trusted proxies describe it. `None`: they do not say.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProxyClaim<'f> {
    address: Option<ForwardedAddress>,
    scheme: Option<Scheme>,
    host: Option<Cow<'f, [u8]>>,
    port: Option<u16>,
}

/// Returns the sender of `request`, which came from the trusted proxy `hop`, and gives the request
/// its scheme, host and port.
///
/// # Errors
/// A field that is believed cannot be understood: 400.
pub(crate) fn sender(hop: &Peer, request: &mut Request, config: &Config) -> Result<Peer, Refusal> {
    let listener = config.listen.get(hop.listener);
    let trusted = listener.map_or(&config.trusted_proxies, |own| config.trusted_on(own));
    let trusted = Trusted {
        own: trusted,
        all: &config.trusted_proxies,
    };
    let fields = std::mem::take(&mut request.fields);
    let claim = ProxyClaim::read(&fields, hop, trusted, config);
    let applied = claim.map_err(Refusal::bad).and_then(|claim| {
        request.scheme = claim.scheme.unwrap_or(hop.scheme);
        let authority = authority(&claim, request)?;
        Ok((claim.address, authority))
    });
    request.fields = fields;
    let (address, authority) = applied?;
    if let Some(authority) = authority {
        request.fields.set(b"Host", &authority);
        request.authority = authority;
    }
    let remote = match address {
        // Port 0 is a port that is not known.
        Some((address, port)) => SocketAddr::new(address, port.unwrap_or(0)),
        None => hop.remote,
    };
    Ok(Peer { remote, ..hop.clone() })
}

/// The addresses of trusted proxies.
#[derive(Clone, Copy)]
struct Trusted<'c> {
    /// Of this listener.
    own: &'c TrustedProxies,
    /// Of the server.
    all: &'c TrustedProxies,
}

impl Trusted<'_> {
    /// Returns whether `address` is a trusted proxy. Where every peer of a listener is trusted, the
    /// addresses that the peers name are not.
    fn has(self, address: IpAddr) -> bool {
        self.own.contains(address) || self.all.contains(address)
    }
}

impl<'f> ProxyClaim<'f> {
    fn read(
        fields: &'f Fields,
        hop: &Peer,
        trusted: Trusted<'_>,
        config: &Config,
    ) -> Result<ProxyClaim<'f>, &'static str> {
        let believed = |field: ForwardedField| config.forwarded_fields.contains(&field);
        let mut claim = if believed(ForwardedField::Forwarded) {
            let lines: Vec<&[u8]> = fields.values(b"forwarded").collect();
            ProxyClaim::of_elements(&lines, trusted)?
        } else {
            // The last proxy's word: what is before it may be the client's.
            let last = |field: ForwardedField| {
                let name = field.name().as_bytes();
                let lines = fields.values(name).filter(|_| believed(field));
                members_from_the_end(&lines.collect::<Vec<_>>()).next()
            };
            ProxyClaim {
                address: None,
                scheme: last(ForwardedField::Proto).map(scheme).transpose()?,
                host: last(ForwardedField::Host).map(Cow::Borrowed),
                port: match last(ForwardedField::Port) {
                    Some(digits) => Some(read_port(digits).ok_or(BAD_PORT)?),
                    None => None,
                },
            }
        };
        let address_field = match &config.client_address_header {
            Some(name) => Some(name.as_str()),
            None => believed(ForwardedField::For).then_some(ForwardedField::For.name()),
        };
        if let Some(name) = address_field {
            let lines: Vec<&[u8]> = fields.values(name.as_bytes()).collect();
            let nodes = members_from_the_end(&lines).map(Some);
            claim.address = walk(nodes, trusted)?.0;
        }
        // A proxy that says nothing speaks for itself.
        claim.address = claim.address.or(Some((hop.remote.ip(), Some(hop.remote.port()))));
        Ok(claim)
    }

    /// Reads Forwarded. Scheme and host are those in the element of the client's address, or in the
    /// next one behind that has them.
    fn of_elements(
        lines: &[&'f [u8]],
        trusted: Trusted<'_>,
    ) -> Result<ProxyClaim<'f>, &'static str> {
        let mut all: Vec<ForwardedElement<'f>> = Vec::new();
        // Lines before the client's element may be anything.
        for line in lines {
            elements(line, &mut all)?;
        }
        let nodes = all.iter().rev().map(|element| element.node.as_deref());
        let (address, read) = walk(nodes, trusted)?;
        let said = || all[all.len() - read..].iter();
        Ok(ProxyClaim {
            address,
            scheme: match said().find_map(|element| element.proto.as_ref()) {
                Some(text) => Some(scheme(text)?),
                None => None,
            },
            host: said().find_map(|element| element.host.clone()),
            port: None,
        })
    }
}

/// Walks over nodes from the last one, as long as they are trusted proxies. Returns the address of
/// the client and the number of nodes that were read. Where all are trusted, the first one is the
/// client; a hidden node hides the client: the proxy that has named it counts as the client.
fn walk<'n>(
    nodes: impl Iterator<Item = Option<&'n [u8]>>,
    trusted: Trusted<'_>,
) -> Result<(Option<ForwardedAddress>, usize), &'static str> {
    let (mut client, mut read) = (None, 0);
    for node in nodes {
        read += 1;
        let Some(text) = node else {
            break;
        };
        match ForwardedNode::read(text).map_err(|_| BAD_ADDRESS)? {
            ForwardedNode::Hidden => break,
            ForwardedNode::Address(address, port) => {
                client = Some((address, port));
                if !trusted.has(address) {
                    break;
                }
            }
        }
    }
    Ok((client, read))
}

/// `ws` and `wss` are what some proxies say of WebSocket handshakes.
fn scheme(text: &[u8]) -> Result<Scheme, &'static str> {
    match text {
        _ if text.eq_ignore_ascii_case(b"https") || text.eq_ignore_ascii_case(b"wss") => {
            Ok(Scheme::Https)
        }
        _ if text.eq_ignore_ascii_case(b"http") || text.eq_ignore_ascii_case(b"ws") => {
            Ok(Scheme::Http)
        }
        _ => Err("a trusted proxy names a scheme that is neither http nor https"),
    }
}

/// The authority that replaces the request's own; `None` where the proxies leave it as it is. A
/// port that is the scheme's usual one is left out.
fn authority(claim: &ProxyClaim<'_>, request: &Request) -> Result<Option<Vec<u8>>, Refusal> {
    let mut authority = Vec::new();
    match &claim.host {
        Some(host) => check_authority(host, &mut authority).map_err(Refusal::bad)?,
        None => authority.extend_from_slice(&request.authority),
    }
    if authority.is_empty() || (claim.host.is_none() && claim.port.is_none()) {
        return Ok(None);
    }
    if let Some(port) = claim.port {
        let named = Request { authority, ..Request::new() };
        authority = named.host().to_vec();
        if port != request.scheme.default_port() {
            authority.extend_from_slice(format!(":{port}").as_bytes());
        }
    }
    Ok(Some(authority))
}

const BAD_ADDRESS: &str = "a trusted proxy names a client whose address cannot be read";
const BAD_PORT: &str = "a trusted proxy names a port that is no number from 1 to 65535";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the client, scheme and authority of a request with these fields from a proxy at
    /// 10.0.0.1.
    fn seen(config: &str, fields: &str) -> Result<String, &'static str> {
        let text = format!("{config}\n[[site]]\nroot = \"/srv\"");
        let config = Config::parse(&text, "x.toml").expect("the configuration is right");
        let end = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let hop = Peer {
            is_proxy: true,
            ..Peer::new(end("10.0.0.1:4000"), end("10.0.0.9:8080"))
        };
        let mut request = Request {
            authority: b"own.example:8080".to_vec(),
            ..Request::new()
        };
        request.fields.push(b"Host", b"own.example:8080");
        for line in fields.lines() {
            let (name, value) = line.trim().split_once(':').expect("a colon");
            request.fields.push(name.as_bytes(), value.trim().as_bytes());
        }
        let peer = sender(&hop, &mut request, &config).map_err(|refusal| refusal.why)?;
        assert_eq!((peer.hop, peer.local), (hop.hop, hop.local));
        let authority = String::from_utf8_lossy(&request.authority).into_owned();
        assert_eq!(request.fields.values(b"host").count(), 1);
        assert_eq!(request.fields.value(b"host"), Some(authority.as_bytes()));
        Ok(format!("{} {} {authority}", peer.remote, request.scheme))
    }

    const TRUSTED: &str = "trusted_proxies = [\"10.0.0.0/8\", \"fd00::/8\"]";

    #[test]
    fn the_usual_fields() {
        let rows = [
            ("X-Other: x", "10.0.0.1:4000 http own.example:8080"),
            ("X-Forwarded-For: 192.0.2.1", "192.0.2.1:0 http own.example:8080"),
            ("X-Forwarded-For: 192.0.2.1:77", "192.0.2.1:77 http own.example:8080"),
            ("X-Forwarded-For: [2001:db8::1]:77", "[2001:db8::1]:77 http own.example:8080"),
            ("X-Forwarded-For: 2001:db8::1", "[2001:db8::1]:0 http own.example:8080"),
            ("X-Forwarded-For: ::ffff:192.0.2.1", "192.0.2.1:0 http own.example:8080"),
            // From the right: what is before the client's address is its own claim.
            ("X-Forwarded-For: 203.0.113.9, 192.0.2.1", "192.0.2.1:0 http own.example:8080"),
            ("X-Forwarded-For: rubbish, 192.0.2.1", "192.0.2.1:0 http own.example:8080"),
            (
                "X-Forwarded-For: 127.0.0.1, 192.0.2.1, 10.1.1.1,fd00::1",
                "192.0.2.1:0 http own.example:8080",
            ),
            (
                "X-Forwarded-For: 203.0.113.9\nX-Forwarded-For: 192.0.2.1\n\
                 X-Forwarded-For: 10.1.1.1",
                "192.0.2.1:0 http own.example:8080",
            ),
            // Where all are trusted, the first is the client.
            ("X-Forwarded-For: 10.3.3.3, 10.2.2.2", "10.3.3.3:0 http own.example:8080"),
            ("X-Forwarded-For: unknown", "10.0.0.1:4000 http own.example:8080"),
            ("X-Forwarded-For: 192.0.2.1, unknown, 10.2.2.2", "10.2.2.2:0 http own.example:8080"),
            ("X-Forwarded-For: ,", "10.0.0.1:4000 http own.example:8080"),
            ("X-Forwarded-Proto: https", "10.0.0.1:4000 https own.example:8080"),
            ("X-Forwarded-Proto: HTTPS\nX-Forwarded-Port: 443", "10.0.0.1:4000 https own.example"),
            ("X-Forwarded-Proto: https, http", "10.0.0.1:4000 http own.example:8080"),
            ("X-Forwarded-Proto: wss", "10.0.0.1:4000 https own.example:8080"),
            ("X-Forwarded-Host: A.example", "10.0.0.1:4000 http a.example"),
            ("X-Forwarded-Host: evil.example, a.example:81", "10.0.0.1:4000 http a.example:81"),
            ("X-Forwarded-Port: 8443", "10.0.0.1:4000 http own.example:8443"),
            (
                "X-Forwarded-Host: [2001:db8::1]:9\nX-Forwarded-Port: 8443\n\
                 X-Forwarded-Proto: https",
                "10.0.0.1:4000 https [2001:db8::1]:8443",
            ),
            // Forwarded is not read beside them.
            ("Forwarded: for=192.0.2.1;proto=https", "10.0.0.1:4000 http own.example:8080"),
        ];
        for (fields, expected) in rows {
            assert_eq!(seen(TRUSTED, fields).as_deref(), Ok(expected), "{fields}");
        }
    }

    #[test]
    fn forwarded_alone() {
        let config = format!("{TRUSTED}\nforwarded_fields = [\"Forwarded\"]");
        let rows = [
            ("Forwarded: for=192.0.2.1;proto=https;host=a.example", "192.0.2.1:0 https a.example"),
            (
                "Forwarded: for=203.0.113.9;proto=http;host=evil, for=\"192.0.2.1:5\";proto=https",
                "192.0.2.1:5 https own.example:8080",
            ),
            // The client's claim is before its own address.
            (
                "Forwarded: proto=https;host=evil\nForwarded: for=192.0.2.1",
                "192.0.2.1:0 http own.example:8080",
            ),
            // The first proxy knew the scheme; the second saw a plain request.
            (
                "Forwarded: for=192.0.2.1;proto=https;host=a.example, \
                 for=10.1.1.1;proto=http;host=inner",
                "192.0.2.1:0 https a.example",
            ),
            (
                "Forwarded: for=192.0.2.1, for=10.1.1.1;proto=https",
                "192.0.2.1:0 https own.example:8080",
            ),
            ("Forwarded: for=_hidden;proto=https", "10.0.0.1:4000 https own.example:8080"),
            ("Forwarded: proto=https", "10.0.0.1:4000 https own.example:8080"),
            // The other family is not read.
            (
                "X-Forwarded-For: 203.0.113.9\nX-Forwarded-Proto: https\nX-Forwarded-Host: evil",
                "10.0.0.1:4000 http own.example:8080",
            ),
        ];
        for (fields, expected) in rows {
            assert_eq!(seen(&config, fields).as_deref(), Ok(expected), "{fields}");
        }
        assert!(seen(&config, "Forwarded: for=192.0.2.1;proto=\"").is_err());
        assert!(seen(&config, "Forwarded: for=rubbish").is_err());
    }

    #[test]
    fn a_field_with_the_address_alone() {
        let config = format!(
            "{TRUSTED}\nclient_address_header = \"CF-Connecting-IP\"\n\
             forwarded_fields = [\"X-Forwarded-Proto\"]"
        );
        let rows = [
            (
                "cf-connecting-ip: 192.0.2.1\nX-Forwarded-For: 203.0.113.9\n\
                 X-Forwarded-Proto: https\n\
                 X-Forwarded-Host: evil",
                "192.0.2.1:0 https own.example:8080",
            ),
            ("X-Forwarded-For: 203.0.113.9", "10.0.0.1:4000 http own.example:8080"),
        ];
        for (fields, expected) in rows {
            assert_eq!(seen(&config, fields).as_deref(), Ok(expected), "{fields}");
        }
        assert!(seen(&config, "CF-Connecting-IP: a.example").is_err());
    }

    #[test]
    fn what_a_proxy_wrote_and_nobody_understands_is_refused() {
        for fields in [
            "X-Forwarded-For: rubbish",
            "X-Forwarded-For: 192.0.2.1, rubbish",
            "X-Forwarded-For: 192.0.2.1, rubbish, 10.1.1.1",
            "X-Forwarded-Proto: ftp",
            "X-Forwarded-Host: a b",
            "X-Forwarded-Host: user@a.example",
            "X-Forwarded-Host: a.example/x",
            "X-Forwarded-Port: 0",
            "X-Forwarded-Port: 65536",
            "X-Forwarded-Port: https",
        ] {
            assert!(seen(TRUSTED, fields).is_err(), "{fields}");
        }
    }

    #[test]
    fn trusting_every_peer_of_a_listener_trusts_no_address_that_it_names() {
        let config = "listen = [{ address = \"127.0.0.1:1\", trusted = true }]";
        let fields = "X-Forwarded-For: 203.0.113.9, 192.0.2.1";
        assert_eq!(seen(config, fields).as_deref(), Ok("192.0.2.1:0 http own.example:8080"));
    }
}
