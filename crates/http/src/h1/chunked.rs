//! Chunked content of a request, piece by piece (RFC 9112 §7.1).

use std::ops::Range;

use super::head::{LineEnd, field_line};
use crate::Refusal;
use crate::{Fields, Limits, Status, scan};

/// Decodes chunked content as it arrives. Extensions are checked and skipped, and so is the trailer
/// section where nobody wants its fields (RFC 9112 §7.1.1, §7.1.2).
///
/// ```text
/// Size ──digits──▶ Size ──CR──▶ SizeEnd ──LF──▶ Data ──all──▶ DataCr ──▶ DataLf ──▶ Size
///   │ BWS or ;                    ▲    └─size 0─▶ Trailer ──empty line──▶ Done
///   └──▶ Extension ──CR───────────┘
/// ```
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: ChunkState,
    /// Bytes of the chunk: its size while that is read, then the bytes still to come.
    left: u64,
    /// Bytes of all chunks whose size is known.
    total: u64,
    /// Digits of the size so far.
    digits: u8,
    /// Bytes of chunk lines beyond the allowance of the content so far.
    overhead: usize,
    /// The trailer line so far, which may come in pieces.
    line: Vec<u8>,
    trailer: usize,
    trailer_lines: usize,
    /// The fields of the trailer section; `None` where they are skipped.
    trailers: Option<Fields>,
    limits: Limits,
}

/// The result of one call of [`ChunkedDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that have been decoded, including those of `data`.
    pub consumed: usize,
    /// The range of the content in the input; empty where there was none.
    pub data: Range<usize>,
    /// Whether the content has ended. The bytes after `consumed` are the next request.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size,
    /// White space after the size, which only an extension may follow.
    White,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    Trailer,
    Done,
}

impl ChunkedDecoder {
    /// A decoder for one request's content. `limits.body` bounds the content, `limits.field_line`,
    /// `field_count` and `fields_total` the trailer section.
    pub fn new(limits: &Limits) -> ChunkedDecoder {
        ChunkedDecoder {
            state: ChunkState::Size,
            left: 0,
            total: 0,
            digits: 0,
            overhead: 0,
            line: Vec::new(),
            trailer: 0,
            trailer_lines: 0,
            trailers: None,
            limits: limits.clone(),
        }
    }

    /// Keeps the fields of the trailer section from now on.
    pub fn keep_trailers(&mut self) {
        self.trailers = Some(Fields::new());
    }

    /// Takes the fields of the trailer section so far; `None` if they are skipped, or if there are
    /// none.
    pub fn take_trailers(&mut self) -> Option<Fields> {
        self.trailers.take().filter(|fields| fields.iter().next().is_some())
    }

