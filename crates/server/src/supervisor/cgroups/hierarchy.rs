//! The hierarchies of control groups in which this supervisor has a folder.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use howdah_sys::control_groups::MountedHierarchy;
use howdah_sys::folder::has_attribute;
use howdah_sys::process;

use super::{Controller, inner, is_stale, make, remove};

/// The group of this process where version 2 wants processes and inner groups apart. systemd's
/// `DelegateSubgroup=supervisor` makes the same.
const LEAF: &str = "supervisor";
/// Exists where systemd manages the control groups.
const SYSTEMD: &str = "/run/systemd/system";
/// systemd marks the groups that belong to a service with `Delegate=`.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];
/// Groups that are searched for folders of dead supervisors, those nearest to the top first.
/// Deeper folders stay, empty, until a supervisor starts beside them.
const MOST_SEARCHED: usize = 1000;

/// A hierarchy in which this process may create groups, perhaps.
#[derive(Debug)]
pub(super) struct FoundHierarchy {
    /// The folder where the hierarchy is mounted.
    top: PathBuf,
    /// The group that this process was started in.
    base: PathBuf,
    is_unified: bool,
    /// The controllers of a hierarchy of version 1.
    controllers: Vec<Controller>,
}

/// A hierarchy with this supervisor's folder.
#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pub(super) folder: PathBuf,
    is_unified: bool,
    controllers: Vec<Controller>,
}

/// Finds the mounted hierarchies that are of use.
///
/// # Errors
/// The reason why none may be used.
pub(super) fn find(is_root: bool) -> Result<Vec<FoundHierarchy>, String> {
    let mounted = MountedHierarchy::of_this_process().map_err(|error| error.to_string())?;
    let found = usable(mounted);
    let is_delegated = |found: &FoundHierarchy| {
        found.is_unified && DELEGATED.iter().any(|name| has_attribute(&found.base, name))
    };
    if is_root && Path::new(SYSTEMD).exists() && !found.iter().any(is_delegated) {
        return Err(
            "systemd manages them, and this service has no `Delegate=yes` in its unit".to_owned()
        );
    }
    Ok(found)
}

/// The hierarchies of version 2, and those of version 1 with a controller for a limit.
fn usable(mounted: Vec<MountedHierarchy>) -> Vec<FoundHierarchy> {
    let mut all: Vec<FoundHierarchy> = Vec::new();
    for MountedHierarchy { top, mut own, controllers } in mounted {
        let is_unified = controllers.is_none();
        let names = controllers.unwrap_or_default();
        let controllers: Vec<Controller> = Controller::ALL
            .into_iter()
            .filter(|controller| names.iter().any(|name| name == controller.name()))
            .collect();
        if !is_unified && controllers.is_empty() {
            continue;
        }
        if is_unified && own.ends_with(LEAF) && own != top {
            own.pop();
        }
        if !all.iter().any(|found| found.base == own) {
            all.push(FoundHierarchy { top, base: own, is_unified, controllers });
        }
    }
    all
}

