//! Observing requests. Each request has one record, from which the access log is written, and is
//! counted; each failed request has one error, which names its culprit.

mod access_log;
mod counters;
mod culprit;
mod directive_messages;
mod histogram;
mod phase;
mod protocol_limits;
mod request_error;

pub(crate) use self::access_log::{
    AccessLog, AccessLogs, ConnectionFacts, RecordedResponse, RequestRecord, ResolutionNotes,
};
#[cfg(test)]
pub(crate) use self::counters::{ClientResponses, Tally};
pub(crate) use self::counters::{
    CountedFigures, ErrorShare, FrontCounters, Ledger, NO_SITE, PLACES, SiteErrors, SiteTotals,
    ThreadCounters, Totals,
};
pub(crate) use self::culprit::{Culprit, Excuse};
pub(crate) use self::directive_messages::{DirectiveMessage, LoggedMessages};
pub(crate) use self::histogram::Histogram;
pub(crate) use self::phase::Phase;
pub(crate) use self::protocol_limits::{LimitCounts, ProtocolLimit};
pub(crate) use self::request_error::{ErrorContext, RequestError, RespondError};
