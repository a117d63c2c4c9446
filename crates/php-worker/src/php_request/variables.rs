//! The variables of `$_SERVER` and of `apache_getenv()`.

use std::collections::HashSet;

use howdah_ipc::request::EntryPairs;

use super::{PhpRequest, raw_pair, raw_text};
use crate::chroot;
use crate::decimal::decimal;
use crate::sapi::raw;

/// The next entry in an iteration over `$_SERVER`.
pub(super) enum VariableCursor<'c> {
    Sent(EntryPairs<'c>),
    Added(std::vec::IntoIter<raw::Pair>),
    PhpSelf,
    Requests,
    Pool,
    Done,
}

impl<'c> PhpRequest<'c> {
    /// Returns the variable of the request with exactly that name. `None` if the front has sent
    /// none.
    pub(crate) fn variable(&self, wanted: &[u8]) -> Option<&'c [u8]> {
        self.request
            .variables()
            .find(|(name, _)| *name == wanted)
            .map(|(name, value)| chroot::variable(self.facts.root, name, value))
    }

    /// The environment variable that a script gets by this name, followed by a NUL. Apache's table
    /// ignores case. `None` if there is none.
    pub(crate) fn environment(&self, wanted: &[u8]) -> Option<&[u8]> {
        self.set_or_included(wanted).or_else(|| {
            let mut variables = self.request.variables();
            let found = variables.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(name, value)| chroot::variable(self.facts.root, name, value))
        })
    }

    /// The value that a script has set, or that a script has which another one includes.
    fn set_or_included(&self, wanted: &[u8]) -> Option<&[u8]> {
        self.sub_requests.variable(wanted).or_else(|| self.changed.find(wanted))
    }

    /// The variables of these that the front has not sent with the request.
    fn added(&self) -> Vec<raw::Pair> {
        let mut all = self.sub_requests.all_variables().chain(self.changed.iter()).peekable();
        if all.peek().is_none() {
            return Vec::new();
        }
        let sent = self.request.variables().map(|(name, _)| name.to_ascii_lowercase());
        let mut known: HashSet<Vec<u8>> = sent.collect();
        all.filter(|(name, _)| known.insert(name.to_ascii_lowercase()))
            .map(raw_pair)
            .collect()
    }

    /// Sets an environment variable. One of a script that another one includes ends with it.
    pub(crate) fn set_variable(&mut self, name: &[u8], value: &[u8]) {
        self.sub_requests.variables().unwrap_or(&mut self.changed).set(name, value);
    }

    /// Returns the next variable of `$_SERVER`, with `first` the first one. `None` behind the last
    /// one.
    pub(crate) fn next_variable(&mut self, first: bool) -> Option<raw::Pair> {
        if first {
            self.variables = VariableCursor::Sent(self.request.variables());
        }
        if let VariableCursor::Sent(pairs) = &mut self.variables {
            if let Some((name, value)) = pairs.next() {
                let value = chroot::variable(self.facts.root, name, value);
                // A script that another one includes may be the first to ask for the variables.
                return Some(raw_pair((name, self.set_or_included(name).unwrap_or(value))));
            }
            self.variables = VariableCursor::Added(self.added().into_iter());
        }
        if let VariableCursor::Added(pairs) = &mut self.variables {
            if let Some(pair) = pairs.next() {
                return Some(pair);
            }
            self.variables = VariableCursor::PhpSelf;
        }
        let (name, value, next) = match self.variables {
            VariableCursor::PhpSelf => (c"PHP_SELF", self.php_self(), VariableCursor::Requests),
            VariableCursor::Requests => {
                let length = write_number(&mut self.served, self.facts.served);
                (c"HOWDAH_WORKER_REQUESTS", raw_text(&self.served[..length]), VariableCursor::Pool)
            }
            VariableCursor::Pool => {
                (c"HOWDAH_POOL", raw_text(self.facts.pool.to_bytes()), VariableCursor::Done)
            }
            VariableCursor::Sent(_) | VariableCursor::Added(_) | VariableCursor::Done => {
                return None;
            }
        };
        self.variables = next;
        Some(raw::Pair { name: raw_text(name.to_bytes()), value })
    }

    /// SCRIPT_NAME followed by PATH_INFO, which that of an included script has already.
    fn php_self(&mut self) -> raw::Text {
        if let Some(whole) = self.sub_requests.variable(b"SCRIPT_NAME") {
            return raw_text(whole);
        }
        let script_name = self.variable(b"SCRIPT_NAME").unwrap_or(c"".to_bytes());
        let Some(path_info) = self.variable(b"PATH_INFO") else {
            return raw_text(script_name);
        };
        self.php_self = [script_name, path_info, b"\0"].concat();
        raw_text(&self.php_self[..self.php_self.len() - 1])
    }
}

/// Writes `number` in decimal and a NUL into `buffer`. Returns the number of digits.
fn write_number(buffer: &mut [u8; 24], number: u64) -> usize {
    let mut room = [0; 20];
    let digits = decimal(number, &mut room);
    buffer[..digits.len()].copy_from_slice(digits);
    buffer[digits.len()] = 0;
    digits.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_nul() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut buffer = [b'x'; 24];
            let length = write_number(&mut buffer, number);
            assert_eq!(&buffer[..length], number.to_string().as_bytes());
            assert_eq!(buffer[length], 0);
        }
    }
}
