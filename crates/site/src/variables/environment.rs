//! Variables that directives set (`r->subprocess_env`).

use std::collections::HashSet;

use howdah_http::Fields;

use super::mark;
use crate::line_index::LineIndex;
use crate::ruled_request::RuledRequest;

/// The variables that scripts get, each name once: where a name is set again, the last value
/// (`APR_OVERLAP_TABLES_SET`).
#[derive(Debug)]
pub struct ScriptEnvironment<'e> {
    env: &'e Fields,
    index: LineIndex<'e>,
    /// The [marks](mark) of their names.
    marks: u64,
    /// The first places of names that the server has given already.
    given: HashSet<usize>,
}

/// The names of the variables that directives set.
#[derive(Debug)]
pub struct EnvironmentNames {
    marks: u64,
    /// In lower case, sorted.
    names: Vec<Box<[u8]>>,
}

impl<'e> ScriptEnvironment<'e> {
    /// The environment of a request that directives apply to.
    pub fn of(ruled: &'e RuledRequest) -> ScriptEnvironment<'e> {
        let env = &ruled.state.env;
        ScriptEnvironment {
            env,
            index: LineIndex::of(env),
            marks: marks_of(env),
            given: HashSet::new(),
        }
    }

    /// Leaves out a variable that the server sets itself.
    #[inline]
    pub fn leave_out(&mut self, name: &[u8]) {
        // Usually there is none, and no name is compared.
        if self.marks & mark(name) != 0 {
            self.given.extend(self.index.find(name).map(|same| same.first));
        }
    }

    /// Gives `out` the variables that are left, as name and value.
    pub fn give(&self, mut out: impl FnMut(&[u8], &[u8])) {
        for (place, (name, _)) in self.env.iter().enumerate() {
            if let Some(same) = self.index.find(name)
                && same.first == place
                && !self.given.contains(&place)
            {
                let (name, value) = same.last_line;
                out(name, value);
            }
        }
    }
}

impl EnvironmentNames {
    /// The names that directives have set for a request.
    pub fn of(ruled: &RuledRequest) -> EnvironmentNames {
        let env = &ruled.state.env;
        let mut names: Vec<Box<[u8]>> =
            env.iter().map(|(name, _)| name.to_ascii_lowercase().into()).collect();
        names.sort_unstable();
        names.dedup();
        EnvironmentNames { marks: marks_of(env), names }
    }

    /// Returns whether directives set the variable `name`.
    #[inline]
    pub fn has(&self, name: &[u8]) -> bool {
        self.marks & mark(name) != 0 && self.contains(name)
    }

    fn contains(&self, name: &[u8]) -> bool {
        let lower = || name.iter().map(u8::to_ascii_lowercase);
        self.names.binary_search_by(|known| known.iter().copied().cmp(lower())).is_ok()
    }
}

fn marks_of(env: &Fields) -> u64 {
    env.iter().fold(0, |marks, (name, _)| marks | mark(name))
}
