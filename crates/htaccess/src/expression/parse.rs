//! The parser: from tokens to a tree, as in `util_expr_parse.y`: `||` binds least, then `&&`, then
//! `!`, then the dot.

use super::BadExpression;
use super::functions::Function;
use super::scan::{Token, TokenKind, tokens};
use super::tree::{Condition, ExpressionWord, Shell, WordTest};
use super::variables::ExpressionVariable;
use crate::network::Subnet;
use crate::pattern::Pattern;

/// The depth of parentheses and functions; deeper ones are refused. (Apache evaluates no more than
/// 20 anyway.)
const DEEPEST: usize = 100;

/// Parses a condition, such as that of `<If>`.
///
/// # Errors
/// The text is no condition, or is nested too deeply.
pub(super) fn condition(text: &[u8]) -> Result<Condition, BadExpression> {
    let mut parser = ExpressionParser::new(text, tokens(text, true)?);
    let condition = parser.any(0)?;
    parser.end()?;
    Ok(condition)
}

/// Parses a string expression, such as that of `expr=`.
///
/// # Errors
/// The text is no string expression, or is nested too deeply.
pub(super) fn string(text: &[u8]) -> Result<ExpressionWord, BadExpression> {
    let mut parser = ExpressionParser::new(text, tokens(text, false)?);
    let word = parser.pieces(0)?;
    parser.end()?;
    Ok(word)
}

struct ExpressionParser {
    tokens: Vec<Token>,
    next: usize,
    /// The end of the text.
    end: usize,
}

type ParseResult<T> = Result<T, BadExpression>;

impl ExpressionParser {
    fn new(text: &[u8], tokens: Vec<Token>) -> ExpressionParser {
        ExpressionParser { tokens, next: 0, end: text.len() }
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    /// The offset of the next token.
    fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    fn take(&mut self) -> Option<TokenKind> {
        let kind = self.tokens.get(self.next)?.kind.clone();
        self.next += 1;
        Some(kind)
    }

    fn take_if(&mut self, kind: &TokenKind) -> bool {
        let is = self.peek() == Some(kind);
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, kind: &TokenKind, what: &str) -> ParseResult<()> {
        match self.take_if(kind) {
            true => Ok(()),
            false => self.fail(format!("{what} is expected here")),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        Err(fault(self.place(), message))
    }

    fn end(&self) -> ParseResult<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail("nothing is expected here"),
        }
    }

    fn deeper(&self, depth: usize) -> ParseResult<usize> {
        match depth < DEEPEST {
            true => Ok(depth + 1),
            false => self.fail("the expression is nested too deeply"),
        }
    }

    /// Conditions with `||` between them.
    fn any(&mut self, depth: usize) -> ParseResult<Condition> {
        let mut conditions = vec![self.all(depth)?];
        while self.take_if(&TokenKind::Or) {
            conditions.push(self.all(depth)?);
        }
        Ok(match conditions.len() {
            1 => conditions.remove(0),
            _ => Condition::Any(conditions),
        })
    }

    /// Conditions with `&&` between them.
    fn all(&mut self, depth: usize) -> ParseResult<Condition> {
        let mut conditions = vec![self.one(depth)?];
        while self.take_if(&TokenKind::And) {
            conditions.push(self.one(depth)?);
        }
        Ok(match conditions.len() {
            1 => conditions.remove(0),
            _ => Condition::All(conditions),
        })
    }

    fn one(&mut self, depth: usize) -> ParseResult<Condition> {
        let mut negated = false;
        while self.take_if(&TokenKind::Not) {
            negated = !negated;
        }
        let condition = match self.peek() {
            Some(TokenKind::True) => self.constant(true),
            Some(TokenKind::False) => self.constant(false),
            Some(TokenKind::Mark(b'(')) => {
                let depth = self.deeper(depth)?;
                self.next += 1;
                let condition = self.any(depth)?;
                self.expect(&TokenKind::Mark(b')'), "\")\"")?;
                condition
            }
            Some(&TokenKind::Unary(letter)) => self.test(letter, depth)?,
            _ => self.comparison(depth)?,
        };
        Ok(match negated {
            true => Condition::Not(Box::new(condition)),
            false => condition,
        })
    }

