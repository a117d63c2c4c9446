//! The start and the end of the supervisor.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::id;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use howdah_config::ListenAddress;
use howdah_sys::process;
use howdah_sys::signal::{
    self, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, Signals,
};

use super::Supervisor;
use super::backoff::Backoff;
use super::certificates::CertificateFiles;
use super::cgroups::ControlGroups;
use super::change::ChangeCause;
use super::control::{ControlCommand, ControlSocket};
use super::datagrams::Datagrams;
use super::environment::Environment;
use super::front_process::RunFront;
use super::front_protocol;
use super::generation_plan::FormerFiles;
use super::listeners::BoundListener;
use super::oom;
use super::orders::CertificateOrders;
use super::orphans::OrphanSearch;
use super::plan::{ServePlan, SiteSource};
use super::probation::FormerAnswers;
use super::releases::Releases;
use super::service_manager::ServiceManager;
use super::sockets::{MissingListeners, Sockets};
use super::state;
use super::takeover::Inheritance;
use super::unix_socket::SocketFile;
use crate::log::{ErrorLog, Level, LogTarget, SiteLogs};
use crate::observe::Ledger;
use crate::tls::{TICKET_LIFETIME, TicketKeys};

/// The reason why the server did not start or a command failed.
#[derive(Debug, Clone)]
pub(crate) enum CommandError {
    /// The configuration or the command line has a mistake.
    Config(String),
    /// Another failure.
    Failed(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Config(reason) | CommandError::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Serves `plan` until the server is told to stop. `run_front` is the main function of a front.
///
/// # Errors
/// The server cannot start, or has to end: the reason, as text for the operator.
pub(crate) fn serve(
    plan: ServePlan,
    mut environment: Environment,
    run_front: RunFront,
) -> Result<(), CommandError> {
    let signals = prepare_process().map_err(cannot_start)?;
    let inheritance = Inheritance::claim().map_err(cannot_start)?;
    // Each pool uses a few descriptors. The limit for the pools' own processes was recorded before.
    process::raise_descriptor_limit(environment.descriptor_limit.1).map_err(cannot_start)?;
    environment.state = match &inheritance {
        Some(inheritance) => inheritance.state.clone(),
        // A folder's site has no configured place for its state, therefore the state is temporary.
        None if matches!(plan.source, SiteSource::Folder(_)) && !plan.options.no_php => Some(
            state::fresh(&environment.temporary)
                .map_err(|error| no_state(&environment.temporary, &error))?,
        ),
        None => None,
    };
    let log = LogTarget::stderr().map_err(cannot_start)?;
    let log = Arc::new(ErrorLog::new(log, Level::Info));
    let mut supervisor = Supervisor::new(plan, environment, run_front, (signals, log));
    supervisor.announced = inheritance.is_some();
    let result = match inheritance {
        None => {
            supervisor.begin(ChangeCause::Start);
            supervisor.run()
        }
        Some(inheritance) => supervisor.adopt(inheritance).and_then(|()| {
            supervisor.begin(ChangeCause::TakeOver);
            supervisor.run()
        }),
    };
    supervisor.clean_up();
    match (result, supervisor.failure) {
        (_, Some(refusal)) => Err(refusal),
        (Err(error), None) => {
            Err(CommandError::Failed(format!("the supervisor cannot go on: {error}")))
        }
        (Ok(()), None) => Ok(()),
    }
}

/// Prepares the process for its children and its signals. Returns the signals that are heard.
fn prepare_process() -> io::Result<Signals> {
    // The parent process may have set these signals to be ignored; ignored signals are never
    // delivered. SIGHUP, SIGINT and SIGQUIT keep the settings of `nohup` and of shells.
    for signal in [SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2] {
        signal::restore(signal)?;
    }
    oom::protect_supervisor();
    // Process 1 has all orphans without this.
    process::adopt_orphans()?;
    let heard = [SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2];
    let signals = Signals::block(&heard)?;
    signal::ignore_stopped_children()?;
    Ok(signals)
}

fn cannot_start(error: io::Error) -> CommandError {
    CommandError::Failed(format!("cannot start: {error}"))
}

impl Supervisor {
    /// A supervisor without a generation.
    fn new(
        plan: ServePlan,
        environment: Environment,
        run_front: RunFront,
        (signals, log): (Signals, Arc<ErrorLog>),
    ) -> Supervisor {
        let manager = ServiceManager::of(&environment.for_manager).unwrap_or_else(|why| {
            log.say(Level::Warning, None, &why);
            ServiceManager::default()
        });
        Supervisor {
            plan,
            environment,
            run_front,
            began: Instant::now(),
            began_at: SystemTime::now(),
            ledger: Ledger::default(),
            log,
            access: SiteLogs::default(),
            signals,
            sockets: Sockets::default(),
            missing_listeners: MissingListeners::default(),
            control: None,
            manager,
            pid_file: None,
            generations: Vec::new(),
            next_number: 1,
            current: None,
            preparation: None,
            change: None,
            probation: None,
            former_answers: FormerAnswers::default(),
            roll_back_to: None,
            held_plan: None,
            holding: Vec::new(),
            rolled_back: None,
            reload_wanted: false,
            reload_answer: None,
            upgrade_wanted: false,
            restart: None,
            backoff: Backoff::default(),
            orders: CertificateOrders::default(),
            check: None,
            certificate_files: CertificateFiles::default(),
            releases: Releases::default(),
            inherited_lists: Vec::new(),
            inherited_measurements: Vec::new(),
            inherited_held: Vec::new(),
            inherited_files: FormerFiles::default(),
            ticket_keys: TicketKeys::default(),
            ticket_keys_due: None,
            orphans: OrphanSearch::default(),
            output_readers: Vec::new(),
            graveyard: Vec::new(),
            stopping: false,
            failure: None,
            announced: false,
        }
    }
}

/// Writes a new file and renames it to `path`. A link at `path` is replaced, and never written
/// through.
fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&fresh);
    written?.write_all(text.as_bytes())?;
    fs::rename(&fresh, path)
}

