//! A pool as the supervisor sees it: a zygote to start, to listen to, and to start again.

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
use super::loglines::LogLines;
use super::state;
use super::takeover::HeirPool;
use crate::log::ErrorLog;

/// One site's pool.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: String,
    /// Missing for a pool that was taken over: such a one only has to end.
    plan: Option<PoolPlan>,
    /// Writing end of the log, for the next zygote.
    log: Option<OwnedFd>,
    /// `None` once the last writer is gone.
    pub(super) lines: Option<LogLines>,
    pub(super) zygote: Option<Zygote>,
    backoff: Backoff,
    /// When the next zygote is due.
    pub(super) due: Option<Instant>,
}

/// A running zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    pub(super) pid: Pid,
    /// `None` once it has closed its end.
    pub(super) socket: Option<SeqPacket>,
    pub(super) started: Instant,
    /// PHP's version and the state of opcache, once it has started.
    pub(super) ready: Option<(String, String)>,
    /// Why PHP did not start.
    pub(super) failed: Option<String>,
}

impl Pool {
    /// A pool with its first zygote. Answers also with the front's end of the zygote's socket.
    pub(super) fn start(
        plan: &PoolPlan,
        environment: &Environment,
    ) -> Result<(Pool, SeqPacket), String> {
        let name = plan.settings.pool.clone();
        let told = |error: io::Error| format!("site {name}: cannot start its pool: {error}");
        let owner = plan.identity.as_ref().unwrap_or(&environment.identity);
        state::prepare(plan.settings.state_dir.as_ref(), owner, &environment.identity)
            .map_err(|error| format!("site {name}: {error}"))?;
        let (reader, writer) = io::pipe().map_err(told)?;
        let mut pool = Pool {
            name: name.clone(),
            plan: Some(plan.clone()),
            log: Some(writer.into()),
            lines: Some(LogLines::new(reader).map_err(told)?),
            zygote: None,
            backoff: Backoff::default(),
            due: None,
        };
        let front = pool.start_zygote(environment).map_err(told)?;
        Ok((pool, front))
    }

    /// A pool that another program started.
    pub(super) fn adopt(heir: HeirPool) -> io::Result<Pool> {
        let HeirPool { name, zygote, socket, log } = heir;
        Ok(Pool {
            name,
            plan: None,
            log: None,
            lines: Some(LogLines::new(log)?),
            zygote: Some(Zygote {
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

    /// Starts a zygote. Answers with the front's end of its socket.
    pub(super) fn start_zygote(&mut self, environment: &Environment) -> io::Result<SeqPacket> {
        let (Some(plan), Some(log)) = (&self.plan, &self.log) else {
            return Err(io::Error::other("it was taken over from another howdah"));
        };
        self.due = None;
        let (socket, theirs) = SeqPacket::pair()?;
        let (front, zygote_to_front) = SeqPacket::pair()?;
        socket.set_nonblocking(true)?;
        let null = std::fs::File::open("/dev/null")?;
        let program = Program {
            path: CString::new(plan.program.as_os_str().as_bytes())?,
            // The name is for people who look at `ps`.
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
            // It lets its workers finish if we die; see `outlive_parent_by` for the front.
            death_signal: Some(SIGTERM),
        };
        let pid = program.start().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", plan.program.display()))
        })?;
        let settings = ToZygote::Settings(plan.settings.clone()).encode();
        let sent = socket.send(&settings, &[]).or_else(|error| match error.kind() {
            // It is dead, which is noticed as that.
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
            _ => Err(io::Error::new(error.kind(), format!("its settings cannot be sent: {error}"))),
        });
        self.zygote = Some(Zygote {
            pid,
            socket: Some(socket),
            started: Instant::now(),
            ready: None,
            failed: None,
        });
        sent.map(|()| front)
    }

    /// Who the pool runs as.
    pub(super) fn user<'p>(&'p self, environment: &'p Environment) -> &'p str {
        let identity = self.plan.as_ref().and_then(|plan| plan.identity.as_ref());
        &identity.unwrap_or(&environment.identity).name
    }

    /// Logs what the pool has written.
    pub(super) fn forward_lines(&mut self, log: &ErrorLog) {
        if let Some(lines) = &mut self.lines
            && !lines.forward(log, &self.name)
        {
            self.lines = None;
        }
    }

    /// Logs the rest of it, at the end of the pool.
    pub(super) fn flush_lines(&mut self, log: &ErrorLog) {
        self.forward_lines(log);
        if let Some(mut lines) = self.lines.take() {
            lines.flush(log, &self.name);
        }
    }

    /// Whether a dead zygote can be replaced.
    pub(super) fn can_start(&self) -> bool {
        self.plan.is_some()
    }

    /// Takes note of the zygote's death, and of when the next one is due.
    pub(super) fn zygote_died(&mut self, now: Instant) {
        if let Some(zygote) = self.zygote.take() {
            self.due = Some(now + self.backoff.after_death(now - zygote.started));
        }
    }

    /// As [`Pool::zygote_died`], for one that could not be started at all.
    pub(super) fn start_failed(&mut self, now: Instant) {
        self.due = Some(now + self.backoff.after_death(std::time::Duration::ZERO));
    }

    /// Lets the workers finish, and end.
    pub(super) fn stop(&mut self) {
        self.due = None;
        if let Some(Zygote { socket: Some(socket), .. }) = &self.zygote {
            // If it is not listening, it is ending already, or will be killed.
            let _ = socket.send(&ToZygote::Stop.encode(), &[]);
        }
    }

    /// Ends the zygote, its workers, and what they started.
    pub(super) fn kill(&mut self) {
        self.due = None;
        if let Some(zygote) = &self.zygote {
            // Not reaped yet, so the number is still its own. There is nothing to be done about a
            // failure.
            let _ = zygote.pid.signal_group(SIGKILL);
        }
    }
}

impl Zygote {
    /// Reads what it says.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        let mut room = vec![0; MOST_BYTES];
        while let Some(socket) = &self.socket {
            let received = match socket.receive(&mut room) {
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
            match FromZygote::decode(&room[..received.length])? {
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

/// Room for the pool's bells and sockets beside what PHP opens.
fn descriptor_limit(workers: usize, environment: &Environment) -> io::Result<(u64, u64)> {
    let (soft, hard) = environment.descriptor_limit;
    let ours = (workers as u64)
        .saturating_mul(2)
        .saturating_add(environment.processors as u64 + 64);
    Ok((soft.max(1024).saturating_add(ours).min(hard), hard))
}
