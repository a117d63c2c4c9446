//! The requests that a library refuses by itself, as the frames that a server sends show it.
//!
//! A library that refuses a request tells nobody but the client: with RST_STREAM beyond the allowed
//! streams, with a response of its own where the head is too large, with GOAWAY where it ends the
//! connection. The meter reads the headers of the frames as they pass. So it also knows how many
//! streams the server has ended on the wire, which the library tells nobody either.

use std::collections::VecDeque;

use super::frames::{DATA, END_STREAM, GOAWAY, HEADER, HEADERS, RST_STREAM};

/// Counts the requests that are refused on one connection.
#[derive(Debug)]
pub struct RefusalMeter {
    /// The header of the present frame, with the begin of its payload if that matters.
    begin: [u8; LONGEST],
    /// Bytes of `begin` that are there.
    filled: usize,
    /// Bytes of the present frame that are skipped.
    skipped: usize,
    /// The newest stream whose request was taken.
    newest: u32,
    /// Older streams whose requests were not taken, the oldest first.
    passed: VecDeque<u32>,
    refusals: Refusals,
    /// Frames that have ended a stream, since they were last taken.
    ended: u64,
    /// The debug data of the last GOAWAY.
    farewell: Vec<u8>,
}

/// Numbers of requests that were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// With RST_STREAM and REFUSED_STREAM (RFC 9113 §8.7).
    pub streams: u64,
    /// With a response that is not the server's.
    pub answered: u64,
}

impl Default for RefusalMeter {
    fn default() -> RefusalMeter {
        RefusalMeter {
            begin: [0; LONGEST],
            filled: 0,
            skipped: 0,
            newest: 0,
            passed: VecDeque::new(),
            refusals: Refusals::default(),
            ended: 0,
            farewell: Vec::new(),
        }
    }
}

impl RefusalMeter {
    /// Notes that the request of `stream` was taken: the server itself answers it.
    pub fn take_request(&mut self, stream: u32) {
        // Streams of a client have odd numbers, each a higher one than before (RFC 9113 §5.1.1).
        let remembered = stream.saturating_sub(2 * MOST_PASSED as u32);
        let first = self.newest.saturating_add(1).max(remembered);
        for passed in (first..stream).filter(|stream| stream % 2 == 1) {
            if self.passed.len() == MOST_PASSED {
                self.passed.pop_front();
            }
            self.passed.push_back(passed);
        }
        self.newest = self.newest.max(stream);
    }

    /// Counts the refusals in the next `bytes` of the server.
    pub fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let passed = self.skipped.min(bytes.len());
                self.skipped -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            let count = (self.wanted() - self.filled).min(bytes.len());
            self.begin[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
            if self.filled == self.wanted() {
                self.look();
            }
        }
    }

    /// Returns the refusals since the last call.
    pub fn take(&mut self) -> Refusals {
        std::mem::take(&mut self.refusals)
    }

    /// Returns the number of frames since the last call that have ended a stream: with END_STREAM
    /// (RFC 9113 §6), or RST_STREAM.
    pub fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    /// Returns the debug data of the last GOAWAY (RFC 9113 §6.8): its first bytes.
    pub fn farewell(&self) -> &[u8] {
        &self.farewell
    }

    /// Bytes of the present frame that have to be there to look at it.
    fn wanted(&self) -> usize {
        if self.filled < HEADER {
            return HEADER;
        }
        match self.begin[KIND] {
            RST_STREAM => HEADER + self.length().min(CODE),
            GOAWAY => HEADER + self.length().min(BEFORE_DEBUG_DATA + MOST_DEBUG_DATA),
            _ => HEADER,
        }
    }

    /// Bytes of the present frame's payload.
    fn length(&self) -> usize {
        let [high, middle, low, ..] = self.begin;
        u32::from_be_bytes([0, high, middle, low]) as usize
    }

    /// Looks at the begin of a frame.
    fn look(&mut self) {
        let (header, payload) = self.begin[..self.filled].split_at(HEADER);
        self.ended += u64::from(match header[KIND] {
            DATA | HEADERS => header[FLAGS] & END_STREAM != 0,
            kind => kind == RST_STREAM,
        });
        match (header[KIND], payload) {
            (RST_STREAM, payload) if payload == REFUSED_STREAM.to_be_bytes() => {
                self.refusals.streams += 1;
            }
            (GOAWAY, payload) => {
                self.farewell = payload.get(BEFORE_DEBUG_DATA..).unwrap_or_default().to_vec();
            }
            (HEADERS, _) => {
                let [_, _, _, _, _, a, b, c, d, ..] = self.begin;
                self.look_at_head(u32::from_be_bytes([a, b, c, d]));
            }
            _ => {}
        }
        self.skipped = self.length() - (self.filled - HEADER);
        self.filled = 0;
    }

    fn look_at_head(&mut self, stream: u32) {
        let place = self.passed.iter().position(|passed| *passed == stream);
        if let Some(place) = place {
            self.passed.remove(place);
        }
        if place.is_some() || stream > self.newest {
            self.refusals.answered += 1;
        }
    }
}

