//! What matters today, with every stack of Debian's packages set up well.

use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::load::{Closed, Load, Open, Slow};
use crate::plan::{Conditions, Group, Plan, PlannedCell};
use crate::record::Figure;
use crate::wordpress::front_page;

/// Connections of the closed loops.
const CONNECTIONS: usize = 32;

pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(if facts.effort.quick { QUICK } else { USUAL })?;
    let throughput = Group {
        title: "32 connections".to_owned(),
        stacks: stacks.clone(),
        conditions: together(CONNECTIONS, CONNECTIONS),
        cells: throughput(facts),
    };
    let crowd = if facts.effort.quick { 1_000 } else { 10_000 };
    let idle = Load::Idle(Closed {
        connections: crowd,
        time: Duration::from_secs(2),
    });
    let idle = cell(
        "memory with idle connections",
        Some((crowd as f64, "connections")),
        Figure::PeakPss,
        page("/HelloWorld.txt"),
        idle,
    );
    let crowds = Group {
        title: "idle connections".to_owned(),
        // A prefork Apache would need a process for each.
        stacks: stacks
            .iter()
            .filter(|stack| !stack.name().contains("prefork"))
            .cloned()
            .collect(),
        conditions: Conditions {
            alone: true,
            ..together(8, crowd)
        },
        cells: vec![idle],
    };
    let slow = |kind, name: &str, path: &str| {
        let load = Load::Slow(
            kind,
            Closed {
                connections: 50,
                time: facts.effort.time,
            },
        );
        cell(
            &format!("small pages beside 50 clients with slow {name}"),
            None,
            Figure::RequestsPerSecond,
            page(path),
            load,
        )
    };
    let reload = Load::Reload(Closed {
        connections: 8,
        time: facts.effort.time.max(Duration::from_secs(4)),
    });
    let reload = cell(
        "wrong answers while reloading every second",
        None,
        Figure::Errors,
        page("/HelloWorld.php"),
        reload,
    );
    let slow = Group {
        title: "reloads and slow clients".to_owned(),
        stacks,
        conditions: together(CONNECTIONS, 100),
        cells: vec![
            reload,
            slow(Slow::Head, "heads", "/HelloWorld.php"),
            slow(Slow::Reader, "reading", "/HelloWorld.php"),
        ],
    };
    let mut notes = Vec::new();
    if !facts.wordpress {
        notes.push("WordPress could not be installed, so it is missing".to_owned());
    }
    Ok(Plan {
        groups: vec![throughput, slow, crowds],
        notes,
    })
}

fn throughput(facts: &Facts) -> Vec<PlannedCell> {
    let wrk = Load::Wrk(Closed {
        connections: CONNECTIONS,
        time: facts.effort.time,
    });
    let files = [
        "/HelloWorld.php",
        "/1MB.php",
        "/work.php",
        "/HelloWorld.txt",
        "/100KB.txt",
        "/1MB.txt",
    ];
    let mut cells: Vec<PlannedCell> = files
        .iter()
        .map(|path| {
            cell(
                path.trim_start_matches('/'),
                None,
                Figure::RequestsPerSecond,
                page(path),
                wrk.clone(),
            )
        })
        .collect();
    if facts.wordpress {
        let time = facts.effort.time.max(Duration::from_secs(2));
        let load = Load::Wrk(Closed {
            connections: CONNECTIONS,
            time,
        });
        cells.push(cell(
            "WordPress, front page",
            None,
            Figure::RequestsPerSecond,
            front_page(),
            load,
        ));
    }
    let open = |rate| {
        Load::OpenLoop(Open {
            rate,
            connections: CONNECTIONS,
            time: facts.effort.time,
        })
    };
    let chart = "99 % latency of HelloWorld.php at a fixed rate";
    for rate in if facts.effort.quick {
        &[1000.0][..]
    } else {
        &[500.0, 2000.0, 5000.0]
    } {
        cells.push(cell(
            chart,
            Some((*rate, "requests/s")),
            Figure::Latency99,
            page("/HelloWorld.php"),
            open(*rate),
        ));
    }
    cells
}

const USUAL: &[&str] = &[
    "howdah",
    "nginx-fpm",
    "nginx-fpm-keepalive",
    "apache-prefork-mod_php",
    "apache-prefork-mod_php-htaccess",
    "apache-event-fpm",
    "apache-worker-fcgid",
    "lighttpd-fpm",
    "h2o",
    "caddy",
];

const QUICK: &[&str] = &[
    "howdah",
    "nginx-fpm",
    "apache-prefork-mod_php",
    "apache-event-fpm",
    "h2o",
];
