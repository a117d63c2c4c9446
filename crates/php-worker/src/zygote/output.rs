//! The standard output and standard error of workers: text of libraries, of `php://stderr`, and of
//! programs that scripts start.
//!
//! Each worker has two pipes of its own to the zygote, one for each stream, so that halves of lines
//! do not mix. The zygote writes whole lines to the pool's log and names the worker. The messages
//! of PHP and of the worker itself have their own way to the log ([`crate::log`]), which needs no
//! zygote.
//!
//! A worker ends a line that its request has left without an end ([`log::end_output_lines`]).
//!
//! A pipe stays open as long as anybody writes to it: programs may outlive the worker that started
//! them.
//!
//! The pipes also lie in a socket that the supervisor has as well ([`OutputKeeper`]): where the
//! zygote is killed, the supervisor logs what is left in them.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use howdah_ipc::kept_outputs::KeptOutputs;
use howdah_sys::descriptor;
use howdah_sys::memory::SharedNumbers;
use howdah_sys::seqpacket::{MOST_DESCRIPTORS, SeqPacket};

use super::workers::number;
use crate::log::{self, Level};
use crate::process::RawPid;

/// Most bytes of a line's text. The rest of a longer line is logged as further lines.
const LONGEST_TEXT: usize = log::LONGEST_LINE - LONGEST_LABEL;
/// Room for the words before a line's text.
const LONGEST_LABEL: usize = 64;
/// Most pipes of workers that have ended. Beyond it, what still writes to the oldest one gets
/// SIGPIPE.
const MOST_ORPHANED: usize = 32;
/// Bytes that are read from a pipe before the zygote turns to its other sources.
const READ: usize = 16 * 1024;
/// Reads from a pipe that is closed while there may be something in it.
const LAST_READS: usize = 64;
/// Time after which a line without an end is logged as it is.
const UNFINISHED: Duration = Duration::from_secs(5);

/// The reading ends of the workers' pipes.
#[derive(Debug, Default)]
pub(super) struct WorkerOutputs {
    pipes: Vec<OutputPipe>,
    /// `None` where the supervisor has given no socket for it.
    keeper: Option<OutputKeeper>,
    /// Whether there are other pipes than the keeper has.
    has_changed: bool,
    /// By [`log::line_place`]: 1 where a line has not ended, 0 otherwise. `None` before there are
    /// places. The workers read it.
    unfinished: Option<SharedNumbers>,
}

/// Both ends of a socket in which messages with the pipes lie that nobody reads while this process
/// lives.
#[derive(Debug)]
pub(super) struct OutputKeeper {
    into: SeqPacket,
    from: SeqPacket,
    /// Messages that lie there.
    count: usize,
}

#[derive(Debug)]
struct OutputPipe {
    worker: RawPid,
    /// The place of the worker's stream among the unfinished lines.
    place: usize,
    /// The worker has ended.
    is_orphaned: bool,
    pipe: PipeReader,
    /// A line that has not ended.
    pending: Vec<u8>,
    /// The level of the line whose first part was logged already.
    continued: Option<Level>,
    /// Time of the last read that found something.
    heard: Instant,
}

impl OutputKeeper {
    /// `into` and `from` are the two ends of a pair.
    ///
    /// # Errors
    /// `from` cannot be set to non-blocking.
    pub(super) fn new(into: SeqPacket, from: SeqPacket) -> io::Result<OutputKeeper> {
        from.set_nonblocking(true)?;
        Ok(OutputKeeper { into, from, count: 0 })
    }

    /// Puts these pipes in the place of those before.
    fn keep(&mut self, pipes: &[OutputPipe]) {
        let mut count = 0;
        for part in pipes.chunks(MOST_DESCRIPTORS) {
            let workers = part.iter().map(|pipe| number(pipe.worker)).collect();
            let descriptors: Vec<BorrowedFd<'_>> =
                part.iter().map(|pipe| pipe.pipe.as_fd()).collect();
            // Without room in the socket they are not kept: the user's processes may have too many
            // descriptors on their way.
            let sent = self.into.send_now(&KeptOutputs { workers }.encode(), &descriptors);
            count += usize::from(sent.is_ok());
        }
        // Afterwards, so that at any moment there is a message with each pipe.
        let former = std::mem::replace(&mut self.count, count);
        for _ in 0..former {
            let _ = self.from.receive_bytes(&mut [0; 8]);
        }
    }
}

