//! A zygote's twin: where PHP does not start anew, the zygote of the generation that serves forks
//! the one of the next generation.
//!
//! The twin is a child of this process that this process has not forked. Its first message comes
//! through a socket of its own, and the kernel says which process has sent it: scripts of the pool
//! may have taken the socket, and must not name another pool's process, nor one that the end of its
//! pool would not end.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_config::Config;
use howdah_ipc::control::{FromZygote, MOST_BYTES, ToZygote};
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::SIGKILL;

use super::super::Supervisor;
use super::super::kept_pools::settings_number;
use super::super::state::FolderIdentity;
use super::super::zygote_socket::ZygoteSocket;
use super::{HotList, PoolLog, PoolProcesses, ZygoteProcess};
use crate::log::ErrorLog;

/// A twin that was asked for, for a pool of another generation.
#[derive(Debug)]
pub(in crate::supervisor) struct LentTwin {
    twin: AwaitedTwin,
    /// The front's end of the twin's socket.
    front: SeqPacket,
    /// Both ends of the pipe that the twin writes its log to: that of its original.
    log: OwnedFd,
    lines: PoolLog,
    /// The lists of the pool's scripts.
    lists: [Option<OwnedFd>; 2],
    state_folder: Option<FolderIdentity>,
}

/// A twin that has not reported yet.
#[derive(Debug)]
pub(super) struct AwaitedTwin {
    socket: ZygoteSocket,
    /// The socket for the pipes of the workers' output.
    outputs: ZygoteSocket,
}

/// The process of a twin that has reported, and PHP's version and opcache's state in it.
pub(super) struct TwinReport {
    pub(super) pid: Pid,
    ready: (String, String),
}

impl AwaitedTwin {
    /// The socket to watch for the twin's report.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Ends the wait: the pool goes on without a twin.
    pub(super) fn give_up(&self) {
        self.socket.shut_down();
    }

    /// Reads the twin's report, `None` before it. The twin is none of the children that are
    /// `known`, and leads its process group, so that nothing of it outlives the end of the group.
    ///
    /// # Errors
    /// There will be no twin.
    pub(super) fn report(&self, known: &HashSet<Pid>) -> io::Result<Option<TwinReport>> {
        let mut buffer = vec![0; MOST_BYTES];
        let (length, sender) = match self.socket.peek_with_sender(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            peeked => peeked?,
        };
        let pid = sender.ok_or_else(|| io::Error::other("it has forked none"))?;
        let FromZygote::Ready { php_version, opcache, .. } = FromZygote::decode(&buffer[..length])?
        else {
            return Err(io::Error::other("its twin has not started"));
        };
        if known.contains(&pid) || !process::is_child(pid) || !process::leads_session(pid) {
            return Err(io::Error::other(format!("the process {pid} is not its twin")));
        }
        let ready = (php_version, opcache);
        Ok(Some(TwinReport { pid, ready }))
    }
}

impl PoolProcesses {
    /// Asks the zygote for a twin. Also returns the front's end of the twin's socket. `None` if
    /// there is no zygote in which PHP has started, or another program started it, and it may know
    /// other messages.
    pub(super) fn ask_for_twin(&self) -> Option<(AwaitedTwin, SeqPacket)> {
        let is_inherited = self.plan.is_none() && self.inherited_settings.is_some();
        let has_php = |zygote: &&ZygoteProcess| is_inherited || zygote.ready.is_some();
        let zygote = self.zygote.as_ref().filter(has_php)?;
        (self.plan.is_some() || is_inherited).then_some(())?;
        let (socket, of_twin) = SeqPacket::pair().ok()?;
        let (front, twin_to_front) = SeqPacket::pair().ok()?;
        socket.set_nonblocking(true).and_then(|()| socket.ask_for_senders()).ok()?;
        let (into_outputs, outputs) = SeqPacket::pair().ok()?;
        let sockets = [&of_twin, &twin_to_front, &into_outputs, &outputs].map(AsFd::as_fd);
        zygote.socket.as_ref()?.send_now(&ToZygote::ForkTwin.encode(), &sockets).ok()?;
        let twin = AwaitedTwin {
            socket: socket.into(),
            outputs: outputs.into(),
        };
        Some((twin, front))
    }

