//! Today's servers: every stack of Debian's packages, configured well.

mod targets;

use std::rc::Rc;
use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::load::{Busy, Closed, Load, Open, Slow};
use crate::plan::{CellGroup, GroupConditions, Plan, PlannedCell};
use crate::record::Figure;
use crate::stack::Stack;
use crate::wordpress::front_page;

/// Connections of the closed loops.
const CONNECTIONS: usize = 32;
/// PHP processes of each stack, for each processor: as many as Howdah has by default.
const PER_CORE: usize = 4;
/// PHP processes of each stack in the cells about latency beside busy PHP and about idle
/// connections.
const FEW: usize = 8;
/// Idle connections of the memory target.
const CROWD: usize = 10_000;
const FRONT_PAGE: &str = "WordPress, front page";
const CROWD_CELL: &str = "memory with 10,000 idle connections";

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(if facts.effort.quick { QUICK } else { USUAL })?;
    let mut groups = vec![
        CellGroup {
            title: "32 connections".to_owned(),
            stacks: stacks.clone(),
            conditions: together(PER_CORE * facts.cores, CONNECTIONS),
            cells: throughput(facts),
        },
        ruled(facts)?,
        beside(facts, &stacks),
        crowd(facts, &stacks),
    ];
    if !facts.effort.quick {
        groups.push(reload_and_slow(facts, &stacks));
    }
    groups.retain(|group| !group.stacks.is_empty());
    let mut notes: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
    if !facts.wordpress {
        notes.push("WordPress could not be installed, so it is missing".to_owned());
    }
    let targets = targets::all(&groups);
    Ok(Plan {
        groups,
        notes,
        targets,
        ..Plan::default()
    })
}

/// The chosen stacks with these names.
fn among(stacks: &[Rc<dyn Stack>], names: &[&str]) -> Vec<Rc<dyn Stack>> {
    stacks.iter().filter(|stack| names.contains(&stack.name())).cloned().collect()
}

fn wrk(time: Duration) -> Load {
    Load::Wrk(Closed { connections: CONNECTIONS, time })
}

fn throughput(facts: &Facts) -> Vec<PlannedCell> {
    let quick = facts.effort.quick;
    let mut cells: Vec<PlannedCell> = FILES
        .iter()
        .filter(|path| !quick || **path != "/work.php")
        .map(|path| {
            let name = path.trim_start_matches('/');
            cell(name, None, Figure::RequestsPerSecond, page(path), wrk(facts.effort.time))
        })
        .collect();
    if facts.wordpress {
        let load = wrk(facts.effort.time.max(Duration::from_secs(2)));
        let figure = Figure::RequestsPerSecond;
        cells.push(cell(FRONT_PAGE, None, figure, front_page(), load));
    }
    let chart = "99 % latency of HelloWorld.php at a fixed rate";
    let rates: &[f64] = if quick { &[] } else { &[1000.0, 4000.0] };
    cells.extend(rates.iter().map(|rate| {
        let load = Load::OpenLoop(Open {
            rate: *rate,
            connections: CONNECTIONS,
            time: facts.effort.time,
        });
        let at = Some((*rate, "requests/s"));
        let cell = cell(chart, at, Figure::Latency99, page("/HelloWorld.php"), load);
        PlannedCell { most_rounds: Some(3), ..cell }
    }));
    cells
}

/// The cost of an application's `.htaccess`: Howdah with and without the file.
fn ruled(facts: &Facts) -> Result<CellGroup, String> {
    let names = ["howdah", "howdah-wordpress-rules", "howdah-drupal-rules"];
    let stacks = crate::stacks::named(&names)?;
    let ours = facts.stacks.is_empty() || facts.stacks.iter().any(|name| name == "howdah");
    let files = FILES
        .iter()
        .filter(|path| **path != "/work.php")
        .filter(|path| !facts.effort.quick || path.starts_with("/HelloWorld"));
    let cells = files.map(|path| {
        let name = format!("{} beside an .htaccess", path.trim_start_matches('/'));
        cell(&name, None, Figure::RequestsPerSecond, page(path), wrk(facts.effort.time))
    });
    Ok(CellGroup {
        title: "an application's .htaccess".to_owned(),
        stacks: if ours { stacks } else { Vec::new() },
        conditions: together(PER_CORE * facts.cores, CONNECTIONS),
        cells: cells.collect(),
    })
}

