//! Control groups: the kernel's own list of a pool's processes, which no process can leave, and
//! limits on what they use together. See cgroups(7).
//!
//! ```text
//! BASE                        the group that this process was started in
//!  ├── supervisor             this process and the front, where version 2 wants that
//!  └── howdah-NAMESPACE-PID.START   of one supervisor
//!       └── 3-shop            generation 3's pool of the site `shop`: the limits
//!            ├── 1            its first zygote and all that this zygote started
//!            └── 2            the zygote that replaced the first
//! ```
//! The same folders are made in the hierarchy of version 2 and in each hierarchy of version 1 that
//! has a controller for a limit. Machines with both ("hybrid") have the controllers in version 1
//! and `cgroup.kill` in version 2.

mod hierarchy;
mod kill;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_sys::process::{self, Pid};

use self::hierarchy::Hierarchy;

/// The limits of a pool, which only control groups can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupLimits {
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
    /// Processes and threads.
    pub(crate) pids: Option<u64>,
    /// The limit of these that nobody has asked for. `None` if there is none, or `pids` is given.
    pub(crate) usual_pids: Option<u64>,
    /// Share of processor time; 100 is usual.
    pub(crate) cpu_weight: Option<u64>,
}

/// A resource that a control group can limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
    Cpu,
}

/// The folders of this supervisor's control groups.
#[derive(Debug, Clone)]
pub(crate) struct ControlGroups {
    hierarchies: Vec<Hierarchy>,
}

/// The control groups of one pool.
#[derive(Debug)]
pub(super) struct PoolGroup {
    folders: Vec<PathBuf>,
    /// Number of the last zygote's group.
    last: u64,
    /// The limits that are in force, for `howdah status`.
    limits: Vec<String>,
}

/// The control groups of one zygote with its workers and all that they started.
#[derive(Debug)]
pub(super) struct ZygoteGroup {
    folders: Vec<PathBuf>,
}

impl ControlGroups {
    /// Creates the supervisor's folders, and removes those of supervisors that were killed, with
    /// all processes in them.
    ///
    /// # Errors
    /// The reason why there are none, for the operator.
    pub(super) fn create(is_root: bool) -> Result<ControlGroups, String> {
        let own = own_name().ok_or("/proc cannot be read")?;
        let mut hierarchies = Vec::new();
        let mut refused = None;
        for found in hierarchy::find(is_root)? {
            match found.create(&own) {
                Ok(hierarchy) => hierarchies.push(hierarchy),
                Err(error) => refused = Some(error),
            }
        }
        match (hierarchies.is_empty(), refused) {
            (false, _) => Ok(ControlGroups { hierarchies }),
            (true, Some(error)) => Err(error),
            (true, None) => Err("no hierarchy is mounted".to_owned()),
        }
    }

    /// Finds the folders that the program before this one in the same process has created. `None`:
    /// there are none.
    pub(super) fn reopen(is_root: bool) -> Option<ControlGroups> {
        let own = own_name()?;
        let hierarchies: Vec<Hierarchy> = hierarchy::find(is_root)
            .ok()?
            .into_iter()
            .filter(|found| found.has(&own))
            .filter_map(|found| found.create(&own).ok())
            .collect();
        (!hierarchies.is_empty()).then_some(ControlGroups { hierarchies })
    }

    /// Creates the groups of a pool with its limits. Also returns a message for each limit that has
    /// no effect.
    ///
    /// # Errors
    /// The error of the file system.
    pub(super) fn pool(
        &self,
        generation: u64,
        name: &str,
        limits: GroupLimits,
    ) -> io::Result<(PoolGroup, Vec<String>)> {
        let mut group = self.pool_of(generation, name);
        for folder in &group.folders {
            make(folder)?;
        }
        let mut failed = Vec::new();
        for (controller, value) in limits.each() {
            let key = controller.key();
            let place = self.hierarchies.iter().zip(&group.folders);
            let mut place = place.filter(|(hierarchy, _)| hierarchy.controls(controller));
            let Some((hierarchy, folder)) = place.next() else {
                let name = controller.name();
                failed.push(format!(
                    "`{key}` has no effect, because this server has no {name} controller"
                ));
                continue;
            };
            match hierarchy.limit(folder, controller, value) {
                Ok(()) => group.limits.push(format!("{key} {value}")),
                Err(error) => {
                    failed.push(format!("`{key}` has no effect: {error}"));
                    continue;
                }
            }
            if controller == Controller::Memory
                && let Err(error) = hierarchy.limit_swap(folder, value)
            {
                failed.push(format!("`{key}` does not limit swap: {error}"));
            }
        }
        if let Some(value) = limits.usual_pids {
            let mut places = self.hierarchies.iter().zip(&group.folders);
            let limited = places.any(|(hierarchy, folder)| {
                hierarchy.controls(Controller::Pids)
                    && hierarchy.limit(folder, Controller::Pids, value).is_ok()
            });
            if limited {
                group.limits.push(format!("{} {value}", Controller::Pids.key()));
            }
        }
        Ok((group, failed))
    }

    /// The groups of a pool that the program before this one has started.
    pub(super) fn pool_of(&self, generation: u64, name: &str) -> PoolGroup {
        let name = format!("{generation}-{name}");
        PoolGroup {
            folders: self
                .hierarchies
                .iter()
                .map(|hierarchy| hierarchy.folder.join(&name))
                .collect(),
            last: 0,
            limits: Vec::new(),
        }
    }

