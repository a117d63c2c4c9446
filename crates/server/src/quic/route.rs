//! Connection ids, which name the endpoint that a packet is for.
//!
//! An id is a random number and, masked with a key that only this server has, the endpoint. So any
//! thread of any generation finds the connection's endpoint, and nobody else learns from two ids
//! whether they belong together (RFC 9000 §5.1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use super::start::{QuicSecret, SLOTS};
use crate::tls;

/// Bytes of the random part.
const NONCE: usize = 8;
/// Bytes of the masked part, as many as the mask has.
const MASKED: usize = 5;
/// Bytes of a connection id.
const LENGTH: usize = NONCE + MASKED;
/// A byte that the masked part ends with. Another value shows that somebody else has made the id.
const MARK: u8 = 0x48;
/// The bit of a packet's first byte that means a long header (RFC 8999 §5.1).
const LONG: u8 = 0x80;

/// An endpoint of any generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// The mailbox of the generation.
    pub(super) slot: u8,
    pub(super) thread: u16,
    /// The place of the listener among those of its front.
    pub(super) place: u8,
}

/// Reads and makes connection ids.
#[derive(Clone)]
pub(super) struct Routes(Arc<HeaderProtectionKey>);

impl Routes {
    /// Routes with the key of `secret`; `None` if the library refuses the key.
    pub(super) fn new(secret: &QuicSecret) -> Option<Routes> {
        let key = HeaderProtectionKey::new(&AES_128, secret.route_key()).ok()?;
        Some(Routes(Arc::new(key)))
    }

    /// Returns the endpoint that `packet` is for; `None` if the packet names none, as the first
    /// ones of a connection do.
    pub(super) fn of_packet(&self, packet: &[u8]) -> Option<Route> {
        self.read(destination(packet)?)
    }

    fn read(&self, id: &[u8]) -> Option<Route> {
        let (nonce, masked) = id.split_first_chunk::<NONCE>()?;
        let mut plain: [u8; MASKED] = masked.try_into().ok()?;
        for (byte, mask) in plain.iter_mut().zip(self.mask(nonce)?) {
            *byte ^= mask;
        }
        let [slot, high, low, place, mark] = plain;
        let thread = u16::from_be_bytes([high, low]);
        (mark == MARK && usize::from(slot) < SLOTS).then_some(Route { slot, thread, place })
    }

    /// Makes an id for the endpoint.
    fn make(&self, route: Route, nonce: [u8; NONCE]) -> Option<[u8; LENGTH]> {
        let [high, low] = route.thread.to_be_bytes();
        let plain = [route.slot, high, low, route.place, MARK];
        let mut id = [0; LENGTH];
        id[..NONCE].copy_from_slice(&nonce);
        let masked = plain.into_iter().zip(self.mask(&nonce)?);
        for (to, (byte, mask)) in id[NONCE..].iter_mut().zip(masked) {
            *to = byte ^ mask;
        }
        Some(id)
    }

    fn mask(&self, nonce: &[u8; NONCE]) -> Option<[u8; MASKED]> {
        let mut sample = [0; 16];
        sample[..NONCE].copy_from_slice(nonce);
        self.0.new_mask(&sample).ok()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Routes")
    }
}

/// Returns the connection id that a packet is for, if the packet is long enough (RFC 8999 §5).
/// Short headers do not say how long the id is: as long as this server makes them.
fn destination(packet: &[u8]) -> Option<&[u8]> {
    match packet.first()? & LONG {
        0 => packet.get(1..=LENGTH),
        _ => {
            let length = usize::from(*packet.get(5)?);
            packet.get(6..6 + length)
        }
    }
}

/// Makes the connection ids of one endpoint.
pub(super) struct ConnectionIds {
    pub(super) routes: Routes,
    pub(super) own: Route,
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut nonce = [0; NONCE];
        // The library's own random numbers end the process as well where there are none.
        tls::fill_random(&mut nonce).expect("the system gives random numbers");
        let id = self.routes.make(self.own, nonce);
        ConnectionId::new(&id.expect("the sample has the length that AES needs"))
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match self.routes.read(id) {
            Some(route) if route == self.own => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        Routes::new(&QuicSecret::generate().unwrap()).unwrap()
    }

    fn short(id: &[u8]) -> Vec<u8> {
        [&[0x40], id, b"payload"].concat()
    }

    fn long(id: &[u8]) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, 1, id.len() as u8], id, b"payload"].concat()
    }

    #[test]
    fn an_id_names_its_endpoint_in_both_kinds_of_packets() {
        let routes = routes();
        for route in
            [Route { slot: 0, thread: 0, place: 0 }, Route { slot: 15, thread: 300, place: 7 }]
        {
            let mut ids = ConnectionIds { routes: routes.clone(), own: route };
            let id = ids.generate_cid();
            assert_eq!(id.len(), LENGTH);
            assert!(ids.validate(&id).is_ok());
            assert_eq!(routes.of_packet(&short(&id)), Some(route));
            assert_eq!(routes.of_packet(&long(&id)), Some(route));
            assert_eq!(routes.of_packet(&short(&id)[..LENGTH]), None);
        }
    }

    #[test]
    fn ids_of_others_name_none() {
        let (routes, other) = (routes(), super::tests::routes());
        let route = Route { slot: 1, thread: 1, place: 1 };
        let ids: Vec<_> = (0..100u64)
            .map(|number| other.make(route, number.to_be_bytes()).unwrap())
            .filter(|id| routes.read(id).is_none())
            .collect();
        assert!(ids.len() > 90, "{}", ids.len());
        for packet in [&b""[..], b"\x40", b"\xc0\0\0\0\x01", b"\xc0\0\0\0\x01\x08short"] {
            assert_eq!(routes.of_packet(packet), None);
        }
        assert_eq!(routes.of_packet(&long(&[7; 8])), None);
    }

    #[test]
    fn the_parts_of_two_ids_of_an_endpoint_have_nothing_in_common() {
        let routes = routes();
        let route = Route { slot: 1, thread: 1, place: 1 };
        let masked: std::collections::HashSet<Vec<u8>> = (0..100u64)
            .map(|number| routes.make(route, number.to_be_bytes()).unwrap()[NONCE..].to_vec())
            .collect();
        assert_eq!(masked.len(), 100);
    }
}