/// Latency of files while PHP is busy.
fn beside(facts: &Facts, stacks: &[Rc<dyn Stack>]) -> CellGroup {
    let kinds: [(&str, &str); 2] = [("waiting", "/wait.php"), ("computing", "/compute.php")];
    let cells = kinds.map(|(what, path)| {
        let open = Open {
            rate: 2000.0,
            connections: CONNECTIONS,
            time: facts.effort.time,
        };
        let busy = Busy {
            question: page(path),
            connections: 2 * FEW,
        };
        let name = format!("latency of files beside {what} PHP");
        let mut cell = cell(
            &name,
            None,
            Figure::SlowedDown,
            page("/HelloWorld.txt"),
            Load::Beside(open, busy),
        );
        cell.php = true;
        cell
    });
    let quick: &[&str] = &["howdah", "nginx-fpm"];
    let full: &[&str] = &["howdah", "nginx-fpm", "apache-event-fpm", "lighttpd-fpm"];
    CellGroup {
        title: "files beside busy PHP".to_owned(),
        stacks: among(stacks, if facts.effort.quick { quick } else { full }),
        conditions: together(FEW, 4 * CONNECTIONS),
        cells: cells.to_vec(),
    }
}

fn crowd(facts: &Facts, stacks: &[Rc<dyn Stack>]) -> CellGroup {
    let idle = Load::Idle(Closed {
        connections: CROWD,
        time: Duration::from_secs(1),
    });
    let cell = cell(CROWD_CELL, None, Figure::PeakPss, page("/HelloWorld.txt"), idle);
    CellGroup {
        title: "idle connections".to_owned(),
        // Apache needs a process or a thread for each connection, or closes it.
        stacks: among(
            stacks,
            if facts.effort.quick {
                &["howdah", "nginx-fpm"]
            } else {
                &["howdah", "nginx-fpm", "lighttpd-fpm", "h2o", "caddy"]
            },
        ),
        conditions: GroupConditions { alone: true, ..together(FEW, CROWD) },
        cells: vec![PlannedCell { most_rounds: Some(2), ..cell }],
    }
}

fn reload_and_slow(facts: &Facts, stacks: &[Rc<dyn Stack>]) -> CellGroup {
    let seldom = |cell: PlannedCell| PlannedCell { most_rounds: Some(2), ..cell };
    let slow = |kind, name: &str| {
        let crowd = Closed { connections: 50, time: facts.effort.time };
        let name = format!("small pages beside 50 clients with slow {name}");
        let load = Load::Slow(kind, crowd);
        seldom(cell(&name, None, Figure::RequestsPerSecond, page("/HelloWorld.php"), load))
    };
    let reload = Load::Reload(Closed {
        connections: 8,
        time: Duration::from_secs(4),
    });
    let reload = cell(
        "wrong answers while reloading every second",
        None,
        Figure::Errors,
        page("/HelloWorld.php"),
        reload,
    );
    CellGroup {
        title: "reloads and slow clients".to_owned(),
        stacks: stacks.iter().filter(|stack| stack.serves_php()).cloned().collect(),
        conditions: together(CONNECTIONS, 100),
        cells: vec![
            seldom(reload),
            slow(Slow::Head, "heads"),
            slow(Slow::Body, "bodies"),
            slow(Slow::Reader, "reading"),
        ],
    }
}

const FILES: &[&str] = &[
    "/HelloWorld.php",
    "/1MB.php",
    "/10x100KB.php",
    "/work.php",
    "/HelloWorld.txt",
    "/100KB.txt",
    "/1MB.txt",
];

const USUAL: &[&str] = &[
    "howdah",
    "nginx-fpm",
    "nginx-fpm-keepalive",
    "apache-prefork-mod_php",
    "apache-prefork-mod_php-htaccess",
    "apache-event-fpm",
    "apache-worker-fcgid",
    "lighttpd-fpm",
    "nginx-unit",
    "frankenphp",
    "h2o",
    "caddy",
];

const QUICK: &[&str] = &["howdah", "nginx-fpm", "apache-prefork-mod_php", "lighttpd-fpm", "h2o"];

const NOTES: &[&str] = &[
    "Each stack has four PHP processes for each processor, as Howdah by default; a prefork Apache \
     with mod_php has one for each connection",
    "WordPress's and Drupal's .htaccess are obeyed by Howdah beside itself without them, with the \
     same files; 0.99 is hard to tell from 1 on a noisy machine, so look at the interval",
    "Latency beside busy PHP: 16 clients keep 8 PHP processes busy while 2,000 files a second are \
     asked for; each round compares with the same rate a moment before, while PHP is idle. Where \
     PHP computes, it takes the processors from everybody, the load generator included",
    "Memory with idle connections is that of the whole stack with 8 PHP processes; beside it, that \
     of the server without PHP's processes",
    "The memory of a PHP process is read after WordPress's front page, on average over those that \
     answer requests",
];
