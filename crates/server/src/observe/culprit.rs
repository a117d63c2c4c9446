//! The parties at fault for errors of requests, and what each of them means for the log and for a
//! probation.

use crate::log::Level;

/// The party at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Culprit {
    Client,
    Script,
    /// A server that a rule hands requests on to.
    Upstream,
    /// The site's directives.
    Site,
    /// There is no room for the request among the others.
    Load(Excuse),
    /// The disk of the temporary files is full.
    Disk,
    Server,
}

/// The condition under which a response of 5xx is no error of the site's configuration. Visitors
/// could undo any reload otherwise (`probation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// None.
    Always,
    /// The site's scripts end: its workers are busy, and do not hang.
    ScriptsEnd,
    /// The site's upstreams answer: the connections to them are busy, and do not hang.
    UpstreamsAnswer,
}

impl Culprit {
    /// The level in the log.
    pub(super) fn level(self) -> Level {
        match self {
            Culprit::Client => Level::Info,
            Culprit::Load(_) | Culprit::Site => Level::Warning,
            Culprit::Script | Culprit::Upstream | Culprit::Disk | Culprit::Server => Level::Error,
        }
    }

    /// Returns the excuse for a response of 5xx; `None` where it is an error of the site, or of the
    /// server.
    pub(crate) fn excuse(self) -> Option<Excuse> {
        match self {
            Culprit::Client | Culprit::Disk => Some(Excuse::Always),
            Culprit::Load(excuse) => Some(excuse),
            Culprit::Script | Culprit::Upstream | Culprit::Site | Culprit::Server => None,
        }
    }
}
