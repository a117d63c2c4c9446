//! Updates of priorities on a client's control stream (RFC 9218 §7.2).

use super::frames::{FrameHeader, PRIORITY_UPDATE, PRIORITY_UPDATE_OF_PUSH, integer};
use crate::priority::{MOST_UPDATE, Priority, PriorityUpdate};

/// Reads a stream beside requests as it passes, for the PRIORITY_UPDATE frames in it.
#[derive(Debug, Default)]
pub struct ControlFrames {
    role: StreamRole,
    header: FrameHeader,
    /// The payload of a PRIORITY_UPDATE so far; `None` within other frames.
    update: Option<Vec<u8>>,
    /// Bytes of the present frame's payload that have not passed.
    left: u64,
}

/// A violation of the protocol, for which the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMistake {
    /// The frame names no request of the client (H3_ID_ERROR).
    Id,
    /// The frame is too short (H3_FRAME_ERROR).
    Frame,
}

#[derive(Debug, Default)]
enum StreamRole {
    /// The type of the stream, whose bytes so far these are.
    #[default]
    Unread,
    PartlyRead(Vec<u8>),
    Control,
    /// A stream without such frames.
    Other,
}

impl ControlFrames {
    /// Reads the next `bytes` of the stream. Hands each update to `take`; its `stream` is the
    /// number of the request among the client's requests.
    ///
    /// # Errors
    /// The client has violated the protocol.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(PriorityUpdate),
    ) -> Result<(), UpdateMistake> {
        while !bytes.is_empty() {
            match &mut self.role {
                StreamRole::Other => return Ok(()),
                StreamRole::Unread => self.role = StreamRole::PartlyRead(Vec::new()),
                StreamRole::PartlyRead(kind) => {
                    kind.push(bytes[0]);
                    bytes = &bytes[1..];
                    match integer(kind) {
                        Some((CONTROL, _)) => self.role = StreamRole::Control,
                        Some(_) => self.role = StreamRole::Other,
                        None => {}
                    }
                }
                StreamRole::Control if self.left == 0 => {
                    let used = self.header.fill(bytes);
                    bytes = &bytes[used..];
                    if let Some((kind, length)) = self.header.take() {
                        self.begin(kind, length)?;
                    }
                }
                StreamRole::Control => {
                    let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                    let (passed, rest) = bytes.split_at(left.min(bytes.len()));
                    self.left -= passed.len() as u64;
                    bytes = rest;
                    if let Some(update) = &mut self.update {
                        update.extend_from_slice(passed);
                        if self.left == 0 {
                            take(self.end()?);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, kind: u64, length: u64) -> Result<(), UpdateMistake> {
        self.left = length;
        self.update = None;
        match kind {
            // The server pushes nothing that could have a priority.
            PRIORITY_UPDATE_OF_PUSH => return Err(UpdateMistake::Id),
            PRIORITY_UPDATE if length == 0 => return Err(UpdateMistake::Frame),
            PRIORITY_UPDATE if length <= MOST_UPDATE as u64 => self.update = Some(Vec::new()),
            _ => {}
        }
        Ok(())
    }

    /// Ends a PRIORITY_UPDATE.
    fn end(&mut self) -> Result<PriorityUpdate, UpdateMistake> {
        let payload = self.update.take().unwrap_or_default();
        let (id, field) = integer(&payload).ok_or(UpdateMistake::Frame)?;
        // Streams for requests have every fourth number (RFC 9000 §2.1).
        match id % 4 == 0 {
            true => Ok(PriorityUpdate {
                stream: id / 4,
                priority: Priority::of_request(Some(field)),
            }),
            false => Err(UpdateMistake::Id),
        }
    }
}

/// The type of a control stream (RFC 9114 §6.2.1).
const CONTROL: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream in steps of that size. Returns the request and the urgency of each update.
    fn read(bytes: &[u8], step: usize) -> Result<Vec<(u64, u8)>, UpdateMistake> {
        let mut frames = ControlFrames::default();
        let mut told = Vec::new();
        let mut take = |update: PriorityUpdate| told.push((update.stream, update.priority.urgency));
        bytes.chunks(step).try_for_each(|part| frames.read(part, &mut take))?;
        Ok(told)
    }

    fn update(payload: &[u8]) -> Vec<u8> {
        let [high, low] = (payload.len() as u16).to_be_bytes();
        [&[0x80, 0x0f, 0x07, 0x00, 0x40 | high, low][..], payload].concat()
    }

    #[test]
    fn updates_are_found_among_other_frames_however_they_come() {
        let long = update(&[&[0][..], &[b' '; MOST_UPDATE]].concat());
        let longest = update(&[&b"\x10u=2"[..], &[b' '; MOST_UPDATE - 4]].concat());
        let sent = [
            &[0, 4, 2, 0x33, 0][..],
            &update(b"\x08u=1"),
            &[0x21, 0],
            &long,
            &longest,
            &update(b"\x40\x0cu=7, i"),
            &update(b"\x00"),
        ];
        for step in [1, 3, usize::MAX] {
            assert_eq!(
                read(&sent.concat(), step),
                Ok(vec![(2, 1), (4, 2), (3, 7), (0, 3)]),
                "{step}"
            );
        }
    }

    #[test]
    fn other_streams_have_none() {
        for kind in [&[2][..], &[3], &[0x40, 0x21], &[1]] {
            let sent = [kind, &update(b"\x08u=1"), &update(b"\x01")].concat();
            assert_eq!(read(&sent, 1), Ok(Vec::new()), "{kind:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let rows = [
            (update(b"\x01u=1"), UpdateMistake::Id),
            (update(b""), UpdateMistake::Frame),
            (update(b"\x80\0"), UpdateMistake::Frame),
            (vec![0x80, 0x0f, 0x07, 0x01, 1, 0], UpdateMistake::Id),
        ];
        for (frame, mistake) in rows {
            for step in [1, usize::MAX] {
                let sent = [&[0, 4, 0][..], &frame].concat();
                assert_eq!(read(&sent, step), Err(mistake), "{frame:?}");
            }
        }
    }
}
