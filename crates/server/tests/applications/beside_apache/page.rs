//! The page `docs/applications.md`.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use super::application::Application;
use super::compare::shorten;
use super::crawl::Findings;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/applications.md");

const HEAD: &str = "<!-- Written by `make test-applications`. Do not edit. -->

# Applications beside Apache

Web applications of Debian on Howdah and on Apache with its module of PHP. Each is used as its
package installs it, by [a test](../crates/server/tests/applications/beside_apache.rs) that goes
through its installer, logs in, writes and uploads on both servers. Then the test follows the links
of both sites, as a visitor and as the logged-in user, and compares status, fields and content of
every answer. Random and temporal parts are left out: addresses, keys, numbers of sessions, times,
validators. The servers' own pages about errors, which look different, are compared by status and
title. Each other difference between two answers is listed here with its reason; one without a
reason fails the test.

";

/// Writes the page.
pub(crate) fn write(results: &[(&Application, Findings)]) {
    let mut page = HEAD.to_owned();
    writeln!(page, "{}, {}.\n", version_of("apache2"), version_of("libapache2-mod-php*")).unwrap();
    page += "| application | pages compared | answers that differ beyond the fields below |\n\
             |---|---:|---:|\n";
    for (application, found) in results {
        let own = found.explained.iter().filter(|(reason, _)| is_own(application, reason));
        let differing: usize = own.map(|(_, (count, _))| count).sum();
        let version = version_of(application.name);
        writeln!(page, "| {version} | {} | {differing} |", found.pages).unwrap();
    }
    page += "\n## Differences of every application\n\n";
    let mut reasons: Vec<&str> = Vec::new();
    for (application, found) in results {
        let shared = found.explained.keys().filter(|reason| !is_own(application, reason));
        reasons.extend(shared);
    }
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        page += &wrapped("- ", reason);
    }
    for (application, found) in results {
        page += &section(application, found);
    }
    fs::write(FILE, page).unwrap();
}

/// The part of the page about one application.
pub(crate) fn section(application: &Application, found: &Findings) -> String {
    let mut text = format!("\n## {}\n\n{}", application.name, wrapped("", application.done));
    if !application.site.is_empty() {
        let keys = application.site;
        write!(text, "\nIts site, besides `hosts` and `root`:\n\n```toml\n{keys}```\n").unwrap();
    }
    text.push('\n');
    for (reason, (count, example)) in &found.explained {
        if is_own(application, reason) {
            let url = shorten(&example.url.replace("http://HOST", ""), 70);
            text += &wrapped("- ", &format!("{reason} ({count} answers, such as `{url}`)"));
        }
    }
    if text.ends_with(".\n\n") || text.ends_with("```\n\n") {
        text += "Nothing else differs.\n";
    }
    for difference in found.unexplained() {
        writeln!(text, "- not explained: {difference}").unwrap();
    }
    text
}

/// `text` after `mark`, in lines of at most 100 columns that are indented like its first.
fn wrapped(mark: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = mark.to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH && line.len() > mark.len() {
            lines += line.trim_end();
            lines.push('\n');
            line = " ".repeat(mark.len());
        }
        line += word;
        line.push(' ');
    }
    lines + line.trim_end() + "\n"
}

const WIDTH: usize = 100;

fn is_own(application: &Application, reason: &str) -> bool {
    application.explained.iter().any(|explained| explained.reason == reason)
}

/// The package's name and version.
fn version_of(package: &str) -> String {
    let arguments = ["-W", "-f", "${binary:Package} ${Version}\n", package];
    let output = Command::new("dpkg-query").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A pattern also finds packages that are known and not installed, without a version.
    let mut lines = text.lines().filter(|line| line.trim_end().contains(' '));
    lines.next().unwrap_or(package).to_owned()
}
