//! The redirects of a folder, in order, found without trying one after the other.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::redirect::{Redirect, RedirectError, RedirectSource};
use crate::pattern::{Candidates, PatternSet};
use crate::work::{self, Meter};

/// Redirects in the order in which they are tried: the first that matches counts. They are in
/// parts, one for each file that they come from, and each part has its own index: so files of
/// thousands of redirects are indexed once, however many folders they are merged for.
#[derive(Clone, Debug, Default)]
pub(super) struct RedirectList {
    parts: Vec<Arc<RedirectPart>>,
}

/// Redirects with their index.
#[derive(Debug, Default)]
struct RedirectPart {
    redirects: Vec<Arc<Redirect>>,
    /// Built on first use: while a file is read, redirects are added.
    index: OnceLock<RedirectIndex>,
}

/// A redirect and its target; or the redirect that matches and fails.
pub(super) type Search<'l> = Result<Option<(&'l Redirect, Vec<u8>)>, (&'l Redirect, RedirectError)>;

/// An index of many redirects.
#[derive(Debug)]
struct RedirectIndex {
    /// The first redirect for each path, which has no doubled slashes.
    paths: HashMap<Box<[u8]>, u32>,
    /// The lengths that occur among the paths.
    lengths: Box<[bool]>,
    /// The regular expressions, …
    set: PatternSet,
    /// … and their places, in order.
    set_places: Box<[u32]>,
}

/// Fewer redirects than this are tried faster than looked up.
const FEWEST: usize = 8;

impl Clone for RedirectPart {
    /// Copies the redirects without the index, so that others can be added.
    fn clone(&self) -> RedirectPart {
        RedirectPart {
            redirects: self.redirects.clone(),
            index: OnceLock::new(),
        }
    }
}

impl RedirectList {
    /// Returns whether there is no redirect.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a redirect at the end, while a file is read.
    pub fn push(list: &mut Arc<RedirectList>, redirect: Redirect) {
        let list = Arc::make_mut(list);
        if list.parts.is_empty() {
            list.parts.push(Arc::default());
        }
        if let Some(part) = list.parts.last_mut().map(Arc::make_mut) {
            part.index = OnceLock::new();
            part.redirects.push(Arc::new(redirect));
        }
    }

    /// Returns the redirects of `self`, then those of the other list.
    pub fn joined(first: &Arc<RedirectList>, second: &Arc<RedirectList>) -> Arc<RedirectList> {
        match (first.parts.is_empty(), second.parts.is_empty()) {
            (_, true) => first.clone(),
            (true, _) => second.clone(),
            _ => Arc::new(RedirectList {
                parts: [&first.parts[..], &second.parts].concat(),
            }),
        }
    }

    /// Makes what the first request would have to wait for.
    pub fn prepare(&self) {
        for part in &self.parts {
            part.index(Meter::unlimited());
        }
    }

    /// Returns the first redirect for a path, and its target.
    pub fn find(&self, path: &[u8], meter: Meter<'_>) -> Search<'_> {
        for part in &self.parts {
            if let Some(found) = part.find(path, meter)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns what `find` does, without an index, for comparison.
    #[cfg(test)]
    pub fn find_in_order(&self, path: &[u8]) -> Search<'_> {
        let found = self
            .parts
            .iter()
            .find_map(|part| first_of(&part.redirects, path, Meter::unlimited()).transpose());
        found.transpose()
    }
}

impl RedirectPart {
    /// Returns the index. `None` where there are too few redirects for it, or where there is none
    /// yet and the meter has no steps for it: an event loop makes no index that takes long.
    fn index(&self, meter: Meter<'_>) -> Option<&RedirectIndex> {
        if self.redirects.len() < FEWEST {
            return None;
        }
        if self.index.get().is_none() {
            meter.spend(work::INDEXING * self.redirects.len() as u64).ok()?;
        }
        Some(self.index.get_or_init(|| RedirectIndex::new(&self.redirects)))
    }

    fn find(&self, path: &[u8], meter: Meter<'_>) -> Search<'_> {
        let Some(index) = self.index(meter) else {
            return first_of(&self.redirects, path, meter);
        };
        let by_path = index.by_path(path);
        let mut candidates = Candidates::default();
        let before = |place: &usize| by_path.is_none_or(|by_path| *place < by_path);
        let patterns = index
            .set
            .candidates(path, &mut candidates, meter)
            .iter()
            .map(|&found| index.set_places[found as usize] as usize);
        let mut places = patterns.take_while(before).chain(by_path);
        let found = places
            .find_map(|place| first_of(&self.redirects[place..=place], path, meter).transpose());
        found.transpose()
    }
}

fn first_of<'l>(redirects: &'l [Arc<Redirect>], path: &[u8], meter: Meter<'_>) -> Search<'l> {
    for redirect in redirects {
        let location = meter.spend(work::RULE).map_err(RedirectError::from);
        match location.and_then(|()| redirect.location(path, meter)) {
            Ok(None) => {}
            Ok(Some(location)) => return Ok(Some((redirect, location))),
            Err(failure) => return Err((redirect, failure)),
        }
    }
    Ok(None)
}

impl RedirectIndex {
    fn new(redirects: &[Arc<Redirect>]) -> RedirectIndex {
        let mut paths: HashMap<Box<[u8]>, u32> = HashMap::new();
        let (mut patterns, mut set_places) = (Vec::new(), Vec::new());
        for (place, redirect) in redirects.iter().enumerate() {
            match &redirect.source {
                RedirectSource::Path(path) => {
                    paths.entry(single_slashes(path).into()).or_insert(place as u32);
                }
                RedirectSource::Pattern(pattern) => {
                    set_places.push(place as u32);
                    patterns.push(pattern.clone());
                }
            }
        }
        let longest = paths.keys().map(|path| path.len()).max();
        let mut lengths = vec![false; longest.map_or(0, |longest| longest + 1)];
        for path in paths.keys() {
            lengths[path.len()] = true;
        }
        RedirectIndex {
            paths,
            lengths: lengths.into(),
            set: PatternSet::new(patterns),
            set_places: set_places.into(),
        }
    }

    /// Returns the first redirect whose path is this one or a folder above it. Only lengths that
    /// occur are looked up, so the cost of a path of a thousand components is bounded by the number
    /// of lengths.
    fn by_path(&self, path: &[u8]) -> Option<usize> {
        let path = single_slashes(path);
        let ends_component = |end: usize| {
            end > 0 && (path[end - 1] == b'/' || path.get(end).is_none_or(|&next| next == b'/'))
        };
        (1..self.lengths.len().min(path.len() + 1))
            .filter(|&end| self.lengths[end] && ends_component(end))
            .filter_map(|end| self.paths.get(&path[..end]))
            .min()
            .map(|&place| place as usize)
    }
}

/// Returns a path in which no slash follows another.
fn single_slashes(path: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(path, b"//").is_none() {
        return Cow::Borrowed(path);
    }
    let mut single = path.to_vec();
    single.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    Cow::Owned(single)
}

#[cfg(test)]
mod tests {
    use crate::WorkBudget;
    use crate::testing::settings;

    #[test]
    fn an_event_loop_makes_no_index_that_it_has_no_steps_for() {
        let lines = (0..1000).map(|number| format!("Redirect /old/{number} /new/{number}\n"));
        let made = settings(&lines.collect::<String>());
        let mut list = made.alias.as_deref().unwrap().redirects.as_ref().clone();
        // A list that was copied has no index.
        list.parts =
            list.parts.iter().map(|part| super::RedirectPart::clone(part).into()).collect();
        let budget = WorkBudget::new(200_000);
        assert!(list.find(b"/old/7", budget.meter()).is_err() || budget.is_exhausted());
        assert!(budget.is_exhausted() && list.parts[0].index.get().is_none());
        let budget = WorkBudget::new(50_000_000);
        assert!(list.find(b"/old/7", budget.meter()).unwrap().is_some());
        assert!(list.parts[0].index.get().is_some());
    }
}
