//! Everything that a browser loads with a page: style sheets, scripts, pictures, fonts.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread;

use url::Url;

use crate::browser::{Browser, Page};
use crate::html::tags;

/// The kind of an asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Style,
    Script,
    Picture,
    /// A file that a style sheet refers to: a picture or a font.
    Decoration,
    Manifest,
}

/// Loads every asset of `page` from its own server, and the files that its style sheets refer to.
/// Checks that each exists and has the expected kind. Loads several at once, as browsers do, and
/// each asset once per browser. Returns the number of assets that the page itself refers to.
pub(crate) fn load_all(browser: &Browser, page: &Page) -> usize {
    let mut wanted = of_page(page);
    let found = wanted.len();
    while !wanted.is_empty() {
        wanted.retain(|(url, _)| browser.loaded.lock().unwrap().insert(url.clone()));
        let wave: Vec<_> = wanted.into_iter().collect();
        wanted = thread::scope(|threads| {
            let shares = wave.chunks(wave.len().div_ceil(CONNECTIONS).max(1));
            let loaders: Vec<_> =
                shares.map(|share| threads.spawn(|| load(browser, page, share))).collect();
            loaders
                .into_iter()
                .flat_map(|loader| loader.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
    }
    found
}

/// The number of connections that browsers open to one server.
const CONNECTIONS: usize = 6;

/// Loads these assets. Returns the references of the style sheets among them.
fn load(browser: &Browser, page: &Page, assets: &[(Url, Use)]) -> BTreeSet<(Url, Use)> {
    let mut wanted = BTreeSet::new();
    for (url, usage) in assets {
        let asset = browser.visit(url.as_str());
        let media_type = asset.media_type();
        asset.is(200).must(is_fit(media_type, *usage), || {
            format!("{media_type:?} is no content type for a {usage:?} of {}", page.url)
        });
        asset.must(!asset.body.is_empty() || *usage == Use::Script, || "nothing in it".to_owned());
        is_kept(browser, &asset);
        if *usage == Use::Style {
            wanted.extend(of_style_sheet(&asset));
        }
    }
    wanted
}

/// Checks that a file in the browser's cache is not sent again. The output of scripts has ETags of
/// the application's own.
fn is_kept(browser: &Browser, asset: &Page) {
    let tag = asset.field("etag");
    if !tag.is_empty() && !asset.url.path().contains(".php") {
        let again = browser.ask("GET", asset.url.as_str()).field("If-None-Match", tag);
        let again = browser.send(again);
        again.is(304).must(again.body.is_empty(), || "304 with content".to_owned());
    }
}

fn of_page(page: &Page) -> BTreeSet<(Url, Use)> {
    let text = page.text();
    let mut assets = BTreeSet::new();
    for tag in tags(&text) {
        let found = match tag.name.as_str() {
            "link" => {
                (tag.attribute("href"), use_of_link(tag.attribute("rel"), tag.attribute("as")))
            }
            "script" => (tag.attribute("src"), Some(Use::Script)),
            "img" => (tag.attribute("src"), Some(Use::Picture)),
            _ => continue,
        };
        if let (Some(reference), Some(usage)) = found {
            assets.extend(on_the_same_server(&page.url, reference).map(|url| (url, usage)));
        }
        for candidate in tag.attribute("srcset").into_iter().flat_map(|set| set.split(", ")) {
            let reference = candidate.split_whitespace().next().unwrap_or_default();
            assets.extend(on_the_same_server(&page.url, reference).map(|url| (url, Use::Picture)));
        }
    }
    assets
}

fn use_of_link(relation: Option<&str>, kind: Option<&str>) -> Option<Use> {
    let relation = relation?.to_ascii_lowercase();
    let mut words = relation.split_whitespace();
    words.find_map(|word| match (word, kind) {
        ("stylesheet", _) | ("preload", Some("style")) => Some(Use::Style),
        ("preload", Some("script")) | ("modulepreload", _) => Some(Use::Script),
        ("preload", Some("image" | "font")) => Some(Use::Decoration),
        ("icon" | "apple-touch-icon" | "mask-icon", _) => Some(Use::Picture),
        ("manifest", _) => Some(Use::Manifest),
        _ => None,
    })
}

fn of_style_sheet(sheet: &Page) -> BTreeSet<(Url, Use)> {
    let text = without_comments(&sheet.text());
    let references = text.split("url(").skip(1).filter_map(|rest| rest.split(')').next());
    let references = references.map(|reference| reference.trim().trim_matches(['"', '\'']));
    let found = references.filter_map(|reference| on_the_same_server(&sheet.url, reference));
    found
        .filter(|url| !LEFT_BEHIND.contains(&url.path()))
        .map(|url| (url, Use::Decoration))
        .collect()
}

/// Files that style sheets refer to and their application does not contain, for pages of earlier
/// versions.
const LEFT_BEHIND: [&str; 1] = ["/wp-admin/images/freedoms.png"];

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .filter_map(|part| part.split_once("*/"))
        .fold(first, |kept, (_, after)| kept + after)
}

/// Returns the target of `reference`; `None` if it is on another server, within the page, or the
/// reference itself.
fn on_the_same_server(base: &Url, reference: &str) -> Option<Url> {
    let mut url = base.join(reference).ok()?;
    url.set_fragment(None);
    let leads_elsewhere =
        reference.is_empty() || reference.starts_with('#') || reference.starts_with("data:");
    (!leads_elsewhere && url.origin() == base.origin()).then_some(url)
}

fn is_fit(media_type: &str, usage: Use) -> bool {
    let is_picture = media_type.starts_with("image/");
    match usage {
        Use::Style => media_type == "text/css",
        Use::Script => matches!(media_type, "text/javascript" | "application/javascript"),
        Use::Picture => is_picture,
        Use::Decoration => {
            is_picture
                || media_type.starts_with("font/")
                || media_type == "application/vnd.ms-fontobject"
        }
        Use::Manifest => matches!(media_type, "application/manifest+json" | "application/json"),
    }
}
