//! The heartbeat of the front's threads, which the supervisor reads.
//!
//! The numbers are in memory that both processes share. Each thread writes its own and never waits.
//! Only the threads with an event loop have a heartbeat: the threads that write logs and compare
//! passwords may be busy for long, and no request of another visitor waits for them.

use std::io;

use howdah_sys::memory::SharedNumbers;
use howdah_sys::process;

/// Numbers of one thread: a cache line, so that no thread slows another down.
const NUMBERS: usize = 8;
const TASK: usize = 0;
const TICKS: usize = 1;
const PHASE: usize = 2;

/// The heartbeats of a front.
#[derive(Debug)]
pub(crate) struct Pulse {
    numbers: SharedNumbers,
    threads: usize,
}

/// The phase of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadPhase {
    /// Before the event loop, or after.
    Off,
    /// The thread waits for events.
    Waiting,
    /// The thread handles events.
    Working,
}

/// A thread as its heartbeat shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    /// The kernel's number of the thread.
    pub(crate) task: u64,
    pub(crate) ticks: u64,
    pub(crate) phase: ThreadPhase,
}

impl Pulse {
    /// Creates the heartbeats of `threads` threads.
    ///
    /// # Errors
    /// The error of a system call.
    pub(crate) fn new(threads: usize) -> io::Result<Pulse> {
        let numbers = SharedNumbers::new(threads * NUMBERS)?;
        Ok(Pulse { numbers, threads })
    }

    /// The heartbeats of all threads.
    pub(crate) fn heartbeats(&self) -> impl Iterator<Item = Heartbeat> {
        (0..self.threads).map(|thread| {
            let number = |which| self.numbers.load(thread * NUMBERS + which);
            Heartbeat {
                task: number(TASK),
                ticks: number(TICKS),
                phase: ThreadPhase::from_number(number(PHASE)),
            }
        })
    }

    /// Tells that this is `thread`.
    pub(super) fn begin(&self, thread: usize) {
        self.numbers.store(thread * NUMBERS + TASK, process::thread_id());
        self.enter(thread, ThreadPhase::Working);
    }

    /// Tells that the event loop of `thread` goes on.
    pub(super) fn tick(&self, thread: usize) {
        let index = thread * NUMBERS + TICKS;
        self.numbers.store(index, self.numbers.load(index).wrapping_add(1));
    }

    /// Tells the phase of `thread`.
    pub(super) fn enter(&self, thread: usize, phase: ThreadPhase) {
        self.numbers.store(thread * NUMBERS + PHASE, phase as u64);
    }
}

impl ThreadPhase {
    fn from_number(number: u64) -> ThreadPhase {
        match number {
            1 => ThreadPhase::Waiting,
            2 => ThreadPhase::Working,
            _ => ThreadPhase::Off,
        }
    }
}

/// In debug builds, hangs this thread if the file that `HOWDAH_TEST_HANG` names exists: for ever
/// busy if it contains `loop`, else asleep. Removes the file. This is for the tests of the
/// supervisor, because no thread can be stopped alone from outside.
#[cfg(debug_assertions)]
pub(super) fn hang_if_told() {
    let Some(file) = std::env::var_os("HOWDAH_TEST_HANG") else {
        return;
    };
    let Ok(how) = std::fs::read_to_string(&file) else {
        return;
    };
    if std::fs::remove_file(file).is_ok() {
        loop {
            match how.trim() {
                "loop" => std::hint::spin_loop(),
                _ => std::thread::park(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let pulse = Pulse::new(2).unwrap();
        pulse.begin(1);
        pulse.tick(1);
        pulse.enter(1, ThreadPhase::Waiting);
        pulse.tick(7);
        let found: Vec<Heartbeat> = pulse.heartbeats().collect();
        let off = Heartbeat {
            task: 0,
            ticks: 0,
            phase: ThreadPhase::Off,
        };
        let task = process::thread_id();
        let waiting = Heartbeat {
            task,
            ticks: 1,
            phase: ThreadPhase::Waiting,
        };
        assert_eq!(found, [off, waiting]);
    }
}
