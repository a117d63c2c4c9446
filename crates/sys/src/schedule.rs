//! What the scheduler knows of a process: how long it ran, and how long it waited for a processor.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// `/proc/self/schedstat`, kept open.
#[derive(Debug)]
pub struct Schedule(File);

/// Times since the process began, in nanoseconds. The kernel brings them up to date every few
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// On a processor.
    pub running: u64,
    /// Ready to run, but every processor had something else to do.
    pub delayed: u64,
}

impl Schedule {
    /// Of this process. To be opened anew after a fork.
    pub fn of_this_process() -> io::Result<Schedule> {
        Ok(Schedule(File::open("/proc/self/schedstat")?))
    }

    /// The times until now.
    pub fn spent(&self) -> io::Result<Spent> {
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0)?;
        parse(&text[..length])
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "schedstat is malformed"))
    }
}

fn parse(text: &[u8]) -> Option<Spent> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
    Some(Spent {
        running: numbers.next()?.ok()?,
        delayed: numbers.next()?.ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_needed() {
        assert_eq!(parse(b"992697 97702 3\n"), Some(Spent { running: 992_697, delayed: 97_702 }));
        assert_eq!(parse(b"992697"), None);
        assert_eq!(parse(b"a b c"), None);
    }

    #[test]
    fn time_on_the_processor_grows() {
        // A kernel without scheduler statistics has no such file; then there is nothing to know.
        let Ok(schedule) = Schedule::of_this_process() else {
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
