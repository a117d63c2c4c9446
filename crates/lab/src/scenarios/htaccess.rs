//! The cost of `.htaccess` files: the same pages beside a file and without one, on Howdah and on
//! Apache, each compared with itself.

use std::time::Duration;

use super::{Facts, cell, page, together};
use crate::environment::{FOLDER_FILE, folder_path};
use crate::load::{Closed, Load, Question};
use crate::plan::{CellGroup, Effort, Plan, PlannedCell};
use crate::record::Figure;
use crate::rules::BROWSER;
use crate::stacks;

const CONNECTIONS: usize = 32;

/// The differences are small, so there are many rounds.
pub(super) const EFFORT: Effort = Effort {
    rounds: 10,
    time: Duration::from_secs(3),
    ..Effort::FULL
};

/// Stacks of one server, the one without a file first.
struct ServerStacks {
    title: &'static str,
    stacks: [&'static str; 6],
    folders: &'static str,
}

const SERVERS: [ServerStacks; 2] = [
    ServerStacks {
        title: "Howdah",
        stacks: [
            "howdah-plain",
            "howdah-again",
            "howdah-wordpress-rules",
            "howdah-drupal-rules",
            "howdah-redirects",
            "howdah-bad-bots",
        ],
        folders: "howdah-folders",
    },
    ServerStacks {
        title: "Apache",
        stacks: [
            "apache-plain",
            "apache-again",
            "apache-wordpress-rules",
            "apache-drupal-rules",
            "apache-redirects",
            "apache-bad-bots",
        ],
        folders: "apache-folders",
    },
];

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// A named stack is not known.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    let folders = if facts.effort.quick { 10_000 } else { 100_000 };
    let mut groups = Vec::new();
    for server in &SERVERS {
        let is_asked_for =
            |name: &&str| facts.stacks.is_empty() || facts.stacks.iter().any(|one| one == name);
        let chosen: Vec<&str> = server.stacks.into_iter().filter(is_asked_for).collect();
        if let [base, _, ..] = chosen.as_slice() {
            let cells = ["/HelloWorld.txt", "/HelloWorld.php"];
            groups.push(CellGroup {
                title: format!("{} with .htaccess and without", server.title),
                stacks: stacks::named(&chosen)?,
                conditions: together(CONNECTIONS, CONNECTIONS),
                cells: cells.map(|path| small_page(facts, path, server.title, base)).to_vec(),
            });
        }
        if is_asked_for(&server.folders) {
            groups.push(CellGroup {
                title: format!("{} with {folders} folders", server.title),
                stacks: stacks::named(&[server.folders])?,
                conditions: together(CONNECTIONS, CONNECTIONS),
                cells: vec![many_folders(folders)],
            });
        }
    }
    if groups.is_empty() {
        let known: Vec<&str> = SERVERS
            .iter()
            .flat_map(|server| server.stacks.into_iter().chain([server.folders]))
            .collect();
        return Err(format!("name at least two stacks of one server of {}", known.join(", ")));
    }
    let folders = if groups.iter().any(|group| group.cells[0].chart == FOLDERS) {
        folders
    } else {
        0
    };
    Ok(Plan {
        groups,
        notes: NOTES.iter().map(|note| (*note).to_owned()).collect(),
        folders,
        ..Plan::default()
    })
}

fn small_page(facts: &Facts, path: &str, server: &str, base: &str) -> PlannedCell {
    let question = Question {
        fields: vec![("User-Agent".to_owned(), BROWSER.to_owned())],
        ..page(path)
    };
    let load = Load::Wrk(Closed {
        connections: CONNECTIONS,
        time: facts.effort.time,
    });
    let name = format!("{} on {server}", path.trim_start_matches('/'));
    PlannedCell {
        base: Some(base.to_owned()),
        in_turns: true,
        ..cell(&name, None, Figure::RequestsPerSecond, question, load)
    }
}

const FOLDERS: &str = "many folders, each with an .htaccess";

fn many_folders(count: usize) -> PlannedCell {
    let question = Question {
        path: folder_path(0),
        body: Some(FOLDER_FILE.to_vec()),
        ..Question::default()
    };
    PlannedCell {
        // In a second round no request is the first.
        most_rounds: Some(1),
        base: Some(SERVERS[0].folders.to_owned()),
        ..cell(FOLDERS, None, Figure::FirstRequest, question, Load::Folders(count))
    }
}

const NOTES: &[&str] = &[
    "Within a round the loads of all stacks of a server take turns of a tenth of a second; each \
     stack is compared with the one without .htaccess of the same server. The difference of \
     the stack \"again\" is chance",
    "One URL is asked for again and again, the best case for what Howdah remembers of a request",
    "Apache loads the modules that the rules ask for in all of its stacks, since their hooks cost \
     something",
];
