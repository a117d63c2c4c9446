//! Filters for the content of responses.

use std::fmt;
use std::sync::Arc;

/// A filter at work on the content of a response. Output is appended to `out`; a filter may hold
/// input back until it gets more.
pub trait Transform: Send {
    /// Takes content from the front of `input` until `out` has [`OUTPUT`] bytes or more. Returns
    /// the number of bytes taken, at least 1 where there are any and `out` has room. The rest comes
    /// again when the output was taken away.
    ///
    /// # Errors
    /// Where the filter fails on the content.
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError>;
    /// Writes all output that is possible so far, as when a script flushes.
    ///
    /// # Errors
    /// Where the filter fails on the content.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError>;
    /// Writes the rest. Content may not be pushed afterwards.
    ///
    /// # Errors
    /// Where the filter fails on the content.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError>;
    /// Returns the bytes of memory that the filter holds, about, beside its output.
    fn memory(&self) -> usize;
}

/// Bytes of output at which a filter stops until they are taken away. It may go beyond them by what
/// one step makes: a line, or a block of a compressor.
pub const OUTPUT: usize = 64 * 1024;

/// The filter failed on the content: a line is longer than SubstituteMaxLineLength, or compressed
/// content is invalid. The response has to be cut off, as in Apache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformError(pub &'static str);

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TransformError {}

/// A filter that another module than mod_filter provides, with its configuration.
pub trait ContentFilter: fmt::Debug + Send + Sync {
    /// Begins a response.
    fn transform(self: Arc<Self>) -> Box<dyn Transform>;
}
