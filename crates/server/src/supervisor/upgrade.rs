//! Replacing the program itself: the new one looks at the configuration first, and only if it likes
//! it is everything handed over.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use howdah_sys::descriptor;
use howdah_sys::process::{Exit, Pid, Program};
use howdah_sys::signal::SIGKILL;

use super::front_process::FrontProcess;
use super::generation::{Generation, Phase};
use super::pool::Pool;
use super::takeover::{self, Heir, Testament};
use super::{Supervisor, USUAL_DRAIN};
use crate::log::Level;

/// The new program has so long to look at the configuration.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Of what it says so much is kept.
const LONGEST_OUTPUT: usize = 64 * 1024;

/// The new program, run as `howdah check`.
#[derive(Debug)]
pub(super) struct Check {
    pid: Pid,
    pub(super) until: Instant,
    /// `None` at its end.
    pipe: Option<File>,
    output: Vec<u8>,
    exit: Option<Exit>,
}

impl Check {
    fn start(supervisor: &Supervisor) -> io::Result<Check> {
        let environment = &supervisor.environment;
        let (reader, writer) = io::pipe()?;
        descriptor::set_nonblocking(&reader)?;
        let executable = environment.executable.as_os_str();
        let arguments = [executable, OsStr::new("check")]
            .into_iter()
            .chain(supervisor.plan.source.arguments());
        let program = Program {
            path: CString::new(executable.as_bytes())?,
            arguments: arguments
                .map(|argument| CString::new(argument.as_bytes()))
                .collect::<Result<_, _>>()?,
            environment: takeover::variables(environment, None)?,
            descriptors: vec![
                File::open("/dev/null")?.into(),
                writer.try_clone()?.into(),
                writer.into(),
            ],
            identity: None,
            umask: 0o077,
            descriptor_limit: None,
            death_signal: Some(SIGKILL),
        };
        Ok(Check {
            pid: program.start()?,
            until: Instant::now() + CHECK_TIMEOUT,
            pipe: Some(File::from(std::os::fd::OwnedFd::from(reader))),
            output: Vec::new(),
            exit: None,
        })
    }

    /// What to wait for.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what it says.
    pub(super) fn read(&mut self) {
        let mut room = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut room) {
                Ok(length) if length > 0 => {
                    let wanted = LONGEST_OUTPUT.saturating_sub(self.output.len()).min(length);
                    self.output.extend_from_slice(&room[..wanted]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// Takes note of its end; `false` if it is somebody else's.
    pub(super) fn ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let ours = self.pid == pid;
        if ours {
            self.read();
            self.exit = Some(exit);
        }
        ours
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // It is reaped as somebody unknown.
            let _ = self.pid.signal(SIGKILL);
        }
    }
}

impl Supervisor {
    /// Lets the program that is now in the place of ours take over, if it can.
    pub(super) fn upgrade(&mut self) {
        if self.stopping || self.check.is_some() {
            return;
        }
        if self.change.is_some() {
            self.upgrade_wanted = true;
            return;
        }
        let program = self.environment.executable.display().to_string();
        self.say(Level::Notice, &format!("asking {program} to look at the configuration"));
        match Check::start(self) {
            Ok(check) => self.check = Some(check),
            Err(error) => self.say(
                Level::Error,
                &format!("{program} cannot be run, so this program goes on: {error}"),
            ),
        }
    }

    pub(super) fn keep_time_of_upgrade(&mut self, now: Instant) {
        let over = self.check.take_if(|check| check.exit.is_some() || now >= check.until);
        let Some(check) = over else { return };
        let program = self.environment.executable.display();
        let why = match check.exit {
            Some(Exit::Status(0)) if self.change.is_some() => {
                // A reload came between. The next look is at what it brings.
                self.upgrade_wanted = true;
                return;
            }
            Some(Exit::Status(0)) => {
                self.say(Level::Notice, &format!("{program} takes over"));
                match self.hand_over() {
                    Ok(never) => match never {},
                    Err(error) => error.to_string(),
                }
            }
            Some(exit) => format!("its check of the configuration {exit}"),
            None => "its check of the configuration took too long".to_owned(),
        };
        let program = program.to_string();
        for line in String::from_utf8_lossy(&check.output).lines() {
            self.say(Level::Error, line);
        }
        self.say(
            Level::Error,
            &format!("{program} cannot take over, so this program goes on: {why}"),
        );
    }

    fn hand_over(&self) -> io::Result<std::convert::Infallible> {
        let mut testament = Testament::default();
        let none = OsStr::new("");
        testament.line(&["next", &self.next_number.to_string()], &[], none)?;
        if let Some(state) = &self.environment.state {
            testament.line(&["state"], &[], state.as_os_str())?;
        }
        if let Some(control) = &self.control {
            testament.line(&["control"], &[control.as_fd()], control.path.as_os_str())?;
        }
        for listener in &self.listeners {
            testament.line(
                &["listener"],
                &[listener.socket.as_fd()],
                listener.configured.to_string().as_ref(),
            )?;
        }
        for generation in &self.generations {
            generation.bequeath(&mut testament)?;
        }
        Err(testament.execute(&self.environment))
    }
}

impl Generation {
    fn bequeath<'d>(&'d self, testament: &mut Testament<'d>) -> io::Result<()> {
        let none = OsStr::new("");
        let phase = if self.phase == Phase::Serving {
            "serving"
        } else {
            "draining"
        };
        testament.line(&["generation", &self.number.to_string(), phase], &[], none)?;
        if let Some(front) = &self.front
            && let Some(channel) = &front.channel
        {
            testament.line(&["front", &front.pid.to_string()], &[channel.as_fd()], none)?;
        }
        for pool in &self.pools {
            if let (Some(zygote), Some(lines)) = (&pool.zygote, &pool.lines)
                && let Some(socket) = &zygote.socket
            {
                let descriptors = [socket.as_fd(), lines.as_fd()];
                testament.line(
                    &["pool", &zygote.pid.to_string()],
                    &descriptors,
                    OsStr::new(&pool.name),
                )?;
            }
        }
        Ok(())
    }
}

impl Heir {
    /// As a generation of this program, which can only let it end.
    pub(super) fn into_generation(self) -> io::Result<Generation> {
        let draining = Phase::Draining { until: Instant::now() + USUAL_DRAIN };
        let pools = self.pools.into_iter().map(Pool::adopt).collect::<io::Result<_>>()?;
        Ok(Generation {
            number: self.number,
            config: None,
            logs: None,
            front: self.front.map(|(pid, channel)| FrontProcess::adopt(pid, channel)),
            pools,
            links: Vec::new(),
            phase: if self.serving { Phase::Serving } else { draining },
        })
    }
}
