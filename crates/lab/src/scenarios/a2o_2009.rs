//! Boštjan Škufca, 2009: Apache + mod_php against nginx + php-fpm, ApacheBench over a sweep of
//! concurrency.

use super::{Facts, cell, page, together};
use crate::load::{AbRun, Load, Question};
use crate::plan::{CellGroup, Plan};
use crate::record::Figure;
use crate::wordpress::front_page;

const SWEEP: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];
const QUICK_SWEEP: &[usize] = &[1, 32];
/// The study's two stacks, and Howdah.
const QUICK: &[&str] = &["apache-prefork-mod_php-htaccess", "nginx-fpm", "howdah"];

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let stacks = facts.stacks(if facts.effort.quick { QUICK } else { USUAL })?;
    let sweep = if facts.effort.quick { QUICK_SWEEP } else { SWEEP };
    let mut cells = Vec::new();
    for (title, question, requests) in files(facts.wordpress) {
        for keep_alive in [true, false] {
            // The study asked for the largest file without keep-alive only.
            if title == "1MB.txt" && keep_alive {
                continue;
            }
            let chart = format!("{title}, keep-alive {}", if keep_alive { "on" } else { "off" });
            for &concurrency in sweep {
                let bench = AbRun {
                    requests: facts.effort.requests(requests),
                    concurrency,
                    keep_alive,
                    at_most: facts.effort.at_most,
                };
                let at = Some((concurrency as f64, "concurrent requests"));
                cells.push(cell(
                    &chart,
                    at,
                    Figure::RequestsPerSecond,
                    question.clone(),
                    Load::Ab(bench),
                ));
            }
        }
    }
    let most = sweep.last().copied().unwrap_or(1);
    let group = CellGroup {
        title: "Škufca's sweep".to_owned(),
        stacks,
        // The study had 16 children, which its readers doubted: prefork has a process for every
        // client, so all stacks have as many.
        conditions: together(most, most),
        cells,
    };
    let mut notes: Vec<String> = NOTES.iter().map(|note| (*note).to_owned()).collect();
    if !facts.wordpress {
        notes.push(
            "WordPress could not be installed, so the real application is missing".to_owned(),
        );
    }
    Ok(Plan {
        groups: vec![group],
        notes,
        ..Plan::default()
    })
}

fn files(wordpress: bool) -> Vec<(&'static str, Question, u64)> {
    let mut files = vec![
        ("HelloWorld.php", page("/HelloWorld.php"), 500_000),
        ("HelloWorld.txt", page("/HelloWorld.txt"), 500_000),
        ("100KB.txt", page("/100KB.txt"), 500_000),
        ("1MB.txt", page("/1MB.txt"), 50_000),
    ];
    if wordpress {
        files.push(("WordPress", front_page(), 5_000));
    }
    files
}

/// The study's own stacks first; the others answer its readers' questions.
const USUAL: &[&str] = &[
    "apache-prefork-mod_php-htaccess",
    "apache-prefork-mod_php",
    "nginx-fpm",
    "howdah",
    "nginx-fpm-tcp",
    "nginx-apache",
    "apache-event-fpm",
    "lighttpd-fpm",
];

const NOTES: &[&str] = &[
    "The study (2009) ran on 8 cores with Apache 2.2.11, nginx 0.7.59 and PHP 5.2.9; it found \
     HelloWorld.php by nginx + php-fpm at half of Apache, HelloWorld.txt with keep-alive at more \
     than twice, 100KB.txt with keep-alive at twice, and the application level",
    "Its application is replaced by WordPress on MariaDB",
    "Its numbers of requests are scaled down, and a round of ab ends after ten seconds (one in a \
     quick run) at the latest",
    "Its 16 php-fpm children are replaced by as many PHP processes as the most concurrent \
     requests, for every stack",
];
