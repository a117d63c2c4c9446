//! The filters that content passes on its way out: they compress it, or replace text in it.

use howdah_htaccess::modules::filter::{Filter, OUTPUT, Transform, TransformError};
use howdah_site::ContentCoding;

/// A chain of filters. Each gets the output of the one before it.
///
/// A few bytes may become gigabytes in a filter. Therefore none works on while its output waits:
/// the last filter that has something to do works first, and the chain stops as soon as there is
/// output to be taken away.
pub(super) struct FilterChain {
    steps: Vec<ChainStep>,
}

/// A filter, and what waits for it.
struct ChainStep {
    transform: Box<dyn Transform>,
    input: Vec<u8>,
    /// Bytes of `input` that the filter has taken.
    taken: usize,
    /// The step that follows the input.
    then: Option<ChainAction>,
}

impl std::fmt::Debug for FilterChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterChain")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

/// The step that the chain performs behind the content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainAction {
    Flush,
    Finish,
}

impl FilterChain {
    /// Begins a response. There is one filter at least.
    pub(super) fn new(filters: &[Filter]) -> FilterChain {
        let step = |filter: &Filter| ChainStep {
            transform: filter.transform(),
            input: Vec::new(),
            taken: 0,
            then: None,
        };
        FilterChain {
            steps: filters.iter().map(step).collect(),
        }
    }

    /// Gives the filters more content, for [`advance`](FilterChain::advance).
    pub(super) fn push(&mut self, input: &[u8]) {
        if let Some(first) = self.steps.first_mut() {
            first.input.extend_from_slice(input);
        }
    }

    /// Makes the filters give out all output that the content so far allows.
    pub(super) fn flush(&mut self) {
        if let Some(first) = self.steps.first_mut() {
            first.then.get_or_insert(ChainAction::Flush);
        }
    }

    /// Ends the content.
    pub(super) fn finish(&mut self) {
        if let Some(first) = self.steps.first_mut() {
            first.then = Some(ChainAction::Finish);
        }
    }

    /// Returns whether [`advance`](FilterChain::advance) has something to do.
    pub(super) fn has_work(&self) -> bool {
        self.steps.iter().any(ChainStep::has_work)
    }

    /// Works until `out` has [`OUTPUT`] bytes or more, or nothing is left to do, or the filters
    /// have made a few times as much for one another.
    ///
    /// # Errors
    /// A filter failed.
    pub(super) fn advance(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        let mut between = 0;
        while out.len() < OUTPUT
            && between < MOST_BETWEEN
            && let Some(at) = self.steps.iter().rposition(ChainStep::has_work)
        {
            match &mut self.steps[at..] {
                [last] => {
                    last.work(out)?;
                }
                [step, next, ..] => {
                    if let Some(then) = step.work(&mut next.input)? {
                        next.then = Some(then);
                    }
                    between += next.input.len();
                }
                [] => {}
            }
        }
        Ok(())
    }

    /// Returns the bytes of memory that the filters hold, about.
    pub(super) fn memory(&self) -> usize {
        self.steps
            .iter()
            .map(|step| step.transform.memory() + step.input.capacity())
            .sum()
    }
}

impl ChainStep {
    fn has_work(&self) -> bool {
        self.taken < self.input.len() || self.then.is_some()
    }

    /// Takes some of the input, or does what follows it. Returns what the next filter has to do
    /// then.
    fn work(&mut self, out: &mut Vec<u8>) -> Result<Option<ChainAction>, TransformError> {
        if self.taken < self.input.len() {
            self.taken += self.transform.push(&self.input[self.taken..], out)?;
            if self.taken == self.input.len() {
                self.taken = 0;
                self.input.clear();
                self.input.shrink_to(OUTPUT);
            }
            return Ok(None);
        }
        let then = self.then.take();
        match then {
            Some(ChainAction::Flush) => self.transform.flush(out)?,
            Some(ChainAction::Finish) => self.transform.finish(out)?,
            None => {}
        }
        Ok(then)
    }
}

/// Bytes that filters of a chain make for one another in one turn: compressing them takes some
/// milliseconds.
const MOST_BETWEEN: usize = 2 * OUTPUT;

/// Returns whether one of the filters may take long for `length` bytes of content: one with
/// patterns for few bytes, and Brotli, which compares each byte with those before it, for a page.
pub(super) fn are_slow(filters: &[Filter], length: usize) -> bool {
    filters.iter().any(|filter| match filter {
        Filter::Substitute(_) => true,
        Filter::Brotli => length > FEW_FOR_BROTLI,
        _ => false,
    })
}

/// Bytes that Brotli compresses in two milliseconds, if they are digits. It takes a tenth of that
/// for usual text.
const FEW_FOR_BROTLI: usize = 4 * 1024;

