//! A zygote's twin: where PHP does not start anew, the zygote of the generation that serves forks
//! the one of the next generation.
//!
//! The twin is a child of this process that this process has not forked. Its first message comes
//! through a socket of its own, and the kernel says which process has sent it: scripts of the pool
//! may have taken the socket, and must not name another pool's process.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_ipc::control::{FromZygote, MOST_BYTES, ToZygote};
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;

use super::super::Supervisor;
use super::{HotList, PoolLog, PoolProcesses, ZygoteProcess};
use crate::log::ErrorLog;

/// A twin that was asked for, for a pool of another generation.
#[derive(Debug)]
pub(in crate::supervisor) struct LentTwin {
    socket: SeqPacket,
    /// The front's end of the twin's socket.
    front: SeqPacket,
    /// Both ends of the pipe that the twin writes its log to: that of its original.
    log: OwnedFd,
    lines: PoolLog,
    /// The lists of the pool's scripts.
    lists: [Option<OwnedFd>; 2],
}

/// A twin that has not reported yet.
#[derive(Debug)]
pub(super) struct AwaitedTwin {
    socket: SeqPacket,
}

impl AwaitedTwin {
    /// Ends the wait: the pool goes on without a twin.
    pub(super) fn give_up(&self) {
        self.socket.shut_down();
    }

    /// Reads the twin's report. Returns its process, and PHP's version and opcache's state.
    ///
    /// # Errors
    /// `WouldBlock` before the report; or there will be no twin.
    fn listen(&self) -> io::Result<(Pid, (String, String))> {
        let mut buffer = vec![0; MOST_BYTES];
        let (length, sender) = self.socket.receive_with_sender(&mut buffer)?;
        let sender = sender.ok_or_else(|| io::Error::other("it has forked none"))?;
        match FromZygote::decode(&buffer[..length])? {
            FromZygote::Ready { php_version, opcache, .. } => Ok((sender, (php_version, opcache))),
            _ => Err(io::Error::other("its twin has not started")),
        }
    }
}

impl PoolProcesses {
    /// Asks the zygote for a twin, for a generation that starts while this one serves. `None` if
    /// there is no zygote in which PHP has started, or another program started it: it may know
    /// other messages.
    pub(in crate::supervisor) fn lend_twin(&self) -> Option<LentTwin> {
        self.plan.as_ref()?;
        let zygote = self.zygote.as_ref().filter(|zygote| zygote.ready.is_some())?;
        let log = self.log.as_ref()?.try_clone().ok()?;
        let lines = self.lines.as_ref()?.of_same_pipe().ok()?;
        let (socket, of_twin) = SeqPacket::pair().ok()?;
        let (front, twin_to_front) = SeqPacket::pair().ok()?;
        socket.set_nonblocking(true).and_then(|()| socket.ask_for_senders()).ok()?;
        let sockets = [of_twin.as_fd(), twin_to_front.as_fd()];
        zygote.socket.as_ref()?.send_now(&ToZygote::ForkTwin.encode(), &sockets).ok()?;
        let lists = self.hot_list.copy();
        Some(LentTwin { socket, front, log, lines, lists })
    }

    /// Waits for the twin of a zygote of another generation. Returns the front's end of its socket.
    pub(in crate::supervisor) fn await_twin(
        &mut self,
        twin: LentTwin,
        log: &ErrorLog,
    ) -> SeqPacket {
        let LentTwin { socket, front, log: writer, lines, lists } = twin;
        self.flush_lines(log);
        (self.log, self.lines) = (Some(writer), Some(lines));
        self.hot_list = HotList::of(lists);
        self.twin = Some(AwaitedTwin { socket });
        self.is_left_out = false;
        front
    }

    /// The socket to watch for the twin's report.
    pub(in crate::supervisor) fn awaited_twin(&self) -> Option<BorrowedFd<'_>> {
        self.twin.as_ref().map(|twin| twin.socket.as_fd())
    }

    /// Reads the report of the twin, which becomes the pool's zygote unless its process is one of
    /// `known`. Returns whether there was a report.
    ///
    /// # Errors
    /// There will be no twin.
    fn hear_twin(&mut self, known: &HashSet<Pid>) -> io::Result<bool> {
        let heard = match self.twin.as_ref().map(AwaitedTwin::listen) {
            None => return Ok(false),
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Some(heard) => heard,
        };
        let Some(AwaitedTwin { socket }) = self.twin.take() else {
            return Ok(false);
        };
        let (pid, ready) = heard?;
        if known.contains(&pid) || !process::is_child(pid) {
            return Err(io::Error::other(format!("the process {pid} is not its twin")));
        }
        let group = self.place(pid)?;
        self.zygote = Some(ZygoteProcess {
            pid,
            socket: Some(socket),
            started: Instant::now(),
            ready: Some(ready),
            failed: None,
            group,
            has_reported: true,
            continue_at: None,
        });
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
            Err(error) => {
                let failure = pool.start_failure.take().unwrap_or_default();
                let why = format!("{failure}; the zygote of the former generation: {error}");
                if !generation.leave_out(position, &why) {
                    return self.abort(number, &why);
                }
                self.tell_left_out(number, position);
            }
        }
        self.advance();
    }

    /// Whether a twin may be among this process's children that has not said so yet.
    pub(in crate::supervisor) fn awaits_twin(&self) -> bool {
        let mut pools = self.generations.iter().flat_map(|generation| &generation.pools);
        pools.any(|pool| pool.twin.is_some())
    }
}
