//! The meter of a client's frames (RFC 9113 §4.1, §10.5).
//!
//! A frame without content costs its sender nine bytes, and the server a table entry, an answer or
//! a search. The meter reads the headers of the frames as they pass and counts the kinds that a
//! client needs seldom. It decides nothing about their meaning, but for PRIORITY_UPDATE (RFC 9218
//! §7.1), which the library does not know.

use std::time::Duration;

use crate::priority::{MOST_UPDATE, Priority, PriorityUpdate};

/// The bytes that begin a client's side of a connection (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The time in which the numbers of [`FrameLimits`] hold.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The most frames of each kind that a client may send within [`PERIOD`]; of CONTINUATION, within
/// one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// RST_STREAM: requests that the client gives up.
    pub resets: u32,
    /// PING, without the answers to ours.
    pub pings: u32,
    /// SETTINGS, without the answers to ours.
    pub settings: u32,
    /// DATA, HEADERS and CONTINUATION without a byte that end nothing.
    pub empty_frames: u32,
    /// PRIORITY, PRIORITY_UPDATE, and frames of unknown kinds.
    pub other_frames: u32,
    /// WINDOW_UPDATE, beside one for each `PER_WINDOW_UPDATE` bytes that the client was sent.
    pub window_updates: u32,
    /// CONTINUATION frames of one head.
    pub continuations: u32,
}

/// A limit that a client has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// More than [`FrameLimits::resets`].
    Resets,
    /// More than [`FrameLimits::pings`].
    Pings,
    /// More than [`FrameLimits::settings`].
    Settings,
    /// More than [`FrameLimits::empty_frames`].
    EmptyFrames,
    /// More than [`FrameLimits::other_frames`].
    OtherFrames,
    /// More than [`FrameLimits::window_updates`].
    WindowUpdates,
    /// More than [`FrameLimits::continuations`].
    Continuations,
}

impl ExceededLimit {
    /// The key of the configuration that names the limit.
    pub fn key(self) -> &'static str {
        match self {
            ExceededLimit::Resets => "resets",
            ExceededLimit::Pings => "pings",
            ExceededLimit::Settings => "settings",
            ExceededLimit::EmptyFrames => "empty_frames",
            ExceededLimit::OtherFrames => "other_frames",
            ExceededLimit::WindowUpdates => "window_updates",
            ExceededLimit::Continuations => "continuations",
        }
    }
}

/// Counts the frames of one connection.
#[derive(Debug)]
pub struct FrameMeter {
    limits: FrameLimits,
    /// Bytes of the preface that have not passed yet.
    preface: usize,
    header: [u8; HEADER],
    /// Bytes of `header` that are there.
    filled: usize,
    /// Bytes of the present frame's payload that have not passed yet.
    payload: usize,
    /// The beginning of the present period.
    since: Duration,
    /// Bytes that the client had been sent at that time.
    sent: u64,
    resets: u32,
    pings: u32,
    settings: u32,
    empty_frames: u32,
    other_frames: u32,
    window_updates: u32,
    /// CONTINUATION frames since the last frame of another kind.
    continuations: u32,
    /// The payload of a PRIORITY_UPDATE so far; `None` within other frames.
    update: Option<Vec<u8>>,
    updates: Vec<PriorityUpdate>,
    has_mistake: bool,
}

impl FrameMeter {
    /// Returns the meter of a connection whose first byte, that of the preface, is yet to come.
    pub fn new(limits: FrameLimits) -> FrameMeter {
        FrameMeter {
            limits,
            preface: PREFACE.len(),
            header: [0; HEADER],
            filled: 0,
            payload: 0,
            since: Duration::ZERO,
            sent: 0,
            resets: 0,
            pings: 0,
            settings: 0,
            empty_frames: 0,
            other_frames: 0,
            window_updates: 0,
            continuations: 0,
            update: None,
            updates: Vec::new(),
            has_mistake: false,
        }
    }

    /// Returns the priorities that have come since the last call.
    pub fn take_updates(&mut self) -> Vec<PriorityUpdate> {
        std::mem::take(&mut self.updates)
    }

    /// Returns whether the client has sent a PRIORITY_UPDATE for which the connection must end with
    /// PROTOCOL_ERROR.
    pub fn has_mistake(&self) -> bool {
        self.has_mistake
    }

