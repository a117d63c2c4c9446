//! The front's side of the PHP pools: waiting for a slot, handing a request over, following its
//! response.
//!
//! A [`Pool`] is shared by all threads of the front and outlives its zygotes: a pool whose zygote
//! died waits for the next one. Each front thread has a [`PoolHandle`] per pool, with a table of
//! the exchanges that wait for news of their slots. An [`ScriptExchange`] is one request on its way
//! through a worker; dropping it at any time is safe.
#![forbid(unsafe_code)]

mod awake;
mod control;
pub mod counters;
mod deadlines;
mod exchange;
mod handle;
mod lanes;
mod memory;
mod pool;
mod roster;
mod scaling;
mod stranded;
mod waiters;
mod zygote;

pub use exchange::{
    AnswerFuture, AskingConnection, ExchangeError, QuestionHandler, ResponseProgress, RunReport,
    ScriptExchange, ScriptRun, decode_head,
};
pub use handle::{PoolHandle, RequestBody};
pub use howdah_ipc::figures::{CacheNumber, CacheNumbers, RequestFigures, WorkerFigures};
pub use howdah_ipc::pool_state::{FULL_PIECE, PoolStatePiece, PoolStateQuestion};
pub use howdah_ipc::request::{EntryBlock, RequestEncoder};
pub use howdah_ipc::response::{DecodedHead, HeadKind};
pub use howdah_ipc::sub_request::{SubRequestQuestion, SubRequestResult};
pub use lanes::{LaneFigures, LaneLimits, QueuePlace};
pub use memory::{LimitProbe, MeasuredMemory, MemoryFigures, MemoryRecord, MemorySum, MemoryWatch};
pub use pool::{
    DispatchError, LivingWorker, Pool, PoolEvent, PoolFigures, PoolLimits, ZygoteFacts,
};
pub use scaling::Scaling;
pub use zygote::LostWorker;

/// Sends the soft time-out: PHP ends the script as if `max_execution_time` were over, and shutdown
/// functions run.
const SOFT_TIMEOUT_SIGNAL: u64 = 10; // SIGUSR1
/// Ends a worker at once.
const KILL_SIGNAL: u64 = 9; // SIGKILL
