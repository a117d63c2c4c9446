//! The memory that this server may use: that of the machine, or of the control groups that it is
//! in.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use howdah_php::{MemoryFigures, MemoryWatch};
use howdah_sys::control_groups::MountedHierarchy;

/// The time between two looks, and where less than a quarter of the memory is available.
const LOOK: Duration = Duration::from_secs(1);
const CLOSE_LOOK: Duration = Duration::from_millis(250);

/// Starts a thread that brings `watch` up to date until the process ends. The first figures are
/// there when this returns. Reading them may wait for the kernel's own locks, which no event loop
/// should.
///
/// # Errors
/// The system has no resources for a thread.
pub(super) fn follow(watch: &Arc<MemoryWatch>) -> io::Result<()> {
    let memory = AvailableMemory::of_this_process();
    let publish = |memory: &AvailableMemory, watch: &MemoryWatch| {
        memory.read().into_iter().for_each(|figures| watch.publish(figures));
    };
    publish(&memory, watch);
    let watch = Arc::downgrade(watch);
    let builder = std::thread::Builder::new().name("howdah-memory".to_owned());
    let started = builder.stack_size(STACK).spawn(move || {
        while let Some(watch) = watch.upgrade() {
            publish(&memory, &watch);
            let figures = watch.figures();
            drop(watch);
            let is_tight = figures.is_some_and(|figures| figures.available < figures.limit / 4);
            std::thread::sleep(if is_tight { CLOSE_LOOK } else { LOOK });
        }
    });
    started.map(drop)
}

/// Bytes of the thread's stack, of which it uses a few pages.
const STACK: usize = 128 * 1024;

/// Bytes of memory that this server may use; `None` where that cannot be found out.
pub(super) fn limit() -> Option<u64> {
    AvailableMemory::of_this_process().read().map(|figures| figures.limit)
}

/// The places where the kernel tells about memory.
#[derive(Debug)]
struct AvailableMemory {
    groups: Vec<MemoryGroup>,
}

/// A control group with the memory of its processes.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    folder: PathBuf,
    /// Of version 2.
    is_unified: bool,
}

impl AvailableMemory {
    /// Finds the control groups that this process is in, and those around them.
    fn of_this_process() -> AvailableMemory {
        let hierarchies = MountedHierarchy::of_this_process().unwrap_or_default();
        AvailableMemory { groups: groups(&hierarchies) }
    }

    /// Reads the present figures: those of the group, or of the machine, with the least memory
    /// available. `None` without `/proc`.
    fn read(&self) -> Option<MemoryFigures> {
        let machine = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
        let groups = self.groups.iter().filter_map(MemoryGroup::read);
        let bounded = groups.filter(|group| group.limit < machine.limit);
        Some(
            bounded
                .chain([machine])
                .min_by_key(|figures| figures.available)
                .unwrap_or(machine),
        )
    }
}

impl MemoryGroup {
    /// `None` without a limit. The kernel slows the processes of a group down above `memory.high`
    /// until nearly nothing moves; that is a limit as well.
    fn read(&self) -> Option<MemoryFigures> {
        let (limits, usage) = match self.is_unified {
            true => (&["memory.max", "memory.high"][..], "memory.current"),
            false => (&["memory.limit_in_bytes"][..], "memory.usage_in_bytes"),
        };
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok();
        // Without a limit, the file has the word `max`.
        let limits = limits.iter().filter_map(|name| read(name)?.trim().parse().ok());
        let limit = limits.min()?;
        let usage = read(usage)?.trim().parse().ok()?;
        let stat = read("memory.stat").unwrap_or_default();
        Some(of_group(limit, usage, &stat, self.is_unified))
    }
}

/// Reads `/proc/meminfo`.
fn of_machine(text: &str) -> Option<MemoryFigures> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(MemoryFigures {
        limit: value("MemTotal:")?,
        available: value("MemAvailable:")?,
    })
}

