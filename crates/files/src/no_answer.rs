//! The reasons why there is no answer for a file.

use std::io;

use howdah_http::Status;
use howdah_sys::descriptor;

use crate::locate::PathObstacle;

/// The reason why a store has no answer from a file.
#[derive(Debug)]
pub enum NoAnswer {
    /// The answer is an error without fields of its own: 403, 404 or 405.
    Status(Status),
    /// This process, or the system, has as many files open as it may have. Nothing is wrong with
    /// the file.
    NoDescriptors,
    /// The disk has failed.
    Disk(io::Error),
    /// Another store has to look first.
    Postponed,
}

impl NoAnswer {
    /// Returns the status for the client. 503 where the disk cannot be asked: neither 404 nor 403
    /// would be true.
    pub fn status(&self) -> Status {
        match self {
            NoAnswer::Status(status) => *status,
            NoAnswer::NoDescriptors | NoAnswer::Disk(_) | NoAnswer::Postponed => {
                Status::SERVICE_UNAVAILABLE
            }
        }
    }
}

impl From<Status> for NoAnswer {
    fn from(status: Status) -> NoAnswer {
        NoAnswer::Status(status)
    }
}

impl From<PathObstacle> for NoAnswer {
    fn from(obstacle: PathObstacle) -> NoAnswer {
        match obstacle {
            PathObstacle::Missing => NoAnswer::Status(Status::NOT_FOUND),
            PathObstacle::Forbidden | PathObstacle::TooManyNames | PathObstacle::OtherSite => {
                NoAnswer::Status(Status::FORBIDDEN)
            }
            PathObstacle::Postponed => NoAnswer::Postponed,
            PathObstacle::Failed(error) if descriptor::is_exhausted(&error) => {
                NoAnswer::NoDescriptors
            }
            PathObstacle::Failed(error) => NoAnswer::Disk(error),
        }
    }
}