    fn constant(&mut self, value: bool) -> Condition {
        self.next += 1;
        Condition::Constant(value)
    }

    /// `-X word`.
    fn test(&mut self, letter: u8, depth: usize) -> ParseResult<Condition> {
        let place = self.place();
        self.next += 1;
        let word = self.word(depth)?;
        let test = match letter {
            b'n' => WordTest::NotEmpty,
            b'z' => WordTest::Empty,
            b'T' => WordTest::True,
            b'd' => WordTest::Directory,
            b'e' => WordTest::Exists,
            b'f' => WordTest::File,
            b's' => WordTest::FileNotEmpty,
            b'L' | b'h' => WordTest::Link,
            b'x' => WordTest::Executable,
            b'F' => WordTest::AccessibleFile,
            b'U' | b'A' => WordTest::AccessibleUrl,
            b'R' => return Ok(Condition::ClientIn(subnet("-R", &word, place)?)),
            letter => {
                let message = format!("there is no test \"-{}\"", char::from(letter));
                return Err(fault(place, message));
            }
        };
        Ok(Condition::Is(test, word))
    }

    /// `word operator …`.
    fn comparison(&mut self, depth: usize) -> ParseResult<Condition> {
        let word = self.word(depth)?;
        let place = self.place();
        Ok(match self.take() {
            Some(TokenKind::Strings(order)) => Condition::Strings(order, word, self.word(depth)?),
            Some(TokenKind::Numbers(order)) => Condition::Numbers(order, word, self.word(depth)?),
            Some(TokenKind::Matches) => Condition::Matches(word, self.regex()?),
            Some(TokenKind::MatchesNot) => {
                Condition::Not(Box::new(Condition::Matches(word, self.regex()?)))
            }
            Some(TokenKind::In) => Condition::OneOf(word, self.list(depth)?),
            Some(TokenKind::Binary(name)) => {
                let other = self.word(depth)?;
                match name.to_ascii_lowercase().as_slice() {
                    b"ipmatch" => Condition::InNetwork(word, subnet("-ipmatch", &other, place)?),
                    b"fnmatch" => Condition::Shell(Shell::Path, word, other),
                    b"strmatch" => Condition::Shell(Shell::Text, word, other),
                    b"strcmatch" => Condition::Shell(Shell::Caseless, word, other),
                    _ => {
                        let message = format!("there is no operator \"-{}\"", name.escape_ascii());
                        return Err(fault(place, message));
                    }
                }
            }
            _ => return Err(fault(place, "an operator is expected here")),
        })
    }

    fn regex(&mut self) -> ParseResult<Box<Pattern>> {
        let place = self.place();
        match self.take() {
            Some(TokenKind::Regex(text, caseless)) => match Pattern::new(&text, caseless) {
                Ok(pattern) => Ok(Box::new(pattern)),
                Err(bad) => Err(fault(place, format!("the regular expression is wrong: {bad}"))),
            },
            _ => Err(fault(place, "a regular expression is expected here")),
        }
    }

    /// `{ word, … }`. Functions that give lists are other modules' in Apache, and there is none
    /// here.
    fn list(&mut self, depth: usize) -> ParseResult<Vec<ExpressionWord>> {
        let place = self.place();
        if let Some(TokenKind::Name(name)) = self.peek() {
            let message =
                format!("there is no function \"{}\" that gives a list", name.escape_ascii());
            return Err(fault(place, message));
        }
        self.expect(&TokenKind::Mark(b'{'), "\"{\"")?;
        let mut words = vec![self.word(depth)?];
        while self.take_if(&TokenKind::Mark(b',')) {
            words.push(self.word(depth)?);
        }
        self.expect(&TokenKind::Mark(b'}'), "\"}\"")?;
        Ok(words)
    }

