//! The tree that an expression is compiled to.

use super::functions::Function;
use super::scan::Order;
use super::variables::Variable;
use crate::network::Subnet;
use crate::pattern::Pattern;

/// A condition, which holds or does not.
#[derive(Debug)]
pub(super) enum Condition {
    Constant(bool),
    Not(Box<Condition>),
    /// Alternatives: the first that holds decides.
    Any(Vec<Condition>),
    /// A conjunction: the first that does not hold decides.
    All(Vec<Condition>),
    /// `==` and its like: bytes.
    Strings(Order, Word, Word),
    /// `-eq` and its like: integers.
    Numbers(Order, Word, Word),
    /// `-in {…}`.
    OneOf(Word, Vec<Word>),
    /// `=~`.
    Matches(Word, Box<Pattern>),
    /// `-ipmatch`.
    InNetwork(Word, Subnet),
    /// `-R`.
    ClientIn(Subnet),
    /// `-fnmatch`, `-strmatch`, `-strcmatch`: the word, and the shell's pattern.
    Shell(Shell, Word, Word),
    /// `-n`, `-d` and their like.
    Is(Test, Word),
}

/// A test of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// `-n`
    NotEmpty,
    /// `-z`
    Empty,
    /// `-T`: none of the empty string, `0`, `off`, `false`, `no`.
    True,
    /// `-d`
    Directory,
    /// `-e`
    Exists,
    /// `-f`
    File,
    /// `-s`
    FileNotEmpty,
    /// `-L`, `-h`
    Link,
    /// `-x`
    Executable,
    /// `-F`
    AccessibleFile,
    /// `-U`, `-A`
    AccessibleUrl,
}

/// The way that the shell's pattern is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    /// `-fnmatch`: a slash is matched by a slash only.
    Path,
    /// `-strmatch`
    Text,
    /// `-strcmatch`: letters in both cases.
    Caseless,
}

/// A word, which has bytes as its value.
#[derive(Debug)]
pub(super) enum Word {
    Text(Box<[u8]>),
    /// Digits without quotes.
    Number(Box<[u8]>),
    Variable(Variable),
    Call(Function, Box<Word>),
    /// `$0` to `$9`
    Group(u8),
    /// A concatenation.
    Joined(Vec<Word>),
}
