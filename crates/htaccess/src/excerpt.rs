//! Excerpts of a file, which show where a mistake is.

use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use crate::language::{Item, locate, words};
use crate::mistake::{Complaint, DirectivePlace, Mistake, MistakeKind};
use crate::scope::{CompileContext, KeyPlace};

/// A file of directives whose lines are shown.
#[derive(Debug)]
pub(crate) struct Excerpt<'s> {
    source: &'s [u8],
    context: &'s CompileContext,
    /// The offset of each line; computed when the first line is shown.
    starts: Vec<usize>,
}

/// The bytes of a line that are shown at most. The rest is left out.
const LONGEST_SHOWN: usize = 400;

impl<'s> Excerpt<'s> {
    pub(crate) fn new(source: &'s [u8], context: &'s CompileContext) -> Excerpt<'s> {
        Excerpt { source, context, starts: Vec::new() }
    }

    /// Returns the place of a directive.
    pub(crate) fn place(&self, item: &Item) -> DirectivePlace {
        self.place_at(item.line, item.column)
    }

    /// Returns the place of this line and column: in a key of the configuration, or behind all of
    /// them in the file.
    fn place_at(&self, line: u32, column: u32) -> DirectivePlace {
        let keys = &self.context.keys;
        match keys.get(line as usize - 1) {
            Some(KeyPlace { key, entry }) => DirectivePlace {
                file: Arc::clone(key),
                line: *entry,
                column: 1,
            },
            None => DirectivePlace {
                file: Arc::clone(&self.context.file),
                line: line - keys.len() as u32,
                column,
            },
        }
    }

    /// Returns a mistake in a directive. Its place is that of the argument with the error, where
    /// there is one.
    pub(crate) fn mistake(
        &mut self,
        item: &Item,
        kind: MistakeKind,
        complaint: Complaint,
    ) -> Mistake {
        let (line, column) = complaint
            .argument
            .and_then(|index| words(&item.raw).get(index).map(|word| word.start))
            .and_then(|start| item.raw_at.map(|raw| raw + start))
            .map_or((item.line, item.column), |index| locate(self.source, item.start, index));
        self.mistake_at(line, column, kind, complaint)
    }

    /// Returns a mistake at this line and column.
    pub(crate) fn mistake_at(
        &mut self,
        line: u32,
        column: u32,
        kind: MistakeKind,
        complaint: Complaint,
    ) -> Mistake {
        Mistake {
            line: self.line(line),
            place: self.place_at(line, column),
            message: complaint.message,
            hint: complaint.hint,
            kind,
        }
    }

    fn line(&mut self, number: u32) -> String {
        if self.starts.is_empty() {
            self.starts.push(0);
            self.starts.extend(memchr_iter(b'\n', self.source).map(|end| end + 1));
        }
        let start = self.starts.get(number as usize - 1).copied().unwrap_or(self.source.len());
        let rest = &self.source[start.min(self.source.len())..];
        let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
        let line = &line[..line.len().min(LONGEST_SHOWN)];
        String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
    }
}
