//! A running howdah for a test: started in a folder of its own on a free port, ended with the test,
//! and if the test failed its logs are printed.
#![allow(dead_code)] // Each test program uses a part of this.

pub mod apache;
pub mod folder;
pub mod http;
pub mod load;
pub mod processes;
pub mod turns;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use howdah_sys::process::Pid;
use howdah_sys::signal;

pub use folder::Folder;
pub use http::{Client, Response};
pub use load::Load;
pub use processes::{Process, wait_until};

/// The program under test.
pub const HOWDAH: &str = env!("CARGO_BIN_EXE_howdah");
/// The time limit for steps that must happen. No test is about this time: a busy machine may stand
/// still for seconds, and a process among many others gets little of it.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Returns what `attempt` returned the first time that it took less than `limit`. For tests that
/// have to be faster than a time limit of the server: an attempt during which the machine stood
/// still shows nothing. A slow attempt may find anything, so only the caller may fail the test.
pub fn faster_than<T>(limit: Duration, mut attempt: impl FnMut() -> T) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        let result = attempt();
        if began.elapsed() < limit {
            return result;
        }
        assert!(Instant::now() < until, "no attempt was faster than {limit:?}");
    }
}

/// Returns whether `howdah-php` was built with PHP. If not, prints that; the test then has nothing
/// to do. This is for machines without PHP: if `howdah-php` was not built, or in CI, the test
/// fails.
pub fn has_php() -> bool {
    let program = Path::new(HOWDAH).with_file_name("howdah-php");
    assert!(
        program.exists(),
        "{} is not built: `make build`, or `cargo build -p howdah-php-worker --bins`",
        program.display()
    );
    let works = Command::new(&program)
        .arg("version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        let text = format!("{} is built without PHP", program.display());
        assert!(
            std::env::var_os("CI").is_none(),
            "{text}: `scripts/install-packages.sh build serve` installs it"
        );
        howdah_skip::skip!("{text}");
    }
    works
}

/// Returns whether this test runs as root. If not, says so.
pub fn is_root() -> bool {
    let root = Process::own().uid() == 0;
    if !root {
        howdah_skip::skip!("only root can start processes of other users");
    }
    root
}

/// Returns whether sites get their own `/tmp`: not if their programs are in the machine's. If not,
/// says so.
pub fn has_own_tmp() -> bool {
    let is_temporary =
        ["/tmp", "/var/tmp"].iter().any(|folder| Path::new(HOWDAH).starts_with(folder));
    if is_temporary {
        howdah_skip::skip!(
            "Howdah was built in a folder for temporary files, which the sites share"
        );
    }
    !is_temporary
}

/// Returns what `howdah status` says of the server with this configuration. Asks again while the
/// front has not answered the supervisor in time.
pub fn status(config: &Path) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let (code, told, errors) =
            Setup::with(&["status", "--config", &config.display().to_string()]).run();
        if code == Some(0) && !told.contains("the front has not answered") {
            return told;
        }
        assert!(Instant::now() < until, "`howdah status` says: {told}{errors}");
    }
}

