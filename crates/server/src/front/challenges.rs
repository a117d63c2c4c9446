//! The challenges of authorities for certificates that this front answers. They are few, and seldom
//! there at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use howdah_acme::message::ChallengeAnswer;

/// The folder of the paths of HTTP-01 challenges (RFC 8555 §8.3).
pub(crate) const HTTP_FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// The challenges, for all threads.
#[derive(Debug, Default)]
pub(crate) struct Challenges {
    /// Number of the entries, so that other requests need no lock.
    count: AtomicUsize,
    answers: Mutex<HashMap<u64, ChallengeAnswer>>,
}

impl Challenges {
    /// Answers a challenge from now on.
    pub(crate) fn present(&self, id: u64, answer: &ChallengeAnswer) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(id, answer.clone());
        self.count.store(answers.len(), Ordering::Release);
    }

    /// Answers a challenge no longer.
    pub(crate) fn withdraw(&self, id: u64) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.remove(&id);
        self.count.store(answers.len(), Ordering::Release);
    }

    /// The numbers of all challenges.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .copied()
            .collect()
    }

    /// Returns whether there is no challenge.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns the content at `path`, if an authority looks for it there. `None` if none does.
    pub(crate) fn http(&self, path: &[u8]) -> Option<Vec<u8>> {
        let token = path.strip_prefix(HTTP_FOLDER)?;
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.values().find_map(|answer| match answer {
            ChallengeAnswer::Http { token: own, content } if own.as_bytes() == token => {
                Some(content.clone().into_bytes())
            }
            _ => None,
        })
    }

    /// Returns certificate and key in PEM for an authority's handshake with `name` (RFC 8737).
    /// `None` if no authority is expected.
    pub(crate) fn tls(&self, name: &str) -> Option<(String, String)> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.values().find_map(|answer| match answer {
            ChallengeAnswer::Tls { name: own, certificate, key }
                if own.eq_ignore_ascii_case(name) =>
            {
                Some((certificate.clone(), key.clone()))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_present_tokens_are_answered() {
        let challenges = Challenges::default();
        assert!(challenges.is_empty());
        let answer = ChallengeAnswer::Http {
            token: "abc".into(),
            content: "abc.def".into(),
        };
        challenges.present(1, &answer);
        assert!(!challenges.is_empty());
        let content = challenges.http(b"/.well-known/acme-challenge/abc");
        assert_eq!(content.as_deref(), Some(&b"abc.def"[..]));
        for path in
            [&b"/.well-known/acme-challenge/"[..], b"/.well-known/acme-challenge/ab", b"/abc"]
        {
            assert_eq!(challenges.http(path), None);
        }
        challenges.withdraw(1);
        assert!(challenges.is_empty());
        assert_eq!(challenges.http(b"/.well-known/acme-challenge/abc"), None);
    }
}
