//! Content that passes filters on its way out: what compresses it, what replaces text in it.

use std::collections::HashMap;
use std::rc::Rc;

use howdah_htaccess::modules::filter::{Broken, Filter, Transform};
use howdah_http::h1::{Framing, LAST_CHUNK, encode_chunk_size, encode_head};
use howdah_http::{ResponseHead, Status};

use super::answer::{Answer, Body, Head};
use super::connection::{After, Connection};
use super::send::{self, Sent};
use super::trouble::Trouble;
use super::workspace::Workspace;

/// Content up to this length is brought through its filters before it is sent, so that its new
/// length can be told and, of a file, what became of it can be kept.
const WHOLE: u64 = 1 << 20;
/// Bytes that are brought through at a time. In between others have their turn.
const STEP: usize = 32 * 1024;
/// Bytes of what became of files that a thread keeps. Beyond, all are forgotten.
const MOST_KEPT: usize = 8 << 20;

/// Filters, one behind the other.
pub(super) struct Chain {
    steps: Vec<Box<dyn Transform>>,
    /// What comes out of one and goes into the next.
    between: [Vec<u8>; 2],
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// What is done with the content that has come so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Flush,
    Finish,
}

impl Chain {
    pub(super) fn new(filters: &[Filter]) -> Chain {
        Chain {
            steps: filters.iter().map(Filter::transform).collect(),
            between: Default::default(),
        }
    }

    /// Takes more content; appends what comes out at the end of it.
    pub(super) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(input, Then::GoOn, out)
    }

    /// Appends all that can be shown of the content so far.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(b"", Then::Flush, out)
    }

    /// Appends the rest.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        self.run(b"", Then::Finish, out)
    }

    fn run(&mut self, input: &[u8], then: Then, out: &mut Vec<u8>) -> Result<(), Broken> {
        let [from, to] = &mut self.between;
        from.clear();
        from.extend_from_slice(input);
        for step in &mut self.steps {
            to.clear();
            if !from.is_empty() {
                step.push(from, to)?;
            }
            match then {
                Then::GoOn => {}
                Then::Flush => step.flush(to)?,
                Then::Finish => step.finish(to)?,
            }
            std::mem::swap(from, to);
        }
        out.extend_from_slice(from);
        Ok(())
    }
}

/// Files as they came out of a filter.
#[derive(Debug, Default)]
pub(super) struct Pressed {
    kept: HashMap<(usize, Coding), Kept, foldhash::fast::RandomState>,
    memory: usize,
}

#[derive(Debug)]
struct Kept {
    /// The head of the file, whose address is the key.
    _document: Rc<[u8]>,
    content: Rc<[u8]>,
}

/// A filter of which nothing but the content decides what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Coding {
    Gzip,
    Brotli,
}

impl Coding {
    fn of(filters: &[Filter]) -> Option<Coding> {
        match filters {
            [Filter::Deflate] => Some(Coding::Gzip),
            [Filter::Brotli] => Some(Coding::Brotli),
            _ => None,
        }
    }
}

impl Pressed {
    /// What a file comes to behind these filters, if that is known.
    pub(super) fn of(&self, document: &Rc<[u8]>, filters: &[Filter]) -> Option<Rc<[u8]>> {
        self.find(document, Coding::of(filters)?)
    }

    fn find(&self, document: &Rc<[u8]>, coding: Coding) -> Option<Rc<[u8]>> {
        let kept = self.kept.get(&(document.as_ptr() as usize, coding))?;
        Some(Rc::clone(&kept.content))
    }

    fn keep(&mut self, document: &Rc<[u8]>, coding: Coding, content: &Rc<[u8]>) {
        if self.memory + content.len() > MOST_KEPT {
            self.kept.clear();
            self.memory = 0;
        }
        self.memory += content.len();
        let kept = Kept {
            _document: Rc::clone(document),
            content: Rc::clone(content),
        };
        if let Some(before) = self.kept.insert((document.as_ptr() as usize, coding), kept) {
            self.memory -= before.content.len();
        }
    }
}

