//! The supervisor's side of a pool: starts its zygote, reads its messages, and replaces it.

mod ending;
mod hot_list;
mod limits;
mod standby;
mod standby_twin;
mod stopped;
mod twin;
mod zygote_process;
mod zygote_program;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_ipc::control::ToZygote;
use howdah_sys::credentials::Identity;
use howdah_sys::process::Pid;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use self::hot_list::HotList;
use self::limits::group;
pub(super) use self::standby::SpareZygote;
use self::standby::Standby;
use self::twin::AwaitedTwin;
pub(super) use self::twin::LentTwin;
use self::zygote_process::{ZygoteProcess, send_settings};
use self::zygote_program::zygote_program;
use super::backoff::Backoff;
use super::cgroups::{PoolGroup, ZygoteGroup};
use super::environment::Environment;
use super::generation_plan::PoolPlan;
use super::last_output;
use super::oom;
use super::pool_log::PoolLog;
use super::state::StateRecord;
use super::takeover::{FrontPlace, InheritedLender, InheritedPool};
use super::warmup::ScriptList;
use super::zygote_socket::ZygoteSocket;
use crate::log::ErrorLog;

/// A site's pool.
#[derive(Debug)]
pub(super) struct PoolProcesses {
    pub(super) name: String,
    /// `None` for a pool that was taken over from another program; such a pool is only ended.
    pub(super) plan: Option<PoolPlan>,
    /// The number of the settings with which another program has started the zygote, if that may be
    /// asked for a twin.
    pub(super) inherited_settings: Option<String>,
    /// Writing end of the log pipe, for the next zygote.
    log: Option<OwnedFd>,
    /// `None` once all writers have closed the pipe.
    pub(super) lines: Option<PoolLog>,
    pub(super) zygote: Option<ZygoteProcess>,
    /// Index of the pool in the front's list
    /// ([`FrontStart::pools`](super::front_protocol::FrontStart::pools)).
    pub(super) position: usize,
    /// Number of the zygote among those that the front has got, from 0 on. `None` if another
    /// program has started the zygote and does not tell it.
    number: Option<u64>,
    pub(super) standby: Standby,
    /// The zygote that the former generation's zygote is forking for this pool.
    twin: Option<AwaitedTwin>,
    /// There was such a zygote. Scripts may end one: there is no second one.
    pub(super) has_had_twin: bool,
    hot_list: HotList,
    /// `None` without control groups.
    group: Option<PoolGroup>,
    backoff: Backoff,
    /// Time at which the next zygote is started.
    pub(super) due: Option<Instant>,
    /// The pool did not start, and its generation does without it for now.
    pub(super) is_left_out: bool,
    pub(super) state: StateRecord,
    /// The reason why PHP does not start with the settings of this generation; `None` if it has
    /// started.
    pub(super) start_failure: Option<String>,
    /// The reason that the front was told.
    pub(super) told_failure: Option<String>,
}

/// A zygote that no front knows yet.
#[derive(Debug)]
pub(super) struct ReadyZygote {
    zygote: ZygoteProcess,
    /// The front's end of the zygote's socket.
    front: SeqPacket,
}

impl PoolProcesses {
    /// Starts a pool of generation `number` with its first zygote, which compiles the scripts of
    /// `list`. Also returns the front's end of the zygote's socket, or the reason why there is no
    /// zygote, as text for the operator. Limits without effect are logged.
    ///
    /// # Errors
    /// The system has no descriptors.
    pub(super) fn start(
        number: u64,
        plan: &PoolPlan,
        environment: &Environment,
        log: &ErrorLog,
        list: Option<ScriptList>,
    ) -> Result<(PoolProcesses, Result<SeqPacket, String>), String> {
        let told = |error: io::Error| format!("cannot start its pool: {error}");
        let (reader, writer) = io::pipe().map_err(told)?;
        let mut pool = PoolProcesses {
            log: Some(writer.into()),
            lines: Some(PoolLog::new(reader).map_err(told)?),
            ..PoolProcesses::planned(number, plan, environment, log)
        };
        let launched = match &plan.silence {
            Some(why) => Err(io::Error::other(why.clone())),
            None => pool.launch(environment, list),
        };
        let front = match launched {
            Ok(ReadyZygote { zygote, front }) => {
                pool.zygote = Some(zygote);
                Ok(front)
            }
            Err(error) => Err(told(error)),
        };
        Ok((pool, front))
    }

