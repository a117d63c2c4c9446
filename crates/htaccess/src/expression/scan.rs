//! The scanner: from bytes to tokens, as in `util_expr_scan.l`.

use super::BadExpression;

/// A token and its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Digits, with a sign or not.
    Number(Vec<u8>),
    /// A name.
    Name(Vec<u8>),
    /// A piece of a string, escapes resolved.
    Text(Vec<u8>),
    /// `/…/` or `m#…#`, and whether `i` follows.
    Regex(Vec<u8>, bool),
    /// `$0` to `$9`.
    Group(u8),
    /// `-X`.
    Unary(u8),
    /// `-name`.
    Binary(Vec<u8>),
    /// Either end of a quoted string.
    Quote,
    /// `%{`.
    Open,
    /// The `}` of `%{`.
    Close,
    True,
    False,
    And,
    Or,
    Not,
    In,
    Matches,
    MatchesNot,
    Dot,
    /// A comparison of strings.
    Strings(ComparisonOrder),
    /// A comparison of numbers.
    Numbers(ComparisonOrder),
    /// One of `( ) { } , :`.
    Mark(u8),
}

/// The order that a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonOrder {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A piece of a string or a regular expression of this length is refused (`MAX_STRING_LEN`).
const LONGEST_PIECE: usize = 8192;

/// The construct that the next byte is part of.
#[derive(Clone, Copy, Debug)]
enum ScanState {
    Plain,
    /// A string up to this quote, or to the end of the text.
    Text(Option<u8>),
    /// `%{`, up to a colon or the end of it.
    Variable,
    /// The argument after the colon.
    Argument,
}

/// Returns the tokens of a condition, or else of a string.
///
/// # Errors
/// A byte begins no token, or a string, a pattern or a variable does not end.
pub(super) fn tokens(text: &[u8], is_condition: bool) -> Result<Vec<Token>, BadExpression> {
    let first = match is_condition {
        true => ScanState::Plain,
        false => ScanState::Text(None),
    };
    let mut scanner = Scanner {
        text,
        at: 0,
        states: vec![first],
        tokens: Vec::new(),
    };
    while scanner.at < text.len() {
        match scanner.state() {
            ScanState::Plain => scanner.plain()?,
            ScanState::Variable => scanner.variable()?,
            ScanState::Text(quote) => scanner.string(quote)?,
            ScanState::Argument => scanner.string(None)?,
        }
    }
    match scanner.state() {
        ScanState::Plain | ScanState::Text(None) => Ok(scanner.tokens),
        _ => scanner.fail("unterminated string or variable"),
    }
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    /// The states around the one at hand, which is the last.
    states: Vec<ScanState>,
    tokens: Vec<Token>,
}