impl FoundHierarchy {
    /// Returns whether there is a folder of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.base.join(name).is_dir()
    }

    /// Creates the supervisor's folder `name`, and removes those of dead supervisors.
    ///
    /// # Errors
    /// The reason, for the operator.
    pub(super) fn create(self, name: &str) -> Result<Hierarchy, String> {
        self.remove_stale();
        let folder = self.base.join(name);
        make(&folder).map_err(|error| error.to_string())?;
        let controllers = match self.is_unified {
            true => self.delegate(&folder),
            false => self.controllers,
        };
        Ok(Hierarchy {
            folder,
            is_unified: self.is_unified,
            controllers,
        })
    }

    /// Makes the controllers of version 2 available in `folder`. Returns those that are.
    fn delegate(&self, folder: &Path) -> Vec<Controller> {
        let usable = |controller: &Controller| {
            let switch = format!("+{}", controller.name());
            let base = self.base.join("cgroup.subtree_control");
            let done = fs::write(&base, &switch).or_else(|error| {
                if error.raw_os_error() != Some(EBUSY) {
                    return Err(error);
                }
                self.leave_base()?;
                fs::write(&base, &switch)
            });
            done.and_then(|()| fs::write(folder.join("cgroup.subtree_control"), &switch))
                .is_ok()
        };
        Controller::ALL.into_iter().filter(usable).collect()
    }

    /// A group of version 2 with controllers for inner groups must have no processes itself.
    fn leave_base(&self) -> io::Result<()> {
        let leaf = self.base.join(LEAF);
        make(&leaf)?;
        fs::write(leaf.join("cgroup.procs"), process::own_pid().to_string())
    }

    /// Removes the folders of dead supervisors: beside the own one with all processes in them, and
    /// elsewhere if they are empty. A supervisor that is started from another session than the one
    /// before may be in another group.
    fn remove_stale(&self) {
        for folder in inner(&self.base).filter(|folder| is_left_behind(folder)) {
            let pools: Vec<PathBuf> = inner(&folder).collect();
            super::kill::all(std::slice::from_ref(&folder));
            for pool in &pools {
                // A group whose processes have not ended yet is removed at the next start.
                let _ = remove(std::slice::from_ref(pool));
            }
            let _ = fs::remove_dir(folder);
        }
        let mut found = VecDeque::from([self.top.clone()]);
        for _ in 0..MOST_SEARCHED {
            let Some(folder) = found.pop_front() else {
                return;
            };
            for folder in inner(&folder) {
                if is_left_behind(&folder) {
                    remove_empty(&folder);
                } else {
                    found.push_back(folder);
                }
            }
        }
    }
}

/// Returns whether the folder is one of a supervisor that has ended.
fn is_left_behind(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(is_stale)
}

/// Removes the folder of a supervisor with those of its pools and their zygotes, as far as no
/// processes are in them.
fn remove_empty(supervisor: &Path) {
    for pool in inner(supervisor) {
        for zygote in inner(&pool) {
            let _ = fs::remove_dir(zygote);
        }
        let _ = fs::remove_dir(pool);
    }
    let _ = fs::remove_dir(supervisor);
}