    /// Starts a pool like [`PoolProcesses::start`], with a zygote that stood by in the former
    /// generation.
    pub(super) fn start_with(
        spare: SpareZygote,
        number: u64,
        plan: &PoolPlan,
        environment: &Environment,
        log: &ErrorLog,
    ) -> (PoolProcesses, Result<SeqPacket, String>) {
        let SpareZygote {
            ready: ReadyZygote { mut zygote, front },
            log: writer,
            lines,
            lists,
            state_folder,
        } = spare;
        let mut pool = PoolProcesses {
            log: Some(writer),
            lines,
            hot_list: HotList::of(lists),
            state: StateRecord { folder: state_folder, fault: None },
            ..PoolProcesses::planned(number, plan, environment, log)
        };
        // From the group of the former generation into the new one's.
        let group = pool.place(zygote.pid);
        let failed = group.as_ref().err().map(|error| error.to_string());
        zygote.group = group.unwrap_or_default();
        pool.hot_list.hand_over(&zygote);
        pool.zygote = Some(zygote);
        match failed {
            None => (pool, Ok(front)),
            Some(error) => {
                pool.kill();
                (pool, Err(error))
            }
        }
    }

    /// A pool that another program started, in the generation `number`. `order` is its place among
    /// those that were handed over.
    ///
    /// # Errors
    /// The error of a system call on an inherited descriptor.
    pub(super) fn adopt(
        number: u64,
        (order, inherited): (usize, InheritedPool),
        environment: &Environment,
    ) -> io::Result<PoolProcesses> {
        let InheritedPool {
            name,
            zygote,
            socket,
            log,
            place,
            outputs,
            lender,
        } = inherited;
        // A program that tells no places hands over most pools, and those in order.
        let place = place.unwrap_or(FrontPlace { position: order, zygote: None });
        let group = environment.control_groups().map(|groups| groups.pool_of(number, &name));
        let mut pool = PoolProcesses::without_processes(name, None, group);
        pool.lines = Some(PoolLog::new(log)?);
        if let Some(InheritedLender { log, settings }) = lender {
            (pool.log, pool.inherited_settings) = (Some(log), Some(settings));
        }
        let zygote = ZygoteProcess::new(zygote, socket.into(), None);
        pool.zygote = Some(ZygoteProcess {
            has_reported: true,
            outputs: outputs.map(ZygoteSocket::from),
            ..zygote
        });
        (pool.position, pool.number) = (place.position, place.zygote);
        Ok(pool)
    }

    /// A pool of generation `number` that has no process yet. Limits without effect are logged.
    fn planned(number: u64, plan: &PoolPlan, environment: &Environment, log: &ErrorLog) -> Self {
        let group = group(number, plan, environment, log);
        let name = plan.settings.pool.clone();
        PoolProcesses::without_processes(name, Some(plan.clone()), group)
    }

    fn without_processes(
        name: String,
        plan: Option<PoolPlan>,
        group: Option<PoolGroup>,
    ) -> PoolProcesses {
        PoolProcesses {
            name,
            plan,
            inherited_settings: None,
            log: None,
            lines: None,
            zygote: None,
            position: 0,
            number: Some(0),
            standby: Standby::default(),
            twin: None,
            has_had_twin: false,
            hot_list: HotList::default(),
            group,
            backoff: Backoff::default(),
            due: None,
            is_left_out: false,
            state: StateRecord::default(),
            start_failure: None,
            told_failure: None,
        }
    }

    /// Starts a zygote for the front, or takes the one that stands by. Returns its number among the
    /// zygotes of the front, and the front's end of its socket.
    ///
    /// # Errors
    /// The program cannot be started, or its settings cannot be sent.
    pub(super) fn start_zygote(
        &mut self,
        environment: &Environment,
    ) -> io::Result<(u64, SeqPacket)> {
        self.due = None;
        // Messages of the front about the former zygote are not about this one.
        let number = self.number.map_or(1, |number| number + 1);
        self.number = Some(number);
        let ReadyZygote { zygote, front } = match self.standby.take() {
            Some(ready) => ready,
            None => self.launch(environment, None)?,
        };
        self.hot_list.hand_over(&zygote);
        self.zygote = Some(zygote);
        Ok((number, front))
    }

