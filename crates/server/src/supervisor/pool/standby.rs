//! The second zygote of a pool: PHP has started in it, and it waits until it replaces the first
//! one, or the front has died and a new generation takes it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_sys::process::{Exit, Pid};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use super::super::Supervisor;
use super::super::generation::GenerationPhase;
use super::super::state::FolderIdentity;
use super::standby_twin::StandbyTwin;
use super::{Backoff, Environment, HotList, PoolLog, PoolProcesses, ReadyZygote, ZygoteProcess};
use crate::log::{ErrorLog, Level};

/// Time between a zygote's start and that of the next one to stand by. A pool that was just started
/// has more urgent work, and perhaps is reloaded again.
const AFTER: Duration = Duration::from_secs(1);
/// Time in which PHP starts in one zygote alone. A pool's own files may keep PHP from starting for
/// ever; the zygotes of the other pools do not wait longer.
const ALONE: Duration = Duration::from_secs(10);

/// The zygote that stands by, if there is one.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct Standby {
    zygote: Option<ReadyZygote>,
    /// The twin of the pool's zygote that is to stand by, where PHP does not start anew.
    pub(super) twin: Option<StandbyTwin>,
    /// Time at which the next one is started. `None` before the pool serves and after its end.
    due: Option<Instant>,
    backoff: Backoff,
}

/// The zygote that a new generation takes over from a pool whose front has died.
#[derive(Debug)]
pub(in crate::supervisor) struct SpareZygote {
    pub(super) ready: ReadyZygote,
    /// Both ends of the pipe that the zygote writes its log to.
    pub(super) log: OwnedFd,
    pub(super) lines: Option<PoolLog>,
    /// The lists of the pool's scripts.
    pub(super) lists: [Option<OwnedFd>; 2],
    pub(super) state_folder: Option<FolderIdentity>,
}

impl Standby {
    /// The process of the zygote that stands by. `None`: none stands by.
    pub(in crate::supervisor) fn pid(&self) -> Option<Pid> {
        self.zygote.as_ref().map(|ready| ready.zygote.pid)
    }

    /// The zygote that stands by. `None`: none stands by.
    pub(super) fn zygote(&self) -> Option<&ZygoteProcess> {
        self.zygote.as_ref().map(|ready| &ready.zygote)
    }

    /// The zygote that stands by. `None`: none stands by.
    pub(super) fn zygote_mut(&mut self) -> Option<&mut ZygoteProcess> {
        self.zygote.as_mut().map(|ready| &mut ready.zygote)
    }

    /// The socket to watch for the zygote's report. `None`: none is awaited.
    pub(in crate::supervisor) fn awaited(&self) -> Option<&SeqPacket> {
        self.zygote.as_ref()?.zygote.awaited()
    }

    /// Takes the zygote. The next one is started later. `None`: none stands by.
    pub(super) fn take(&mut self) -> Option<ReadyZygote> {
        let taken = self.zygote.take();
        if taken.is_some() {
            self.due = Some(Instant::now() + AFTER);
        }
        taken
    }

    /// Returns whether PHP has started in the zygote.
    pub(super) fn is_ready(&self) -> bool {
        self.zygote().is_some_and(|zygote| zygote.ready.is_some())
    }

    /// Takes the zygote if PHP has started in it.
    fn take_ready(&mut self) -> Option<ReadyZygote> {
        self.zygote.take_if(|ready| ready.zygote.ready.is_some())
    }

    /// Lets the twin stand by, which has reported.
    pub(super) fn put(&mut self, ready: ReadyZygote) {
        self.zygote = Some(ready);
    }

    /// Starts another zygote after a while.
    pub(super) fn try_again(&mut self, now: Instant, lived: Duration) {
        self.due = Some(now + self.backoff.after_death(lived).max(AFTER));
    }

    /// Kills the zygote, which has run no script, and starts no other.
    pub(super) fn end(&mut self) {
        (self.due, self.twin) = (None, None);
        if let Some(ready) = &self.zygote {
            // It was not reaped yet. A failure changes nothing.
            let _ = ready.zygote.pid.signal_group(SIGKILL);
        }
    }

