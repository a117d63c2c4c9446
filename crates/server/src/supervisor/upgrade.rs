//! Replaces the running program by a new version. The new program checks the configuration first.
//! Everything is handed over only if the check succeeds.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use howdah_config::ListenAddress;
use howdah_sys::confinement::Confinement;
use howdah_sys::descriptor;
use howdah_sys::process::{Exit, Pid, Program};
use howdah_sys::signal::SIGKILL;

use super::environment::{Environment, variable};
use super::front_process::FrontProcess;
use super::front_protocol;
use super::generation::{Generation, GenerationPhase};
use super::generation_plan::FormerFiles;
use super::listeners::BoundListener;
use super::pool::PoolProcesses;
use super::service_manager::ServiceEvent;
use super::takeover::{self, FrontPlace, Handover, InheritedGeneration, InheritedList};
use super::{Supervisor, USUAL_DRAIN, held_releases, pool_memory};
use crate::log::Level;
use crate::tls::PairText;

/// Time in which the new program must check the configuration.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// The environment variable that tells the check which sites are closed already: their names, one
/// a line. The cause does not keep the new program from serving the others.
const CLOSED_SITES: &str = "HOWDAH_CLOSED_SITES";
/// The environment variable with the number of a descriptor that the check gets: a memory file with
/// the names of the certificates and keys that are in use. The new program gets their content.
const FORMER_PAIRS: &str = "HOWDAH_FORMER_PAIRS";
/// The number of that descriptor.
const FORMER_PAIRS_AT: usize = 3;
/// Maximum bytes of its output that are kept. The rest is left out.
const LONGEST_OUTPUT: usize = 64 * 1024;

/// A run of the new program's `howdah check`.
#[derive(Debug)]
pub(super) struct ConfigCheck {
    pid: Pid,
    pub(super) until: Instant,
    /// `None` at the end of the output.
    pipe: Option<File>,
    output: Vec<u8>,
    exit: Option<Exit>,
}

impl ConfigCheck {
    fn start(supervisor: &Supervisor) -> io::Result<ConfigCheck> {
        let environment = &supervisor.environment;
        let files = supervisor.files_in_use();
        let names: Vec<PairText> = files.pairs.iter().map(PairText::names).collect();
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
            environment: check_variables(supervisor, &files)?,
            descriptors: vec![
                File::open("/dev/null")?.into(),
                writer.try_clone()?.into(),
                writer.into(),
                front_protocol::write_pairs(&names)?,
            ],
            identity: None,
            umask: 0o077,
            descriptor_limit: None,
            death_signal: Some(SIGKILL),
            confinement: Confinement::default(),
        };
        Ok(ConfigCheck {
            pid: program.start()?,
            until: Instant::now() + CHECK_TIMEOUT,
            pipe: Some(File::from(std::os::fd::OwnedFd::from(reader))),
            output: Vec::new(),
            exit: None,
        })
    }

    /// The descriptor of the output, to wait for. `None`: all of it was read.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads the output.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut buffer) {
                Ok(length) if length > 0 => {
                    let wanted = LONGEST_OUTPUT.saturating_sub(self.output.len()).min(length);
                    self.output.extend_from_slice(&buffer[..wanted]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// The process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Records the exit of the check. Returns `false` if `pid` is another process.
    pub(super) fn ended(&mut self, pid: Pid, exit: Exit) -> bool {
        let ours = self.pid == pid;
        if ours {
            self.read();
            self.exit = Some(exit);
        }
        ours
    }
}

/// Returns the environment of the check, with what [`files_of_server`] reads.
fn check_variables(supervisor: &Supervisor, files: &FormerFiles) -> io::Result<Vec<CString>> {
    let mut variables = takeover::variables(&supervisor.environment, None)?;
    let closed = files.closed.join("\n");
    variables.push(variable(OsStr::new(CLOSED_SITES), closed.as_ref())?);
    let number = FORMER_PAIRS_AT.to_string();
    variables.push(variable(OsStr::new(FORMER_PAIRS), number.as_ref())?);
    Ok(variables)
}

/// Returns the files of the server that has started this check: which sites are closed, and the
/// names of the certificates that are in use. `None`: no server has.
///
/// # Errors
/// The variables are malformed.
pub(crate) fn files_of_server() -> io::Result<Option<FormerFiles>> {
    let Ok(closed) = std::env::var(CLOSED_SITES) else {
        return Ok(None);
    };
    let mut files = FormerFiles {
        closed: closed.lines().map(str::to_owned).collect(),
        ..FormerFiles::default()
    };
    // A former version gives no names.
    if let Some(number) = std::env::var(FORMER_PAIRS).ok().and_then(|number| number.parse().ok()) {
        files.pairs = front_protocol::read_pairs(descriptor::inherited(number)?)?;
    }
    Ok(Some(files))
}

impl Drop for ConfigCheck {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // It is reaped later as an unknown process.
            let _ = self.pid.signal(SIGKILL);
        }
    }
}

