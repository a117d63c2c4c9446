//! The certificates of all sites, which all threads share and which can be replaced at any time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::{SignatureAlgorithm, SignatureScheme};

use super::pair::{CertificatePair, PairText, SitePairs};

/// The certificates of all sites.
///
/// A handshake takes the lock to copy one pointer.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    /// By site.
    sites: RwLock<Vec<Arc<PairsOfSite>>>,
}

/// The certificates of one site. There may be thousands, one for each name.
#[derive(Debug, Default)]
struct PairsOfSite {
    pairs: Vec<Arc<CertificatePair>>,
    /// Indices by host name in lower case.
    by_name: HashMap<String, Vec<usize>>,
    /// Indices by the domain of a wildcard.
    by_domain: HashMap<String, Vec<usize>>,
    /// Indices of those with addresses.
    with_addresses: Vec<usize>,
    /// Bytes of the longest chain.
    longest_chain: usize,
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

    /// Puts a certificate of a site in the place of the one from the same file, or adds it. After a
    /// mistake nothing changes.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn put(&self, site: usize, text: &PairText) -> Result<(), String> {
        let fresh = Arc::new(text.parse()?);
        let mut sites = self.sites.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = sites.get_mut(site) {
            let mut pairs = place.pairs.clone();
            match pairs.iter_mut().find(|pair| pair.name == fresh.name) {
                Some(former) => *former = fresh,
                None => pairs.push(fresh),
            }
            *place = Arc::new(PairsOfSite::new(pairs));
        }
        Ok(())
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
        self.of(site).covering(host).next().is_some()
    }

    /// Returns the certificates of a site.
    pub(crate) fn all(&self, site: usize) -> Vec<Arc<CertificatePair>> {
        self.of(site).pairs.clone()
    }

    /// Returns the bytes of the site's longest chain.
    pub(super) fn longest_chain(&self, site: usize) -> usize {
        self.of(site).longest_chain
    }

    /// Returns the number of the site's certificates.
    pub(crate) fn count(&self, site: usize) -> usize {
        self.of(site).pairs.len()
    }

    /// Returns the certificate of a site for a client that asks for `name`, and that can check
    /// these signatures: the first one that fits the name, one with an RSA key only where no other
    /// does, whose signatures cost the server much less; else, where `shows_others` or without a
    /// name, the first one. `None`: there is no such certificate.
    pub(super) fn choose(
        &self,
        site: usize,
        (name, shows_others): (Option<&str>, bool),
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertificatePair>> {
        let of_site = self.of(site);
        let is_usable = |number: &usize| {
            let key = &of_site.pairs[*number].certified.key;
            key.choose_scheme(schemes).is_some()
        };
        let is_rsa = |number: &usize| {
            of_site.pairs[*number].certified.key.algorithm() == SignatureAlgorithm::RSA
        };
        let named = name.and_then(|name| {
            of_site
                .covering(name)
                .filter(is_usable)
                .min_by_key(|number| (is_rsa(number), *number))
        });
        let may_be_other = name.is_none() || shows_others;
        let any = || (0..of_site.pairs.len()).filter(|_| may_be_other).find(is_usable);
        named.or_else(any).map(|number| Arc::clone(&of_site.pairs[number]))
    }

    fn of(&self, site: usize) -> Arc<PairsOfSite> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        sites.get(site).map(Arc::clone).unwrap_or_default()
    }
}

impl PairsOfSite {
    fn new(pairs: Vec<Arc<CertificatePair>>) -> PairsOfSite {
        let mut of_site = PairsOfSite::default();
        for (number, pair) in pairs.iter().enumerate() {
            for name in pair.facts.names() {
                let (map, key) = match name.strip_prefix("*.") {
                    Some(domain) => (&mut of_site.by_domain, domain),
                    None => (&mut of_site.by_name, name.as_str()),
                };
                map.entry(key.to_owned()).or_default().push(number);
            }
            if pair.facts.has_addresses() {
                of_site.with_addresses.push(number);
            }
            let chain = pair.certified.cert.iter().map(|certificate| certificate.len()).sum();
            of_site.longest_chain = of_site.longest_chain.max(chain);
        }
        of_site.pairs = pairs;
        of_site
    }

    /// The indices of the certificates for `host`, which is in lower case, in no order.
    fn covering<'s>(&'s self, host: &'s str) -> impl Iterator<Item = usize> + 's {
        let named = self.by_name.get(host).into_iter().flatten();
        // A wildcard is one label (RFC 9525 §6.3).
        let domain = host.split_once('.').map(|(_, domain)| domain);
        let of_domain = domain.and_then(|domain| self.by_domain.get(domain));
        let covers = |number: &&usize| self.pairs[**number].facts.covers(host);
        let of_address = self.with_addresses.iter().filter(covers);
        named.chain(of_domain.into_iter().flatten()).chain(of_address).copied()
    }
}

fn parse_all(pairs: &[PairText]) -> Result<Arc<PairsOfSite>, String> {
    let pairs: Result<_, String> = pairs.iter().map(|pair| pair.parse().map(Arc::new)).collect();
    Ok(Arc::new(PairsOfSite::new(pairs?)))
}
