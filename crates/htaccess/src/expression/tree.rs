//! The tree that an expression is compiled to.

use super::functions::Function;
use super::scan::ComparisonOrder;
use super::variables::ExpressionVariable;
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
    Strings(ComparisonOrder, ExpressionWord, ExpressionWord),
    /// `-eq` and its like: integers.
    Numbers(ComparisonOrder, ExpressionWord, ExpressionWord),
    /// `-in {…}`.
    OneOf(ExpressionWord, Vec<ExpressionWord>),
    /// `=~`.
    Matches(ExpressionWord, Box<Pattern>),
    /// `-ipmatch`.
    InNetwork(ExpressionWord, Subnet),
    /// `-R`.
    ClientIn(Subnet),
    /// `-fnmatch`, `-strmatch`, `-strcmatch`: the word, and the shell's pattern.
    Shell(Shell, ExpressionWord, ExpressionWord),
    /// `-n`, `-d` and their like.
    Is(WordTest, ExpressionWord),
}

/// A test of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordTest {
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
pub(super) enum ExpressionWord {
    Text(Box<[u8]>),
    /// Digits without quotes.
    Number(Box<[u8]>),
    Variable(ExpressionVariable),
    Call(Function, Box<ExpressionWord>),
    /// `$0` to `$9`
    Group(u8),
    /// A concatenation.
    Joined(Vec<ExpressionWord>),
}