    /// Decodes more input. Returns at the first run of content, at the end, or when the input is
    /// used up. Must be called again with the bytes after `consumed` until nothing is left or
    /// `done`.
    ///
    /// # Errors
    /// The status to refuse the request with: the content is malformed or beyond a limit. The
    /// decoder must not be used again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, Refusal> {
        let mut at = 0;
        while at < input.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len() - at);
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = ChunkState::DataCr;
                }
                let data = at..at + length;
                let consumed = data.end + self.pass_chunk_end(&input[data.end..])?;
                return Ok(Decoded { consumed, data, done: false });
            }
            at += match self.state {
                ChunkState::Trailer => self.trailer_line(&input[at..])?,
                _ => self.step(input[at])?,
            };
        }
        Ok(Decoded {
            consumed: at,
            data: at..at,
            done: self.state == ChunkState::Done,
        })
    }

    /// Returns whether the content has ended.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Returns whether all content has come, though not the end of the trailer section. Also right
    /// after a refusal.
    pub fn is_in_trailers(&self) -> bool {
        self.state == ChunkState::Trailer
    }

    /// Bytes of content announced so far.
    pub fn announced(&self) -> u64 {
        self.total
    }

    /// Also consumes the CRLF after a chunk where it is there, so that most calls return just
    /// before a chunk line.
    fn pass_chunk_end(&mut self, rest: &[u8]) -> Result<usize, Refusal> {
        let mut passed = 0;
        while passed < rest.len() && matches!(self.state, ChunkState::DataCr | ChunkState::DataLf) {
            passed += self.step(rest[passed])?;
        }
        Ok(passed)
    }

    /// One byte of anything but content and trailer.
    #[inline]
    fn step(&mut self, byte: u8) -> Result<usize, Refusal> {
        self.state = match (self.state, byte) {
            (ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.size_digit(byte)?,
            (ChunkState::Size, _) if self.digits == 0 => {
                return Err(Refusal::bad("chunk without a size"));
            }
            (ChunkState::Size | ChunkState::White | ChunkState::Extension, b'\n') => {
                return Err(Refusal::bad("chunk line ended by a bare LF"));
            }
            (ChunkState::Size | ChunkState::Extension, b'\r') => ChunkState::SizeEnd,
            (ChunkState::Size | ChunkState::White, b';') => ChunkState::Extension,
            (ChunkState::Size | ChunkState::White, b' ' | b'\t') => ChunkState::White,
            (ChunkState::Size, _) => {
                return Err(Refusal::bad("chunk size that is not hexadecimal"));
            }
            (ChunkState::White, _) => {
                return Err(Refusal::bad("white space behind the chunk size"));
            }
            (ChunkState::Extension, _) if scan::is_field_value(&[byte]) => ChunkState::Extension,
            (ChunkState::Extension, _) => {
                return Err(Refusal::bad("control byte in a chunk extension"));
            }
            (ChunkState::SizeEnd, b'\n') => self.size_known()?,
            (ChunkState::SizeEnd, _) => return Err(Refusal::bad("bare CR in a chunk line")),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => {
                self.digits = 0;
                ChunkState::Size
            }
            (ChunkState::DataCr | ChunkState::DataLf, _) => {
                return Err(Refusal::bad("chunk longer than its size"));
            }
            (state @ (ChunkState::Data | ChunkState::Trailer | ChunkState::Done), _) => state,
        };
        if matches!(self.state, ChunkState::White | ChunkState::Extension) {
            self.overhead += 1;
            if self.overhead > EXTENSIONS {
                return Err(Refusal::bad("chunk extensions out of proportion"));
            }
        }
        Ok(1)
    }

    #[inline]
    fn size_digit(&mut self, byte: u8) -> Result<ChunkState, Refusal> {
        // Sixteen digits fill 64 bits; leading zeros count, or they would be a way to send for
        // ever.
        if self.digits == 16 {
            return Err(Refusal::bad("chunk size of more than 16 digits"));
        }
        // The chunk before has left nothing in `left`.
        self.digits += 1;
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        self.left = self.left << 4 | u64::from(digit);
        Ok(ChunkState::Size)
    }

    fn size_known(&mut self) -> Result<ChunkState, Refusal> {
        let total = self.total.checked_add(self.left);
        match total {
            Some(total) if !self.limits.body_exceeded_by(total) => self.total = total,
            _ => {
                return Err(Refusal {
                    status: Status::CONTENT_TOO_LARGE,
                    why: "chunked content over the body limit, `body`",
                });
            }
        }
        // Content adds to the allowance of extensions, so that a long upload may sign each of its
        // chunks.
        self.overhead =
            self.overhead.saturating_sub(usize::try_from(self.left).unwrap_or(usize::MAX));
        Ok(if self.left == 0 {
            ChunkState::Trailer
        } else {
            ChunkState::Data
        })
    }

    /// RFC 9112 §7.1.2: field lines up to an empty one. They are checked, and kept where somebody
    /// wants them. They never become fields of the head, whose meaning they could change.
    fn trailer_line(&mut self, rest: &[u8]) -> Result<usize, Refusal> {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let total = self.limits.fields_total.saturating_add(2);
        if self.trailer + end > total
            || self.line.len() + end > self.limits.field_line.saturating_add(2)
        {
            return Err(Refusal::fields_too_large(
                "trailer section over the limits of field lines",
            ));
        }
        self.trailer += end;
        let piece = &rest[..end];
        if self.line.is_empty() && piece.ends_with(b"\n") {
            self.whole_trailer_line(piece)?; // The usual case, without a copy.
            return Ok(end);
        }
        self.line.extend_from_slice(piece);
        if piece.ends_with(b"\n") {
            let mut line = std::mem::take(&mut self.line);
            self.whole_trailer_line(&line)?;
            line.clear();
            self.line = line;
        }
        Ok(end)
    }

    fn whole_trailer_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        if line == b"\r\n" {
            self.state = ChunkState::Done;
            return Ok(());
        }
        self.trailer_lines += 1;
        if self.trailer_lines > self.limits.field_count {
            return Err(Refusal::fields_too_large(
                "more trailer lines than the limit of field lines",
            ));
        }
        match field_line(line, self.trailer_lines == 1, LineEnd::Crlf)? {
            Some(parts) if parts.length == line.len() => {
                if let Some(kept) = &mut self.trailers {
                    kept.push(&line[..parts.name_end], &line[parts.value_start..parts.value_end]);
                }
                Ok(())
            }
            _ => Err(Refusal::bad("trailer line not ended by CRLF")),
        }
    }
}

/// Bytes that chunk extensions may be ahead of the content: 400 beyond.
const EXTENSIONS: usize = 4096;