impl WorkerOutputs {
    /// No pipes yet.
    pub(super) fn new(keeper: Option<OutputKeeper>) -> WorkerOutputs {
        WorkerOutputs { keeper, ..WorkerOutputs::default() }
    }

    /// Prepares for the output of `workers` workers.
    ///
    /// # Errors
    /// The error of a system call.
    pub(super) fn expect(&mut self, workers: usize) -> io::Result<()> {
        self.unfinished = Some(SharedNumbers::new(log::STREAMS * workers)?);
        Ok(())
    }

    /// Closes the pipes in a worker. Returns the numbers of the workers whose lines have not ended,
    /// which the worker keeps. `None`: they were not shared.
    pub(super) fn into_unfinished(self) -> Option<SharedNumbers> {
        self.unfinished
    }

    /// Brings the keeper up to date. Call it before waiting.
    pub(super) fn keep(&mut self) {
        if std::mem::take(&mut self.has_changed)
            && let Some(keeper) = &mut self.keeper
        {
            keeper.keep(&self.pipes);
        }
    }

    /// Adds a pipe of a worker that was just forked. `place` is that of its stream among the
    /// unfinished lines.
    pub(super) fn add(&mut self, worker: RawPid, place: usize, pipe: PipeReader) {
        self.has_changed = true;
        self.unfinished.iter().for_each(|unfinished| unfinished.store(place, 0));
        self.pipes.push(OutputPipe {
            worker,
            place,
            is_orphaned: false,
            pipe,
            pending: Vec::new(),
            continued: None,
            heard: Instant::now(),
        });
    }

    /// Notes that a worker has ended.
    pub(super) fn worker_ended(&mut self, worker: RawPid) {
        let ended = self.pipes.iter_mut().filter(|pipe| pipe.worker == worker);
        ended.for_each(|pipe| pipe.is_orphaned = true);
        while self.pipes.iter().filter(|pipe| pipe.is_orphaned).count() > MOST_ORPHANED {
            self.has_changed = true;
            let oldest = self.pipes.iter().position(|pipe| pipe.is_orphaned);
            oldest
                .map(|oldest| self.pipes.remove(oldest))
                .into_iter()
                .for_each(OutputPipe::close);
        }
    }

    /// The pipes, to wait for.
    pub(super) fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(|pipe| pipe.pipe.as_fd())
    }

    /// Logs what has arrived. `readable` says which of [`WorkerOutputs::sources`] are ready.
    pub(super) fn forward(&mut self, readable: &[bool], now: Instant) {
        let mut lines = Vec::new();
        let mut readable = readable.iter();
        let before = self.pipes.len();
        let unfinished = self.unfinished.as_ref();
        self.pipes.retain_mut(|pipe| {
            let is_readable = readable.next() == Some(&true);
            if is_readable {
                // Before the read: see `log::end_output_lines`.
                pipe.note(unfinished, true);
            }
            let is_open = !is_readable || pipe.read(&mut lines, now);
            if !is_open || pipe.is_late(now) {
                pipe.end_line(&mut lines);
            }
            pipe.note(unfinished, pipe.is_unfinished());
            log::write_lines(&lines);
            lines.clear();
            is_open
        });
        self.has_changed |= self.pipes.len() != before;
    }

    /// Time until a line without an end is logged; `None` if there is none.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let unfinished = self.pipes.iter().filter(|pipe| !pipe.pending.is_empty());
        let due = unfinished.map(|pipe| pipe.heard + UNFINISHED).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Logs the rest and closes all pipes.
    pub(super) fn close(self) {
        self.pipes.into_iter().for_each(OutputPipe::close);
    }
}

