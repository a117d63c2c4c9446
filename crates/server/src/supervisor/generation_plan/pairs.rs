//! The certificates, and the authorities of clients, that the configuration names files for.
//!
//! Files that cannot be used keep neither the other pairs of their site nor the other sites from
//! being served. At the start such a pair is left out. A site without any is closed: it has no
//! https, and a request over http that would be redirected gets 503, so that nothing is sent in the
//! clear which is meant to be encrypted. In a plan that replaces another one, the site keeps the
//! certificates that it has of the same files. The plan is refused where it has none.

use std::path::PathBuf;

use howdah_config::{ClientVerify, Config, SiteSettings};

use super::{GenerationPlan, PlanFinder};
use crate::supervisor::certificates;
use crate::tls::{self, PairText};

/// The consequence of files that cannot be used for a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UnusableFiles<'p> {
    /// The plan is refused.
    Refuse,
    /// The pair is left out, or the site is closed, as long as another site is left.
    CloseSite,
    /// The site keeps what it has of the same files, or stays without. The plan is refused if the
    /// site has neither used these files nor lacked any.
    KeepFormer(&'p FormerFiles),
}

/// The files of a former plan.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormerFiles {
    /// The names of the sites that are closed, or have a pair left out.
    pub(crate) closed: Vec<String>,
    /// The content of files with authorities of clients.
    pub(crate) authorities: Vec<(PathBuf, Vec<u8>)>,
    /// The certificates and keys that are in use, of files that the configuration names.
    pub(crate) pairs: Vec<PairText>,
}

impl PlanFinder<'_> {
    /// Reads the certificates of the site with this number, and tries them.
    pub(super) fn pairs(&mut self, number: usize, site: &SiteSettings) -> Vec<PairText> {
        let name = &site.name;
        let (refuses, former) = match self.unusable_files {
            UnusableFiles::Refuse => (true, &[][..]),
            UnusableFiles::CloseSite => (false, &[][..]),
            UnusableFiles::KeepFormer(former) => (!former.closed.contains(name), &former.pairs[..]),
        };
        let read = certificates::read_pairs(site, former);
        if refuses && !read.left_out.is_empty() {
            self.errors
                .extend(read.left_out.iter().map(|why| format!("site {name}: {why}")));
            return Vec::new();
        }
        self.closed[number] = read.closes();
        if self.closed[number].is_none() {
            self.kept_files[number] = read.describe_flaws();
        }
        let kept = self.kept_files[number].iter().map(|what| format!("site {name}: {what}"));
        self.warnings.extend(read.remarks.into_iter().chain(kept));
        read.pairs
    }

    /// Reads the authorities of the clients of the site with this number, and tries them. Where
    /// they cannot be used, the site keeps the former ones of the same file, or is closed: the
    /// configuration is refused by `howdah check` alone. `None`: the site has none that can be
    /// used.
    pub(super) fn authorities(&mut self, number: usize, site: &SiteSettings) -> Option<Vec<u8>> {
        let why = match certificates::read_authorities(site)? {
            Ok((text, remarks)) => {
                self.warnings.extend(remarks);
                return Some(text);
            }
            Err(why) => why,
        };
        let former = match self.unusable_files {
            UnusableFiles::Refuse => {
                self.errors.push(format!("site {}: {why}", site.name));
                return None;
            }
            UnusableFiles::CloseSite => &FormerFiles::default(),
            UnusableFiles::KeepFormer(former) => former,
        };
        let path = site.tls.client_ca.as_ref();
        let kept = former.authorities.iter().find(|(name, _)| Some(name) == path);
        let is_usable = |text: &&[u8]| tls::clients(text, site.tls.client_verify).is_ok();
        if let Some(text) = kept.map(|(_, text)| &text[..]).filter(is_usable) {
            let what = certificates::kept_authorities(&why);
            self.warnings.push(format!("site {}: {what}", site.name));
            self.kept_files[number].get_or_insert(what);
            return Some(text.to_vec());
        }
        self.closed[number].get_or_insert(why);
        self.closes_to_clients = true;
        None
    }

    /// Refuses a plan without a site that is served, unless a site waits for the authorities of
    /// its clients.
    pub(super) fn look_for_a_site(&mut self, config: &Config) {
        let is_served = |(site, why): (&SiteSettings, &Option<String>)| {
            why.is_none() || is_served_in_the_clear(config, site)
        };
        if self.closes_to_clients || config.sites.iter().zip(&self.closed).any(is_served) {
            return;
        }
        let reasons = config.sites.iter().zip(&self.closed);
        let reasons = reasons
            .filter_map(|(site, why)| Some(format!("site {}: {}", site.name, why.as_ref()?)));
        self.errors.extend(reasons);
    }
}

impl GenerationPlan {
    /// Returns the files of this plan, for a later one.
    pub(crate) fn files(&self) -> FormerFiles {
        let sites = || self.config.sites.iter();
        let closed = sites().zip(&self.closed).zip(&*self.certificates);
        let closed = closed
            .filter(|((site, why), pairs)| why.is_some() || pairs.len() < site.tls.cert.len());
        let authorities = sites().zip(&self.client_authorities);
        let pairs = sites().zip(&*self.certificates);
        let of_files = pairs.filter(|(site, _)| !site.tls.cert.is_empty());
        FormerFiles {
            closed: closed.map(|((site, _), _)| site.name.clone()).collect(),
            authorities: authorities
                .filter_map(|(site, text)| Some((site.tls.client_ca.clone()?, text.clone()?)))
                .collect(),
            pairs: of_files.flat_map(|(_, pairs)| pairs.iter().cloned()).collect(),
        }
    }

    /// Describes each closed site, with the reason and what to expect.
    pub(crate) fn closed_sites(&self) -> impl Iterator<Item = String> {
        let sites = self.config.sites.iter().zip(&self.closed);
        sites.filter_map(|(site, why)| {
            let meanwhile = match is_served_in_the_clear(&self.config, site) {
                true => "it is served over http alone",
                false if site.tls.redirect => "it has no https, and requests over http get 503",
                false => "it has no https, and requests over http get 403",
            };
            Some(format!(
                "site {}: {}; {meanwhile}, until the files can be used: they are read again when \
                 they change",
                site.name,
                why.as_ref()?
            ))
        })
    }
}

/// Returns whether the site has a listener without TLS, and neither redirects nor refuses requests
/// there.
fn is_served_in_the_clear(config: &Config, site: &SiteSettings) -> bool {
    let mut listeners = config.listen.iter();
    let tls = &site.tls;
    let refuses = tls.client_ca.is_some() && tls.client_verify == ClientVerify::Require;
    !tls.redirect
        && !refuses
        && listeners.any(|listener| !listener.tls && site.answers_on(listener))
}
