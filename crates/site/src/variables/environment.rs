//! Variables that directives set (`r->subprocess_env`).

use howdah_http::Fields;

/// Those that scripts get, each name once: where it is set again, what was set last (`APR_OVERLAP_TABLES_SET`).
pub(super) struct Variables<'e> {
    lines: Vec<Option<(&'e [u8], &'e [u8])>>,
    /// A bit for each length that their names have, those beyond 63 with the others.
    lengths: u64,
}

impl<'e> Variables<'e> {
    pub(super) fn of(env: &'e Fields) -> Variables<'e> {
        let mut lines: Vec<Option<(&[u8], &[u8])>> = Vec::with_capacity(env.len());
        for (name, value) in env.iter() {
            let mut known = lines.iter_mut().flatten();
            match known.find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some(line) => *line = (name, value),
                None => lines.push(Some((name, value))),
            }
        }
        let names = lines.iter().flatten().map(|(name, _)| name);
        let lengths = names.fold(0, |lengths, name| lengths | length_bit(name));
        Variables { lines, lengths }
    }

    /// The server sets this one itself.
    #[inline]
    pub(super) fn leave_out(&mut self, name: &[u8]) {
        if self.lengths & length_bit(name) == 0 {
            return;
        }
        for line in &mut self.lines {
            if line.is_some_and(|(other, _)| other.eq_ignore_ascii_case(name)) {
                *line = None;
            }
        }
    }

    /// What is left, and how much that is.
    pub(super) fn give(&self, out: &mut impl FnMut(&[u8], &[u8])) -> u32 {
        let mut count = 0;
        for (name, value) in self.lines.iter().flatten() {
            out(name, value);
            count += 1;
        }
        count
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}
