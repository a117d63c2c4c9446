//! The wait of a site's other pages while many clients ask for a slow one.

use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::load::{Busy, Load, Open};
use crate::plan::{CellGroup, Effort, Plan, PlannedCell};
use crate::record::{Bound, CellTarget, Figure};

/// Requests per second for the fast page: so few that they neither keep PHP busy themselves, nor
/// wait for a free connection where each waits for all slow pages before it.
const RATE: f64 = 50.0;
/// Connections of the fast page's clients.
const CONNECTIONS: usize = 32;
/// Connections of the slow page's clients: four for each PHP process.
const FLOOD: usize = 4 * PROCESSES;
/// PHP processes of each stack. Apache with mod_php has one for each connection.
const PROCESSES: usize = 8;

/// Each round has four hundred requests for the fast page.
pub(super) const EFFORT: Effort = Effort {
    time: Duration::from_secs(8),
    ..Effort::FULL
};

/// The slow pages: what they do, and their paths.
const SLOW: [(&str, &str); 2] = [("waiting", "/wait.php"), ("computing", "/compute.php")];

const USUAL: &[&str] = &[
    "howdah",
    "howdah-lanes",
    "nginx-fpm",
    "apache-event-fpm",
    "apache-prefork-mod_php",
    "lighttpd-fpm",
];

const QUICK: &[&str] = &["howdah", "howdah-lanes", "nginx-fpm", "apache-prefork-mod_php"];

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(if facts.effort.quick { QUICK } else { USUAL })?;
    let names: Vec<&str> = stacks.iter().map(|stack| stack.name()).collect();
    let targets = targets(&names);
    Ok(Plan {
        groups: vec![CellGroup {
            title: "a fast page beside a slow one".to_owned(),
            conditions: together(PROCESSES, FLOOD + CONNECTIONS),
            cells: SLOW.iter().map(|(what, path)| beside(facts, what, path)).collect(),
            stacks,
        }],
        notes: NOTES.iter().map(|note| (*note).to_owned()).collect(),
        targets,
        ..Plan::default()
    })
}

fn cell_name(what: &str) -> String {
    format!("HelloWorld.php beside {what} pages")
}

fn beside(facts: &Facts, what: &str, path: &str) -> PlannedCell {
    let open = Open {
        rate: RATE,
        connections: CONNECTIONS,
        time: facts.effort.time,
    };
    let busy = Busy { question: page(path), connections: FLOOD };
    let load = Load::Beside(open, busy);
    cell(&cell_name(what), None, Figure::Latency99, page("/HelloWorld.php"), load)
}

/// Lanes are for this, so the fast page waits less than on a server with one queue.
fn targets(stacks: &[&str]) -> Vec<CellTarget> {
    let (ours, peers) = ("howdah-lanes", ["nginx-fpm", "apache-event-fpm", "lighttpd-fpm"]);
    let against: Vec<String> = peers
        .iter()
        .filter(|peer| stacks.contains(peer))
        .map(|peer| (*peer).to_owned())
        .collect();
    if !stacks.contains(&ours) || against.is_empty() {
        return Vec::new();
    }
    let target = |(what, _): &(&str, &str)| CellTarget {
        cell: cell_name(what),
        figure: Figure::Latency99,
        ours: ours.to_owned(),
        against: against.clone(),
        bound: Bound::AtMost(0.5),
    };
    SLOW.iter().map(target).collect()
}

const NOTES: &[&str] = &[
    "50 times a second HelloWorld.php is asked for, first alone, then while 32 clients ask for a \
     slow page of the same site as fast as they are answered. wait.php sleeps for 50 ms, \
     compute.php computes for about 20 ms. Latency counts from the moment at which a request was \
     due",
    "All stacks but Apache with mod_php have 8 PHP processes. That one has as many as there may be \
     connections, 64: its slow clients wait for a processor, not for a process, and the site has \
     eight times the processes in memory",
    "\"Howdah, lanes\" has one lane for the two slow pages, with 4 of the 8 workers. The other \
     Howdah has no setting: all clients have the same address here, so that its turns between \
     clients do nothing",
    "Where pages compute, the fast page waits for the processors as well, which all programs of \
     the machine share",
];
