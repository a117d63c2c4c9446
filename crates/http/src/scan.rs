//! Classes of bytes, and the length of runs of one class.
//!
//! Parsing a head consists of little more than these runs, so they take eight bytes at a step. The
//! table defines the classes; the steps are tested against it.

/// Bit: a byte of a token (RFC 9110 §5.6.2).
const TOKEN: u8 = 1;
/// Bit: a byte of a field value: tab, space, visible ASCII, obs-text (RFC 9110 §5.5).
const VALUE: u8 = 2;
/// Bit: a byte of a request target: visible ASCII but `#`, since no form of the target has a
/// fragment, and bytes beyond ASCII, which RFC 3986 does not allow and clients send nevertheless
/// (Apache and nginx accept them, too).
const TARGET: u8 = 4;
/// Bit: a byte of a host name: letters, digits, hyphen, dot, and the underscore that some names
/// have in spite of DNS.
const HOST: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || is_token_punctuation(b) {
            class[byte] |= TOKEN;
        }
        if b == b'\t' || (b >= b' ' && b != 0x7f) {
            class[byte] |= VALUE;
        }
        if (b.is_ascii_graphic() && b != b'#') || b >= 0x80 {
            class[byte] |= TARGET;
        }
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_') {
            class[byte] |= HOST;
        }
        byte += 1;
    }
    class
};

const fn is_token_punctuation(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    )
}

/// Returns the number of leading token bytes.
#[inline]
pub(crate) fn token_run(bytes: &[u8]) -> usize {
    run(bytes, TOKEN, word::token_stops)
}

/// Returns the number of leading field value bytes.
#[inline]
pub(crate) fn value_run(bytes: &[u8]) -> usize {
    run(bytes, VALUE, word::value_stops)
}

/// Returns the number of leading request target bytes.
#[inline]
pub(crate) fn target_run(bytes: &[u8]) -> usize {
    run(bytes, TARGET, word::target_stops)
}

/// Returns whether a host name may contain `byte`.
#[inline]
pub(crate) fn is_host(byte: u8) -> bool {
    CLASS[byte as usize] & HOST != 0
}

/// Returns whether `bytes` are a token, which has at least one byte.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_run(bytes) == bytes.len()
}

/// Returns whether `bytes` may be a field's value.
#[inline]
pub fn is_field_value(bytes: &[u8]) -> bool {
    value_run(bytes) == bytes.len()
}