impl Hierarchy {
    pub(super) fn controls(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Sets the limit of a group.
    ///
    /// # Errors
    /// The error of the file system, with the file.
    pub(super) fn limit(
        &self,
        folder: &Path,
        controller: Controller,
        value: u64,
    ) -> io::Result<()> {
        let (file, value) = match (controller, self.is_unified) {
            (Controller::Memory, true) => ("memory.max", value),
            (Controller::Memory, false) => ("memory.limit_in_bytes", value),
            (Controller::Pids, _) => ("pids.max", value),
            (Controller::Cpu, true) => ("cpu.weight", value),
            // Version 1 counts in shares, of which 1024 are usual and 2 the least.
            (Controller::Cpu, false) => ("cpu.shares", (value * 1024 / 100).max(2)),
        };
        write(&folder.join(file), value)
    }

    /// Keeps the processes of a group from using swap beyond its limit of memory. Call it after
    /// [`Hierarchy::limit`]: version 1 limits memory and swap together, to no less than memory
    /// alone. Without the kernel's accounting of swap nothing happens.
    ///
    /// # Errors
    /// The error of the file system, with the file.
    pub(super) fn limit_swap(&self, folder: &Path, memory: u64) -> io::Result<()> {
        let (file, value) = match self.is_unified {
            true => ("memory.swap.max", 0),
            false => ("memory.memsw.limit_in_bytes", memory),
        };
        match write(&folder.join(file), value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            written => written,
        }
    }
}

/// Writes a number to a file of the kernel. The file is not created.
fn write(path: &Path, value: u64) -> io::Result<()> {
    let written = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.to_string().as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The group has processes.
const EBUSY: i32 = 16;

#[cfg(test)]
mod tests {
    use super::super::{ControlGroups, GroupLimits};
    use super::*;

    fn bases(mounts: &str, own: &str) -> Vec<(String, Vec<Controller>)> {
        let show = |found: FoundHierarchy| (found.base.display().to_string(), found.controllers);
        usable(MountedHierarchy::parse(mounts, own)).into_iter().map(show).collect()
    }

    #[test]
    fn folders_of_dead_supervisors_go_wherever_they_are() {
        let top = std::env::temp_dir().join(format!("howdah-groups-{}", std::process::id()));
        let own = super::super::own_name().unwrap();
        // The time of another process that had this number.
        let (dead, foreign) = (format!("{own}7"), format!("howdah-1-{}.1", std::process::id()));
        let folder = |name: &str, inner: &str| {
            let folder = top.join(name);
            fs::create_dir_all(folder.join(inner)).unwrap();
            folder
        };
        let elsewhere = folder(&format!("session-7/deeper/{dead}"), "3-shop/1");
        let in_use = folder(&format!("session-8/{dead}"), "3-shop/1");
        // Stands for a process: the folder is not empty.
        fs::write(in_use.join("3-shop/1/process"), "").unwrap();
        let others = [
            folder(&format!("session-7/{own}"), "1-shop/1"),
            folder(&foreign, "1-shop/1"),
            folder("session-9", "howdah"),
        ];
        fs::create_dir(top.join("base")).unwrap();
        let found = FoundHierarchy {
            base: top.join("base"),
            top: top.clone(),
            is_unified: false,
            controllers: Vec::new(),
        };
        let hierarchy = found.create(&own).unwrap();
        assert!(!elsewhere.exists());
        assert!(in_use.join("3-shop/1/process").exists());
        assert!(others.iter().all(|other| other.exists()));
        // A pool that did not start leaves a group.
        fs::create_dir_all(hierarchy.folder.join("2-shop/1")).unwrap();
        let folder = hierarchy.folder.clone();
        ControlGroups { hierarchies: vec![hierarchy] }.remove();
        assert!(!folder.exists());
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_limit_of_memory_is_none_of_memory_alone() {
        for (is_unified, files, expected) in [
            (false, ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], ["4096", "4096"]),
            (true, ["memory.max", "memory.swap.max"], ["4096", "0"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = |file: &str| folder.path().join(file);
            let hierarchy = Hierarchy {
                folder: folder.path().to_owned(),
                is_unified,
                controllers: vec![Controller::Memory],
            };
            let groups = ControlGroups { hierarchies: vec![hierarchy] };
            let limits = GroupLimits {
                memory: Some(4096),
                ..GroupLimits::default()
            };
            // The kernel makes the files of a group. Swap is not always counted.
            for has_swap in [false, true] {
                std::fs::create_dir_all(path("1-shop")).unwrap();
                let all = files.map(|file| path("1-shop").join(file));
                all.iter().take(1 + usize::from(has_swap)).for_each(|file| {
                    std::fs::write(file, "").unwrap();
                });
                let (_, failed) = groups.pool(1, "shop", limits).unwrap();
                assert!(failed.is_empty(), "{failed:?}");
                let content = |file| std::fs::read_to_string(file).ok();
                assert_eq!(content(&all[0]).as_deref(), Some(expected[0]));
                assert_eq!(content(&all[1]).as_deref(), has_swap.then_some(expected[1]));
                std::fs::remove_dir_all(path("1-shop")).unwrap();
            }
        }
    }

    #[test]
    fn version_two() {
        let mounts =
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let service = "0::/system.slice/howdah.service\n";
        let expected = "/sys/fs/cgroup/system.slice/howdah.service".to_owned();
        assert_eq!(bases(mounts, service), [(expected.clone(), vec![])]);
        let leaf = "0::/system.slice/howdah.service/supervisor\n";
        assert_eq!(bases(mounts, leaf), [(expected, vec![])]);
        assert_eq!(bases(mounts, "0::/\n"), [("/sys/fs/cgroup/".to_owned(), vec![])]);
    }

    #[test]
    fn both_versions() {
        let mounts = "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      3 0 0:3 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      4 0 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/c\n2:freezer:/\n0::/\n";
        assert_eq!(
            bases(mounts, own),
            [
                ("/sys/fs/cgroup/cpu/c".to_owned(), vec![Controller::Cpu]),
                ("/sys/fs/cgroup/memory/a/b".to_owned(), vec![Controller::Memory]),
                ("/sys/fs/cgroup/unified/".to_owned(), vec![]),
            ]
        );
    }
}
