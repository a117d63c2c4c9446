//! Texts that are put together for a request, within bounds of length and work.

use crate::work::{self, Exhausted, Meter};

/// A text that is put together from parts that a site or a client controls: captures, variables,
/// fields. A part that would make the text too long is not copied, and each part costs steps.
#[derive(Debug)]
pub(crate) struct MeteredText<'m> {
    bytes: Vec<u8>,
    longest: usize,
    meter: Meter<'m>,
}

/// The reason why a text was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextError {
    /// The text becomes longer than it may.
    TooLong,
    /// The text takes more work than is left.
    Exhausted,
}

impl From<Exhausted> for TextError {
    fn from(_: Exhausted) -> TextError {
        TextError::Exhausted
    }
}

/// The bytes of a value that is put together for a request: a variable, a field, an expression's
/// string, a path with its query. Nothing that programs work with is longer, and the bound keeps
/// values that contain themselves many times from filling the memory.
pub(crate) const LONGEST_VALUE: usize = 64 << 10;

impl<'m> MeteredText<'m> {
    /// Returns an empty text that may have `longest` bytes.
    pub(crate) fn new(longest: usize, meter: Meter<'m>) -> MeteredText<'m> {
        MeteredText::after(Vec::new(), longest, meter)
    }

    /// Returns a text that begins with `bytes`, and may have `longest` bytes together with them.
    pub(crate) fn after(bytes: Vec<u8>, longest: usize, meter: Meter<'m>) -> MeteredText<'m> {
        MeteredText { bytes, longest, meter }
    }

    /// Appends a part.
    ///
    /// # Errors
    /// The text would become too long, or the work is too much. Then nothing is appended.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<(), TextError> {
        self.admit(part, 1 + work::bytes(part.len()))?;
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Appends a part with each byte replaced.
    ///
    /// # Errors
    /// As for [`push`](MeteredText::push).
    pub(crate) fn push_mapped(
        &mut self,
        part: &[u8],
        map: impl Fn(u8) -> u8,
    ) -> Result<(), TextError> {
        self.admit(part, 1 + work::bytes(2 * part.len()))?;
        self.bytes.extend(part.iter().map(|&byte| map(byte)));
        Ok(())
    }

    /// Lets `write` append a part in another form, at most [`EXPANSION`] times as long. It costs a
    /// step for each byte.
    ///
    /// # Errors
    /// As for [`push`](MeteredText::push); the text may be too long by what `write` has appended.
    pub(crate) fn push_with(
        &mut self,
        part: &[u8],
        write: impl FnOnce(&[u8], &mut Vec<u8>),
    ) -> Result<(), TextError> {
        self.admit(part, 1 + part.len() as u64)?;
        let before = self.bytes.len();
        write(part, &mut self.bytes);
        debug_assert!(self.bytes.len() - before <= EXPANSION * part.len());
        match self.bytes.len() <= self.longest {
            true => Ok(()),
            false => Err(TextError::TooLong),
        }
    }

    /// Returns the text so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the text.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn admit(&self, part: &[u8], steps: u64) -> Result<(), TextError> {
        if self.bytes.len() + part.len() > self.longest {
            return Err(TextError::TooLong);
        }
        Ok(self.meter.spend(steps)?)
    }
}

/// The bytes that another form of a byte takes at most, as `%2f` of a slash.
const EXPANSION: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::WorkBudget;

    #[test]
    fn nothing_is_copied_beyond_the_length_or_the_budget() {
        let budget = WorkBudget::new(1_000);
        let mut text = MeteredText::new(100, budget.meter());
        assert_eq!(text.push(&[b'a'; 90]), Ok(()));
        assert_eq!(text.push(&[b'b'; 11]), Err(TextError::TooLong));
        assert_eq!(text.push_mapped(&[b'b'; 11], |byte| byte), Err(TextError::TooLong));
        assert_eq!(text.push_with(&[b'b'; 11], |_, _| unreachable!()), Err(TextError::TooLong));
        assert_eq!(text.bytes(), [b'a'; 90], "a part that is too long is not copied");
        assert_eq!(text.push_mapped(b"bcd", |byte| byte.to_ascii_uppercase()), Ok(()));
        let twice = |part: &[u8], out: &mut Vec<u8>| out.extend([part, part].concat());
        assert_eq!(text.push_with(b"ef", twice), Ok(()));
        assert_eq!(&text.bytes()[90..], b"BCDefef");
        assert_eq!(text.push_with(b"gh", twice), Err(TextError::TooLong));
        let spent = (1 + 90 / 16) + 1 + (1 + 2) + (1 + 2);
        assert_eq!(budget.used(), spent);
        let budget = WorkBudget::new(10);
        let mut text = MeteredText::after(b"x".to_vec(), 1_000, budget.meter());
        assert_eq!(text.push(&[b'a'; 160]), Err(TextError::Exhausted));
        assert_eq!(text.into_bytes(), b"x");
        assert!(budget.is_exhausted() && !budget.is_refused());
    }
}
