//! Variables that directives set (`r->subprocess_env`).

use howdah_http::Fields;

use super::mark;

/// Those that scripts get, each name once: where it is set again, what was set last (`APR_OVERLAP_TABLES_SET`).
pub(super) struct Variables<'e> {
    lines: Vec<Option<(&'e [u8], &'e [u8])>>,
    /// The marks of their names.
    marks: u64,
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
        let marks = lines
            .iter()
            .flatten()
            .fold(0, |marks, (name, _)| marks | mark(name));
        Variables { lines, marks }
    }

    /// The server sets this one itself.
    pub(super) fn leave_out(&mut self, name: &[u8]) {
        if self.marks & mark(name) == 0 {
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