    /// Makes the twin a zygote of this pool.
    ///
    /// # Errors
    /// The errors of [`PoolProcesses::go_on_with`].
    pub(super) fn adopt_twin(
        &mut self,
        twin: AwaitedTwin,
        report: TwinReport,
    ) -> io::Result<ZygoteProcess> {
        let TwinReport { pid, ready } = report;
        let group = self.place(pid).inspect_err(|_| {
            // It was not reaped yet.
            let _ = pid.signal_group(SIGKILL);
        })?;
        let zygote = ZygoteProcess::new(pid, twin.socket, group);
        Ok(ZygoteProcess {
            ready: Some(ready),
            has_reported: true,
            outputs: Some(twin.outputs),
            ..zygote
        })
    }

    /// Returns the parts with which another program can ask the zygote for a twin: the end of the
    /// log's pipe that the pool writes to, and the number of the settings of the pool in `config`.
    /// `None` as with [`PoolProcesses::ask_for_twin`].
    pub(in crate::supervisor) fn lends(
        &self,
        config: Option<&Config>,
    ) -> Option<(BorrowedFd<'_>, String)> {
        let log = self.log.as_ref()?.as_fd();
        if let Some(settings) = &self.inherited_settings {
            return Some((log, settings.clone()));
        }
        self.zygote.as_ref().filter(|zygote| zygote.ready.is_some())?;
        Some((log, settings_number(config?, &self.name)?))
    }

    /// Asks the zygote for a twin, for a generation that starts while this one serves. `None` as
    /// with [`PoolProcesses::ask_for_twin`].
    pub(in crate::supervisor) fn lend_twin(&self) -> Option<LentTwin> {
        let log = self.log.as_ref()?.try_clone().ok()?;
        let lines = self.lines.as_ref()?.of_same_pipe().ok()?;
        let (twin, front) = self.ask_for_twin()?;
        let lists = self.hot_list.copy();
        let state_folder = self.state.folder;
        Some(LentTwin {
            twin,
            front,
            log,
            lines,
            lists,
            state_folder,
        })
    }

    /// Waits for the twin of a zygote of another generation. Returns the front's end of its socket.
    pub(in crate::supervisor) fn await_twin(
        &mut self,
        twin: LentTwin,
        log: &ErrorLog,
    ) -> SeqPacket {
        let LentTwin {
            twin,
            front,
            log: writer,
            lines,
            lists,
            state_folder,
        } = twin;
        self.flush_lines(log);
        self.state.folder = state_folder;
        (self.log, self.lines) = (Some(writer), Some(lines));
        self.hot_list = HotList::of(lists);
        (self.twin, self.has_had_twin) = (Some(twin), true);
        self.is_left_out = false;
        front
    }

    /// The socket to watch for the twin's report. `None`: no twin is awaited.
    pub(in crate::supervisor) fn awaited_twin(&self) -> Option<BorrowedFd<'_>> {
        self.twin.as_ref().map(AwaitedTwin::as_fd)
    }

    /// Reads the report of the twin, which becomes the pool's zygote. Returns whether there was a
    /// report.
    ///
    /// # Errors
    /// There will be no twin.
    fn hear_twin(&mut self, known: &HashSet<Pid>) -> io::Result<bool> {
        let report = match &self.twin {
            Some(twin) => twin.report(known),
            None => Ok(None),
        };
        if matches!(report, Ok(None)) {
            return Ok(false);
        }
        let (twin, report) = (self.twin.take(), report?);
        if let Some((twin, report)) = twin.zip(report) {
            self.zygote = Some(self.adopt_twin(twin, report)?);
        }
        Ok(true)
    }
}

