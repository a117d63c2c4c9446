//! The sources of a response's content.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_files::{FileBody, OpenFile};
use howdah_php::{ExchangeError, ScriptExchange};

use super::constancy::Constancy;
use crate::net::ContentPiece;
use crate::respond::UpstreamError;

/// Content that is being produced. A new kind of source (another pool protocol, a cache, a tee)
/// implements this trait; the pump stays as it is.
pub(crate) trait BodySource: fmt::Debug {
    /// Returns how much content can be taken, and wakes `context` when there is more. Pending:
    /// there is none yet.
    ///
    /// # Errors
    /// The content ended before its end.
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>>;

    /// The next bytes of content: as many as [`AvailableContent::bytes`] said, or the first of
    /// them.
    fn piece(&self) -> ContentPiece<'_>;

    /// Removes the next `count` bytes, which were taken.
    fn consume(&mut self, count: usize);

    /// Returns the length of the whole content, where it is known before the content is complete.
    fn length(&self) -> Option<u64>;

    /// Returns the bytes that the source has in memory for this response alone, and that are not
    /// counted elsewhere.
    fn own_memory(&self) -> usize {
        0
    }

    /// Returns how long the source may be silent before the filters are flushed.
    fn pause(&self) -> Duration {
        PAUSE
    }

    /// Gives the content up: no one reads it any more. A script keeps running.
    fn discard(&mut self) {}

    /// Gives back what is scarce, such as a script's slot: no more content is taken. A source
    /// around another passes this on.
    fn release(&mut self) {}
}

/// The amount of content that can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AvailableContent {
    /// Bytes that wait to be taken.
    pub(crate) bytes: usize,
    /// No content follows these bytes.
    pub(crate) is_last: bool,
    /// Something scarce, such as a worker, waits for room: the bytes should be spooled if the
    /// client does not take them.
    pub(crate) is_urgent: bool,
}

/// The reason why content broke off.
#[derive(Debug)]
pub(crate) enum SourceError {
    Script(ExchangeError),
    Upstream(Box<UpstreamError>),
    /// A file was changed while it was sent.
    FileChanged,
}

/// Content of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Bytes in memory that other owners share, such as those of a cached file.
    Memory(Rc<[u8]>, Range<usize>),
    /// Bytes in memory, shared by all threads.
    Shared(Arc<[u8]>, Range<usize>),
    /// Bytes in a buffer that is returned afterwards, and the number of bytes sent so far.
    Buffer(Vec<u8>, usize),
    /// Part of a file.
    File {
        file: Rc<OpenFile>,
        offset: u64,
        length: u64,
        constancy: Constancy,
    },
    /// Several bodies in memory or in files, the first one last.
    Parts(Vec<ResponseBody>),
    /// The output of a script.
    Script(ScriptSource),
    /// Any other source.
    Stream(Box<dyn BodySource>),
}

/// The output of a script.
#[derive(Debug)]
pub(crate) struct ScriptSource {
    /// `None` once no one reads it any more.
    exchange: Option<Box<ScriptExchange>>,
    available: usize,
    /// Bytes that the response's head promised.
    declared: Option<u64>,
}

impl ResponseBody {
    /// No bytes.
    pub(crate) fn none() -> ResponseBody {
        ResponseBody::Buffer(Vec::new(), 0)
    }

    /// All of these bytes.
    pub(crate) fn whole(bytes: Rc<[u8]>) -> ResponseBody {
        let all = 0..bytes.len();
        ResponseBody::Memory(bytes, all)
    }

    /// All of these bytes, which all threads share.
    pub(crate) fn shared(bytes: Arc<[u8]>) -> ResponseBody {
        let all = 0..bytes.len();
        ResponseBody::Shared(bytes, all)
    }

    /// The output of a script. `declared` is the length that the script's head declared, if it did.
    pub(crate) fn script(exchange: Box<ScriptExchange>, declared: Option<u64>) -> ResponseBody {
        ResponseBody::Script(ScriptSource {
            exchange: Some(exchange),
            available: 0,
            declared,
        })
    }

