//! Figures for people and monitors, which workers publish in the region.
//!
//! A hostile pool can publish any number and any text. The reader bounds both: by the size of the
//! machine, and by the time that has passed. Only the number of the pool's own workers depends on
//! numbers, between 1 and the most that it may have.

use crate::request::{FixedText, leading_texts};

/// A request whose script has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestFigures {
    /// Nanoseconds that the request has waited for a slot and for a worker.
    pub waited: u64,
    /// Nanoseconds between beginning and end.
    pub took: u64,
    /// Bytes of memory that PHP had at most for the script. At most those of the machine.
    pub peak: Option<u64>,
    /// Microseconds on a processor; `None` unless workers were told to measure it. At most the time
    /// since the request was queued, for each processor of the machine.
    pub processor: Option<u64>,
}

/// A worker, as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerFigures {
    /// Number of requests that the worker has finished.
    pub requests: u64,
    /// Nanoseconds on a processor; the worker brings them up to date about once a second, between
    /// requests.
    pub processor: u64,
    /// Bytes of memory, where a page that several processes share counts in parts.
    pub proportional: Option<u64>,
    /// Bytes of memory, where every page counts in full.
    pub resident: Option<u64>,
    /// Whether a request runs.
    pub is_running: bool,
    /// The request that runs, or the last one. `None` if there was none, or if its slot is in use
    /// for another one.
    pub request: Option<RequestSummary>,
    /// Nanoseconds that the request has run until now, or until its end.
    pub took: u64,
    /// Bytes of memory of the last script that has ended, at most.
    pub last_peak: u64,
    /// Microseconds on a processor of the last script that has ended.
    pub last_processor: Option<u64>,
}

/// The numbers that tell how PHP's caches are used, in the order of a pool's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum CacheNumber {
    /// Scripts that opcache had.
    OpcacheHits = 0,
    /// Scripts that opcache did not have.
    OpcacheMisses = 1,
    /// Scripts that opcache has.
    OpcacheScripts = 2,
    /// Bytes that are in use.
    OpcacheUsed = 3,
    /// Bytes that are free.
    OpcacheFree = 4,
    /// Bytes of scripts that have changed; free again after opcache's restart.
    OpcacheWasted = 5,
    /// 1 if opcache takes no more scripts.
    OpcacheFull = 6,
    /// Entries that APCu had.
    ApcuHits = 7,
    /// Entries that APCu did not have.
    ApcuMisses = 8,
    /// The number of times that APCu has thrown away entries because it was full.
    ApcuExpunged = 9,
    /// Bytes that are free.
    ApcuFree = 10,
    /// All bytes.
    ApcuSize = 11,
}

impl CacheNumber {
    /// Number of these numbers.
    pub const COUNT: usize = 12;

    /// Returns whether the number is one of APCu's.
    pub fn is_of_apcu(self) -> bool {
        self as usize >= CacheNumber::ApcuHits as usize
    }
}

/// By [`CacheNumber`]; [`UNKNOWN`] where the cache is not there.
pub type CacheNumbers = [i64; CacheNumber::COUNT];

/// A number that is not known.
pub const UNKNOWN: i64 = -1;

/// The beginning of a request's texts, each cut at [`LONGEST_TEXT`] bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// The method.
    pub method: Vec<u8>,
    /// Path and query as the client sent them.
    pub uri: Vec<u8>,
    /// Absolute path of the script.
    pub script: Vec<u8>,
    /// Bytes of content.
    pub content_length: u64,
}

/// Bytes of a text in a [`RequestSummary`]. The rest is left out.
pub const LONGEST_TEXT: usize = 2048;
/// Bytes of a request area that are read for a [`RequestSummary`]: the first three texts, unless
/// they are very long.
pub(crate) const SUMMARY_BYTES: usize = 12 * 1024;

impl RequestSummary {
    /// Decodes the start of a request area. Texts that do not fit are left out.
    pub(crate) fn decode(start: &[u8]) -> RequestSummary {
        let (content_length, texts) = leading_texts(start);
        let text = |which: FixedText| {
            let text = texts[which as usize].unwrap_or_default();
            text[..text.len().min(LONGEST_TEXT)].to_vec()
        };
        RequestSummary {
            method: text(FixedText::Method),
            uri: text(FixedText::RequestUri),
            script: text(FixedText::Script),
            content_length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::RequestEncoder;

    fn encoded() -> Vec<u8> {
        let mut encoder = RequestEncoder::default();
        let long = vec![b'a'; 3 * LONGEST_TEXT];
        let fixed = [Some(&b"POST"[..]), Some(b"/srv/a.php"), Some(&long)];
        let [method, script, uri] = fixed;
        encoder.begin(1, [method, script, uri, None, None, None, None, None, None]);
        encoder.finish_inline(b"abc").to_vec()
    }

    #[test]
    fn a_summary_has_the_beginning_of_each_text() {
        let summary = RequestSummary::decode(&encoded());
        assert_eq!(
            (&summary.method[..], &summary.script[..], summary.content_length),
            (&b"POST"[..], &b"/srv/a.php"[..], 3)
        );
        assert_eq!(summary.uri, vec![b'a'; LONGEST_TEXT]);
    }

    #[test]
    fn no_cut_and_no_changed_byte_panics() {
        let bytes = encoded();
        for cut in 0..100 {
            let _ = RequestSummary::decode(&bytes[..cut]);
        }
        for position in 0..100 {
            let mut changed = bytes.clone();
            changed[position] = 0xFF;
            let summary = RequestSummary::decode(&changed);
            assert!(summary.uri.len() <= LONGEST_TEXT);
        }
    }

    #[test]
    fn the_numbers_of_two_caches_follow_each_other() {
        assert!(!CacheNumber::OpcacheFull.is_of_apcu());
        assert!(CacheNumber::ApcuHits.is_of_apcu() && CacheNumber::ApcuSize.is_of_apcu());
    }
}
