//! The lists of a pool's scripts that the supervisor keeps: opcache's memory ends with a zygote,
//! and the zygote that takes its place compiles the scripts of the list.
//!
//! The zygote writes a list into a file of shared memory. The supervisor hands the file on and does
//! not read it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_ipc::control::ToZygote;
use howdah_sys::memory::sealed_file;

use super::super::Supervisor;
use super::{PoolProcesses, ZygoteProcess};

/// Time from the moment at which a pool serves until its first list. Each further list comes after
/// twice the time, and at least every [`LONGEST`]: a list costs the zygote some milliseconds.
const FIRST: Duration = Duration::from_secs(1);
/// See [`FIRST`].
const LONGEST: Duration = Duration::from_secs(600);
/// Bytes of a list. Longer ones are cut off.
const MOST_BYTES: usize = 1 << 20;

/// The lists of a pool's scripts.
#[derive(Debug, Default)]
pub(super) struct HotList {
    /// The list that the zygote was asked for last, which may not be complete yet, and the one
    /// before.
    lists: [Option<OwnedFd>; 2],
    /// Time at which the zygote is asked for the next list; `None` before the pool serves.
    due: Option<Instant>,
    /// Time between the last two lists.
    wait: Duration,
}

impl HotList {
    /// The lists of a pool whose zygotes have served in another generation.
    pub(super) fn of(lists: [Option<OwnedFd>; 2]) -> HotList {
        HotList { lists, ..HotList::default() }
    }

    /// Takes the lists, for another generation.
    pub(super) fn take(&mut self) -> [Option<OwnedFd>; 2] {
        std::mem::take(&mut self.lists)
    }

    /// Copies the lists, for another generation that starts while this one serves.
    pub(super) fn copy(&self) -> [Option<OwnedFd>; 2] {
        self.lists.each_ref().map(|list| list.as_ref()?.try_clone().ok())
    }

    /// Asks `zygote` for a list, and notes when the next one is due.
    fn ask(&mut self, zygote: &ZygoteProcess, now: Instant) -> io::Result<()> {
        self.wait = (self.wait * 2).clamp(FIRST, LONGEST);
        self.due = Some(now + self.wait);
        let file = sealed_file(c"howdah-scripts", MOST_BYTES)?;
        let socket = zygote.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.send_now(&ToZygote::ListScripts.encode(), &[file.as_fd()])?;
        self.lists.swap(0, 1);
        self.lists[0] = Some(file);
        Ok(())
    }

    /// Makes `zygote`, whose opcache is empty, compile the scripts of the lists beside its first
    /// requests. A zygote that cannot be told leaves that to the requests.
    pub(super) fn hand_over(&self, zygote: &ZygoteProcess) {
        let lists: Vec<BorrowedFd<'_>> = self.lists.iter().flatten().map(AsFd::as_fd).collect();
        if let Some(socket) = zygote.socket.as_ref().filter(|_| !lists.is_empty()) {
            let _ = socket.send_now(&ToZygote::CompileScripts.encode(), &lists);
        }
    }
}

impl PoolProcesses {
    /// Lets the supervisor keep lists of the pool's scripts. Call it when the pool serves.
    pub(in crate::supervisor) fn want_lists(&mut self, now: Instant) {
        if self.plan.as_ref().is_some_and(|plan| plan.warms_opcache) {
            self.hot_list.due = Some(now + FIRST);
        }
    }

    /// The time at which the pool's zygote is to be asked for the next list; `None` while there is
    /// none in which PHP has started.
    pub(in crate::supervisor) fn list_due(&self) -> Option<Instant> {
        let is_ready = self.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some());
        self.hot_list.due.filter(|_| is_ready)
    }

    fn ask_for_list(&mut self, now: Instant) {
        if self.list_due().is_some_and(|due| now >= due)
            && let Some(zygote) = &self.zygote
        {
            // Without a list the next zygote begins with an empty opcache.
            let _ = self.hot_list.ask(zygote, now);
        }
    }
}

impl Supervisor {
    /// Asks the pools of a generation for the lists that are due.
    pub(in crate::supervisor) fn ask_for_lists(&mut self, number: u64, now: Instant) {
        let generation = self.generation(number);
        let pools = generation.into_iter().flat_map(|generation| &mut generation.pools);
        pools.for_each(|pool| pool.ask_for_list(now));
    }
}