    /// Counts the frames in the next `bytes` of the client, which came at `now` (counted from any
    /// fixed time) when the client had been sent `sent` bytes.
    ///
    /// # Errors
    /// The limit that was exceeded. The connection should end.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        now: Duration,
        sent: u64,
    ) -> Result<(), ExceededLimit> {
        if now >= self.since + PERIOD {
            self.begin_period(now, sent);
        }
        let skipped = self.preface.min(bytes.len());
        self.preface -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            if self.payload > 0 {
                let passed = self.payload.min(bytes.len());
                self.payload -= passed;
                if let Some(update) = &mut self.update {
                    update.extend_from_slice(&bytes[..passed]);
                    if self.payload == 0 {
                        self.end_update();
                    }
                }
                bytes = &bytes[passed..];
                continue;
            }
            let count = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
            if self.filled == HEADER {
                self.filled = 0;
                self.count(sent)?;
            }
        }
        Ok(())
    }

    fn begin_period(&mut self, now: Duration, sent: u64) {
        self.since = now;
        self.sent = sent;
        for count in [
            &mut self.resets,
            &mut self.pings,
            &mut self.settings,
            &mut self.empty_frames,
            &mut self.other_frames,
            &mut self.window_updates,
        ] {
            *count = 0;
        }
    }

    /// Begins a PRIORITY_UPDATE.
    fn begin_update(&mut self) {
        let [.., a, b, c, d] = self.header;
        // It belongs to the connection, and names a stream.
        self.has_mistake |= [a & 0x7f, b, c, d] != [0; 4] || self.payload < STREAM;
        let is_read = (STREAM..=MOST_UPDATE).contains(&self.payload);
        self.update = is_read.then(|| Vec::with_capacity(self.payload));
    }

    fn end_update(&mut self) {
        let payload = self.update.take();
        let Some((stream, field)) = payload.as_deref().and_then(<[u8]>::split_first_chunk) else {
            return;
        };
        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        // Others are no requests of a client.
        match stream % 2 == 1 {
            true => self.updates.push(PriorityUpdate {
                stream: stream.into(),
                priority: Priority::of_request(Some(field)),
            }),
            false => self.has_mistake = true,
        }
    }

    /// Counts the frame in `header`.
    fn count(&mut self, sent: u64) -> Result<(), ExceededLimit> {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
        let is_empty = self.payload == 0 && flags & END == 0;
        if kind != CONTINUATION {
            self.continuations = 0;
        }
        let limits = &self.limits;
        match kind {
            DATA | HEADERS if is_empty => {
                note(&mut self.empty_frames, limits.empty_frames, ExceededLimit::EmptyFrames)
            }
            DATA | HEADERS | PUSH_PROMISE | GOAWAY => Ok(()),
            RST_STREAM => note(&mut self.resets, limits.resets, ExceededLimit::Resets),
            SETTINGS | PING if flags & ACK != 0 => Ok(()),
            SETTINGS => note(&mut self.settings, limits.settings, ExceededLimit::Settings),
            PING => note(&mut self.pings, limits.pings, ExceededLimit::Pings),
            WINDOW_UPDATE => {
                let earned = sent.saturating_sub(self.sent) / PER_WINDOW_UPDATE;
                let earned = u32::try_from(earned).unwrap_or(u32::MAX);
                let most = limits.window_updates.saturating_add(earned);
                note(&mut self.window_updates, most, ExceededLimit::WindowUpdates)
            }
            CONTINUATION => {
                if is_empty {
                    note(&mut self.empty_frames, limits.empty_frames, ExceededLimit::EmptyFrames)?;
                }
                note(&mut self.continuations, limits.continuations, ExceededLimit::Continuations)
            }
            PRIORITY_UPDATE => {
                note(&mut self.other_frames, limits.other_frames, ExceededLimit::OtherFrames)?;
                self.begin_update();
                Ok(())
            }
            _ => note(&mut self.other_frames, limits.other_frames, ExceededLimit::OtherFrames),
        }
    }
}

fn note(count: &mut u32, most: u32, excess: ExceededLimit) -> Result<(), ExceededLimit> {
    *count = count.saturating_add(1);
    match *count > most {
        true => Err(excess),
        false => Ok(()),
    }
}

/// Bytes sent that a client may follow with a WINDOW_UPDATE. Usual clients send one for the stream
/// and one for the connection after half of a window, which has 65,535 bytes or more.
pub const PER_WINDOW_UPDATE: u64 = 1024;

