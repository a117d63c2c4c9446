//! A script's question for the state of its pool (`fpm_get_status()`), and the answer. A pool may
//! have more workers than their state has room for in a slot, therefore the answer comes in pieces.

/// The question for a piece of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStateQuestion {
    /// The first worker of the piece. With 0 begins the whole text, before any worker.
    pub first: usize,
}

/// A piece of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatePiece<'a> {
    /// The first worker of the next piece; `None` for the last piece.
    pub next: Option<usize>,
    /// A part of the JSON, which the pieces are together.
    pub json: &'a [u8],
}

/// Bytes of a piece after which no further worker is added.
pub const FULL_PIECE: usize = 128 * 1024;

/// The beginning of the question. No question for a URI has it.
const PREFIX: &str = "fpm_get_status ";

impl PoolStateQuestion {
    /// Encodes the question.
    pub fn encode(self) -> Vec<u8> {
        format!("{PREFIX}{}", self.first).into_bytes()
    }

    /// Decodes a question. `None` for another one.
    pub fn decode(question: &[u8]) -> Option<PoolStateQuestion> {
        let first = question.strip_prefix(PREFIX.as_bytes())?;
        Some(PoolStateQuestion { first: number(first)? })
    }
}

impl<'a> PoolStatePiece<'a> {
    /// Encodes the piece.
    pub fn encode(&self) -> Vec<u8> {
        let next = self.next.map(|next| next.to_string()).unwrap_or_default();
        [next.as_bytes(), b"\n", self.json].concat()
    }

    /// Decodes a piece. `None` for an answer that [`PoolStatePiece::encode`] has not made.
    pub fn decode(answer: &'a [u8]) -> Option<PoolStatePiece<'a>> {
        let end = answer.iter().position(|byte| *byte == b'\n')?;
        let next = match &answer[..end] {
            b"" => None,
            next => Some(number(next)?),
        };
        Some(PoolStatePiece { next, json: &answer[end + 1..] })
    }
}

fn number(text: &[u8]) -> Option<usize> {
    str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_survives_the_trip() {
        let asked = PoolStateQuestion { first: 77 };
        assert_eq!(PoolStateQuestion::decode(&asked.encode()), Some(asked));
        for wrong in ["", "fpm_get_status", "fpm_get_status x", "http\0h\0/\0"] {
            assert_eq!(PoolStateQuestion::decode(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_piece_survives_the_trip() {
        for next in [None, Some(1023)] {
            let piece = PoolStatePiece { next, json: b"{\"a\":\n1" };
            assert_eq!(PoolStatePiece::decode(&piece.encode()), Some(piece));
        }
        for wrong in ["", "7", "x\n{"] {
            assert_eq!(PoolStatePiece::decode(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
