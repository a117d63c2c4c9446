//! Finds and ends the processes that children of this process have started, whatever they have done
//! to escape: sessions and process groups of their own, and parents that have ended.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::{Pid, own_pid};
use crate::{check, signal};

/// Makes orphaned descendants of this process its children, instead of children of process 1. The
/// setting survives `execve(2)`; children do not inherit it.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: no memory arguments.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// The result of [`end_descendants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemainingDescendants {
    /// Processes that were alive and were sent SIGKILL.
    pub killed: usize,
    /// Processes that this process may not kill, because they run a program with a set-id bit.
    pub refused: usize,
}

/// Sends SIGKILL to every descendant of this process, except to the processes for which `spare`
/// returns true, and to their descendants.
///
/// A descendant that forks may have a new child that was not seen. Call the function until no
/// process was killed. The time that a call takes depends on the number of descendants alone, where
/// the kernel lists children (`CONFIG_PROC_CHILDREN`, as in distributions).
///
/// # Errors
/// `/proc` cannot be read.
pub fn end_descendants(spare: impl Fn(Pid) -> bool) -> io::Result<RemainingDescendants> {
    let family = KnownChildren::read()?;
    let mut remaining = RemainingDescendants::default();
    let mut seen = HashSet::new();
    let mut found = family.children(own_pid().number());
    while let Some(process) = found.pop() {
        // A number that was used twice while `/proc` was read could make a circle.
        if !seen.insert(process.pid) || spare(process.pid) {
            continue;
        }
        // Read before the process is killed: then its children get another parent.
        found.extend(family.children(process.pid.number()));
        if process.is_alive {
            match process.kill() {
                Ok(true) => remaining.killed += 1,
                Ok(false) => {}
                Err(_) => remaining.refused += 1,
            }
        }
    }
    Ok(remaining)
}

/// Sends SIGKILL to a process if `still` returns true while the number cannot be used again for
/// another process. Returns whether the process was alive and was sent the signal.
pub fn kill_if(pid: Pid, still: impl FnOnce() -> bool) -> bool {
    match handle(pid) {
        Ok(Some(handle)) => still() && kill(&handle).unwrap_or(false),
        _ => false,
    }
}

/// The time at which a process was started, in the kernel's ticks since the machine's start. With
/// the number it identifies a process for ever. `None` if there is no such process.
pub fn started(pid: Pid) -> Option<u64> {
    Process::read(pid.number()).map(|process| process.started)
}

/// Returns the state of a thread, as the letter of proc_pid_stat(5), and the processor time that it
/// has used. `None` if there is no such thread.
pub fn thread_state(process: Pid, thread: u64) -> Option<(char, Duration)> {
    let stat = read(&format!("/proc/{process}/task/{thread}/stat"))?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // Fields 14 and 15; the state is field 3.
    let mut times = fields.skip(10).map(|time| time.parse::<u64>().ok());
    let ticks = times.next()?? + times.next()??;
    Some((state, Duration::from_millis(ticks * 1000 / TICKS)))
}

/// The effective user of a process. `None` if there is no such process.
pub fn user(pid: Pid) -> Option<u32> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Ticks of processor time per second in `/proc`. The kernel shows this number on all machines.
const TICKS: u64 = 100;

/// The children of processes.
enum KnownChildren {
    /// The kernel lists them.
    Listed,
    /// All processes of the machine, by their parent.
    Searched(HashMap<u32, Vec<Process>>),
}

impl KnownChildren {
    fn read() -> io::Result<KnownChildren> {
        let own = own_pid();
        if fs::exists(format!("/proc/{own}/task/{own}/children"))? {
            return Ok(KnownChildren::Listed);
        }
        let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(process) = number.and_then(Process::read) {
                children.entry(process.parent).or_default().push(process);
            }
        }
        Ok(KnownChildren::Searched(children))
    }

    /// The children of a process, in no order. None if the process has ended.
    fn children(&self, parent: u32) -> Vec<Process> {
        match self {
            KnownChildren::Listed => {
                let threads = fs::read_dir(format!("/proc/{parent}/task"));
                let threads = threads.into_iter().flatten().flatten();
                let lists = threads
                    .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
                let numbers: Vec<u32> = lists
                    .flat_map(|list| {
                        let numbers = list.split_whitespace().map(str::parse);
                        numbers.filter_map(Result::ok).collect::<Vec<_>>()
                    })
                    .collect();
                numbers.into_iter().filter_map(Process::read).collect()
            }
            KnownChildren::Searched(children) => children.get(&parent).cloned().unwrap_or_default(),
        }
    }
}

