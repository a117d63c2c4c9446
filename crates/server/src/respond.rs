//! The ways to answer a request. Each makes a [`Response`](crate::pipeline::Response) and knows no
//! protocol.

mod call;
pub(crate) mod challenge;
pub(crate) mod codings;
pub(crate) mod file;
pub(crate) mod listing;
mod not_modified;
mod page;
pub(crate) mod pool_status;
mod prepared;
pub(crate) mod script;
pub(crate) mod script_ranges;
mod sendfile;
pub(crate) mod sent_file;
pub(crate) mod upstream;

pub(crate) use self::file::set_content_type;
pub(crate) use self::prepared::PreparedResponse;
pub(crate) use self::upstream::{KeptConnections, UpstreamError, UpstreamNames};
