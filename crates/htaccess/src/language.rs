//! The syntax of `.htaccess`: from bytes to items, as `ap_build_config` reads them. Lines,
//! continuation, comments, words and nested sections.
//!
//! Apache decides about `<IfModule>` and its like while it reads. Of a section that does not apply
//! only the tags are read; the content of one that applies is read as if the tags were not there.
//! Therefore the caller gives the answers, as [`Conditions`], and the items contain no such
//! sections.

mod lines;
mod parser;
#[cfg(any(test, fuzzing))]
pub mod properties;
#[cfg(test)]
mod tests;
mod words;

pub use lines::{Lines, LogicalLine, locate};
pub use words::{Word, word, words};

pub(crate) use words::{has_word, is_space};

/// One directive or section, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name as it was written; of a section with `<`, without `>`.
    pub name: Box<str>,
    /// The rest, continuation lines joined, without white space at either end; of a section with
    /// the final `>`.
    pub raw: Box<[u8]>,
    /// The line of the name, from 1.
    pub line: u32,
    /// The column of the name in bytes, from 1.
    pub column: u32,
    /// The offset of its first line in the file, and the line's number.
    pub(crate) start: (usize, u32),
    /// The offset of `raw` in the joined line; `None` where variables were replaced, which moves
    /// the text.
    pub(crate) raw_at: Option<usize>,
    /// The items of a section; `None` for a directive.
    pub items: Option<Vec<Item>>,
}

/// The questions that [`parse`] asks while it reads.
pub trait Conditions {
    /// Returns whether the content of a section like `<IfModule>` counts: `None` if `section` is
    /// not one that is decided while reading, an error if its arguments are wrong.
    fn decide(&mut self, section: &Item) -> Option<Result<bool, String>>;

    /// Returns the value of `${name}`; `None` leaves the text as it is.
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;
}

/// The items of a file, and its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Directives and sections, in order.
    pub items: Vec<Item>,
    /// The faults at which Apache would give up. Apache reports the first only; parsing goes on
    /// after each.
    pub faults: Vec<SyntaxError>,
    /// Text that Apache accepts silently though it cannot be intended.
    pub doubts: Vec<SyntaxError>,
}

/// A mistake of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: u32,
    /// The column in bytes, from 1.
    pub column: u32,
    /// The message, in Apache's words where Apache has one.
    pub message: String,
    /// The remedy.
    pub hint: Option<&'static str>,
}

/// Bytes of the longest line, its continuation lines and its end included: what Apache's buffer for
/// a `.htaccess` holds. A longer line is a mistake.
pub const LONGEST_LINE: usize = 8192;

/// The depth to which sections may be nested. A deeper section is a mistake. Apache has no limit
/// but its stack.
pub const DEEPEST: usize = 100;

/// Reads a file.
pub fn parse(source: &[u8], conditions: &mut dyn Conditions) -> Parsed {
    parser::Parser::new(source, conditions).run()
}
