//! The limits of HTTP/2 and HTTP/3 that clients have met, and how often.

use std::collections::BTreeMap;

/// A limit: the protocol, and the key of the configuration. A key that is in no table of the
/// protocol's own is one of `[limits]`.
pub(crate) type ProtocolLimit = (&'static str, &'static str);

/// All limits that are counted. Beyond them a connection ends, with these exceptions: a request is
/// refused beyond `client_memory`, and `streams` and `header_list` of HTTP/2, a response ends
/// beyond `send_timeout`, and `retry_from` and `handshakes` are counted by packet.
pub(crate) const PROTOCOL_LIMITS: [ProtocolLimit; 19] = [
    ("http2", "resets"),
    ("http2", "pings"),
    ("http2", "settings"),
    ("http2", "empty_frames"),
    ("http2", "other_frames"),
    ("http2", "window_updates"),
    ("http2", "continuations"),
    ("http2", "send_timeout"),
    ("http2", "streams"),
    ("http2", "header_list"),
    ("http2", "client_memory"),
    ("http2", LIBRARY),
    ("http3", "resets"),
    ("http3", "control_bytes"),
    ("http3", "header_list"),
    ("http3", "send_timeout"),
    ("http3", "client_memory"),
    ("http3", "retry_from"),
    ("http3", "handshakes"),
];

/// The place of a key for limits of the library's own, which no key sets.
pub(crate) const LIBRARY: &str = "library";

/// The number of times that each limit was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LimitTotals([u64; PROTOCOL_LIMITS.len()]);

/// The number of times that each limit was met, by protocol and key.
pub(crate) type LimitCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Returns the place of a limit in [`PROTOCOL_LIMITS`]; `None` for one that is not counted.
pub(super) fn place(limit: (&str, &str)) -> Option<usize> {
    PROTOCOL_LIMITS.iter().position(|known| *known == limit)
}

impl LimitTotals {
    /// Adds a number to that of the limit at this place.
    pub(super) fn add(&mut self, place: usize, number: u64) {
        self.0[place] = self.0[place].wrapping_add(number);
    }

    /// Returns the numbers by name.
    pub(crate) fn by_name(&self) -> LimitCounts {
        let mut counts = LimitCounts::new();
        for ((protocol, key), number) in PROTOCOL_LIMITS.iter().zip(self.0) {
            let of_protocol = counts.entry((*protocol).to_owned()).or_default();
            of_protocol.insert((*key).to_owned(), number);
        }
        counts
    }

    /// Returns the numbers that are not 0, as `http2.pings:3`, separated by commas.
    pub(crate) fn encode(&self) -> String {
        let counted = PROTOCOL_LIMITS.iter().zip(self.0).filter(|(_, number)| *number > 0);
        let texts: Vec<String> = counted
            .map(|((protocol, key), number)| format!("{protocol}.{key}:{number}"))
            .collect();
        texts.join(",")
    }

    /// Adds numbers, as [`LimitTotals::encode`] writes them. Malformed ones, and those of a limit
    /// that another version counts, are left out.
    pub(crate) fn decode(&mut self, text: &str) {
        for (name, number) in text.split(',').filter_map(|part| part.split_once(':')) {
            if let (Some(place), Ok(number)) =
                (name.split_once('.').and_then(place), number.parse())
            {
                self.add(place, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_survive_their_encoding() {
        let mut totals = LimitTotals::default();
        assert_eq!(totals.encode(), "");
        totals.add(place(("http2", "pings")).unwrap(), 3);
        totals.add(place(("http3", "handshakes")).unwrap(), 5);
        assert_eq!(totals.encode(), "http2.pings:3,http3.handshakes:5");
        let mut decoded = LimitTotals::default();
        decoded.decode("nonsense,http2.pings:x,http2.later:7,:,http9.pings:1");
        assert_eq!(decoded, LimitTotals::default());
        decoded.decode(&totals.encode());
        assert_eq!(decoded, totals);
        let names = totals.by_name();
        assert_eq!((names["http2"]["pings"], names["http3"]["handshakes"]), (3, 5));
        assert_eq!(names.values().map(BTreeMap::len).sum::<usize>(), PROTOCOL_LIMITS.len());
    }

    #[test]
    fn every_limit_is_a_key_of_the_configuration() {
        let reference = include_str!("../../../../docs/config.md");
        for (protocol, key) in PROTOCOL_LIMITS.into_iter().filter(|(_, key)| *key != LIBRARY) {
            let is_general = ["send_timeout", "client_memory"].contains(&key);
            let table = if is_general { "limits" } else { protocol };
            let (_, behind) = reference.split_once(&format!("## `[{table}]`\n")).expect(table);
            let keys = behind.split("\n## ").next().unwrap_or_default();
            assert!(keys.contains(&format!("### `{key}`\n")), "{table} {key}");
        }
    }
}
