//! A person's own site on every stack.

use super::{Facts, cell, together};
use crate::load::{Closed, Load, Question};
use crate::plan::{CellGroup, Plan};
use crate::record::Figure;

/// Number of measured URLs, the most frequent ones; more would take hours.
const MOST_URLS: usize = 20;
const MOST_URLS_QUICK: usize = 8;

/// Returns the groups of cells that this scenario measures.
///
/// # Errors
/// The folder or the URLs of the site are missing.
pub(super) fn plan(facts: &Facts) -> Result<Plan, String> {
    if facts.folder.is_none() {
        return Err(
            "name the folder of your site with --root, and what to ask with --url, --urls FILE or \
             --log FILE"
                .to_owned(),
        );
    }
    if facts.urls.is_empty() {
        return Err(
            "there is nothing to ask: name URLs with --url, --urls FILE or --log FILE".to_owned()
        );
    }
    let most = if facts.effort.quick { MOST_URLS_QUICK } else { MOST_URLS };
    let urls = most_frequent(&facts.urls, most);
    let load = Load::Wrk(Closed { connections: 16, time: facts.effort.time });
    let question = |path: &String| Question {
        path: path.clone(),
        host: facts.host.clone(),
        ..Question::default()
    };
    let cells = urls
        .iter()
        .map(|path| cell(path, None, Figure::RequestsPerSecond, question(path), load.clone()));
    // The warm-up shows which stacks can answer which URL.
    let cells = cells.map(|cell| crate::plan::PlannedCell { php: true, ..cell }).collect();
    Ok(Plan {
        groups: vec![CellGroup {
            title: "your site".to_owned(),
            stacks: facts.stacks(&[
                "howdah",
                "apache-prefork-mod_php-htaccess",
                "apache-event-fpm",
                "nginx-fpm",
                "lighttpd-fpm",
            ])?,
            conditions: together(16, 16),
            cells,
        }],
        notes: vec![
            "Every answer must have the status 200; what a stack cannot answer so, such as \
             addresses that need `.htaccess`, is shown as not measured"
                .to_owned(),
        ],
        ..Plan::default()
    })
}

fn most_frequent(urls: &[String], most: usize) -> Vec<String> {
    let mut counted: Vec<(&String, usize)> = Vec::new();
    for url in urls {
        match counted.iter_mut().find(|(known, _)| *known == url) {
            Some((_, count)) => *count += 1,
            None => counted.push((url, 1)),
        }
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.into_iter().take(most).map(|(url, _)| url.clone()).collect()
}

/// Paths of the GET requests in an access log (common or combined format) that were answered with
/// 200.
pub fn urls_of_log(text: &str) -> Vec<String> {
    let request = |line: &str| {
        let mut parts = line.split('"');
        let (request, status) = (parts.nth(1)?, parts.next()?);
        let path = request.strip_prefix("GET ")?.split(' ').next()?;
        let good = status.split_whitespace().next() == Some("200") && path.starts_with('/');
        good.then(|| path.to_owned())
    };
    text.lines().filter_map(request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read() {
        let log = "1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200 5 \"-\" \
            \"x\"\n\
            1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] \"POST /a HTTP/1.1\" 200 5\n\
            1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] \"GET /gone HTTP/1.1\" 404 5\n\
            nonsense\n";
        assert_eq!(urls_of_log(log), ["/a?b=c"]);
    }

    #[test]
    fn the_most_frequent_come_first() {
        let urls: Vec<String> = ["/a", "/b", "/b"].map(str::to_owned).to_vec();
        assert_eq!(most_frequent(&urls, 2), ["/b", "/a"]);
    }
}
