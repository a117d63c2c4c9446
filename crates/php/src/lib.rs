//! The front's side of the PHP pools: waiting for a slot, handing a request over, following its
//! response.
//!
//! A [`Pool`] is shared by all threads of the front and outlives its zygotes: each zygote comes
//! with a [`Link`] of its own (shared memory, control socket), and a pool whose zygote died waits
//! for the next link. Each front thread has a [`Desk`] per pool, at which its connections wait for
//! news of their slots. An [`Exchange`] is one request on its way through a worker; dropping it at
//! any time is safe.
#![forbid(unsafe_code)]

mod desk;
mod exchange;
mod link;
mod pool;

pub use desk::{Body, Desk};
pub use exchange::{Exchange, Failure, News, decode_head};
pub use howdah_ipc::request::{Block, Encoder};
pub use howdah_ipc::response::{Head, Kind};
pub use pool::{Pool, PoolEvent, PoolLimits, Refused, WorkerFacts};

/// Sends the soft time-out: PHP ends the script as if `max_execution_time` were over, shutdown
/// functions run.
const SOFT_TIMEOUT_SIGNAL: u64 = 10; // SIGUSR1
/// Ends a worker at once.
const KILL_SIGNAL: u64 = 9; // SIGKILL
