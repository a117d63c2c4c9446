//! Scheduler statistics of a process: its time on a processor, and its time waiting for one. The
//! priority of a thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::check;

/// `/proc/self/schedstat`, kept open.
#[derive(Debug)]
pub struct ScheduleMeter(File);

/// Times since the start of the process, in nanoseconds. The kernel updates them every few
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time on a processor.
    pub running: u64,
    /// Time ready to run but without a processor.
    pub delayed: u64,
}

impl ScheduleMeter {
    /// Opens the statistics of this process. Open them again after a fork.
    ///
    /// # Errors
    /// The kernel has no scheduler statistics.
    pub fn of_this_process() -> io::Result<ScheduleMeter> {
        Ok(ScheduleMeter(File::open("/proc/self/schedstat")?))
    }

    /// Reads the present times.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn spent(&self) -> io::Result<CpuTimes> {
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0)?;
        parse(&text[..length])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "schedstat is malformed"))
    }
}

/// Gives the calling thread a lower priority than the threads of the process have: a third of their
/// share of a processor, where there are not enough processors for all.
///
/// # Errors
/// The kernel refuses.
pub fn yield_to_other_threads() -> io::Result<()> {
    // SAFETY: no memory arguments; 0 is the calling thread, as each thread has a priority.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as before. -1 is a priority and no failure in `nice`, and the kernel bounds the sum.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice + STEPS_BELOW) }).map(drop)
}

/// A fifth of what `nice` can lower a priority by.
const STEPS_BELOW: libc::c_int = 5;

fn parse(text: &[u8]) -> Option<CpuTimes> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
    Some(CpuTimes {
        running: numbers.next()?.ok()?,
        delayed: numbers.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_needed() {
        assert_eq!(
            parse(b"992697 97702 3\n"),
            Some(CpuTimes { running: 992_697, delayed: 97_702 })
        );
        assert_eq!(parse(b"992697"), None);
        assert_eq!(parse(b"a b c"), None);
    }

    #[test]
    fn one_thread_yields_to_the_others() {
        // SAFETY: no memory arguments; 0 is the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let yielding = std::thread::spawn(move || {
            yield_to_other_threads().unwrap();
            nice()
        });
        assert_eq!(yielding.join().unwrap(), (before + STEPS_BELOW).min(19));
        assert_eq!(nice(), before);
    }

    #[test]
    fn time_on_the_processor_grows() {
        // A kernel without scheduler statistics has no such file; then there is nothing to know.
        let Ok(schedule) = ScheduleMeter::of_this_process() else {
            return;
        };
        let before = schedule.spent().unwrap();
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        assert!(schedule.spent().unwrap().running >= before.running);
    }
}
