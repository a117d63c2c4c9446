//! A memory limit for a stack, by control group, version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group with a limit. Programs that are started while it is entered belong to it.
/// Dropping it removes the group.
#[derive(Debug)]
pub struct Limit {
    folder: PathBuf,
    /// The group of our own process, to return to.
    home: PathBuf,
    version: u8,
}

const V2: &str = "/sys/fs/cgroup";
const V1: &str = "/sys/fs/cgroup/memory";

impl Limit {
    /// Creates a group with a limit in bytes, swap included where the kernel counts it. The error
    /// is a message for people.
    pub fn new(bytes: u64) -> Result<Limit, String> {
        let (version, top) = match available() {
            Some(found) => found,
            None => {
                return Err(
                    "this machine offers no control groups for memory, so memory is not limited"
                        .to_owned(),
                );
            }
        };
        let folder = top.join(format!("howdah-lab-{}", std::process::id()));
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
        let limit = Limit { folder: folder.clone(), home, version };
        let (memory, swap) = match version {
            2 => ("memory.max", ("memory.swap.max", 0)),
            _ => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes)),
        };
        fs::write(folder.join(memory), bytes.to_string()).map_err(not_allowed)?;
        // Kernels without swap accounting lack this file.
        let _ = fs::write(folder.join(swap.0), swap.1.to_string());
        Ok(limit)
    }

    /// Moves this process into the group while `start` runs, so that all started programs are
    /// limited from their first byte.
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

    /// The peak of the group's memory, in bytes.
    pub fn peak(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        };
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Number of processes of the group that the kernel has killed for lack of memory.
    pub fn killed(&self) -> u64 {
        let file = if self.version == 2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // Its processes have ended, but the kernel may need a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
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
        match Limit::new(64 << 20) {
            Ok(limit) => match limit.within(|| std::process::Command::new("true").status()) {
                Ok(status) => assert!(status.unwrap().success()),
                Err(why) => assert!(why.contains("cannot be limited"), "{why}"),
            },
            Err(why) => assert!(
                why.contains("memory is not limited") || why.contains("run as root"),
                "{why}"
            ),
        }
    }
}
