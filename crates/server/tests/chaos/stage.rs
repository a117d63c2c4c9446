//! The server and the site that chaos happens to.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use howdah_sys::signal::SIGTERM;
use serde_json::Value;

use crate::loads;
use crate::support::{Folder, HOWDAH, PATIENCE, Process, Server, Setup, is_root, wait_until};

/// Workers of the pool.
pub const WORKERS: usize = 6;
/// Limit of open descriptors of each process.
pub const DESCRIPTORS: usize = 500;
/// Room of the disk that can be full.
const DISK: &str = "size=96m,mode=1777";

/// Time limits of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    request: &'static str,
    queue: &'static str,
    drain: &'static str,
}

impl Limits {
    /// Limits that events of the chaos provoke.
    pub const SHORT: Limits = Limits {
        request: "8s",
        queue: "15s",
        drain: "20s",
    };
    /// Limits that a busy machine does not provoke.
    pub const FAR: Limits = Limits { request: "5m", queue: "5m", drain: "5m" };
}

/// A mode of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Static,
    Auto,
    Dynamic,
    OnDemand,
}

impl Mode {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Static => "static",
            Mode::Auto => "auto",
            Mode::Dynamic => "dynamic",
            Mode::OnDemand => "ondemand",
        }
    }

    /// The other lines of `[site.php]` that the mode needs: workers come and go within seconds.
    fn lines(self) -> &'static str {
        match self {
            Mode::Static => "",
            Mode::Auto | Mode::OnDemand => "idle_timeout = \"2s\"\n",
            Mode::Dynamic => {
                "idle_timeout = \"2s\"\nmin_spare_workers = 1\nmax_spare_workers = 3\n"
            }
        }
    }

    /// Workers of a pool that has had nothing to do for some time.
    pub fn resting(self) -> usize {
        match self {
            Mode::Static => WORKERS,
            Mode::Auto | Mode::Dynamic => 1,
            Mode::OnDemand => 0,
        }
    }
}

/// A server with one site.
pub struct Stage {
    pub server: Server,
    mode: Mode,
    folder: Folder,
    /// A small disk for temporary files and the pool's state, if this process may mount one.
    disk: Option<PathBuf>,
}

impl Stage {
    /// Writes the site's files and starts the server. Scripts and the end of a generation have the
    /// time that `limits` says.
    pub fn build(limits: Limits, mode: Mode) -> Stage {
        let folder = Folder::new();
        for (name, content) in loads::SCRIPTS {
            folder.file(&format!("public/{name}"), content);
        }
        folder.file("public/file.txt", loads::file());
        let room = folder.folder("room");
        fs::set_permissions(&room, fs::Permissions::from_mode(0o1777)).unwrap();
        let disk = is_root() && mount(&room);
        fs::create_dir_all(room.join("temporary")).unwrap();
        fs::set_permissions(room.join("temporary"), fs::Permissions::from_mode(0o1777)).unwrap();
        let ini = folder.file("php.ini", php_ini());
        // Not on that disk: a session that cannot be written has a wrong count.
        let sessions = folder.folder("sessions");
        fs::set_permissions(&sessions, fs::Permissions::from_mode(0o1777)).unwrap();
        let Limits { request, queue, drain } = limits;
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\ncontrol = \"control\"\n\
             pid_file = \"pid\"\nthreads = 2\n\
             [limits]\ndrain_timeout = \"{drain}\"\n[log]\naccess = \"off\"\n\
             [[site]]\nname = \"chaos\"\nroot = \"public\"\n\
             [site.php]\npcntl = true\nmode = \"{}\"\n{}workers = {WORKERS}\n\
             request_timeout = \"{request}\"\n\
             request_terminate_timeout = \"{request}\"\n\
             queue_timeout = \"{queue}\"\nstate_dir = \"room/state\"\n\
             ini_file = \"{}\"\nadmin_ini = {{ \"session.save_path\" = \"{}\" }}\n",
            mode.name(),
            mode.lines(),
            ini.display(),
            sessions.display()
        );
        let file = folder.file("howdah.toml", text);
        let temporary = room.join("temporary").display().to_string();
        let limit = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
        let server =
            Setup::with(&[&limit, HOWDAH, "serve", "--config", &file.display().to_string()])
                .program(Path::new("/usr/bin/prlimit"))
                .environment("TMPDIR", &temporary)
                .start();
        Stage {
            server,
            mode,
            folder,
            disk: disk.then_some(room),
        }
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The disk that can be full; `None` if it could not be mounted.
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    /// The supervisor. SIGUSR2 keeps its process.
    pub fn supervisor(&self) -> Process {
        self.server.supervisor()
    }