    /// Starts the program of a zygote.
    ///
    /// # Errors
    /// The errors of [`PoolProcesses::start_zygote`].
    fn launch(
        &mut self,
        environment: &Environment,
        list: Option<ScriptList>,
    ) -> io::Result<ReadyZygote> {
        let (Some(plan), Some(log)) = (&self.plan, &self.log) else {
            return Err(io::Error::other("the pool was taken over from another howdah"));
        };
        let owner = plan.owner(environment);
        let state = plan.prepare_state(environment);
        self.state.note(&state);
        let state = state.map_err(io::Error::other)?;
        let memory = environment.pool_memory.of(&self.name);
        let groups = self.group.as_ref().map(PoolGroup::of_all_pools).unwrap_or_default();
        let users = (owner, &environment.identity);
        plan.isolation.make_folders(&state, users).map_err(|(error, fault)| {
            self.state.fault = fault;
            error
        })?;
        let confinement = plan.isolation.confinement(&state, owner, memory, &groups)?;
        let (socket, theirs) = SeqPacket::pair()?;
        let (front, zygote_to_front) = SeqPacket::pair()?;
        let (into_outputs, outputs) = SeqPacket::pair()?;
        socket.set_nonblocking(true)?;
        let socket = ZygoteSocket::from(socket);
        let null = std::fs::File::open("/dev/null")?;
        let descriptors = vec![
            null.into(),
            log.try_clone()?,
            log.try_clone()?,
            theirs.into(),
            zygote_to_front.into(),
            into_outputs.into(),
            outputs.duplicate()?.into(),
        ];
        let program = zygote_program(&self.name, plan, environment, confinement, descriptors)?;
        let pid = program.start().map_err(|error| {
            // EAGAIN of `execve(2)`.
            let why = match error.kind() {
                io::ErrorKind::WouldBlock => ": there are too many processes; see `rlimits.nproc`",
                _ => "",
            };
            io::Error::new(error.kind(), format!("{}: {error}{why}", plan.program.display()))
        })?;
        oom::prefer_workers(pid);
        if plan.isolation.has_own_shared_memory() {
            environment.pool_memory.keep(&self.name, pid);
        }
        let settings = plan.settings.clone();
        let group = self.place(pid).inspect_err(|_| {
            // It is reaped as an unknown process.
            let _ = pid.signal_group(SIGKILL);
        })?;
        let sent = send_settings(&socket, settings, list.as_ref());
        let mut zygote = ZygoteProcess::new(pid, socket, group);
        zygote.outputs = Some(ZygoteSocket::from(outputs));
        if sent.is_err() {
            let _ = pid.signal_group(SIGKILL);
        }
        sent.map(|()| ReadyZygote { zygote, front })
    }

    /// Moves a zygote into a control group of its own. `None` without control groups.
    fn place(&mut self, pid: Pid) -> io::Result<Option<ZygoteGroup>> {
        let group = self.group.as_mut().map(|group| {
            let zygote = group.zygote()?;
            zygote.add(pid).map(|()| zygote)
        });
        group.transpose().map_err(|error| {
            io::Error::new(error.kind(), format!("its control group: {error}; see `cgroups`"))
        })
    }

    /// The pool's isolation in a few words; `None` if another program started the pool.
    pub(super) fn isolation(&self) -> Option<String> {
        self.plan.as_ref().map(|plan| plan.isolation.summary())
    }

    /// The user that the pool runs as.
    pub(super) fn user<'p>(&'p self, environment: &'p Environment) -> &'p str {
        &self.identity(environment).name
    }

    /// The number of the user that the pool runs as.
    pub(super) fn uid(&self, environment: &Environment) -> u32 {
        self.identity(environment).uid
    }

    fn identity<'p>(&'p self, environment: &'p Environment) -> &'p Identity {
        let identity = self.plan.as_ref().and_then(|plan| plan.identity.as_ref());
        identity.unwrap_or(&environment.identity)
    }

    /// Asks the zygote to write the list of its scripts. Returns the pipe to read it from; `None`
    /// if the zygote cannot be told, or another program started it: it may know other messages.
    pub(super) fn list_scripts(&self) -> Option<OwnedFd> {
        self.plan.as_ref().filter(|plan| plan.warms_opcache)?;
        let zygote = self.zygote.as_ref().filter(|zygote| zygote.ready.is_some())?;
        let (reader, writer) = io::pipe().ok()?;
        let message = ToZygote::ListScripts.encode();
        zygote.socket.as_ref()?.send_now(&message, &[writer.as_fd()]).ok()?;
        Some(reader.into())
    }

