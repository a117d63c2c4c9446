//! Writes lines to the pool's log: descriptor 2 of the zygote, and a descriptor of its own in
//! workers, whose descriptors 1 and 2 are for scripts ([`divert_standard_streams`]).
//!
//! The log is a pipe that all workers of a pool share. A write of up to `PIPE_BUF` bytes (4096 on
//! Linux) is atomic, therefore a longer message is written as several lines.

use std::borrow::Cow;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use howdah_sys::descriptor;
use howdah_sys::memory::SharedNumbers;

use crate::decimal::decimal;

/// The descriptor of the pool's log.
static LOG: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// Standard output and standard error.
pub const STREAMS: usize = 2;

/// Lets standard output and standard error, of this process and of the programs that it starts,
/// lead to `output`, each to its own. The log stays where it is.
///
/// # Errors
/// The process has no more descriptors.
pub fn divert_standard_streams(output: &[PipeWriter; STREAMS]) -> io::Result<()> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let log: RawFd = stderr.as_fd().try_clone_to_owned()?.into_raw_fd();
    LOG.store(log, Ordering::Relaxed);
    for (standard, output) in [stdout.as_fd(), stderr.as_fd()].into_iter().zip(output) {
        descriptor::replace(standard, output.as_fd())?;
        descriptor::set_inheritable(standard, true)?;
    }
    Ok(())
}

/// Returns the place of a worker's stream among the lines that have not ended.
pub fn line_place(worker: usize, stream: usize) -> usize {
    STREAMS * worker + stream
}

/// Ends the lines that a script or its programs have begun to write to standard output or standard
/// error, if there are some: the next request's text is none of them. Called at the end of a
/// request. Only the kernel knows whether there is text: libraries and programs write it without
/// PHP. The stream's place in `unfinished` says whether the zygote has read the beginning of a
/// line.
pub fn end_output_lines(unfinished: &SharedNumbers, worker: usize) {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    for (stream, standard) in [stdout.as_fd(), stderr.as_fd()].into_iter().enumerate() {
        // In this order: the zygote notes that a line may have begun before it reads from the pipe.
        let is_unread = descriptor::unread(standard).is_ok_and(|bytes| bytes > 0);
        if is_unread || unfinished.load(line_place(worker, stream)) != 0 {
            // A script may have closed it.
            put(standard.as_raw_fd(), b"\n");
        }
    }
}

/// The first error since [`note_errors`]; `None` while errors are not noted.
static FIRST_ERROR: Mutex<Option<String>> = Mutex::new(None);

/// Notes the first error that is written from now on, for [`first_error`].
pub fn note_errors() {
    *FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::new());
}

/// Returns the first line of the first error since [`note_errors`], and notes no further ones.
/// `None`: there was none.
pub fn first_error() -> Option<String> {
    let first = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take();
    first.filter(|first| !first.is_empty())
}

fn note(message: &[u8]) {
    if let Ok(mut first) = FIRST_ERROR.try_lock()
        && let Some(first) = first.as_mut().filter(|first| first.is_empty())
    {
        let text = String::from_utf8_lossy(&message[..message.len().min(LONGEST_REASON)]);
        first.push_str(text.lines().next().unwrap_or_default());
    }
}

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A request or a worker failed.
    Error,
    /// Something is probably wrong.
    Warning,
    /// A normal event that is worth knowing.
    Notice,
    /// Details.
    Info,
}

impl Level {
    /// Converts a level of `syslog(3)`, which PHP uses.
    pub fn from_syslog(level: i32) -> Level {
        match level {
            ..=3 => Level::Error,
            4 => Level::Warning,
            5 => Level::Notice,
            _ => Level::Info,
        }
    }

    /// Splits the level from a line that begins with one, such as `error: text`. `None` if it does
    /// not.
    pub fn of_line(line: &[u8]) -> Option<(Level, &[u8])> {
        let levels = [Level::Error, Level::Warning, Level::Notice, Level::Info];
        levels.into_iter().find_map(|level| {
            let text = line.strip_prefix(level.name().as_bytes())?.strip_prefix(b": ")?;
            Some((level, text))
        })
    }

    /// The name of the level in lines.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
            Level::Info => "info",
        }
    }
}

/// Returns a message of PHP's start as plain text. With `html_errors`, which is on unless a file of
/// settings says otherwise, PHP makes HTML of it, although no page ever shows it.
pub fn without_entities(message: &[u8]) -> Cow<'_, [u8]> {
    if !message.contains(&b'&') {
        return Cow::Borrowed(message);
    }
    let mut plain = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some((&first, after)) = rest.split_first() {
        let entity = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
        plain.push(entity.map_or(first, |(_, character)| *character));
        rest = entity.map_or(after, |(name, _)| &rest[name.len()..]);
    }
    Cow::Owned(plain)
}

/// The characters that PHP escapes (`php_escape_html_entities`).
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&quot;", b'"'), (b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&#039;", b'\'')];