impl Supervisor {
    /// Starts the upgrade: lets the program at this program's path check the configuration.
    pub(super) fn upgrade(&mut self) {
        if self.stopping || self.check.is_some() {
            return;
        }
        if self.is_changing() {
            self.upgrade_wanted = true;
            return;
        }
        let program = self.environment.executable.display().to_string();
        let what = format!("upgrade: {program} checks the configuration");
        self.say(Level::Notice, &what);
        self.tell_manager(ServiceEvent::Reloading, &what);
        match ConfigCheck::start(self) {
            Ok(check) => self.check = Some(check),
            Err(error) => self.refuse_upgrade(&format!("cannot run {program}: {error}")),
        }
    }

    fn refuse_upgrade(&mut self, why: &str) {
        let what = format!("the server was not upgraded: {why}; the present program continues");
        self.say(Level::Error, &what);
        self.tell_manager(ServiceEvent::Ready, &what);
    }

    pub(super) fn keep_time_of_upgrade(&mut self, now: Instant) {
        let over = self.check.take_if(|check| check.exit.is_some() || now >= check.until);
        let Some(check) = over else { return };
        let program = self.environment.executable.display();
        let why = match check.exit {
            Some(Exit::Status(0)) if self.is_changing() => {
                // A reload happened during the check. Another check is made with the new
                // configuration.
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
        self.refuse_upgrade(&format!("{program}: {why}"));
    }

    /// The files of the plan that is served. Until this program serves one, those of the former
    /// program.
    pub(super) fn files_in_use(&self) -> FormerFiles {
        match &self.current {
            Some(current) => current.files(),
            None => self.inherited_files.clone(),
        }
    }

    fn hand_over(&self) -> io::Result<std::convert::Infallible> {
        let tickets = front_protocol::write_ticket_keys(&self.ticket_keys)?;
        let lists = self.asked_lists();
        let pool_memory = self.environment.pool_memory.all();
        let files = self.files_in_use();
        let pairs = front_protocol::write_pairs(&files.pairs)?;
        let authorities = files
            .authorities
            .iter()
            .map(|(path, text)| Ok((path.as_os_str(), front_protocol::write_memory(text)?)));
        let authorities: Vec<(&OsStr, OwnedFd)> = authorities.collect::<io::Result<_>>()?;
        let mut handover = Handover::default();
        let none = OsStr::new("");
        if !self.ticket_keys.is_empty() {
            handover.line(&["tickets"], &[tickets.as_fd()], none)?;
        }
        handover.line(&["next", &self.next_number.to_string()], &[], none)?;
        if let Some(state) = &self.environment.state {
            handover.line(&["state"], &[], state.as_os_str())?;
        }
        if let Some(control) = &self.control {
            handover.line(&["control"], &[control.as_fd()], control.path.as_os_str())?;
        }
        hand_over_listeners(&self.sockets.listeners, ["listener", "socket"], &mut handover)?;
        hand_over_listeners(
            &self.sockets.admin,
            ["admin-listener", "admin-socket"],
            &mut handover,
        )?;
        let secret = self.sockets.datagrams.write_secret()?;
        self.sockets.datagrams.hand_over(secret.as_ref(), &mut handover)?;
        let totals = self.ledger.totals();
        let connections = totals.connections.to_string();
        handover.line(&["connections", &connections], &[], none)?;
        handover.line(&["limits"], &[], totals.limits.encode().as_ref())?;
        for name in totals.names() {
            handover.line(&["counters", &totals.encode(name)], &[], OsStr::new(name))?;
        }
        for generation in &self.generations {
            generation.bequeath(&mut handover)?;
        }
        for InheritedList { site, uid, pipe } in &lists {
            let words = ["scripts", &uid.to_string()];
            handover.line(&words, &[pipe.as_fd()], OsStr::new(site))?;
        }
        pool_memory::hand_over(&pool_memory, &mut handover)?;
        self.hand_over_measurements(&mut handover)?;
        let held = self.current.as_ref().map_or(&[][..], |current| &current.held);
        held_releases::handover::hand_over(held, &mut handover)?;
        for name in &files.closed {
            handover.line(&["closed"], &[], OsStr::new(name))?;
        }
        for (path, memory) in &authorities {
            handover.line(&["authorities"], &[memory.as_fd()], path)?;
        }
        handover.line(&["pairs"], &[pairs.as_fd()], none)?;
        Err(handover.execute(&self.environment))
    }
}

/// `words` begin the lines of TCP listeners and of Unix sockets.
fn hand_over_listeners<'d>(
    listeners: &'d [BoundListener],
    words: [&str; 2],
    handover: &mut Handover<'d>,
) -> io::Result<()> {
    for listener in listeners {
        let socket = [listener.socket.as_fd()];
        match &listener.configured {
            ListenAddress::Tcp(address) => {
                handover.line(&words[..1], &socket, address.to_string().as_ref())?;
            }
            ListenAddress::Unix(path) => {
                handover.line(&words[1..], &socket, path.as_os_str())?;
            }
        }
    }
    Ok(())
}

impl Generation {
    fn bequeath<'d>(&'d self, handover: &mut Handover<'d>) -> io::Result<()> {
        let none = OsStr::new("");
        let phase = if self.phase == GenerationPhase::Serving {
            "serving"
        } else {
            "draining"
        };
        handover.line(&["generation", &self.number.to_string(), phase], &[], none)?;
        if let Some(front) = &self.front
            && let Some(channel) = front.channel.awaited()
        {
            handover.line(&["front", &front.pid.to_string()], &[channel], none)?;
        }
        for pool in &self.pools {
            if let (Some(zygote), Some(lines)) = (&pool.zygote, &pool.lines)
                && let Some(socket) = &zygote.socket
            {
                let descriptors = [socket.as_fd(), lines.as_fd()];
                handover.line(
                    &["pool", &zygote.pid.to_string()],
                    &descriptors,
                    OsStr::new(&pool.name),
                )?;
                let FrontPlace { position, zygote: number } = pool.front_place();
                let place = [Some(position.to_string()), number.map(|number| number.to_string())];
                let words = ["place"].into_iter().chain(place.iter().flatten().map(String::as_str));
                handover.line(&words.collect::<Vec<_>>(), &[], none)?;
                if let Some(outputs) = &zygote.outputs {
                    handover.line(&["outputs"], &[outputs.as_fd()], none)?;
                }
                if let Some((log, settings)) = pool.lends(self.config.as_deref()) {
                    handover.line(&["lender"], &[log], settings.as_ref())?;
                }
            }
        }
        Ok(())
    }
}

impl InheritedGeneration {
    /// The generation as a part of this program, which can only drain it.
    ///
    /// # Errors
    /// The errors of [`PoolProcesses::adopt`].
    pub(super) fn into_generation(self, environment: &Environment) -> io::Result<Generation> {
        let draining = GenerationPhase::Draining {
            until: Some(Instant::now() + USUAL_DRAIN),
        };
        let adopt = |pool| PoolProcesses::adopt(self.number, pool, environment);
        let pools =
            self.pools.into_iter().enumerate().map(adopt).collect::<io::Result<Vec<_>>>()?;
        Ok(Generation {
            number: self.number,
            config: None,
            logs: None,
            front: self.front.map(|(pid, channel)| FrontProcess::adopt(pid, channel)),
            planned: pools.len(),
            pools,
            channels: Vec::new(),
            phase: if self.serving {
                GenerationPhase::Serving
            } else {
                draining
            },
            counters: None,
            worker_memory: None,
            keeps_standbys: false,
            required: HashSet::new(),
            patience: HashMap::new(),
            late_at: None,
            retired_by: Vec::new(),
        })
    }
}
