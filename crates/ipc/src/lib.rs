//! The shared-memory protocol between the front and the workers of one pool.
//!
//! # What there is
//! One memory file per pool, the **region**, mapped by the front and by every worker of that pool,
//! and by nobody else. Its parts, in the order of [`layout`]:
//!
//! | part | words | written by |
//! |---|---|---|
//! | queue | `head`, `tail`, entries (indices of slots), limit of workers awake | `head`: workers; the rest: front |
//! | idle set | one bit per worker | worker sets its own; front, or the worker itself, clears it |
//! | worker line | `wake` (futex), `requests` | `wake`: front and zygote set, worker clears; the rest: worker |
//! | thread line | `sleeping`, ready set (one bit per slot) | front thread sets `sleeping` and clears bits; workers clear `sleeping`, set bits |
//! | slot line | `state`, `thread`, `written`, `consumed`, `ended`, `aborted`, `starved` (futex), `took`, `share` | see below |
//! | request area | one per slot | front, while the slot is free |
//! | response ring | one per slot | the worker that took the slot |
//!
//! # The life of a slot
//! `state` is one 64-bit word: generation, worker, which process in that worker's place, [`Phase`].
//! The generation grows with each use, so a late write of a former owner never matches. A queue
//! entry only says where to look: whoever takes it takes what is Queued there, or nothing;
//! [`queue`] says why no slot is in the queue twice.
//!
//! ```text
//!            submit (front)                take (worker, CAS)              finish (worker)
//!   Free ──────────────────▶ Queued ──────────────────────▶ Taken(worker) ───────────────▶ Done
//!    ▲                         │ cancel (front, CAS)            │ worker died                │
//!    └─────────────────────────┴──── front, privately ──────────┴────────────────────────────┘
//! ```
//!
//! | phase | request area | ring, `written`, `ended`, `took`, `share` | `consumed`, `aborted` | may end it |
//! |---|---|---|---|---|
//! | Free | front writes | nobody | nobody | front: submit |
//! | Queued | nobody writes | nobody | front: `aborted` | worker: take; front: cancel |
//! | Taken | worker reads | that worker writes | front writes | that worker: finish; its death |
//! | Done | nobody | nobody writes | front writes | front: release |
//!
//! # Memory order
//! - A request is published by `state` (Release) and taken by its compare-and-swap (Acquire). The
//!   queue's `tail` (Release) publishes the entry that leads there. An entry of an earlier use may
//!   still wait: the front stores `state`, fences SeqCst and looks whether it does; a worker takes
//!   the entry, fences SeqCst and looks at `state`.
//! - Ring bytes are published by `written` (Release) and given back by `consumed` (Release).
//! - `finish` stores `state` with Release after the last `written`: who sees Done sees every byte.
//! - A wake-up is never lost: the sleeper announces itself (idle bit, `sleeping`, `starved`),
//!   fences SeqCst and looks once more; the other side publishes, fences SeqCst and looks for
//!   sleepers. One of the two sees the other.
//!
//! - The limit of workers awake is advice, read and written without order. A worker beyond it
//!   announces itself, fences SeqCst and counts once more, so that never more go to rest than leave
//!   as many awake as it says; who is left empties the queue. Those may be stuck, so the front
//!   looks whether the queue moves, and wakes others if it does not.
//!
//! # If somebody dies
//! - A worker before its compare-and-swap on `state`: the slot is still Queued, but its queue entry
//!   may be gone. [`front::Front::worker_died`] enters every Queued slot anew; an entry too many
//!   finds nothing Queued.
//! - A worker that was woken and died: the same call rings another idle worker.
//! - A worker in Taken: the front learns of the death from the zygote, answers for it, and takes
//!   the slot back. By then a successor may run in the same worker's place; zygote and front each
//!   count the deaths there, and `state` bears the count.
//! - A worker before it took the body's descriptor, or the request's cancelling: the front takes it
//!   back from the slot's socket, of which it keeps both ends, before the slot is used again.
//! - A worker after Done, before its mark or its ring: the same call marks every slot that is Done
//!   and rings every thread.
//! - The front: the zygote sees its socket close and ends the workers; a new front makes a new
//!   region.
//!
//! # Trust
//! A pool's region may be written by hostile PHP at any time. The front keeps everything that it
//! decides by (which slots are out, their generation, what it consumed, the queue's tail) in its
//! own memory, copies out of the region before it checks, and answers [`Corrupt`] to what cannot
//! be. No Rust reference to ring or request bytes exists; atomics are the only words accessed in
//! place. Workers trust the front, and share their fate with the other workers of their own pool.
#![allow(unsafe_code)] // Atomics and copies at computed offsets of the mapping; all in `region`.
#![cfg_attr(loom, allow(dead_code))] // Under the model checker only the parts are built in which both sides meet.

pub mod layout;
pub mod queue;
pub mod room;
pub mod slot;
mod sync;

#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod front;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub mod properties;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod response;
#[cfg(not(loom))]
pub mod worker;

pub use layout::{Geometry, Phase};

/// A word of the region held what no honest worker writes. The pool must be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a worker wrote nonsense into the shared memory of its pool: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}
