//! The zygote: starts PHP once, and forks the pool's workers from it.
//!
//! It has one thread and one loop, over the supervisor's socket (descriptor 3), the front's (4) and
//! its own signals. It runs no request itself, so what PHP set up at its start is shared by all
//! workers, page for page.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use howdah_ipc::control::{Attach, FromZygote, MOST_BYTES, PoolSettings, ToZygote};
use howdah_ipc::worker::Attachment;
use howdah_ipc::{Geometry, layout::MOST_WORKERS};
use howdah_sys::descriptor;
use howdah_sys::poll;
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::{SIGCHLD, SIGKILL, SIGTERM, Signals};

use crate::ini;
use crate::log::{self, Level};
use crate::process::{self, Fork, Pid};
use crate::sapi::Engine;
use crate::start;
use crate::worker::{self, Orders};

/// Where the supervisor's socket stands.
const SUPERVISOR: i32 = 3;
/// Where the front's socket stands.
const FRONT: i32 = 4;
/// How long workers may go on when the supervisor or the front is gone.
const ORPHANS_GRACE: Duration = Duration::from_secs(3);
/// Workers that died of something else than their orders are replaced at once, up to so many per
/// second. Beyond, they wait: a pool whose workers cannot live must not eat the machine.
const MOST_REPLACED_PER_SECOND: usize = 100;
/// A system without room for another process is asked again after this.
const FORK_AGAIN: Duration = Duration::from_secs(1);

/// A zygote's life.
pub fn main() -> ExitCode {
    let sockets = || -> io::Result<_> {
        let supervisor = SeqPacket::from(descriptor::inherited(SUPERVISOR)?);
        Ok((supervisor, SeqPacket::from(descriptor::inherited(FRONT)?)))
    };
    let (supervisor, front) = match sockets() {
        Ok(sockets) => sockets,
        Err(error) => {
            eprintln!("howdah-php zygote: {error}; it is for howdah to start");
            return ExitCode::from(crate::EXIT_USAGE);
        }
    };
    match Zygote::start(&supervisor, front) {
        Ok(zygote) => match zygote.run(supervisor) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log::write(Level::Error, format!("the zygote ends: {error}").as_bytes(), None);
                ExitCode::FAILURE
            }
        },
        Err(reason) => {
            let _ = supervisor.send(&FromZygote::Failed { reason }.encode(), &[]);
            ExitCode::FAILURE
        }
    }
}

struct Zygote {
    /// Moves into each child with the rest of the memory.
    engine: Engine,
    front: SeqPacket,
    signals: Signals,
    pool: CString,
    max_requests: u64,
    /// See [`Orders::sessions`].
    sessions: Option<PathBuf>,
    region: Region,
    workers: Vec<Option<Pid>>,
    /// Workers `0..wanted` are kept alive.
    wanted: usize,
    /// When the last workers were replaced that died against their orders.
    replaced: VecDeque<Instant>,
    /// Set once the end has been asked for.
    ending: bool,
    /// When the rest is killed.
    deadline: Option<Instant>,
}

/// The pool's shared memory, as it comes in from the front.
enum Region {
    Awaited { descriptors: Vec<OwnedFd> },
    Attached(Attachment),
}

/// What came of looking for missing workers.
enum Staffed {
    /// None is missing any more.
    All,
    /// Some have to wait.
    Later(Duration),
    /// This is the child that becomes worker `index`.
    Child { index: usize, parent: Pid },
}

impl Zygote {
    /// Reads the settings, starts PHP and reports. `Err` is for the supervisor's user to read.
    fn start(supervisor: &SeqPacket, front: SeqPacket) -> Result<Zygote, String> {
        let settings = settings(supervisor)?;
        let text = |error: io::Error| error.to_string();
        // What a library prints belongs to the log as well.
        descriptor::replace(io::stdout().as_fd(), io::stderr().as_fd()).map_err(text)?;
        process::install_handlers().map_err(text)?;
        let signals = Signals::block(&[SIGCHLD, SIGTERM]).map_err(text)?;
        let (engine, opcache) = start::php(&settings)?;
        let sessions =
            ini::own_sessions(&settings.state_dir, &[&settings.ini, &settings.admin_ini]);
        let ready = FromZygote::Ready {
            php_version: engine.php_version(),
            opcache,
        }
        .encode();
        supervisor.send(&ready, &[]).map_err(text)?;
        front.send(&ready, &[]).map_err(text)?;
        Ok(Zygote {
            engine,
            front,
            signals,
            pool: CString::new(settings.pool).map_err(|error| error.to_string())?,
            max_requests: settings.max_requests,
            sessions: sessions.map(PathBuf::from),
            region: Region::Awaited { descriptors: Vec::new() },
            workers: Vec::new(),
            wanted: 0,
            replaced: VecDeque::new(),
            ending: false,
            deadline: None,
        })
    }

