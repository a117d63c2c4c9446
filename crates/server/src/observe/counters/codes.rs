//! The statuses by which requests are counted. A script can answer with any number from 100 to 999;
//! monitors get a bounded number of series of each site.

use howdah_http::Status;

/// Places of statuses among a site's counters. The counters of a former program go on in those of
/// the next one: a place that was added would move those behind it.
pub(super) const CODE_COUNT: usize = 500;
/// The status of the first place.
const FIRST: u16 = 100;
/// The last place: all statuses that have no class.
const OTHER: usize = CODE_COUNT - 1;

/// A status, or several, as counters name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedCode {
    /// A status of the registry, or [`Status::CLIENT_CLOSED_REQUEST`].
    Exactly(u16),
    /// All other statuses that begin with this digit, from 1 to 5.
    OfClass(u16),
    /// All statuses from 600 on.
    Other,
}

impl CountedCode {
    /// The name in figures and metrics: `404`, `4xx` or `other`.
    pub(crate) fn name(self) -> String {
        match self {
            CountedCode::Exactly(code) => code.to_string(),
            CountedCode::OfClass(_) | CountedCode::Other => self.class(),
        }
    }

    /// The name of its class: `4xx` or `other`.
    pub(crate) fn class(self) -> String {
        match self {
            CountedCode::Exactly(code) => format!("{}xx", code / 100),
            CountedCode::OfClass(digit) => format!("{digit}xx"),
            CountedCode::Other => "other".to_owned(),
        }
    }

    /// Returns what the place counts.
    pub(super) fn at(place: usize) -> CountedCode {
        let code = FIRST + u16::try_from(place).unwrap_or(u16::MAX - FIRST);
        match Status::new(code) {
            _ if place >= OTHER => CountedCode::Other,
            Some(status) if status.is_registered() || status == Status::CLIENT_CLOSED_REQUEST => {
                CountedCode::Exactly(code)
            }
            _ => CountedCode::OfClass(code / 100),
        }
    }
}

/// Returns the place of a status. 599 is counted with the status before it, to leave its place to
/// those that have no class.
pub(super) fn place_of(status: Status) -> usize {
    match usize::from(status.code()) {
        600.. => OTHER,
        code => (code - usize::from(FIRST)).min(OTHER - 1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_status_has_a_name_of_its_own_or_that_of_its_class() {
        let mut names = BTreeSet::new();
        for code in 100..=999 {
            let counted = CountedCode::at(place_of(Status::new(code).unwrap()));
            let class = match code {
                600.. => "other".to_owned(),
                _ => format!("{}xx", code / 100),
            };
            assert_eq!(counted.class(), class, "{code}");
            let name = counted.name();
            assert!(name == class || name == code.to_string(), "{code}: {name}");
            names.insert(name);
        }
        for known in ["200", "404", "429", "499", "503", "510", "511", "2xx", "5xx", "other"] {
            assert!(names.contains(known), "{known}");
        }
        assert!(names.len() < 80, "{}", names.len());
        for unknown in ["299", "418", "520", "599", "600", "999"] {
            assert!(!names.contains(unknown), "{unknown}");
        }
    }
}
