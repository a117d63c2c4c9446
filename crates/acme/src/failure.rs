//! The reason why an order has failed.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use instant_acme::{Error as AcmeError, Problem};
use rustls::CertificateError;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::schedule::FailureKind;

/// A failed order: the kind decides on the delay, the text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderFailure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
}

impl OrderFailure {
    pub(crate) fn local(reason: impl Into<String>) -> OrderFailure {
        OrderFailure {
            kind: FailureKind::Local,
            reason: reason.into(),
        }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> OrderFailure {
        OrderFailure {
            kind: FailureKind::Refused,
            reason: reason.into(),
        }
    }

    /// A failure of one challenge, after which another one may succeed.
    pub(crate) fn of_challenge(reason: impl Into<String>) -> OrderFailure {
        OrderFailure {
            kind: FailureKind::OtherChallenge,
            reason: reason.into(),
        }
    }

    /// The same failure, where `has_untried` tells whether there is another challenge.
    pub(crate) fn settled(self, has_untried: bool) -> OrderFailure {
        match self.kind {
            FailureKind::OtherChallenge if !has_untried => OrderFailure {
                kind: FailureKind::Refused,
                reason: self.reason,
            },
            _ => self,
        }
    }

    pub(crate) fn unreachable(reason: impl Into<String>) -> OrderFailure {
        OrderFailure {
            kind: FailureKind::Unreachable,
            reason: reason.into(),
        }
    }

    /// The failure that `error` means. `patience` is the last Retry-After of the authority.
    pub(crate) fn of(error: &AcmeError, patience: Option<Duration>) -> OrderFailure {
        match error {
            AcmeError::Api(problem) => OrderFailure::of_problem(problem, patience),
            AcmeError::Timeout(_) => {
                OrderFailure::unreachable("the authority did not finish in time")
            }
            other => OrderFailure::unreachable(match advice(other) {
                Some(advice) => format!("{}; {advice}", with_sources(other)),
                None => with_sources(other),
            }),
        }
    }

    /// The failure that a problem document (RFC 8555 §6.7) means.
    pub(crate) fn of_problem(problem: &Problem, patience: Option<Duration>) -> OrderFailure {
        let kind = match kind_of(problem) {
            "rateLimited" => FailureKind::RateLimited(patience.unwrap_or(USUAL_PATIENCE)),
            "serverInternal" | "badNonce" => FailureKind::Unreachable,
            _ if problem.status.is_some_and(|status| status >= 500) => FailureKind::Unreachable,
            _ => FailureKind::Refused,
        };
        OrderFailure { kind, reason: text_of(problem) }
    }
}

impl fmt::Display for OrderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The patience with a rate limit whose end is not told.
const USUAL_PATIENCE: Duration = Duration::from_secs(3600);
/// The beginning of the types of all problems.
const NAMESPACE: &str = "urn:ietf:params:acme:error:";
/// Bytes of an authority's text that are shown. The rest is left out.
const LONGEST_TEXT: usize = 500;

/// The type of a problem without its namespace.
pub(crate) fn kind_of(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or("");
    kind.strip_prefix(NAMESPACE).unwrap_or(kind)
}

/// A problem as one line for a person.
pub(crate) fn text_of(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_default();
    for part in &problem.subproblems {
        text.push_str(&format!("; {part}"));
    }
    // An authority's text goes into logs and onto terminals.
    let mut text: String =
        text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    match (text.is_empty(), kind_of(problem)) {
        (true, "") => "the authority gives no reason".to_owned(),
        (true, kind) => kind.to_owned(),
        (false, "") => text,
        (false, kind) => format!("{text} ({kind})"),
    }
}

/// Returns what to do about an authority that cannot be reached; `None` if nothing is known.
fn advice(error: &(dyn Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // The resolver's error has no public type.
        if error.to_string() == "dns error" {
            let what = "look whether the name is right, and at /etc/resolv.conf";
            return Some(what.to_owned());
        }
        if let Some(error) = error.downcast_ref::<io::Error>()
            && let Some(advice) = advice_on_connection(error)
        {
            return Some(advice);
        }
        cause = error.source();
    }
    None
}

fn advice_on_connection(error: &io::Error) -> Option<String> {
    let Some(rustls::Error::InvalidCertificate(wrong)) = of_tls(error) else {
        let is_closed = matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::TimedOut
        );
        let what = "let this machine reach the authority by https: look at the firewall";
        return is_closed.then(|| what.to_owned());
    };
    match wrong {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            let now = OffsetDateTime::now_utc().format(&Rfc3339).ok()?;
            Some(format!("look at the clock of this machine, which says {now}"))
        }
        CertificateError::UnknownIssuer => {
            Some("name the certificate of the authority's root in `acme.ca_file`".to_owned())
        }
        _ => None,
    }
}

/// Returns the error of TLS in an error, or in the one that it wraps.
fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    inner.downcast_ref().or_else(|| of_tls(inner.downcast_ref()?))
}

/// An error with the errors that have caused it.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, status: u16) -> Problem {
        Problem {
            r#type: Some(format!("{NAMESPACE}{kind}")),
            detail: Some("no\nway".to_owned()),
            status: Some(status),
            subproblems: Vec::new(),
        }
    }

    #[test]
    fn errors_of_connections_say_what_to_do() {
        let of =
            |error: io::Error| OrderFailure::of(&AcmeError::Other(Box::new(Outer(error))), None);
        let tls = |wrong| io::Error::other(rustls::Error::InvalidCertificate(wrong));
        for (error, expected) in [
            (tls(CertificateError::Expired), "the clock of this machine, which says 20"),
            (tls(CertificateError::NotValidYet), "the clock of this machine, which says 20"),
            (io::Error::other(tls(CertificateError::UnknownIssuer)), "`acme.ca_file`"),
            (io::ErrorKind::ConnectionRefused.into(), "look at the firewall"),
            (io::Error::other("something"), "something"),
        ] {
            let failure = of(error);
            assert_eq!(failure.kind, FailureKind::Unreachable);
            assert!(failure.reason.contains(expected), "{}", failure.reason);
        }
    }

    /// An error with this cause.
    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot connect")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn kinds_of_problems() {
        let patience = Some(Duration::from_secs(7));
        for (kind, status, expected) in [
            ("rateLimited", 429, FailureKind::RateLimited(Duration::from_secs(7))),
            ("serverInternal", 500, FailureKind::Unreachable),
            ("unauthorized", 403, FailureKind::Refused),
            ("something", 503, FailureKind::Unreachable),
            ("rejectedIdentifier", 400, FailureKind::Refused),
        ] {
            let failure = OrderFailure::of_problem(&problem(kind, status), patience);
            assert_eq!(failure.kind, expected, "{kind}");
            assert_eq!(failure.reason, format!("no way ({kind})"));
        }
        let failure = OrderFailure::of_problem(&problem("rateLimited", 429), None);
        assert_eq!(failure.kind, FailureKind::RateLimited(USUAL_PATIENCE));
    }
}
