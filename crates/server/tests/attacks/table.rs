//! The table of attacks in `docs/security.md`, and the page of attacks, `docs/attacks.md`.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use crate::attack::Attack;
use crate::catalogue;
use crate::scene::Outcome;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/attacks.md");
/// The lines around the table.
const BEGIN: &str = "<!-- make attacks: begin -->";
const END: &str = "<!-- make attacks: end -->";

/// An attack and its outcome on one line.
pub fn line(attack: &Attack, outcome: &Outcome) -> String {
    let wrong = outcome.during.wrong.len() + outcome.during.lost.len();
    let factor = outcome.slowdown().map_or("–".to_owned(), |factor| format!("{factor:.1}"));
    let held = match (outcome.failures.is_empty(), outcome.is_too_slow()) {
        (true, false) => "yes",
        (true, true) => "no: slower",
        (false, _) => "no",
    };
    format!(
        "| {} | {} | {} | {wrong} | {} | {} | {factor} | {held} |",
        attack.header().title,
        outcome.attempts,
        outcome.during.right,
        milliseconds(outcome.before.p99()),
        milliseconds(outcome.during.p99()),
    )
}

/// Replaces the table in the file.
pub fn write(rows: &[(&Attack, Outcome)]) {
    let text = fs::read_to_string(FILE).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the file has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place for the table has an end");
    let mut table = String::from(
        "| attack | attempts | B's right answers | wrong or lost | p99 before (ms) | p99 during \
         (ms) | factor | held |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (attack, outcome) in rows {
        writeln!(table, "{}", line(attack, outcome)).expect("text grows");
    }
    fs::write(FILE, format!("{before}{BEGIN}\n{table}{END}{after}")).unwrap();
}

/// The page that describes every attack, made of the headers.
fn page() -> String {
    let mut page = String::from(
        "<!-- Generated from the headers in tests/attacks. Do not edit; regenerate with\n     \
         ATTACKS_PAGE=write cargo test -p howdah-server --test attacks page -->\n\n# Attacks\n\n\
         Each attack is a program in [tests/attacks](../tests/attacks). Site A or a client \
         attacks, and\n\
         visitors of site B, whose pool has another user, check every byte of their answers. `make \
         test`\n\
         runs each attack for a moment where it runs as root. `make attacks` runs each for longer \
         and\n\
         compares the times of site B's answers with those before; [security.md](security.md) has \
         the\n\
         results.\n\nAfter each attack these hold, too: supervisor, front and site B's zygote are \
         the same processes;\nsite A serves again; the front has not grown, and the log is short; \
         a reload and a stop work; the\nstop leaves no process of either site.\n",
    );
    for attack in catalogue::ALL {
        let header = attack.header();
        let name = attack.name;
        write!(page, "\n## {}\n\n[{name}.php](../tests/attacks/{name}.php)\n\n", header.title)
            .expect("text grows");
        for (what, text) in [
            ("The attacker", header.attacker),
            ("Must not happen", header.must_not),
            ("Checked", header.checked),
        ] {
            page.push_str(&point(&format!("{what}: {text}")));
        }
    }
    page
}

/// Returns a point of a list, wrapped at 100 columns.
fn point(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), "-".to_owned());
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[test]
fn the_page_of_attacks_says_what_the_headers_say() {
    let page = page();
    if std::env::var_os("ATTACKS_PAGE").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap();
    assert!(written == page, "docs/attacks.md is not up to date: its first line says what to run");
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}
