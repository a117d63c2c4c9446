//! A client that sends a test's own frames.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::site::Site;
use crate::support::PATIENCE;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const PRIORITY_UPDATE: u8 = 0x10;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PROTOCOL_ERROR: u32 = 1;
/// The error code of an attack (RFC 9113 §7).
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection.
pub struct Frames {
    stream: TcpStream,
}

/// A frame of the server.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frames {
    /// Connects and sends the preface with these SETTINGS.
    pub fn connect(site: &Site, settings: &[(u16, u32)]) -> Frames {
        let stream = TcpStream::connect(site.server.address()).unwrap();
        stream.set_read_timeout(Some(2 * PATIENCE)).unwrap();
        stream.set_write_timeout(Some(2 * PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut frames = Frames { stream };
        frames.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frames.send_settings(settings);
        frames
    }

    /// Sends bytes. Returns whether the server still took them.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.write(&frame(kind, flags, stream, payload))
    }

    pub fn send_settings(&mut self, settings: &[(u16, u32)]) -> bool {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload)
    }

    /// Sends a GET of `target` on `stream`.
    pub fn send_get(&mut self, stream: u32, target: &str) -> bool {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &get(target))
    }

    /// Returns the next frame. `None`: the connection has ended.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [high, middle, low, kind, flags, a, b, c, d] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes([a, b, c, d]),
            payload,
        })
    }

    /// Returns the next frame of that kind.
    pub fn next_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Returns the error code of the GOAWAY with which the connection ends.
    pub fn goodbye(&mut self) -> Option<u32> {
        let frame = self.next_of(GOAWAY)?;
        let code = frame.payload.get(4..8)?.try_into().unwrap();
        Some(u32::from_be_bytes(code))
    }
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![high, middle, low, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A field of a head, encoded without compression (RFC 7541 §6.2.2).
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for part in [name, value] {
        assert!(part.len() < 127, "longer parts have another length");
        field.push(part.len() as u8);
        field.extend_from_slice(part.as_bytes());
    }
    field
}

/// The head of a GET.
pub fn get(target: &str) -> Vec<u8> {
    head("GET", target)
}

/// The head of a request with that method.
pub fn head(method: &str, target: &str) -> Vec<u8> {
    let line = [(":method", method), (":scheme", "http"), (":path", target), (":authority", "x")];
    line.iter().flat_map(|(name, value)| field(name, value)).collect()
}
