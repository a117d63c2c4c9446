//! The turns that a thread of a test gets on the processors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Gives this thread the processor whenever it can run: a visitor's machine is not the one that is
/// attacked. Where that is not permitted, the visitor's own waiting counts as the server's.
pub fn stand_apart() {
    change("chrt", &["--fifo", "--pid", "1"]);
}

/// Gives this thread the processors that hardly anything else wants: an attacker's work is done on
/// another machine. It gets a small share whatever happens, since others may wait for a lock that
/// it holds.
pub fn stand_back() {
    change("renice", &["-n", "19", "-p"]);
}

/// Gives the session of this process a small share, like [`stand_back`]. Linux shares processors
/// between sessions first, and only then between the threads of each (`sched_autogroup_enabled`):
/// without it the attackers together would weigh as much as the server.
pub fn stand_back_as_session() {
    let _ = fs::write("/proc/self/autogroup", "19");
}

/// A group of processes that get the processors when nobody else can use them (`cpu.idle` of a
/// control group): attackers have a machine of their own. A thread of the server that wakes up
/// meanwhile has its turn at once, where it would otherwise wait for up to a tick of the kernel.
/// Where no such group can be made, its processes keep the turns that they have.
#[derive(Debug)]
pub struct IdleGroup {
    folder: Option<PathBuf>,
}

impl IdleGroup {
    pub fn new() -> IdleGroup {
        IdleGroup {
            folder: own_groups().into_iter().find_map(|own| idle_folder(&own)),
        }
    }

    /// Adds a process; those that it starts later belong to the group, too.
    pub fn add(&self, process: u32) {
        if let Some(folder) = &self.folder {
            fs::write(folder.join("cgroup.procs"), process.to_string()).unwrap();
        }
    }
}

/// Removes the group; its processes have ended.
impl Drop for IdleGroup {
    fn drop(&mut self) {
        self.folder.take().map(fs::remove_dir);
    }
}

/// The folders of this process's control groups that can have the controller `cpu`: that of version
/// 1, and that of version 2.
fn own_groups() -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups
        .lines()
        .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        .filter(|(controllers, _)| {
            controllers.is_empty() || controllers.split(',').any(|name| name == "cpu")
        })
        .map(|(controllers, path)| {
            Path::new("/sys/fs/cgroup").join(controllers).join(path.trim_start_matches('/'))
        })
        .collect()
}

fn idle_folder(own: &Path) -> Option<PathBuf> {
    let folder = own.join(format!("howdah-test-{}", std::process::id()));
    fs::create_dir(&folder).ok()?;
    // The file is there already where the group has the controller; it is never made anew.
    if folder.join("cpu.idle").exists() && fs::write(folder.join("cpu.idle"), "1").is_ok() {
        return Some(folder);
    }
    let _ = fs::remove_dir(&folder);
    None
}

fn change(program: &str, how: &[&str]) {
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let number = thread.file_name().unwrap();
    let _ = Command::new(program).args(how).arg(number).output();
}