/// The memory of a group. Cached content of files counts as available: all of it that was not used
/// lately, and half of the rest.
fn of_group(limit: u64, usage: u64, stat: &str, is_unified: bool) -> MemoryFigures {
    let prefix = if is_unified { "" } else { "total_" };
    let value = |name: &str| -> u64 {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        let mut values = lines.filter(|(key, _)| key.strip_prefix(prefix) == Some(name));
        values.next().and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    let files = value("inactive_file").saturating_add(value("active_file") / 2);
    let used = usage.saturating_sub(files);
    MemoryFigures {
        limit,
        available: limit.saturating_sub(used),
    }
}

/// The groups of this process that count memory, and those around them, from the inner to the
/// outer ones.
fn groups(hierarchies: &[MountedHierarchy]) -> Vec<MemoryGroup> {
    let mut all = Vec::new();
    for MountedHierarchy { top, own, controllers } in hierarchies {
        let counts_memory = |names: &Vec<String>| names.iter().any(|name| name == "memory");
        if !controllers.as_ref().is_none_or(counts_memory) {
            continue;
        }
        for folder in own.ancestors().take_while(|folder| folder.starts_with(top)) {
            all.push(MemoryGroup {
                folder: folder.to_owned(),
                is_unified: controllers.is_none(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(limit: u64, available: u64) -> MemoryFigures {
        MemoryFigures { limit, available }
    }

    #[test]
    fn the_machine_has_what_the_kernel_says_is_available() {
        let text = "MemTotal:        1000 kB\nMemFree:          12 kB\nMemAvailable:     300 kB\n";
        assert_eq!(of_machine(text), Some(figures(1_024_000, 307_200)));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None);
        let memory = AvailableMemory { groups: Vec::new() };
        assert!(memory.read().is_some_and(|figures| figures.available <= figures.limit));
    }

    #[test]
    fn what_is_kept_of_files_is_available() {
        let stat = "anon 400\nactive_file 100\ninactive_file 200\ninactive_anon 7\n";
        assert_eq!(of_group(1000, 700, stat, true), figures(1000, 550));
        let stat = "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n";
        assert_eq!(of_group(1000, 700, stat, false), figures(1000, 550));
        assert_eq!(of_group(1000, 2000, "", false), figures(1000, 0));
    }

    #[test]
    fn a_group_that_is_slowed_down_above_less_than_its_limit_has_that_much() {
        let folder = std::env::temp_dir().join(format!("howdah-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let group = MemoryGroup { folder: folder.clone(), is_unified: true };
        fs::write(folder.join("memory.current"), "700\n").unwrap();
        fs::write(folder.join("memory.stat"), "inactive_file 200\n").unwrap();
        for (max, high, expected) in [
            ("1000\n", Some("800\n"), Some(figures(800, 300))),
            ("1000\n", Some("max\n"), Some(figures(1000, 500))),
            ("max\n", Some("800\n"), Some(figures(800, 300))),
            ("1000\n", Some("2000\n"), Some(figures(1000, 500))),
            ("1000\n", None, Some(figures(1000, 500))),
            ("max\n", Some("max\n"), None),
        ] {
            fs::write(folder.join("memory.max"), max).unwrap();
            match high {
                Some(high) => fs::write(folder.join("memory.high"), high).unwrap(),
                None => fs::remove_file(folder.join("memory.high")).unwrap(),
            }
            assert_eq!(group.read(), expected, "{max:?} {high:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_group_around_this_process_counts() {
        let group = |folder: &str, is_unified| MemoryGroup { folder: folder.into(), is_unified };
        let mounts = "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      4 0 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/a/b\n3:cpu:/c\n0::/\n";
        assert_eq!(
            groups(&MountedHierarchy::parse(mounts, own)),
            [
                group("/sys/fs/cgroup/memory/a/b", false),
                group("/sys/fs/cgroup/memory/a", false),
                group("/sys/fs/cgroup/memory", false),
                group("/sys/fs/cgroup/unified/", true),
            ]
        );
    }
}