    /// The words by which the front names this pool and its zygote.
    pub(super) fn front_place(&self) -> FrontPlace {
        FrontPlace {
            position: self.position,
            zygote: self.number,
        }
    }

    /// The pool's processes that are children of this process.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.zygote.iter().map(|zygote| zygote.pid).chain(self.standby.pid())
    }

    /// Logs the lines that the pool has written.
    pub(super) fn forward_lines(&mut self, log: &ErrorLog) {
        if let Some(lines) = &mut self.lines
            && !lines.forward(log, &self.name)
        {
            self.lines = None;
        }
    }

    /// Logs an unfinished line. Called at the end of the pool.
    pub(super) fn flush_lines(&mut self, log: &ErrorLog) {
        self.forward_lines(log);
        if let Some(mut lines) = self.lines.take() {
            lines.flush(log, &self.name);
        }
    }

    /// Returns whether PHP has started, or the pool is left out.
    pub(super) fn is_settled(&self) -> bool {
        self.is_left_out || self.zygote.as_ref().is_some_and(|zygote| zygote.ready.is_some())
    }

    /// Returns whether the file system of the site's root hung when the generation was planned.
    pub(super) fn is_silent(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.silence.is_some())
    }

    /// Returns whether a dead zygote can be replaced.
    pub(super) fn can_start(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns whether another program has started the pool.
    pub(super) fn is_adopted(&self) -> bool {
        self.plan.is_none()
    }

    /// Records the zygote's death, and schedules the next zygote. Returns the process that logs the
    /// output of workers that the zygote has left. `None`: there is no such output.
    pub(super) fn zygote_died(&mut self, now: Instant) -> Option<Pid> {
        let mut reader = None;
        if let Some(zygote) = self.zygote.take() {
            zygote.end_group();
            let outputs = zygote.outputs.as_ref().zip(self.log.as_ref());
            reader = outputs.and_then(|(outputs, log)| last_output::log(outputs, log).ok());
            let lived = now - zygote.started;
            let wait = self.backoff.after_death(lived);
            // The one that stands by is there already, and the next one starts a second later.
            let has_successor = Backoff::has_served(lived) && self.standby.is_ready();
            self.due = Some(now + if has_successor { Duration::ZERO } else { wait });
        }
        reader
    }

    /// Schedules the next zygote after one that could not be started.
    pub(super) fn start_failed(&mut self, now: Instant) {
        self.due = Some(now + self.backoff.after_death(Duration::ZERO));
    }

    /// The control groups, to be removed after the pool's end. `None`: there are none, or they were
    /// taken before.
    pub(super) fn take_group(&mut self) -> Option<PoolGroup> {
        self.group.take()
    }

    /// Describes for `howdah status` how processes are found that scripts have started.
    pub(super) fn containment(&self) -> String {
        match &self.group {
            Some(group) => format!("in {}", group.describe()),
            None => "without a control group".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::*;

    /// A pool whose zygote, a process that sleeps, has this number.
    fn pool_of(number: Option<u64>) -> (Child, PoolProcesses) {
        let child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let pid = Pid::from_number(child.id()).unwrap();
        let (socket, _other_end) = SeqPacket::pair().unwrap();
        let mut pool = PoolProcesses::without_processes("shop".to_owned(), None, None);
        pool.zygote = Some(ZygoteProcess::new(pid, ZygoteSocket::from(socket), None));
        pool.number = number;
        (child, pool)
    }

    #[test]
    fn a_complaint_about_a_former_zygote_is_none_about_its_successor() {
        let (mut child, mut pool) = pool_of(Some(1));
        assert!(!pool.kill_broken(Some(0)));
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        assert!(pool.kill_broken(Some(1)));
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        pool.zygote = None;
        assert!(!pool.kill_broken(Some(1)), "it has ended, and another one is awaited");
    }

    #[test]
    fn a_complaint_of_a_former_programs_front_is_about_the_zygote_that_there_is() {
        for (own, meant) in [(None, None), (None, Some(2)), (Some(3), None)] {
            let (mut child, mut pool) = pool_of(own);
            assert!(pool.kill_broken(meant), "{own:?} {meant:?}");
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }
}
