//! The next renewals of certificates that are ordered, as the supervisor tells them. Only the
//! status asks for them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// By host name, the time of the next renewal, in seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct Renewals(Mutex<HashMap<String, u64>>);

impl Renewals {
    /// Notes the next renewal of a name's certificate; `None`: there is none.
    pub(super) fn note(&self, name: String, next: Option<u64>) {
        let mut renewals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match next {
            Some(next) => renewals.insert(name, next),
            None => renewals.remove(&name),
        };
    }

    /// Returns the next renewal of a certificate for these names; `None` if it is not known.
    pub(crate) fn of(&self, names: &[String]) -> Option<u64> {
        let renewals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().find_map(|name| renewals.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let renewals = Renewals::default();
        let names = ["a.example".to_owned(), "b.example".to_owned()];
        assert_eq!(renewals.of(&names), None);
        renewals.note("b.example".into(), Some(7));
        renewals.note("b.example".into(), Some(9));
        assert_eq!((renewals.of(&names), renewals.of(&names[..1])), (Some(9), None));
        renewals.note("b.example".into(), None);
        assert_eq!(renewals.of(&names), None);
    }
}
