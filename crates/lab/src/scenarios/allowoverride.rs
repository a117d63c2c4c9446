//! The cost of `.htaccess` look-ups in Apache.

use super::{Facts, cell, page, together};
use crate::load::{AbRun, Load};
use crate::plan::{CellGroup, Plan};
use crate::record::Figure;

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(&[
        "apache-prefork-mod_php-htaccess",
        "apache-prefork-mod_php",
        "nginx-fpm",
        "nginx-fpm-tcp",
        "howdah",
        "howdah-no-htaccess",
    ])?;
    let requests = if facts.effort.quick { 5_000 } else { 30_000 };
    let ab = |requests| {
        Load::Ab(AbRun {
            requests,
            concurrency: 10,
            keep_alive: false,
            at_most: facts.effort.at_most,
        })
    };
    let hello = [
        ("Apache, AllowOverride All", 2396.0),
        ("nginx + php-fpm", 5166.0),
        ("Apache, AllowOverride None", 5352.0),
    ];
    let large = [("Apache, AllowOverride None", 2470.0), ("nginx + php-fpm", 2111.0)];
    let study = |rows: &[(&str, f64)]| {
        rows.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let rate = |name: &str, path: &str, requests| {
        cell(name, None, Figure::RequestsPerSecond, page(path), ab(requests))
    };
    let mut small = rate("HelloWorld.php", "/HelloWorld.php", requests);
    small.counts_calls = true;
    small.study = study(&hello);
    let mut output = rate("104,857 bytes of PHP output", "/100KB.php", requests / 2);
    output.study = study(&large);
    let mut file = rate("HelloWorld.txt", "/HelloWorld.txt", requests);
    file.counts_calls = true;
    Ok(Plan {
        groups: vec![CellGroup {
            title: "with .htaccess and without".to_owned(),
            stacks,
            conditions: together(16, 10),
            cells: vec![small, output, file],
        }],
        notes: vec![
            "The study used `ab -n 10000 -c 10` without keep-alive, and `strace -c -f` on Apache; \
             here system calls of every stack are counted, over 500 requests on kept connections, \
             apart from the timed rounds"
                .to_owned(),
        ],
        ..Plan::default()
    })
}
