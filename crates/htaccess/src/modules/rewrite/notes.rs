//! The module's notes on a request, across its internal redirects and sub-requests.

use crate::module_notes::{CarryOver, KeptNotes, ModuleNotes};
use crate::transaction::RequestState;

/// Notes of mod_rewrite on a request.
#[derive(Clone, Debug, Default)]
struct RewriteNotes {
    /// Whether a rule with `END` has applied.
    has_ended: bool,
    /// Whether the site's own rules have led to the present path.
    is_by_site: bool,
    /// The names of the cookies that rules have set.
    cookies: Vec<Box<[u8]>>,
}

impl KeptNotes for RewriteNotes {
    fn carry_over(&mut self, way: CarryOver, to: &mut ModuleNotes) {
        let cookies = std::mem::take(&mut self.cookies);
        let notes = match way {
            CarryOver::Redirect => RewriteNotes {
                has_ended: self.has_ended,
                is_by_site: false,
                cookies,
            },
            CarryOver::ToSubRequest => RewriteNotes {
                has_ended: false,
                is_by_site: self.is_by_site,
                cookies,
            },
            // Cookies are set for the client's request, whatever the sub-request is used for.
            CarryOver::FromSubRequest => {
                to.edit::<RewriteNotes>().cookies = cookies;
                return;
            }
        };
        *to.edit() = notes;
    }

    fn copied(&self) -> Box<dyn KeptNotes> {
        Box::new(self.clone())
    }

    fn weight(&self) -> usize {
        let cookies = self.cookies.iter().map(|name| size_of::<Box<[u8]>>() + name.len());
        size_of::<RewriteNotes>() + cookies.sum::<usize>()
    }
}

/// Notes that the site's own rules have led to the present path. Its sub-requests, such as an index
/// file of the new path, are no URLs that these rules are for.
pub fn note_path_by_site(state: &mut RequestState) {
    state.module_notes.edit::<RewriteNotes>().is_by_site = true;
}

/// Notes that a rule with `END` has applied.
pub(super) fn note_end(state: &mut RequestState) {
    state.module_notes.edit::<RewriteNotes>().has_ended = true;
}

/// Notes that a rule has set a cookie.
pub(super) fn note_cookie(state: &mut RequestState, name: &[u8]) {
    state.module_notes.edit::<RewriteNotes>().cookies.push(name.into());
}

/// Returns whether the site's own rules have led to the present path.
pub(super) fn is_by_site(state: &RequestState) -> bool {
    of(state).is_some_and(|notes| notes.is_by_site)
}

/// Returns whether a rule with `END` has applied, before an internal redirect or after.
pub(super) fn has_ended(state: &RequestState) -> bool {
    of(state).is_some_and(|notes| notes.has_ended)
}

/// Returns the names of the cookies that rules have set, before an internal redirect or after.
pub(super) fn cookies(state: &RequestState) -> &[Box<[u8]>] {
    of(state).map_or(&[], |notes| &notes.cookies)
}

fn of(state: &RequestState) -> Option<&RewriteNotes> {
    state.module_notes.of()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_cookies_count_in_the_weight_of_a_request() {
        let mut state = RequestState::default();
        let before = state.weight();
        (0..10).for_each(|_| note_cookie(&mut state, &[b'x'; 1_000]));
        let more = state.weight() - before;
        assert!((10_000..11_000).contains(&more), "{more}");
    }
}