    /// Until the end: reacts to whoever speaks, and keeps the wanted workers alive.
    fn run(mut self, supervisor: SeqPacket) -> io::Result<()> {
        let mut room = vec![0; MOST_BYTES];
        let mut supervisor = Some(supervisor);
        let mut front_lives = true;
        loop {
            self.reap()?;
            if self.ending && self.workers.iter().all(Option::is_none) {
                self.engine.stop();
                return Ok(());
            }
            let wait = match self.staff()? {
                Staffed::All => None,
                Staffed::Later(wait) => Some(wait),
                Staffed::Child { index, parent } => {
                    drop(supervisor); // It is not for scripts to find.
                    self.become_worker(index, parent)
                }
            };
            let mut sources = vec![self.signals.as_fd()];
            // A socket that has ended would be readable for ever.
            sources.extend(supervisor.as_ref().map(AsFd::as_fd));
            sources.extend(front_lives.then(|| self.front.as_fd()));
            let readable = poll::readable(&sources, wait)?;
            if readable[0] {
                while let Some(arrived) = self.signals.take()? {
                    if arrived.signal == SIGTERM {
                        self.end();
                    }
                }
            }
            let supervisor_spoke = supervisor.is_some() && readable[1];
            let front_spoke = front_lives && readable[readable.len() - 1];
            if let Some(socket) = supervisor.as_ref().filter(|_| supervisor_spoke) {
                match receive(socket, &mut room)? {
                    Some((message, descriptors)) => self.obey(message, descriptors)?,
                    None => {
                        supervisor = None;
                        self.orphaned();
                    }
                }
            }
            if front_spoke {
                match receive(&self.front, &mut room)? {
                    Some((message, descriptors)) => self.obey(message, descriptors)?,
                    None => {
                        front_lives = false;
                        self.orphaned();
                    }
                }
            }
        }
    }

    fn obey(&mut self, message: ToZygote, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message {
            ToZygote::Settings(_) => return Err(unexpected("settings twice")),
            ToZygote::Attach { geometry, total } => self.attach(geometry, total, descriptors)?,
            ToZygote::Scale { count } => {
                self.wanted =
                    usize::try_from(count).unwrap_or(MOST_WORKERS).min(self.workers.len());
                for index in self.wanted..self.workers.len() {
                    self.dismiss(index);
                }
            }
            ToZygote::Kill { worker, pid, signal } => {
                let meant =
                    usize::try_from(worker).ok().and_then(|worker| *self.workers.get(worker)?);
                if let Some(child) = meant.filter(|&child| u64::try_from(child) == Ok(pid)) {
                    process::kill(child, i32::try_from(signal).unwrap_or(SIGKILL));
                }
            }
            ToZygote::Stop => self.end(),
        }
        Ok(())
    }

    fn attach(&mut self, geometry: Geometry, total: u64, mut more: Vec<OwnedFd>) -> io::Result<()> {
        let Region::Awaited { descriptors } = &mut self.region else {
            return Err(unexpected("a second region"));
        };
        descriptors.append(&mut more);
        if descriptors.len() as u64 >= total {
            let descriptors = std::mem::take(descriptors);
            self.region = Region::Attached(Attachment::new(Attach { geometry, descriptors })?);
            self.workers = vec![None; geometry.workers];
        }
        Ok(())
    }

