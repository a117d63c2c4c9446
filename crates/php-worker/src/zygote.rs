//! The zygote: starts PHP once, and forks the workers of its pool.
//!
//! The zygote has one thread and one event loop, over the supervisor's socket (descriptor 3), the
//! front's socket (descriptor 4) and its signals. It runs no requests, therefore all workers share
//! the memory pages that PHP wrote during its start. Descriptors 5 and 6 are the two ends of the
//! socket for the workers' output.

mod messages;
mod output;
mod twin;
mod warmup;
mod workers;

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use howdah_ipc::Geometry;
use howdah_ipc::control::{AttachMessage, FromZygote, MOST_BYTES, ToZygote};
use howdah_ipc::worker::Attachment;
use howdah_ipc::worker_set::WorkerSet;
use howdah_sys::descriptor;
use howdah_sys::poll;
use howdah_sys::process::{ArgumentMemory, adopt_orphans, set_name};
use howdah_sys::seqpacket::SeqPacket;
use howdah_sys::signal::{SIGCHLD, SIGKILL, SIGTERM, Signals};

use self::messages::{receive, settings, unexpected};
use self::output::{OutputKeeper, WorkerOutputs};
use self::workers::{Staffing, number};
use crate::chroot::{self, PoolRoot};
use crate::death_count::DeathCount;
use crate::ini;
use crate::log::{self, Level};
use crate::lookup::EncodedSlashMeaning;
use crate::process::{self, RawPid};
use crate::sapi::Engine;
use crate::slow_log::SlowLog;
use crate::start;
use crate::start_backoff::StartBackoff;
use crate::uploads::UploadFolder;

/// Descriptor of the supervisor's socket.
const SUPERVISOR: i32 = 3;
/// Descriptor of the front's socket.
const FRONT: i32 = 4;
/// Descriptors of the socket in which the pipes of the workers' output lie.
const OUTPUTS: [i32; 2] = [5, 6];
/// The name of a zygote that no front uses yet, for `ps`.
const STANDBY: &CStr = c"howdah-standby";
/// The name of a zygote that a front uses.
const ZYGOTE: &CStr = c"howdah-zygote";
/// Time that workers have to finish when the supervisor or the front has gone.
const ORPHANS_GRACE: Duration = Duration::from_secs(3);

/// Runs the zygote until the last worker has ended.
pub fn main() -> ExitCode {
    let sockets = || -> io::Result<_> {
        let socket = |number| descriptor::inherited(number).map(SeqPacket::from);
        // A supervisor of another version, which is told so, has not got them.
        let outputs = socket(OUTPUTS[0]).and_then(|into| Ok((into, socket(OUTPUTS[1])?)));
        let keeper = outputs.ok().map(|(into, from)| OutputKeeper::new(into, from)).transpose()?;
        Ok((socket(SUPERVISOR)?, socket(FRONT)?, keeper))
    };
    let (supervisor, front, keeper) = match sockets() {
        Ok(sockets) => sockets,
        Err(error) => {
            eprintln!("howdah-php zygote: {error}; this command is started by howdah only");
            return ExitCode::from(crate::EXIT_USAGE);
        }
    };
    match RunningZygote::start(&supervisor, front, keeper) {
        Ok(zygote) => match zygote.run(supervisor) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                log::write(
                    Level::Error,
                    format!("the zygote ends and will be replaced: {error}").as_bytes(),
                    None,
                );
                ExitCode::FAILURE
            }
        },
        Err(reason) => {
            let _ = supervisor.send(&FromZygote::Failed { reason }.encode(), &[]);
            ExitCode::FAILURE
        }
    }
}

/// The zygote that this process is, with what its workers get.
struct RunningZygote {
    /// Each child gets a copy with the rest of the memory.
    engine: Engine,
    /// `on`, or the reason why opcache is off.
    opcache: String,
    /// The number of PHP's settings, as in [`FromZygote::Ready`].
    settings: u64,
    front: SeqPacket,
    signals: Signals,
    pool: CString,
    max_requests: u64,
    max_memory: u64,
    has_pcntl: bool,
    /// `None` where they cannot be changed: then workers have the zygote's in `ps`.
    arguments: Option<ArgumentMemory>,
    modules: String,
    /// See [`WorkerFacts::slashes`](crate::php_request::WorkerFacts::slashes).
    slashes: EncodedSlashMeaning,
    slow_log: Option<SlowLog>,
    /// See [`WorkerOrders`](crate::worker::WorkerOrders).
    separates_workers: bool,
    /// See [`WorkerOrders`](crate::worker::WorkerOrders).
    processor_seconds: u64,
    /// The workers' root folder, if it is not the zygote's.
    root: Option<PoolRoot>,
    /// Working directory outside of scripts; `None` for any.
    working_directory: Option<PathBuf>,
    /// Folder of the pool's sessions; see [`sessions`](crate::worker::WorkerOrders::sessions).
    sessions: Option<PathBuf>,
    /// The folders of uploaded files, if they are the pool's own.
    uploads: Option<UploadFolder>,
    region: RegionState,
    /// By place: the worker, and the time of its start.
    workers: Vec<Option<(RawPid, Instant)>>,
    outputs: WorkerOutputs,
    /// The workers to keep alive.
    wanted: WorkerSet,
    /// The delay after deaths before the first request.
    backoff: StartBackoff,
    deaths: DeathCount,
    /// Times of the last replacements of workers that died unexpectedly.
    replaced: VecDeque<Instant>,
    /// The workers were told to finish; the zygote ends with the last of them.
    ending: bool,
    /// Time at which the remaining workers are killed.
    deadline: Option<Instant>,
}

