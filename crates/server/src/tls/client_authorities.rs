//! The check of clients' certificates by the authorities of a site, as long as these are valid.
//!
//! The library takes an authority for good until the process ends. An authority whose time is over
//! must let nobody in, as with OpenSSL.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::ClientVerify;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};

use super::certificate::CertificateFacts;
use super::pair::{self, shown_time};
use super::settings::provider;

/// The check of a site's clients.
#[derive(Debug)]
pub(crate) struct ClientCheck {
    pub(crate) verifier: Arc<ValidAuthorities>,
    /// Remarks about authorities whose time is over or has not begun: they let nobody in.
    pub(crate) remarks: Vec<String>,
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the check of clients' certificates by these authorities, which are in PEM.
///
/// # Errors
/// The mistake in the text of the authorities, or that none of them is valid now.
pub(crate) fn clients(authorities: &[u8], verify: ClientVerify) -> Result<ClientCheck, String> {
    clients_at(authorities, verify, now())
}

/// The ends of authorities of clients that have passed, and the next one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PassedEnds {
    /// A remark about each end.
    pub(crate) remarks: Vec<String>,
    /// No authority is valid now.
    pub(crate) is_last: bool,
    /// The last second of the one that ends next, since 1970; `None`: none will end.
    pub(crate) next: Option<i64>,
}

/// Returns the ends of these authorities, which are in PEM, from the second `since` to before
/// `now`.
///
/// # Errors
/// The mistake in the text of the authorities.
pub(crate) fn passed_ends(authorities: &[u8], since: i64, now: i64) -> Result<PassedEnds, String> {
    let all = read_all(authorities)?;
    let has_passed = |one: &&ClientAuthority| (since..now).contains(&one.ends);
    Ok(PassedEnds {
        remarks: all.iter().filter(has_passed).map(|one| one.remark(now)).collect(),
        is_last: !all.iter().any(|one| one.is_valid(now)),
        next: all.iter().map(|one| one.ends).filter(|ends| *ends >= now).min(),
    })
}

/// Reads authorities, which are in PEM.
fn read_all(authorities: &[u8]) -> Result<Vec<ClientAuthority>, String> {
    let authority = |certificate: CertificateDer<'static>| {
        let facts = CertificateFacts::read(&certificate)?;
        let (begins, ends) = (facts.begins, facts.ends);
        Ok::<_, String>(ClientAuthority { certificate, begins, ends })
    };
    pair::chain(authorities)?.into_iter().map(authority).collect()
}

fn clients_at(authorities: &[u8], verify: ClientVerify, now: i64) -> Result<ClientCheck, String> {
    let all = read_all(authorities)?;
    let outside = all.iter().filter(|one| !one.is_valid(now));
    let remarks: Vec<String> = outside.map(|one| one.remark(now)).collect();
    if remarks.len() == all.len() {
        return Err(format!("none of the authorities can be used: {}", remarks.join("; ")));
    }
    let valid = verifier(&all, verify, now)?;
    let until = last_second(&all, now);
    Ok(ClientCheck {
        verifier: Arc::new(ValidAuthorities { all, verify, valid, until }),
        remarks,
    })
}

/// Returns the last second, since 1970, in which the same authorities are valid as at `now`.
fn last_second(all: &[ClientAuthority], now: i64) -> i64 {
    let ends = all.iter().filter(|one| one.is_valid(now)).map(|one| one.ends);
    let begins = all.iter().filter(|one| one.begins > now).map(|one| one.begins - 1);
    ends.chain(begins).min().unwrap_or(i64::MAX)
}

/// Returns the check by those authorities that are valid at `now`.
fn verifier(
    authorities: &[ClientAuthority],
    verify: ClientVerify,
    now: i64,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities.iter().filter(|one| one.is_valid(now)) {
        roots
            .add(authority.certificate.clone())
            .map_err(|error| format!("an authority cannot be used ({error})"))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider()));
    let builder = match verify {
        ClientVerify::Require => builder,
        ClientVerify::Optional => builder.allow_unauthenticated(),
    };
    builder
        .build()
        .map(|verifier| verifier as _)
        .map_err(|error| format!("the authorities cannot be used ({error})"))
}

/// An authority of clients.
#[derive(Debug)]
struct ClientAuthority {
    certificate: CertificateDer<'static>,
    /// Seconds since 1970.
    begins: i64,
    /// Seconds since 1970.
    ends: i64,
}

impl ClientAuthority {
    fn is_valid(&self, now: i64) -> bool {
        (self.begins..=self.ends).contains(&now)
    }

    /// Returns a description of an authority that is not valid at `now`.
    fn remark(&self, now: i64) -> String {
        let clock = shown_time(now);
        match self.ends < now {
            true => format!(
                "an authority of clients is expired: it ended at {}; get a new one, or correct \
                 the clock of this machine, which says {clock}",
                shown_time(self.ends)
            ),
            false => format!(
                "an authority of clients is not valid yet: it begins at {}; correct the clock of \
                 this machine, which says {clock}, or use an older one",
                shown_time(self.begins)
            ),
        }
    }
}