/// A process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone)]
struct Process {
    pid: Pid,
    parent: u32,
    is_alive: bool,
    started: u64,
}

impl Process {
    /// `None` if the process has ended.
    fn read(number: u32) -> Option<Process> {
        let pid = Pid::from_number(number)?;
        let (parent, is_alive, started) = parse(&read(&format!("/proc/{number}/stat"))?)?;
        Some(Process { pid, parent, is_alive, started })
    }

    /// Sends SIGKILL. `Ok(false)` if the process has ended, even if its number was used again.
    fn kill(&self) -> io::Result<bool> {
        let Some(handle) = handle(self.pid)? else {
            return Ok(false);
        };
        // The handle means one process for ever, so the number cannot be used again after this.
        if started(self.pid) != Some(self.started) {
            return Ok(false);
        }
        kill(&handle)
    }
}

/// Sends SIGKILL. `Ok(false)` if the process has ended.
fn kill(handle: &OwnedFd) -> io::Result<bool> {
    // SAFETY: the descriptor is open, and no information goes with the signal.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            handle.as_raw_fd(),
            signal::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    match sent {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            error => Err(error),
        },
    }
}

/// `pidfd_open(2)`. `None` if there is no such process.
fn handle(pid: Pid) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no memory arguments.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    if fd == -1 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            error => Err(error),
        };
    }
    let fd = libc::c_int::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: fresh descriptor, owned by nobody else.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Reads a file of `/proc`. A process can give itself a name of any bytes.
fn read(file: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// Parent, whether it is no zombie, and start time. The name may contain spaces and parentheses.
fn parse(stat: &str) -> Option<(u32, bool, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Field 22 of proc(5); the parent is field 4.
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, !matches!(state, "Z" | "X"), started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::thread_id;
    use std::process::Command;

    #[test]
    fn a_name_cannot_disguise_a_process() {
        let fields = "S 7 3 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 9 9";
        assert_eq!(parse(&format!("5 (a) Z 1 (b) {fields}")), Some((7, true, 4711)));
        assert_eq!(parse("5 (a) Z 7 3"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_thread_that_computes_uses_time() {
        let (pid, thread) = (own_pid(), thread_id());
        let (_, before) = thread_state(pid, thread).unwrap();
        let computes = || std::hint::black_box((0..1_000_000u64).sum::<u64>());
        while thread_state(pid, thread).unwrap().1 < before + Duration::from_millis(20) {
            computes();
        }
        assert_eq!(thread_state(pid, thread).unwrap().0, 'R');
        assert_eq!(thread_state(pid, u64::MAX), None);
    }

    #[test]
    fn both_ways_find_the_same_children() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let own = own_pid().number();
        let has = |family: &KnownChildren| {
            family.children(own).iter().any(|process| process.pid.number() == child.id())
        };
        let listed = KnownChildren::Listed;
        if fs::exists("/proc/thread-self/children").unwrap() {
            assert!(has(&listed));
        }
        let parent = Process::read(child.id()).unwrap();
        assert_eq!(parent.parent, own);
        assert!(has(&KnownChildren::Searched(HashMap::from([(own, vec![parent])]))));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_what_is_not_spared_is_killed() {
        let mut spared = Command::new("sleep").arg("60").spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let number = Pid::from_number(other.id()).unwrap();
        assert!(started(number).is_some());
        // Other tests of this program have children as well.
        let remaining = end_descendants(|pid| pid != number).unwrap();
        assert_eq!(remaining, RemainingDescendants { killed: 1, refused: 0 });
        assert_eq!(other.wait().unwrap().code(), None);
        assert_eq!(end_descendants(|pid| pid != number).unwrap(), RemainingDescendants::default());
        assert_eq!(started(number), None);
        assert!(spared.try_wait().unwrap().is_none());
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}
