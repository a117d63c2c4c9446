//! The shared-memory protocol between the front and the workers of one pool.
//!
//! # The region
//! Every pool has one memory file, the **region**. The front and the workers of that pool map it;
//! no other process does. Its parts, in the order of [`layout`]:
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
//! # The phases of a slot
//! `state` is one 64-bit word: the generation, the worker, the worker's incarnation (which process
//! in that worker's place), and the [`SlotPhase`]. The generation grows with
//! each use of the slot, therefore a late write of an earlier user never matches. A queue entry
//! only says where to look: a worker that takes an entry takes the request if the slot is Queued,
//! and otherwise nothing. [`queue`] explains why no slot is in the queue twice.
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
//! - A request is published by `state` (Release) and taken by a compare-and-swap of `state`
//!   (Acquire). The queue's `tail` (Release) publishes the entry that leads to the slot. An entry
//!   of an earlier use may still be in the queue. Therefore the front stores `state`, executes a
//!   SeqCst fence and checks whether such an entry is there; a worker takes the entry, executes a
//!   SeqCst fence and reads `state`.
//! - Ring bytes are published by `written` (Release) and given back by `consumed` (Release).
//! - `finish` stores `state` with Release after the last `written`. A reader that sees Done sees
//!   every byte.
//! - A wake-up is never lost. The sleeper announces itself (idle bit, `sleeping`, `starved`),
//!   executes a SeqCst fence and checks once more. The other side publishes, executes a SeqCst
//!   fence and looks for sleepers. At least one of the two sees the other.
//! - The limit of awake workers is advice, read and written without ordering. A worker beyond the
//!   limit announces itself, executes a SeqCst fence and counts again, therefore the number of
//!   awake workers never drops below the limit. The awake workers empty the queue. They may be
//!   stuck; the front checks that the queue moves, and wakes other workers if it does not.
//!
//! # When a process dies
//! - A worker dies before its compare-and-swap on `state`: the slot is still Queued, but its queue
//!   entry may be gone. [`front::Front::worker_died`] enters every Queued slot again. A superfluous
//!   entry finds no Queued slot.
//! - A worker dies after it was woken: the same call wakes another idle worker.
//! - A worker dies in Taken: the front learns of the death from the zygote, answers the client, and
//!   takes the slot back. A successor may already run at the same index. The zygote and the front
//!   each count the deaths there, and `state` contains the count.
//! - A worker dies before it took the body's descriptor, or the request is cancelled: the front
//!   keeps both ends of the slot's socket, and takes the descriptor back before the slot is used
//!   again.
//! - A worker dies after Done, before it marks the slot or rings the doorbell: the same call marks
//!   every slot that is Done and rings every thread's doorbell.
//! - The front dies: the zygote sees that the front's socket is closed, and ends the workers. A new
//!   front creates a new region.
//!
//! # Trust
//! Hostile PHP may write to its pool's region at any time. The front keeps every value that its
//! decisions depend on in its own memory: which slots are in use, their generation, the bytes
//! consumed, the queue's tail. It copies bytes out of the region before it checks them, and reports
//! an impossible value as [`Corrupt`]. No Rust reference to ring or request bytes exists; only
//! atomics are accessed in place. A worker trusts the front and the other workers of its own pool.
#![allow(unsafe_code)] // Atomics and copies at computed offsets of the mapping; all in `region`.
#![cfg_attr(loom, allow(dead_code))] // Under the model checker only the parts are built in which both sides meet.

pub mod flow_control;
pub mod layout;
pub mod queue;
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

pub use layout::{Geometry, SlotPhase};

/// A word of the region had a value that no correct worker writes. The pool must be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a worker wrote nonsense into the shared memory of its pool: {}", self.0)
    }
}

impl std::error::Error for Corrupt {}
