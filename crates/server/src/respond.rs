//! The ways to answer a request: each makes a [`Response`](crate::pipeline::Response) and knows no
//! protocol.

mod call;
pub(crate) mod file;
pub(crate) mod listing;
mod page;
mod recent;
pub(crate) mod script;
pub(crate) mod upstream;
pub(crate) mod wardrobe;

pub(crate) use self::call::Calls;
pub(crate) use self::upstream::UpstreamError;
pub(crate) use self::wardrobe::Wardrobe;
