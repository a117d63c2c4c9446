//! What went wrong with a request, whose fault it was, and what the client and the log are told:
//! the one place for that.

use std::fmt;
use std::net::SocketAddr;

use howdah_http::{Request, Status};
use howdah_php::{DispatchError, ExchangeError};
use howdah_site::{Script, Site};

use super::body::BodyError;
use super::connection::Connection;
use super::rules::Complaint;
use super::upstream;
use crate::log::Level;

/// Something that kept a request from its usual answer.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) culprit: Culprit,
    /// What the client is told; `None` if it is gone, or is being answered already.
    pub(super) status: Option<Status>,
    /// The site that the request was for, if it came that far.
    pub(super) site: Option<String>,
    text: String,
}

/// Why there is no answer yet.
#[derive(Debug)]
pub(super) enum Failed {
    /// What is to be answered; there is nothing to say about it.
    Status(Status),
    Trouble(Trouble),
}

impl Failed {
    /// What the client is told; `None` if it is gone.
    pub(super) fn status(&self) -> Option<Status> {
        match self {
            Failed::Status(status) => Some(*status),
            Failed::Trouble(trouble) => trouble.status,
        }
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed::Status(status)
    }
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        Failed::Trouble(trouble)
    }
}

/// Whose fault it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Culprit {
    Client,
    Script,
    /// A server that a rule hands requests on to.
    Upstream,
    /// What the site's directives say.
    Site,
    /// The pool has no room.
    Load,
    Server,
}

impl Trouble {
    /// The client broke the rules of HTTP.
    pub(super) fn client(connection: &Connection, status: Status, why: &str) -> Trouble {
        let text = format!("{status} to {}: {why}, {}", connection.remote, connection.phase());
        Trouble {
            culprit: Culprit::Client,
            status: Some(status),
            site: None,
            text,
        }
    }

    /// The request's content did not come.
    pub(super) fn body(
        connection: &Connection,
        request: &Request,
        site: &Site,
        error: &BodyError,
    ) -> Trouble {
        let why = match error {
            BodyError::Refused(refusal) => refusal.why.to_owned(),
            BodyError::TimedOut => "nothing came for body_timeout".to_owned(),
            BodyError::Cut => "the client closed the connection".to_owned(),
            BodyError::Forgotten => {
                "the rules changed after its content was thrown away".to_owned()
            }
            BodyError::Storage(error) => {
                format!(
                    "its content cannot be stored in {}: {error}",
                    std::env::temp_dir().display()
                )
            }
        };
        let culprit = if matches!(error, BodyError::Storage(_) | BodyError::Forgotten) {
            Culprit::Server
        } else {
            Culprit::Client
        };
        let text = format!("{}: {why}, {}", connection.remote, While(connection, request));
        Trouble {
            culprit,
            status: error.status(),
            site: Some(site.name().to_owned()),
            text,
        }
    }

    /// The pool did not take the request.
    pub(super) fn refused(
        connection: &Connection,
        request: &Request,
        site: &Site,
        refused: DispatchError,
    ) -> Trouble {
        let (culprit, status, why) = match refused {
            DispatchError::QueueFull => (
                Culprit::Load,
                Status::SERVICE_UNAVAILABLE,
                "all workers are busy and the queue is full",
            ),
            DispatchError::QueueTimeout => (
                Culprit::Load,
                Status::SERVICE_UNAVAILABLE,
                "no worker became free within queue_timeout",
            ),
            DispatchError::TooLarge => (
                Culprit::Client,
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the head, as server variables, is larger than a worker can be given",
            ),
        };
        let text = format!("{}: {why}, {}", connection.remote, While(connection, request));
        Trouble {
            culprit,
            status: Some(status),
            site: Some(site.name().to_owned()),
            text,
        }
    }