    /// Forgets the zygote, which cannot be ended.
    pub(in crate::supervisor) fn give_up(&mut self) {
        (self.zygote, self.twin) = (None, None);
    }

    /// Returns whether PHP is starting in the zygote.
    pub(in crate::supervisor) fn is_starting(&self) -> bool {
        self.alone_until().is_some()
    }

    /// The time until which no other pool's zygote is started to stand by. `None` unless PHP is
    /// starting in this one.
    pub(in crate::supervisor) fn alone_until(&self) -> Option<Instant> {
        let starting = self.zygote().filter(|zygote| zygote.ready.is_none());
        starting.map(|zygote| zygote.started + ALONE)
    }
}

impl PoolProcesses {
    /// Leaves the pool out for now, for the reason `why`: its zygote, whose socket `front` is for
    /// the front, stands by until the generation serves.
    pub(in crate::supervisor) fn set_aside(&mut self, front: Option<SeqPacket>, why: String) {
        self.is_left_out = true;
        self.start_failure = Some(why);
        if let (Some(zygote), Some(front)) = (self.zygote.take(), front) {
            self.standby.put(ReadyZygote { zygote, front });
        }
    }

    /// Lets the zygote that was set aside serve, if PHP has started in it. Until then the front
    /// does not know it, and answers requests with 503.
    pub(in crate::supervisor) fn bring_back(&mut self, now: Instant) {
        if self.is_set_aside() && self.standby.is_ready() {
            self.due = Some(now);
        }
    }

    /// Returns whether the only zygote was set aside.
    fn is_set_aside(&self) -> bool {
        self.zygote.is_none() && self.due.is_none() && self.standby.zygote.is_some()
    }

    /// Lets a zygote stand by from some time on. Call it when the pool serves.
    pub(in crate::supervisor) fn want_standby(&mut self, now: Instant) {
        if self.plan.as_ref().is_some_and(|plan| plan.standby) {
            self.standby.due = Some(now + AFTER);
        }
    }

    /// The time at which a zygote that stands by must be started. `None` if there is one, and while
    /// PHP starts in the first zygote, which is more urgent.
    pub(in crate::supervisor) fn standby_due(&self) -> Option<Instant> {
        let is_ready = self.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some());
        let is_missing = self.standby.zygote.is_none() && self.standby.twin.is_none();
        let is_wanted = self.plan.as_ref().is_some_and(|plan| plan.standby);
        self.standby.due.filter(|_| is_wanted && is_ready && is_missing)
    }

    fn start_standby(&mut self, environment: &Environment) -> io::Result<()> {
        self.standby.due = None;
        self.standby.zygote = Some(self.launch(environment, None)?);
        Ok(())
    }

    /// Takes the zygote that stands by, for another generation. The pool's own zygote writes to the
    /// same pipe, which the other generation reads from now on. `None`: no zygote is ready, or
    /// there is no log to share.
    pub(in crate::supervisor) fn take_spare(&mut self) -> Option<SpareZygote> {
        let log = self.log.as_ref()?.try_clone().ok()?;
        let ready = self.standby.take_ready()?;
        Some(SpareZygote {
            ready,
            log,
            lines: self.lines.take(),
            lists: self.hot_list.take(),
            state_folder: self.state.folder,
        })
    }

    /// Takes the zygote that stands by, like [`PoolProcesses::take_spare`], for a generation that
    /// starts while this one serves. Both generations read the log. `None`: no zygote is ready, or
    /// there is no log to share.
    pub(in crate::supervisor) fn lend_spare(&mut self) -> Option<SpareZygote> {
        let log = self.log.as_ref()?.try_clone().ok()?;
        let lines = self.lines.as_ref()?.of_same_pipe().ok()?;
        let ready = self.standby.take_ready()?;
        Some(SpareZygote {
            ready,
            log,
            lines: Some(lines),
            lists: self.hot_list.copy(),
            state_folder: self.state.folder,
        })
    }

    /// Goes on with a zygote that stood by in another generation. Returns the front's end of its
    /// socket.
    ///
    /// # Errors
    /// The zygote cannot be moved to the pool's control group. It was killed.
    pub(in crate::supervisor) fn go_on_with(
        &mut self,
        spare: SpareZygote,
        log: &ErrorLog,
    ) -> io::Result<SeqPacket> {
        let SpareZygote {
            ready: ReadyZygote { mut zygote, front },
            log: writer,
            lines,
            lists,
            state_folder,
        } = spare;
        self.flush_lines(log);
        self.state.folder = state_folder;
        (self.log, self.lines) = (Some(writer), lines);
        zygote.group = self.place(zygote.pid).inspect_err(|_| {
            // It was not reaped yet.
            let _ = zygote.pid.signal_group(SIGKILL);
        })?;
        self.hot_list = HotList::of(lists);
        self.hot_list.hand_over(&zygote);
        self.zygote = Some(zygote);
        self.is_left_out = false;
        Ok(front)
    }
}

