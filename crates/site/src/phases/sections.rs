//! `<Files>` by the file's name, then `<If>` by conditions (`ap_file_walk`, `ap_if_walk`).

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::pattern::Captures;
use howdah_htaccess::settings::{ConditionalSection, FileNames};
use howdah_htaccess::trace::TraceEvent;
use howdah_htaccess::wildcard;
use howdah_htaccess::work::{Exhausted, Meter, RULE, comparing};
use howdah_htaccess::{DirectivePlace, RequestState};
use howdah_http::Fields;
use memchr::{memchr, memmem, memrchr};

use super::evaluation_context::PhaseContext;
use super::{PhaseRequest, RequestEvaluation};
use crate::documents::SiteHost;
use crate::rules::{NO_BRANCH, Rules, SettingsInForce};

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Merges the sections that apply into the request's settings.
    pub(super) fn walk_sections(&mut self, request: &mut PhaseRequest<'r>) {
        let Some(rules) = request.rules.clone() else {
            return;
        };
        // A request whose work is too much fails at the end of the evaluation.
        let Ok(mut in_force) = self.walk_files(request, &rules) else {
            return;
        };
        while !in_force.pending.is_empty() {
            let Ok(closer) = self.walk_conditions(request, &in_force) else {
                return;
            };
            in_force = closer;
        }
        request.settings.clone_from(&in_force.settings);
        request.section_sets_handler = in_force.section_sets_handler;
        request.is_silent = in_force.is_silent;
    }

    fn walk_files(
        &mut self,
        request: &mut PhaseRequest<'r>,
        rules: &Rules,
    ) -> Result<Rc<SettingsInForce>, Exhausted> {
        let meter = request.tx.client.meter();
        let sections = &rules.settings().files;
        let mut numbers = std::mem::take(&mut self.scratch.numbers);
        numbers.clear();
        let filename = std::mem::take(&mut request.tx.state.filename);
        let name = &filename[memrchr(b'/', &filename).map_or(0, |at| at + 1)..];
        for (number, section) in (0..u16::MAX).zip(sections) {
            if meter.spend(RULE).is_err() {
                break;
            }
            let applies = matches(&section.names, name, &mut request.tx.state, meter);
            request.tx.trace(|| section_event(&section.place, &section.text, applies));
            if applies {
                numbers.push(number);
            }
        }
        request.tx.state.filename = filename;
        let in_force = rules.with_files(&numbers, meter);
        self.scratch.numbers = numbers;
        in_force
    }

    fn walk_conditions(
        &mut self,
        request: &mut PhaseRequest<'r>,
        in_force: &SettingsInForce,
    ) -> Result<Rc<SettingsInForce>, Exhausted> {
        let mut numbers = std::mem::take(&mut self.scratch.numbers);
        numbers.clear();
        for section in &in_force.pending {
            let number = self.branch(request, section);
            numbers.push(number);
        }
        let closer = in_force.with_branches(&numbers, request.tx.client.meter());
        self.scratch.numbers = numbers;
        closer
    }

    /// Returns the first branch whose condition holds. A condition that fails is logged and does
    /// not hold.
    fn branch(&mut self, request: &mut PhaseRequest<'r>, section: &ConditionalSection) -> u16 {
        for (number, branch) in (0..NO_BRANCH).zip(&section.branches) {
            let holds = match &branch.condition {
                None => true,
                Some(condition) => {
                    let mut context = PhaseContext::new(self, &request.path, request.kind);
                    let held =
                        condition.holds(&mut request.tx, &mut context, &mut Captures::default());
                    held.unwrap_or_else(|error| {
                        let text = format!("the condition cannot be evaluated: {error}");
                        request.tx.complain(Some(&branch.place), text);
                        false
                    })
                }
            };
            request.tx.trace(|| section_event(&branch.place, &branch.text, holds));
            if holds {
                return number;
            }
        }
        NO_BRANCH
    }
}

/// Returns whether a section is for files of that name. The named groups of its expression become
/// `MATCH_` variables.
fn matches(names: &FileNames, name: &[u8], state: &mut RequestState, meter: Meter<'_>) -> bool {
    let pattern = match names {
        FileNames::Exact(exact) => return **exact == *name,
        FileNames::Wildcard(pattern) => {
            // As below, a name that cannot be compared is covered.
            let steps = pattern.len() as u64 * name.len() as u64 / 16;
            return meter.spend(steps).is_err() || wildcard::matches(pattern, name);
        }
        FileNames::Regex(pattern) => pattern,
    };
    if !pattern.has_groups() || memmem::find(pattern.text(), b"(?").is_none() {
        // A pattern that exceeds its limit matches: the files that it protects stay protected.
        return pattern.is_match(name, meter).unwrap_or(true);
    }
    let mut captures = Captures::default();
    let applies = pattern.captures(name, &mut captures, meter).unwrap_or(true);
    if applies {
        for (number, group) in named_groups(pattern.text()) {
            let variable = [b"MATCH_", &group.to_ascii_uppercase()[..]].concat();
            let value = captures.group(number);
            if meter.spend(comparing(state.env.len(), &variable)).is_err() {
                break;
            }
            if state.room_for(Fields::size_of_line(&variable, value)).is_err() {
                // The evaluation ends here.
                meter.note(u64::MAX);
                break;
            }
            state.env.set(&variable, value);
        }
    }
    applies
}

/// The names of an expression's groups with their numbers: `(?<name>…)`, `(?P<name>…)` and
/// `(?'name'…)`.
fn named_groups(text: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found = Vec::new();
    let (mut number, mut at, mut in_class) = (0, 0, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'[' if !in_class => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => {
                let rest = &text[at + 1..];
                let name = group_name(rest);
                if name.is_some() || !rest.starts_with(b"?") && !rest.starts_with(b"*") {
                    number += 1;
                }
                found.extend(name.map(|name| (number, name)));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The name that follows a parenthesis.
fn group_name(rest: &[u8]) -> Option<&[u8]> {
    let (name, end) = match rest {
        [b'?', b'<', name @ ..] | [b'?', b'P', b'<', name @ ..] => (name, b'>'),
        [b'?', b'\'', name @ ..] => (name, b'\''),
        _ => return None,
    };
    let name = &name[..memchr(end, name)?];
    let is_name = name.first().is_some_and(|first| !first.is_ascii_digit());
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (is_name && name.iter().all(is_word)).then_some(name)
}

fn section_event(place: &Arc<DirectivePlace>, text: &str, applies: bool) -> TraceEvent {
    TraceEvent {
        step: "section",
        place: Some(Arc::clone(place)),
        text: text.to_owned(),
        facts: Vec::new(),
        outcome: if applies { "applies" } else { "does not apply" }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::named_groups;

    #[test]
    fn groups_have_names() {
        let rows: [(&str, &[(usize, &str)]); 6] = [
            ("(a)(?<b>c)", &[(2, "b")]),
            ("(?:a)(?P<b>c)(?'d'e)", &[(1, "b"), (2, "d")]),
            (r"\((?<a>b)[(](?<c>d)", &[(1, "a"), (2, "c")]),
            ("(?<=a)(?<!b)(c)", &[]),
            ("(?i)(?<a>(?<b>x))", &[(1, "a"), (2, "b")]),
            ("(?<a", &[]),
        ];
        for (text, expected) in rows {
            let expected: Vec<(usize, &[u8])> =
                expected.iter().map(|(number, name)| (*number, name.as_bytes())).collect();
            assert_eq!(named_groups(text.as_bytes()), expected, "{text}");
        }
    }
}
