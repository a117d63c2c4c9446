//! A stack: one way of serving a document root, with servers that are started for it alone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::process::{StackProgram, StartFailed, accepts};
use crate::tls::PemFiles;

/// One way of serving. Implementations write configurations and start programs, nothing else.
pub trait Stack: fmt::Debug {
    /// Name on the command line and in files: `apache-prefork-mod_php`.
    fn name(&self) -> &str;
    /// Name for people: `Apache prefork + mod_php`.
    fn title(&self) -> &str;
    /// Returns whether the stack runs PHP; otherwise it serves files only.
    fn serves_php(&self) -> bool {
        true
    }
    /// Returns whether a resumed TLS connection brings the ticket for the next one.
    fn renews_tickets(&self) -> bool {
        true
    }
    /// A difference to the other stacks that cannot be avoided, for a footnote; `None` if there is
    /// none.
    fn unequal(&self) -> Option<&str> {
        None
    }
    /// Debian's packages that the stack needs.
    fn packages(&self, php: &str) -> Vec<String>;
    /// The first missing part; `None` where the stack can be started.
    fn missing(&self, environment: &StackEnvironment) -> Option<String>;
    /// The versions of its programs.
    fn version(&self, environment: &StackEnvironment) -> String;
    /// Starts the stack. `folder` is its own, below the run's temporary folder, and belongs to the
    /// servers' user.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or a program cannot be run, has ended, or does not accept in time.
    fn start(&self, environment: &StackEnvironment, folder: &Path) -> Result<Running, StartFailed>;
}

/// The setting that says for how many seconds connections are kept; 0: not at all.
pub const KEEP_ALIVE: &str = "keep-alive";
/// The setting with which a stack uses the distribution's defaults.
pub const AS_INSTALLED: &str = "as-installed";

/// The environment that all stacks of a run share.
#[derive(Clone, Debug)]
pub struct StackEnvironment {
    /// The document root.
    pub root: PathBuf,
    /// The php.ini of all stacks.
    pub ini: PathBuf,
    /// PHP's version as in the names of Debian's packages: `8.2`.
    pub php: String,
    /// PHP processes of each stack, or threads.
    pub php_processes: usize,
    /// Connections that are open at once.
    pub connections: usize,
    /// Number of processors.
    pub cores: usize,
    /// The user of the servers' workers where the laboratory runs as root.
    pub user: Option<String>,
    /// Whether opcache is on.
    pub opcache: bool,
    /// Howdah's binary.
    pub howdah: PathBuf,
    /// The certificate for all connections; `None`: connections in the clear.
    pub tls: Option<PemFiles>,
    /// Settings of the study that replace ours, by key, such as `MaxRequestWorkers`.
    pub settings: BTreeMap<String, String>,
}

/// A running stack. Dropping it stops all of its processes.
#[derive(Debug)]
pub struct Running {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The started programs; all processes below them belong to the stack.
    pub programs: Vec<StackProgram>,
    /// Configuration files as used, by name.
    pub configuration: BTreeMap<String, String>,
    /// The signal for reloading without dropping requests, for each of `programs`.
    pub reload: Vec<Option<Signal>>,
    /// Whether the stack is measured over HTTP/3 where others are over HTTP/2.
    pub http3: bool,
}

/// The destination of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadTarget {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The started processes; all processes below them belong to the stack.
    pub roots: Vec<u32>,
    /// Processes that reload on a signal, with the signal.
    pub reload: Vec<(u32, Signal)>,
    /// Whether requests of HTTP/2 are to be sent over HTTP/3, to the UDP port of this number.
    pub http3: bool,
}

impl StackEnvironment {
    /// Returns whether the stack is to have the distribution's defaults.
    pub fn is_as_installed(&self) -> bool {
        self.settings.contains_key(AS_INSTALLED)
    }

    /// Seconds for which connections are kept; 0: not at all. `None` where no setting says so.
    pub fn keep_alive(&self) -> Option<u32> {
        self.settings.get(KEEP_ALIVE)?.parse().ok()
    }
}

impl Running {
    /// Returns a stack on `port`, to which programs are added as they start.
    pub fn without_programs(port: u16) -> Running {
        Running {
            port,
            programs: Vec::new(),
            configuration: BTreeMap::new(),
            reload: Vec::new(),
            http3: false,
        }
    }

    /// Starts the server that listens on the stack's port, and waits until it accepts. `log` gets
    /// its output, `configuration` is the name and the text of its file, `reload` the signal on
    /// which it reloads without dropping requests.
    ///
    /// # Errors
    ///
    /// The program cannot be run, has ended, or does not accept in time.
    pub fn start(
        mut self,
        command: &mut Command,
        log: &Path,
        configuration: (&str, String),
        reload: Option<Signal>,
    ) -> Result<Running, StartFailed> {
        let mut program = StackProgram::start(command, log)?;
        program.wait_until(|| accepts(self.port))?;
        self.add(program, configuration, reload);
        Ok(self)
    }

    /// Adds a program that has started, as [`start`](Running::start) does.
    pub fn add(
        &mut self,
        program: StackProgram,
        (name, text): (&str, String),
        reload: Option<Signal>,
    ) {
        self.programs.push(program);
        self.configuration.insert(name.to_owned(), text);
        self.reload.push(reload);
    }

    /// The started processes; all processes below them belong to the stack.
    pub fn roots(&self) -> Vec<u32> {
        self.programs.iter().map(StackProgram::pid).collect()
    }

    /// The stack as the destination of a load.
    pub fn target(&self) -> LoadTarget {
        let reload = self.programs.iter().zip(&self.reload);
        LoadTarget {
            port: self.port,
            roots: self.roots(),
            reload: reload
                .filter_map(|(program, signal)| Some((program.pid(), (*signal)?)))
                .collect(),
            http3: self.http3,
        }
    }

    /// Returns whether all programs of the stack run.
    pub fn is_alive(&mut self) -> bool {
        self.programs.iter_mut().all(|program| !program.has_ended())
    }
}