/// The check by those authorities that are valid at the time of the handshake.
#[derive(Debug)]
pub(crate) struct ValidAuthorities {
    all: Vec<ClientAuthority>,
    verify: ClientVerify,
    /// The check by those that were valid when this was made.
    valid: Arc<dyn ClientCertVerifier>,
    /// The last second in which the same ones are valid, since 1970.
    until: i64,
}

impl ValidAuthorities {
    /// Checks a client's certificate, with those that the client has sent behind it, at `now`.
    ///
    /// # Errors
    /// The certificate is not of these authorities, is not valid at `now`, or is malformed.
    pub(super) fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if seconds <= self.until {
            return self.valid.verify_client_cert(certificate, chain, now);
        }
        let valid = verifier(&self.all, self.verify, seconds).map_err(rustls::Error::General)?;
        valid.verify_client_cert(certificate, chain, now)
    }

    /// The library's check, for all that does not depend on the time.
    pub(super) fn timeless(&self) -> &dyn ClientCertVerifier {
        &*self.valid
    }

    /// Returns the last second, since 1970, for which a check at `now` of a client's certificate,
    /// with those that the client has sent behind it, holds. The library does not tell which
    /// authority has decided: the first one to end counts.
    pub(super) fn holds_until(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: i64,
    ) -> i64 {
        let all = [certificate].into_iter().chain(chain);
        // A certificate that cannot be read vouches for nothing.
        let ends = all.map(|one| CertificateFacts::read(one).map_or(i64::MIN, |facts| facts.ends));
        ends.chain([last_second(&self.all, now)]).min().unwrap_or(i64::MIN)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

    use super::*;

    /// 2020-01-01 00:00:00 UTC.
    const START_OF_2020: i64 = 1_577_836_800;
    const YEAR: i64 = 366 * 86_400;

    /// An authority for the years from `first` to before `end`, and a certificate of it.
    fn authority(first: i32, end: i32) -> (String, CertificateDer<'static>) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(first, 1, 1);
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, format!("{first} to {end}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let own = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        (issuer.pem(), own.der().clone())
    }

    #[test]
    fn authorities_let_clients_in_while_they_are_valid() {
        let ((old, of_old), (new, of_new)) = (authority(2010, 2021), authority(2020, 2040));
        let both = (old.clone() + &new).into_bytes();
        let check = |now| clients_at(&both, ClientVerify::Require, now);
        let made = check(START_OF_2020 + 1).unwrap();
        assert_eq!(made.remarks, Vec::<String>::new());
        let lets_in = |check: &ClientCheck, certificate: &CertificateDer<'_>, now: i64| {
            let now = UnixTime::since_unix_epoch(Duration::from_secs(now as u64));
            check.verifier.verify_client_cert(certificate, &[], now).is_ok()
        };
        assert!(lets_in(&made, &of_old, START_OF_2020 + 2));
        assert!(lets_in(&made, &of_new, START_OF_2020 + 2));
        // The check lives longer than the authority.
        assert!(!lets_in(&made, &of_old, START_OF_2020 + 2 * YEAR));
        assert!(lets_in(&made, &of_new, START_OF_2020 + 2 * YEAR));
        let early = check(START_OF_2020 - YEAR).unwrap();
        assert!(early.remarks[0].contains("not valid yet: it begins at Wed, 01 Jan 2020"));
        assert!(!lets_in(&early, &of_new, START_OF_2020 - YEAR));
        assert!(lets_in(&early, &of_new, START_OF_2020 + 2));
        let late = check(START_OF_2020 + 2 * YEAR).unwrap();
        assert!(late.remarks[0].contains("expired: it ended at Fri, 01 Jan 2021"), "{late:?}");
        let passed = |since, now| passed_ends(&both, since, now).unwrap();
        let ends = START_OF_2020 + YEAR;
        assert_eq!(passed(START_OF_2020, ends).next, Some(ends));
        let first = passed(ends, ends + 1);
        assert_eq!(first.remarks.len(), 1, "{first:?}");
        assert!(!first.is_last && first.next > Some(ends));
        assert_eq!(passed(ends + 1, ends + 9).remarks, Vec::<String>::new(), "told once");
        let last = passed(ends + 1, START_OF_2020 + 30 * YEAR);
        assert!(last.remarks.len() == 1 && last.is_last && last.next.is_none(), "{last:?}");
        let why = clients_at(old.as_bytes(), ClientVerify::Optional, START_OF_2020 + 2 * YEAR);
        assert!(why.unwrap_err().starts_with("none of the authorities can be used: "));
    }
}