/// Sends what is in memory or in a file, through its filters.
pub(super) async fn send(
    connection: &mut Connection,
    work: &mut Workspace,
    answer: Answer,
    persistent: bool,
) -> Sent {
    let Head::Plain(head) = &answer.head else {
        return Box::pin(send::send(connection, work, without_filters(answer), persistent)).await;
    };
    let framing = Framing::of(&work.request.method, work.request.version, head.status, None);
    if !framing.has_content() {
        encode(connection, work, head, framing, persistent);
        let after = send::after(connection, persistent);
        return Sent::new(0, connection.write_all(&work.out).await, after);
    }
    let pieces = Content::of(&answer.body);
    if pieces.length > WHOLE {
        let persistent = persistent && framing != Framing::Close;
        encode(connection, work, head, framing, persistent);
        let after = send::after(connection, persistent);
        return stream(connection, work, &pieces, &answer.filters, framing, after).await;
    }
    match whole(connection, &answer, &pieces).await {
        Ok(content) => {
            let answer = Answer::new(answer.head, Body::whole(content));
            Box::pin(send::send(connection, work, answer, persistent)).await
        }
        Err(why) => {
            let trouble = Trouble::server(connection, &work.request, why);
            connection.thread().report(&trouble);
            let answer = Answer::error(Status::INTERNAL_SERVER_ERROR);
            Box::pin(send::send(connection, work, answer, persistent)).await
        }
    }
}

fn without_filters(answer: Answer) -> Answer {
    Answer { filters: Vec::new(), ..answer }
}

fn encode(
    connection: &Connection,
    work: &mut Workspace,
    head: &ResponseHead,
    framing: Framing,
    persistent: bool,
) {
    let date = connection.thread().date();
    encode_head(&mut work.out, work.request.version, head, framing, persistent, &date);
}

/// All of the content, as it comes out.
async fn whole(
    connection: &Connection,
    answer: &Answer,
    pieces: &Content<'_>,
) -> Result<Rc<[u8]>, &'static str> {
    let thread = connection.thread();
    let key = answer.document.as_ref().zip(Coding::of(&answer.filters));
    if let Some((document, coding)) = key
        && let Some(content) = thread.pressed().find(document, coding)
    {
        return Ok(content);
    }
    let mut chain = Chain::new(&answer.filters);
    let (mut out, mut buffer, mut at) = (Vec::new(), Vec::new(), 0);
    while at < pieces.length {
        pieces.read(at, &mut buffer)?;
        at += buffer.len() as u64;
        chain.push(&buffer, &mut out).map_err(|broken| broken.0)?;
        tokio::task::yield_now().await;
    }
    chain.finish(&mut out).map_err(|broken| broken.0)?;
    let content: Rc<[u8]> = out.into();
    if let Some((document, coding)) = key {
        thread.pressed().keep(document, coding, &content);
    }
    Ok(content)
}

/// Sends the head in `work.out` and then the content as it comes out.
async fn stream(
    connection: &mut Connection,
    work: &mut Workspace,
    pieces: &Content<'_>,
    filters: &[Filter],
    framing: Framing,
    after: After,
) -> Sent {
    let mut chain = Chain::new(filters);
    let (mut buffer, mut made) = (Vec::new(), Vec::new());
    let (mut at, mut sent) = (0, 0);
    loop {
        let passed = match pieces.length - at {
            0 => chain.finish(&mut made).map_err(|broken| broken.0),
            _ => pieces
                .read(at, &mut buffer)
                .and_then(|()| chain.push(&buffer, &mut made).map_err(|broken| broken.0)),
        };
        if let Err(why) = passed {
            return Sent::broken(sent, Trouble::server(connection, &work.request, why));
        }
        let is_last = at == pieces.length;
        at += if is_last { 0 } else { buffer.len() as u64 };
        frame(&mut work.out, &made, framing);
        if is_last && framing == Framing::Chunked {
            work.out.extend_from_slice(LAST_CHUNK);
        }
        if let Err(cut) = connection.write_all(&work.out).await {
            return Sent::new(sent, Err(cut), after);
        }
        sent += made.len() as u64;
        work.out.clear();
        made.clear();
        if is_last {
            return Sent::new(sent, Ok(()), after);
        }
        tokio::task::yield_now().await;
    }
}

