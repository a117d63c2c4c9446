//! The content of requests and responses. A request's content is received into memory or a file
//! before any worker sees it; a response's content goes from its source to the client.
//!
//! ```text
//! BodySource (memory, file, script, upstream) ── filters ── spool ── Sink (a protocol's connection or stream)
//! ```
//! [`send`] is the only loop that moves a response's content, and [`carry`] the only one that moves
//! the bytes of a tunnel.

mod constancy;
mod file_residence;
mod filter_room;
mod filtering;
mod filters;
mod pump;
mod ranged;
mod receive;
mod sent_files;
mod settle;
mod source;
mod spool;
mod storage;
mod trailers;
mod tunnel;
mod unchunked;

pub(crate) use self::filter_room::FilterRoom;
pub(crate) use self::filtering::FilterPlace;
pub(crate) use self::filters::{coding, compressor};
pub(crate) use self::pump::{PumpError, Sink, send};
pub(crate) use self::ranged::{Ranged, Segment};
pub(crate) use self::receive::{
    BodyError, ContentUse, NoContent, ReceivedContent, RequestStream, receive, unless,
};
pub(crate) use self::sent_files::{SentFile, SentFiles};
pub(crate) use self::settle::{read, settle};
pub(crate) use self::source::{AvailableContent, BodySource, PAUSE, ResponseBody, SourceError};
pub(crate) use self::spool::SpoolLimits;
pub(crate) use self::storage::{ReadBack, Storage, StorageCall, StorageLimits, StorageRefusal};
pub(crate) use self::trailers::Trailers;
pub(crate) use self::tunnel::{CarriedTunnel, Duplex, Tunnel, TunnelEnd, carry};
pub(crate) use self::unchunked::{MalformedChunks, Unchunked};
