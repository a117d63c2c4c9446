//! A pool's zygote, as the supervisor knows it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use howdah_ipc::control::{FromZygote, MOST_BYTES, PoolSettings, ToZygote};
use howdah_sys::process::Pid;
use howdah_sys::seqpacket::SeqPacket;

use super::super::cgroups::ZygoteGroup;
use super::super::warmup::ScriptList;
use super::super::zygote_socket::ZygoteSocket;

/// Sends a zygote its settings, with the list of its scripts.
///
/// # Errors
/// The zygote cannot be told, although it lives.
pub(super) fn send_settings(
    socket: &ZygoteSocket,
    mut settings: PoolSettings,
    list: Option<&ScriptList>,
) -> io::Result<()> {
    list.iter().for_each(|list| list.note(&mut settings));
    let message = ToZygote::Settings(Box::new(settings)).encode();
    let pipe: Vec<BorrowedFd<'_>> = list.iter().map(|list| list.pipe.as_fd()).collect();
    socket.send_now(&message, &pipe).or_else(|error| match error.kind() {
        // The zygote has died already. Its death is handled when it is reaped.
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(io::Error::new(error.kind(), format!("its settings cannot be sent: {error}"))),
    })
}

/// A running zygote.
#[derive(Debug)]
pub(in crate::supervisor) struct ZygoteProcess {
    pub(in crate::supervisor) pid: Pid,
    /// `None` once the zygote has closed its end.
    pub(in crate::supervisor) socket: Option<ZygoteSocket>,
    pub(in crate::supervisor) started: Instant,
    /// PHP's version and opcache's state, once PHP has started.
    pub(in crate::supervisor) ready: Option<(String, String)>,
    /// The time that PHP's start took; `None` before its end, and for a twin.
    pub(in crate::supervisor) took: Option<Duration>,
    /// The reason why PHP did not start.
    pub(in crate::supervisor) failed: Option<String>,
    /// The control groups of the zygote; `None` without control groups.
    pub(super) group: Option<ZygoteGroup>,
    /// The socket in which the pipes of the workers' output lie. Another process reads it after the
    /// zygote's death. `None` where a former program has not handed it over.
    pub(in crate::supervisor) outputs: Option<ZygoteSocket>,
    /// The zygote has reported, with the only message that is looked at. It is not taken out of the
    /// socket: another process may have sent it, with descriptors whose closing waits.
    pub(super) has_reported: bool,
    /// Time at which the zygote, which a signal has stopped, is to go on.
    pub(super) continue_at: Option<Instant>,
}

impl ZygoteProcess {
    /// A zygote that has not reported.
    pub(super) fn new(pid: Pid, socket: ZygoteSocket, group: Option<ZygoteGroup>) -> ZygoteProcess {
        ZygoteProcess {
            pid,
            socket: Some(socket),
            started: Instant::now(),
            ready: None,
            took: None,
            failed: None,
            group,
            outputs: None,
            has_reported: false,
            continue_at: None,
        }
    }

    /// Ends the processes that scripts of this zygote's workers have started.
    pub(super) fn end_group(&self) {
        if let Some(group) = &self.group {
            group.kill();
            // It fails while a killed process ends. Then the group goes with the pool's.
            group.remove();
        }
    }

    /// The socket to watch for the zygote's report. `None`: the zygote has reported.
    pub(in crate::supervisor) fn awaited(&self) -> Option<&SeqPacket> {
        self.socket.as_deref().filter(|_| !self.has_reported)
    }

    /// Reads the zygote's report.
    ///
    /// # Errors
    /// A message is malformed.
    pub(in crate::supervisor) fn listen(&mut self) -> io::Result<()> {
        let Some(socket) = self.awaited() else {
            return Ok(());
        };
        let mut buffer = vec![0; MOST_BYTES];
        let length = match socket.peek_now(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            other => other?,
        };
        if length == 0 {
            self.socket = None;
            return Ok(());
        }
        match FromZygote::decode(&buffer[..length])? {
            FromZygote::Ready { php_version, opcache, .. } => {
                self.ready = Some((php_version, opcache));
                self.took = Some(self.started.elapsed());
            }
            FromZygote::Failed { reason } => self.failed = Some(reason),
            FromZygote::Started { .. } | FromZygote::Died { .. } | FromZygote::Cleaned { .. } => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        self.has_reported = true;
        Ok(())
    }
}