/// Returns whether `byte` is the optional white space of RFC 9110 §5.6.3.
#[inline]
pub(crate) fn is_white(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns `bytes` without the optional white space on either side.
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_white(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_white(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Returns the number of a `1*DIGIT`. `None`: anything else, or a number of more than 64 bits.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Whole words first, then byte by byte. `stops` may mark more than the class excludes, never less,
/// so the table decides.
#[inline(always)]
fn run(bytes: &[u8], class: u8, stops: impl Fn(u64) -> u64) -> usize {
    let mut at = 0;
    while let Some(step) = bytes[at..].first_chunk::<8>() {
        let marks = stops(u64::from_le_bytes(*step));
        if marks == 0 {
            at += 8;
            continue;
        }
        let stopped = marks.trailing_zeros() as usize / 8;
        if CLASS[step[stopped] as usize] & class == 0 {
            return at + stopped;
        }
        at += stopped + 1;
    }
    // The last word again, as far as it was not covered: most short runs end there.
    if bytes
        .last_chunk::<8>()
        .is_some_and(|step| stops(u64::from_le_bytes(*step)) == 0)
    {
        return bytes.len();
    }
    while at < bytes.len() && CLASS[bytes[at] as usize] & class != 0 {
        at += 1;
    }
    at
}

/// Eight bytes at once in an ordinary register: SSE2 would take sixteen, but cannot be called
/// without `unsafe`.
///
/// Marks are in the high bit of each byte. Where a subtraction marks a byte, its borrow may mark
/// bytes above it falsely; the lowest mark is always true, and only that is used.
mod word {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    #[inline(always)]
    const fn all(byte: u8) -> u64 {
        ONES * byte as u64
    }

    /// Marks ASCII bytes below `limit`.
    #[inline(always)]
    fn below(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(all(limit)) & !word & HIGH
    }

    #[inline(always)]
    fn equal(word: u64, byte: u8) -> u64 {
        below(word ^ all(byte), 1)
    }

    /// Marks exactly the bytes from `low` to `high`, all ASCII, of a word of ASCII bytes: no carry
    /// leaves a byte.
    #[inline(always)]
    fn between(word: u64, low: u8, high: u8) -> u64 {
        (word + all(0x80 - low)) & !(word + all(0x7f - high)) & HIGH
    }

    /// Marks control bytes, the tab among them.
    #[inline(always)]
    pub fn value_stops(word: u64) -> u64 {
        below(word, b' ') | equal(word, 0x7f)
    }

    /// Marks control bytes, the space and `#`.
    #[inline(always)]
    pub fn target_stops(word: u64) -> u64 {
        below(word, b'!') | equal(word, 0x7f) | equal(word, b'#')
    }

    /// Marks all but letters, digits and hyphen, which is what field names are made of.
    #[inline(always)]
    pub fn token_stops(word: u64) -> u64 {
        let ascii = word & !HIGH;
        let common = between(ascii | all(0x20), b'a', b'z')
            | between(ascii, b'0', b'9')
            | between(ascii, b'-', b'-');
        (common ^ HIGH) | (word & HIGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value at every place of runs of every length around several steps.
    #[test]
    fn steps_of_eight_agree_with_the_table() {
        type Run = fn(&[u8]) -> usize;
        let runs: [(u8, Run); 3] = [(TOKEN, token_run), (VALUE, value_run), (TARGET, target_run)];
        for (class, run) in runs {
            for length in 0..40 {
                for place in 0..length {
                    for byte in 0..=255 {
                        let mut bytes = vec![b'a'; length];
                        bytes[place] = byte;
                        let expected = if CLASS[byte as usize] & class == 0 {
                            place
                        } else {
                            length
                        };
                        assert_eq!(
                            run(&bytes),
                            expected,
                            "class {class} byte {byte} at {place} of {length}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn no_byte_beyond_ascii_is_passed_in_a_step() {
        for byte in 0x80..=0xff {
            assert_eq!(token_run(&[byte; 16]), 0, "{byte}");
        }
    }

    /// The steps may mark too much without a wrong result. Then the bytes that heads are made of
    /// would be looked at one by one.
    #[test]
    fn common_bytes_are_passed_eight_at_a_step() {
        let word = |byte: u8| u64::from_le_bytes([byte; 8]);
        for byte in (b'a'..=b'z').chain(b'A'..=b'Z').chain(b'0'..=b'9').chain([b'-']) {
            assert_eq!(word::token_stops(word(byte)), 0, "token {byte}");
        }
        for byte in b' '..0x7f {
            assert_eq!(word::value_stops(word(byte)), 0, "value {byte}");
            if byte != b' ' && byte != b'#' {
                assert_eq!(word::target_stops(word(byte)), 0, "target {byte}");
            }
        }
    }

    #[test]
    fn classes_are_those_of_the_rfc() {
        let members = |class| {
            (0..=255u8)
                .filter(|&byte| CLASS[byte as usize] & class != 0)
                .collect::<Vec<u8>>()
        };
        let mut token =
            b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                .to_vec();
        token.sort_unstable();
        assert_eq!(members(TOKEN), token);
        assert_eq!(
            members(TARGET),
            (0x21..=0x7e)
                .filter(|byte| *byte != b'#')
                .chain(0x80..=0xff)
                .collect::<Vec<u8>>()
        );
        assert_eq!(
            members(VALUE),
            [9].into_iter().chain(0x20..=0x7e).chain(0x80..=0xff).collect::<Vec<u8>>()
        );
    }

    #[test]
    fn decimals() {
        let table: [(&str, Option<u64>); 9] = [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
            ("0x1", None),
        ];
        for (text, expected) in table {
            assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        }
    }
}
