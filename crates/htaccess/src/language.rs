//! From bytes to items: lines, continuation, comments, words and nested sections.

/// One directive or section, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name as it was written, without `<`.
    pub name: Box<str>,
    /// The rest, continuation lines joined, without white space at either end; of a section without the final `>`.
    pub raw: Box<[u8]>,
    /// From 1: the first line of it.
    pub line: u32,
    /// From 1, in bytes: where the name starts.
    pub column: u32,
    /// What a section holds; `None` for a directive.
    pub items: Option<Vec<Item>>,
}
