//! Random bytes, the same on every run.

/// A multiplicative generator (splitmix64): good enough to mutate with, and the same everywhere.
pub(crate) struct Mutator(pub u64);

impl Mutator {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }

    /// Checks `property` on the seeds and on `count` mutations of them, into which `words` are
    /// mixed.
    pub(crate) fn mutations(
        &mut self,
        seeds: &[&[u8]],
        words: &[&[u8]],
        count: usize,
        property: fn(&[u8]),
    ) {
        seeds.iter().for_each(|seed| check(property, seed));
        for _ in 0..count {
            let mut bytes = self.pick(seeds).to_vec();
            for _ in 0..=self.below(3) {
                self.mutate(&mut bytes, words);
            }
            check(property, &bytes);
        }
    }

    /// One change of the kinds that find seams in parsers.
    fn mutate(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
        let at = self.below(bytes.len() + 1);
        let end = bytes.len().min(at + 1 + self.below(8));
        match self.below(7) {
            0 if at < bytes.len() => bytes[at] = self.next() as u8,
            1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, self.pick(words).iter().copied())),
            4 => drop(bytes.splice(at..end, self.pick(words).iter().copied())),
            5 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.insert(at, b"\r\n\t :;,\0"[self.below(8)]),
        }
    }
}

/// Runs the property; where it fails, the input is printed.
pub(crate) fn check(property: fn(&[u8]), bytes: &[u8]) {
    if let Err(panic) = std::panic::catch_unwind(|| property(bytes)) {
        eprintln!("input: \"{}\"", bytes.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}