    /// The worker did not answer as it should.
    pub(super) fn script(
        connection: &Connection,
        request: &Request,
        site: &Site,
        script: &Script,
        failure: ExchangeError,
    ) -> Trouble {
        let script = script.path().absolute().display();
        let mut trouble = Trouble::response(connection, request, failure);
        trouble.text = format!("{script}: {}", trouble.text);
        trouble.site = Some(site.name().to_owned());
        trouble
    }

    /// As [`Trouble::script`], once the response is on its way.
    pub(super) fn response(
        connection: &Connection,
        request: &Request,
        failure: ExchangeError,
    ) -> Trouble {
        let (status, why) = match failure {
            ExchangeError::WorkerDied(status) => {
                (Status::BAD_GATEWAY, format!("its worker {}", crate::log::WaitStatus(status)))
            }
            ExchangeError::NotBegun => (
                Status::SERVICE_UNAVAILABLE,
                "no worker became free within queue_timeout".to_owned(),
            ),
            ExchangeError::PoolDied | ExchangeError::NotTaken => {
                (Status::BAD_GATEWAY, "its pool's zygote died".to_owned())
            }
            ExchangeError::TimedOut => (
                Status::GATEWAY_TIMEOUT,
                "it ran longer than request_timeout; its worker is ended".to_owned(),
            ),
            ExchangeError::Malformed(corrupt) => (Status::BAD_GATEWAY, corrupt.to_string()),
        };
        let text = format!("{why}, {}", While(connection, request));
        let culprit = if failure == ExchangeError::NotBegun {
            Culprit::Load
        } else {
            Culprit::Script
        };
        Trouble {
            culprit,
            status: Some(status),
            site: None,
            text,
        }
    }

    /// An upstream did not answer as it should.
    pub(super) fn upstream(
        connection: &Connection,
        request: &Request,
        upstream: &str,
        failure: &upstream::Failure,
    ) -> Trouble {
        let text = format!("{upstream}: {failure}, {}", While(connection, request));
        Trouble {
            culprit: Culprit::Upstream,
            status: Some(failure.status()),
            site: None,
            text,
        }
    }

    /// What directives had to say.
    pub(super) fn directives(
        connection: &Connection,
        request: &Request,
        site: &Site,
        (place, what): &Complaint,
    ) -> Trouble {
        let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        Trouble {
            culprit: Culprit::Site,
            status: None,
            site: Some(site.name().to_owned()),
            text: format!("{place}{what}, {}", While(connection, request)),
        }
    }

    /// The client closed the connection before it had its answer.
    pub(super) fn gone(connection: &Connection, request: &Request, site: &Site) -> Trouble {
        let text = format!("the client closed the connection, {}", While(connection, request));
        Trouble {
            culprit: Culprit::Client,
            status: None,
            site: Some(site.name().to_owned()),
            text,
        }
    }

    /// A file could not be sent as it was promised.
    pub(super) fn server(connection: &Connection, request: &Request, why: &str) -> Trouble {
        let text = format!("{why}, {}", While(connection, request));
        Trouble {
            culprit: Culprit::Server,
            status: None,
            site: None,
            text,
        }
    }

    /// How loud it is said.
    pub(super) fn level(&self) -> Level {
        match self.culprit {
            Culprit::Client => Level::Info,
            Culprit::Load | Culprit::Site => Level::Warning,
            Culprit::Script | Culprit::Upstream | Culprit::Server => Level::Error,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Bytes of a target that are told; the access log has all of it.
const LONGEST_TARGET: usize = 1024;

/// `while sending the response to GET http://host/path from 192.0.2.1:4711`.
struct While<'t>(&'t Connection, &'t Request);

impl fmt::Display for While<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let While(connection, request) = self;
        let remote: SocketAddr = connection.remote;
        let shown = &request.target[..request.target.len().min(LONGEST_TARGET)];
        let (host, target) = (request.authority.escape_ascii(), shown.escape_ascii());
        write!(
            f,
            "{} {} http://{host}{target} from {remote}",
            connection.phase(),
            request.method.as_str()
        )
    }
}
