//! The place of a client's bytes among the records of TLS (RFC 8446 §5.1).

/// Follows the bytes of a connection from record to record.
#[derive(Debug, Default)]
pub(crate) struct RecordMeter {
    header: [u8; HEADER],
    /// Bytes of `header` that are there.
    filled: usize,
    /// Bytes of the present record's content that are still to come.
    content: usize,
}

impl RecordMeter {
    /// Takes the next `bytes` of the client.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.content > 0 {
                let passed = self.content.min(bytes.len());
                self.content -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            let count = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
            self.filled += count;
            bytes = &bytes[count..];
            if let (HEADER, [.., high, low]) = (self.filled, self.header) {
                self.filled = 0;
                self.content = u16::from_be_bytes([high, low]).into();
            }
        }
    }

    /// Returns whether a record has begun of which bytes are missing.
    pub(crate) fn is_within(&self) -> bool {
        self.filled > 0 || self.content > 0
    }
}

/// Bytes of a record's header: its type, a version and the length of its content.
const HEADER: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_between_records_nothing_is_missing() {
        let record = |length: u16| {
            let [high, low] = length.to_be_bytes();
            [vec![23, 3, 3, high, low], vec![7; length.into()]].concat()
        };
        let bytes = [record(3), record(0), record(300), record(1)].concat();
        let ends = [0, 8, 13, 318, 324];
        for split in 0..=bytes.len() {
            for step in [1, 4, usize::MAX] {
                let mut meter = RecordMeter::default();
                bytes[..split].chunks(step).for_each(|part| meter.read(part));
                assert_eq!(meter.is_within(), !ends.contains(&split), "{split} by {step}");
            }
        }
    }
}
