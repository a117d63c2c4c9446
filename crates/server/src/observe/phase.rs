//! The step that a request is in, in the words that errors end with.

use std::fmt;

/// The steps of a request, as logs and errors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Part of a head was received.
    ReadingHead,
    /// The URL is being resolved.
    Resolving,
    /// The request's content is being received.
    ReadingBody,
    /// All workers are busy.
    WaitingForWorker,
    /// A worker runs the script and has not answered yet.
    WaitingForScript,
    /// An upstream has not answered yet.
    WaitingForUpstream,
    /// The response is on its way.
    Sending,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::ReadingHead => "while reading the head of a request",
            Phase::Resolving => "while resolving",
            Phase::ReadingBody => "while reading the body of",
            Phase::WaitingForWorker => "while waiting for a worker for",
            Phase::WaitingForScript | Phase::WaitingForUpstream => {
                "while waiting for the response to"
            }
            Phase::Sending => "while sending the response to",
        })
    }
}
