//! The cases in `cases/`.

use std::fs;
use std::path::PathBuf;

use crate::apache::Apache;
use crate::case::{self, Case, Request};
use crate::golden::{self, Golden};
use crate::report::Report;
use crate::servers::{Outcome, Servers, Sides, cases_folder, questions};
use crate::support::has_php;

#[test]
fn cases_agree() {
    let version = Apache::version();
    let filter = std::env::var("HOWDAH_HTACCESS_FILTER").unwrap_or_default();
    let records = std::env::var_os("HOWDAH_HTACCESS_RECORD").is_some();
    if !has_php() {
        return;
    }
    let mut groups: Vec<Vec<Case>> = files().iter().map(|file| case::read(file)).collect();
    for cases in &mut groups {
        // Requests that are recorded together are sent together.
        let name = |case: &Case| {
            if records { case.group.clone() } else { case.name() }
        };
        cases.retain(|case| name(case).contains(&filter));
    }
    groups.retain(|cases| !cases.is_empty());
    let sides = Sides {
        apache: version.is_some(),
        howdah: !records,
    };
    let servers = Servers::start(groups.iter().flatten().map(|case| &case.tree), sides);
    let mut report = Report::default();
    for cases in &groups {
        let questions = questions(cases);
        let outcomes = servers.ask_all(&questions);
        let asked = cases
            .iter()
            .flat_map(|case| case.requests.iter().map(move |request| (case, request)));
        let rows: Vec<(&Case, &Request, Outcome)> = asked
            .zip(outcomes)
            .map(|((case, request), outcome)| (case, request, outcome))
            .collect();
        match (&version, records) {
            (Some(version), true) => record(version, &rows, &mut report),
            (None, true) => panic!("answers can be recorded only where there is an Apache"),
            (version, false) => compare(version.as_deref(), rows, &mut report, &servers),
        }
    }
    if filter.is_empty() && !records {
        report.check_decided();
    }
    report.finish("htaccess-cases");
}

/// Writes down what Apache said, if it says what the cases expect.
fn record(version: &str, rows: &[(&Case, &Request, Outcome)], report: &mut Report) {
    for (case, request, outcome) in rows {
        report.expect(case, request, "Apache", &outcome.apache);
    }
    let answers = rows
        .iter()
        .map(|(case, request, outcome)| (&*case.title, &*request.text, &outcome.apache));
    golden::write(cases_folder(), &rows[0].0.group, version, answers);
}

/// Compares Howdah with Apache, and both with what was recorded.
fn compare(
    version: Option<&str>,
    rows: Vec<(&Case, &Request, Outcome)>,
    report: &mut Report,
    servers: &Servers,
) {
    let recorded = Golden::read(cases_folder(), &rows[0].0.group);
    for (case, request, mut outcome) in rows {
        match (recorded.answer(&case.title, &request.text), version) {
            (None, _) => report.fail(case, &format!("no answer is recorded for {}", request.text)),
            (Some(golden), None) => outcome.apache = golden.clone(),
            (Some(golden), Some(version)) => {
                if version == recorded.version && *golden != outcome.apache {
                    let (request, now) = (&request.text, &outcome.apache);
                    report.fail(
                        case,
                        &format!("{request} is recorded with\n{golden}  and now is\n{now}"),
                    );
                }
            }
        }
        report.compare(case, request, &outcome, || servers.logs(&case.tree));
    }
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(cases_folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    files
}
