//! The certificates of a site, as the status shows them.

use howdah_acme::storage::date;
use howdah_config::CertificateSource;
use serde::{Deserialize, Serialize};

use crate::front::FrontShared;

/// A certificate that is in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateSnapshot {
    /// `files`, `internal`, or [`ORDERED`].
    pub(crate) source: String,
    /// Host names and addresses.
    pub(crate) names: Vec<String>,
    /// Seconds since 1970.
    pub(crate) begins: i64,
    /// Seconds since 1970.
    pub(crate) ends: i64,
    /// Seconds since 1970; `null` for a certificate that was not ordered.
    #[serde(default)]
    pub(crate) next_renewal: Option<u64>,
    /// The file, or a description of the certificate.
    pub(crate) file: String,
}

/// The source of certificates from authorities that speak ACME.
const ORDERED: &str = "acme";

/// Returns the certificates of the site with this number.
pub(super) fn of(shared: &FrontShared, site: usize) -> Vec<CertificateSnapshot> {
    let (Some(tls), Some(settings)) = (&shared.tls, shared.config.sites.get(site)) else {
        return Vec::new();
    };
    let source = match settings.tls.source {
        CertificateSource::Files => "files",
        CertificateSource::Internal => "internal",
        CertificateSource::Auto => ORDERED,
    };
    let all = tls.certificates.all(site).into_iter();
    let renewal = |names: &[String]| match source {
        ORDERED => shared.renewals.of(names),
        _ => None,
    };
    let snapshot = all.map(|pair| CertificateSnapshot {
        source: source.to_owned(),
        next_renewal: renewal(pair.facts.names()),
        names: pair.facts.names_and_addresses(),
        begins: pair.facts.begins,
        ends: pair.facts.ends,
        file: pair.name.clone(),
    });
    snapshot.collect()
}

impl CertificateSnapshot {
    /// Describes the certificate at `now`, in seconds since 1970. `None` for one that was ordered:
    /// the supervisor describes it, with its next renewal.
    pub(super) fn sentence(&self, now: f64) -> Option<String> {
        if self.source == ORDERED {
            return None;
        }
        let now = now as i64;
        let shown = |seconds: i64| date(seconds.max(0).unsigned_abs());
        let ends = match self.ends <= now {
            true => format!("ended at {}", shown(self.ends)),
            false => format!("ends at {}", shown(self.ends)),
        };
        let begins = match self.begins > now {
            true => format!("begins at {}, ", shown(self.begins)),
            false => String::new(),
        };
        Some(format!("{}: {begins}{ends}, {}", self.names.join(", "), self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_with_its_time() {
        let certificate = CertificateSnapshot {
            source: "files".into(),
            names: vec!["a.example".into(), "127.0.0.1".into()],
            begins: 86_400,
            ends: 2 * 86_400,
            next_renewal: None,
            file: "/etc/a.pem".into(),
        };
        for (now, expected) in [
            (86_399.9, "begins at 1970-01-02T00:00:00Z, ends at 1970-01-03T00:00:00Z"),
            (86_400.0, "ends at 1970-01-03T00:00:00Z"),
            (172_799.0, "ends at 1970-01-03T00:00:00Z"),
            (172_800.0, "ended at 1970-01-03T00:00:00Z"),
        ] {
            let told = format!("a.example, 127.0.0.1: {expected}, /etc/a.pem");
            assert_eq!(certificate.sentence(now), Some(told), "{now}");
        }
        let ordered = CertificateSnapshot { source: ORDERED.into(), ..certificate };
        assert_eq!(ordered.sentence(0.0), None);
    }
}
