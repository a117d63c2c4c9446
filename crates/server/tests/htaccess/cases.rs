//! The cases in `cases/`.

use std::fs;
use std::path::PathBuf;

use crate::apache::Apache;
use crate::case::{self, Case};
use crate::golden::{self, Golden};
use crate::report::Report;
use crate::servers::{Servers, Sides, cases_folder, questions};
use crate::support::has_php;

#[test]
#[ignore = "until `.htaccess` files have an effect"]
fn cases_agree() {
    let version = Apache::version();
    let filter = std::env::var("HOWDAH_HTACCESS_FILTER").unwrap_or_default();
    let records = std::env::var_os("HOWDAH_HTACCESS_RECORD").is_some();
    let sides = Sides {
        apache: version.is_some(),
        howdah: !records,
    };
    if !has_php() {
        return;
    }
    let mut groups: Vec<Vec<Case>> = files().iter().map(|file| case::read(file)).collect();
    for cases in &mut groups {
        cases.retain(|case| format!("{}: {}", case.group, case.title).contains(&filter));
    }
    let servers = Servers::start(groups.iter().flatten().map(|case| &case.tree), sides);
    let mut report = Report::default();
    for cases in groups.iter().filter(|cases| !cases.is_empty()) {
        let mut outcomes = servers.ask_all(&questions(cases)).into_iter();
        let recorded = Golden::read(cases_folder(), &cases[0].group);
        if records {
            let version = version
                .as_deref()
                .expect("answers can be recorded only where there is an Apache");
            assert_eq!(filter, "", "all answers of a file are recorded together");
            let asked = cases
                .iter()
                .flat_map(|case| case.requests.iter().map(move |request| (case, request)));
            let rows: Vec<_> = asked.zip(outcomes).collect();
            let rows = rows
                .iter()
                .map(|((case, request), outcome)| (&*case.title, &*request.text, &outcome.apache));
            golden::write(cases_folder(), &cases[0].group, version, rows);
            continue;
        }
        for case in cases {
            for request in &case.requests {
                let mut outcome = outcomes.next().expect("an answer to every request");
                let golden = recorded.answer(&case.title, &request.text);
                match (golden, &version) {
                    (None, _) => report.fail(case, &format!("no answer is recorded for {}", request.text)),
                    (Some(golden), None) => outcome.apache = golden.clone(),
                    (Some(golden), Some(version)) => {
                        if *version == recorded.version && *golden != outcome.apache {
                            report.fail(
                                case,
                                &format!(
                                    "another answer is recorded for {}:\n{golden}  but now:\n{}",
                                    request.text, outcome.apache
                                ),
                            );
                        }
                    }
                }
                report.compare(case, request, &outcome, || servers.logs(&case.tree));
            }
        }
    }
    if records {
        return;
    }
    if filter.is_empty() {
        report.check_decided();
    }
    println!("{} trees", servers.trees());
    report.finish("htaccess-cases");
}

fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(cases_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    files
}
