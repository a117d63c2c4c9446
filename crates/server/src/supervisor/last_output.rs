//! The output that workers have written and that their zygote has not logged when it was killed.
//!
//! The pipes lie in a socket. Where the sandbox is off, scripts can put other descriptors there,
//! whose closing may wait for a stranger. Therefore a process of its own reads them, and closes
//! none of them before its end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use howdah_ipc::kept_outputs::KeptOutputs;
use howdah_sys::descriptor;
use howdah_sys::process::{self, Pid};
use howdah_sys::seqpacket::SeqPacket;

use super::pool_log::{LONGEST_LINE, level_of};

/// Messages that are read from the socket. A zygote leaves one for each 253 pipes, or two where it
/// was just replacing them; each of its workers has two pipes. Further messages are not logged.
const MOST_MESSAGES: usize = 32;
/// Bytes of a message. A longer one is malformed.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// Bytes that are read from a pipe, which holds no more.
const MOST_BYTES: usize = 1024 * 1024;
/// Room for the words before a line's text.
const LONGEST_LABEL: usize = 64;

/// Starts a process that writes to `log`, the pool's log, what is left in the pipes of `outputs`.
///
/// # Errors
/// The process cannot be started.
pub(super) fn log(outputs: &SeqPacket, log: &OwnedFd) -> io::Result<Pid> {
    let kept = [outputs.as_raw_fd(), log.as_raw_fd()];
    process::fork(&kept, || u8::from(log_rest(outputs, log).is_err()))
}

fn log_rest(outputs: &SeqPacket, log: &OwnedFd) -> io::Result<()> {
    let mut log = File::from(log.try_clone()?);
    let mut message = vec![0; LONGEST_MESSAGE];
    for _ in 0..MOST_MESSAGES {
        let received = match outputs.receive_now(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            received => received?,
        };
        if received.length == 0 {
            break;
        }
        let kept = KeptOutputs::decode(&message[..received.length])?;
        for (worker, pipe) in kept.workers.into_iter().zip(&received.descriptors) {
            if descriptor::is_pipe(pipe.as_fd()) {
                log.write_all(&lines(worker, &rest(pipe.as_fd())))?;
            }
        }
        // The end of the process closes them.
        std::mem::forget(received);
    }
    Ok(())
}

/// Reads what is left in a pipe, without waiting: [`MOST_BYTES`], or one read more, at most.
fn rest(pipe: BorrowedFd<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while all.len() < MOST_BYTES {
        match descriptor::read_now(pipe, &mut buffer) {
            Ok(length) if length > 0 => all.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    all
}

/// The lines of a worker's output as its zygote writes them to the pool's log.
fn lines(worker: u64, output: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (level, text) = level_of(line);
        let longest = LONGEST_LINE - LONGEST_LABEL;
        for (number, part) in text.chunks(longest).enumerate() {
            let mark = if number > 0 { "(continued) " } else { "" };
            // Writing to a Vec cannot fail.
            let _ = write!(lines, "{}: worker {worker}: {mark}", level.name());
            lines.extend_from_slice(part);
            lines.push(b'\n');
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_a_zygote() {
        let expected = "notice: worker 7: odd\nerror: worker 7: broke\nnotice: worker 7: no end\n";
        let found = lines(7, b"odd\n\nerror: broke\nno end");
        assert_eq!(String::from_utf8(found).unwrap(), expected);
        let long = lines(7, &vec![b'x'; 2 * LONGEST_LINE]);
        let parts: Vec<&[u8]> = long.split(|byte| *byte == b'\n').collect();
        assert!(parts.len() == 4 && parts.iter().all(|part| part.len() < LONGEST_LINE));
        assert!(parts[1].starts_with(b"notice: worker 7: (continued) x"));
    }

    #[test]
    fn what_is_no_pipe_is_left_alone() {
        let (into, outputs) = SeqPacket::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"the last words\n").unwrap();
        let (log_reader, log) = io::pipe().unwrap();
        let file = File::open("/proc/self/cmdline").unwrap();
        let message = KeptOutputs { workers: vec![7, 8] }.encode();
        into.send(&message, &[file.as_fd(), reader.as_fd()]).unwrap();
        log_rest(&outputs, &log.into()).unwrap();
        let mut buffer = [0; 100];
        descriptor::set_nonblocking(&log_reader).unwrap();
        let length = descriptor::read_now(log_reader.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"notice: worker 8: the last words\n");
    }
}
