//! Follows the links of both servers' sites side by side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;

use url::Url;

use crate::browser::{Browser, Page};
use crate::html::tags;

use super::application::Application;
use super::compare::{Difference, Mask, differences};
use super::explained;

/// One server as one visitor sees it.
pub(crate) struct View<'v> {
    pub(crate) browser: &'v Browser<'v>,
    pub(crate) mask: &'v Mask,
}

/// The pages that a crawl has found.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) pages: usize,
    /// The explained differences by their reasons: how many, and the first.
    pub(crate) explained: BTreeMap<&'static str, (usize, Difference)>,
    unexplained: Vec<Difference>,
}

impl Findings {
    /// Adds the pages and the differences of a crawl.
    pub(crate) fn add(&mut self, application: &Application, (pages, found): Crawled) {
        self.pages += pages;
        for difference in found {
            match explained::reason(application, &difference) {
                Some(reason) => {
                    let entry = self.explained.entry(reason);
                    entry.or_insert_with(|| (0, difference)).0 += 1;
                }
                None => self.unexplained.push(difference),
            }
        }
    }

    /// The differences that nobody has explained.
    pub(crate) fn unexplained(&self) -> Vec<String> {
        self.unexplained.iter().map(Difference::to_string).collect()
    }
}

/// The number of pages, and their differences.
type Crawled = (usize, Vec<Difference>);

/// Compares the answers of Apache and of Howdah to requests for the first pages, and for everything
/// that these link to, each kind of URL once.
pub(crate) fn compare(application: &Application, views: &[View; 2]) -> Crawled {
    let starts = application.starts.iter().map(|start| {
        [0, 1].map(|side| Url::parse(&views[side].browser.server.url(start)).unwrap())
    });
    let mut waiting: VecDeque<[Url; 2]> = starts.collect();
    let mut seen = BTreeSet::new();
    let (mut pages, mut found) = (0, Vec::new());
    while let Some(urls) = waiting.pop_front() {
        let url = views[0].mask.apply(urls[0].as_str());
        if pages == application.most || !seen.insert(kind(&url)) {
            continue;
        }
        pages += 1;
        let (apache, howdah) = thread::scope(|threads| {
            let howdah = threads.spawn(|| fetch(&views[1], &urls[1]));
            let apache = fetch(&views[0], &urls[0]);
            (apache, howdah.join().unwrap())
        });
        let masks = [views[0].mask, views[1].mask];
        found.extend(differences(&url, [&apache, &howdah], masks));
        let links = [links(&apache, views[0].mask), links(&howdah, views[1].mask)];
        let [of_apache, mut of_howdah] = links;
        for (key, link) in of_apache {
            let leads_on = application.leave.iter().all(|word| !key.contains(word));
            if let Some(other) = of_howdah.remove(&key).filter(|_| leads_on) {
                waiting.push_back([link, other]);
            }
        }
    }
    (pages, found)
}

fn fetch<'v>(view: &View<'v>, url: &Url) -> Page<'v> {
    view.browser.send(view.browser.ask("GET", url.as_str()))
}

/// The URL with a `#` in the place of each number: pages that differ in a number alone are alike.
fn kind(url: &str) -> String {
    let mut kind = String::new();
    for c in url.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(c),
        }
    }
    kind
}

/// The links of a page to the same server, by what they are without what is random in them.
fn links(page: &Page, mask: &Mask) -> BTreeMap<String, Url> {
    let text = page.text();
    let mut references: Vec<String> = vec![page.field("location").to_owned()];
    match page.media_type() {
        "text/html" => {
            for tag in tags(&text) {
                references.extend(["href", "src"].iter().filter_map(|name| {
                    tag.attribute(name).filter(|_| tag.name != "base").map(str::to_owned)
                }));
            }
        }
        "text/css" => {
            let found = text.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
            references.extend(found.map(|found| found.trim_matches(['"', '\'', ' ']).to_owned()));
        }
        _ => {}
    }
    let mut links = BTreeMap::new();
    for reference in references.iter().filter(|reference| !reference.is_empty()) {
        if let Ok(mut url) = page.url.join(reference)
            && url.origin() == page.url.origin()
        {
            url.set_fragment(None);
            links.insert(kind(&mask.apply(url.as_str())), url);
        }
    }
    links
}
