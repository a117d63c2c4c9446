//! The counts that bound what a client of HTTP/3 makes the `h3` crate keep or do.

use std::cell::Cell;
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
    /// The key of `[http3]` that the client has exceeded.
    excess: Cell<Option<&'static str>>,
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

    /// The key of `[http3]` that the client has exceeded.
    pub(super) fn excess(&self) -> Option<&'static str> {
        self.excess.get()
    }

    /// Counts a request that the client has cancelled.
    pub(super) fn count_reset(&self) {
        self.begin_period();
        self.resets.set(self.resets.get() + 1);
        if self.resets.get() > self.limits.resets {
            self.excess.set(Some("resets"));
        }
    }

    /// Counts bytes beside requests.
    pub(super) fn count_control(&self, bytes: usize) {
        self.begin_period();
        self.control_bytes.set(self.control_bytes.get() + bytes as u64);
        if self.control_bytes.get() > self.limits.control_bytes {
            self.excess.set(Some("control_bytes"));
        }
    }

    /// Counts bytes of a request that are no content, in `unseen`.
    pub(super) fn count_undecoded(&self, unseen: &Cell<u64>, bytes: usize) {
        unseen.set(unseen.get() + bytes as u64);
        if unseen.get() > HEADS * self.limits.header_list.max(READ as u64) {
            self.excess.set(Some("header_list"));
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
        assert_eq!(exceeded(&|meter| (0..3).for_each(|_| meter.count_reset())), Some("resets"));
        assert_eq!(exceeded(&|meter| meter.count_control(1024)), None);
        assert_eq!(exceeded(&|meter| meter.count_control(1025)), Some("control_bytes"));
        let most = 4 * (128 << 10);
        let undecoded = |bytes| exceeded(&|meter| meter.count_undecoded(&Cell::new(0), bytes));
        assert_eq!((undecoded(most), undecoded(most + 1)), (None, Some("header_list")));
    }
}
