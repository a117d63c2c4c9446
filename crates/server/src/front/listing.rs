//! Listing a folder.

use howdah_http::Status;
use howdah_site::{DocumentPath, Ruled, Site};

use super::answer::Answer;
use super::connection::Connection;
use super::rules::Arrival;
use super::trouble::Failed;
use super::workspace::Workspace;

/// What the request in `work` gets of the folder at `path`.
pub(super) fn answer(
    _connection: &Connection,
    _work: &mut Workspace,
    _site: &Site,
    _arrival: &Arrival,
    _ruled: Option<&mut Ruled>,
    _path: DocumentPath,
) -> Result<Answer, Failed> {
    Err(Failed::Status(Status::FORBIDDEN))
}
