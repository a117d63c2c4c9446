//! The search for a stack's best setting.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::Runner;
use super::measure::SAMPLE;
use crate::loads::{self, Wrong, sample};
use crate::plan::Group;
use crate::record::{Figure, Run};
use crate::stack::Stack;

impl Runner<'_> {
    /// The group's settings with the best value of the searched setting.
    pub(super) fn search(
        &mut self,
        group: &Group,
        stacks: &[Rc<dyn Stack>],
        folder: &Path,
        run: &mut Run,
    ) -> Result<BTreeMap<String, String>, Wrong> {
        let mut settings = group.conditions.settings.clone();
        let (Some(search), [stack]) = (&group.conditions.search, stacks) else {
            return Ok(settings);
        };
        if let Some(found) = run.searched.get(stack.name()) {
            settings.insert(search.setting.clone(), found.to_string());
            return Ok(settings);
        }
        let (mut best, mut tried): (Option<(f64, u32)>, Vec<String>) = (None, Vec::new());
        for candidate in &search.candidates {
            if self.is_interrupted() {
                return Ok(settings);
            }
            settings.insert(search.setting.clone(), candidate.to_string());
            let limit = self.limit(group, run);
            let own = folder.join(format!("search-{candidate}"));
            let started = self.start(group, &settings, stacks, &own, limit.as_ref(), run)?;
            let Some(one) = started.first() else { break };
            // The first answers load code. A stack that cannot give them has no hits.
            let _ = sample::check(&search.question, one.running.port, 4 * SAMPLE);
            let measured = loads::put(&search.load, &search.question, &one.running.target());
            let hits = measured.map_or(0.0, |measured| {
                measured.figures.get(&Figure::Hits).copied().unwrap_or(0.0)
            });
            tried.push(format!("{candidate}: {hits}"));
            if best.is_none_or(|(most, _)| hits > most) {
                best = Some((hits, *candidate));
            }
        }
        if let Some((_, candidate)) = best {
            run.searched.insert(stack.name().to_owned(), candidate);
            settings.insert(search.setting.clone(), candidate.to_string());
            let tried = tried.join(", ");
            self.note(
                run,
                &format!(
                    "{}: {} = {candidate} (hits while searching: {tried})",
                    stack.title(),
                    search.setting
                ),
            );
        }
        Ok(settings)
    }
}
