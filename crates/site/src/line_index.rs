//! Looking up lines by name among many.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use howdah_http::Fields;

/// Lines that a look-up may walk over. Usual requests have fewer, and need no index.
const FEW: usize = 64;

/// The lines of `Fields`, found by name in a time that does not grow with the number of others:
/// directives of a site can set thousands.
#[derive(Debug)]
pub(crate) struct LineIndex<'f> {
    fields: &'f Fields,
    /// `None` where there are few lines.
    by_name: Option<HashMap<CaselessName<'f>, SameName<'f>, foldhash::quality::RandomState>>,
}

/// A name, compared without case.
#[derive(Debug)]
struct CaselessName<'f>(&'f [u8]);

/// The lines that have one name.
#[derive(Debug, Clone)]
pub(crate) struct SameName<'f> {
    /// Their number.
    pub(crate) count: usize,
    /// The place of the first among all lines.
    pub(crate) first: usize,
    /// The place of the last.
    pub(crate) last: usize,
    /// The last, as name and value.
    pub(crate) last_line: (&'f [u8], &'f [u8]),
}

impl<'f> LineIndex<'f> {
    pub(crate) fn of(fields: &'f Fields) -> LineIndex<'f> {
        let by_name = (fields.len() > FEW).then(|| {
            let mut by_name = HashMap::with_capacity_and_hasher(fields.len(), <_>::default());
            for (place, line) in fields.iter().enumerate() {
                by_name
                    .entry(CaselessName(line.0))
                    .and_modify(|same: &mut SameName<'_>| same.add(place, line))
                    .or_insert(SameName::new(place, line));
            }
            by_name
        });
        LineIndex { fields, by_name }
    }

    /// Returns the lines of that name; `None` if there are none.
    pub(crate) fn find(&self, name: &[u8]) -> Option<SameName<'f>> {
        if let Some(by_name) = &self.by_name {
            return by_name.get(&CaselessName(name)).cloned();
        }
        let lines = self.fields.iter().enumerate();
        let mut lines = lines.filter(|(_, (other, _))| other.eq_ignore_ascii_case(name));
        let (place, line) = lines.next()?;
        let mut same = SameName::new(place, line);
        lines.for_each(|(place, line)| same.add(place, line));
        Some(same)
    }
}

impl Hash for CaselessName<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut lower = [0; 32];
        for part in self.0.chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            state.write(lower);
        }
        state.write_u8(0xff);
    }
}

impl PartialEq for CaselessName<'_> {
    fn eq(&self, other: &CaselessName<'_>) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for CaselessName<'_> {}

impl<'f> SameName<'f> {
    fn new(place: usize, line: (&'f [u8], &'f [u8])) -> SameName<'f> {
        SameName {
            count: 1,
            first: place,
            last: place,
            last_line: line,
        }
    }

    fn add(&mut self, place: usize, line: (&'f [u8], &'f [u8])) {
        (self.count, self.last, self.last_line) = (self.count + 1, place, line);
    }
}
