//! Content on its way through a filter.

use std::fmt;
use std::sync::Arc;

/// Content on its way through a filter. What comes out is appended to `out`; a filter may keep what
/// it got until it gets more.
pub trait Transform: Send {
    /// Takes more content.
    fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Broken>;
    /// Gives what can be shown of the content so far, as when a script flushes.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Broken>;
    /// Gives the rest. Nothing may be pushed after it.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken>;
}

/// The content cannot be brought through the filter: a line longer than SubstituteMaxLineLength,
/// compressed content that is none. The response has to be cut off, as Apache does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken(pub &'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

/// A filter that another module than mod_filter provides, with its configuration.
pub trait ContentFilter: fmt::Debug + Send + Sync {
    /// Begins a response.
    fn transform(self: Arc<Self>) -> Box<dyn Transform>;
}
