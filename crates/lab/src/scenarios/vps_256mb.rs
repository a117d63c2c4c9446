//! WordPress in 256 MB: hits, errors and time-outs of a growing number of clients.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Facts, cell, together};
use crate::load::{Load, Ramp};
use crate::plan::{Conditions, Group, Plan, Search};
use crate::record::Figure;
use crate::wordpress::front_page;

const MEMORY: u64 = 256 << 20;

/// A stack, and the setting that decides how much memory it needs.
const STACKS: &[(&str, Option<&str>)] = &[
    ("apache-prefork-mod_php", Some("MaxRequestWorkers")),
    ("apache-prefork-fpm", Some("pm.max_children")),
    ("apache-worker-mod_php", Some("ThreadsPerChild")),
    ("apache-worker-fpm", Some("pm.max_children")),
    ("nginx-fpm", Some("pm.max_children")),
    ("lighttpd-fpm", Some("pm.max_children")),
    ("howdah", Some("workers")),
];

/// Clients at the end of the ramp, and the study's hits.
type Row = (usize, &'static [(&'static str, f64)]);

/// The upper end where the study gives a range.
const RAMPS: &[Row] = &[
    (10, &[("prefork + mod_php, 8 clients", 190.0), ("prefork + mod_php, 4 clients", 195.0)]),
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
        100,
        &[
            ("worker + mod_php, 2 × 10 threads", 1980.0),
            ("nginx + php-fpm, 5 children", 1766.0),
            ("nginx + php-fpm, 4 children", 1667.0),
        ],
    ),
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

/// Duration of the study's ramps.
const STUDY: Duration = Duration::from_secs(60);

/// The study's hits, in proportion to a shorter ramp.
fn scaled(study: &[(&str, f64)], time: Duration) -> Vec<(String, f64)> {
    let share = time.as_secs_f64() / STUDY.as_secs_f64();
    let words = if time < STUDY { ", its minute in proportion" } else { "" };
    study
        .iter()
        .map(|(name, hits)| (format!("{name}{words}"), (hits * share).round()))
        .collect()
}

pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    if !facts.wordpress {
        return Err(
            "this scenario needs WordPress on MariaDB; `howdah-lab setup` installs both".to_owned()
        );
    }
    let time = if facts.effort.quick {
        Duration::from_secs(3)
    } else {
        STUDY
    };
    let ramps: Vec<&Row> = RAMPS
        .iter()
        .filter(|(clients, _)| !facts.effort.quick || [20, 100].contains(clients))
        .collect();
    let full = time;
    let ramp = |clients, time| {
        Load::Ramp(Ramp {
            clients,
            time,
            // The study's time-out of ten seconds, but at most half of a short ramp: otherwise no
            // request could time out.
            timeout: Duration::from_secs(10).min(full / 2),
        })
    };
    let cells: Vec<_> = ramps
        .iter()
        .map(|(clients, study)| {
            let at = Some((*clients as f64, "clients at the end of the ramp"));
            let mut cell =
                cell("hits in the ramp", at, Figure::Hits, front_page(), ramp(*clients, time));
            cell.study = scaled(study, time);
            cell
        })
        .collect();
    let wanted = |name: &str| match facts.stacks.as_slice() {
        // The study had no lighttpd.
        [] => !facts.effort.quick || name != "lighttpd-fpm",
        stacks => stacks.iter().any(|stack| stack == name),
    };
    let mut groups = Vec::new();
    for (name, setting) in STACKS.iter().filter(|(name, _)| wanted(name)) {
        let search = setting.map(|setting| Search {
            setting: setting.to_owned(),
            candidates: if facts.effort.quick {
                vec![4, 8]
            } else {
                vec![2, 4, 6, 8, 12, 16, 24, 32]
            },
            question: front_page(),
            load: ramp(50, time / 2),
        });
        groups.push(Group {
            title: format!("{name} in 256 MB"),
            stacks: crate::stacks::named(&[name])?,
            conditions: Conditions {
                alone: true,
                memory: Some(MEMORY),
                settings: BTreeMap::new(),
                search,
                ..together(8, 150)
            },
            cells: cells.clone(),
        });
    }
    Ok(Plan {
        groups,
        notes: vec![
            "The study ran on a FreeBSD server with 256 MB in all; here a control group limits \
             each stack, PHP included, to 256 MB, and the database runs outside it"
                .to_owned(),
            "Its worker + mod_php needs a thread-safe PHP, which Debian does not have: `howdah-lab \
             setup --zts` builds one; without it that stack is missing"
                .to_owned(),
            "The study's time-outs: prefork 8 clients 12–29 (ramp to 10) and 181 (to 20), 4 \
             clients 12 and 189, 20 clients 198–211; worker 8 threads 1 (to 20) and 122 (to 70), 2 \
             × 10 threads 24 (to 100) and 536 (to 150), 4 × 20 threads 918 (to 150); FastCGI \
             behind prefork 1,060 and behind worker 596 (to 150); nginx + php-fpm 442 with 5 \
             children and 491 with 4 (to 100)"
                .to_owned(),
            "Stacks run one after the other, since each is to have the processors and its memory \
             for itself: their rounds are not interleaved"
                .to_owned(),
            "A client waits ten seconds for its answer; in a quick run, whose ramp lasts three \
             seconds, half of that"
                .to_owned(),
            "Each stack's number of PHP processes was searched for, as the author did by hand: the \
             one with the most hits in a shorter ramp"
                .to_owned(),
        ],
        ..Plan::default()
    })
}