fn no_state(temporary: &Path, error: &io::Error) -> CommandError {
    let folder = temporary.display();
    CommandError::Failed(format!(
        "cannot create a folder for sessions and uploads in {folder}: {error}; set TMPDIR to a \
         writable folder"
    ))
}

impl Supervisor {
    /// Takes over the processes and sockets of the program that this one replaces.
    fn adopt(&mut self, inheritance: Inheritance) -> io::Result<()> {
        let Inheritance {
            next_number,
            state: _,
            tickets,
            control,
            listeners,
            sockets,
            admin_listeners,
            admin_sockets,
            datagrams,
            totals,
            generations,
            lists,
            pool_memory,
            measurements,
            held,
            closed,
            authorities,
            pairs,
        } = inheritance;
        self.inherited_lists = lists;
        self.environment.pool_memory.inherit(pool_memory);
        self.inherited_measurements = measurements;
        self.inherited_held = held;
        self.inherited_files.closed = closed;
        if let Some(memory) = pairs {
            self.inherited_files.pairs = front_protocol::read_pairs(memory)?;
        }
        for (memory, path) in authorities {
            let text = front_protocol::read_memory(memory)?;
            self.inherited_files.authorities.push((path, text));
        }
        self.ledger = Ledger::inherit(totals);
        self.next_number = next_number;
        if let Some(tickets) = tickets {
            self.ticket_keys = front_protocol::read_ticket_keys(tickets)?;
            self.ticket_keys_due = Some(Instant::now() + TICKET_LIFETIME);
        }
        self.environment.cgroups = ControlGroups::reopen(self.environment.identity.is_root())
            .map(|groups| Ok(groups.into()));
        for (socket, configured) in listeners {
            self.sockets.listeners.push(BoundListener::tcp(configured, socket)?);
        }
        for (socket, path) in sockets {
            let file = SocketFile::at(&path);
            self.sockets.listeners.push(BoundListener::unix(&path, socket, file));
        }
        self.sockets.datagrams = Datagrams::inherit(datagrams)?;
        for (socket, configured) in admin_listeners {
            self.sockets.admin.push(BoundListener::tcp(configured, socket)?);
        }
        for (socket, path) in admin_sockets {
            let file = SocketFile::at(&path);
            self.sockets.admin.push(BoundListener::unix(&path, socket, file));
        }
        if let Some((listener, path)) = control {
            let file = SocketFile::at(&path);
            self.control = Some(ControlSocket::of(path, listener, file)?);
        }
        for inherited in generations {
            self.generations.push(inherited.into_generation(&self.environment)?);
        }
        Ok(())
    }

    /// Prints the addresses on standard output, without those of `former`, which were printed
    /// before. Requests to them are answered from now on.
    pub(super) fn announce(&self, former: &[ListenAddress]) {
        let is_new = |one: &&BoundListener| !former.contains(&one.actual);
        let line = |listener: &BoundListener| format!("howdah: listening on {}\n", listener.url());
        // One write: a reader that has seen the first line has all of them.
        let lines: String = self.sockets.listeners.iter().filter(is_new).map(line).collect();
        let mut out = io::stdout().lock();
        // A closed standard output is not an error.
        let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes the process id to the wanted file, and removes the former file.
    pub(super) fn write_pid_file(&mut self, wanted: Option<&Path>) {
        if self.pid_file.as_deref() == wanted {
            return;
        }
        if let Some(former) = self.pid_file.take() {
            let _ = fs::remove_file(former);
        }
        let Some(path) = wanted else { return };
        match replace_file(path, &format!("{}\n", id())) {
            Ok(()) => self.pid_file = Some(path.to_owned()),
            Err(error) => self
                .say(Level::Error, &format!("cannot write `pid_file` {}: {error}", path.display())),
        }
    }

    /// Removes the files and folders that the supervisor has created.
    fn clean_up(&mut self) {
        self.answer_all(ControlCommand::Stop, Ok("stopped"));
        self.preparation = None;
        self.releases.stop();
        self.change = None;
        self.sockets = Sockets::default();
        if let Some(groups) = self.environment.control_groups() {
            groups.remove();
        }
        if let Some(control) = self.control.take() {
            control.remove();
        }
        if let Some(file) = self.pid_file.take() {
            let _ = fs::remove_file(file);
        }
        if let Some(state) = &self.environment.state
            && let Err(error) = fs::remove_dir_all(state)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.say(
                Level::Warning,
                &format!("cannot remove the folder {}: {error}", state.display()),
            );
        }
        self.log.finish();
    }
}
