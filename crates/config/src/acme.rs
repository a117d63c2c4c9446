//! The keys of `[acme]`: certificates from an authority.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeTable;

use crate::kinds::{
    AskUrl, AtLeast, Challenge, DirectoryUrl, Email, FilePath, Flag, List, Optional, Text,
};
use crate::section::section;
use crate::settings::{Config, SiteSettings};
use crate::values::{AcmeChallenge, CertificateSource, HostPattern, RootTemplate};

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

section! {
    /// Certificates that the server orders and renews by itself, from an authority that speaks ACME
    /// (RFC 8555). See [certificates.md](certificates.md).
    pub struct Acme {
        /// The URL of the authority's directory. Of several, the first is asked first, and the next
        /// one where an authority does not issue a certificate. For tests, Let's Encrypt has
        /// `https://acme-staging-v02.api.letsencrypt.org/directory`, whose certificates no browser
        /// trusts.
        directory ("directory"): Vec<String> as List<DirectoryUrl> = vec![LETS_ENCRYPT.to_owned()],
            "Let's Encrypt: without a charge, and trusted by all browsers.";
        /// A PEM file with roots that are trusted, beside those of the system, when the server
        /// speaks with the authority. An authority of your own network may need it.
        ca_file ("ca_file"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is the system's roots alone.";
        /// The address for messages of the authority about its certificates.
        email ("email"): Option<String> as Optional<Email> = None,
            "Unset is none: the server renews certificates by itself.";
        /// Whether you agree to the terms of service of the authorities in `directory`. No
        /// certificate is ordered without `true`.
        terms_agreed ("terms_agreed"): bool as Flag = false,
            "Nobody can agree for you.";
        /// The name of a key that the authority has given to you, for authorities that ask for an
        /// account of their own (external account binding).
        eab_kid ("eab_kid"): Option<String> as Optional<Text> = None,
            "Let's Encrypt needs none.";
        /// The key to `eab_kid`, in base64url as the authority shows it.
        eab_hmac ("eab_hmac"): Option<String> as Optional<Text> = None,
            "Let's Encrypt needs none.";
        /// The folder for account keys and certificates. It belongs to the process that orders
        /// them.
        state_dir ("state_dir"): Option<PathBuf> as Optional<FilePath> = None,
            "Unset is `/var/lib/howdah-acme` as root, else `howdah-acme` in `$XDG_STATE_HOME` or \
             `~/.local/state`.";
        /// The ways in which the server shows that a name leads to it: `"http-01"` on port 80,
        /// `"tls-alpn-01"` on port 443, `"dns-01"` by `dns_hook`. After the authority has refused
        /// one, the next order uses the next one.
        challenges ("challenges"): Vec<AcmeChallenge> as List<Challenge> = vec![
            AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01,
        ],
            "Both need nothing but the ports that browsers use. Where `dns_hook` is set, \
             `\"dns-01\"` comes after them.";
        /// A program and its arguments, which adds and removes DNS records for `"dns-01"`. It is
        /// called with `add NAME VALUE` and later with `remove NAME VALUE`. Wildcards need it.
        dns_hook ("dns_hook"): Vec<String> as List<Text> = Vec::new(),
            "Each provider of DNS has another interface.";
        /// A URL that is asked whether a name may have a certificate, where certificates are
        /// ordered on demand. The parameter `domain` with the name is added. A status of 200 to
        /// 299 allows the name. A name whose folder exists is not asked about. With this key, a
        /// site needs no `{host}` in its `root`.
        ask ("ask"): Option<String> as Optional<AskUrl> = None,
            "Unset is the folder alone: names without one get no certificate.";
        /// Orders that begin in an hour, at most, for names that are in no `hosts` and have no
        /// certificate yet. Such names belong to sites with `tls = "auto"`, `"*"` or a wildcard in
        /// `hosts`, and `{host}` in `root`. The first visit of a name whose folder exists orders
        /// its certificate. Each owner of folders, each domain, and each of several sites leaves
        /// a part of the orders to others: see [certificates.md](certificates.md). Renewals are
        /// not counted. 0 orders none.
        on_demand_per_hour ("on_demand_per_hour"): usize as AtLeast<usize, 0> = 60,
            "A fifth of the orders that Let's Encrypt takes from one account.";
    }
}

impl Acme {
    /// Returns whether certificates are ordered on demand for names of the site: the names that its
    /// wildcards stand for, unless the wildcards have certificates.
    pub fn is_on_demand(&self, site: &SiteSettings) -> bool {
        let has_names = site.hosts.iter().any(|host| self.stands_for_names(host));
        let can_decide = self.ask.is_some() || matches!(site.root, RootTemplate::PerHost { .. });
        let is_ordered = site.tls.source == CertificateSource::Auto;
        is_ordered && has_names && can_decide && self.on_demand_per_hour > 0
    }

    /// Returns whether `host` stands for names that have neither a certificate of their own nor one
    /// of a wildcard.
    pub fn stands_for_names(&self, host: &HostPattern) -> bool {
        match host {
            HostPattern::Exact(_) => false,
            HostPattern::Wildcard(_) => self.dns_hook.is_empty(),
            HostPattern::Default => true,
        }
    }
}

impl Config {
    /// Gives `tls = "auto"` to the sites that say nothing of `tls`, have a name, and answer on port
    /// 443, where the terms of an authority are agreed to. `documents` are the files of the
    /// configuration, in the order of their sites.
    pub(crate) fn choose_certificates(&mut self, documents: &[Spanned<DeTable<'_>>]) {
        if !self.acme.terms_agreed {
            return;
        }
        let sites = documents.iter().filter_map(|document| document.get_ref().get("site"));
        let sites = sites.filter_map(|sites| sites.get_ref().as_array()).flatten();
        let listeners = &self.listen;
        for (site, table) in self.sites.iter_mut().zip(sites) {
            let has_name = site.hosts.iter().any(|host| *host != HostPattern::Default);
            let answers = listeners.iter().any(|listener| {
                listener.tls && listener.address.is_for_https() && site.answers_on(listener)
            });
            if has_name && answers && table.get_ref().get("tls").is_none() {
                site.tls.source = CertificateSource::Auto;
            }
        }
    }
}
