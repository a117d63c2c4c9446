//! The counts that bound what a client of HTTP/3 makes the `h3` crate keep or do.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use howdah_config::Http3;

use super::transport::READ;

/// The time in which what comes beside requests is counted, and cancelled requests are.
const PERIOD: Duration = Duration::from_secs(10);
/// Bytes of a request in sequence that are no content, in lengths of a decoded head.
const HEADS: u64 = 4;

/// The counts that a connection keeps of its client.
#[derive(Debug)]
pub(super) struct ClientMeter {
    began: Cell<Instant>,
    control_bytes: Cell<u64>,
    resets: Cell<u64>,
    limits: Http3,
    /// The limit that the client has exceeded.
    excess: Cell<Option<ClientExcess>>,
}

/// A limit that a client has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientExcess {
    /// A key of `[http3]`.
    Key(&'static str),
    /// [`HEADS`] times `header_list` of bytes without content, behind a head.
    Frames,
}

impl ClientExcess {
    /// The key of `[http3]` that sets the limit.
    pub(super) fn key(self) -> &'static str {
        match self {
            ClientExcess::Key(key) => key,
            ClientExcess::Frames => "header_list",
        }
    }
}

impl fmt::Display for ClientExcess {
    /// Writes the client's fault, with the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientExcess::Key(key) => write!(f, "exceeds `{key}` of [http3]"),
            ClientExcess::Frames => write!(
                f,
                "sends frames without content, or trailers, of more than {HEADS} times \
                 `header_list` of [http3]"
            ),
        }
    }
}

impl ClientMeter {
    pub(super) fn new(limits: Http3) -> ClientMeter {
        ClientMeter {
            began: Cell::new(Instant::now()),
            control_bytes: Cell::new(0),
            resets: Cell::new(0),
            limits,
            excess: Cell::new(None),
        }
    }

    /// The limit that the client has exceeded. `None`: it has exceeded none.
    pub(super) fn excess(&self) -> Option<ClientExcess> {
        self.excess.get()
    }

    /// Counts a request that the client has cancelled.
    pub(super) fn count_reset(&self) {
        self.begin_period();
        self.resets.set(self.resets.get() + 1);
        if self.resets.get() > self.limits.resets {
            self.excess.set(Some(ClientExcess::Key("resets")));
        }
    }

    /// Counts bytes beside requests.
    pub(super) fn count_control(&self, bytes: usize) {
        self.begin_period();
        self.control_bytes.set(self.control_bytes.get() + bytes as u64);
        if self.control_bytes.get() > self.limits.control_bytes {
            self.excess.set(Some(ClientExcess::Key("control_bytes")));
        }
    }

    /// Counts bytes of a request that are no content, in `unseen`. `has_head`: they follow its
    /// head.
    pub(super) fn count_undecoded(&self, unseen: &Cell<u64>, bytes: usize, has_head: bool) {
        unseen.set(unseen.get() + bytes as u64);
        if unseen.get() > HEADS * self.limits.header_list.max(READ as u64) {
            self.excess.set(Some(match has_head {
                true => ClientExcess::Frames,
                false => ClientExcess::Key("header_list"),
            }));
        }
    }

    fn begin_period(&self) {
        let now = Instant::now();
        if now.duration_since(self.began.get()) >= PERIOD {
            self.began.set(now);
            self.control_bytes.set(0);
            self.resets.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exceeded_key_is_named() {
        let limits = Http3 {
            resets: 2,
            control_bytes: 1024,
            ..Http3::default()
        };
        let exceeded = |act: &dyn Fn(&ClientMeter)| {
            let meter = ClientMeter::new(limits.clone());
            act(&meter);
            meter.excess()
        };
        assert_eq!(exceeded(&|meter| (0..2).for_each(|_| meter.count_reset())), None);
        assert_eq!(
            exceeded(&|meter| (0..3).for_each(|_| meter.count_reset())),
            Some(ClientExcess::Key("resets"))
        );
        assert_eq!(exceeded(&|meter| meter.count_control(1024)), None);
        assert_eq!(
            exceeded(&|meter| meter.count_control(1025)),
            Some(ClientExcess::Key("control_bytes"))
        );
        let most = 4 * (128 << 10);
        let undecoded = |bytes, has_head| {
            exceeded(&|meter| meter.count_undecoded(&Cell::new(0), bytes, has_head))
        };
        assert_eq!(undecoded(most, false), None);
        assert_eq!(undecoded(most + 1, false), Some(ClientExcess::Key("header_list")));
        assert_eq!(undecoded(most, true), None);
        assert_eq!(undecoded(most + 1, true), Some(ClientExcess::Frames));
    }
}
