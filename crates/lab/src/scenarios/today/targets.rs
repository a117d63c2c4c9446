//! Howdah's targets.

use super::{CROWD_CELL, FRONT_PAGE};
use crate::plan::CellGroup;
use crate::record::{Bound, CellTarget, Figure};

/// The targets of cells and stacks that the run has.
pub(super) fn all(groups: &[CellGroup]) -> Vec<CellTarget> {
    let mut targets = throughput();
    targets.extend(ruled(groups));
    targets.extend(latency());
    targets.extend(memory());
    targets.retain(|target| is_asked(groups, target));
    targets
}

fn is_asked(groups: &[CellGroup], target: &CellTarget) -> bool {
    let group = groups
        .iter()
        .find(|group| group.cells.iter().any(|cell| cell.name == target.cell));
    let has = |name: &String| {
        group.is_some_and(|group| group.stacks.iter().any(|stack| stack.name() == name))
    };
    has(&target.ours) && (target.against.is_empty() || target.against.iter().any(has))
}

/// Cell, the stacks that Howdah is compared with, and the ratio. The same holds for CPU time per
/// request.
const THROUGHPUT: &[(&str, &[&str], f64)] = &[
    ("HelloWorld.php", &["apache-prefork-mod_php"], 2.5),
    ("HelloWorld.php", &["nginx-fpm"], 4.0),
    ("HelloWorld.php", &["nginx-unit"], 2.5),
    ("HelloWorld.php", &["frankenphp"], 4.0),
    ("1MB.php", &["apache-prefork-mod_php"], 1.3),
    ("1MB.php", &["nginx-fpm"], 4.0),
    ("10x100KB.php", &["apache-prefork-mod_php"], 1.1),
    ("10x100KB.php", &["nginx-fpm"], 4.0),
    (FRONT_PAGE, PHP_PEERS, 1.10),
    ("HelloWorld.txt", FILE_PEERS, 1.25),
    ("100KB.txt", FILE_PEERS, 1.05),
    ("1MB.txt", FILE_PEERS, 1.05),
];

const FILE_PEERS: &[&str] = &["nginx-fpm", "lighttpd-fpm", "h2o"];

const PHP_PEERS: &[&str] = &[
    "nginx-fpm",
    "nginx-fpm-keepalive",
    "apache-prefork-mod_php",
    "apache-prefork-mod_php-htaccess",
    "apache-event-fpm",
    "apache-worker-fcgid",
    "lighttpd-fpm",
    "nginx-unit",
    "frankenphp",
];

fn target(cell: &str, figure: Figure, against: &[&str], bound: Bound) -> CellTarget {
    CellTarget {
        cell: cell.to_owned(),
        figure,
        ours: "howdah".to_owned(),
        against: against.iter().map(|name| (*name).to_owned()).collect(),
        bound,
    }
}

fn throughput() -> Vec<CellTarget> {
    let both = |(cell, against, ratio): &(&str, &[&str], f64)| {
        [Figure::RequestsPerSecond, Figure::CpuPerRequest]
            .map(|figure| target(cell, figure, against, Bound::AtLeast(*ratio)))
    };
    THROUGHPUT.iter().flat_map(both).collect()
}

fn ruled(groups: &[CellGroup]) -> Vec<CellTarget> {
    let cells = groups.iter().flat_map(|group| &group.cells);
    let ruled = cells.filter(|cell| cell.name.ends_with(" beside an .htaccess"));
    let both = |cell: &crate::plan::PlannedCell| {
        ["howdah-wordpress-rules", "howdah-drupal-rules"].map(|ours| CellTarget {
            ours: ours.to_owned(),
            ..target(&cell.name, Figure::RequestsPerSecond, &["howdah"], Bound::AtLeast(0.99))
        })
    };
    ruled.flat_map(both).collect()
}

fn latency() -> Vec<CellTarget> {
    ["waiting", "computing"]
        .map(|what| {
            let cell = format!("latency of files beside {what} PHP");
            target(&cell, Figure::SlowedDown, &[], Bound::AtMost(1.5))
        })
        .to_vec()
}

fn memory() -> Vec<CellTarget> {
    let most = Bound::AtMost(1.0);
    vec![
        target(CROWD_CELL, Figure::PeakPss, &["nginx-fpm"], most),
        target(CROWD_CELL, Figure::FrontPss, &["nginx-fpm"], most),
        target(FRONT_PAGE, Figure::WorkerPss, &["nginx-fpm"], most),
    ]
}
