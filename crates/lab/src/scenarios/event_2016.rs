//! Three reports of one article of 2016: is Apache 2.4 as good as nginx?

use super::{Facts, cell, page, together};
use crate::load::{AbRun, Closed, Load};
use crate::plan::{CellGroup, Plan, PlannedCell};
use crate::record::Figure;

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks =
        facts.stacks(&["apache-prefork-mod_php", "apache-event-fpm", "nginx-fpm", "howdah"])?;
    let mut cells = picture(facts);
    cells.push(dynamic(facts));
    cells.extend(peak(facts));
    cells.extend(steady(facts));
    let group = CellGroup {
        title: "event against nginx".to_owned(),
        stacks,
        conditions: together(128, 1000),
        cells,
    };
    Ok(Plan {
        groups: vec![group],
        notes: vec![
            "(a) used 4 cores with 7.5 GB, (c) one core with 512 MB; here every processor of the \
             machine is used"
                .to_owned(),
            "(c)'s Apache 2.2 no longer exists; today's prefork stands beside its figures for 2.4"
            .to_owned(),
            "(a)'s dynamic site is replaced by a script that includes 300 files".to_owned(),
            "(b)'s event without unneeded modules is what every Apache here is; the study gained \
             25 % by it"
                .to_owned(),
            "(c)'s memory for 92 KB of script: prefork 2.2 12 MB, prefork 2.4 72 MB, event 2.4 20 \
             MB, nginx 2 MB"
                .to_owned(),
            "phpinfo() is replaced by HelloWorld.php: what phpinfo() prints differs with the server"
                .to_owned(),
        ],
        ..Plan::default()
    })
}

/// (a): a picture of 150 KB with rising concurrency.
fn picture(facts: &Facts) -> Vec<PlannedCell> {
    let sweep: &[usize] = if facts.effort.quick {
        &[10, 100]
    } else {
        &[1, 10, 50, 100, 200, 500]
    };
    let row = |&concurrency: &usize| {
        let load = Load::Ab(AbRun {
            requests: facts.effort.requests(100_000),
            concurrency,
            keep_alive: true,
            at_most: facts.effort.at_most,
        });
        let at = Some((concurrency as f64, "concurrent requests"));
        let mut cell = cell(
            "(a) a picture of 150 KB",
            at,
            Figure::RequestsPerSecond,
            page("/150KB.jpg"),
            load,
        );
        cell.study = vec![
            ("Apache event, highest".to_owned(), 10_770.0),
            ("nginx, highest".to_owned(), 20_232.0),
        ];
        cell
    };
    sweep.iter().map(row).collect()
}

/// (a): a dynamic site, with enough clients to keep every processor busy.
fn dynamic(facts: &Facts) -> PlannedCell {
    let load = Load::Ab(AbRun {
        requests: facts.effort.requests(10_000),
        concurrency: 10,
        keep_alive: true,
        at_most: facts.effort.at_most,
    });
    let mut cell = cell(
        "(a) a dynamic site",
        None,
        Figure::RequestsPerSecond,
        page("/framework/index.php"),
        load,
    );
    cell.study = ["Apache event + php-fpm", "nginx + php-fpm"]
        .map(|name| (name.to_owned(), 108.0))
        .to_vec();
    cell
}

/// (b): a small file, up to a thousand requests at once.
fn peak(facts: &Facts) -> Vec<PlannedCell> {
    let sweep: &[usize] = if facts.effort.quick {
        &[1, 100, 1000]
    } else {
        &[1, 10, 25, 50, 100, 1000]
    };
    let row = |&concurrency: &usize| {
        let load = Load::Ab(AbRun {
            requests: facts.effort.requests(200_000).max(concurrency as u64),
            concurrency,
            keep_alive: false,
            at_most: facts.effort.at_most,
        });
        let at = Some((concurrency as f64, "concurrent requests"));
        let mut cell = cell(
            "(b) a small file, a connection each",
            at,
            Figure::RequestsPerSecond,
            page("/HelloWorld.txt"),
            load,
        );
        cell.study = vec![
            ("nginx, highest".to_owned(), 14_000.0),
            ("Apache event, highest".to_owned(), 7_000.0),
        ];
        cell
    };
    sweep.iter().map(row).collect()
}

/// (c): the steady state.
fn steady(facts: &Facts) -> Vec<PlannedCell> {
    type ChartRow = (&'static str, &'static str, [(&'static str, f64); 3]);
    let rows: [ChartRow; 4] = [
        (
            "(c) 21 KB of text",
            "/21KB.txt",
            [("prefork 2.4", 2250.0), ("event 2.4", 2300.0), ("nginx", 2600.0)],
        ),
        (
            "(c) 2 bytes of text",
            "/2B.txt",
            [("prefork 2.4", 4700.0), ("event 2.4", 4810.0), ("nginx", 6650.0)],
        ),
        (
            "(c) 92 KB of script",
            "/92KB.js",
            [("prefork 2.4", 770.0), ("event 2.4", 820.0), ("nginx", 1000.0)],
        ),
        (
            "(c) a page of PHP",
            "/HelloWorld.php",
            [("prefork 2.2", 525.0), ("prefork 2.4", 575.0), ("nginx", 450.0)],
        ),
    ];
    let row = |(chart, path, study): ChartRow| {
        let load = Load::Wrk(Closed { connections: 50, time: facts.effort.time });
        let mut cell = cell(chart, None, Figure::RequestsPerSecond, page(path), load);
        cell.study = study.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        cell
    };
    rows.into_iter().map(row).collect()
}
