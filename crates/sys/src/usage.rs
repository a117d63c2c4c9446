//! The processor time and memory of this process, and a clock that all processes share.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Nanoseconds of the clock that never goes back (`CLOCK_MONOTONIC`). All processes of the machine
/// read the same clock.
pub fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Milliseconds of the same clock, up to a tick of the kernel behind, 10 ms at most
/// (`CLOCK_MONOTONIC_COARSE`). Reading it costs a fraction of [`monotonic`].
pub fn coarse_milliseconds() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// Nanoseconds that this process was on a processor. Costs a system call.
pub fn processor_time() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds that another process was on a processor. Costs a system call, and needs neither
/// rights over the process nor `/proc`. `None` if there is no such process.
pub fn processor_time_of(pid: u64) -> Option<u64> {
    /// The clock counts all time on a processor (the kernel's `CPUCLOCK_SCHED`).
    const ALL_TIME: libc::clockid_t = 2;
    // 0 would be this process.
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    // As clock_getcpuclockid(3), which makes another system call to find the process.
    read(!pid << 3 | ALL_TIME)
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    // Linux has these clocks, therefore the call cannot fail.
    read(clock).unwrap_or(0)
}

/// Returns the time of a clock; `None` if there is no such clock.
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } == -1 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the number of processes that the kernel has ended since the machine started because
/// memory ran out, that of the machine or of a control group. `None` where it does not tell.
pub fn out_of_memory_kills() -> Option<u64> {
    of_vmstat(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

/// Reads `/proc/vmstat`.
fn of_vmstat(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}

/// The size of the machine: no process uses more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors.
    pub processors: u64,
    /// Bytes of memory and swap.
    pub memory: u64,
}

impl Machine {
    /// Returns the size of this machine, as it was at the first call.
    pub fn present() -> Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        *MACHINE.get_or_init(|| Machine {
            processors: processors(),
            memory: memory(),
        })
    }
}

/// Number of processors that work; 1 where that is not known.
fn processors() -> u64 {
    // SAFETY: the call has no precondition.
    let found = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(found).unwrap_or(1).max(1)
}

/// Bytes of memory and swap; `u64::MAX` where that is not known.
fn memory() -> u64 {
    // SAFETY: every field is a number, or an array of them, for which zeros are valid.
    let mut found: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is live.
    if unsafe { libc::sysinfo(&raw mut found) } == -1 {
        return u64::MAX;
    }
    let units = u128::from(found.totalram) + u128::from(found.totalswap);
    u64::try_from(units * u128::from(found.mem_unit)).unwrap_or(u64::MAX)
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

/// `/proc/self/statm`, kept open.
#[derive(Debug)]
pub struct OwnMemoryMeter {
    file: File,
    page: u64,
}

impl OwnMemoryMeter {
    /// Opens the figures of this process. Open them again after a fork.
    ///
    /// # Errors
    /// The kernel has no such file, or this process may not read it.
    pub fn of_this_process() -> io::Result<OwnMemoryMeter> {
        Ok(OwnMemoryMeter {
            file: File::open("/proc/self/statm")?,
            page: page_size(),
        })
    }

    /// Reads the bytes that this process has in memory and that are neither of files nor shared.
    /// The kernel has them counted already; reading takes about a microsecond.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<u64> {
        let mut text = [0; 128];
        let length = self.file.read_at(&mut text, 0)?;
        own_pages(&text[..length])
            .map(|pages| pages.saturating_mul(self.page))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "statm is malformed"))
    }
}

/// Returns the bytes that a process has in memory, every page in full, as anyone may ask. The
/// kernel has them counted already; opening and reading take some microseconds.
///
/// # Errors
/// There is no such process, or the kernel hides those of other users.
pub fn resident_memory(pid: u64) -> io::Result<u64> {
    let text = std::fs::read(format!("/proc/{pid}/statm"))?;
    resident_pages(&text)
        .map(|pages| pages.saturating_mul(page_size()))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "statm is malformed"))
}

/// Bytes of a page of memory.
fn page_size() -> u64 {
    // SAFETY: no memory arguments.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The second number: pages in memory.
fn resident_pages(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The second number, pages in memory, without the third, those of files and shared ones.
fn own_pages(text: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().skip(1);
    let (resident, shared) = (numbers.next()?.parse::<u64>().ok()?, numbers.next()?.parse().ok()?);
    Some(resident.saturating_sub(shared))
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
    fn processes_that_ended_because_memory_ran_out_are_counted() {
        assert_eq!(of_vmstat("nr_free_pages 7\noom_kill 12\nnuma_hit 3\n"), Some(12));
        assert_eq!(of_vmstat("nr_free_pages 7\nboom_kill 12\n"), None);
        assert!(out_of_memory_kills().is_some());
    }

    #[test]
    fn the_processor_time_of_another_process_is_known() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "ulimit -t 60; while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = u64::from(child.id());
        let before = processor_time_of(pid).unwrap();
        while processor_time_of(pid).unwrap() < before + 10_000_000 {}
        child.kill().unwrap();
        child.wait().unwrap();
        for none in [pid, 0, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(processor_time_of(none), None, "{none}");
        }
    }

    #[test]
    fn memory_of_its_own_is_what_is_not_shared() {
        assert_eq!(own_pages(b"900 300 120 1 0 500 0\n"), Some(180));
        assert_eq!(own_pages(b"900 300"), None);
        let meter = OwnMemoryMeter::of_this_process().unwrap();
        let before = meter.read().unwrap();
        let taken = vec![1_u8; 32 << 20];
        let after = meter.read().unwrap();
        assert!(after >= before + (24 << 20), "{before} {after} {}", taken.len());
    }

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
    fn a_machine_has_at_least_what_this_process_uses() {
        let machine = Machine::present();
        let resident = MemoryMeter::of_this_process().unwrap().read().unwrap().resident * 1024;
        assert!(machine.processors > 0 && machine.memory > resident, "{machine:?}");
        assert!(machine.memory < u64::MAX && machine.processors < 1 << 20, "{machine:?}");
    }

    #[test]
    fn clocks_do_not_go_back() {
        let (first, work) = (monotonic(), processor_time());
        assert!(monotonic() >= first && processor_time() >= work && first > 0);
        let (coarse, exact) = (coarse_milliseconds(), monotonic() / 1_000_000);
        assert!(coarse <= exact && exact - coarse < 1_000, "{coarse} {exact}");
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