impl Supervisor {
    /// Starts a zygote that stands by, where one is due: one after the other.
    pub(in crate::supervisor) fn start_standby(&mut self, number: u64, now: Instant) {
        let environment = self.environment.clone();
        let Some(generation) = self.generation(number) else {
            return;
        };
        if generation.standbys_wait_until(now).is_some() {
            return;
        }
        let due = |pool: &&mut PoolProcesses| pool.standby_due().is_some_and(|due| now >= due);
        let Some(pool) = generation.pools.iter_mut().find(due) else {
            return;
        };
        if let Err(error) = pool.start_standby(&environment) {
            let why = format!("it cannot be started: {error}");
            if pool.ask_for_standby(now, &why) {
                return;
            }
            pool.standby.due = Some(now + pool.standby.backoff.after_failure());
            let name = pool.name.clone();
            self.say_of(Level::Warning, &name, &without_standby(&why));
        }
    }

    /// Reads the report of a zygote that stands by.
    pub(in crate::supervisor) fn handle_standby(&mut self, number: u64, position: usize) {
        let Some(generation) = self.generation(number) else {
            return;
        };
        let is_serving = generation.phase == GenerationPhase::Serving;
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        if let Some(ready) = pool.standby.zygote.as_mut()
            && ready.zygote.listen().is_err()
        {
            // A message is malformed. The death is handled as any other.
            let _ = ready.zygote.pid.signal_group(SIGKILL);
        }
        if is_serving {
            pool.bring_back(Instant::now());
        }
    }

    pub(in crate::supervisor) fn standby_died(
        &mut self,
        number: u64,
        position: usize,
        pid: Pid,
        exit: Exit,
    ) {
        self.handle_standby(number, position);
        let Some(generation) = self.generation(number) else {
            return;
        };
        let is_serving = generation.phase == GenerationPhase::Serving;
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        let was_set_aside = pool.is_set_aside();
        let Some(ReadyZygote { mut zygote, .. }) = pool.standby.zygote.take() else {
            return;
        };
        zygote.end_group();
        if is_serving && was_set_aside {
            let why_not = pool.why_not_started(zygote.failed.take().as_deref(), (pid, exit));
            pool.start_failed(Instant::now());
            pool.start_failure = Some(why_not.clone());
            let name = pool.name.clone();
            return self.say_of(Level::Error, &name, &why_not);
        }
        if is_serving {
            let now = Instant::now();
            let failed = zygote.failed.take();
            let why = failed.map(|reason| format!("PHP does not start: {reason}"));
            if why.as_ref().is_some_and(|why| pool.ask_for_standby(now, why)) {
                return;
            }
            pool.standby.try_again(now, zygote.started.elapsed());
            let name = pool.name.clone();
            let what = match why {
                Some(why) => without_standby(&why),
                None => format!("the zygote {pid} that stood by {exit}; another takes its place"),
            };
            self.say_of(Level::Warning, &name, &what);
        }
    }
}

/// The message of a pool whose second zygote does not start.
pub(super) fn without_standby(why: &str) -> String {
    format!("no second zygote stands by, because {why}")
}