/// Streams that are remembered. Refusals of older ones are not counted.
const MOST_PASSED: usize = 256;
/// The place of the kind in a header.
const KIND: usize = 3;
/// The place of the flags.
const FLAGS: usize = 4;
/// Bytes of an error code.
const CODE: usize = 4;
/// Bytes of GOAWAY before its debug data.
const BEFORE_DEBUG_DATA: usize = 8;
/// Bytes of debug data that are kept.
const MOST_DEBUG_DATA: usize = 32;
/// Bytes of the longest frame that is looked at as a whole.
const LONGEST: usize = HEADER + BEFORE_DEBUG_DATA + MOST_DEBUG_DATA;
/// The error code of a request that was not begun (RFC 9113 §7).
const REFUSED_STREAM: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let header = [0, 0, payload.len() as u8, kind, 0, 0, 0, 0, stream];
        [&header[..], payload].concat()
    }

    #[test]
    fn counts_refused_streams_alone_however_the_bytes_come() {
        let refusal = frame(RST_STREAM, 1, &[0, 0, 0, 7]);
        let frames = [
            refusal.clone(),
            frame(0, 1, &refusal),
            frame(RST_STREAM, 1, &[0, 0, 0, 8]),
            frame(4, 0, &[]),
            frame(7, 0, &[0, 0, 0, 7]),
            refusal,
        ];
        for step in [1, 5, usize::MAX] {
            let mut meter = RefusalMeter::default();
            frames.concat().chunks(step).for_each(|part| meter.read(part));
            let expected = Refusals { streams: 2, answered: 0 };
            assert_eq!((meter.take(), meter.take()), (expected, Refusals::default()), "{step}");
        }
    }

    #[test]
    fn counts_the_streams_that_have_ended_on_the_wire() {
        let with_flags = |kind: u8, flags: u8| {
            let mut frame = frame(kind, 1, b"12345");
            frame[FLAGS] = flags;
            frame
        };
        let frames = [
            with_flags(HEADERS, 4),
            with_flags(DATA, 0),
            with_flags(DATA, END_STREAM),
            with_flags(DATA, END_STREAM | 8),
            with_flags(HEADERS, 4 | END_STREAM),
            // An answer to SETTINGS, and to PING.
            with_flags(4, 1),
            with_flags(6, 1),
            frame(RST_STREAM, 1, &[0, 0, 0, 8]),
        ];
        for step in [1, 5, usize::MAX] {
            let mut meter = RefusalMeter::default();
            frames.concat().chunks(step).for_each(|part| meter.read(part));
            assert_eq!((meter.take_ended(), meter.take_ended()), (4, 0), "{step}");
        }
    }

    #[test]
    fn keeps_the_begin_of_the_last_word() {
        let word = |text: &str| frame(GOAWAY, 0, &[&[0; 8], text.as_bytes()].concat());
        let long = "x".repeat(2 * MOST_DEBUG_DATA);
        for (text, kept) in [("", ""), ("too_many", "too_many"), (&long, &long[..MOST_DEBUG_DATA])]
        {
            for step in [1, 5, usize::MAX] {
                let mut meter = RefusalMeter::default();
                let frames = [word("former"), word(text), frame(GOAWAY + 1, 0, &[0; 4])].concat();
                frames.chunks(step).for_each(|part| meter.read(part));
                assert_eq!(meter.farewell(), kept.as_bytes(), "{step}");
                meter.read(&frame(RST_STREAM, 1, &[0, 0, 0, 7]));
                assert_eq!(meter.take().streams, 1, "{text} {step}");
            }
        }
    }

    #[test]
    fn counts_responses_to_requests_that_were_not_taken() {
        let mut meter = RefusalMeter::default();
        [1, 5, 7].into_iter().for_each(|stream| meter.take_request(stream));
        // Heads, trailers and content of taken ones, then a former and a later one.
        for (kind, stream) in [(1, 1), (0, 1), (1, 1), (1, 7), (1, 5)] {
            meter.read(&frame(kind, stream, b"head"));
            assert_eq!(meter.take(), Refusals::default(), "{kind} {stream}");
        }
        for stream in [3, 9] {
            meter.read(&frame(HEADERS, stream, b"head"));
            assert_eq!(meter.take(), Refusals { streams: 0, answered: 1 }, "{stream}");
        }
        meter.read(&frame(HEADERS, 3, b"trailers"));
        assert_eq!(meter.take(), Refusals::default(), "it is counted once");
        meter.take_request(u32::from(u8::MAX));
        assert!(meter.passed.len() <= MOST_PASSED);
        meter.take_request(u32::MAX >> 1);
        assert_eq!(meter.passed.len(), MOST_PASSED);
    }
}
