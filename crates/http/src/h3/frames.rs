//! The frames of a request's stream (RFC 9114 §4.1, §7).

/// Takes the frames of the client's side of a stream apart.
#[derive(Debug, Default)]
pub struct RequestFrames {
    header: FrameHeader,
    /// The kind of the present frame.
    kind: FrameKind,
    /// Bytes of its payload that have not passed.
    left: u64,
    /// The payload of a HEADERS frame so far; of trailers, the first [`MOST_OF_TRAILERS`] bytes.
    section: Vec<u8>,
    stage: RequestStage,
}

/// The bytes of trailers that are kept. Nobody reads trailers, so that these are enough.
const MOST_OF_TRAILERS: usize = 4096;

/// A part of the request.
#[derive(Debug, PartialEq, Eq)]
pub enum FramePart {
    /// The field section of the head.
    Head(Vec<u8>),
    /// The next bytes of the stream are content: that many of those that were given.
    Content(usize),
    /// The begin of the field section behind the content: at most 4 KiB.
    Trailers(Vec<u8>),
}

/// A violation of the protocol, for which the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMistake {
    /// A frame that may not be there (H3_FRAME_UNEXPECTED).
    UnexpectedFrame,
    /// The stream has ended within a frame (H3_FRAME_ERROR).
    CutFrame,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RequestStage {
    #[default]
    Head,
    Content,
    AfterTrailers,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FrameKind {
    Data,
    Headers,
    /// A frame that means nothing (RFC 9114 §9).
    #[default]
    Unknown,
}

/// Type and length of a frame, two integers of variable length (RFC 9000 §16).
#[derive(Debug, Default)]
pub(super) struct FrameHeader {
    bytes: [u8; 16],
    filled: usize,
}

impl RequestFrames {
    /// Reads `bytes`, the next ones of the stream. Returns how many were used, and the part of the
    /// request that was found; `None`: all were used. The bytes of [`FramePart::Content`] follow
    /// the used ones. The caller bounds the bytes that are read without a part.
    ///
    /// # Errors
    /// The client has violated the protocol.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<FramePart>), StreamMistake> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            if self.left == 0 {
                used += self.header.fill(rest);
                let Some((kind, length)) = self.header.take() else {
                    continue;
                };
                self.begin(kind, length)?;
                if length > 0 || self.kind != FrameKind::Headers {
                    continue;
                }
                return Ok((used, Some(self.end_section())));
            }
            let passed = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
            self.left -= passed as u64;
            match self.kind {
                FrameKind::Data => return Ok((used, Some(FramePart::Content(passed)))),
                FrameKind::Headers => self.section.extend_from_slice(&rest[..self.kept(passed)]),
                FrameKind::Unknown => {}
            }
            used += passed;
            if self.left == 0 && self.kind == FrameKind::Headers {
                return Ok((used, Some(self.end_section())));
            }
        }
        Ok((used, None))
    }

    /// The bytes of memory that a HEADERS frame takes whose end has not come.
    pub fn held(&self) -> usize {
        self.section.capacity()
    }

    /// Checks the end of the stream.
    ///
    /// # Errors
    /// The last frame is not complete.
    pub fn end(&self) -> Result<(), StreamMistake> {
        match self.left > 0 || self.header.filled > 0 {
            true => Err(StreamMistake::CutFrame),
            false => Ok(()),
        }
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<(), StreamMistake> {
        self.kind = match (kind, self.stage) {
            (DATA, RequestStage::Content) => FrameKind::Data,
            (HEADERS, RequestStage::Head | RequestStage::Content) => FrameKind::Headers,
            (0..=LAST_KNOWN | MAX_PUSH_ID | PRIORITY_UPDATE | PRIORITY_UPDATE_OF_PUSH, _) => {
                return Err(StreamMistake::UnexpectedFrame);
            }
            _ => FrameKind::Unknown,
        };
        self.left = length;
        Ok(())
    }

    /// Returns how many of the next `passed` bytes of a HEADERS frame are kept.
    fn kept(&self, passed: usize) -> usize {
        match self.stage {
            RequestStage::Head => passed,
            RequestStage::Content | RequestStage::AfterTrailers => {
                passed.min(MOST_OF_TRAILERS - self.section.len())
            }
        }
    }

    /// Ends a HEADERS frame.
    fn end_section(&mut self) -> FramePart {
        let section = std::mem::take(&mut self.section);
        match self.stage {
            RequestStage::Head => {
                self.stage = RequestStage::Content;
                FramePart::Head(section)
            }
            RequestStage::Content | RequestStage::AfterTrailers => {
                self.stage = RequestStage::AfterTrailers;
                FramePart::Trailers(section)
            }
        }
    }
}

impl FrameHeader {
    /// Takes bytes until type and length are complete. Returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        for (number, byte) in bytes.iter().enumerate() {
            if self.read().is_some() {
                return number;
            }
            self.bytes[self.filled] = *byte;
            self.filled += 1;
        }
        bytes.len()
    }

    /// Returns type and length if they are complete, and begins the next header. `None`: more bytes
    /// are needed.
    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        let read = self.read()?;
        self.filled = 0;
        Some(read)
    }

    fn read(&self) -> Option<(u64, u64)> {
        let (kind, rest) = integer(&self.bytes[..self.filled])?;
        let (length, _) = integer(rest)?;
        Some((kind, length))
    }
}

