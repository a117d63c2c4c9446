//! Starting and stopping programs, and the kernel's data about their processes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A started program with all processes below it. Dropping it stops them.
///
/// The program gets a session of its own, as a service has. Apache and lighttpd signal their whole
/// process group when they stop, which would include the laboratory. And Linux shares processors
/// between sessions (`sched_autogroup_enabled`): a server in the session of the load generator
/// would be scheduled unlike one that makes sessions itself.
#[derive(Debug)]
pub struct StackProgram {
    child: Child,
    log: PathBuf,
    name: String,
}

/// The reason why a program could not be started.
#[derive(Debug)]
pub enum StartFailed {
    /// Executing the program failed.
    Execute(String, io::Error),
    /// The program ended, or was not ready in time; with the end of its log.
    NotReady(String, String),
}

/// Time in which a program must end after SIGTERM.
const STOP: Duration = Duration::from_secs(10);
/// Time in which a program must become ready.
const START: Duration = Duration::from_secs(20);
/// Lines of the log that an error message shows.
const LOG_LINES: usize = 15;

impl StackProgram {
    /// Starts `command` and appends its output to `log`.
    ///
    /// # Errors
    ///
    /// The program cannot be run, or its log cannot be opened.
    pub fn start(command: &mut Command, log: &Path) -> Result<StackProgram, StartFailed> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error| StartFailed::Execute(name.clone(), error);
        let mut command = in_own_session(command).map_err(failed)?;
        let open = || File::options().create(true).append(true).open(log);
        let outputs = open().and_then(|output| Ok((output.try_clone()?, output)));
        let (output, errors) = outputs.map_err(failed)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        Ok(StackProgram { child, log: log.to_owned(), name })
    }

    /// The id of the started process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    ///
    /// The program has ended, or is not ready in time. The end of its log is part of the error.
    pub fn wait_until(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), StartFailed> {
        let deadline = Instant::now() + START;
        while !ready() {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline {
                let what = ended.map_or("was not ready in time".to_owned(), |status| {
                    format!("ended at its start: {status}")
                });
                return Err(StartFailed::NotReady(format!("{} {what}", self.name), self.log_end()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns whether the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Sends SIGTERM to the program, then SIGKILL to each process of its tree that is left.
    pub fn stop(&mut self) {
        let below: Vec<ProcessIdentity> = tree(&[self.pid()])
            .into_iter()
            .filter(|pid| *pid != self.pid())
            .filter_map(ProcessIdentity::of)
            .collect();
        if !self.has_ended() {
            signal(self.pid(), Signal::TERM);
            let deadline = Instant::now() + STOP;
            while !self.has_ended() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            if !self.has_ended() {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            let left: Vec<&ProcessIdentity> =
                below.iter().filter(|process| process.runs()).collect();
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|process| signal(process.pid, Signal::KILL));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for StackProgram {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Display for StartFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartFailed::Execute(name, error) => write!(f, "cannot start {name}: {error}"),
            StartFailed::NotReady(what, log) => write!(f, "{what}\n{log}"),
        }
    }
}

impl std::error::Error for StartFailed {}

/// A process id with its start time, which distinguishes the process from a later one with the same
/// id.
#[derive(Clone, Copy, Debug)]
struct ProcessIdentity {
    pid: u32,
    started: u64,
}

impl ProcessIdentity {
    fn of(pid: u32) -> Option<ProcessIdentity> {
        let started = stat(pid)?.started;
        Some(ProcessIdentity { pid, started })
    }

    /// Returns whether the process runs. One that has ended and was not waited for does not.
    fn runs(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_zombie)
    }
}

/// Fields of `/proc/PID/stat` (proc(5)).
#[derive(Clone, Copy, Debug)]
pub struct ProcessStat {
    /// The parent's pid.
    pub parent: u32,
    /// User and system time of the process and of its ended children that were waited for, in clock
    /// ticks.
    pub ticks: u64,
    /// Ticks of the ended children alone.
    pub of_children: u64,
    /// Start time, in clock ticks after the start of the machine.
    pub started: u64,
    /// Whether the process has ended and its parent has not waited for it.
    pub is_zombie: bool,
}

/// Reads `/proc/PID/stat`; `None` where there is no such process.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let of_children = number(13)? + number(14)?;
    Some(ProcessStat {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)? + of_children,
        of_children,
        started: number(19)?,
        is_zombie: fields.first() == Some(&"Z"),
    })
}

/// CPU time of this process and of its children that were waited for, in clock ticks.
pub fn own_ticks() -> u64 {
    stat(std::process::id()).map_or(0, |stat| stat.ticks)
}

/// Linux' USER_HZ: `/proc` counts CPU time in hundredths of a second on all of Debian's
/// architectures.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// The roots and all their living descendants.
pub fn tree(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let (mut found, mut waiting) = (Vec::new(), roots.to_vec());
    while let Some(pid) = waiting.pop() {
        waiting.extend(children.get(&pid).into_iter().flatten());
        found.push(pid);
    }
    found
}

/// Sends a signal. An ended process is no error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended meanwhile, as wanted.
        let _ = kill_process(pid, signal);
    }
}

