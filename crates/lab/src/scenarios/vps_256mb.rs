//! WordPress and its database in 256 MB: hits, errors and time-outs of a growing number of clients,
//! on each stack as its package installs it and with the best settings that a search finds.

use std::rc::Rc;
use std::time::Duration;

use super::{Facts, cell, together};
use crate::load::{Load, Ramp};
use crate::plan::{CellGroup, GroupConditions, Plan, PlannedCell, SettingsSearch};
use crate::record::{Bound, CellTarget, Figure};
use crate::stack::Stack;
use crate::stacks::{as_installed, named, tuned};
use crate::wordpress::front_page;

const MEMORY: u64 = 256 << 20;

/// A stack, and the setting that decides how much memory it needs.
const STACKS: &[(&str, &str)] = &[
    (OURS, "workers"),
    ("apache-prefork-mod_php", "MaxRequestWorkers"),
    ("apache-worker-mod_php", "ThreadsPerChild"),
    ("apache-worker-fpm", "pm.max_children"),
    ("nginx-fpm", "pm.max_children"),
    ("lighttpd-fpm", "pm.max_children"),
];
/// The stacks of a quick run.
const QUICK: &[&str] = &[OURS, "apache-prefork-mod_php", "nginx-fpm"];
const OURS: &str = "howdah";

/// Clients at the end of the ramp, and the study's hits.
type RampRow = (usize, &'static [(&'static str, f64)]);

/// The upper end where the study gives a range.
const RAMPS: &[RampRow] = &[
    (
        20,
        &[
            ("prefork + mod_php, 8 clients", 146.0),
            ("prefork + mod_php, 4 clients", 123.0),
            ("prefork + mod_php, 20 clients", 125.0),
            ("worker + mod_php, 8 threads", 503.0),
        ],
    ),
    (70, &[("worker + mod_php, 8 threads", 1268.0)]),
    (
        150,
        &[
            ("worker + mod_php, 2 × 10 threads", 1985.0),
            ("worker + mod_php, 4 × 20 threads", 1643.0),
            ("prefork + FastCGI, 4 children", 1483.0),
            ("worker + FastCGI, 4 children", 2182.0),
        ],
    ),
];
/// Clients of a quick run.
const QUICK_RAMP: usize = 70;

/// Duration of the study's ramps.
const STUDY: Duration = Duration::from_secs(60);
/// Length of a ramp as a multiple of a load's usual length: a minute in a full run.
const LENGTH: u32 = 12;
/// The same for a quick run.
const QUICK_LENGTH: u32 = 6;
/// Time that a client waits for its answer, as in the study.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that a client reads a page.
const READING: Duration = Duration::from_millis(500);
/// The largest number of processes that is searched for.
const MOST: u32 = 32;
/// Seconds for which connections are kept while searching.
const KEPT: [u32; 3] = [0, 2, 5];

/// The study's hits, in proportion to a shorter ramp.
fn scaled(study: &[(&str, f64)], time: Duration) -> Vec<(String, f64)> {
    let share = time.as_secs_f64() / STUDY.as_secs_f64();
    let words = if time < STUDY { ", its minute in proportion" } else { "" };
    study
        .iter()
        .map(|(name, hits)| (format!("{name}{words}"), (hits * share).round()))
        .collect()
}

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// WordPress is missing, or a named stack is not in this study.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    if !facts.wordpress {
        return Err(
            "this scenario needs WordPress on MariaDB; `howdah-lab setup` installs both".to_owned()
        );
    }
    let names: Vec<&str> = match (facts.stacks.as_slice(), facts.effort.quick) {
        ([], true) => QUICK.to_vec(),
        ([], false) => STACKS.iter().map(|(name, _)| *name).collect(),
        (chosen, _) => chosen.iter().map(String::as_str).collect(),
    };
    let mut groups = Vec::new();
    let swaps: &[u64] = if facts.swap && !facts.effort.quick {
        &[0, MEMORY]
    } else {
        &[0]
    };
    for (swap, name) in swaps.iter().flat_map(|swap| names.iter().map(move |name| (*swap, *name))) {
        let stack = named(&[name])?.remove(0);
        let Some((_, processes)) = STACKS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = STACKS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name} is not in this study; there are {}", known.join(", ")));
        };
        for cell in cells(facts, swap) {
            groups.push(group(
                as_installed(&installed_name(name), stack.clone()),
                swap,
                None,
                &cell,
            ));
            let search = search(facts, processes);
            groups.push(group(tuned(&tuned_name(name), stack.clone()), swap, Some(search), &cell));
        }
    }
    let mut notes: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
    notes.push(if swaps.len() > 1 {
        "The same was repeated with 256 MB of swap".to_owned()
    } else if facts.swap {
        "A quick run leaves the runs with swap out".to_owned()
    } else {
        "This machine has no swap, so the runs with swap are missing".to_owned()
    });
    let targets = targets(facts, &names, swaps);
    Ok(Plan {
        groups,
        notes,
        targets,
        in_passes: true,
        ..Plan::default()
    })
}

/// Howdah without any setting is compared with all others.
fn installed_name(name: &str) -> String {
    match name {
        OURS => OURS.to_owned(),
        name => format!("{name}-as-installed"),
    }
}

fn tuned_name(name: &str) -> String {
    format!("{name}-tuned")
}

