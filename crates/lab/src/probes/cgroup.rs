//! A memory limit for a stack, by control group, version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A control group with a limit. Programs that are started while it is entered belong to it.
/// Dropping it removes the group.
#[derive(Debug)]
pub struct Limit {
    folder: PathBuf,
    /// The group of our own process, to return to.
    home: PathBuf,
    version: u8,
    /// Processes that the kernel of the whole machine had killed before.
    killed_before: u64,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

const V2: &str = "/sys/fs/cgroup";
const V1: &str = "/sys/fs/cgroup/memory";

impl Limit {
    /// Creates a group with a limit in bytes, and as many bytes of swap besides where the kernel
    /// counts it. The error is a message for people.
    ///
    /// # Errors
    ///
    /// A message for people: there are no control groups, or this user may not make one.
    pub fn new(bytes: u64, swap: u64) -> Result<Limit, String> {
        let (version, top) = match available() {
            Some(found) => found,
            None => {
                return Err(
                    "this machine offers no control groups for memory, so memory is not limited"
                        .to_owned(),
                );
            }
        };
        // A group of a moment ago may still be there.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = top.join(format!("howdah-lab-{}-{number}", std::process::id()));
        let not_allowed = |error: std::io::Error| {
            format!(
                "memory cannot be limited: {}: {error}; run as root on the machine itself, or with \
                 a delegated control group",
                folder.display()
            )
        };
        if version == 2 {
            // A group passes the controller to its children only where it says so.
            let _ = fs::write(top.join("cgroup.subtree_control"), "+memory");
        }
        fs::create_dir_all(&folder).map_err(not_allowed)?;
        let home = home(version).unwrap_or(top);
        let limit = Limit {
            folder: folder.clone(),
            home,
            version,
            killed_before: killed_on_machine(),
        };
        let (memory, swap) = match version {
            2 => ("memory.max", ("memory.swap.max", swap)),
            _ => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes + swap)),
        };
        fs::write(folder.join(memory), bytes.to_string()).map_err(not_allowed)?;
        // Kernels without swap accounting lack this file.
        let _ = fs::write(folder.join(swap.0), swap.1.to_string());
        Ok(limit)
    }

    /// Moves this process into the group while `start` runs, so that all started programs are
    /// limited from their first byte.
    ///
    /// # Errors
    ///
    /// A message for people: this process cannot enter or leave the group.
    pub fn within<T>(&self, start: impl FnOnce() -> T) -> Result<T, String> {
        let enter =
            |folder: &Path| fs::write(folder.join("cgroup.procs"), std::process::id().to_string());
        enter(&self.folder).map_err(|error| {
            format!("memory cannot be limited: {}: {error}", self.folder.display())
        })?;
        let result = start();
        enter(&self.home)
            .map_err(|error| format!("cannot leave {}: {error}", self.folder.display()))?;
        Ok(result)
    }

    /// The peak of the group's memory, in bytes; `None` where the kernel does not tell it.
    pub fn peak(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Number of processes that the kernel has killed for lack of memory: those of the group and of
    /// groups below. Version 1 does not count the latter: there, all that were killed on the
    /// machine since the group was made.
    pub fn killed(&self) -> u64 {
        if self.version == 2 {
            oom_kills(&self.folder.join("memory.events"))
        } else {
            killed_on_machine().saturating_sub(self.killed_before)
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // Its processes have ended, but the kernel may need a moment to notice.
        for _ in 0..500 {
            if remove(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Removes a group and the groups below it, which a server of the stack may have made.
fn remove(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn killed_on_machine() -> u64 {
    oom_kills(Path::new("/proc/vmstat"))
}

/// The number in the line `oom_kill` of a file.
fn oom_kills(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The version that has the memory controller, and its folder.
fn available() -> Option<(u8, PathBuf)> {
    let controllers =
        fs::read_to_string(Path::new(V2).join("cgroup.controllers")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") {
        return Some((2, V2.into()));
    }
    Path::new(V1).join("memory.limit_in_bytes").is_file().then(|| (1, V1.into()))
}

fn home(version: u8) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (top, marker) = if version == 2 { (V2, "0::") } else { (V1, ":memory:") };
    let line = text.lines().find(|line| line.contains(marker))?;
    let path = line.rsplit(':').next()?;
    let folder = Path::new(top).join(path.trim_start_matches('/'));
    folder.is_dir().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs inside are limited where the machine allows it; elsewhere the message says what to
    /// do.
    #[test]
    fn a_limit_holds_or_says_why_not() {
        match Limit::new(64 << 20, 0) {
            Ok(limit) => match limit.within(|| std::process::Command::new("true").status()) {
                Ok(status) => {
                    assert!(status.unwrap().success());
                    // A server makes groups of its own below; the group goes with them.
                    fs::create_dir_all(limit.folder.join("pool/1")).unwrap();
                    let folder = limit.folder.clone();
                    drop(limit);
                    assert!(!folder.exists());
                }
                Err(why) => assert!(why.contains("cannot be limited"), "{why}"),
            },
            Err(why) => assert!(
                why.contains("memory is not limited") || why.contains("run as root"),
                "{why}"
            ),
        }
    }
}
