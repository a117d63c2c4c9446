//! A short text on the stack: numbers and validators without an allocation.

use std::{fmt, ops::Deref};

/// A short text of at most [`ShortText::CAPACITY`] bytes. A longer one is cut, which never happens
/// to a text made in this crate.
#[derive(Clone, Copy)]
pub struct ShortText {
    bytes: [u8; ShortText::CAPACITY],
    length: u8,
}

impl ShortText {
    /// Room for the longest one made here, a Content-Range of three 20-digit numbers.
    pub const CAPACITY: usize = 72;

    /// Returns an empty text.
    pub const fn new() -> ShortText {
        ShortText {
            bytes: [0; ShortText::CAPACITY],
            length: 0,
        }
    }

    /// Returns `number` in decimal, such as a Content-Length.
    pub fn decimal(number: u64) -> ShortText {
        let mut text = ShortText::new();
        text.push_decimal(number);
        text
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let start = self.length as usize;
        let end = ShortText::CAPACITY.min(start + bytes.len());
        self.bytes[start..end].copy_from_slice(&bytes[..end - start]);
        self.length = end as u8;
    }

    /// Appends `number` in decimal.
    pub fn push_decimal(&mut self, number: u64) {
        let mut digits = [0; 20];
        self.push(decimal(number, &mut digits));
    }

    /// Appends `number` in lower-case hexadecimal.
    pub fn push_hexadecimal(&mut self, number: u64) {
        let mut digits = [0; 16];
        self.push(hexadecimal(number, &mut digits));
    }
}

impl Default for ShortText {
    fn default() -> ShortText {
        ShortText::new()
    }
}

impl Deref for ShortText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }
}

impl PartialEq for ShortText {
    fn eq(&self, other: &ShortText) -> bool {
        **self == **other
    }
}

impl Eq for ShortText {}

impl fmt::Debug for ShortText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(self))
    }
}

/// The decimal digits of `number`, written to the end of `digits`.
#[inline]
pub(crate) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// The hexadecimal digits of `number`, written to the end of `digits`.
#[inline]
pub(crate) fn hexadecimal(mut number: u64, digits: &mut [u8; 16]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for number in [0, 1, 9, 10, 255, 4096, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(*ShortText::decimal(number), *number.to_string().into_bytes());
            let mut text = ShortText::new();
            text.push_hexadecimal(number);
            assert_eq!(*text, *format!("{number:x}").into_bytes());
        }
    }

    #[test]
    fn texts_of_the_same_bytes_are_equal() {
        let mut cut = ShortText::decimal(78);
        (cut.length, cut.bytes[70]) = (1, 1);
        assert_eq!(cut, ShortText::decimal(7));
        assert_ne!(cut, ShortText::decimal(8));
        assert!(ShortText::default().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let mut text = ShortText::new();
        text.push(&[b'a'; 70]);
        text.push(b"bcde");
        assert_eq!(text.len(), ShortText::CAPACITY);
        assert!(text.ends_with(b"abc"));
    }
}