fn group(
    stack: impl Stack + 'static,
    swap: u64,
    search: Option<SettingsSearch>,
    cell: &PlannedCell,
) -> CellGroup {
    CellGroup {
        title: format!("{} in 256 MB, {}", stack.title(), cell.name),
        stacks: vec![Rc::new(stack)],
        conditions: GroupConditions {
            alone: true,
            memory: Some(MEMORY),
            swap,
            database: true,
            search,
            ..together(8, 150)
        },
        cells: vec![cell.clone()],
    }
}

fn length(facts: &Facts) -> Duration {
    let times = if facts.effort.quick { QUICK_LENGTH } else { LENGTH };
    facts.effort.time * times
}

fn ramp(clients: usize, time: Duration) -> Ramp {
    Ramp {
        keeps: true,
        reads: READING,
        recovery: time,
        clients,
        time,
        // At most half of a short ramp: otherwise no request could time out.
        timeout: PATIENCE.min(time / 2),
    }
}

fn rows(facts: &Facts) -> impl Iterator<Item = &'static RampRow> {
    let quick = facts.effort.quick;
    RAMPS.iter().filter(move |(clients, _)| !quick || *clients == QUICK_RAMP)
}

fn chart(swap: u64) -> &'static str {
    match swap {
        0 => "hits in the ramp",
        _ => "hits in the ramp with swap",
    }
}

fn cells(facts: &Facts, swap: u64) -> Vec<PlannedCell> {
    let time = length(facts);
    let cell = |(clients, study): &RampRow| {
        let at = Some((*clients as f64, "clients at the end of the ramp"));
        let load = Load::Ramp(ramp(*clients, time));
        let mut cell = cell(chart(swap), at, Figure::Hits, front_page(), load);
        cell.study = scaled(study, time);
        cell
    };
    rows(facts).map(cell).collect()
}

fn search(facts: &Facts, processes: &str) -> SettingsSearch {
    let time = length(facts) / 2;
    let load = Load::Ramp(Ramp {
        recovery: Duration::ZERO,
        ..ramp(QUICK_RAMP, time)
    });
    SettingsSearch {
        processes: processes.to_owned(),
        most: MOST,
        keep_alive: KEPT.to_vec(),
        question: front_page(),
        load,
    }
}

/// Howdah without any setting beside its own best setting and beside the tuned peers, and never
/// killed.
fn targets(facts: &Facts, names: &[&str], swaps: &[u64]) -> Vec<CellTarget> {
    let peers: Vec<String> = names
        .iter()
        .filter(|name| **name != OURS)
        .map(|name| tuned_name(name))
        .collect();
    let mut targets = Vec::new();
    if !names.contains(&OURS) {
        return targets;
    }
    for cell in swaps.iter().flat_map(|swap| cells(facts, *swap)) {
        let target = |figure, against: Vec<String>, bound| CellTarget {
            cell: cell.name.clone(),
            figure,
            ours: OURS.to_owned(),
            against,
            bound,
        };
        let own = vec![tuned_name(OURS)];
        targets.push(target(Figure::Hits, own, Bound::AtLeast(0.95)));
        if !peers.is_empty() {
            targets.push(target(Figure::Hits, peers.clone(), Bound::AtLeast(1.0)));
        }
        targets.push(target(Figure::Kills, Vec::new(), Bound::AtMost(0.0)));
    }
    targets
}

const NOTES: &[&str] = &[
    "First WordPress was installed, with a database that was stopped then. Each figure is that of \
     a stack and a database that were started for it, together in a control group with 256 MB; \
     MariaDB has its defaults, and its log and data are on the machine's disk",
    "\"As installed\" has Debian's numbers: prefork 5 processes at the start and 150 at the most, \
     threads 2 × 25 and 150, php-fpm's dynamic pool of 5, connections kept for 5 s (nginx 65 s). \
     Howdah as installed has no setting at all, so that its mode is auto. Access logs are off and \
     php.ini is the same for all",
    "\"Tuned\" was searched for before its first round, in ramps of half the length: processes in \
     doublings from 1 up to 32 with connections closed after each answer, until two in a row gave \
     fewer hits; then between the neighbours of the best; then connections kept for 2 and for 5 \
     seconds. Settings with which the kernel killed a process lose against all others",
    "Then came the rounds: in each, every stack as installed and tuned had its ramps, alone on the \
     machine, in every second round in the opposite order. Rounds are compared one with one",
    "A client reads a page for half a second before it asks for the next on the same connection, \
     where the server keeps it. It waits ten seconds for an answer, or half of a shorter ramp",
    "Recovery is the time after the ramp, when all clients have gone, until three answers in a row \
     are right; where that does not happen within the length of a ramp, it is that length",
    "Nothing that was killed is started again by the laboratory; on a real machine systemd may \
     start a database again",
    "The study ran on a FreeBSD server with 256 MB in all. Its worker + mod_php needs a \
     thread-safe PHP, which Debian does not have: `howdah-lab setup --zts` builds one; without it \
     that stack is missing",
    "The study's time-outs: prefork 8 clients 12–29 (ramp to 10) and 181 (to 20), 4 clients 12 and \
     189, 20 clients 198–211; worker 8 threads 1 (to 20) and 122 (to 70), 2 × 10 threads 24 (to \
     100) and 536 (to 150), 4 × 20 threads 918 (to 150); FastCGI behind prefork 1,060 and behind \
     worker 596 (to 150); nginx + php-fpm 442 with 5 children and 491 with 4 (to 100)",
];