impl OutputPipe {
    /// Adds the lines that have arrived to `lines`. Returns `false` at the end of the pipe.
    fn read(&mut self, lines: &mut Vec<u8>, now: Instant) -> bool {
        let mut buffer = [0; READ];
        match descriptor::read_now(self.pipe.as_fd(), &mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.heard = now;
                self.pending.extend_from_slice(&buffer[..length]);
                self.take_lines(lines);
                true
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }

    fn take_lines(&mut self, lines: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        loop {
            let end = rest.iter().take(LONGEST_TEXT + 1).position(|&byte| byte == b'\n');
            if let Some(end) = end {
                self.add(&rest[..end], lines);
                self.continued = None;
                rest = &rest[end + 1..];
            } else if rest.len() > LONGEST_TEXT {
                let continues = |back: &usize| rest[LONGEST_TEXT - back] & 0xC0 == 0x80;
                // Not within a character.
                let end = LONGEST_TEXT - (0..3).take_while(continues).count();
                self.continued = self.add(&rest[..end], lines);
                rest = &rest[end..];
            } else {
                break;
            }
        }
        self.pending = rest.to_vec();
    }

    /// Adds a line or a part of one, which becomes a line. Returns the level of the line.
    fn add(&self, text: &[u8], lines: &mut Vec<u8>) -> Option<Level> {
        let (level, mark, text) = match self.continued {
            Some(level) => (level, "(continued) ", text),
            None => {
                let (level, text) = Level::of_line(text).unwrap_or((Level::Notice, text));
                (level, "", text)
            }
        };
        if !text.is_empty() {
            // Writing to a Vec cannot fail.
            let _ = write!(lines, "{}: worker {}: {mark}", level.name(), number(self.worker));
            lines.extend_from_slice(text);
            lines.push(b'\n');
        }
        Some(level)
    }

    /// Returns whether the last line has not ended.
    fn is_unfinished(&self) -> bool {
        !self.pending.is_empty() || self.continued.is_some()
    }

    /// Tells the worker whether a line has not ended. The place of one that has ended may be
    /// another's.
    fn note(&self, unfinished: Option<&SharedNumbers>, has_begun: bool) {
        if let Some(unfinished) = unfinished.filter(|_| !self.is_orphaned) {
            unfinished.store(self.place, u64::from(has_begun));
        }
    }

    /// Returns whether a line without an end has waited for its end long enough.
    fn is_late(&self, now: Instant) -> bool {
        !self.pending.is_empty() && now >= self.heard + UNFINISHED
    }

    fn end_line(&mut self, lines: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        self.add(&pending, lines);
        self.continued = None;
    }

    /// Logs what is in the pipe, and closes the pipe.
    fn close(mut self) {
        let (mut lines, now) = (Vec::new(), Instant::now());
        for _ in 0..LAST_READS {
            if !(has_news(&self.pipe) && self.read(&mut lines, now)) {
                break;
            }
        }
        self.end_line(&mut lines);
        log::write_lines(&lines);
    }
}

/// Returns whether there is something in the pipe, or its end.
fn has_news(pipe: &PipeReader) -> bool {
    let ready = howdah_sys::poll::readable(&[pipe.as_fd()], Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready == [true])
}

/// Makes the pipes of a worker, for its standard output and its standard error.
///
/// # Errors
/// The process has no more descriptors.
pub(super) fn pipes() -> io::Result<([PipeReader; log::STREAMS], [PipeWriter; log::STREAMS])> {
    let ((output, to_output), (errors, to_errors)) = (pipe()?, pipe()?);
    Ok(([output, errors], [to_output, to_errors]))
}

/// Makes a pipe whose reading end never makes the zygote wait.
///
/// # Errors
/// The process has no more descriptors.
fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    descriptor::set_nonblocking(&reader)?;
    Ok((reader, writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pipe of worker 7.
    fn output() -> (OutputPipe, PipeWriter) {
        let (reader, writer) = pipe().unwrap();
        let mut outputs = WorkerOutputs::default();
        outputs.add(7, 0, reader);
        (outputs.pipes.pop().unwrap(), writer)
    }

    /// The lines that become of `parts`, which are written one after the other.
    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let (mut output, mut writer) = output();
        let mut lines = Vec::new();
        for part in parts {
            writer.write_all(part).unwrap();
            assert!(output.read(&mut lines, Instant::now()));
        }
        drop(writer);
        assert!(!output.read(&mut lines, Instant::now()));
        output.end_line(&mut lines);
        String::from_utf8(lines).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_names_its_worker_and_keeps_its_level() {
        let parts: &[&[u8]] = &[b"libfoo: odd\n\nerror: it bro", b"ke\nwarning: w\n", b"no end"];
        let expected = [
            "notice: worker 7: libfoo: odd",
            "error: worker 7: it broke",
            "warning: worker 7: w",
            "notice: worker 7: no end",
        ];
        assert_eq!(lines(parts), expected);
    }

    #[test]
    fn a_long_line_becomes_several_of_one_level() {
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "\u{1f418}".repeat(LONGEST_TEXT / 2));
            let mut parts: Vec<&[u8]> = vec![b"error: "];
            parts.extend(text.as_bytes().chunks(5000));
            parts.push(b"\nnext\n");
            let lines = lines(&parts);
            let (last, long) = lines.split_last().unwrap();
            assert_eq!(last, "notice: worker 7: next");
            let (first, more) = long.split_first().unwrap();
            let mut whole = first.strip_prefix("error: worker 7: ").unwrap().to_owned();
            for line in more {
                whole += line.strip_prefix("error: worker 7: (continued) ").unwrap();
            }
            assert!(whole == text, "{lines:?}");
            assert!(lines.iter().all(|line| line.len() < log::LONGEST_LINE));
        }
    }