impl Supervisor {
    /// Reads the report of a twin. Without a twin the pool is left out.
    pub(in crate::supervisor) fn handle_twin(&mut self, number: u64, position: usize) {
        let known = self.known_children();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        match pool.hear_twin(&known) {
            Ok(false) => return,
            Ok(true) => self.tell_kept(number, position),
            Err(error) => self.go_on_without_twin(number, position, &error),
        }
        self.advance();
    }

    /// Leaves a pool out for which there is no twin.
    fn go_on_without_twin(&mut self, number: u64, position: usize, error: &io::Error) {
        // A process that has reported and is no twin may live.
        self.orphans.expect(Instant::now());
        let ours = self.environment.identity.clone();
        let Some(generation) = self.generation(number) else {
            return;
        };
        let Some(pool) = generation.pools.get_mut(position) else {
            return;
        };
        let name = pool.name.clone();
        let failure = pool.start_failure.take().unwrap_or_default();
        let why = format!("{failure}; the zygote of the former generation: {error}");
        match generation.leave_out(position, &why, &ours) {
            true => self.tell_left_out(number, position),
            false => self.abort(number, &format!("site {name}: {why}")),
        }
    }

    /// Returns whether a twin may be among this process's children that has not said so yet.
    pub(in crate::supervisor) fn awaits_twin(&self) -> bool {
        let mut pools = self.generations.iter().flat_map(|generation| &generation.pools);
        pools.any(|pool| pool.twin.is_some() || pool.standby.awaits_twin())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use howdah_sys::poll;

    use super::*;

    /// The report of a twin.
    fn message() -> Vec<u8> {
        let ready = FromZygote::Ready {
            php_version: "8.4.0".to_owned(),
            opcache: "on".to_owned(),
            settings: 0,
            warmup: None,
        };
        ready.encode()
    }

    fn awaited() -> (AwaitedTwin, SeqPacket) {
        let (socket, of_twin) = SeqPacket::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.ask_for_senders().unwrap();
        let (_, outputs) = SeqPacket::pair().unwrap();
        let twin = AwaitedTwin {
            socket: socket.into(),
            outputs: outputs.into(),
        };
        (twin, of_twin)
    }

    /// A child that has sent a twin's report, and lives until its input ends.
    fn reporting(program: &[&str]) -> (AwaitedTwin, Child) {
        let (twin, of_twin) = awaited();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).stdin(Stdio::piped()).stdout(OwnedFd::from(of_twin));
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&message()).unwrap();
        poll::readable(&[twin.as_fd()], None).unwrap();
        (twin, child)
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_child_with_a_session_of_its_own_is_a_twin() {
        let (twin, child) = reporting(&["setsid", "cat"]);
        let report = twin.report(&HashSet::new()).unwrap().unwrap();
        assert_eq!((report.pid.number(), report.ready.0.as_str()), (child.id(), "8.4.0"));
        end(child);
    }

    #[test]
    fn a_process_that_the_end_of_its_group_would_not_end_is_no_twin() {
        let (twin, child) = reporting(&["cat"]);
        let error = twin.report(&HashSet::new()).err().unwrap();
        let told = format!("the process {} is not its twin", child.id());
        assert_eq!(error.to_string(), told);
        end(child);
    }

    #[test]
    fn a_process_that_is_known_or_no_child_is_no_twin() {
        let (twin, child) = reporting(&["setsid", "cat"]);
        let known = HashSet::from([Pid::from_number(child.id()).unwrap()]);
        assert!(twin.report(&known).is_err());
        end(child);

        let (twin, of_twin) = awaited();
        of_twin.send(&message(), &[]).unwrap();
        assert!(twin.report(&HashSet::new()).is_err());
    }

    #[test]
    fn a_zygote_that_forks_none_closes_the_socket() {
        let (twin, of_twin) = awaited();
        assert!(twin.report(&HashSet::new()).unwrap().is_none());
        of_twin.shut_down();
        assert!(twin.report(&HashSet::new()).is_err());
    }
}
