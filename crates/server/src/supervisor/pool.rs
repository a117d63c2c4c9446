//! The supervisor's side of a pool: starts its zygote, reads its messages, and replaces it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use howdah_ipc::control::{FromZygote, MOST_BYTES, ToZygote};
use howdah_sys::process::{Pid, Program};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::{SIGKILL, SIGTERM};

use super::backoff::Backoff;
use super::environment::Environment;
use super::generation_plan::PoolPlan;
use super::pool_log::PoolLog;
use super::state;
use super::takeover::InheritedPool;
use crate::log::ErrorLog;

/// A site's pool.
#[derive(Debug)]
pub(super) struct PoolProcesses {
    pub(super) name: String,
    /// `None` for a pool that was taken over from another program; such a pool is only ended.
    plan: Option<PoolPlan>,
    /// Writing end of the log pipe, for the next zygote.
    log: Option<OwnedFd>,
    /// `None` once all writers have closed the pipe.
    pub(super) lines: Option<PoolLog>,
    pub(super) zygote: Option<ZygoteProcess>,
    backoff: Backoff,
    /// Time at which the next zygote is started.
    pub(super) due: Option<Instant>,
}

/// A running zygote.
#[derive(Debug)]
pub(super) struct ZygoteProcess {
    pub(super) pid: Pid,
    /// `None` once the zygote has closed its end.
    pub(super) socket: Option<SeqPacket>,
    pub(super) started: Instant,
    /// PHP's version and opcache's state, once PHP has started.
    pub(super) ready: Option<(String, String)>,
    /// The reason why PHP did not start.
    pub(super) failed: Option<String>,
}