/// Returns the bytes of memory that a response with these filters takes, about.
pub(super) fn usual_memory(filters: &[Filter]) -> usize {
    filters.iter().map(Filter::memory).sum::<usize>() + SLACK
}

/// The buffers of a response with filters, and lines of some length.
pub(super) const SLACK: usize = 256 * 1024;

/// Returns the content coding that these filters produce. `None`: their output depends on more than
/// the content.
pub(crate) fn coding(filters: &[Filter]) -> Option<ContentCoding> {
    match filters {
        [Filter::Deflate] => Some(ContentCoding::Gzip),
        [Filter::Brotli] => Some(ContentCoding::Brotli),
        [Filter::Zstandard] => Some(ContentCoding::Zstandard),
        _ => None,
    }
}

/// Returns the filter that produces a coding.
pub(crate) fn compressor(coding: ContentCoding) -> Filter {
    match coding {
        ContentCoding::Gzip => Filter::Deflate,
        ContentCoding::Brotli => Filter::Brotli,
        ContentCoding::Zstandard => Filter::Zstandard,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use howdah_htaccess::modules::filter::{ContentFilter, InflateLimits};

    use super::*;

    /// The output, and the most bytes of it at a time.
    fn through(filters: &[Filter], parts: &[&[u8]]) -> Result<(Vec<u8>, usize), TransformError> {
        let (mut chain, mut all, mut most) = (FilterChain::new(filters), Vec::new(), 0);
        let mut take = |chain: &mut FilterChain| {
            while chain.has_work() {
                let mut out = Vec::new();
                chain.advance(&mut out)?;
                most = most.max(out.len()).max(chain.memory());
                all.append(&mut out);
            }
            Ok(())
        };
        for part in parts {
            chain.push(part);
            take(&mut chain)?;
            chain.flush();
            take(&mut chain)?;
        }
        chain.finish();
        take(&mut chain)?;
        Ok((all, most))
    }

    fn content(filters: &[Filter], parts: &[&[u8]]) -> Vec<u8> {
        through(filters, parts).unwrap().0
    }

    #[test]
    fn filters_one_behind_the_other() {
        let text = b"one two three ".repeat(1000);
        let packed = content(&[Filter::Deflate], &[&text]);
        assert!(packed.len() < text.len() / 5 && packed.starts_with(&[0x1f, 0x8b]));
        assert_eq!(
            content(&[Filter::Deflate, Filter::Inflate(InflateLimits::default())], &[&text]),
            text
        );
        assert_eq!(content(&[Filter::Inflate(InflateLimits::default())], &[&packed]), text);
        assert_eq!(
            content(
                &[Filter::Deflate, Filter::Inflate(InflateLimits::default())],
                &[b"a", b"", b"b"]
            ),
            b"ab"
        );
    }

    /// Doubles every byte.
    #[derive(Debug)]
    struct Twice;

    impl ContentFilter for Twice {
        fn transform(self: Arc<Self>) -> Box<dyn Transform> {
            Box::new(Twice)
        }
    }

    impl Transform for Twice {
        fn push(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, TransformError> {
            let taken = input.len().min(OUTPUT.saturating_sub(out.len()).div_ceil(2));
            input[..taken].iter().for_each(|&byte| out.extend([byte, byte]));
            Ok(taken)
        }

        fn flush(&mut self, _: &mut Vec<u8>) -> Result<(), TransformError> {
            Ok(())
        }

        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), TransformError> {
            Ok(())
        }

        fn memory(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_turn_is_short_also_where_little_comes_out() {
        let zeros = vec![0; 8 << 20];
        let packed = content(&[Filter::Deflate], &[&zeros]);
        let mut chain = FilterChain::new(&[any_ratio(), Filter::Deflate]);
        let (mut turns, mut out) = (0, Vec::new());
        chain.push(&packed);
        chain.finish();
        while chain.has_work() {
            chain.advance(&mut out).unwrap();
            turns += 1;
        }
        assert!(out.len() < OUTPUT && turns > 20, "{turns} turns");
        assert!(content(&[any_ratio()], &[&out]) == zeros);
    }

    fn any_ratio() -> Filter {
        Filter::Inflate(InflateLimits { ratio: Some(u32::MAX), burst: None })
    }

    #[test]
    fn output_that_grows_without_end_takes_little_memory() {
        let filters: Vec<Filter> = (0..10).map(|_| Filter::Substitute(Arc::new(Twice))).collect();
        let (all, most) = through(&filters, &[&[7; 10_000]]).unwrap();
        assert!(all.len() == 10_000 << 10 && all.iter().all(|&byte| byte == 7));
        assert!(most < 32 * OUTPUT, "{most} bytes at a time");
    }
}
