//! Kills all processes of a control group, including those that are forked meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use howdah_sys::process::{self, Pid};

/// The most rounds over the processes of groups without `cgroup.kill`. A later call goes on.
const MOST_ROUNDS: usize = 50;

/// Kills all processes in `folders` and below them. The folders are the same group in several
/// hierarchies, therefore one hierarchy that has `cgroup.kill` (Linux 5.14) is enough: the kernel
/// then kills everything at once, and also what is being forked.
pub(super) fn all(folders: &[PathBuf]) {
    if folders.iter().any(|folder| fs::write(folder.join("cgroup.kill"), "1").is_ok()) {
        return;
    }
    for folder in folders {
        // From now on each fork fails. Only the controller's own hierarchy has the file.
        let _ = fs::write(folder.join("pids.max"), "0");
    }
    for _ in 0..MOST_ROUNDS {
        let killed: usize = folders.iter().map(|folder| round(folder)).sum();
        if killed == 0 {
            return;
        }
    }
}

/// Sends SIGKILL to the processes of a group and of the groups in it. Returns their number.
fn round(folder: &Path) -> usize {
    let list = folder.join("cgroup.procs");
    let members = || -> Vec<Pid> {
        let text = fs::read_to_string(&list).unwrap_or_default();
        text.lines().filter_map(|pid| Pid::from_number(pid.parse().ok()?)).collect()
    };
    let killed = members()
        .into_iter()
        // The second look makes sure that the number was not used again for another process.
        .filter(|pid| process::kill_if(*pid, || members().contains(pid)))
        .count();
    killed + super::inner(folder).map(|inner| round(&inner)).sum::<usize>()
}
