//! The processor time and memory of this process, and a clock that all processes share.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Nanoseconds of the clock that never goes back (`CLOCK_MONOTONIC`). All processes of the machine
/// read the same clock.
pub fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds that this process was on a processor. Costs a system call.
pub fn processor_time() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live. Linux has both clocks, therefore the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// `/proc/self/smaps_rollup`, kept open.
#[derive(Debug)]
pub struct MemoryMeter(File);

/// The memory of a process, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Proportional set size: a page that several processes share counts in parts.
    pub proportional: u64,
    /// Resident set size: every page in memory counts in full.
    pub resident: u64,
}

impl MemoryMeter {
    /// Opens the figures of this process. Open them again after a fork.
    ///
    /// # Errors
    /// The kernel has no such file, or this process may not read it.
    pub fn of_this_process() -> io::Result<MemoryMeter> {
        Ok(MemoryMeter(File::open("/proc/self/smaps_rollup")?))
    }

    /// Reads the present figures. The kernel walks over all pages, which takes about a millisecond.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<MemoryUse> {
        let mut text = [0; 2048];
        let length = self.0.read_at(&mut text, 0)?;
        parse(&text[..length])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "smaps_rollup is malformed"))
    }
}

fn parse(text: &[u8]) -> Option<MemoryUse> {
    let text = std::str::from_utf8(text).ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse().ok()
    };
    Some(MemoryUse {
        proportional: value("Pss:")?,
        resident: value("Rss:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sizes_are_needed() {
        let text = b"55-7f ---p 0 00:00 0 [rollup]\nRss:       1200 kB\nPss:        345 kB\n\
                     Pss_Dirty:   12 kB\n";
        let expected = MemoryUse { proportional: 345, resident: 1200 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(b"Rss: 12 kB\n"), None);
        assert_eq!(parse(b"Rss: x kB\nPss: 1 kB\n"), None);
    }

    #[test]
    fn clocks_do_not_go_back() {
        let (first, work) = (monotonic(), processor_time());
        assert!(monotonic() >= first && processor_time() >= work && first > 0);
    }

    #[test]
    fn this_process_has_memory() {
        let Ok(meter) = MemoryMeter::of_this_process() else {
            return; // A kernel without it, or a sandbox.
        };
        let used = meter.read().unwrap();
        assert!(used.resident >= used.proportional && used.proportional > 0, "{used:?}");
    }
}
