//! Content that a script has divided into chunks itself.

use std::fmt;
use std::task::{Context, Poll, ready};

use howdah_http::Limits;
use howdah_http::h1::ChunkedDecoder;

use super::filtering::rest;
use super::source::{AvailableContent, BodySource, ResponseBody, SourceError};
use crate::net::{ContentPiece, DecodedChunks};

/// The content of a response whose script has sent `Transfer-Encoding: chunked`. Under Apache such
/// a script writes the chunks, and the client unpacks them. Here the protocol frames the content,
/// so the chunks are unpacked before. Output without the form of chunks, and what follows the last
/// byte with that form, passes as it is. Bytes after the last chunk are no content, whatever their
/// form is.
pub(crate) struct Unchunked {
    content: ResponseBody,
    form: Form,
    /// Gets the first thing that is wrong with the chunks.
    report: Option<ReportChunks>,
    /// Bytes that the script has written, which are not unpacked yet.
    raw: Vec<u8>,
    /// Content that is ready, and how many bytes of it were taken.
    ready: (Vec<u8>, usize),
    /// All that follows was read.
    is_over: bool,
    chunks: DecodedChunks,
    /// Bytes that are read at once.
    most_read: usize,
}

/// Called when chunks turn out to be malformed.
pub(crate) type ReportChunks = Box<dyn FnOnce(MalformedChunks)>;

/// The first thing that is wrong with chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedChunks {
    pub(crate) why: &'static str,
    /// The last chunk was read: these are the fields behind it.
    pub(crate) is_content_whole: bool,
}

#[derive(Debug)]
enum Form {
    /// The first line has not come.
    Unknown,
    Chunks(Box<ChunkedDecoder>),
    /// The last chunk was read; what follows is no content.
    Ended,
    Plain,
}

impl Unchunked {
    pub(crate) fn new(content: ResponseBody, report: ReportChunks) -> Unchunked {
        Unchunked {
            content,
            form: Form::Unknown,
            report: Some(report),
            raw: Vec::new(),
            ready: (Vec::new(), 0),
            is_over: false,
            chunks: DecodedChunks::default(),
            most_read: MOST_READ,
        }
    }

    /// Moves what was written from `raw` to `ready`, as far as its form is known.
    fn unpack(&mut self) {
        if let Form::Unknown = self.form {
            self.form = match begins_with_chunk(&self.raw) {
                Some(true) => {
                    let limits = Limits { body: 0, ..Limits::default() };
                    Form::Chunks(Box::new(ChunkedDecoder::new(&limits)))
                }
                Some(false) => Form::Plain,
                None if self.is_over => Form::Plain,
                None => return,
            };
        }
        let (ready, _) = &mut self.ready;
        let (mut at, mut rounds) = (0, 0);
        while at < self.raw.len() {
            rounds += 1;
            match &mut self.form {
                Form::Chunks(decoder) => match decoder.decode(&self.raw[at..]) {
                    Ok(decoded) => {
                        ready.extend_from_slice(&self.raw[at..][decoded.data]);
                        at += decoded.consumed;
                        if decoded.done {
                            self.form = Form::Ended;
                        }
                    }
                    Err(refusal) => {
                        let is_content_whole = decoder.is_in_trailers();
                        self.form = match is_content_whole {
                            true => Form::Ended,
                            false => Form::Plain,
                        };
                        let malformed = MalformedChunks { why: refusal.why, is_content_whole };
                        if let Some(report) = self.report.take() {
                            report(malformed);
                        }
                    }
                },
                Form::Plain | Form::Unknown => {
                    ready.extend_from_slice(&self.raw[at..]);
                    break;
                }
                Form::Ended => break,
            }
        }
        self.chunks.add(rounds);
        self.most_read = match rounds * SHORT < self.raw.len() {
            true => MOST_READ,
            false => LEAST_READ,
        };
        self.raw.clear();
    }
}

impl BodySource for Unchunked {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        let mut is_urgent = false;
        while self.ready.0.is_empty() && !self.is_over {
            if self.chunks.is_turn_over(context) {
                return Poll::Pending;
            }
            let available = ready!(self.content.poll_available(context))?;
            is_urgent = available.is_urgent;
            let start = self.raw.len();
            self.raw.resize(start + available.bytes.min(self.most_read), 0);
            let read = self.content.piece().read(&mut self.raw[start..]);
            let count = read.map_err(|_| SourceError::FileChanged)?;
            self.raw.truncate(start + count);
            self.content.consume(count);
            self.is_over = available.is_last && count == available.bytes;
            self.unpack();
            // A script that writes as fast as nothing comes of it does not keep the thread.
            if self.ready.0.is_empty() && !self.is_over {
                rest(context);
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(AvailableContent {
            bytes: self.ready.0.len() - self.ready.1,
            is_last: self.is_over,
            is_urgent,
        }))
    }

    fn piece(&self) -> ContentPiece<'_> {
        let (ready, taken) = &self.ready;
        ContentPiece::Memory(&ready[*taken..])
    }

    fn consume(&mut self, count: usize) {
        let (ready, taken) = &mut self.ready;
        *taken += count;
        if *taken == ready.len() {
            ready.clear();
            *taken = 0;
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn discard(&mut self) {
        self.content.discard();
    }

    fn release(&mut self) {
        self.content.release();
    }
}

impl fmt::Debug for Unchunked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unchunked")
            .field("content", &self.content)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

/// Returns whether the bytes begin with the line of a chunk: `size [;extension] CRLF`. `None`: they
/// are the beginning of such a line.
fn begins_with_chunk(bytes: &[u8]) -> Option<bool> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match &bytes[digits..] {
        [] if digits <= MOST_DIGITS => None,
        _ if digits == 0 || digits > MOST_DIGITS => Some(false),
        [b'\r'] => None,
        [b'\r', after, ..] => Some(*after == b'\n'),
        [b';', ..] => Some(true),
        _ => Some(false),
    }
}

