//! Lines, joined where a backslash continues them (`ap_cfg_getline`).

use std::borrow::Cow;

use memchr::memchr;

use super::is_space;

/// A line, continuation lines joined, without white space at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalLine<'s> {
    /// The text, continuation lines joined.
    pub text: Cow<'s, [u8]>,
    /// The offset of its first line in the file.
    pub start: usize,
    /// The number of its first line, from 1.
    pub number: u32,
    /// The bytes of white space before `text`.
    pub lead: usize,
    /// The bytes that Apache's buffer needs for the line, with the white space and the line's end.
    pub length: usize,
    /// Whether a NUL hides the rest of the line.
    pub has_nul: bool,
}

/// The lines of a file.
#[derive(Clone, Debug)]
pub struct Lines<'s> {
    source: &'s [u8],
    at: usize,
    number: u32,
}

/// Returns a line of the file up to its end, and whether it continues.
struct Physical<'s> {
    text: &'s [u8],
    next: usize,
    continued: bool,
    has_nul: bool,
}

impl<'s> Lines<'s> {
    /// Begins at the beginning of the file.
    pub fn new(source: &'s [u8]) -> Lines<'s> {
        Lines { source, at: 0, number: 1 }
    }
}

impl<'s> Iterator for Lines<'s> {
    type Item = LogicalLine<'s>;

    fn next(&mut self) -> Option<LogicalLine<'s>> {
        if self.at >= self.source.len() {
            return None;
        }
        let (start, number) = (self.at, self.number);
        let first = physical(self.source, self.at);
        let (mut joined, mut has_nul) = (Cow::Borrowed(first.text), first.has_nul);
        let mut continued = first.continued;
        (self.at, self.number) = (first.next, self.number + 1);
        while continued && self.at < self.source.len() {
            let more = physical(self.source, self.at);
            joined.to_mut().extend_from_slice(more.text);
            (continued, has_nul) = (more.continued, more.has_nul);
            (self.at, self.number) = (more.next, self.number + 1);
        }
        let lead = joined.iter().take_while(|&&byte| is_space(byte)).count();
        let ended = !has_nul && self.source[..self.at].ends_with(b"\n");
        let length = joined.len() + usize::from(ended);
        Some(LogicalLine {
            text: trimmed(joined, lead),
            start,
            number,
            lead,
            length,
            has_nul,
        })
    }
}

/// Returns the line and column, from 1, of a byte of a joined line that begins at `start`, in line
/// `number`.
pub fn locate(source: &[u8], (start, number): (usize, u32), index: usize) -> (u32, u32) {
    let (mut at, mut number, mut index) = (start, number, index);
    loop {
        let line = physical(source, at);
        if index < line.text.len() || !line.continued || line.next >= source.len() {
            return (number, index.min(line.text.len()) as u32 + 1);
        }
        index -= line.text.len();
        at = line.next;
        number += 1;
    }
}

fn physical(source: &[u8], at: usize) -> Physical<'_> {
    let rest = &source[at..];
    let (line, next) = match memchr(b'\n', rest) {
        Some(end) => (&rest[..end], at + end + 1),
        None => (rest, source.len()),
    };
    // For Apache the line is a C string: it ends at a NUL, and the rest is dropped.
    if let Some(end) = memchr(0, line) {
        return Physical {
            text: &line[..end],
            next,
            continued: false,
            has_nul: true,
        };
    }
    let ended = source.get(next.wrapping_sub(1)) == Some(&b'\n') && next > at + line.len();
    let before = line.strip_suffix(b"\r").unwrap_or(line);
    match before.strip_suffix(b"\\") {
        Some(text) if ended => Physical {
            text,
            next,
            continued: true,
            has_nul: false,
        },
        _ => Physical {
            text: line,
            next,
            continued: false,
            has_nul: false,
        },
    }
}

fn trimmed(joined: Cow<'_, [u8]>, lead: usize) -> Cow<'_, [u8]> {
    let trail = joined[lead..].iter().rev().take_while(|&&byte| is_space(byte)).count();
    let end = joined.len() - trail;
    match joined {
        Cow::Borrowed(line) => Cow::Borrowed(&line[lead..end]),
        Cow::Owned(mut line) => {
            line.truncate(end);
            line.drain(..lead);
            Cow::Owned(line)
        }
    }
}
