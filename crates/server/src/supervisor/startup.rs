//! The beginning and the end of the supervisor.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::id;
use std::sync::Arc;
use std::time::Instant;

use howdah_sys::process;
use howdah_sys::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, Signals};

use super::Supervisor;
use super::backoff::Backoff;
use super::change::Cause;
use super::control::{Command, Control};
use super::environment::Environment;
use super::front_process::RunFront;
use super::listeners::Listener;
use super::plan::{Plan, Source};
use super::state;
use super::takeover::Inheritance;
use crate::log::{ErrorLog, Level, Target};

/// Why nothing is served.
#[derive(Debug, Clone)]
pub(crate) enum Refusal {
    /// The configuration, or the command line, asks for what cannot be.
    Config(String),
    /// Something else went wrong.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Config(reason) | Refusal::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Serves what `plan` asks for until it is told to stop. `run_front` is what a front does.
pub(crate) fn serve(
    plan: Plan,
    mut environment: Environment,
    run_front: RunFront,
) -> Result<(), Refusal> {
    let failed = |error: io::Error| Refusal::Failed(format!("cannot start: {error}"));
    // Whoever started us may have ignored them, and then they would not even arrive. SIGHUP and
    // SIGINT stay as `nohup` and shells have left them.
    for signal in [SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2] {
        signal::restore(signal).map_err(failed)?;
    }
    let signals =
        Signals::block(&[SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2]).map_err(failed)?;
    let inheritance = Inheritance::claim().map_err(failed)?;
    // Each pool takes a few descriptors; what pools themselves may have was noted before.
    process::raise_descriptor_limit(environment.descriptor_limit.1).map_err(failed)?;
    environment.state = match &inheritance {
        Some(inheritance) => inheritance.state.clone(),
        // Nobody said where the state of a folder's site should go, so it does not stay.
        None if matches!(plan.source, Source::Folder(_)) && !plan.options.no_php => Some(
            state::fresh(&environment.temporary)
                .map_err(|error| no_state(&environment.temporary, &error))?,
        ),
        None => None,
    };
    let log = Arc::new(ErrorLog::new(Target::stderr().map_err(failed)?, Level::Info));
    let mut supervisor = Supervisor {
        plan,
        environment,
        run_front,
        began: Instant::now(),
        log,
        access: None,
        signals,
        listeners: Vec::new(),
        control: None,
        pid_file: None,
        generations: Vec::new(),
        next_number: 1,
        current: None,
        change: None,
        reload_wanted: false,
        upgrade_wanted: false,
        restart: None,
        backoff: Backoff::default(),
        check: None,
        stopping: false,
        failure: None,
        announced: inheritance.is_some(),
    };
    let result = match inheritance {
        None => {
            supervisor.begin(Cause::Start);
            supervisor.run()
        }
        Some(inheritance) => supervisor.adopt(inheritance).and_then(|()| {
            supervisor.begin(Cause::TakeOver);
            supervisor.run()
        }),
    };
    supervisor.clear_up();
    match (result, supervisor.failure) {
        (_, Some(refusal)) => Err(refusal),
        (Err(error), None) => Err(Refusal::Failed(format!("the supervisor cannot go on: {error}"))),
        (Ok(()), None) => Ok(()),
    }
}

/// Makes a file that replaces whatever is at `path`, a link as well, and never writes through it.
fn write_anew(path: &Path, text: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&fresh);
    written?.write_all(text.as_bytes())?;
    fs::rename(&fresh, path)
}

fn no_state(temporary: &Path, error: &io::Error) -> Refusal {
    let folder = temporary.display();
    Refusal::Failed(format!(
        "cannot make a folder for sessions and uploads in {folder}: {error}; set TMPDIR to one that can be written to"
    ))
}

impl Supervisor {
    /// Takes over what another program left.
    fn adopt(&mut self, inheritance: Inheritance) -> io::Result<()> {
        let Inheritance {
            next_number,
            state: _,
            control,
            listeners,
            generations,
        } = inheritance;
        self.next_number = next_number;
        for (socket, configured) in listeners {
            self.listeners.push(Listener::of(configured, socket)?);
        }
        if let Some((listener, path)) = control {
            self.control = Some(Control::of(path, listener)?);
        }
        for heir in generations {
            self.generations.push(heir.into_generation()?);
        }
        Ok(())
    }

    /// Says on standard output that the first request will be answered.
    pub(super) fn announce(&self) {
        let mut out = io::stdout().lock();
        for listener in &self.listeners {
            // Who started us and does not listen needs no such line.
            let _ = writeln!(out, "howdah: listening on http://{}", listener.actual);
        }
        let _ = out.flush();
    }

    /// Writes our number where it is wanted, and nowhere else.
    pub(super) fn write_pid_file(&mut self, wanted: Option<&Path>) {
        if self.pid_file.as_deref() == wanted {
            return;
        }
        if let Some(former) = self.pid_file.take() {
            let _ = fs::remove_file(former);
        }
        let Some(path) = wanted else { return };
        match write_anew(path, &format!("{}\n", id())) {
            Ok(()) => self.pid_file = Some(path.to_owned()),
            Err(error) => self
                .say(Level::Error, &format!("cannot write `pid_file` {}: {error}", path.display())),
        }
    }

    /// Leaves nothing behind.
    fn clear_up(&mut self) {
        self.answer_all(Command::Stop, Ok("stopped"));
        let control = self.control.take().map(|control| control.path);
        for file in control.into_iter().chain(self.pid_file.take()) {
            let _ = fs::remove_file(file);
        }
        if let Some(state) = &self.environment.state
            && let Err(error) = fs::remove_dir_all(state)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.say(
                Level::Warning,
                &format!("the folder {} could not be removed: {error}", state.display()),
            );
        }
        self.log.finish();
    }
}