/// The pool's shared memory. The front sends its descriptors in several packets.
enum RegionState {
    Awaited { descriptors: Vec<OwnedFd> },
    Attached(Attachment),
}

impl RunningZygote {
    /// Reads the settings, starts PHP and reports the result to the supervisor.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    fn start(
        supervisor: &SeqPacket,
        front: SeqPacket,
        keeper: Option<OutputKeeper>,
    ) -> Result<RunningZygote, String> {
        let text = |error: io::Error| error.to_string();
        // At once: the sockets must not be taken by another process of the same user.
        howdah_sys::process::set_opaque(true).map_err(text)?;
        let (settings, list) = settings(supervisor)?;
        howdah_sys::process::set_opaque(settings.is_opaque).map_err(text)?;
        // Text that a library prints to standard output belongs to the log as well.
        descriptor::replace(io::stdout().as_fd(), io::stderr().as_fd()).map_err(text)?;
        process::install_handlers().map_err(text)?;
        // Until a front uses the zygote.
        set_name(STANDBY);
        // Processes that outlive the worker that started them are found at the end of the pool.
        adopt_orphans().map_err(text)?;
        let signals = Signals::block(&[SIGCHLD, SIGTERM]).map_err(text)?;
        let root = PoolRoot::of(&settings)?;
        let (mut engine, facts) = start::php(&settings, root.as_ref())?;
        start::check_version(&engine.php_version(), &settings.php_version)?;
        let state = chroot::inside_text(root.as_ref(), &settings.state_dir);
        let sessions = ini::own_sessions(&state, &[&settings.ini, &settings.admin_ini]);
        let given = [settings.ini.as_slice(), &settings.admin_ini];
        let uploads = ini::own_uploads(&settings.state_dir, &given)
            .and_then(|folder| UploadFolder::create_or_tell(Path::new(&folder)));
        let working_directory = start::working_directory(&settings)?;
        if let Some(root) = &root {
            start::check_root(root, working_directory.as_deref())?;
        }
        let ready = FromZygote::Ready {
            php_version: engine.php_version(),
            opcache: facts.opcache.clone(),
            settings: facts.settings,
            warmup: list.and_then(|list| warmup::run(&mut engine, list, &settings, root.as_ref())),
        }
        .encode();
        supervisor.send(&ready, &[]).map_err(text)?;
        front.send(&ready, &[]).map_err(text)?;
        uploads.iter().for_each(UploadFolder::sweep_beside);
        Ok(RunningZygote {
            engine,
            opcache: facts.opcache,
            settings: facts.settings,
            front,
            signals,
            slashes: EncodedSlashMeaning::of(&settings),
            pool: CString::new(settings.pool).map_err(|error| error.to_string())?,
            max_requests: settings.max_requests,
            max_memory: settings.max_memory,
            has_pcntl: settings.pcntl,
            arguments: ArgumentMemory::own().ok(),
            modules: settings.modules,
            slow_log: (settings.slow_milliseconds > 0).then(|| SlowLog {
                after: Duration::from_millis(settings.slow_milliseconds),
                depth: usize::try_from(settings.slow_trace_depth).unwrap_or(usize::MAX),
            }),
            separates_workers: settings.separates_workers,
            processor_seconds: settings.processor_seconds,
            root,
            working_directory,
            sessions: sessions.map(PathBuf::from),
            uploads,
            region: RegionState::Awaited { descriptors: Vec::new() },
            workers: Vec::new(),
            outputs: WorkerOutputs::new(keeper),
            wanted: WorkerSet::default(),
            backoff: StartBackoff::default(),
            deaths: DeathCount::default(),
            replaced: VecDeque::new(),
            ending: false,
            deadline: None,
        })
    }

    /// Runs the event loop until the end: handles messages and signals, and keeps the wanted
    /// workers alive.
    fn run(mut self, supervisor: SeqPacket) -> io::Result<()> {
        let mut buffer = vec![0; MOST_BYTES];
        let mut supervisor = Some(supervisor);
        let mut front_lives = true;
        loop {
            self.reap()?;
            if self.ending && self.workers.iter().all(Option::is_none) {
                self.finish();
                return Ok(());
            }
            let wait = match self.staff()? {
                Staffing::All => None,
                Staffing::Later(wait) => Some(wait),
                Staffing::Child { index, parent, output } => {
                    drop(supervisor); // It is not for scripts to find.
                    self.become_worker(index, parent, output)
                }
            };
            self.outputs.keep();
            let wait = [wait, self.outputs.wait(Instant::now())].into_iter().flatten().min();
            let mut sources = vec![self.signals.as_fd()];
            // A socket at its end would be readable forever.
            sources.extend(supervisor.as_ref().map(AsFd::as_fd));
            sources.extend(front_lives.then(|| self.front.as_fd()));
            let first_output = sources.len();
            sources.extend(self.outputs.sources());
            let mut readable = poll::readable(&sources, wait)?;
            self.outputs.forward(&readable.split_off(first_output), Instant::now());
            if readable[0] {
                self.take_signals()?;
            }
            let supervisor_spoke = supervisor.is_some() && readable[1];
            let front_spoke = front_lives && readable[readable.len() - 1];
            if let Some(socket) = supervisor.as_ref().filter(|_| supervisor_spoke) {
                match receive(socket, &mut buffer)? {
                    Some((ToZygote::ForkTwin, sockets)) => {
                        if let Some(of_twin) = self.fork_twin(sockets) {
                            (supervisor, front_lives) = (Some(of_twin), true);
                            continue;
                        }
                    }
                    Some((message, descriptors)) => self.obey(message, descriptors)?,
                    None => {
                        supervisor = None;
                        self.orphaned();
                    }
                }
            }
            if front_spoke {
                match receive(&self.front, &mut buffer)? {
                    Some((message, descriptors)) => self.obey(message, descriptors)?,
                    None => {
                        front_lives = false;
                        self.orphaned();
                    }
                }
            }
        }
    }

    /// Obeys the signals that have arrived. Ends of children only wake the event loop.
    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(arrived) = self.signals.take()? {
            if arrived.signal == SIGTERM {
                self.end();
            }
        }
        Ok(())
    }

    /// Ends the pool: all workers have ended.
    fn finish(self) {
        process::end_orphans();
        self.outputs.close();
        self.engine.stop();
        self.uploads.into_iter().for_each(UploadFolder::remove);
    }

    fn obey(&mut self, message: ToZygote, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match message {
            ToZygote::Settings(_) => return Err(unexpected("settings twice")),
            ToZygote::Attach { geometry, total } => self.attach(geometry, total, descriptors)?,
            ToZygote::Keep(workers) => {
                self.wanted = workers;
                for index in 0..self.workers.len() {
                    if !self.wanted.has(index) {
                        self.dismiss(index);
                    }
                }
            }
            ToZygote::Kill { worker, pid, signal } => {
                let meant =
                    usize::try_from(worker).ok().and_then(|worker| *self.workers.get(worker)?);
                if let Some((child, _)) = meant.filter(|&(child, _)| number(child) == pid) {
                    process::kill(child, i32::try_from(signal).unwrap_or(SIGKILL));
                }
            }
            ToZygote::Stop => self.end(),
            ToZygote::ListScripts => {
                descriptors.into_iter().for_each(|list| warmup::list(&mut self.engine, list));
            }
            // The front has no need of a twin.
            ToZygote::ForkTwin => return Err(unexpected("the order to fork a twin by its front")),
            ToZygote::CompileScripts => {
                warmup::run_beside(&mut self.engine, descriptors, self.root.as_ref());
            }
            ToZygote::Clean(cleaning) => {
                if let RegionState::Attached(attachment) = &self.region {
                    // A kernel that does not release the memory keeps it; the slot is as good.
                    let _ = attachment.clean(cleaning);
                }
                self.tell(&FromZygote::Cleaned { slot: cleaning.slot })?;
            }
        }
        Ok(())
    }

    fn attach(&mut self, geometry: Geometry, total: u64, mut more: Vec<OwnedFd>) -> io::Result<()> {
        let RegionState::Awaited { descriptors } = &mut self.region else {
            return Err(unexpected("a second region"));
        };
        descriptors.append(&mut more);
        if descriptors.len() as u64 >= total {
            let descriptors = std::mem::take(descriptors);
            set_name(ZYGOTE);
            self.region =
                RegionState::Attached(Attachment::new(AttachMessage { geometry, descriptors })?);
            self.workers = vec![None; geometry.workers];
            self.outputs.expect(geometry.workers)?;
        }
        Ok(())
    }

    /// Tells every worker to finish. The zygote ends after the last worker.
    fn end(&mut self) {
        self.ending = true;
        for index in 0..self.workers.len() {
            self.dismiss(index);
        }
    }

    /// The supervisor or the front has gone: ends the workers within a short time.
    fn orphaned(&mut self) {
        self.end();
        self.deadline.get_or_insert_with(|| Instant::now() + ORPHANS_GRACE);
    }

    /// Sends a message to the front. A failure is ignored: the event loop notices that the front
    /// has gone.
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
