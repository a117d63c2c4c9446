//! The memory that this server may use: that of the machine, or of the control groups that it is
//! in.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use howdah_php::{LimitProbe, MemoryFigures, MemoryWatch};
use howdah_sys::control_groups::MountedHierarchy;

/// The time between two looks, and where less than a quarter of the memory is available.
const LOOK: Duration = Duration::from_secs(1);
const CLOSE_LOOK: Duration = Duration::from_millis(250);

/// Starts a thread that brings `watch` up to date until the process ends. The first figures are
/// there when this returns. Only this thread reads `memory.stat`, for which the kernel adds up the
/// counters of all processors, and `/proc/meminfo`. Event loops read the limits, as [`LimitProbe`]:
/// one or two files of a few bytes for each group, and the usage where a limit has become smaller.
///
/// # Errors
/// The system has no resources for a thread.
pub(super) fn follow(watch: &Arc<MemoryWatch>) -> io::Result<()> {
    let memory = Arc::new(AvailableMemory::of_this_process());
    memory.publish(watch);
    watch.probe_with(memory.clone());
    let watch = Arc::downgrade(watch);
    let builder = std::thread::Builder::new().name("howdah-memory".to_owned());
    let started = builder.stack_size(STACK).spawn(move || {
        while let Some(watch) = watch.upgrade() {
            memory.publish(&watch);
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
    AvailableMemory::of_this_process().read().map(|look| look.figures.limit)
}

/// The places where the kernel tells about memory.
#[derive(Debug)]
struct AvailableMemory {
    groups: Vec<MemoryGroup>,
}

/// The findings of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryReading {
    figures: MemoryFigures,
    /// A limit is smaller than at the look before.
    is_cut: bool,
}

/// A control group that counts the memory of its processes.
#[derive(Debug, PartialEq, Eq)]
struct GroupPlace {
    folder: PathBuf,
    /// Of version 2.
    is_unified: bool,
}

/// The figures of a control group. The files of its limits and its usage stay open: they are read
/// often.
#[derive(Debug)]
struct MemoryGroup {
    place: GroupPlace,
    limits: Vec<File>,
    usage: File,
    /// The limit that was read last; 0 for none.
    limit: AtomicU64,
    /// Bytes of the usage that were cached content of files at the last look.
    files: AtomicU64,
}

impl AvailableMemory {
    /// Finds the control groups that this process is in, and those around them.
    fn of_this_process() -> AvailableMemory {
        let hierarchies = MountedHierarchy::of_this_process().unwrap_or_default();
        let groups = groups(&hierarchies).into_iter().filter_map(MemoryGroup::open);
        AvailableMemory { groups: groups.collect() }
    }

    /// Reads the present figures: those of the group, or of the machine, with the least memory
    /// available. `None` without `/proc`.
    fn read(&self) -> Option<MemoryReading> {
        let machine = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
        let groups: Vec<MemoryReading> = self.groups.iter().filter_map(MemoryGroup::read).collect();
        let figures = groups.iter().map(|look| look.figures);
        let bounded = figures.filter(|group| group.limit < machine.limit);
        let least = bounded.chain([machine]).min_by_key(|figures| figures.available);
        Some(MemoryReading {
            figures: least.unwrap_or(machine),
            is_cut: groups.iter().any(|look| look.is_cut),
        })
    }

    fn publish(&self, watch: &MemoryWatch) {
        match self.read() {
            Some(MemoryReading { figures, is_cut: true }) => watch.publish_smaller(figures),
            Some(MemoryReading { figures, is_cut: false }) => watch.publish(figures),
            None => {}
        }
    }
}

impl LimitProbe for AvailableMemory {
    fn smaller(&self) -> Option<MemoryFigures> {
        let reduced_limit = self.groups.iter().filter_map(MemoryGroup::cut);
        reduced_limit.min_by_key(|figures| figures.available)
    }
}

impl MemoryGroup {
    /// Opens the files of a group. `None` for one that does not tell its usage, as the outermost
    /// one of version 2.
    fn open(place: GroupPlace) -> Option<MemoryGroup> {
        // The kernel slows the processes of a group down above `memory.high` until nearly nothing
        // moves; that is a limit as well.
        let (limits, usage) = match place.is_unified {
            true => (&["memory.max", "memory.high"][..], "memory.current"),
            false => (&["memory.limit_in_bytes"][..], "memory.usage_in_bytes"),
        };
        let open = |name: &str| File::open(place.folder.join(name)).ok();
        Some(MemoryGroup {
            limits: limits.iter().filter_map(|name| open(name)).collect(),
            usage: open(usage)?,
            limit: AtomicU64::new(0),
            files: AtomicU64::new(0),
            place,
        })
    }

    /// `None` without a limit.
    fn read(&self) -> Option<MemoryReading> {
        let limit = self.limit();
        let former = self.limit.swap(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
        let (limit, usage) = (limit?, number(&self.usage)?);
        let stat = fs::read_to_string(self.place.folder.join("memory.stat")).unwrap_or_default();
        let files = cached_files(&stat, self.place.is_unified);
        self.files.store(files, Ordering::Relaxed);
        Some(MemoryReading {
            figures: of_group(limit, usage, files),
            is_cut: limit < former,
        })
    }

    /// Returns the figures if the limit is smaller than it was.
    fn cut(&self) -> Option<MemoryFigures> {
        let limit = self.limit()?;
        let former = self.limit.load(Ordering::Relaxed);
        if limit >= former {
            return None;
        }
        self.limit.store(limit, Ordering::Relaxed);
        Some(of_group(limit, number(&self.usage)?, self.files.load(Ordering::Relaxed)))
    }

    fn limit(&self) -> Option<u64> {
        self.limits.iter().filter_map(number).min()
    }
}

/// Reads a file with one number. `None` for the word `max`.
fn number(file: &File) -> Option<u64> {
    let mut text = [0; 32];
    let length = file.read_at(&mut text, 0).ok()?;
    str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
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

/// The memory of a group with these bytes of cached content, which count as available.
fn of_group(limit: u64, usage: u64, files: u64) -> MemoryFigures {
    let used = usage.saturating_sub(files);
    MemoryFigures {
        limit,
        available: limit.saturating_sub(used),
    }
}

/// Bytes of cached content of files that the kernel gives back: all of it that was not used lately,
/// and half of the rest.
fn cached_files(stat: &str, is_unified: bool) -> u64 {
    let prefix = if is_unified { "" } else { "total_" };
    let value = |name: &str| -> u64 {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        let mut values = lines.filter(|(key, _)| key.strip_prefix(prefix) == Some(name));
        values.next().and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    };
    value("inactive_file").saturating_add(value("active_file") / 2)
}

/// The groups of this process that count memory, and those around them, from the inner to the
/// outer ones.
fn groups(hierarchies: &[MountedHierarchy]) -> Vec<GroupPlace> {
    let mut all = Vec::new();
    for MountedHierarchy { top, own, controllers } in hierarchies {
        let counts_memory = |names: &Vec<String>| names.iter().any(|name| name == "memory");
        if !controllers.as_ref().is_none_or(counts_memory) {
            continue;
        }
        for folder in own.ancestors().take_while(|folder| folder.starts_with(top)) {
            all.push(GroupPlace {
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
        let look = memory.read().unwrap();
        assert!(look.figures.available <= look.figures.limit && !look.is_cut);
    }

    #[test]
    fn what_is_kept_of_files_is_available() {
        let stat = "anon 400\nactive_file 100\ninactive_file 200\ninactive_anon 7\n";
        assert_eq!(cached_files(stat, true), 250);
        assert_eq!(of_group(1000, 700, 250), figures(1000, 550));
        let stat = "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100\n";
        assert_eq!((cached_files(stat, false), cached_files("", false)), (250, 0));
        assert_eq!(of_group(1000, 2000, 0), figures(1000, 0));
    }

    #[test]
    fn a_group_that_is_slowed_down_above_less_than_its_limit_has_that_much() {
        let folder = std::env::temp_dir().join(format!("howdah-group-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let group = || {
            let place = GroupPlace { folder: folder.clone(), is_unified: true };
            MemoryGroup::open(place).unwrap()
        };
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
            let found = group().read().map(|look| look.figures);
            assert_eq!(found, expected, "{max:?} {high:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_limit_that_becomes_smaller_is_seen_once() {
        let folder = std::env::temp_dir().join(format!("howdah-cut-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("memory.usage_in_bytes", "700\n");
        write("memory.stat", "total_inactive_file 200\n");
        write("memory.limit_in_bytes", "2000\n");
        let place = GroupPlace {
            folder: folder.clone(),
            is_unified: false,
        };
        let group = MemoryGroup::open(place).unwrap();
        let look = || group.read().map(|look| (look.figures.available, look.is_cut));
        assert_eq!(group.cut(), None, "nothing was read before");
        assert_eq!((look(), group.cut()), (Some((1500, false)), None));
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "800\n");
        assert_eq!((group.cut(), group.cut()), (Some(figures(1000, 400)), None));
        write("memory.limit_in_bytes", "900\n");
        assert_eq!((look(), look()), (Some((300, true)), Some((300, false))));
        write("memory.limit_in_bytes", "9000\n");
        assert_eq!((group.cut(), look()), (None, Some((8400, false))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_group_around_this_process_counts() {
        let group = |folder: &str, is_unified| GroupPlace { folder: folder.into(), is_unified };
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
