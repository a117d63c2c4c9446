//! The order in which the responses of a connection are sent (RFC 9218 §10).

use howdah_http::priority::Priority;

/// The place of a sink in the order. Lower ones go first: by urgency, then streams that are sent in
/// one run by their number, then incremental ones in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SinkPlace {
    urgency: u8,
    is_incremental: bool,
    /// The turn that an incremental stream had last; 0 for all others.
    last: u64,
    stream: u64,
}

impl SinkPlace {
    /// The place of the stream with this number, which has had no turn.
    pub(crate) fn new(stream: u64, priority: Priority) -> SinkPlace {
        SinkPlace {
            urgency: priority.urgency,
            is_incremental: priority.is_incremental,
            last: 0,
            stream,
        }
    }

    /// The number of the stream.
    pub(crate) fn stream(&self) -> u64 {
        self.stream
    }

    /// Gives the stream another priority.
    pub(crate) fn set_priority(&mut self, Priority { urgency, is_incremental }: Priority) {
        self.urgency = urgency;
        self.is_incremental = is_incremental;
        if !is_incremental {
            self.last = 0;
        }
    }

    /// Notes that the stream has the turn with this number.
    pub(crate) fn take_turn(&mut self, turn: u64) {
        if self.is_incremental {
            self.last = turn;
        }
    }
}