    /// Forks the workers that are missing.
    fn staff(&mut self) -> io::Result<Staffed> {
        let now = Instant::now();
        if let Some(deadline) = self.deadline {
            if now >= deadline {
                self.workers.iter().flatten().for_each(|&child| process::kill(child, SIGKILL));
            }
            return Ok(Staffed::Later(
                deadline.saturating_duration_since(now).max(Duration::from_millis(100)),
            ));
        }
        while self.replaced.front().is_some_and(|&then| now - then >= Duration::from_secs(1)) {
            self.replaced.pop_front();
        }
        if self.replaced.len() > MOST_REPLACED_PER_SECOND {
            let oldest = self.replaced[0];
            return Ok(Staffed::Later(oldest + Duration::from_secs(1) - now));
        }
        let wanted = if self.ending { 0 } else { self.wanted };
        let parent = process::id();
        for index in 0..wanted {
            if self.workers[index].is_some() {
                continue;
            }
            match process::fork() {
                Err(error) => {
                    log::write(
                        Level::Error,
                        format!("cannot fork a worker: {error}").as_bytes(),
                        None,
                    );
                    return Ok(Staffed::Later(FORK_AGAIN));
                }
                Ok(Fork::Child) => return Ok(Staffed::Child { index, parent }),
                Ok(Fork::Parent(child)) => {
                    self.workers[index] = Some(child);
                    self.tell(&FromZygote::Started { worker: index as u64, pid: number(child) })?;
                }
            }
        }
        Ok(Staffed::All)
    }

    /// In the child: keeps what a worker needs, and nothing that scripts could use against the
    /// pool.
    fn become_worker(self, index: usize, parent: Pid) -> ! {
        let Zygote {
            engine,
            front,
            signals,
            pool,
            max_requests,
            sessions,
            region,
            ..
        } = self;
        drop(front);
        drop(signals);
        let Region::Attached(attachment) = region else {
            process::exit_now(1)
        };
        worker::main(
            engine,
            attachment,
            Orders {
                index,
                pool: &pool,
                max_requests,
                sessions: sessions.as_deref(),
                parent,
            },
        )
    }

    /// Takes note of the children that have ended.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((child, status)) = process::reap() {
            let Some(index) = self.workers.iter().position(|&worker| worker == Some(child)) else {
                continue;
            };
            self.workers[index] = None;
            if let Region::Attached(attachment) = &self.region {
                attachment.bury(index);
            }
            if !process::is_success(status) {
                self.replaced.push_back(Instant::now());
                if self.replaced.len() == MOST_REPLACED_PER_SECOND {
                    log::write(Level::Error, b"workers die faster than they are replaced", None);
                }
            }
            self.tell(&FromZygote::Died {
                worker: index as u64,
                pid: number(child),
                status: u64::from(status.unsigned_abs()),
            })?;
        }
        Ok(())
    }

    /// Lets a worker finish what it runs, and end.
    fn dismiss(&self, index: usize) {
        if let (Some(child), Region::Attached(attachment)) = (self.workers[index], &self.region) {
            process::kill(child, SIGTERM);
            attachment.nudge(index);
        }
    }

    /// Lets every worker finish, and ends with the last.
    fn end(&mut self) {
        self.ending = true;
        for index in 0..self.workers.len() {
            self.dismiss(index);
        }
    }

    /// Nobody will ever read what the workers write, or nobody looks after this pool any more.
    fn orphaned(&mut self) {
        self.end();
        self.deadline.get_or_insert_with(|| Instant::now() + ORPHANS_GRACE);
    }

    /// Speaks to the front. If it is gone, its socket says so in its own time.
    fn tell(&self, message: &FromZygote) -> io::Result<()> {
        match self.front.send(&message.encode(), &[]) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

fn settings(supervisor: &SeqPacket) -> Result<PoolSettings, String> {
    let mut room = vec![0; MOST_BYTES];
    match receive(supervisor, &mut room) {
        Ok(Some((ToZygote::Settings(settings), _))) => Ok(settings),
        Ok(_) => Err("no settings came from the supervisor".to_owned()),
        Err(error) => Err(format!("cannot read the supervisor's settings: {error}")),
    }
}

/// A message with its descriptors; `None` at the end.
fn receive(socket: &SeqPacket, room: &mut [u8]) -> io::Result<Option<(ToZygote, Vec<OwnedFd>)>> {
    let received = match socket.receive(room) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        other => other?,
    };
    if received.length == 0 {
        return Ok(None);
    }
    if received.truncated {
        return Err(unexpected("a message that is too long"));
    }
    Ok(Some((ToZygote::decode(&room[..received.length])?, received.descriptors)))
}

fn number(pid: Pid) -> u64 {
    u64::try_from(pid).unwrap_or(0)
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zygote was sent {what}"))
}
