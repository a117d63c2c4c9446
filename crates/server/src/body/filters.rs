//! The filters that content passes on its way out: they compress it, or replace text in it.

use howdah_files::CacheableCoding;
use howdah_htaccess::modules::filter::{Filter, Transform, TransformError};

/// A chain of filters. Each gets the output of the one before it.
pub(super) struct Chain {
    steps: Vec<Box<dyn Transform>>,
    /// The output of one filter and the input of the next.
    between: [Vec<u8>; 2],
    has_patterns: bool,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// The step that the chain performs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainAction {
    Push,
    Flush,
    Finish,
}

impl Chain {
    pub(super) fn new(filters: &[Filter]) -> Chain {
        Chain {
            steps: filters.iter().map(Filter::transform).collect(),
            between: Default::default(),
            has_patterns: filters.iter().any(|filter| matches!(filter, Filter::Substitute(_))),
        }
    }

    /// Returns whether a filter of the chain matches patterns, which may take long for few bytes.
    pub(super) fn has_patterns(&self) -> bool {
        self.has_patterns
    }

    /// Takes more content and appends the output of the last filter.
    ///
    /// # Errors
    /// A filter failed.
    pub(super) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.run(input, ChainAction::Push, out)
    }

    /// Flushes the filters: appends all output that the content so far allows.
    ///
    /// # Errors
    /// As [`push`](Chain::push).
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.run(b"", ChainAction::Flush, out)
    }

    /// Ends the content and appends the rest of the output.
    ///
    /// # Errors
    /// As [`push`](Chain::push).
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.run(b"", ChainAction::Finish, out)
    }

    fn run(
        &mut self,
        input: &[u8],
        action: ChainAction,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        let [from, to] = &mut self.between;
        from.clear();
        from.extend_from_slice(input);
        for step in &mut self.steps {
            to.clear();
            if !from.is_empty() {
                step.push(from, to)?;
            }
            match action {
                ChainAction::Push => {}
                ChainAction::Flush => step.flush(to)?,
                ChainAction::Finish => step.finish(to)?,
            }
            std::mem::swap(from, to);
        }
        out.extend_from_slice(from);
        Ok(())
    }
}

/// Returns the content coding that these filters produce. `None`: their output depends on more than
/// the content.
pub(crate) fn coding(filters: &[Filter]) -> Option<CacheableCoding> {
    match filters {
        [Filter::Deflate] => Some(CacheableCoding::Gzip),
        [Filter::Brotli] => Some(CacheableCoding::Brotli),
        [Filter::Zstandard] => Some(CacheableCoding::Zstandard),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(filters: &[Filter], parts: &[&[u8]]) -> Vec<u8> {
        let (mut chain, mut out) = (Chain::new(filters), Vec::new());
        for part in parts {
            chain.push(part, &mut out).unwrap();
            chain.flush(&mut out).unwrap();
        }
        chain.finish(&mut out).unwrap();
        out
    }

    #[test]
    fn filters_one_behind_the_other() {
        let content = b"one two three ".repeat(1000);
        let packed = through(&[Filter::Deflate], &[&content]);
        assert!(packed.len() < content.len() / 5 && packed.starts_with(&[0x1f, 0x8b]));
        assert_eq!(through(&[Filter::Deflate, Filter::Inflate], &[&content]), content);
        assert_eq!(through(&[Filter::Inflate], &[&packed]), content);
        assert_eq!(through(&[Filter::Deflate, Filter::Inflate], &[b"a", b"", b"b"]), b"ab");
        assert_eq!(through(&[], &[b"a", b"b"]), b"ab");
    }
}
