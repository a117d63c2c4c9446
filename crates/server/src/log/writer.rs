//! The front's log threads, one per log: no event loop waits for a disk or a pipe.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::LogTarget;

/// Bytes that wait for a log thread. Beyond them, a site whose lines have less than their share of
/// it, as all sites with lines there have the same one, still adds lines; the lines of others are
/// lost and counted. A hundred sites that fill their shares one after the other have five times as
/// much together.
const MOST_WAITING: usize = 1 << 20;
/// Time that a log thread collects lines after a write. A busy server wakes the thread a hundred
/// times per second, and not for every request.
const GATHER: Duration = Duration::from_millis(10);
/// Maximum time that the end of the process waits for the log to be written.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// Time that a batch of lines may take at the system's log. Lines that it has not taken by then are
/// lost and counted.
const DAEMON_PATIENCE: Duration = Duration::from_secs(1);
/// Time between two messages about lines that the system's log has not taken.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// Maximum capacity of a buffer that is kept after use.
const KEPT_BUFFER: usize = 128 << 10;

/// A log that is written by its own thread. Clones share the thread.
///
/// Lines of one thread are written in their order. Lines are lost only while [`MOST_WAITING`] bytes
/// wait and their site has its share of these, if the system's log takes none, or at the end of the
/// process if the log accepts no bytes for [`LAST_PATIENCE`].
#[derive(Debug, Clone)]
pub(crate) struct LogWriter(Arc<WriterState>);

#[derive(Debug)]
struct WriterState {
    target: LogTarget,
    queue: Mutex<LineQueue>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct LineQueue {
    lines: Vec<u8>,
    /// Bytes of each site among them.
    of_site: HashMap<LineOrigin, usize>,
    /// Number of lines that were lost since the last write.
    lost: u64,
    /// The thread has written everything and sleeps.
    idle: bool,
}

/// The site that lines are about; `None`: requests of no site, and the whole server.
pub(crate) type LineOrigin = Option<usize>;

impl LineQueue {
    /// Adds lines, unless there is no room for them.
    fn add(&mut self, origin: LineOrigin, lines: &[u8]) -> bool {
        let is_new = !self.of_site.contains_key(&origin);
        let share = MOST_WAITING / (self.of_site.len() + usize::from(is_new));
        let own = self.of_site.get(&origin).copied().unwrap_or_default() + lines.len();
        if self.lines.len() + lines.len() > MOST_WAITING && own > share {
            return false;
        }
        self.of_site.insert(origin, own);
        self.lines.extend_from_slice(lines);
        true
    }
}

impl LogWriter {
    /// Starts the thread. The thread calls `tell` with the number of lost lines once the log
    /// accepts lines again.
    ///
    /// Call it only in a process that does not fork afterwards.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        target: LogTarget,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<LogWriter> {
        let shared = Arc::new(WriterState {
            target,
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        });
        let own = shared.clone();
        thread::Builder::new()
            .name("front-log".to_owned())
            .spawn(move || own.run(&tell))?;
        Ok(LogWriter(shared))
    }

    /// Hands over whole lines about a site. Never waits for the log.
    pub(crate) fn write(&self, origin: LineOrigin, lines: &[u8]) {
        let mut queue = self.0.queue();
        if !queue.add(origin, lines) {
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let is_lost = !queue.add(origin, line);
                queue.lost += u64::from(is_lost);
            }
        }
        if queue.idle {
            queue.idle = false;
            self.0.filled.notify_one();
        }
    }

    /// Waits until everything is written, at most for [`LAST_PATIENCE`].
    pub(crate) fn finish(&self) {
        let queue = self.0.queue();
        // Lines that the log does not accept in this time are lost.
        let _ = self.0.emptied.wait_timeout_while(queue, LAST_PATIENCE, |queue| {
            !queue.idle || !queue.lines.is_empty()
        });
    }

    /// The destination of the log.
    pub(crate) fn target(&self) -> &LogTarget {
        &self.0.target
    }
}

impl WriterState {
    /// Runs the thread until the process ends.
    fn run(&self, tell: &impl Fn(u64)) {
        let mut batch = Vec::new();
        // Lines that the system's log has not taken, and the time at which that was told.
        let (mut refused, mut told) = (0, None::<Instant>);
        loop {
            let mut queue = self.queue();
            while queue.lines.is_empty() && queue.lost == 0 {
                queue.idle = true;
                self.emptied.notify_all();
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.idle = false;
            std::mem::swap(&mut queue.lines, &mut batch);
            queue.of_site.clear();
            let lost = std::mem::take(&mut queue.lost);
            drop(queue);
            refused += self.target.write(&batch, DAEMON_PATIENCE);
            if lost > 0 {
                tell(lost);
            }
            if refused > 0 && told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
                told = Some(Instant::now());
                tell(std::mem::take(&mut refused));
            }
            batch.clear();
            if batch.capacity() > KEPT_BUFFER {
                batch = Vec::new();
            }
            thread::sleep(GATHER);
        }
    }

    fn queue(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn piped() -> (io::PipeReader, LogWriter, Arc<AtomicU64>) {
        let (reader, writer) = io::pipe().unwrap();
        let target = LogTarget::stream(writer.as_fd()).unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let told = lost.clone();
        let tell = move |count| {
            told.fetch_add(count, Ordering::Relaxed);
        };
        (reader, LogWriter::start(target, tell).unwrap(), lost)
    }

    #[test]
    fn lines_of_each_thread_stay_in_order_and_none_is_lost() {
        let (reader, writer, lost) = piped();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let writer = writer.clone();
                thread::spawn(move || {
                    for number in 0..1000 {
                        writer.write(Some(thread), format!("{thread} {number}\n").as_bytes());
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
    fn a_site_that_floods_a_log_pushes_out_no_line_of_another() {
        let (reader, writer, lost) = piped();
        let line = [&[b'x'; 24 * 1024][..], b"\n"].concat();
        for _ in 0..200 {
            writer.write(Some(1), &line);
        }
        // They leave no room for a short line.
        for _ in 0..line.len() {
            writer.write(Some(1), b"x\n");
        }
        for site in 2..12 {
            writer.write(Some(site), format!("site {site}\n").as_bytes());
            writer.write(Some(1), &line);
        }
        let read = thread::spawn(move || {
            let lines = io::BufRead::lines(io::BufReader::new(reader)).map_while(Result::ok);
            let lines = lines.take_while(|line| line != "end");
            lines.filter(|line| line.starts_with("site")).count()
        });
        writer.finish();
        writer.write(None, b"end\n");
        assert_eq!(read.join().unwrap(), 10);
        assert!(lost.load(Ordering::Relaxed) > 0, "the flood has filled the queue");
    }

    #[test]
    fn a_log_that_takes_nothing_stops_nobody_and_what_was_lost_is_told() {
        const LINES: u64 = 4096;
        let (mut reader, writer, lost) = piped();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..LINES {
            writer.write(None, &line);
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