    /// Removes the supervisor's folders. Call it when no pool is left.
    pub(super) fn remove(&self) {
        for hierarchy in &self.hierarchies {
            let pools: Vec<PathBuf> = inner(&hierarchy.folder).collect();
            // Of a pool that did not start, a group may be left.
            remove(&pools);
            // Only a folder with groups of others in it stays.
            let _ = fs::remove_dir(&hierarchy.folder);
        }
    }
}

impl PoolGroup {
    /// Creates the groups of another zygote, and removes those of the former ones.
    ///
    /// # Errors
    /// The error of the file system.
    pub(super) fn zygote(&mut self) -> io::Result<ZygoteGroup> {
        self.last += 1;
        let name = self.last.to_string();
        let folders: Vec<PathBuf> = self.folders.iter().map(|folder| folder.join(&name)).collect();
        for folder in &folders {
            make(folder)?;
        }
        Ok(ZygoteGroup { folders })
    }

    /// The folders with the groups of all pools of this supervisor.
    pub(super) fn of_all_pools(&self) -> Vec<PathBuf> {
        self.folders
            .iter()
            .filter_map(|folder| Some(folder.parent()?.to_owned()))
            .collect()
    }

    /// Kills every process of the pool.
    pub(super) fn kill(&self) {
        kill::all(&self.folders);
    }

    /// Removes the groups. Returns whether they are gone; if processes were left, they were killed,
    /// and the next call may succeed.
    pub(super) fn remove(&self) -> bool {
        remove(&self.folders)
    }

    /// Describes the limits for `howdah status`.
    pub(super) fn describe(&self) -> String {
        match &self.limits[..] {
            [] => "a control group".to_owned(),
            limits => format!("a control group with {}", limits.join(", ")),
        }
    }
}

impl ZygoteGroup {
    /// Moves a process into the groups. Children that it starts later are in them as well.
    ///
    /// # Errors
    /// The error of the file system.
    pub(super) fn add(&self, pid: Pid) -> io::Result<()> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Kills every process in the groups.
    pub(super) fn kill(&self) {
        kill::all(&self.folders);
    }

    /// Removes the groups. Returns whether they are gone, like [`PoolGroup::remove`].
    pub(super) fn remove(&self) -> bool {
        remove(&self.folders)
    }
}

impl GroupLimits {
    fn each(self) -> impl Iterator<Item = (Controller, u64)> {
        let all = [
            (Controller::Memory, self.memory),
            (Controller::Pids, self.pids),
            (Controller::Cpu, self.cpu_weight),
        ];
        all.into_iter().filter_map(|(controller, value)| Some((controller, value?)))
    }

    /// The keys that are set.
    pub(super) fn keys(self) -> Vec<&'static str> {
        self.each().map(|(controller, _)| controller.key()).collect()
    }
}

impl Controller {
    const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    /// The kernel's name.
    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu",
        }
    }

    /// The key of `[site.php]`.
    fn key(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Pids => "pids",
            Controller::Cpu => "cpu_weight",
        }
    }
}

/// The name of this supervisor's folders. It stays the same if another program is executed in this
/// process, and no other process ever has it.
fn own_name() -> Option<String> {
    let own = process::own_pid();
    Some(format!("{}{own}.{}", prefix()?, process::started(own)?))
}

/// The beginning of the names of all supervisors whose process numbers mean the same as here.
fn prefix() -> Option<String> {
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("howdah-{namespace}-"))
}

/// Returns whether the supervisor that the folder belongs to has ended.
fn is_stale(name: &str) -> bool {
    let Some((pid, started)) = prefix()
        .and_then(|prefix| name.strip_prefix(prefix.as_str()))
        .and_then(|name| name.split_once('.'))
    else {
        return false;
    };
    match (pid.parse().ok().and_then(Pid::from_number), started.parse().ok()) {
        (Some(pid), Some(started)) => process::started(pid) != Some(started),
        _ => false,
    }
}

fn make(folder: &PathBuf) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// The folders in a folder.
fn inner(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// Removes folders with the folders in them. The files in them are the kernel's.
fn remove(folders: &[PathBuf]) -> bool {
    let gone = |folder: &PathBuf| -> bool {
        for zygote in inner(folder) {
            // The outer folder stays if this fails.
            let _ = fs::remove_dir(zygote);
        }
        match fs::remove_dir(folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    };
    let left = folders.iter().filter(|folder| !gone(folder)).count();
    if left > 0 {
        kill::all(folders);
    }
    left == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_stale_if_its_supervisor_is_gone() {
        let own = own_name().unwrap();
        assert!(!is_stale(&own));
        assert!(is_stale(&format!("{own}7")), "another process with this number");
        for foreign in ["howdah-", "howdah-1-1.1", "howdah-a.1", "system.slice", "howdah-lab"] {
            assert!(!is_stale(foreign), "{foreign}");
        }
    }

    #[test]
    fn limits_are_named_by_their_keys() {
        let limits = GroupLimits {
            memory: Some(1 << 20),
            pids: None,
            usual_pids: Some(1024),
            cpu_weight: Some(50),
        };
        assert_eq!(limits.keys(), ["memory", "cpu_weight"]);
        assert!(GroupLimits::default().keys().is_empty());
    }
}
