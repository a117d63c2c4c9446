//! Real files, which are not part of this repository: each in a tree of the usual kind, with
//! requests of the usual kind.

use std::fs;
use std::path::{Path, PathBuf};

use crate::apache::Apache;
use crate::case::{Case, Entry, Request, Tree};
use crate::report::Report;
use crate::servers::{Servers, Sides, questions};
use crate::support::has_php;

const PROBES: &[&str] = &[
    "/",
    "/index.php",
    "/index.php/path/info?a=b",
    "/pretty/url?x=1",
    "/a.txt",
    "/page.html",
    "/style.css | Accept-Encoding: gzip",
    "/app.js",
    "/image.png | Referer: http://elsewhere.example/",
    "/data.json",
    "/feed.xml",
    "/dir/",
    "/dir",
    "/files/",
    "/secret/s.txt",
    "/dump.php?_field[]=Set-Cookie:+a=b",
    "/none.php",
    "/.env",
    "/.git/config",
    "/.htaccess",
    "/composer.json",
    "/config.inc.php",
    "/wp-login.php",
    "/backup.sql",
    "POST /form | Content-Type: application/x-www-form-urlencoded | = a=b",
    "/route | Authorization: Bearer t | User-Agent: Mozilla/5.0",
    "OPTIONS /a.txt | Origin: http://o.example",
];

#[test]
fn real_files_agree() {
    let Some(corpus) = std::env::var_os("HOWDAH_HTACCESS_CORPUS") else {
        return;
    };
    if Apache::version().is_none() || !has_php() {
        return;
    }
    let corpus = PathBuf::from(corpus);
    let mut files = Vec::new();
    find(&corpus, &mut files);
    files.sort();
    let cases: Vec<Case> = files.iter().map(|file| case(&corpus, file)).collect();
    let sides = Sides { apache: true, howdah: true };
    let servers = Servers::start(cases.iter().map(|case| &case.tree), sides);
    let outcomes = servers.ask_all(&questions(&cases));
    let asked = cases
        .iter()
        .flat_map(|case| case.requests.iter().map(move |request| (case, request)));
    let mut report = Report::default();
    for ((case, request), outcome) in asked.zip(outcomes) {
        report.compare(case, request, &outcome, || servers.logs(&case.tree));
    }
    report.finish("htaccess-corpus");
}

fn case(corpus: &Path, file: &Path) -> Case {
    let content = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    let mut entries = vec![(".htaccess".to_owned(), Entry::File(content))];
    for name in [".env", ".git/config", "composer.json", "backup.sql"] {
        entries.push((name.to_owned(), Entry::File(format!("{name}\n"))));
    }
    for name in ["config.inc.php", "wp-login.php"] {
        entries.push((name.to_owned(), Entry::Script));
    }
    Case {
        group: "corpus".to_owned(),
        title: file.strip_prefix(corpus).unwrap_or(file).display().to_string(),
        line: 0,
        tree: Tree { overrides: String::new(), entries },
        requests: PROBES.iter().map(|probe| Request::parse(probe)).collect(),
    }
}

/// Every file below a folder but notes about them.
fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.extension().and_then(|end| end.to_str()) {
            _ if path.is_dir() => find(&path, files),
            Some("md" | "tsv" | "sealed") => {}
            _ => files.push(path),
        }
    }
}
