//! Lets a stopped zygote go on: scripts have its user, and may send it SIGSTOP.
//!
//! A stopped zygote replaces no worker that has ended, and hears no order. Its workers serve as
//! before, therefore it is not replaced. A stop wakes nobody: the supervisor asks the kernel in
//! each of its rounds, of which there is at least one in a second.

use std::time::{Duration, Instant};

use howdah_sys::process::{self, Pid};
use howdah_sys::signal::SIGCONT;

use super::super::Supervisor;
use super::{PoolProcesses, ZygoteProcess};
use crate::log::Level;

/// The time that a zygote stays stopped after that was seen. A script that stops it again and again
/// costs the supervisor no more than one signal in this time.
const PATIENCE: Duration = Duration::from_secs(1);

impl PoolProcesses {
    /// The pool's zygotes: the one that is in use, and the one that stands by.
    fn zygotes_mut(&mut self) -> impl Iterator<Item = &mut ZygoteProcess> {
        self.zygote.iter_mut().chain(self.standby.zygote_mut())
    }

    /// The time at which a stopped zygote is to go on. `None`: none is stopped.
    pub(in crate::supervisor) fn continue_due(&self) -> Option<Instant> {
        let zygotes = self.zygote.iter().chain(self.standby.zygote());
        zygotes.filter_map(|zygote| zygote.continue_at).min()
    }

    /// Continues the zygotes whose time has come. Returns those that were still stopped.
    fn continue_stopped(&mut self, now: Instant) -> Vec<Pid> {
        let mut continued = Vec::new();
        for zygote in self.zygotes_mut() {
            if zygote.continue_at.take_if(|due| now >= *due).is_none() {
                continue;
            }
            let state = process::thread_state(zygote.pid, zygote.pid.number().into());
            // It was not reaped yet, therefore no other process has its id.
            if state.is_some_and(|(state, _)| state == 'T') && zygote.pid.signal(SIGCONT).is_ok() {
                continued.push(zygote.pid);
            }
        }
        continued
    }
}

impl Supervisor {
    /// Notes that a child was stopped. A front that is stopped is found by its heartbeat.
    pub(in crate::supervisor) fn note_stop(&mut self, pid: Pid) {
        let pools = self.generations.iter_mut().flat_map(|generation| &mut generation.pools);
        let mut zygotes = pools.flat_map(PoolProcesses::zygotes_mut);
        if let Some(zygote) = zygotes.find(|zygote| zygote.pid == pid) {
            zygote.continue_at.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
    }

    /// Continues the stopped zygotes of a generation whose time has come.
    pub(in crate::supervisor) fn continue_zygotes(&mut self, position: usize, now: Instant) {
        let mut continued = Vec::new();
        for pool in &mut self.generations[position].pools {
            for pid in pool.continue_stopped(now) {
                continued.push((pool.name.clone(), pid));
            }
        }
        for (name, pid) in continued {
            let what = format!(
                "its zygote {pid} was stopped by a signal, and goes on; scripts of the site can \
                 send it one"
            );
            self.say_of(Level::Warning, &name, &what);
        }
    }
}