/// Digits of a chunk's size at most, as [`ChunkedDecoder`] takes them. Output with more is not in
/// chunks.
const MOST_DIGITS: usize = 16;

/// Bytes that are read of the script's output at once.
const MOST_READ: usize = 64 * 1024;
/// Bytes that are read at once of output in short chunks: some hundred chunks.
const LEAST_READ: usize = 4 * 1024;
/// Bytes of a short chunk.
const SHORT: usize = 32;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    /// Returns what comes out of content that comes in these parts, and what is wrong with it.
    fn unpacked(parts: &[&str]) -> (String, Option<MalformedChunks>) {
        let parts = parts.iter().rev().map(|part| ResponseBody::whole(part.as_bytes().into()));
        let malformed = Rc::<Cell<Option<MalformedChunks>>>::default();
        let reported = Rc::clone(&malformed);
        let report = Box::new(move |it| reported.set(Some(it)));
        let mut source = Unchunked::new(ResponseBody::Parts(parts.collect()), report);
        let mut context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        loop {
            let available = match source.poll_available(&mut context) {
                Poll::Pending => continue,
                Poll::Ready(available) => available.unwrap(),
            };
            let ContentPiece::Memory(bytes) = source.piece() else {
                panic!("unpacked content is in memory")
            };
            assert_eq!(bytes.len(), available.bytes);
            all.extend_from_slice(bytes);
            source.consume(available.bytes);
            if available.is_last {
                return (String::from_utf8(all).unwrap(), malformed.get());
            }
        }
    }

    #[test]
    fn chunks_are_unpacked_and_everything_else_stays() {
        let table = [
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("5;a=b\r\nhello\r\n3\r\n, w\r\n0\r\n\r\n", "hello, w"),
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\nX: y\r\n\r\n\n", "hello"),
            ("5\r\nhello\r\n", "hello"),
            ("5\r\nhel", "hel"),
            ("hello", "hello"),
            ("<html>5\r\n", "<html>5\r\n"),
            ("", ""),
            ("5", "5"),
            ("5\r", "5\r"),
            ("5\rx", "5\rx"),
            ("5 apples", "5 apples"),
            ("1234567890abcdef0\r\n", "1234567890abcdef0\r\n"),
            ("5\r\nhello\r\n<b>Fatal error</b>", "hello<b>Fatal error</b>"),
        ];
        for (content, expected) in table {
            let is_broken = content.contains("Fatal");
            let (found, malformed) = unpacked(&[content]);
            assert_eq!(found, expected, "{content:?}");
            assert_eq!(malformed.map(|it| it.is_content_whole), is_broken.then_some(false));
            // A line that is broken by an error may lose its beginning, which was a chunk's.
            if !is_broken {
                let bytewise: Vec<&str> = content.split("").filter(|s| !s.is_empty()).collect();
                let expected = (expected.to_owned(), None);
                assert_eq!(unpacked(&bytewise), expected, "{content:?} byte by byte");
            }
        }
    }

    #[test]
    fn nothing_behind_the_last_chunk_is_content_though_it_is_malformed() {
        let long = format!("X: {}\r\n", "y".repeat(Limits::default().field_line));
        for trailers in ["no field\r\n\r\n", "X: y\r\nno field", "X : y\r\n\r\n", "\n", &long] {
            let content = format!("5\r\nhello\r\n0\r\n{trailers}more");
            let bytewise: Vec<&str> = content.split("").filter(|s| !s.is_empty()).collect();
            for parts in [&[content.as_str()][..], &bytewise] {
                let (found, malformed) = unpacked(parts);
                assert_eq!(found, "hello", "{trailers:.20?}");
                // A line without an end is not looked at.
                let is_reported = malformed.is_some_and(|it| it.is_content_whole);
                assert_eq!(is_reported, !trailers.ends_with("no field"), "{trailers:.20?}");
            }
        }
    }

    #[test]
    fn other_connections_have_turns_between_hundreds_of_short_chunks() {
        let content = "1\r\nx\r\n".repeat(50_000) + "0\r\n\r\n";
        let body = ResponseBody::whole(content.as_bytes().into());
        let mut source = Unchunked::new(body, Box::new(|it| panic!("{it:?}")));
        let mut context = Context::from_waker(Waker::noop());
        let (mut turns, mut longest, mut now, mut all) = (1, 0, 0, 0);
        loop {
            let Poll::Ready(available) = source.poll_available(&mut context) else {
                (turns, now) = (turns + 1, 0);
                continue;
            };
            let available = available.unwrap();
            (all, now) = (all + available.bytes, now + available.bytes);
            longest = longest.max(now);
            source.consume(available.bytes);
            if available.is_last {
                break;
            }
        }
        assert_eq!(all, 50_000);
        // The first bytes are read before it is known that the chunks are short.
        assert!(turns > 30 && longest <= MOST_READ / 6 + 1, "{turns}: {longest}");
    }
}
