//! Questions to PHP after a script, in PHP's own words: whether it had a session, and how full its
//! caches are. The structures of extensions differ between versions; their functions do not.

use std::ffi::CStr;

use howdah_ipc::figures::{CacheNumber, CacheNumbers, UNKNOWN};

/// The questions of one request, and their answers.
#[derive(Debug)]
pub struct Questions {
    asks_session: bool,
    had_session: bool,
    asks_caches: bool,
    /// The question that was asked last.
    asked: Option<LastQuestion>,
    caches: CacheNumbers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastQuestion {
    Session,
    Cache(usize),
}

const HAD_SESSION: &CStr = c"(int) (function_exists('session_id') && session_id() !== '')";

/// A question in PHP's words, from its parts.
macro_rules! question {
    ($($part:literal),*) => {
        match CStr::from_bytes_with_nul(concat!($($part,)* "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a question has no NUL"),
        }
    };
}

/// A question about opcache. It answers only scripts below `opcache.restrict_api`, and prints a
/// warning into the pages of others.
macro_rules! opcache {
    ($path:literal) => {
        question!(
            "function_exists('opcache_get_status') && ini_get('opcache.restrict_api') == '' ",
            "? (int) (opcache_get_status(false)",
            $path,
            " ?? -1) : -1"
        )
    };
}

/// A question about APCu.
macro_rules! apcu {
    ($call:literal) => {
        question!("function_exists('apcu_enabled') && apcu_enabled() ? (int) (", $call, ") : -1")
    };
}

/// The questions about caches, in order. One that has no answer ends those about its cache.
const CACHE_QUESTIONS: [(CacheNumber, &CStr); CacheNumber::COUNT] = [
    (CacheNumber::OpcacheHits, opcache!("['opcache_statistics']['hits']")),
    (CacheNumber::OpcacheMisses, opcache!("['opcache_statistics']['misses']")),
    (CacheNumber::OpcacheScripts, opcache!("['opcache_statistics']['num_cached_scripts']")),
    (CacheNumber::OpcacheUsed, opcache!("['memory_usage']['used_memory']")),
    (CacheNumber::OpcacheFree, opcache!("['memory_usage']['free_memory']")),
    (CacheNumber::OpcacheWasted, opcache!("['memory_usage']['wasted_memory']")),
    (CacheNumber::OpcacheFull, opcache!("['cache_full']")),
    (CacheNumber::ApcuHits, apcu!("apcu_cache_info(true)['num_hits']")),
    (CacheNumber::ApcuMisses, apcu!("apcu_cache_info(true)['num_misses']")),
    (CacheNumber::ApcuExpunged, apcu!("apcu_cache_info(true)['expunges'] ?? 0")),
    (CacheNumber::ApcuFree, apcu!("apcu_sma_info(true)['avail_mem']")),
    (
        CacheNumber::ApcuSize,
        apcu!("apcu_sma_info(true)['num_seg'] * apcu_sma_info(true)['seg_size']"),
    ),
];

impl Questions {
    /// No question was asked yet.
    pub fn new(asks_session: bool, asks_caches: bool) -> Questions {
        Questions {
            asks_session,
            had_session: false,
            asks_caches,
            asked: None,
            caches: [UNKNOWN; CacheNumber::COUNT],
        }
    }

    /// Takes the answer to the last question, and returns the next one. After a script that has
    /// `failed`, perhaps for want of memory, the caches are not asked for. `None` if nothing is
    /// left to ask.
    pub fn next(&mut self, answer: i64, failed: bool) -> Option<&'static CStr> {
        let mut next = 0;
        match self.asked {
            None if self.asks_session => {
                self.asked = Some(LastQuestion::Session);
                return Some(HAD_SESSION);
            }
            None => {}
            Some(LastQuestion::Session) => self.had_session = answer > 0,
            Some(LastQuestion::Cache(last)) => {
                let number = CACHE_QUESTIONS[last].0;
                self.caches[number as usize] = answer;
                next = last + 1;
                // A cache that is not there is not asked for the rest.
                if answer == UNKNOWN {
                    let rest = CACHE_QUESTIONS[next..].iter();
                    let same = |(other, _): &&(CacheNumber, &CStr)| {
                        other.is_of_apcu() == number.is_of_apcu()
                    };
                    next += rest.take_while(same).count();
                }
            }
        }
        if !self.asks_caches || failed {
            return None;
        }
        let (_, question) = CACHE_QUESTIONS.get(next)?;
        self.asked = Some(LastQuestion::Cache(next));
        Some(question)
    }

    /// Returns whether the request had a session, if that was asked.
    pub fn had_session(&self) -> bool {
        self.had_session
    }

    /// Returns the answers about caches; `None` if none was asked for.
    pub fn caches(&self) -> Option<&CacheNumbers> {
        matches!(self.asked, Some(LastQuestion::Cache(_))).then_some(&self.caches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_asked_once() {
        let mut questions = Questions::new(true, true);
        let mut answer = -1;
        let mut count = 0;
        while questions.next(answer, false).is_some() {
            answer = 100 + count;
            count += 1;
        }
        assert!(questions.had_session());
        assert_eq!(count as usize, 1 + CACHE_QUESTIONS.len());
        let caches = questions.caches().unwrap();
        assert_eq!(caches[CacheNumber::OpcacheHits as usize], 101);
        assert!(!caches.contains(&UNKNOWN));
    }

    #[test]
    fn a_cache_that_is_not_there_is_asked_once() {
        let mut questions = Questions::new(false, true);
        let mut count = 0;
        while questions.next(UNKNOWN, false).is_some() {
            count += 1;
        }
        assert_eq!((count, questions.had_session()), (2, false));
    }

    #[test]
    fn nothing_is_asked_without_need() {
        let mut questions = Questions::new(false, false);
        assert!(questions.next(-1, false).is_none() && questions.caches().is_none());
        let mut questions = Questions::new(true, true);
        assert!(questions.next(-1, true).is_some() && questions.next(1, true).is_none());
        assert!(questions.had_session() && questions.caches().is_none());
    }
}
