//! The shared-memory protocol between the front and the workers of one pool.
//!
//! # The region
//! Every pool has one memory file, the **region**. The front and the workers of that pool map it;
//! no other process does. Its parts, in the order of [`layout`]:
//!
//! | part | words | written by |
//! |---|---|---|
//! | queue | `head`, `tail`, entries (indices of slots), limit of workers awake, number of workers
//! present | `head`: workers; the rest: front |
//! | caches | time of the last measurement of PHP's caches, [`figures::CacheNumbers`] | workers |
//! | idle set | one bit per worker | worker sets its own; front, or the worker itself, clears it |
//! | worker line | `wake` (futex), [`figures::WorkerFigures`] | `wake`: front and zygote set,
//! worker clears; the rest: worker |
//! | thread line | `sleeping`, ready set (one bit per slot) | front thread sets `sleeping` and
//! clears bits; workers clear `sleeping`, set bits |
//! | slot line | `state`, `thread`, `written`, `consumed`, `ended`, `aborted`, `starved` (futex),
//! `queued`, `began`, `took`, `share`, `peak`, `processor`, `grant`, `asked`, `printed`, `shown` |
//! see below |
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
//! | phase | request area, `queued`, `answered` | ring, `written`, `ended`, `began`, `took`,
//! `share`, `peak`, `processor`, `grant`, `printed`, `shown` | `consumed`, `aborted` | may end it |
//! |---|---|---|---|---|
//! | Free | front writes | nobody | nobody | front: submit |
//! | Queued | nobody writes | nobody | front: `aborted` | worker: take; front: cancel |
//! | Taken | worker reads; then both, in turns: see questions | that worker writes | front writes |
//! that worker: finish; its death |
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
//! - A question of the worker goes through the request area, which the worker has copied out, and
//!   is published by `asked` (Release). From then on the area is the front's, until `answered`
//!   (Release) has the same number. The worker sleeps on `answered`, whose value the kernel checks.
//! - A wake-up is never lost. The sleeper announces itself (idle bit, `sleeping`, `starved`),
//!   executes a SeqCst fence and checks once more. The other side publishes, executes a SeqCst
//!   fence and looks for sleepers. At least one of the two sees the other.
//! - The limit of awake workers is advice, read and written without ordering, and so is the number
//!   of workers present. A worker beyond the limit announces itself, executes a SeqCst fence and
//!   counts again, therefore the number of awake workers never drops below the limit. The awake
//!   workers empty the queue. They may be stuck; the front checks that the queue moves, and wakes
//!   other workers if it does not.
//!
//! # When a process dies
//! - A worker dies before its compare-and-swap on `state`: the slot is still Queued, but its queue
//!   entry may be gone. [`front::FrontRegion::worker_died`] enters every Queued slot again. A
//!   superfluous entry finds no Queued slot.
//! - A worker dies after it was woken: the same call wakes another idle worker.
//! - A worker is to end although nothing is wrong: [`front::FrontRegion::retire`] takes it out of
//!   the idle set first, unless requests wait. No request wakes it afterwards.
//! - A worker dies in Taken: the front learns of the death from the zygote, answers the client, and
//!   takes the slot back. A successor may already run at the same index. The zygote and the front
//!   each count the deaths there, and `state` contains the count.
//! - A worker dies before it took the body's descriptor, or the request is cancelled: the zygote
//!   closes the descriptor before the slot is used again ([`control::SlotCleaning`]).
//! - A worker dies after Done, before it marks the slot or rings the doorbell: the same call marks
//!   every slot that is Done. The front then wakes its threads by its own means.
//! - The front dies: the zygote sees that the front's socket is closed, and ends the workers. A new
//!   front creates a new region.
//!
//! # Trust
//! Hostile PHP may write to its pool's region at any time. The front keeps every value that its
//! decisions depend on in its own memory: which slots are in use, their generation, the bytes
//! consumed, the queue's tail. It copies bytes out of the region before it checks them, and reports
//! an impossible value as [`Corrupt`]. No Rust reference to ring or request bytes exists; only
//! atomics are accessed in place. A worker trusts the front and the other workers of its own pool.
//!
//! # Descriptors: nothing that a pool holds can stop the front
//! The flags and the offset of an open file belong to all processes that hold a descriptor of it.
//! A process of the pool can make such a file blocking, fill it, or hold a lock of the kernel on it
//! for as long as it likes, for example with a system call whose memory is on a file system of its
//! own. `O_NONBLOCK` and `MSG_DONTWAIT` do not help against such a lock. Therefore the front makes
//! no call on an open file that a pool holds, except those of this table. Processes of a pool can
//! take each other's descriptors (`pidfd_getfd(2)`); "pool" means any of them.
//!
//! | descriptor | held by | calls of the front | why the front does not wait |
//! |---|---|---|---|
//! | region (memory file) | both sides map it, nobody keeps the descriptor | loads, stores, copies,
//! `FUTEX_WAKE` | sealed, therefore no access fails; a page that the pool has released is read as
//! zeros, after the release has ended; the front never sleeps on a word |
//! | doorbell (eventfd), one per front thread | front and pool share the open file | `epoll_wait`
//! only | the front neither reads nor writes it; it wakes its own threads with memory of its own |
//! | body socket of a slot | one end each | `sendmsg(MSG_DONTWAIT)` | the two ends are two open
//! files with locks of their own; a full queue is an error, and the pool is given up; the front's
//! end refuses messages, therefore closing it closes nothing else |
//! | file of a request's body | front and pool share a second open file, for reading only | `close`
//! | the front writes through its own open file, and neither reads nor writes after the request was
//! handed over; the file is deleted |
//! | control socket of a zygote | one end each | `sendmsg(MSG_DONTWAIT)`; `recv` in a thread of the
//! pool's own, which also closes the last descriptor | a message may carry descriptors whose
//! closing waits; only that thread waits |
//! | zygote's socket to the supervisor | one end each | – | the supervisor looks at one message and
//! takes none out of the socket; a process for that alone closes the last descriptor |
//! | standard error of the pool (pipe) | pool writes, supervisor reads | – | the supervisor reads
//! with `RWF_NOWAIT`; before Linux 6.4 a writer can stop the supervisor, not the front |
//! | listening sockets, client connections, inotify, logs | front, supervisor | all | no process of
//! a pool inherits them, because a program gets exactly the descriptors of a list |
//! | files below a document root | the pool may hold other open files of them | `open(O_NONBLOCK)`,
//! `read`, `sendfile` | a lease (`F_SETLEASE`) or a pipe makes `open` fail instead of waiting: 503,
//! and 403 for what a `.htaccess` file covers |
//!
//! `F_SETOWN` and `O_ASYNC` on a shared doorbell send signals to the front only if the pool has the
//! front's user. Memory is released ([`worker::Attachment::clean`]) and sockets are emptied by the
//! zygote, because both may wait for a process that holds a lock.
//!
//! # Child processes of a worker
//! The region is not mapped in processes that a script forks, whatever call creates them
//! (`MADV_DONTFORK`). Such a process can neither answer a request nor take one.
#![allow(unsafe_code)]
// Atomics and copies at computed offsets of the mapping; all in `region`.
// Under the model checker only the parts are built in which both sides meet.
#![cfg_attr(loom, allow(dead_code))]

pub mod doorbell;
pub mod flow_control;
pub mod idle_set;
pub mod layout;
pub mod queue;
pub mod slot;
mod sync;
pub mod time_grant;

#[cfg(not(loom))]
pub mod control;
#[cfg(not(loom))]
pub mod figures;
#[cfg(not(loom))]
pub mod front;
#[cfg(not(loom))]
pub mod kept_outputs;
#[cfg(not(loom))]
pub mod packet;
#[cfg(not(loom))]
pub mod pool_state;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub mod properties;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod response;
#[cfg(not(loom))]
pub mod sub_request;
#[cfg(not(loom))]
pub mod worker;
#[cfg(not(loom))]
pub mod worker_set;

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
