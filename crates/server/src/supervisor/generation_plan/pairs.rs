//! The certificates that the configuration names files for.
//!
//! A site whose files cannot be used does not keep the others from being served. At the start the
//! site is closed: it has no https, and a request over http that would be redirected gets 503, so
//! that nothing is sent in the clear which is meant to be encrypted. A plan that replaces another
//! one is refused, or the site keeps the certificates that it has.

use howdah_config::{Config, Site};

use super::{GenerationPlan, PlanFinder};
use crate::supervisor::certificates;
use crate::tls::PairText;

/// The consequence of files that cannot be used for a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UnusableFiles<'p> {
    /// The plan is refused.
    Refuse,
    /// The site is closed, as long as another site is left.
    CloseSite,
    /// The plan is refused, unless the site is closed in this one already.
    LeaveClosed(&'p GenerationPlan),
    /// The site keeps what it has in this plan of the same configuration.
    KeepPairs(&'p GenerationPlan),
}

impl PlanFinder<'_> {
    /// Reads the certificates of the site with this number, and tries them.
    pub(super) fn pairs(&mut self, number: usize, site: &Site) -> Vec<PairText> {
        let why = match certificates::read(site) {
            Ok((pairs, remarks)) => {
                self.warnings.extend(remarks);
                return pairs;
            }
            Err(why) => why,
        };
        let name = &site.name;
        let (is_closed, kept) = match self.unusable_files {
            UnusableFiles::Refuse => (false, None),
            UnusableFiles::CloseSite => (true, None),
            UnusableFiles::LeaveClosed(former) => (former.is_closed(name), None),
            UnusableFiles::KeepPairs(former) => {
                (former.is_closed(name), former.certificates.get(number))
            }
        };
        if is_closed {
            self.closed[number] = Some(why);
        } else if let Some(pairs) = kept {
            let what = format!("site {name}: the former certificate stays in use: {why}");
            self.warnings.push(what);
            return pairs.clone();
        } else {
            self.errors.push(format!("site {name}: {why}"));
        }
        Vec::new()
    }

    /// Refuses a plan without a site that is served.
    pub(super) fn look_for_a_site(&mut self, config: &Config) {
        let is_served = |(site, why): (&Site, &Option<String>)| {
            why.is_none() || is_served_in_the_clear(config, site)
        };
        if config.sites.iter().zip(&self.closed).any(is_served) {
            return;
        }
        let reasons = config.sites.iter().zip(&self.closed);
        let reasons = reasons
            .filter_map(|(site, why)| Some(format!("site {}: {}", site.name, why.as_ref()?)));
        self.errors.extend(reasons);
    }
}

impl GenerationPlan {
    /// Whether the site of this name is closed.
    fn is_closed(&self, name: &str) -> bool {
        let mut sites = self.config.sites.iter().zip(&self.closed);
        sites.any(|(site, why)| site.name == name && why.is_some())
    }

    /// Describes each closed site, with the reason and what to expect.
    pub(crate) fn closed_sites(&self) -> impl Iterator<Item = String> {
        let sites = self.config.sites.iter().zip(&self.closed);
        sites.filter_map(|(site, why)| {
            let meanwhile = match is_served_in_the_clear(&self.config, site) {
                true => "it is served over http alone",
                false => "it has no https, and requests over http get 503",
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

/// Whether the site has a listener without TLS, and redirects nobody from there.
fn is_served_in_the_clear(config: &Config, site: &Site) -> bool {
    let mut listeners = config.listen.iter();
    !site.tls.redirect && listeners.any(|listener| !listener.tls && site.answers_on(listener))
}
