//! Substitutions in content that comes in pieces.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::{memchr, memmem};

use super::{LONGEST_LINE, LONGEST_OF_ALL, Replacement, SearchTerm, Substitution};
use crate::metered_text::{MeteredText, TextError};
use crate::modules::substitute;
use crate::pattern::{Captures, Pattern, substitute};
use crate::transform::{OUTPUT, Transform, TransformError};
use crate::work::WorkBudget;

/// Replaces text line by line. An incomplete line waits for the rest.
#[derive(Debug)]
pub struct Transformer {
    config: Arc<substitute::Config>,
    longest: usize,
    /// The beginning of an incomplete line.
    waiting: Vec<u8>,
    captures: Captures,
    /// The bytes that captures may still copy.
    budget: u64,
    work: WorkBudget,
}

impl Transformer {
    /// Begins a response.
    pub fn new(config: Arc<substitute::Config>) -> Transformer {
        Transformer {
            longest: config.longest_line.unwrap_or(LONGEST_LINE).min(LONGEST_OF_ALL),
            config,
            waiting: Vec::new(),
            captures: Captures::default(),
            budget: BUDGET,
            work: WorkBudget::for_content(STEPS),
        }
    }

    /// Takes content, and writes every whole line, until `out` has [`OUTPUT`] bytes. Returns the
    /// number of bytes taken.
    ///
    /// # Errors
    /// Where a line is too long, or the replacements take too much work.
    pub fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        let mut taken = 0;
        while taken < input.len() && out.len() < OUTPUT {
            let rest = &input[taken..];
            let Some(end) = memchr(b'\n', rest) else {
                self.wait(rest)?;
                return Ok(input.len());
            };
            let line = &rest[..=end];
            if self.waiting.is_empty() {
                self.line(line, out)?;
            } else {
                self.wait(line)?;
                let line = std::mem::take(&mut self.waiting);
                self.line(&line, out)?;
            }
            taken += line.len();
        }
        Ok(taken)
    }

    /// Writes the last line.
    ///
    /// # Errors
    /// Where the line is too long, or the replacements take too much work.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        let line = std::mem::take(&mut self.waiting);
        self.line(&line, out)
    }

    fn wait(&mut self, input: &[u8]) -> Result<(), TransformError> {
        if self.waiting.len() + input.len() > self.longest {
            return Err(TOO_LONG);
        }
        self.waiting.extend_from_slice(input);
        Ok(())
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.budget = self.budget.saturating_add(BUDGET_OF_A_BYTE * line.len() as u64);
        self.work.add(STEPS_OF_A_BYTE * line.len() as u64);
        let config = Arc::clone(&self.config);
        let mut pieces = vec![Cow::Borrowed(line)];
        for substitution in &config.substitutions {
            let mut next = LinePieces {
                pieces: Vec::with_capacity(pieces.len()),
                length: 0,
            };
            for piece in pieces {
                self.piece(substitution, piece, &mut next)?;
            }
            pieces = next.pieces;
        }
        pieces.iter().for_each(|piece| out.extend_from_slice(piece));
        Ok(())
    }

    /// One substitution in one piece of a line. It stays one piece, unless the substitution is
    /// quick: then the replacement is a piece of its own, so that later substitutions do not reach
    /// across its ends.
    fn piece<'l>(
        &mut self,
        substitution: &Substitution,
        piece: Cow<'l, [u8]>,
        next: &mut LinePieces<'l>,
    ) -> Result<(), TransformError> {
        let lower = substitution.is_caseless_text().then(|| piece.to_ascii_lowercase());
        let mut at = 0;
        let mut changed = Vec::new();
        let mut cuts = Vec::new();
        while let Some((start, end)) =
            self.find(substitution, &piece[at..], lower.as_ref().map(|lower| &lower[at..]))?
        {
            changed.extend_from_slice(&piece[at..at + start]);
            cuts.push(changed.len());
            match &substitution.replacement {
                Replacement::Constant(text) => changed.extend_from_slice(text),
                Replacement::Template(text) => {
                    let longest = self.longest.saturating_sub(next.length);
                    let mut longer = MeteredText::after(changed, longest, self.work.meter());
                    substitute(text, &self.captures, &mut longer).map_err(given_up)?;
                    changed = longer.into_bytes();
                }
            }
            cuts.push(changed.len());
            if next.length + changed.len() > self.longest {
                return Err(TOO_LONG);
            }
            if substitution.quick && next.pieces.len() + cuts.len() > MOST_PIECES {
                return Err(TOO_MANY);
            }
            at += end;
            if start == end {
                let Some(&byte) = piece.get(at) else { break };
                changed.push(byte);
                at += 1;
            }
        }
        if cuts.is_empty() {
            next.push(piece);
            return Ok(());
        }
        changed.extend_from_slice(&piece[at..]);
        if next.length + changed.len() > self.longest {
            return Err(TOO_LONG);
        }
        if !substitution.quick {
            next.push(Cow::Owned(changed));
            return Ok(());
        }
        let mut start = 0;
        for end in cuts.into_iter().chain([changed.len()]) {
            next.push(Cow::Owned(changed[start..end].to_vec()));
            start = end;
        }
        Ok(())
    }

    /// Finds it in `text`, of which `lower` is the same in lower case.
    fn find(
        &mut self,
        substitution: &Substitution,
        text: &[u8],
        lower: Option<&[u8]>,
    ) -> Result<Option<(usize, usize)>, TransformError> {
        match &substitution.find {
            SearchTerm::Text { text: wanted, .. } => {
                let start = memmem::find(lower.unwrap_or(text), wanted);
                Ok(start.map(|start| (start, start + wanted.len())))
            }
            SearchTerm::Regex(pattern) => match substitution.replacement {
                Replacement::Constant(_) => {
                    pattern.find_from(text, 0, self.work.meter()).map_err(|_| EXHAUSTED)
                }
                Replacement::Template(_) => self.matched(pattern, text),
            },
        }
    }

    fn matched(
        &mut self,
        pattern: &Pattern,
        text: &[u8],
    ) -> Result<Option<(usize, usize)>, TransformError> {
        // Captures copy the rest of the line at each match.
        self.budget = self.budget.checked_sub(text.len() as u64).ok_or(EXHAUSTED)?;
        match pattern.captures(text, &mut self.captures, self.work.meter()) {
            Ok(true) => Ok(Some(self.captures.span())),
            Ok(false) => Ok(None),
            Err(_) => Err(EXHAUSTED),
        }
    }
}

