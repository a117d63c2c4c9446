//! Replaces a front that has stopped, loops or is blocked, even if only one of its threads is.
//!
//! Each thread of the front ticks twice a second. The supervisor counts its own looks at these
//! ticks, not seconds: after a suspended or frozen machine goes on, all processes have missed the
//! same time. A look that comes late does not count. A thread that is silent is judged by what the
//! kernel says of it, so that a busy machine, a slow disk or a debugger costs no connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_sys::process::{self, Pid};

use super::Supervisor;
use super::generation::GenerationPhase;
use crate::front::pulse::{Heartbeat, Pulse, ThreadPhase};
use crate::log::Level;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks without a tick after which a thread is judged.
const MOST_SILENT: u32 = 5;
/// Processor time without a tick after which a thread is thought to loop. On a busy machine that
/// takes longer than [`MOST_SILENT`] looks.
const LOOPING: Duration = Duration::from_millis(2500);

/// The heartbeats of one front, as the supervisor sees them.
#[derive(Debug)]
pub(super) struct HeartMonitor {
    pulse: Arc<Pulse>,
    threads: Vec<ThreadWatch>,
    due: Instant,
    /// A thread was found to hang.
    has_stopped: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct ThreadWatch {
    ticks: u64,
    /// Looks since the last tick.
    silent: u32,
    /// Processor time at the first look without a tick.
    time: Duration,
    /// A message about this silence was logged.
    is_told: bool,
}

/// The judgement of a silent thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadSilence {
    /// SIGSTOP, or another stopping signal.
    Stopped,
    /// The thread uses the processor all the time.
    Loops,
    /// The thread waits in a system call that does not return.
    Blocked,
    /// The thread waits for a disk; the kernel does not even end such a process.
    Disk,
    /// A debugger holds it.
    Debugged,
    /// The thread wants to run, but others have the processors.
    Starved,
}

/// The consequence of a look at a front.
#[derive(Debug, PartialEq, Eq)]
enum HeartVerdict {
    /// The front must be replaced.
    Hangs(String),
    /// Something is wrong, and a new front would not help.
    Waits(String),
}

impl HeartMonitor {
    pub(super) fn new(pulse: Arc<Pulse>) -> HeartMonitor {
        HeartMonitor {
            threads: vec![ThreadWatch::default(); pulse.heartbeats().count()],
            pulse,
            due: Instant::now() + LOOK,
            has_stopped: false,
        }
    }

    /// The time of the next look.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Returns whether a thread was found to hang, so that the front was killed.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Looks at all threads of the front `pid`, if it is time.
    fn look(&mut self, pid: Pid, now: Instant) -> Vec<HeartVerdict> {
        if now < self.due {
            return Vec::new();
        }
        let is_late = now >= self.due + LOOK;
        self.due = now + LOOK;
        if is_late {
            return Vec::new();
        }
        let state = |task| process::thread_state(pid, task);
        let all = self.threads.iter_mut().zip(self.pulse.heartbeats()).enumerate();
        let verdicts: Vec<HeartVerdict> = all
            .filter_map(|(number, (watch, heartbeat))| watch.look(number, heartbeat, state))
            .collect();
        self.has_stopped |=
            verdicts.iter().any(|verdict| matches!(verdict, HeartVerdict::Hangs(_)));
        verdicts
    }
}

impl ThreadWatch {
    fn look(
        &mut self,
        number: usize,
        heartbeat: Heartbeat,
        state: impl Fn(u64) -> Option<(char, Duration)>,
    ) -> Option<HeartVerdict> {
        let Heartbeat { task, ticks, phase } = heartbeat;
        if phase == ThreadPhase::Off || ticks != self.ticks {
            *self = ThreadWatch { ticks, ..ThreadWatch::default() };
            return None;
        }
        self.silent += 1;
        if self.silent == 1 {
            self.time = state(task).map_or(Duration::ZERO, |(_, time)| time);
        }
        if self.silent < MOST_SILENT {
            return None;
        }
        let (state, time) = state(task)?;
        let silence = ThreadSilence::judge(state, time.saturating_sub(self.time));
        let doing = match phase {
            ThreadPhase::Waiting => "waited for events",
            _ => "handled events",
        };
        let seconds = u64::from(self.silent) * LOOK.as_secs();
        let text = format!(
            "its thread {number} (task {task}), which {doing}, has not answered for \
             {seconds} s: {}",
            silence.explanation()
        );
        if silence.is_final() {
            return Some(HeartVerdict::Hangs(text));
        }
        let is_news =
            silence != ThreadSilence::Starved && !std::mem::replace(&mut self.is_told, true);
        is_news.then_some(HeartVerdict::Waits(text))
    }
}

impl ThreadSilence {
    /// Judges a thread by its state, as in proc_pid_stat(5), and the processor time that it has
    /// used since its last tick.
    fn judge(state: char, time: Duration) -> ThreadSilence {
        match state {
            'T' => ThreadSilence::Stopped,
            't' => ThreadSilence::Debugged,
            'D' => ThreadSilence::Disk,
            _ if time >= LOOPING => ThreadSilence::Loops,
            'R' => ThreadSilence::Starved,
            _ => ThreadSilence::Blocked,
        }
    }

