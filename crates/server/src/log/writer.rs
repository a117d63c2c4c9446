//! The front's log threads: one per log, so that no event loop waits for a disk or a pipe.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use super::Target;

/// Bytes that may wait for a log thread. Beyond, lines are lost and counted.
const MOST_WAITING: usize = 1 << 20;
/// How long a log thread gathers lines after it has written some. A busy server wakes it a hundred
/// times per second, not at every request.
const GATHER: Duration = Duration::from_millis(10);
/// How long the end of the process waits for lines to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// A buffer that has grown beyond this is given back after use.
const KEPT_BUFFER: usize = 128 << 10;

/// A log whose lines a thread of its own writes. Clones share the thread.
///
/// Lines of one thread are written in the order in which they came. They are lost only while
/// [`MOST_WAITING`] bytes wait, or at the end of the process if the log takes nothing for
/// [`LAST_PATIENCE`].
#[derive(Debug, Clone)]
pub(crate) struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    target: Target,
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// Lines for which there was no room since the last were written.
    lost: u64,
    /// The thread has written everything and sleeps.
    idle: bool,
}

impl Writer {
    /// Starts the thread. `tell` is called there with the number of lines that were lost, once the
    /// log takes lines again.
    ///
    /// Only for a process that forks no more.
    pub(super) fn start(target: Target, tell: impl Fn(u64) + Send + 'static) -> io::Result<Writer> {
        let shared = Arc::new(Shared {
            target,
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        });
        let own = shared.clone();
        thread::Builder::new()
            .name("front-log".to_owned())
            .spawn(move || own.run(&tell))?;
        Ok(Writer(shared))
    }

    /// Hands over whole lines. Never waits for the log.
    pub(crate) fn write(&self, lines: &[u8]) {
        let mut queue = self.0.queue();
        if queue.lines.len() + lines.len() > MOST_WAITING {
            queue.lost += lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
            return;
        }
        queue.lines.extend_from_slice(lines);
        if queue.idle {
            queue.idle = false;
            self.0.filled.notify_one();
        }
    }

    /// Waits for everything to be written, at most for [`LAST_PATIENCE`].
    pub(crate) fn finish(&self) {
        let queue = self.0.queue();
        // A log that takes nothing is left.
        let _ = self.0.emptied.wait_timeout_while(queue, LAST_PATIENCE, |queue| {
            !queue.idle || !queue.lines.is_empty()
        });
    }

    /// Where the lines go.
    pub(crate) fn target(&self) -> &Target {
        &self.0.target
    }
}

impl Shared {
    /// The thread's work; ends with the process.
    fn run(&self, tell: &impl Fn(u64)) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.queue();
            while queue.lines.is_empty() && queue.lost == 0 {
                queue.idle = true;
                self.emptied.notify_all();
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.idle = false;
            std::mem::swap(&mut queue.lines, &mut batch);
            let lost = std::mem::take(&mut queue.lost);
            drop(queue);
            self.target.write(&batch);
            if lost > 0 {
                tell(lost);
            }
            batch.clear();
            if batch.capacity() > KEPT_BUFFER {
                batch = Vec::new();
            }
            thread::sleep(GATHER);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn piped() -> (io::PipeReader, Writer, Arc<AtomicU64>) {
        let (reader, writer) = io::pipe().unwrap();
        let target = Target::stream(writer.as_fd()).unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let told = lost.clone();
        let tell = move |count| {
            told.fetch_add(count, Ordering::Relaxed);
        };
        (reader, Writer::start(target, tell).unwrap(), lost)
    }

    #[test]
    fn lines_of_each_thread_stay_in_order_and_none_is_lost() {
        let (reader, writer, lost) = piped();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let writer = writer.clone();
                thread::spawn(move || {
                    for number in 0..1000 {
                        writer.write(format!("{thread} {number}\n").as_bytes());
                    }
                })
            })
            .collect();
        let mut numbers = [0; 4];
        for line in io::BufRead::lines(io::BufReader::new(reader)).take(4000) {
            let line = line.unwrap();
            let (thread, number) = line.split_once(' ').unwrap();
            let next = &mut numbers[thread.parse::<usize>().unwrap()];
            assert_eq!(number, next.to_string());
            *next += 1;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        writer.finish();
        assert_eq!(numbers, [1000; 4]);
        assert_eq!(lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_log_that_takes_nothing_stops_nobody_and_what_was_lost_is_told() {
        const LINES: u64 = 4096;
        let (mut reader, writer, lost) = piped();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..LINES {
            writer.write(&line);
        }
        let mut got = 0;
        let mut room = vec![0; 64 << 10];
        while got + lost.load(Ordering::Relaxed) < LINES {
            let length = reader.read(&mut room).unwrap();
            got += room[..length].iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
        assert!(lost.load(Ordering::Relaxed) > LINES / 4);
        assert_eq!(got + lost.load(Ordering::Relaxed), LINES);
    }
}
