//! The certificates of all sites, which all threads share and which can be replaced at any time.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;

use super::pair::{Pair, PairText, SitePairs};

/// The certificates of all sites.
///
/// A handshake takes the lock to copy one pointer.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    /// By site.
    sites: RwLock<Vec<Arc<[Pair]>>>,
}

/// There is no certificate for a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoCertificate {
    /// For the name that the client asks for.
    Name(String),
    /// The client asks for no name, and there is no site for such clients.
    NoName,
}

impl fmt::Display for NoCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCertificate::Name(name) => write!(f, "there is no certificate for {name:?}"),
            NoCertificate::NoName => {
                f.write_str("the client asks for no name, and the first site has no certificate")
            }
        }
    }
}

impl Certificates {
    /// Parses the pairs of all sites.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) fn parse(pairs: &SitePairs) -> Result<Certificates, String> {
        let sites: Result<Vec<_>, String> = pairs.iter().map(|pairs| parse_all(pairs)).collect();
        Ok(Certificates { sites: RwLock::new(sites?) })
    }

    /// Replaces the certificates of a site. After a mistake the former ones stay.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) fn replace(&self, site: usize, pairs: &[PairText]) -> Result<(), String> {
        let fresh = parse_all(pairs)?;
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = sites.get_mut(site) {
            *place = fresh;
        }
        Ok(())
    }

    /// Returns whether one of the site's certificates is for `host`, which is in lower case.
    pub(crate) fn covers(&self, site: usize, host: &str) -> bool {
        self.of(site).iter().any(|pair| pair.facts.covers(host))
    }

    /// Returns whether the site has a certificate.
    pub(crate) fn has_any(&self, site: usize) -> bool {
        !self.of(site).is_empty()
    }

    /// Returns the certificate of a site for a client that asks for `name`, and that can check
    /// these signatures: the first one that fits the name, else the first one.
    pub(super) fn choose(
        &self,
        site: usize,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let pairs = self.of(site);
        let usable = || {
            let fits = |pair: &&Pair| pair.certified.key.choose_scheme(schemes).is_some();
            pairs.iter().filter(fits)
        };
        let named = name.and_then(|name| usable().find(|pair| pair.facts.covers(name)));
        named.or_else(|| usable().next()).map(|pair| Arc::clone(&pair.certified))
    }

    fn of(&self, site: usize) -> Arc<[Pair]> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.get(site).map_or_else(|| Arc::from([]), Arc::clone)
    }
}

fn parse_all(pairs: &[PairText]) -> Result<Arc<[Pair]>, String> {
    pairs.iter().map(PairText::parse).collect()
}
