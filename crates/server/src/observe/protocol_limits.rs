//! The limits of protocols that clients have met, and how often. Each protocol names its own.

use std::collections::BTreeMap;

/// A limit that is counted: the name of the protocol, and a key of the protocol's own.
pub(crate) type ProtocolLimit = (&'static str, &'static str);

/// The number of times that each limit was met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LimitTotals(BTreeMap<ProtocolLimit, u64>);

/// The number of times that each limit was met, by protocol and key.
pub(crate) type LimitCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// Returns the place of a limit among `known`; `None` for one that is not counted.
pub(super) fn place(known: &[ProtocolLimit], limit: (&str, &str)) -> Option<usize> {
    known.iter().position(|known| *known == limit)
}

impl LimitTotals {
    /// Adds a number to that of a limit, also 0: the limit has a number from then on.
    pub(super) fn add(&mut self, limit: ProtocolLimit, number: u64) {
        let sum = self.0.entry(limit).or_default();
        *sum = sum.wrapping_add(number);
    }

    /// Returns the numbers by name.
    pub(crate) fn by_name(&self) -> LimitCounts {
        let mut counts = LimitCounts::new();
        for ((protocol, key), number) in &self.0 {
            let of_protocol = counts.entry((*protocol).to_owned()).or_default();
            of_protocol.insert((*key).to_owned(), *number);
        }
        counts
    }

    /// Returns the numbers that are not 0, as `http2.pings:3`, separated by commas.
    pub(crate) fn encode(&self) -> String {
        let counted = self.0.iter().filter(|(_, number)| **number > 0);
        let texts: Vec<String> = counted
            .map(|((protocol, key), number)| format!("{protocol}.{key}:{number}"))
            .collect();
        texts.join(",")
    }

    /// Adds numbers, as [`LimitTotals::encode`] writes them. Malformed ones, and those of a limit
    /// that is not `known`, because another version counts it, are left out.
    pub(crate) fn decode(&mut self, text: &str, known: &[ProtocolLimit]) {
        for (name, number) in text.split(',').filter_map(|part| part.split_once(':')) {
            let place = name.split_once('.').and_then(|limit| place(known, limit));
            if let (Some(place), Ok(number)) = (place, number.parse()) {
                self.add(known[place], number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_survive_their_encoding() {
        const KNOWN: [ProtocolLimit; 3] = [("one", "pings"), ("one", "resets"), ("two", "pings")];
        let mut totals = LimitTotals::default();
        assert_eq!(totals.encode(), "");
        totals.add(KNOWN[0], 3);
        totals.add(KNOWN[2], 5);
        assert_eq!(totals.encode(), "one.pings:3,two.pings:5");
        let mut decoded = LimitTotals::default();
        decoded.decode("nonsense,one.pings:x,one.later:7,:,nine.pings:1", &KNOWN);
        assert_eq!(decoded, LimitTotals::default());
        decoded.decode(&totals.encode(), &KNOWN);
        assert_eq!(decoded, totals);
        totals.add(KNOWN[1], 0);
        let names = totals.by_name();
        assert_eq!((names["one"]["pings"], names["two"]["pings"]), (3, 5));
        assert_eq!((names["one"]["resets"], totals.encode()), (0, decoded.encode()));
    }
}
