//! The content of a site's files. Each pair is used or not for itself.

use std::time::SystemTime;

use howdah_acme::storage::date;
use howdah_config::SiteSettings;

use crate::supervisor::generation_plan::GenerationPlan;
use crate::tls::{self, PairText};

/// The content of a site's files.
pub(super) struct TlsFiles {
    pairs: Vec<PairText>,
    /// `None`: there are none, or those that are in use stay.
    authorities: Option<Vec<u8>>,
    /// Remarks about the files, for the log.
    pub(super) remarks: Vec<String>,
    /// Says which files are not used, and why; `None`: all are.
    pub(super) trouble: Option<String>,
    /// The reason why the site cannot be open. `None`: it can.
    pub(super) closes: Option<String>,
}

impl TlsFiles {
    /// Reads the files of a site, which uses the pairs `former`, and which has authorities of
    /// clients or not.
    pub(super) fn read(
        site: &SiteSettings,
        former: &[PairText],
        has_authorities: bool,
    ) -> TlsFiles {
        let read = read_pairs(site, former);
        let mut files = TlsFiles {
            trouble: read.describe_flaws(),
            closes: read.closes(),
            pairs: read.pairs,
            authorities: None,
            remarks: read.remarks,
        };
        match read_authorities(site) {
            None => {}
            Some(Ok((text, remarks))) => {
                files.authorities = Some(text);
                files.remarks.extend(remarks);
            }
            Some(Err(why)) if has_authorities => {
                let what = kept_authorities(&why);
                files.trouble = Some(match files.trouble {
                    Some(first) => format!("{first}; {what}"),
                    None => what,
                });
            }
            Some(Err(why)) => _ = files.closes.get_or_insert(why),
        }
        files
    }

    /// Takes the content: the pairs, and the authorities of clients where they are others.
    pub(super) fn into_content(self) -> (Vec<PairText>, Option<Vec<u8>>) {
        (self.pairs, self.authorities)
    }

    /// Names the parts that differ from those of the plan. `None`: no part does.
    pub(super) fn news(&self, plan: &GenerationPlan, site: usize) -> Option<&'static str> {
        let has_pairs = plan.certificates.get(site) == Some(&self.pairs) || self.pairs.is_empty();
        let has_authorities = self.authorities.is_none()
            || plan.client_authorities.get(site) == Some(&self.authorities);
        match (has_pairs, has_authorities) {
            (true, true) => None,
            (true, false) => Some("new authorities of clients are"),
            (false, false) => Some("new certificate and authorities of clients are"),
            (false, true) => Some("new certificate is"),
        }
    }
}

/// The pairs of a site, as far as they can be used.
#[derive(Default)]
pub(in crate::supervisor) struct ReadPairs {
    /// The pairs to use, in the order of the configuration.
    pub(in crate::supervisor) pairs: Vec<PairText>,
    /// Remarks about them, for the log.
    pub(in crate::supervisor) remarks: Vec<String>,
    /// Mistakes in files whose former pairs stay in use.
    kept: Vec<String>,
    /// Mistakes in files that have no former pair.
    pub(in crate::supervisor) left_out: Vec<String>,
}

impl ReadPairs {
    /// Says which files are not used, and why; `None`: all are.
    pub(in crate::supervisor) fn describe_flaws(&self) -> Option<String> {
        let kept = self
            .kept
            .iter()
            .map(|why| format!("the former certificate stays in use: {why}"));
        let left_out = self.left_out.iter().map(|why| format!("a certificate is left out: {why}"));
        let all: Vec<_> = kept.chain(left_out).collect();
        (!all.is_empty()).then(|| format!("{}; {READ_AGAIN}", all.join("; ")))
    }

    /// Returns why the site cannot be open; `None`: it has a pair, or it names none.
    pub(in crate::supervisor) fn closes(&self) -> Option<String> {
        let is_closed = self.pairs.is_empty() && !self.left_out.is_empty();
        is_closed.then(|| self.left_out.join("; "))
    }
}

/// Reads the certificates of a site. A pair that cannot be used is the one of the same files in
/// `former`, or is left out.
pub(in crate::supervisor) fn read_pairs(site: &SiteSettings, former: &[PairText]) -> ReadPairs {
    let mut read = ReadPairs::default();
    let mut parsed = Vec::new();
    for (certificate, key) in site.tls.pairs() {
        let text = PairText::read(certificate, key);
        let tried = text.and_then(|text| text.parse().map(|pair| (text, pair)));
        let why = match tried {
            Ok((text, pair)) => {
                read.remarks.extend(pair.remarks(site, SystemTime::now()));
                read.pairs.push(text);
                parsed.push(pair);
                continue;
            }
            Err(why) => why,
        };
        let Some(text) = former.iter().find(|pair| pair.is_of(certificate, key)) else {
            read.left_out.push(why);
            continue;
        };
        // `howdah check` of a running server gets the names of the files alone.
        let pair = text.parse().ok();
        let until = pair.as_ref().map_or(String::new(), |pair| {
            let end = date(pair.facts.ends.max(0).unsigned_abs());
            format!("; the former one is valid until {end}")
        });
        read.kept.push(why + &until);
        read.pairs.push(text.clone());
        parsed.extend(pair);
    }
    if parsed.len() == read.pairs.len() {
        read.remarks.extend(tls::names_left_out(site, &parsed));
    }
    read
}

/// The content of a file, with remarks about it for the log.
type WithRemarks = (Vec<u8>, Vec<String>);

/// Reads the authorities of a site's clients. Returns them with remarks about them; `None` where
/// clients are asked for nothing.
pub(in crate::supervisor) fn read_authorities(
    site: &SiteSettings,
) -> Option<Result<WithRemarks, String>> {
    let (path, name) = (site.tls.client_ca.as_deref()?, &site.name);
    let shown = path.display();
    Some(tls::read(path).and_then(|text| match tls::clients(&text, site.tls.client_verify) {
        Ok(check) => {
            let remarks = check.remarks.iter();
            Ok((text, remarks.map(|what| format!("site {name}: {shown}: {what}")).collect()))
        }
        Err(why) => Err(format!("{shown}: {why}")),
    }))
}

/// Says that the authorities of clients stay in use because their file cannot be used.
pub(in crate::supervisor) fn kept_authorities(why: &str) -> String {
    format!("the former authorities of clients stay in use: {why}; {READ_AGAIN}")
}

const READ_AGAIN: &str = "the files are read again when they change";