/// Bytes of a frame's header.
pub(super) const HEADER: usize = 9;

// Kinds of frames (RFC 9113 §6).
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 0x10;

/// Bytes of the number of a stream.
const STREAM: usize = 4;

/// Nothing follows on the stream.
pub(super) const END_STREAM: u8 = 1;
/// END_STREAM or END_HEADERS: a frame without a byte may be needed for it.
const END: u8 = END_STREAM | 4;
const ACK: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FrameLimits = FrameLimits {
        resets: 3,
        pings: 3,
        settings: 3,
        empty_frames: 3,
        other_frames: 3,
        window_updates: 3,
        continuations: 3,
    };

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER + length, 7);
        frame
    }

    fn read(frames: &[Vec<u8>], step: usize) -> Result<(), ExceededLimit> {
        let mut meter = FrameMeter::new(LIMITS);
        let bytes = [PREFACE.to_vec(), frames.concat()].concat();
        bytes.chunks(step).try_for_each(|part| meter.read(part, Duration::ZERO, 0))
    }

    #[test]
    fn a_limit_is_told_by_the_key_that_changes_it() {
        let keys = [ExceededLimit::Resets, ExceededLimit::EmptyFrames].map(ExceededLimit::key);
        assert_eq!(keys, ["resets", "empty_frames"]);
    }

    #[test]
    fn each_kind_has_its_own_limit_however_the_bytes_come() {
        let rows = [
            (frame(RST_STREAM, 0, 4), Some(ExceededLimit::Resets)),
            (frame(PING, 0, 8), Some(ExceededLimit::Pings)),
            (frame(PING, ACK, 8), None),
            (frame(SETTINGS, 0, 0), Some(ExceededLimit::Settings)),
            (frame(SETTINGS, 0, 6), Some(ExceededLimit::Settings)),
            (frame(SETTINGS, ACK, 0), None),
            (frame(DATA, 0, 0), Some(ExceededLimit::EmptyFrames)),
            (frame(DATA, 1, 0), None),
            (frame(DATA, 0, 1), None),
            (frame(HEADERS, 0, 0), Some(ExceededLimit::EmptyFrames)),
            (frame(HEADERS, 5, 300), None),
            (frame(CONTINUATION, 0, 9), Some(ExceededLimit::Continuations)),
            (frame(CONTINUATION, 0, 0), Some(ExceededLimit::EmptyFrames)),
            (frame(WINDOW_UPDATE, 0, 4), Some(ExceededLimit::WindowUpdates)),
            (frame(2, 0, 5), Some(ExceededLimit::OtherFrames)),
            (frame(0x10, 0, 6), Some(ExceededLimit::OtherFrames)),
            (frame(0xbe, 0, 0), Some(ExceededLimit::OtherFrames)),
        ];
        for (frame, excess) in rows {
            for step in [1, 5, usize::MAX] {
                assert_eq!(read(&vec![frame.clone(); 3], step), Ok(()), "{frame:?}");
                let result = read(&vec![frame.clone(); 4], step).err();
                assert_eq!(result, excess, "{frame:?} in steps of {step}");
            }
        }
    }

    /// Reads the priorities that PRIORITY_UPDATE frames tell, and whether there is a mistake.
    fn updates(frames: &[Vec<u8>], step: usize) -> (Vec<PriorityUpdate>, bool) {
        let mut meter = FrameMeter::new(FrameLimits { other_frames: 100, ..LIMITS });
        let bytes = [PREFACE.to_vec(), frames.concat()].concat();
        for (number, part) in bytes.chunks(step).enumerate() {
            // A period may begin anywhere.
            let now = PERIOD * u32::try_from(number).unwrap();
            meter.read(part, now, 0).unwrap();
        }
        (meter.take_updates(), meter.has_mistake())
    }

    fn update(of: u32, stream: u32, field: &[u8]) -> Vec<u8> {
        let payload = [&stream.to_be_bytes(), field].concat();
        let [high, low] = (payload.len() as u16).to_be_bytes();
        let head = [0, high, low, PRIORITY_UPDATE, 0xff];
        [&head[..], &of.to_be_bytes(), &payload].concat()
    }

    #[test]
    fn updates_of_priorities_are_read_however_they_come() {
        let mut frames = [
            frame(DATA, 0, 3),
            update(0, 3, b"u=0, i"),
            update(1 << 31, 1 << 31 | 5, b""),
            frame(PING, 0, 8),
            frame(PRIORITY_UPDATE, 0, MOST_UPDATE + 1),
            update(0, 7, &[b' '; MOST_UPDATE - STREAM]),
            update(0, 3, b"u=6"),
        ];
        // The long one is of the connection, too.
        frames[4][8] = 0;
        let told = |stream, urgency, is_incremental| PriorityUpdate {
            stream,
            priority: Priority { urgency, is_incremental },
        };
        let expected =
            vec![told(3, 0, true), told(5, 3, false), told(7, 3, false), told(3, 6, false)];
        for step in [1, 7, usize::MAX] {
            assert_eq!(updates(&frames, step), (expected.clone(), false), "in steps of {step}");
        }
    }

    #[test]
    fn mistakes_in_updates_of_priorities_end_the_connection() {
        let short = [0, 0, 3, PRIORITY_UPDATE, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
        let empty = [0, 0, 0, PRIORITY_UPDATE, 0, 0, 0, 0, 0].to_vec();
        for frame in [update(1, 1, b"u=1"), update(0, 0, b"u=1"), update(0, 2, b""), short, empty] {
            for step in [1, usize::MAX] {
                assert!(updates(std::slice::from_ref(&frame), step).1, "{frame:?}");
            }
        }
    }

    #[test]
    fn a_period_begins_anew() {
        let mut meter = FrameMeter::new(LIMITS);
        meter.read(PREFACE, Duration::ZERO, 0).unwrap();
        for period in 0..5 {
            for _ in 0..3 {
                meter.read(&frame(PING, 0, 8), PERIOD * period, 0).unwrap();
            }
        }
        assert_eq!(meter.read(&frame(PING, 0, 8), PERIOD * 4, 0), Err(ExceededLimit::Pings));
    }

    #[test]
    fn a_period_may_begin_in_the_midst_of_a_frame() {
        let bytes = [PREFACE.to_vec(), frame(RST_STREAM, 0, 4).repeat(6)].concat();
        for split in 0..bytes.len() {
            let mut meter = FrameMeter::new(LIMITS);
            let first = meter.read(&bytes[..split], Duration::ZERO, 0);
            // A frame counts with the last byte of its header.
            let before = (split + 4).saturating_sub(PREFACE.len()) / 13;
            assert_eq!(first.is_err(), before > 3, "{split}");
            if first.is_ok() {
                let second = meter.read(&bytes[split..], PERIOD, 0);
                assert_eq!(second.is_err(), 6 - before > 3, "{split}");
            }
        }
    }

    #[test]
    fn continuations_are_counted_for_each_head_whatever_the_time() {
        let mut meter = FrameMeter::new(LIMITS);
        meter.read(PREFACE, Duration::ZERO, 0).unwrap();
        let part = frame(CONTINUATION, 0, 9);
        for _ in 0..9 {
            meter.read(&frame(HEADERS, 0, 9), Duration::ZERO, 0).unwrap();
            meter.read(&part.repeat(3), Duration::ZERO, 0).unwrap();
        }
        assert_eq!(meter.read(&part, PERIOD * 9, 0), Err(ExceededLimit::Continuations));
    }

    #[test]
    fn what_the_client_was_sent_earns_window_updates() {
        let mut meter = FrameMeter::new(LIMITS);
        meter.read(PREFACE, Duration::ZERO, 0).unwrap();
        let update = frame(WINDOW_UPDATE, 0, 4);
        meter.read(&update.repeat(13), Duration::ZERO, 10 * PER_WINDOW_UPDATE).unwrap();
        let next = meter.read(&update, Duration::ZERO, 10 * PER_WINDOW_UPDATE);
        assert_eq!(next, Err(ExceededLimit::WindowUpdates));
        // Content that was sent before the period earns nothing.
        let mut meter = FrameMeter::new(LIMITS);
        meter.read(PREFACE, PERIOD, 10 * PER_WINDOW_UPDATE).unwrap();
        meter.read(&update.repeat(3), PERIOD, 10 * PER_WINDOW_UPDATE).unwrap();
        let next = meter.read(&update, PERIOD, 10 * PER_WINDOW_UPDATE);
        assert_eq!(next, Err(ExceededLimit::WindowUpdates));
    }
}
