//! Two Howdah binaries side by side: the gain or loss of a change.

use std::rc::Rc;
use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::load::{Closed, Load};
use crate::plan::{CellGroup, Effort, Plan, PlannedCell};
use crate::record::Figure;
use crate::stack::Stack;
use crate::stacks::howdah_binary;
use crate::wordpress::front_page;

/// Connections of the load.
const CONNECTIONS: usize = 32;

/// Many short rounds say more than few long ones.
pub(super) const EFFORT: Effort = Effort {
    rounds: 15,
    time: Duration::from_secs(2),
    ..Effort::FULL
};

const BEFORE: &str = "before";

const PAGES: &[&str] =
    &["/HelloWorld.php", "/1MB.php", "/10x100KB.php", "/HelloWorld.txt", "/100KB.txt"];

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// The two binaries are not named, or stacks are.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let Some((before, after)) = &facts.binaries else {
        return Err("name the two binaries with --before FILE and --after FILE".to_owned());
    };
    if !facts.stacks.is_empty() {
        return Err(
            "ab compares the binaries of --before and --after; leave --stacks out".to_owned()
        );
    }
    let stacks: Vec<Rc<dyn Stack>> = vec![
        Rc::new(howdah_binary(BEFORE, "before", before)),
        Rc::new(howdah_binary("after", "after", after)),
    ];
    let wrk = |time| Load::Wrk(Closed { connections: CONNECTIONS, time });
    let figure = Figure::RequestsPerSecond;
    let mut cells: Vec<PlannedCell> = PAGES
        .iter()
        .map(|path| {
            let name = path.trim_start_matches('/');
            cell(name, None, figure, page(path), wrk(facts.effort.time))
        })
        .collect();
    if facts.wordpress {
        // A slow page gives too few answers to count in a second.
        let load = wrk(facts.effort.time.max(Duration::from_secs(2)));
        cells.push(cell("WordPress, front page", None, figure, front_page(), load));
    }
    for cell in &mut cells {
        cell.base = Some(BEFORE.to_owned());
        cell.in_turns = facts.turns && cell.name.starts_with("HelloWorld");
    }
    Ok(Plan {
        groups: vec![CellGroup {
            title: "before and after".to_owned(),
            stacks,
            conditions: together(CONNECTIONS, CONNECTIONS),
            cells,
        }],
        notes: NOTES.iter().map(|note| (*note).to_owned()).collect(),
        ..Plan::default()
    })
}

const NOTES: &[&str] = &[
    "Both binaries run at the same time, with the same configuration but for port and folder; only \
     one of them is asked at a time. Every second round runs in the opposite order",
    "The number of PHP workers is the default of each binary",
    "1MB.php prints 1,024 pieces of 1 KB, 10x100KB.php ten pieces of 100 KB",
];