impl Scanner<'_> {
    fn state(&self) -> ScanState {
        *self.states.last().expect("the first state is never left")
    }

    fn become_state(&mut self, state: ScanState) {
        *self.states.last_mut().expect("the first state is never left") = state;
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, BadExpression> {
        Err(BadExpression { message: message.into(), offset: self.at })
    }

    /// Appends a token of that length.
    fn push(&mut self, kind: TokenKind, length: usize) {
        self.tokens.push(Token { kind, at: self.at });
        self.at += length;
    }

    /// Returns the number of bytes from `from` on that are part of the token.
    fn run(&self, from: usize, mut is_part: impl FnMut(u8) -> bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        rest.iter().take_while(|&&byte| is_part(byte)).count()
    }

    fn plain(&mut self) -> Result<(), BadExpression> {
        let rest = &self.text[self.at..];
        match *rest {
            [b' ' | b'\t' | b'\n', ..] => self.at += 1,
            [quote @ (b'"' | b'\''), ..] => {
                self.push(TokenKind::Quote, 1);
                self.become_state(ScanState::Text(Some(quote)));
            }
            [b'%', b'{', ..] => {
                self.push(TokenKind::Open, 2);
                self.states.push(ScanState::Variable);
            }
            [b'$', digit @ b'0'..=b'9', ..] => self.push(TokenKind::Group(digit - b'0'), 2),
            [b'/', ..] => return self.regex(1),
            [b'm', delimiter, ..] if self.begins_regex(delimiter) => return self.regex(2),
            [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {
                let length = 1 + self.run(self.at + 1, |byte| byte.is_ascii_digit());
                self.push(TokenKind::Number(rest[..length].to_vec()), length);
            }
            [b'-', b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let length = 1 + self.run(self.at + 1, is_word);
                self.push(operator(&rest[1..length]), length);
            }
            [b'a'..=b'z' | b'A'..=b'Z', ..] => {
                let length = self.run(self.at, is_word);
                self.push(word(&rest[..length]), length);
            }
            _ => match symbol(rest) {
                Some((kind, length)) => self.push(kind, length),
                None => {
                    return self
                        .fail(format!("\"{}\" is not allowed here", rest[..1].escape_ascii()));
                }
            },
        }
        Ok(())
    }

    /// Returns whether `m` and this byte begin a regular expression, rather than a name.
    fn begins_regex(&self, delimiter: u8) -> bool {
        match delimiter {
            b'_' => self.run(self.at, is_word) == 2,
            _ => b"/#$%^,;:?|-!.'\"".contains(&delimiter),
        }
    }

    /// Scans a regular expression, whose text begins `skip` bytes later.
    fn regex(&mut self, skip: usize) -> Result<(), BadExpression> {
        let begin = self.at + skip;
        let delimiter = self.text[begin - 1];
        let Some(length) = memchr::memchr(delimiter, &self.text[begin..]) else {
            return self.fail("unterminated regular expression");
        };
        if length >= LONGEST_PIECE {
            return self.fail("the regular expression is too long");
        }
        let end = begin + length;
        let caseless = self.text.get(end + 1) == Some(&b'i');
        let regex = self.text[begin..end].to_vec();
        self.push(TokenKind::Regex(regex, caseless), skip + length + 1 + usize::from(caseless));
        Ok(())
    }

    /// Scans a name within `%{`, and its end.
    fn variable(&mut self) -> Result<(), BadExpression> {
        match self.text[self.at] {
            byte if byte.is_ascii_alphabetic() => {
                let length = self.run(self.at, is_word);
                let name = self.text[self.at..self.at + length].to_vec();
                self.push(TokenKind::Name(name), length);
            }
            b'}' => self.close(),
            b':' => {
                self.push(TokenKind::Mark(b':'), 1);
                self.become_state(ScanState::Argument);
            }
            byte => {
                let shown = [byte].escape_ascii().to_string();
                return self.fail(format!("\"{shown}\" is not allowed in a variable's name"));
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.push(TokenKind::Close, 1);
        self.states.pop();
    }

    /// Scans a piece of a string or of an argument, and its end.
    fn string(&mut self, quote: Option<u8>) -> Result<(), BadExpression> {
        let in_argument = matches!(self.state(), ScanState::Argument);
        let (begin, mut piece) = (self.at, Vec::new());
        loop {
            if piece.len() >= LONGEST_PIECE {
                return self.fail("the string is too long");
            }
            let ends = match self.text[self.at..] {
                [] => true,
                [b'\n', ..] => return self.fail("unterminated string or variable"),
                [b'%', b'{', ..] | [b'$', b'0'..=b'9', ..] => true,
                [b'}', ..] => in_argument,
                [b'"' | b'\'', ..] if in_argument => {
                    return self.fail("a quote is not allowed in an argument");
                }
                [byte @ (b'"' | b'\''), ..] => quote == Some(byte),
                _ => false,
            };
            if ends {
                break;
            }
            let byte = match self.text[self.at] {
                b'\\' => self.escape()?,
                byte => {
                    self.at += 1;
                    byte
                }
            };
            piece.push(byte);
        }
        if let Some(zero) = memchr::memchr(0, &piece) {
            piece.truncate(zero); // It is a string of C to Apache.
        }
        if self.at > begin {
            let kind = TokenKind::Text(piece);
            self.tokens.push(Token { kind, at: begin });
        }
        match self.text[self.at..] {
            [] => {}
            [b'%', ..] => {
                self.push(TokenKind::Open, 2);
                self.states.push(ScanState::Variable);
            }
            [b'$', digit, ..] => self.push(TokenKind::Group(digit - b'0'), 2),
            [b'}', ..] => self.close(),
            _ => {
                self.push(TokenKind::Quote, 1);
                self.become_state(ScanState::Plain);
            }
        }
        Ok(())
    }

    /// Returns the byte that a backslash and the bytes after it mean.
    fn escape(&mut self) -> Result<u8, BadExpression> {
        let digits = self.run(self.at + 1, |byte| byte.is_ascii_digit());
        if digits > 0 {
            let octal = &self.text[self.at + 1..self.at + 1 + digits];
            if digits > 3 || !octal.iter().all(|digit| matches!(digit, b'0'..=b'7')) {
                return self.fail("bad escape sequence");
            }
            let value = octal.iter().fold(0, |value, digit| value * 8 + u32::from(digit - b'0'));
            let Ok(byte) = u8::try_from(value) else {
                return self.fail("escape sequence out of bounds");
            };
            self.at += 1 + digits;
            return Ok(byte);
        }
        let Some(&byte) = self.text.get(self.at + 1) else {
            return self.fail("nothing follows the backslash");
        };
        self.at += 2;
        Ok(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'f' => 0x0c,
            byte => byte,
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `-name`, without the dash.
fn operator(name: &[u8]) -> TokenKind {
    match name {
        b"in" => TokenKind::In,
        [letter] => TokenKind::Unary(*letter),
        name => numbers(name).unwrap_or_else(|| TokenKind::Binary(name.to_vec())),
    }
}

/// Returns the token of a name without a dash. Names of operators are those of mod_ssl.
fn word(name: &[u8]) -> TokenKind {
    match name {
        b"true" => TokenKind::True,
        b"false" => TokenKind::False,
        b"and" => TokenKind::And,
        b"or" => TokenKind::Or,
        b"not" => TokenKind::Not,
        b"in" => TokenKind::In,
        name => numbers(name).unwrap_or_else(|| TokenKind::Name(name.to_vec())),
    }
}

fn numbers(name: &[u8]) -> Option<TokenKind> {
    Some(TokenKind::Numbers(match name {
        b"eq" => ComparisonOrder::Equal,
        b"ne" => ComparisonOrder::NotEqual,
        b"lt" => ComparisonOrder::Less,
        b"le" => ComparisonOrder::LessOrEqual,
        b"gt" => ComparisonOrder::Greater,
        b"ge" => ComparisonOrder::GreaterOrEqual,
        _ => return None,
    }))
}

/// Returns the longest symbol at the beginning, and its length.
fn symbol(rest: &[u8]) -> Option<(TokenKind, usize)> {
    Some(match rest {
        [b'=', b'=', ..] => (TokenKind::Strings(ComparisonOrder::Equal), 2),
        [b'=', b'~', ..] => (TokenKind::Matches, 2),
        [b'=', ..] => (TokenKind::Strings(ComparisonOrder::Equal), 1),
        [b'!', b'=', ..] => (TokenKind::Strings(ComparisonOrder::NotEqual), 2),
        [b'!', b'~', ..] => (TokenKind::MatchesNot, 2),
        [b'!', ..] => (TokenKind::Not, 1),
        [b'<', b'=', ..] => (TokenKind::Strings(ComparisonOrder::LessOrEqual), 2),
        [b'<', ..] => (TokenKind::Strings(ComparisonOrder::Less), 1),
        [b'>', b'=', ..] => (TokenKind::Strings(ComparisonOrder::GreaterOrEqual), 2),
        [b'>', ..] => (TokenKind::Strings(ComparisonOrder::Greater), 1),
        [b'&', b'&', ..] => (TokenKind::And, 2),
        [b'|', b'|', ..] => (TokenKind::Or, 2),
        [b'.', ..] => (TokenKind::Dot, 1),
        [mark @ (b'(' | b')' | b'{' | b'}' | b',' | b':'), ..] => (TokenKind::Mark(*mark), 1),
        _ => return None,
    })
}
