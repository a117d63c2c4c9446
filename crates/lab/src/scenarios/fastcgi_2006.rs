//! mod_php, lighttpd and FastCGI with and without an opcode cache (2006).

use super::{Facts, cell, page, together};
use crate::load::{AbRun, Load};
use crate::plan::{CellGroup, GroupConditions, Plan};
use crate::record::Figure;

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(&[
        "apache-prefork-mod_php",
        "apache-prefork-fcgid",
        "apache-worker-fcgid",
        "lighttpd-fastcgi",
        "howdah",
    ])?;
    let group = |opcache: bool| {
        let chart = if opcache {
            "300 files, opcode cache on"
        } else {
            "300 files, opcode cache off"
        };
        // Enough requests for one second, or ten, after which a round of ab ends in any case.
        let requests = if opcache { 50_000 } else { 2_000 };
        let load = Load::Ab(AbRun {
            requests: if facts.effort.quick { requests / 10 } else { requests },
            concurrency: 5,
            keep_alive: false,
            at_most: facts.effort.at_most,
        });
        let mut cell =
            cell(chart, None, Figure::RequestsPerSecond, page("/framework/index.php"), load);
        let figures: [f64; 4] = if opcache {
            [11.05, 11.24, 11.12, 11.24]
        } else {
            [4.59, 4.89, 4.99, 4.65]
        };
        let names =
            ["prefork + mod_php", "prefork + FastCGI", "worker + FastCGI", "lighttpd + FastCGI"];
        cell.study = names.iter().map(|name| (*name).to_owned()).zip(figures).collect();
        CellGroup {
            title: chart.to_owned(),
            stacks: stacks.clone(),
            conditions: GroupConditions { opcache, ..together(5, 5) },
            cells: vec![cell],
        }
    };
    Ok(Plan {
        groups: vec![group(true), group(false)],
        notes: vec![
            "The study's framework application is replaced by a script that includes 300 files \
             with a class each"
                .to_owned(),
            "It reset a virtual machine before each of six runs of `ab -c5 -n100` and took the \
             median of the middle four; here rounds are interleaved and longer, and the median of \
             all counts"
                .to_owned(),
            "Of the study's 600 requests, 4 to 12 failed behind FastCGI, by its time-outs; here a \
             failed request makes its round void"
                .to_owned(),
            "mod_fastcgi no longer exists; mod_fcgid stands in its place".to_owned(),
        ],
        ..Plan::default()
    })
}