/// The request that a message belongs to.
#[derive(Debug, Clone, Copy)]
pub struct LogContext<'r> {
    /// Path of the script.
    pub script: &'r [u8],
    /// Request method.
    pub method: &'r [u8],
    /// Name of the site; empty if unknown.
    pub host: &'r [u8],
    /// Path and query as the client sent them.
    pub uri: &'r [u8],
}

/// Writes a message. A write error is ignored.
pub fn write(level: Level, message: &[u8], about: Option<LogContext<'_>>) {
    if level == Level::Error {
        note(message);
    }
    for line in lines(level, message, about) {
        put(LOG.load(Ordering::Relaxed), &line);
    }
}

/// Writes bytes to `descriptor`, up to `PIPE_BUF` of them as a whole. Signal handlers may call it.
/// An error is ignored.
fn put(descriptor: RawFd, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: `rest` is live.
        let written = unsafe { libc::write(descriptor, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Writes whole lines, as many of them at once as the log takes as a whole. Each has its level, its
/// line feed, and at most [`LONGEST_LINE`] bytes.
pub fn write_lines(lines: &[u8]) {
    let mut rest = lines;
    while !rest.is_empty() {
        let most = &rest[..rest.len().min(libc::PIPE_BUF)];
        let end = most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |end| end + 1);
        put(LOG.load(Ordering::Relaxed), &rest[..end]);
        rest = &rest[end..];
    }
}

/// Bytes of a line. The rest of a longer text becomes further lines. The server's log has lines of
/// at most `PIPE_BUF` bytes, too, and adds the time and the site's name to each.
pub const LONGEST_LINE: usize = 4096 - 512;
/// Bytes of an error that are noted. The rest is left out.
const LONGEST_REASON: usize = 1024;
/// Bytes of a message that are written. The remaining bytes are counted.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// Bytes of a script's path, a host or a URL that are written. The rest is left out.
const LONGEST_PLACE: usize = 512;

fn lines(level: Level, message: &[u8], about: Option<LogContext<'_>>) -> Vec<Vec<u8>> {
    let mut text = Vec::with_capacity(message.len() + 128);
    escape(&mut text, &message[..message.len().min(LONGEST_MESSAGE)]);
    if message.len() > LONGEST_MESSAGE {
        let _ = write!(text, " ({} more bytes)", message.len() - LONGEST_MESSAGE);
    }
    if let Some(about) = about {
        let _ = write!(text, ", worker {}, while running ", std::process::id());
        escape(&mut text, &shortened(about.script));
        text.extend_from_slice(b" for ");
        escape(&mut text, &shortened(about.method));
        text.push(b' ');
        escape(&mut text, &shortened(about.host));
        // A client chooses these bytes: the log gets no others than ASCII.
        for &byte in shortened(about.uri).iter() {
            match byte {
                b' '..=b'~' => text.push(byte),
                other => drop(write!(text, "\\x{other:02x}")),
            }
        }
    }
    let mut lines = Vec::new();
    let mut prefix = format!("{}: ", level.name()).into_bytes();
    let mut rest = text.as_slice();
    loop {
        let buffer = LONGEST_LINE - prefix.len() - 1;
        let mut end = rest.len().min(buffer);
        while rest.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
            end -= 1; // not within a character
        }
        let (now, later) = rest.split_at(end);
        lines.push([&prefix, now, b"\n"].concat());
        if later.is_empty() {
            return lines;
        }
        rest = later;
        prefix = format!("{}: (continued) ", level.name()).into_bytes();
    }
}

/// A message that is made without taking memory or a lock, so that a signal handler can log it.
#[derive(Debug)]
pub struct LogLine {
    level: Level,
    bytes: [u8; LONGEST_LINE],
    length: usize,
}

impl LogLine {
    /// Begins a message.
    pub fn new(level: Level) -> LogLine {
        let mut line = LogLine {
            level,
            bytes: [0; LONGEST_LINE],
            length: 0,
        };
        line.prefix();
        line
    }

    /// Adds a text, escaped as [`write()`] does.
    pub fn text(&mut self, text: &[u8]) {
        text.iter().for_each(|&byte| match byte {
            b'\n' => self.put(b"\\n"),
            b'\r' => self.put(b"\\r"),
            b'\t' => self.put(b"\\t"),
            0..=0x1F | 0x7F => self.put_code(byte),
            _ => self.put(&[byte]),
        });
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.put(decimal(number, &mut [0; 20]));
    }

    /// Adds the request that the message belongs to, as [`write()`] does.
    pub fn about(&mut self, about: &LogContext<'_>) {
        self.put(b", while running ");
        self.shortened(about.script);
        self.put(b" for ");
        self.shortened(about.method);
        self.put(b" ");
        self.shortened(about.host);
        let (uri, rest) = about.uri.split_at(about.uri.len().min(LONGEST_PLACE));
        uri.iter().for_each(|&byte| match byte {
            b' '..=b'~' => self.put(&[byte]),
            other => self.put_code(other),
        });
        if !rest.is_empty() {
            self.put(b"...");
        }
    }

    /// Writes what was not written. An error is ignored.
    pub fn end(mut self) {
        self.flush();
    }

    fn shortened(&mut self, text: &[u8]) {
        let (text, rest) = text.split_at(text.len().min(LONGEST_PLACE));
        self.text(text);
        if !rest.is_empty() {
            self.put(b"...");
        }
    }

    fn put_code(&mut self, byte: u8) {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        self.put(&[b'\\', b'x', digit(byte >> 4), digit(byte & 0xF)]);
    }

    /// Adds short bytes that need no escape. A message that is too long for one line goes on in the
    /// next.
    fn put(&mut self, bytes: &[u8]) {
        if self.length + bytes.len() + 1 > LONGEST_LINE {
            self.flush();
            self.prefix();
            self.append(b"(continued) ");
        }
        self.append(bytes);
    }

    fn prefix(&mut self) {
        self.append(self.level.name().as_bytes());
        self.append(b": ");
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn flush(&mut self) {
        self.append(b"\n");
        let length = std::mem::take(&mut self.length);
        put(LOG.load(Ordering::Relaxed), &self.bytes[..length]);
    }
}

fn shortened(text: &[u8]) -> Cow<'_, [u8]> {
    if text.len() <= LONGEST_PLACE {
        return Cow::Borrowed(text);
    }
    Cow::Owned([&text[..LONGEST_PLACE], b"..."].concat())
}

/// Escapes line feeds, control characters and what is not UTF-8: a message remains one line, and
/// cannot send commands to a terminal that shows the log.
fn escape(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..=0x1F | 0x7F => drop(write!(out, "\\x{byte:02x}")),
                _ => out.push(byte),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_start_are_plain_text() {
        for (message, plain) in [
            ("plain", "plain"),
            ("&quot;user&quot; &lt;b&gt; &#039;a&#039;", "\"user\" <b> 'a'"),
            ("a &amp;quot; b", "a &quot; b"),
            ("a & b &", "a & b &"),
        ] {
            assert_eq!(&*without_entities(message.as_bytes()), plain.as_bytes(), "{message}");
        }
    }

    #[test]
    fn a_message_is_one_line_with_its_request() {
        let about = LogContext {
            script: b"/srv/a.php",
            method: b"GET",
            host: b"a.example",
            uri: b"/a.php?x=\x1b\xc3\xa9",
        };
        let lines = lines(Level::Error, b"PHP Fatal error:  x\n#0 {main}", Some(about));
        let worker = std::process::id();
        let expected = format!(
            "error: PHP Fatal error:  x\\n#0 {{main}}, worker {worker}, while running /srv/a.php \
             for GET a.example/a.php?x=\\x1b\\xc3\\xa9\n"
        );
        assert_eq!(String::from_utf8(lines.concat()).unwrap(), expected);
    }

    #[test]
    fn a_line_of_a_signal_handler_looks_the_same() {
        let about = LogContext {
            script: b"/srv/a.php",
            method: b"GET",
            host: b"a.example",
            uri: b"/a.php?x=\x1b\xc3\xa9",
        };
        let mut line = LogLine::new(Level::Error);
        line.text(b"PHP Fatal error:  x\n#");
        line.number(1203);
        line.text(b", worker ");
        line.number(std::process::id().into());
        line.about(&about);
        let [usual] = &lines(Level::Error, b"PHP Fatal error:  x\n#1203", Some(about))[..] else {
            panic!("it is one line");
        };
        assert_eq!(line.bytes[..line.length], usual[..usual.len() - 1]);
    }

    #[test]
    fn no_line_is_longer_than_a_pipe_takes_at_once() {
        let message = vec![b'\n'; 3 * LONGEST_MESSAGE];
        let lines = lines(Level::Warning, &message, None);
        assert!(lines.len() > 10);
        assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE && line.ends_with(b"\n")));
        assert!(lines[1].starts_with(b"warning: (continued) "));
        assert!(lines.last().unwrap().ends_with(b"(131072 more bytes)\n"));
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_nothing_is_lost() {
        for shift in 0..4 {
            let message = [&b"abc"[..shift], "\u{1f418}\u{e4}".repeat(2000).as_bytes()].concat();
            let lines = lines(Level::Warning, &message, None);
            assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE));
            let texts = lines.iter().map(|line| str::from_utf8(line).unwrap().trim_end());
            let texts = texts.map(|line| line.strip_prefix("warning: ").unwrap());
            let whole: String =
                texts.map(|text| text.strip_prefix("(continued) ").unwrap_or(text)).collect();
            assert_eq!(whole.as_bytes(), message);
        }
        let latin = lines(Level::Notice, b"caf\xe9", None).concat();
        assert_eq!(latin, b"notice: caf\\xe9\n");
    }

    #[test]
    fn levels_are_syslogs() {
        for (number, level) in [
            (0, Level::Error),
            (3, Level::Error),
            (4, Level::Warning),
            (5, Level::Notice),
            (7, Level::Info),
        ] {
            assert_eq!(Level::from_syslog(number), level);
        }
    }
}