    #[test]
    fn a_line_without_an_end_is_logged_after_a_while() {
        let (mut output, mut writer) = output();
        writer.write_all(b"a prompt").unwrap();
        let (mut lines, now) = (Vec::new(), Instant::now());
        assert!(output.read(&mut lines, now));
        assert!(lines.is_empty() && !output.is_late(now + UNFINISHED / 2));
        assert!(output.is_late(now + UNFINISHED));
        let mut outputs = WorkerOutputs {
            pipes: vec![output],
            ..WorkerOutputs::default()
        };
        assert_eq!(outputs.wait(now + UNFINISHED / 2), Some(UNFINISHED / 2));
        outputs.forward(&[false], now + UNFINISHED);
        assert_eq!(outputs.wait(now + UNFINISHED), None);
    }

    #[test]
    fn the_beginning_of_a_line_is_noted_until_its_end() {
        let mut outputs = WorkerOutputs::default();
        outputs.expect(2).unwrap();
        let (reader, mut writer) = pipe().unwrap();
        outputs.add(7, 1, reader);
        let long = vec![b'x'; LONGEST_TEXT + 1];
        let parts: [(&[u8], u64); 6] =
            [(b"begun", 1), (b"\n", 0), (b"whole\n", 0), (&long, 1), (b"\nno end", 1), (b"\n", 0)];
        for (part, expected) in parts {
            writer.write_all(part).unwrap();
            outputs.forward(&[true], Instant::now());
            let unfinished = outputs.unfinished.as_ref().unwrap();
            assert_eq!([unfinished.load(0), unfinished.load(1)], [0, expected], "{part:?}");
        }
        // The place of a worker that has ended is its successor's.
        outputs.worker_ended(7);
        writer.write_all(b"begun").unwrap();
        outputs.forward(&[true], Instant::now());
        assert_eq!(outputs.unfinished.unwrap().load(1), 0);
    }

    #[test]
    fn pipes_of_ended_workers_are_bounded() {
        let mut outputs = WorkerOutputs::default();
        let mut writers = Vec::new();
        for worker in 0..2 * MOST_ORPHANED as RawPid {
            let (reader, writer) = pipe().unwrap();
            outputs.add(worker, 0, reader);
            writers.push(writer);
        }
        (1..2 * MOST_ORPHANED as RawPid).for_each(|worker| outputs.worker_ended(worker));
        let left: Vec<RawPid> = outputs.pipes.iter().map(|pipe| pipe.worker).collect();
        let oldest = MOST_ORPHANED as RawPid;
        assert_eq!(left, [&[0][..], &(oldest..2 * oldest).collect::<Vec<_>>()[..]].concat());
        assert!(writers[1].write_all(b"x").is_err() && writers[0].write_all(b"x").is_ok());
    }

    #[test]
    fn the_pipes_that_there_are_can_be_had_from_the_socket() {
        let (into, from) = SeqPacket::pair().unwrap();
        let kept = from.duplicate().unwrap();
        let mut outputs = WorkerOutputs::new(Some(OutputKeeper::new(into, from).unwrap()));
        let mut last = None;
        for worker in 1..=300 {
            let (reader, writer) = pipe().unwrap();
            outputs.add(worker, 0, reader);
            last = Some(writer);
            if worker % 100 == 0 {
                outputs.keep();
            }
        }
        last.unwrap().write_all(b"the last words").unwrap();
        // The first worker's pipe is at its end.
        outputs.forward(&[true], Instant::now());
        outputs.keep();
        drop(outputs);
        let (mut workers, mut buffer) = (Vec::new(), [0; 8192]);
        while let Ok(mut received) = kept.receive_now(&mut buffer)
            && received.length > 0
        {
            let found = KeptOutputs::decode(&buffer[..received.length]).unwrap().workers;
            assert_eq!(found.len(), received.descriptors.len());
            if found.last() == Some(&300) {
                let pipe = received.descriptors.pop().unwrap();
                let length = descriptor::read_now(pipe.as_fd(), &mut buffer).unwrap();
                assert_eq!(&buffer[..length], b"the last words");
            }
            workers.extend(found);
        }
        assert_eq!(workers, (2..=300).collect::<Vec<_>>());
    }
}
