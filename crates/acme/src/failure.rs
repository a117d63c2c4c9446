//! The reason why an order has failed.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use instant_acme::{Error as AcmeError, Problem};

use crate::schedule::FailureKind;

/// A failed order: the kind decides on the delay, the text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
}

impl Failure {
    pub(crate) fn local(reason: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Local,
            reason: reason.into(),
        }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Refused,
            reason: reason.into(),
        }
    }

    pub(crate) fn unreachable(reason: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Unreachable,
            reason: reason.into(),
        }
    }

    /// The failure that `error` means. `patience` is the last Retry-After of the authority.
    pub(crate) fn of(error: &AcmeError, patience: Option<Duration>) -> Failure {
        match error {
            AcmeError::Api(problem) => Failure::of_problem(problem, patience),
            AcmeError::Timeout(_) => Failure::unreachable("the authority did not finish in time"),
            other => Failure::unreachable(with_sources(other)),
        }
    }

    /// The failure that a problem document (RFC 8555 §6.7) means.
    pub(crate) fn of_problem(problem: &Problem, patience: Option<Duration>) -> Failure {
        let kind = match kind_of(problem) {
            "rateLimited" => FailureKind::RateLimited(patience.unwrap_or(USUAL_PATIENCE)),
            "serverInternal" | "badNonce" => FailureKind::Unreachable,
            _ if problem.status.is_some_and(|status| status >= 500) => FailureKind::Unreachable,
            _ => FailureKind::Refused,
        };
        Failure { kind, reason: text_of(problem) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The patience with a rate limit whose end is not told.
const USUAL_PATIENCE: Duration = Duration::from_secs(3600);
/// The beginning of the types of all problems.
const NAMESPACE: &str = "urn:ietf:params:acme:error:";
/// Bytes of an authority's text that are shown.
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
    fn kinds_of_problems() {
        let patience = Some(Duration::from_secs(7));
        for (kind, status, expected) in [
            ("rateLimited", 429, FailureKind::RateLimited(Duration::from_secs(7))),
            ("serverInternal", 500, FailureKind::Unreachable),
            ("unauthorized", 403, FailureKind::Refused),
            ("something", 503, FailureKind::Unreachable),
            ("rejectedIdentifier", 400, FailureKind::Refused),
        ] {
            let failure = Failure::of_problem(&problem(kind, status), patience);
            assert_eq!(failure.kind, expected, "{kind}");
            assert_eq!(failure.reason, format!("no way ({kind})"));
        }
        let failure = Failure::of_problem(&problem("rateLimited", 429), None);
        assert_eq!(failure.kind, FailureKind::RateLimited(USUAL_PATIENCE));
    }
}
