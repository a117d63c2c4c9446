//! Sessions of clients that have shown a certificate.
//!
//! A session that is continued checks no certificate again. Therefore its ticket says until when
//! the check holds: the end of the client's certificate, of those behind it, or of an authority,
//! whichever comes first. Afterwards the ticket is none, and the client shows its certificate in a
//! whole handshake, as with a first visit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ProducesTickets;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use super::client_authorities::{ValidAuthorities, now};
use super::tickets::SiteTickets;

/// The check of one connection's client, and the connection's tickets. Both know until when the
/// client's certificate counts.
pub(super) fn of_connection(
    check: &Arc<ValidAuthorities>,
    tickets: &Arc<SiteTickets>,
) -> (Arc<dyn ClientCertVerifier>, Arc<dyn ProducesTickets>) {
    // Without a certificate nothing ends.
    let until = Arc::new(AtomicI64::new(i64::MAX));
    let verifier = NotingVerifier {
        check: Arc::clone(check),
        until: Arc::clone(&until),
    };
    (Arc::new(verifier), Arc::new(EndingTickets { tickets: Arc::clone(tickets), until }))
}

/// The check of a connection's client.
#[derive(Debug)]
struct NotingVerifier {
    check: Arc<ValidAuthorities>,
    /// The last second, since 1970, for which the check holds.
    until: Arc<AtomicI64>,
}

impl ClientCertVerifier for NotingVerifier {
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.check.verify_client_cert(certificate, chain, now)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let until = self.check.holds_until(certificate, chain, seconds);
        self.until.store(until, Ordering::Relaxed);
        Ok(verified)
    }

    fn client_auth_mandatory(&self) -> bool {
        self.check.timeless().client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.check.timeless().root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check.timeless().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check.timeless().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.check.timeless().supported_verify_schemes()
    }
}

/// The tickets of a connection. A state begins with the last second in which it can be continued.
#[derive(Debug)]
struct EndingTickets {
    tickets: Arc<SiteTickets>,
    until: Arc<AtomicI64>,
}

impl EndingTickets {
    fn decrypt_at(&self, ticket: &[u8], now: i64) -> Option<Vec<u8>> {
        let sealed = self.tickets.decrypt(ticket)?;
        let (until, state) = sealed.split_first_chunk()?;
        let until = i64::from_be_bytes(*until);
        if until < now {
            return None;
        }
        // Tickets of a session that is continued end when those before do.
        self.until.store(until, Ordering::Relaxed);
        Some(state.to_vec())
    }
}

impl ProducesTickets for EndingTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        let until = self.until.load(Ordering::Relaxed).to_be_bytes();
        self.tickets.encrypt(&[&until[..], state].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(ticket, now())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tickets::{TicketKeys, Tickets};
    use super::*;

    #[test]
    fn a_ticket_and_those_that_follow_it_end_with_the_certificate() {
        let tickets = Arc::new(Tickets::default());
        tickets.replace(&TicketKeys::default().rotated().unwrap());
        let tickets = Arc::new(SiteTickets { tickets, demands: b"some".to_vec() });
        let connection = |until| EndingTickets {
            tickets: Arc::clone(&tickets),
            until: Arc::new(AtomicI64::new(until)),
        };
        let first = connection(1000).encrypt(b"state").unwrap();
        let second = connection(i64::MAX);
        assert_eq!(second.decrypt_at(&first, 1001), None);
        assert_eq!(second.decrypt_at(&first, 1000).as_deref(), Some(&b"state"[..]));
        let follower = second.encrypt(b"state").unwrap();
        assert_eq!(connection(i64::MAX).decrypt_at(&follower, 1001), None);
        let without = connection(i64::MAX).encrypt(b"").unwrap();
        assert_eq!(connection(0).decrypt_at(&without, i64::MAX).as_deref(), Some(&b""[..]));
    }
}
