//! Session tickets: what a client brings to continue an earlier session.
//!
//! A ticket is the session's state, encrypted with a key that only this server has. The supervisor
//! makes the keys, so that threads, a new generation and a new program continue the same sessions.
//! A key encrypts for [`LIFETIME`] and decrypts for as long again. Afterwards nobody, not even the
//! server, can decrypt what was recorded of a continued session.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::server::ProducesTickets;

use super::settings::{fill_random, provider};

/// The time that a ticket can be used, and a key makes tickets.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Bytes of a key's name.
const NAME: usize = 16;
/// Bytes of a key with its name.
const KEY: usize = NAME + 32;

/// The keys of tickets as bytes, the present one first.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TicketKeys(Vec<[u8; KEY]>);

impl TicketKeys {
    /// Returns keys of which the first is new and the second is the present one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn rotated(&self) -> Result<TicketKeys, String> {
        let mut fresh = [0; KEY];
        fill_random(&mut fresh)?;
        let former = self.0.first().copied();
        Ok(TicketKeys([fresh].into_iter().chain(former).collect()))
    }

    /// Whether there is no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys for another process.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// Reads what [`to_bytes`](TicketKeys::to_bytes) has returned. A part of a key is left out.
    pub(crate) fn from_bytes(bytes: &[u8]) -> TicketKeys {
        TicketKeys(bytes.as_chunks().0.to_vec())
    }
}

/// The keys are not shown.
impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys of tickets", self.0.len())
    }
}

/// The keys of tickets in a front, which can be replaced at any time.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    keys: RwLock<Arc<[TicketKey]>>,
}

#[derive(Debug)]
struct TicketKey {
    name: [u8; NAME],
    key: LessSafeKey,
}

impl Tickets {
    /// Replaces the keys.
    pub(crate) fn replace(&self, keys: &TicketKeys) {
        let fresh = keys.0.iter().filter_map(|bytes| {
            let (name, key) = bytes.split_first_chunk()?;
            let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
            Some(TicketKey { name: *name, key })
        });
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = fresh.collect();
    }

    fn keys(&self) -> Arc<[TicketKey]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The tickets of one site.
pub(super) struct SiteTickets {
    pub(super) tickets: Arc<Tickets>,
    /// The site's demands on its clients. A ticket does not continue a session under other demands.
    pub(super) demands: Vec<u8>,
}

impl fmt::Debug for SiteTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tickets.fmt(f)
    }
}

/// A ticket: the name of its key, the nonce, the encrypted state, the tag.
impl ProducesTickets for SiteTickets {
    fn enabled(&self) -> bool {
        !self.tickets.keys().is_empty()
    }

    fn lifetime(&self) -> u32 {
        LIFETIME.as_secs() as u32
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        let keys = self.tickets.keys();
        let TicketKey { name, key } = keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        provider().secure_random.fill(&mut nonce).ok()?;
        let mut sealed = state.to_vec();
        let own = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(own, Aad::from(&self.demands), &mut sealed).ok()?;
        Some([&name[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.tickets.keys();
        let TicketKey { key, .. } = keys.iter().find(|key| key.name == *name)?;
        let mut state = sealed.to_vec();
        let own = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(own, Aad::from(&self.demands), &mut state).ok()?.len();
        state.truncate(length);
        Some(state)
    }
}

/// No tickets: the server keeps the sessions.
#[derive(Debug)]
pub(super) struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(keys: &TicketKeys, demands: &[u8]) -> SiteTickets {
        let tickets = Arc::new(Tickets::default());
        tickets.replace(keys);
        SiteTickets { tickets, demands: demands.to_vec() }
    }

    #[test]
    fn a_ticket_can_be_used_until_its_key_was_replaced_twice() {
        let first = TicketKeys::default().rotated().unwrap();
        let ticket = site(&first, b"").encrypt(b"state").unwrap();
        assert!(!ticket.windows(5).any(|part| part == b"state"));
        let handed_over = TicketKeys::from_bytes(&first.to_bytes());
        assert_eq!(site(&handed_over, b"").decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        let second = first.rotated().unwrap();
        assert_eq!(site(&second, b"").decrypt(&ticket).as_deref(), Some(&b"state"[..]));
        assert_eq!(site(&second.rotated().unwrap(), b"").decrypt(&ticket), None);
        assert_eq!(site(&first, b"client_ca").decrypt(&ticket), None, "other demands");
    }

    #[test]
    fn nothing_else_is_a_ticket() {
        let keys = TicketKeys::default().rotated().unwrap();
        let tickets = site(&keys, b"");
        let ticket = tickets.encrypt(b"state").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(tickets.decrypt(&ticket[..length]), None);
            let mut damaged = ticket.clone();
            damaged[length] ^= 1;
            assert_eq!(tickets.decrypt(&damaged), None);
        }
        let none = site(&TicketKeys::default(), b"");
        assert!(!none.enabled() && none.encrypt(b"state").is_none() && tickets.enabled());
    }
}