/// Reads an integer of variable length (RFC 9000 §16). Returns it with the bytes behind it. `None`:
/// more bytes are needed.
pub(super) fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, _) = bytes.split_first()?;
    let (own, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = own[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    Some((value, rest))
}

// Types of frames (RFC 9114 §7.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;
/// Types up to here are known, or reserved because HTTP/2 has them (§7.2.8).
const LAST_KNOWN: u64 = 9;
const MAX_PUSH_ID: u64 = 0x0d;
/// RFC 9218 §7.2: these belong to the control stream.
pub(super) const PRIORITY_UPDATE: u64 = 0xf0700;
pub(super) const PRIORITY_UPDATE_OF_PUSH: u64 = 0xf0701;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind, 0x40, payload.len() as u8], payload].concat()
    }

    /// Reads the bytes in steps of that size. Returns heads and trailers as they are, and content
    /// that belongs together as one part.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>, StreamMistake> {
        let mut frames = RequestFrames::default();
        let (mut parts, mut content) = (Vec::new(), Vec::new());
        for mut bytes in bytes.chunks(step) {
            while !bytes.is_empty() {
                let (used, part) = frames.read(bytes)?;
                bytes = &bytes[used..];
                match part {
                    Some(FramePart::Content(length)) => {
                        content.extend_from_slice(&bytes[..length]);
                        bytes = &bytes[length..];
                    }
                    Some(FramePart::Head(section)) => parts.push(section),
                    Some(FramePart::Trailers(section)) => {
                        parts.push(std::mem::take(&mut content));
                        parts.push(section);
                    }
                    None => assert!(bytes.is_empty()),
                }
            }
        }
        frames.end()?;
        parts.push(content);
        Ok(parts)
    }

    #[test]
    fn a_request_is_taken_apart_however_it_comes() {
        let sent = [
            frame(0x21, b"grease"),
            frame(1, b"head"),
            frame(0, b"a"),
            frame(0, b""),
            frame(0x2f, b"more"),
            frame(0, b"bc"),
            vec![0x40, 0, 0x80, 0, 0, 1, b'd'],
            frame(1, b"trailers"),
            frame(0x41, b""),
        ];
        let bytes = sent.concat();
        for step in 1..=bytes.len() {
            let parts = read(&bytes, step).unwrap();
            assert_eq!(parts, [&b"head"[..], b"abcd", b"trailers", b""], "{step}");
        }
        assert_eq!(read(&frame(1, b""), 1).unwrap(), [b"", b""]);
    }

    #[test]
    fn long_trailers_are_not_kept() {
        let (kept, long) = (vec![7; MOST_OF_TRAILERS], vec![7; 100 * MOST_OF_TRAILERS]);
        let length = (long.len() as u32 | 0b10 << 30).to_be_bytes();
        for step in [1, 1000, MOST_OF_TRAILERS + 1, long.len()] {
            let mut frames = RequestFrames::default();
            let head = frames.read(&frame(1, b"head")).unwrap();
            assert_eq!(head.1, Some(FramePart::Head(b"head".to_vec())));
            assert_eq!(frames.read(&[&[1], &length[..]].concat()).unwrap(), (5, None));
            let mut parts = long.chunks(step).map(|part| {
                let (_, part) = frames.read(part).unwrap();
                assert!(frames.held() <= 2 * MOST_OF_TRAILERS, "{step}: {}", frames.held());
                part
            });
            assert_eq!(parts.find_map(|part| part), Some(FramePart::Trailers(kept.clone())));
        }
    }

    #[test]
    fn what_is_kept_of_a_head_is_told() {
        let mut frames = RequestFrames::default();
        let begin = [&[1, 0x80, 0, 0xff, 0xff][..], &[0; 5000]].concat();
        assert_eq!((frames.held(), frames.read(&begin).unwrap()), (0, (begin.len(), None)));
        assert!((5000..0xffff).contains(&frames.held()), "{}", frames.held());
        frames.read(&[0; 0xffff - 5000]).unwrap();
        assert_eq!(frames.held(), 0, "the caller has it");
    }

    #[test]
    fn frames_that_may_not_be_there_are_noticed() {
        let head = frame(1, b"head");
        for kind in [0, 2, 3, 4, 5, 6, 7, 8, 9, 0x0d] {
            let first = read(&frame(kind, b"x"), 1);
            assert_eq!(first, Err(StreamMistake::UnexpectedFrame), "{kind}");
            let after = [head.clone(), head.clone(), frame(kind, b"x")].concat();
            assert_eq!(read(&after, 3), Err(StreamMistake::UnexpectedFrame), "{kind}");
        }
        let third = [head.clone(), head.clone(), head.clone()].concat();
        assert_eq!(read(&third, 99), Err(StreamMistake::UnexpectedFrame));
        let priority = [&head[..], &[0x80, 0x0f, 0x07, 0, 0]].concat();
        assert_eq!(read(&priority, 1), Err(StreamMistake::UnexpectedFrame));
    }

    #[test]
    fn an_end_within_a_frame_is_noticed() {
        let sent = [frame(1, b"head"), frame(0, b"content")].concat();
        let whole = [frame(1, b"head").len(), sent.len()];
        for length in 1..=sent.len() {
            let is_whole = whole.contains(&length);
            assert_eq!(read(&sent[..length], 2).is_ok(), is_whole, "{length}");
        }
    }
}