    /// Returns all of the content, if it is in memory. `None` otherwise.
    #[inline]
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        match self {
            ResponseBody::Memory(bytes, range) => Some(&bytes[range.clone()]),
            ResponseBody::Shared(bytes, range) => Some(&bytes[range.clone()]),
            ResponseBody::Buffer(bytes, sent) => Some(&bytes[*sent..]),
            _ => None,
        }
    }

    /// Waits until a file of which some bytes were sent is known to be as it was.
    ///
    /// # Errors
    /// The file was changed.
    #[inline]
    fn poll_same(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SourceError>> {
        match self {
            ResponseBody::File { file, length: 1.., constancy, .. } => {
                constancy.poll(file, context)
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Sets the length of a script's output, which has ended.
    pub(super) fn set_length(&mut self, length: u64) {
        if let ResponseBody::Script(script) = self {
            script.declared = Some(length);
        }
    }

    /// Returns the file whose descriptor the body needs. `None`: it needs none.
    #[inline]
    pub(crate) fn file(&self) -> Option<&OpenFile> {
        match self {
            ResponseBody::File { file, .. } => Some(file),
            // They are parts of one file.
            ResponseBody::Parts(parts) => parts.iter().find_map(ResponseBody::file),
            _ => None,
        }
    }

    /// Returns whether reading all of a stored body waits for no disk.
    pub(crate) fn is_at_hand(&self) -> bool {
        match self {
            ResponseBody::File { file, offset, length, .. } => {
                !file.is_cold(&(*offset..offset.saturating_add(*length)))
            }
            ResponseBody::Parts(parts) => parts.iter().all(ResponseBody::is_at_hand),
            _ => true,
        }
    }

    /// Returns whether all content is in memory or in files.
    pub(crate) fn is_stored(&self) -> bool {
        !matches!(self, ResponseBody::Script(_) | ResponseBody::Stream(_))
    }
}

impl BodySource for ResponseBody {
    #[inline]
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        let stored = |bytes: u64, is_last| AvailableContent {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            is_last,
            is_urgent: false,
        };
        Poll::Ready(Ok(match self {
            ResponseBody::Memory(_, range) | ResponseBody::Shared(_, range) => {
                stored(range.len() as u64, true)
            }
            ResponseBody::Buffer(bytes, sent) => stored((bytes.len() - *sent) as u64, true),
            ResponseBody::File { .. } => {
                ready!(self.poll_same(context))?;
                stored(self.length().unwrap_or(0), true)
            }
            ResponseBody::Parts(parts) => {
                while parts.last().is_some_and(|part| part.length() == Some(0)) {
                    parts.pop();
                }
                if let Some(part) = parts.last_mut() {
                    ready!(part.poll_same(context))?;
                }
                let first = parts.last().and_then(ResponseBody::length);
                stored(first.unwrap_or(0), parts.len() < 2)
            }
            ResponseBody::Script(script) => return script.poll_available(context),
            ResponseBody::Stream(source) => return source.poll_available(context),
        }))
    }

    #[inline]
    fn piece(&self) -> ContentPiece<'_> {
        match self {
            ResponseBody::Memory(bytes, range) => ContentPiece::Memory(&bytes[range.clone()]),
            ResponseBody::Shared(bytes, range) => ContentPiece::Memory(&bytes[range.clone()]),
            ResponseBody::Buffer(bytes, sent) => ContentPiece::Memory(&bytes[*sent..]),
            ResponseBody::File { file, offset, length, .. } => {
                ContentPiece::Document { file, offset: *offset, length: *length }
            }
            ResponseBody::Parts(parts) => {
                parts.last().map_or(ContentPiece::Memory(b""), ResponseBody::piece)
            }
            ResponseBody::Script(script) => match &script.exchange {
                Some(exchange) => ContentPiece::Ring(exchange, script.available),
                None => ContentPiece::Memory(b""),
            },
            ResponseBody::Stream(source) => source.piece(),
        }
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        match self {
            ResponseBody::Memory(_, range) | ResponseBody::Shared(_, range) => range.start += count,
            ResponseBody::Buffer(_, sent) => *sent += count,
            ResponseBody::File { file, offset, length, constancy } => {
                if *length > count as u64 {
                    constancy.begin(file);
                }
                *offset += count as u64;
                *length -= count as u64;
            }
            ResponseBody::Parts(parts) => {
                parts.last_mut().into_iter().for_each(|part| part.consume(count))
            }
            ResponseBody::Script(script) => {
                if let Some(exchange) = &mut script.exchange {
                    exchange.consume(count);
                    script.available -= count;
                }
            }
            ResponseBody::Stream(source) => source.consume(count),
        }
    }

    fn length(&self) -> Option<u64> {
        match self {
            ResponseBody::Memory(_, range) | ResponseBody::Shared(_, range) => {
                Some(range.len() as u64)
            }
            ResponseBody::Buffer(bytes, sent) => Some((bytes.len() - sent) as u64),
            ResponseBody::File { length, .. } => Some(*length),
            ResponseBody::Parts(parts) => parts.iter().map(ResponseBody::length).sum(),
            ResponseBody::Script(script) => script.declared,
            ResponseBody::Stream(source) => source.length(),
        }
    }

    fn own_memory(&self) -> usize {
        match self {
            ResponseBody::Buffer(bytes, sent) => bytes.len() - sent,
            ResponseBody::Memory(bytes, range) if Rc::strong_count(bytes) == 1 => range.len(),
            ResponseBody::Shared(bytes, range) if Arc::strong_count(bytes) == 1 => range.len(),
            ResponseBody::Parts(parts) => {
                size_of_val(&**parts) + parts.iter().map(ResponseBody::own_memory).sum::<usize>()
            }
            ResponseBody::Stream(source) => source.own_memory(),
            _ => 0,
        }
    }

    fn pause(&self) -> Duration {
        match self {
            ResponseBody::Stream(source) => source.pause(),
            _ => PAUSE,
        }
    }

    fn discard(&mut self) {
        match self {
            ResponseBody::Script(script) => {
                script.exchange.take().into_iter().for_each(|it| it.detach())
            }
            ResponseBody::Stream(source) => source.discard(),
            _ => {}
        }
    }

    fn release(&mut self) {
        match self {
            ResponseBody::Script(script) => script.exchange = None,
            ResponseBody::Stream(source) => source.release(),
            _ => {}
        }
    }
}

impl ScriptSource {
    fn poll_available(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<AvailableContent, SourceError>> {
        let Some(exchange) = &mut self.exchange else {
            return Poll::Ready(Ok(AvailableContent {
                bytes: 0,
                is_last: true,
                is_urgent: false,
            }));
        };
        let progress = exchange.poll_progress(context).map_err(SourceError::Script)?;
        self.available = progress.available;
        if progress.available == 0 && !progress.complete {
            return Poll::Pending;
        }
        Poll::Ready(Ok(AvailableContent {
            bytes: progress.available,
            is_last: progress.complete,
            is_urgent: progress.full || progress.complete,
        }))
    }
}

impl From<FileBody> for ResponseBody {
    fn from(body: FileBody) -> ResponseBody {
        match body {
            FileBody::None => ResponseBody::none(),
            FileBody::Memory(bytes, range) => ResponseBody::Memory(bytes, range),
            FileBody::File { file, offset, length } => ResponseBody::File {
                file,
                offset,
                length,
                constancy: Constancy::Any,
            },
            FileBody::Multipart(parts) => {
                let mut parts: Vec<ResponseBody> =
                    parts.into_iter().rev().map(ResponseBody::from).collect();
                for part in &mut parts {
                    if let ResponseBody::File { file, constancy, .. } = part {
                        constancy.begin(file);
                    }
                }
                ResponseBody::Parts(parts)
            }
        }
    }
}

/// The time that a script may pause before its filters are flushed, which makes them compress less.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_order_and_empty_ones_are_passed_over() {
        let memory = |text: &str| ResponseBody::whole(text.as_bytes().into());
        let mut body = ResponseBody::Parts(vec![
            memory("three"),
            memory(""),
            memory("two"),
            memory("one"),
            memory(""),
        ]);
        assert_eq!(body.length(), Some(11));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        loop {
            let Poll::Ready(Ok(available)) = body.poll_available(&mut context) else {
                panic!("stored content is always at hand");
            };
            let ContentPiece::Memory(bytes) = body.piece() else {
                panic!("it is in memory")
            };
            assert_eq!(bytes.len(), available.bytes);
            let step = bytes.len().min(2);
            all.extend_from_slice(&bytes[..step]);
            body.consume(step);
            if available.is_last && available.bytes == step {
                break;
            }
        }
        assert_eq!(all, b"onetwothree");
    }
}