    /// The front that serves: the youngest.
    pub fn front(&self) -> Option<Process> {
        let children = self.supervisor().children();
        let fronts = children.into_iter().filter(|child| child.name() == "howdah-front");
        fronts.max_by_key(|front| started(*front))
    }

    /// The zygote of the pool that serves: the youngest that a front has used.
    pub fn zygote(&self) -> Option<Process> {
        let zygotes = self.server.zygotes().into_iter();
        zygotes.max_by_key(|zygote| started(*zygote))
    }

    /// Returns whether the pool has as many workers as it has without work.
    pub fn rests(&self) -> bool {
        self.workers().len() == self.mode.resting()
    }

    /// Returns whether the pool has at least the workers that it has without work.
    pub fn is_staffed(&self) -> bool {
        self.zygote().is_some() && self.workers().len() >= self.mode.resting()
    }

    /// Returns the address of the admin listener.
    pub fn admin(&self) -> SocketAddr {
        const PREFIX: &str = "monitors are answered on http://";
        self.server.wait_for_log(PREFIX);
        let log = self.server.log();
        let (_, rest) = log.rsplit_once(PREFIX).unwrap();
        rest.lines().next().unwrap().parse().unwrap()
    }

    /// Returns what `howdah status --json` says of the site, once the front answers.
    pub fn status(&self) -> Value {
        let control = self.folder.path().join("control").display().to_string();
        let mut status = Value::Null;
        wait_until("`howdah status` has an answer", || {
            let arguments = ["status", "--json", "--control", &control];
            let (code, told, _) = Setup::with(&arguments).run();
            status = serde_json::from_str(&told).unwrap_or_default();
            code == Some(0) && status["sites"][0]["name"] == "chaos"
        });
        status["sites"][0].take()
    }

    /// Returns the number of requests of the site that the server has counted.
    pub fn requests(&self) -> u64 {
        self.status()["requests"].as_u64().unwrap()
    }

    /// The workers of that zygote.
    pub fn workers(&self) -> Vec<Process> {
        self.zygote().map(|zygote| zygote.children()).unwrap_or_default()
    }

    /// Replaces the php.ini file by a broken or by the right one.
    pub fn break_php_ini(&self, broken: bool) {
        let content = if broken {
            "zend_extension = /no/such/file.so\nopcache.memory_consumption = \"\nmemory_limit = ["
                .to_owned()
        } else {
            php_ini()
        };
        self.folder.file("php.ini", content);
    }

    /// Files of requests that are over.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        ["room/temporary", "room/state/tmp", "room/state/uploads"]
            .iter()
            .flat_map(|name| fs::read_dir(self.folder.path().join(name)).into_iter().flatten())
            .map(|entry| entry.unwrap().path())
            .filter(|path| has_file(path))
            .collect()
    }

    /// Stops the server. Returns what it leaves behind.
    pub fn stop(self) -> Vec<String> {
        let supervisor = self.supervisor();
        let mut processes = self.server.processes();
        processes.extend(supervisor.standbys());
        supervisor.signal(SIGTERM);
        let end = Instant::now() + PATIENCE;
        while supervisor.lives() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut left: Vec<String> = processes
            .into_iter()
            .filter(Process::lives)
            .map(|process| {
                format!("after the stop: process {} {}", process.number(), process.arguments())
            })
            .collect();
        left.extend(
            self.leftovers()
                .iter()
                .map(|path| format!("after the stop: {}", path.display())),
        );
        left
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(disk) = &self.disk {
            // Lazily: if the test has failed, the server still uses it.
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

/// Clock ticks from the system's start to the process's.
fn started(process: Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.number())).unwrap_or_default();
    // The name may contain spaces; the fields after it are numbers.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields
        .split_whitespace()
        .nth(19)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn mount(folder: &Path) -> bool {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", DISK, "howdah-chaos"])
        .arg(folder)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        howdah_skip::skip!("without full disks: no tmpfs can be mounted");
    }
    mounted
}

fn php_ini() -> String {
    "memory_limit = 128M\npost_max_size = 64M\nupload_max_filesize = 64M\n\
     opcache.memory_consumption = 32\n"
        .to_owned()
}

/// Returns whether this is a file, or a folder with one anywhere below it. The empty folder of a
/// zygote that was killed is deleted at the next start.
fn has_file(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| has_file(&entry.path())),
        Err(_) => path.exists(),
    }
}
