//! Variables that directives set (`r->subprocess_env`).

use howdah_http::Fields;

use super::mark;
use crate::ruled::Ruled;

/// The variables that scripts get, each name once: where a name is set again, the last value
/// (`APR_OVERLAP_TABLES_SET`).
#[derive(Debug)]
pub struct ScriptEnvironment<'e> {
    env: &'e Fields,
    /// The [marks](mark) of their names.
    marks: u64,
    /// Names that the server has given already.
    given: Vec<&'e [u8]>,
}

impl<'e> ScriptEnvironment<'e> {
    /// The environment of a request that directives apply to.
    pub fn of(ruled: &'e Ruled) -> ScriptEnvironment<'e> {
        let env = &ruled.state.env;
        ScriptEnvironment {
            env,
            marks: env.iter().fold(0, |marks, (name, _)| marks | mark(name)),
            given: Vec::new(),
        }
    }

    /// Returns whether directives set the variable `name`.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.may_have(name) && self.env.contains(name)
    }

    /// Leaves out a variable that the server sets itself.
    #[inline]
    pub fn leave_out(&mut self, name: &[u8]) {
        if self.may_have(name) {
            let mut names = self.env.iter().map(|(other, _)| other);
            self.given.extend(names.find(|other| other.eq_ignore_ascii_case(name)));
        }
    }

    /// Usually empty; then no name is compared.
    #[inline]
    fn may_have(&self, name: &[u8]) -> bool {
        self.marks != 0 && self.marks & mark(name) != 0
    }

    /// Gives `out` the variables that are left, as name and value. Returns their number.
    pub fn give(&self, mut out: impl FnMut(&[u8], &[u8])) -> u32 {
        let mut count = 0;
        for (number, (name, value)) in self.env.iter().enumerate() {
            let is_same = |other: &[u8]| other.eq_ignore_ascii_case(name);
            let mut earlier = self.env.iter().take(number);
            if self.given.iter().any(|given| is_same(given))
                || earlier.any(|(other, _)| is_same(other))
            {
                continue;
            }
            let later = self.env.iter().skip(number + 1);
            let (name, value) =
                later.filter(|(other, _)| is_same(other)).last().unwrap_or((name, value));
            out(name, value);
            count += 1;
        }
        count
    }
}
