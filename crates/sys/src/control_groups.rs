//! The mounted hierarchies of control groups, and this process's place in each. See cgroups(7).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A mounted hierarchy that has this process's group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedHierarchy {
    /// The folder where the hierarchy, or a part of it, is mounted.
    pub top: PathBuf,
    /// The folder of this process's group.
    pub own: PathBuf,
    /// The controllers of a hierarchy of version 1; `None` for version 2.
    pub controllers: Option<Vec<String>>,
}

impl MountedHierarchy {
    /// Returns the hierarchies in the order of their mounts. A mount that shows a part of a
    /// hierarchy without this process's group, as in a container, is left out.
    ///
    /// # Errors
    /// `/proc` cannot be read; the text names the file.
    pub fn of_this_process() -> io::Result<Vec<MountedHierarchy>> {
        let read = |path: &str| {
            fs::read_to_string(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
        };
        Ok(MountedHierarchy::parse(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?))
    }

    /// Returns what [`MountedHierarchy::of_this_process`] does, from the contents of
    /// `/proc/self/mountinfo` and `/proc/self/cgroup`. Lines that are malformed are left out.
    pub fn parse(mounts: &str, groups: &str) -> Vec<MountedHierarchy> {
        mounts
            .lines()
            .filter_map(|mount| MountedHierarchy::of_mount(mount, groups))
            .collect()
    }

    /// Returns whether the hierarchy is the one of version 2.
    pub fn is_unified(&self) -> bool {
        self.controllers.is_none()
    }

    fn of_mount(line: &str, groups: &str) -> Option<MountedHierarchy> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, top) = (mount.next()?, mount.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
        let is_option = |controller: &str| options.split(',').any(|option| option == controller);
        let mut groups = groups.lines().filter_map(group);
        let (controllers, group) = match name {
            "cgroup2" => groups.find(|(controllers, _)| controllers.is_empty())?,
            "cgroup" => groups.find(|(controllers, _)| controllers.split(',').any(is_option))?,
            _ => return None,
        };
        let below = Path::new(group).strip_prefix(root).ok()?;
        let controllers = controllers.split(',').map(str::to_owned);
        Some(MountedHierarchy {
            top: top.into(),
            own: Path::new(top).join(below),
            controllers: (name == "cgroup").then(|| controllers.collect()),
        })
    }
}

/// The controllers and the group of a line of `/proc/self/cgroup`. Version 2 has no controllers.
fn group(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    Some((fields.next()?, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(top: &str, own: &str, controllers: Option<&[&str]>) -> MountedHierarchy {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        MountedHierarchy {
            top: top.into(),
            own: own.into(),
            controllers: controllers.map(owned),
        }
    }

    #[test]
    fn a_machine_with_both_versions() {
        let mounts = "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      2 0 0:2 / /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory\n\
                      3 0 0:3 / /proc rw - proc proc rw\n\
                      4 0 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
                      5 0 0:5 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let groups = "4:memory:/a/b\n3:cpu,cpuacct:/c:d\n0::/e\n";
        let expected = [
            hierarchy("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu/c:d", Some(&["cpu", "cpuacct"])),
            hierarchy("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a/b", Some(&["memory"])),
            hierarchy("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/e", None),
        ];
        let found = MountedHierarchy::parse(mounts, groups);
        assert_eq!(found, expected);
        assert!(found[2].is_unified() && !found[1].is_unified());
    }

    #[test]
    fn a_mount_of_another_part_is_left_out() {
        let mounts = "30 24 0:26 /docker/77 /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
        assert_eq!(MountedHierarchy::parse(mounts, "0::/../other\n"), []);
        let inside = hierarchy("/sys/fs/cgroup", "/sys/fs/cgroup/x", None);
        assert_eq!(MountedHierarchy::parse(mounts, "0::/docker/77/x\n"), [inside]);
        assert_eq!(MountedHierarchy::parse("nonsense\n1 2 3 - cgroup2\n", "0::/\nx\n"), []);
    }
}