/// A port of the loopback interface that is free at the moment.
///
/// # Errors
///
/// No port is free.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns whether a program accepts connections on that port.
pub fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).is_ok()
}

/// Finds the first of these programs in PATH or in the folders of servers; `None` if there is none.
pub fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
    names.iter().find_map(|name| {
        path.split(':')
            .map(|folder| Path::new(folder).join(name))
            .find(|file| file.is_file())
    })
}

/// Returns `command` through setsid(1), which makes a session and then executes the program in the
/// same process.
///
/// # Errors
///
/// The program does not exist: setsid would say so only in the program's log.
fn in_own_session(command: &Command) -> io::Result<Command> {
    let program = Path::new(command.get_program());
    let exists = match program.to_str() {
        Some(name) if !name.contains('/') => find(&[name]).is_some(),
        _ => program.is_file(),
    };
    if !exists {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut wrapped = Command::new("setsid");
    wrapped.arg(program).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    Ok(wrapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("howdah-lab-{}-{name}.log", std::process::id()))
    }

    #[test]
    fn a_program_ends_with_everything_below_it() {
        let log = log("tree");
        let mut program = StackProgram::start(
            Command::new("sh").args(["-c", "sleep 60 & sleep 60 & wait"]),
            &log,
        )
        .unwrap();
        program.wait_until(|| true).unwrap();
        let deadline = Instant::now() + Duration::from_secs(90);
        while tree(&[program.pid()]).len() < 3 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let all = tree(&[program.pid()]);
        assert_eq!(all.len(), 3);
        let before: Vec<ProcessIdentity> =
            all.into_iter().filter_map(ProcessIdentity::of).collect();
        drop(program);
        assert_eq!(before.iter().filter(|process| process.runs()).count(), 0);
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_has_a_session_of_its_own() {
        let log = log("session");
        let mut command = Command::new("sh");
        command.args(["-c", "ps -o sid= -p $$; echo $MARK; pwd"]).env("MARK", "kept");
        let mut program = StackProgram::start(command.current_dir("/usr"), &log).unwrap();
        let pid = program.pid().to_string();
        program.wait_until(|| false).unwrap_err();
        let text = fs::read_to_string(&log).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines, [pid.as_str(), "kept", "/usr"]);
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_that_ends_at_once_says_why() {
        let log = log("ends");
        let mut program =
            StackProgram::start(Command::new("sh").args(["-c", "echo no such port; exit 3"]), &log)
                .unwrap();
        let error = program.wait_until(|| false).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such port"), "{error}");
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let error = StackProgram::start(&mut Command::new("no-such-server"), &log("none"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot start no-such-server"), "{error}");
        let _ = fs::remove_file(log("none"));
    }

    #[test]
    fn ports() {
        let port = free_port().unwrap();
        assert!(!accepts(port));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert!(accepts(port));
        drop(listener);
    }
}