    /// Returns whether only a new front helps.
    fn is_final(self) -> bool {
        matches!(self, ThreadSilence::Stopped | ThreadSilence::Loops | ThreadSilence::Blocked)
    }

    fn explanation(self) -> &'static str {
        match self {
            ThreadSilence::Stopped => {
                "a signal has stopped it; only root and the front's own user can send it one"
            }
            ThreadSilence::Loops => {
                "it uses a processor without end; report this with the last lines of the access log"
            }
            ThreadSilence::Blocked => {
                "a system call does not return; look at the file systems that the sites are on, or \
                 report this"
            }
            ThreadSilence::Disk => {
                "it waits for a disk or a network file system; requests to this thread wait with \
                 it, and a new front would not help"
            }
            ThreadSilence::Debugged => "a debugger holds it; the front is not replaced meanwhile",
            ThreadSilence::Starved => "other processes have the processors",
        }
    }
}

impl Supervisor {
    /// Looks at the heartbeats of the front that serves, and kills a front that hangs. Its death is
    /// then handled as any other.
    pub(super) fn look_at_heart(&mut self, number: u64, now: Instant) {
        let Some(front) = self
            .generation(number)
            .filter(|generation| generation.phase == GenerationPhase::Serving)
            .and_then(|generation| generation.front.as_mut())
        else {
            return;
        };
        let pid = front.pid;
        let verdicts = front.heart.as_mut().map(|heart| heart.look(pid, now)).unwrap_or_default();
        let hangs = verdicts.iter().any(|verdict| matches!(verdict, HeartVerdict::Hangs(_)));
        if hangs {
            front.kill();
        }
        for verdict in verdicts {
            match verdict {
                HeartVerdict::Hangs(what) => {
                    self.say(Level::Error, &format!("the front {pid} is killed: {what}"))
                }
                HeartVerdict::Waits(what) => {
                    self.say(Level::Warning, &format!("the front {pid}: {what}"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The verdict after each of `looks` looks at a thread that does not tick.
    fn silent(looks: u32, state: impl Fn(u32) -> (char, Duration)) -> Vec<Option<HeartVerdict>> {
        let mut watch = ThreadWatch::default();
        let heartbeat = Heartbeat {
            task: 7,
            ticks: 0,
            phase: ThreadPhase::Working,
        };
        (0..looks).map(|look| watch.look(1, heartbeat, |_| Some(state(look)))).collect()
    }

    fn hangs(verdict: &Option<HeartVerdict>) -> bool {
        matches!(verdict, Some(HeartVerdict::Hangs(_)))
    }

    #[test]
    fn what_the_kernel_says_decides() {
        for (state, time, expected) in [
            ('T', 0, ThreadSilence::Stopped),
            ('S', 0, ThreadSilence::Blocked),
            ('R', 4, ThreadSilence::Loops),
            ('S', 4, ThreadSilence::Loops),
            ('R', 1, ThreadSilence::Starved),
            ('D', 4, ThreadSilence::Disk),
            ('t', 0, ThreadSilence::Debugged),
        ] {
            assert_eq!(ThreadSilence::judge(state, seconds(time)), expected, "{state} {time}");
        }
    }

    #[test]
    fn a_stopped_thread_is_found_after_five_looks() {
        let verdicts = silent(5, |_| ('T', seconds(9)));
        assert!(verdicts[..4].iter().all(Option::is_none), "{verdicts:?}");
        assert!(hangs(&verdicts[4]), "{verdicts:?}");
    }

    #[test]
    fn a_loop_on_a_busy_machine_takes_longer() {
        // A tenth of a processor.
        let verdicts = silent(30, |look| ('R', Duration::from_millis(100 * u64::from(look))));
        assert_eq!(verdicts.iter().position(hangs), Some(25), "{verdicts:?}");
    }

    #[test]
    fn a_thread_that_gets_no_processor_or_disk_is_left_alone() {
        assert!(silent(100, |_| ('R', seconds(3))).iter().all(Option::is_none));
        let verdicts = silent(100, |_| ('D', seconds(3)));
        assert!(!verdicts.iter().any(hangs));
        assert_eq!(verdicts.iter().flatten().count(), 1, "it is told once");
    }

    #[test]
    fn a_tick_and_an_ended_thread_count_from_the_start() {
        let mut watch = ThreadWatch::default();
        let mut look = |ticks, phase| {
            let heartbeat = Heartbeat { task: 7, ticks, phase };
            watch.look(0, heartbeat, |_| Some(('S', Duration::ZERO)))
        };
        for ticks in 0..10 {
            for _ in 0..4 {
                assert_eq!(look(ticks, ThreadPhase::Waiting), None);
            }
        }
        for _ in 0..10 {
            assert_eq!(look(9, ThreadPhase::Off), None);
        }
    }

    #[test]
    fn a_late_look_does_not_count() {
        let mut heart = HeartMonitor::new(Arc::new(Pulse::new(1).unwrap()));
        let start = heart.due;
        heart.look(process::own_pid(), start + seconds(60));
        assert_eq!(heart.due, start + seconds(61));
    }
}
