//! `<Files>` by the file's name, then `<If>` by conditions (`ap_file_walk`, `ap_if_walk`).

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::Place;
use howdah_htaccess::compile::{ConditionalSection, Names};
use howdah_htaccess::pattern::Captures;
use howdah_htaccess::trace::Event;
use howdah_htaccess::wildcard;
use memchr::memrchr;

use super::outside::Outside;
use super::{Asked, Walk};
use crate::disk::Disk;
use crate::rules::{InForce, NO_BRANCH, Rules};

impl<'r, D: Disk> Walk<'_, 'r, D> {
    /// Merges the sections that apply into the request's settings.
    pub(super) fn walk_sections(&mut self, asked: &mut Asked<'r>) {
        let Some(rules) = asked.rules.clone() else {
            return;
        };
        let mut in_force = self.walk_files(asked, &rules);
        while !in_force.pending.is_empty() {
            in_force = self.walk_conditions(asked, &in_force);
        }
        asked.settings.clone_from(&in_force.settings);
        asked.section_sets_handler = in_force.section_sets_handler;
        asked.is_silent = in_force.is_silent;
    }

    fn walk_files(&mut self, asked: &mut Asked<'r>, rules: &Rules) -> Rc<InForce> {
        let sections = &rules.settings().files;
        let mut numbers = std::mem::take(&mut self.scratch.numbers);
        numbers.clear();
        let filename = std::mem::take(&mut asked.tx.state.filename);
        let name = &filename[memrchr(b'/', &filename).map_or(0, |at| at + 1)..];
        for (number, section) in (0..u16::MAX).zip(sections) {
            let applies = matches(&section.names, name);
            asked
                .tx
                .trace(|| section_event(&section.place, &section.text, applies));
            if applies {
                numbers.push(number);
            }
        }
        asked.tx.state.filename = filename;
        let in_force = rules.with_files(&numbers);
        self.scratch.numbers = numbers;
        in_force
    }

    fn walk_conditions(&mut self, asked: &mut Asked<'r>, in_force: &InForce) -> Rc<InForce> {
        let mut numbers = std::mem::take(&mut self.scratch.numbers);
        numbers.clear();
        for section in &in_force.pending {
            let number = self.branch(asked, section);
            numbers.push(number);
        }
        let closer = in_force.with_branches(&numbers);
        self.scratch.numbers = numbers;
        closer
    }

    /// The first branch whose condition holds. One that fails is logged and counts as one that does not hold.
    fn branch(&mut self, asked: &mut Asked<'r>, section: &ConditionalSection) -> u16 {
        for (number, branch) in (0..NO_BRANCH).zip(&section.branches) {
            let holds = match &branch.condition {
                None => true,
                Some(condition) => {
                    let mut outside = Outside::new(self, &asked.path, asked.kind);
                    let held = condition.holds(&mut asked.tx, &mut outside, &mut Captures::default());
                    held.unwrap_or_else(|error| {
                        let text = format!("the condition cannot be evaluated: {error}");
                        asked.tx.complain(Some(&branch.place), text);
                        false
                    })
                }
            };
            asked
                .tx
                .trace(|| section_event(&branch.place, &branch.text, holds));
            if holds {
                return number;
            }
        }
        NO_BRANCH
    }
}

fn matches(names: &Names, name: &[u8]) -> bool {
    match names {
        Names::Exact(exact) => **exact == *name,
        Names::Wildcard(pattern) => wildcard::matches(pattern, name),
        // A pattern that is given up matches: what it protects stays protected.
        Names::Regex(pattern) => pattern.is_match(name).unwrap_or(true),
    }
}

fn section_event(place: &Arc<Place>, text: &str, applies: bool) -> Event {
    Event {
        step: "section",
        place: Some(Arc::clone(place)),
        text: text.to_owned(),
        facts: Vec::new(),
        outcome: if applies { "applies" } else { "does not apply" }.to_owned(),
    }
}