/// Returns an address of this machine that nothing listens on, with TCP or UDP. The port is none of
/// those that the system gives away by itself, and none of another test program's, so that no
/// connection or server of another test takes it meanwhile.
pub fn free_address() -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let first = own_ports();
    loop {
        let number = first + COUNT.fetch_add(1, Ordering::Relaxed) % FOR_EACH_PROGRAM;
        let port = u16::try_from(number).expect("ports below 30000");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

const FOR_EACH_PROGRAM: u32 = 500;

/// Returns the first of the ports that this test program has for itself while it runs: it holds a
/// name that stands for them.
fn own_ports() -> u32 {
    const FIRST: u32 = 10_000;
    const PROGRAMS: u32 = 40;
    static OWN: OnceLock<(u32, Option<UnixListener>)> = OnceLock::new();
    let (number, _) = OWN.get_or_init(|| {
        let start = std::process::id() % PROGRAMS;
        let held = (start..start + PROGRAMS).map(|number| number % PROGRAMS).find_map(|number| {
            let name = format!("howdah-test-ports-{number}");
            let name = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
            Some((number, Some(UnixListener::bind_addr(&name).ok()?)))
        });
        // With that many programs at a time, some share their ports.
        held.unwrap_or((start, None))
    });
    FIRST + number * FOR_EACH_PROGRAM
}

/// The settings with which a server is started.
#[derive(Debug)]
pub struct Setup {
    program: PathBuf,
    arguments: Vec<String>,
    user: Option<u32>,
    environment: Vec<(String, String)>,
    current_folder: Option<PathBuf>,
}

impl Setup {
    /// `howdah serve FOLDER` on a free port, with two workers.
    pub fn folder(folder: &Folder) -> Setup {
        let path = folder.path().display().to_string();
        Setup::with(&[
            "serve",
            &path,
            "--listen",
            "127.0.0.1:0",
            "--workers",
            "2",
            "--access-log",
            "off",
        ])
    }

    /// `howdah serve --config FILE`. The configuration should listen on port 0.
    pub fn config(file: &Path) -> Setup {
        Setup::with(&["serve", "--config", &file.display().to_string()])
    }

    /// `howdah` with these arguments.
    pub fn with(arguments: &[&str]) -> Setup {
        Setup {
            program: HOWDAH.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            user: None,
            environment: Vec::new(),
            current_folder: None,
        }
    }

    /// More arguments.
    pub fn and(mut self, arguments: &[&str]) -> Setup {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Another file to execute.
    pub fn program(mut self, program: &Path) -> Setup {
        self.program = program.to_owned();
        self
    }

    /// Start as this user, without any group of root's.
    pub fn user(mut self, uid: u32) -> Setup {
        self.user = Some(uid);
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Start in this folder.
    pub fn current_folder(mut self, folder: &Path) -> Setup {
        self.current_folder = Some(folder.to_owned());
        self
    }

    /// Starts it, and waits until it says that it listens.
    pub fn start(self) -> Server {
        let logs = Folder::writable();
        let mut child = self.command(&logs).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Server {
            child,
            addresses: Vec::new(),
            output: String::new(),
            logs,
        };
        // The lines are written together, so one read returns several.
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 {
                let status = server.child.wait().unwrap();
                // Dropping `server` prints its log.
                panic!("howdah ended with {status} before it listened");
            }
            server.output.push_str(&line);
            let url = line.trim().strip_prefix("howdah: listening on ");
            if let Some((_, address)) = url.and_then(|url| url.split_once("://"))
                && !address.starts_with("unix:")
            {
                server.addresses.push(address.parse().unwrap());
            }
            if !server.addresses.is_empty() && output.buffer().is_empty() {
                break;
            }
        }
        server.keep_output(output);
        server
    }

    /// Runs it to its end: status, standard output, standard error.
    pub fn run(self) -> (Option<i32>, String, String) {
        let output = self.plain_command().output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    fn command(&self, logs: &Folder) -> Command {
        let mut command = self.plain_command();
        let log = File::options()
            .create(true)
            .append(true)
            .open(logs.path().join("stderr"))
            .unwrap();
        command.stdout(Stdio::piped()).stderr(log);
        // Files that a killed server leaves behind are removed with the test.
        if !self.environment.iter().any(|(name, _)| name == "TMPDIR") {
            command.env("TMPDIR", logs.path());
        }
        command
    }

    fn plain_command(&self) -> Command {
        let mut command = match self.user {
            None => Command::new(&self.program),
            Some(uid) => {
                let mut command = Command::new("setpriv");
                let id = format!("--reuid={uid}");
                let group = format!("--regid={uid}");
                command
                    .args([id.as_str(), group.as_str(), "--clear-groups", "--"])
                    .arg(&self.program);
                command
            }
        };
        command.args(&self.arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.current_folder {
            command.current_dir(folder);
        }
        command
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    addresses: Vec<SocketAddr>,
    output: String,
    logs: Folder,
}

impl Server {
    /// Where it listens first.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns its standard output up to the moment at which it served.
    pub fn announcement(&self) -> &str {
        &self.output
    }

    /// Asks for `target`, on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        Client::connect(self.address()).get(target)
    }

    /// Returns its standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.logs.path().join("stderr")).unwrap()
    }

    /// Waits until the log says `what`.
    pub fn wait_for_log(&self, what: &str) {
        wait_until(&format!("the log says {what:?}"), || self.log().contains(what));
    }

    /// The supervisor.
    pub fn supervisor(&self) -> Process {
        Process::new(self.child.id())
    }

    /// The only front, once no other one is left.
    pub fn front(&self) -> Process {
        only("front", || {
            let mut children = self.supervisor().children();
            children.retain(|child| child.name() == "howdah-front");
            children
        })
    }

    /// The only zygote, once the front uses it and no other one is left.
    pub fn zygote(&self) -> Process {
        only("zygote", || self.zygotes())
    }

    /// All zygotes.
    pub fn zygotes(&self) -> Vec<Process> {
        let children = self.supervisor().children();
        children
            .into_iter()
            .filter(|child| child.arguments().starts_with("howdah-php zygote"))
            .collect()
    }

    /// The workers of the only zygote.
    pub fn workers(&self) -> Vec<Process> {
        self.zygote().children()
    }

    /// Kills the front, and waits until it has gone.
    pub fn kill_front(&self) -> Process {
        let front = self.front();
        front.signal(signal::SIGKILL);
        wait_until("the front has gone", || !front.lives());
        front
    }

    /// Kills the zygote, and waits until its workers have gone with it, and the front knows.
    pub fn kill_zygote(&self) -> Process {
        let (zygote, workers) = (self.zygote(), self.workers());
        let noticed = || self.log().matches("the zygote and its workers have ended").count();
        let before = noticed();
        zygote.signal(signal::SIGKILL);
        wait_until("the workers have gone", || {
            !zygote.lives() && !workers.iter().any(Process::lives)
        });
        wait_until("the front knows", || noticed() > before);
        zygote
    }

    /// Every process of it, without zygotes that stand by.
    pub fn processes(&self) -> Vec<Process> {
        let all = self.all_processes().into_iter();
        all.filter(|process| !process.stands_by()).collect()
    }

    /// Every process of it.
    pub fn all_processes(&self) -> Vec<Process> {
        let supervisor = self.supervisor();
        let mut all = supervisor.descendants();
        all.push(supervisor);
        all
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: i32) {
        self.supervisor().signal(signal);
    }

    /// Waits for the end of the supervisor.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "howdah does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets it finish, and checks that it leaves nothing behind.
    pub fn stop(mut self) {
        let processes = self.all_processes();
        self.signal(signal::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "howdah ended with {status}");
        let left: Vec<_> = processes.into_iter().filter(Process::lives).collect();
        assert!(left.is_empty(), "these processes were left: {left:?}");
    }

    /// Reads on, so that an access log on standard output never fills its pipe.
    fn keep_output(&self, mut output: BufReader<std::process::ChildStdout>) {
        let path = self.logs.path().join("stdout");
        std::thread::spawn(move || std::io::copy(&mut output, &mut File::create(path).unwrap()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            for process in self.all_processes() {
                process.signal(signal::SIGKILL);
            }
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- standard output of howdah, as far as it was read\n{}", self.output);
            eprintln!("--- standard error of howdah\n{}---", self.log());
        }
    }
}

/// Waits until `find` finds a single process, and returns that.
fn only(what: &str, find: impl Fn() -> Vec<Process>) -> Process {
    let mut found = Vec::new();
    wait_until(&format!("there is one {what}"), || {
        found = find();
        found.len() == 1
    });
    found[0]
}

/// A process number as the system's calls want it.
pub fn pid(number: u32) -> Pid {
    Pid::from_number(number).expect("tests do not deal with processes 0 and 1")
}