/// Appends content, as a chunk where it goes in chunks.
pub(super) fn frame(out: &mut Vec<u8>, content: &[u8], framing: Framing) {
    if content.is_empty() {
        return;
    }
    if framing == Framing::Chunked {
        encode_chunk_size(out, content.len());
    }
    out.extend_from_slice(content);
    if framing == Framing::Chunked {
        out.extend_from_slice(b"\r\n");
    }
}

/// Content that can be read from anywhere.
struct Content<'b> {
    body: &'b Body,
    length: u64,
}

impl Content<'_> {
    fn of(body: &Body) -> Content<'_> {
        Content {
            body,
            length: match body {
                Body::Memory(..) | Body::File { .. } => body.length().unwrap_or(0),
                // Parts are parts of the content as it is: no filter is chosen for them.
                Body::Pieces(_) | Body::Script(_) | Body::Upstream(_) => 0,
            },
        }
    }

    /// The next bytes from `at` on, at least one.
    fn read(&self, at: u64, into: &mut Vec<u8>) -> Result<(), &'static str> {
        let count = usize::try_from(self.length - at).unwrap_or(STEP).min(STEP);
        into.clear();
        match self.body {
            Body::Memory(bytes, range) => {
                let start = range.start + at as usize;
                into.extend_from_slice(&bytes[start..start + count]);
            }
            Body::File { file, offset, .. } => {
                into.resize(count, 0);
                let read =
                    file.read_at(into, offset + at).map_err(|_| "the file cannot be read")?;
                if read == 0 {
                    return Err("the file became shorter while it was sent");
                }
                into.truncate(read);
            }
            Body::Pieces(_) | Body::Script(_) | Body::Upstream(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(filters: &[Filter], parts: &[&[u8]]) -> Vec<u8> {
        let (mut chain, mut out) = (Chain::new(filters), Vec::new());
        for part in parts {
            chain.push(part, &mut out).unwrap();
            chain.flush(&mut out).unwrap();
        }
        chain.finish(&mut out).unwrap();
        out
    }

    #[test]
    fn filters_one_behind_the_other() {
        let content = b"one two three ".repeat(1000);
        let packed = through(&[Filter::Deflate], &[&content]);
        assert!(packed.len() < content.len() / 5 && packed.starts_with(&[0x1f, 0x8b]));
        assert_eq!(through(&[Filter::Deflate, Filter::Inflate], &[&content]), content);
        assert_eq!(through(&[Filter::Inflate], &[&packed]), content);
        assert_eq!(through(&[Filter::Deflate, Filter::Inflate], &[b"a", b"", b"b"]), b"ab");
        assert_eq!(through(&[], &[b"a", b"b"]), b"ab");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pressed = Pressed::default();
        let document = |number: u32| -> Rc<[u8]> { number.to_string().into_bytes().into() };
        let content: Rc<[u8]> = vec![0; MOST_KEPT / 4].into();
        let documents: Vec<_> = (0..10).map(document).collect();
        for document in &documents {
            pressed.keep(document, Coding::Gzip, &content);
            pressed.keep(document, Coding::Gzip, &content);
            assert!(pressed.memory <= MOST_KEPT);
            assert!(pressed.find(document, Coding::Gzip).is_some());
            assert!(pressed.find(document, Coding::Brotli).is_none());
        }
        assert!(pressed.find(&documents[0], Coding::Gzip).is_none());
    }
}
