//! HTTP/2: requests and responses, streams beside each other, limits, and the end of connections.

mod attacks;
pub mod client;
pub mod frames;
mod head;
mod life;
mod memory;
mod programs;
mod streams;
mod unread;
