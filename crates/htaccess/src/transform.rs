//! Filters for the content of responses.

use std::fmt;
use std::sync::Arc;

/// A filter at work on the content of a response. Output is appended to `out`; a filter may hold
/// input back until it gets more.
pub trait Transform: Send {
    /// Takes more content.
    ///
    /// # Errors
    /// Where the filter fails on the content.
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError>;
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
}

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