/// A line in pieces: those that a quick substitution has made are apart.
struct LinePieces<'l> {
    pieces: Vec<Cow<'l, [u8]>>,
    /// Bytes of all of them.
    length: usize,
}

impl<'l> LinePieces<'l> {
    fn push(&mut self, piece: Cow<'l, [u8]>) {
        self.length += piece.len();
        self.pieces.push(piece);
    }
}

impl Transform for Transformer {
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
        Transformer::push(self, input, out)
    }

    /// Keeps an incomplete line, as Apache does: the line could be replaced as a whole.
    fn flush(&mut self, _out: &mut Vec<u8>) -> Result<(), TransformError> {
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        Transformer::finish(self, out)
    }

    fn memory(&self) -> usize {
        OUTPUT.max(self.waiting.capacity())
    }
}

fn given_up(error: TextError) -> TransformError {
    match error {
        TextError::TooLong => TOO_LONG,
        TextError::Exhausted => EXHAUSTED,
    }
}

const TOO_LONG: TransformError = TransformError("a line is longer than SubstituteMaxLineLength");
const TOO_MANY: TransformError =
    TransformError("the flag q of Substitute cuts a line into too many pieces");
const EXHAUSTED: TransformError =
    TransformError("a regular expression of Substitute takes too many steps on a line");

/// Pieces of a line that the flag `q` makes at most. Each takes some dozens of bytes. At more, the
/// response is broken off.
const MOST_PIECES: usize = 100_000;

/// The work for a response, in bytes that captures copy.
const BUDGET: u64 = 64 * 1024 * 1024;
/// The work that each byte of the response adds.
const BUDGET_OF_A_BYTE: u64 = 4096;

/// The steps of patterns for a response; beyond them the response is cut off.
const STEPS: u64 = 50_000_000;
/// The steps that each byte of the response adds.
const STEPS_OF_A_BYTE: u64 = 4096;

#[cfg(test)]
mod tests;