    /// Words with dots between them.
    fn word(&mut self, depth: usize) -> ParseResult<ExpressionWord> {
        let mut words = vec![self.single(depth)?];
        while self.take_if(&TokenKind::Dot) {
            words.push(self.single(depth)?);
        }
        Ok(joined(words))
    }

    fn single(&mut self, depth: usize) -> ParseResult<ExpressionWord> {
        let place = self.place();
        match self.take() {
            Some(TokenKind::Number(digits)) => Ok(ExpressionWord::Number(digits.into())),
            Some(TokenKind::Group(number)) => Ok(ExpressionWord::Group(number)),
            Some(TokenKind::Open) => self.variable(depth, place),
            Some(TokenKind::Quote) => {
                let word = self.pieces(depth)?;
                self.expect(&TokenKind::Quote, "the end of the string")?;
                Ok(word)
            }
            Some(TokenKind::Name(name)) => {
                let depth = self.deeper(depth)?;
                self.expect(&TokenKind::Mark(b'('), "\"(\"")?;
                let argument = self.word(depth)?;
                self.expect(&TokenKind::Mark(b')'), "\")\"")?;
                call(&name, argument, place)
            }
            _ => Err(fault(place, "a word is expected here")),
        }
    }

    /// After `%{`.
    fn variable(&mut self, depth: usize, place: usize) -> ParseResult<ExpressionWord> {
        let Some(TokenKind::Name(name)) = self.take() else {
            return Err(fault(place, "a variable's name is expected here"));
        };
        if self.take_if(&TokenKind::Close) {
            return match ExpressionVariable::named(&name) {
                Some(variable) => Ok(ExpressionWord::Variable(variable)),
                None => {
                    Err(fault(place, format!("there is no variable \"{}\"", name.escape_ascii())))
                }
            };
        }
        self.expect(&TokenKind::Mark(b':'), "\":\" or \"}\"")?;
        if self.peek() == Some(&TokenKind::Close) {
            return self.fail("an argument is expected here");
        }
        let depth = self.deeper(depth)?;
        let argument = self.pieces(depth)?;
        self.expect(&TokenKind::Close, "\"}\"")?;
        call(&name, argument, place)
    }

    /// Parses the parts of a string.
    fn pieces(&mut self, depth: usize) -> ParseResult<ExpressionWord> {
        let mut words = Vec::new();
        loop {
            let place = self.place();
            match self.peek() {
                Some(TokenKind::Text(text)) => {
                    words.push(ExpressionWord::Text(text[..].into()));
                    self.next += 1;
                }
                Some(&TokenKind::Group(number)) => {
                    words.push(ExpressionWord::Group(number));
                    self.next += 1;
                }
                Some(TokenKind::Open) => {
                    self.next += 1;
                    words.push(self.variable(depth, place)?);
                }
                _ => return Ok(joined(words)),
            }
        }
    }
}

fn fault(offset: usize, message: impl Into<String>) -> BadExpression {
    BadExpression { message: message.into(), offset }
}

fn call(name: &[u8], argument: ExpressionWord, place: usize) -> ParseResult<ExpressionWord> {
    match Function::named(name) {
        Ok(function) => Ok(ExpressionWord::Call(function, Box::new(argument))),
        Err(message) => Err(fault(place, message)),
    }
}

fn joined(mut words: Vec<ExpressionWord>) -> ExpressionWord {
    match words.len() {
        0 => ExpressionWord::Text([].into()),
        1 => words.remove(0),
        _ => ExpressionWord::Joined(words),
    }
}

/// Returns the network that a constant string names.
fn subnet(operator: &str, word: &ExpressionWord, place: usize) -> ParseResult<Subnet> {
    let ExpressionWord::Text(text) = word else {
        let message = format!("{operator} takes an address or a network as a string in quotes");
        return Err(fault(place, message));
    };
    Subnet::new(text)
        .map_err(|_| fault(place, format!("\"{}\" is no address or network", text.escape_ascii())))
}
