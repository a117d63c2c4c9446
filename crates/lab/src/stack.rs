//! A stack: one way of serving a document root, with servers that are started for it alone.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::process::{Program, StartFailed};

/// One way of serving. An implementation writes configurations and starts programs, nothing more.
pub trait Stack: fmt::Debug {
    /// On the command line and in files: `apache-prefork-mod_php`.
    fn name(&self) -> &str;
    /// For people: `Apache prefork + mod_php`.
    fn title(&self) -> &str;
    /// Whether it runs PHP, or serves files only.
    fn serves_php(&self) -> bool {
        true
    }
    /// What cannot be made equal to the others, for a footnote.
    fn unequal(&self) -> Option<&str> {
        None
    }
    /// Debian's packages that it needs.
    fn packages(&self, php: &str) -> Vec<String>;
    /// What is missing here, if anything is.
    fn missing(&self, environment: &Environment) -> Option<String>;
    /// The versions of its programs.
    fn version(&self, environment: &Environment) -> String;
    /// Starts it. `folder` is its own, below the run's temporary folder, and belongs to the
    /// servers' user.
    fn start(&self, environment: &Environment, folder: &Path) -> Result<Running, StartFailed>;
}

/// What all stacks of a run are given alike.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The document root.
    pub root: PathBuf,
    /// The php.ini of all.
    pub ini: PathBuf,
    /// As in the names of Debian's packages: `8.2`.
    pub php: String,
    /// PHP processes of each stack (threads, where it has those).
    pub php_processes: usize,
    /// Connections that will be open at once.
    pub connections: usize,
    /// Processors.
    pub cores: usize,
    /// Who the servers' workers run as when we are root.
    pub user: Option<String>,
    /// Whether opcache is on.
    pub opcache: bool,
    /// Howdah's binary.
    pub howdah: PathBuf,
    /// Settings of the study that replace our own, by key, such as `MaxRequestWorkers`.
    pub settings: BTreeMap<String, String>,
}

/// A stack that runs. Dropped, everything of it is stopped.
#[derive(Debug)]
pub struct Running {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// What was started; everything below these belongs to the stack.
    pub programs: Vec<Program>,
    /// Configuration files as they are used, by name.
    pub configuration: BTreeMap<String, String>,
    /// How each program is told to take a new configuration without dropping requests, in the order
    /// of `programs`.
    pub reload: Vec<Option<Signal>>,
}

/// What a load is put on.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// The processes that were started; everything below them belongs to it.
    pub roots: Vec<u32>,
    /// The processes that reload on a signal.
    pub reload: Vec<(u32, Signal)>,
}

impl Running {
    /// The processes that were started; everything below them belongs to the stack as well.
    pub fn roots(&self) -> Vec<u32> {
        self.programs.iter().map(Program::pid).collect()
    }

    /// As a load sees it.
    pub fn target(&self) -> Target {
        let reload = self.programs.iter().zip(&self.reload);
        Target {
            port: self.port,
            roots: self.roots(),
            reload: reload
                .filter_map(|(program, signal)| Some((program.pid(), (*signal)?)))
                .collect(),
        }
    }

    /// Whether all of its programs run.
    pub fn is_alive(&mut self) -> bool {
        self.programs.iter_mut().all(|program| !program.has_ended())
    }
}