impl PoolProcesses {
    /// Starts a pool with its first zygote. Also returns the front's end of the zygote's socket.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub(super) fn start(
        plan: &PoolPlan,
        environment: &Environment,
    ) -> Result<(PoolProcesses, SeqPacket), String> {
        let name = plan.settings.pool.clone();
        let told = |error: io::Error| format!("site {name}: cannot start its pool: {error}");
        let owner = plan.identity.as_ref().unwrap_or(&environment.identity);
        state::prepare(plan.settings.state_dir.as_ref(), owner, &environment.identity)
            .map_err(|error| format!("site {name}: {error}"))?;
        let (reader, writer) = io::pipe().map_err(told)?;
        let mut pool = PoolProcesses {
            name: name.clone(),
            plan: Some(plan.clone()),
            log: Some(writer.into()),
            lines: Some(PoolLog::new(reader).map_err(told)?),
            zygote: None,
            backoff: Backoff::default(),
            due: None,
        };
        let front = pool.start_zygote(environment).map_err(told)?;
        Ok((pool, front))
    }

    /// A pool that another program started.
    pub(super) fn adopt(inherited: InheritedPool) -> io::Result<PoolProcesses> {
        let InheritedPool { name, zygote, socket, log } = inherited;
        Ok(PoolProcesses {
            name,
            plan: None,
            log: None,
            lines: Some(PoolLog::new(log)?),
            zygote: Some(ZygoteProcess {
                pid: zygote,
                socket: Some(socket),
                started: Instant::now(),
                ready: None,
                failed: None,
            }),
            backoff: Backoff::default(),
            due: None,
        })
    }

    /// Starts a zygote. Returns the front's end of its socket.
    ///
    /// # Errors
    /// The program cannot be started, or its settings cannot be sent.
    pub(super) fn start_zygote(&mut self, environment: &Environment) -> io::Result<SeqPacket> {
        let (Some(plan), Some(log)) = (&self.plan, &self.log) else {
            return Err(io::Error::other("the pool was taken over from another howdah"));
        };
        self.due = None;
        let (socket, theirs) = SeqPacket::pair()?;
        let (front, zygote_to_front) = SeqPacket::pair()?;
        socket.set_nonblocking(true)?;
        let null = std::fs::File::open("/dev/null")?;
        let program = Program {
            path: CString::new(plan.program.as_os_str().as_bytes())?,
            // The name appears in `ps`.
            arguments: [&b"howdah-php"[..], b"zygote", self.name.as_bytes()]
                .into_iter()
                .map(CString::new)
                .collect::<Result<_, _>>()?,
            environment: environment.zygote_environment()?,
            descriptors: vec![
                null.into(),
                log.try_clone()?,
                log.try_clone()?,
                theirs.into(),
                zygote_to_front.into(),
            ],
            identity: plan.identity.clone(),
            umask: 0o022,
            descriptor_limit: Some(descriptor_limit(plan.workers, environment)?),
            // The zygote lets its workers finish if the supervisor dies; see `outlive_parent_by`
            // for the front.
            death_signal: Some(SIGTERM),
        };
        let pid = program.start().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", plan.program.display()))
        })?;
        let settings = ToZygote::Settings(plan.settings.clone()).encode();
        let sent = socket.send(&settings, &[]).or_else(|error| match error.kind() {
            // The zygote has died already. Its death is handled when it is reaped.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
            _ => Err(io::Error::new(error.kind(), format!("its settings cannot be sent: {error}"))),
        });
        self.zygote = Some(ZygoteProcess {
            pid,
            socket: Some(socket),
            started: Instant::now(),
            ready: None,
            failed: None,
        });
        sent.map(|()| front)
    }

    /// The user that the pool runs as.
    pub(super) fn user<'p>(&'p self, environment: &'p Environment) -> &'p str {
        let identity = self.plan.as_ref().and_then(|plan| plan.identity.as_ref());
        &identity.unwrap_or(&environment.identity).name
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

    /// Returns whether a dead zygote can be replaced.
    pub(super) fn can_start(&self) -> bool {
        self.plan.is_some()
    }

    /// Records the zygote's death, and schedules the next zygote.
    pub(super) fn zygote_died(&mut self, now: Instant) {
        if let Some(zygote) = self.zygote.take() {
            self.due = Some(now + self.backoff.after_death(now - zygote.started));
        }
    }

    /// As [`PoolProcesses::zygote_died`], for a zygote that could not be started.
    pub(super) fn start_failed(&mut self, now: Instant) {
        self.due = Some(now + self.backoff.after_death(std::time::Duration::ZERO));
    }

    /// Tells the workers to finish and end.
    pub(super) fn stop(&mut self) {
        self.due = None;
        if let Some(ZygoteProcess { socket: Some(socket), .. }) = &self.zygote {
            // A zygote that does not read is ending already, or will be killed.
            let _ = socket.send(&ToZygote::Stop.encode(), &[]);
        }
    }

    /// Kills the zygote, its workers and their children.
    pub(super) fn kill(&mut self) {
        self.due = None;
        if let Some(zygote) = &self.zygote {
            // The zygote was not reaped yet, therefore no other process has its id. A failure
            // changes nothing.
            let _ = zygote.pid.signal_group(SIGKILL);
        }
    }
}

impl ZygoteProcess {
    /// Reads the zygote's messages.
    ///
    /// # Errors
    /// A message is malformed.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; MOST_BYTES];
        while let Some(socket) = &self.socket {
            let received = match socket.receive(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    self.socket = None;
                    return Ok(());
                }
                other => other?,
            };
            if received.length == 0 {
                self.socket = None;
                return Ok(());
            }
            match FromZygote::decode(&buffer[..received.length])? {
                FromZygote::Ready { php_version, opcache } => {
                    self.ready = Some((php_version, opcache))
                }
                FromZygote::Failed { reason } => self.failed = Some(reason),
                FromZygote::Started { .. } | FromZygote::Died { .. } => {}
            }
        }
        Ok(())
    }
}

/// The limit of open descriptors for a zygote: those of the pool's doorbells and sockets, and those
/// that PHP opens.
fn descriptor_limit(workers: usize, environment: &Environment) -> io::Result<(u64, u64)> {
    let (soft, hard) = environment.descriptor_limit;
    let ours = (workers as u64)
        .saturating_mul(2)
        .saturating_add(environment.processors as u64 + 64);
    Ok((soft.max(1024).saturating_add(ours).min(hard), hard))
}
