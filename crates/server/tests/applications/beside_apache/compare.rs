//! Two answers to the same request, and what differs between them.

use std::fmt;

use crate::browser::Page;

use super::stage::Stage;

/// The part of an answer that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Status,
    /// The field of this name, in small letters; empty is any.
    Field(&'static str),
    /// The servers' own words about an error.
    ErrorPage,
    Content,
}

/// A difference between the answers to one request.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// `status code`, `error page`, `content`, or a field's name.
    pub(crate) part: String,
    pub(crate) url: String,
    pub(crate) apache: String,
    pub(crate) howdah: String,
}

impl Part {
    pub(crate) fn is(self, name: &str) -> bool {
        const OTHERS: [&str; 3] = ["status code", "error page", "content"];
        match self {
            Part::Status => name == OTHERS[0],
            Part::ErrorPage => name == OTHERS[1],
            Part::Content => name == OTHERS[2],
            Part::Field("") => !OTHERS.contains(&name),
            Part::Field(field) => name == field,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let Difference { part, url, apache, howdah } = self;
        write!(to, "{url}: {part}: Apache {apache:?}, Howdah {howdah:?}")
    }
}

/// The differences between the answers of Apache and of Howdah to a request for `url`.
pub(crate) fn differences(url: &str, pages: [&Page; 2], masks: [&Mask; 2]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |part: &str, [apache, howdah]: [String; 2]| {
        if apache != howdah {
            let (part, url) = (part.to_owned(), url.to_owned());
            found.push(Difference { part, url, apache, howdah });
        }
    };
    compare("status code", pages.map(|page| page.status.to_string()));
    let mut names: Vec<_> = pages.iter().flat_map(|page| page.field_names()).collect();
    names.sort_unstable();
    names.dedup();
    let sides = [0, 1];
    let is_text = pages.iter().any(|page| is_text(page));
    let texts = sides.map(|side| content(pages[side], masks[side], is_text));
    let are_the_servers_own = is_own_page(pages, &texts);
    if are_the_servers_own {
        compare("error page", [title(&texts[0]), title(&texts[1])]);
        names.retain(|name| !matches!(name.as_str(), "content-length" | "content-type"));
    }
    for name in names {
        compare(&name, sides.map(|side| field(pages[side], &name, masks[side])));
    }
    if texts[0] != texts[1] && !are_the_servers_own {
        compare("content", excerpts(&texts));
    }
    found
}

/// Returns whether the servers themselves have answered: PHP's module names itself in
/// `X-Powered-By` only where its settings say so, but no application's pages begin like these.
fn is_own_page(pages: [&Page; 2], texts: &[String; 2]) -> bool {
    pages.iter().all(|page| page.status >= 300)
        && texts[0].starts_with("<!DOCTYPE HTML PUBLIC \"-//")
        && texts[0].contains("</title>\n</head><body>")
        && texts[1].starts_with("<!doctype html>")
}

fn title(text: &str) -> String {
    let (_, rest) = text.split_once("<title>").unwrap_or_default();
    format!("a page with the title {}", rest.split('<').next().unwrap_or_default())
}

/// The field's values with the parts that are never the same twice replaced.
fn field(page: &Page, name: &str, mask: &Mask) -> String {
    let values: Vec<_> = page.fields(name).iter().map(|value| mask.apply(value)).collect();
    let text = values.join(", ");
    match name {
        "vary" => text.replace(", ", ",").to_ascii_lowercase(),
        // The validators of a file contain its time, and cookies are random.
        "date" | "last-modified" | "expires" if !text.is_empty() => date(&text),
        "content-length" if !text.is_empty() => "a length".to_owned(),
        "etag" if !text.is_empty() => "a tag".to_owned(),
        "set-cookie" => page.fields(name).iter().map(|value| cookie(&mask.apply(value))).collect(),
        _ => text,
    }
}

/// `a date`, but for those in the past that only mean "expired", and what is no date.
fn date(text: &str) -> String {
    match text.ends_with("GMT") && text.contains(" 20") {
        true => "a date".to_owned(),
        false => text.to_owned(),
    }
}

/// The cookie's name and its attributes, without its value and its time.
fn cookie(text: &str) -> String {
    let (name, rest) = text.split_once('=').unwrap_or((text, ""));
    let attributes = rest.split(';').skip(1).map(|part| match part.trim().split_once('=') {
        Some(("expires", _)) => "expires".to_owned(),
        _ => part.trim().to_owned(),
    });
    format!("{name}; {}\n", attributes.collect::<Vec<_>>().join("; "))
}

fn is_text(page: &Page) -> bool {
    let kinds = ["text/", "application/json", "application/javascript", "xml"];
    kinds.iter().any(|kind| page.media_type().contains(kind))
}

fn content(page: &Page, mask: &Mask, is_text: bool) -> String {
    match is_text {
        true => mask.apply(&page.text()),
        false => format!("{} bytes {:?}", page.body.len(), page.body),
    }
}

/// The first line of each text that the other text does not have.
fn excerpts(texts: &[String; 2]) -> [String; 2] {
    let lines = [0, 1].map(|side| texts[side].lines().collect::<Vec<_>>());
    [0, 1].map(|side| {
        let other = &lines[1 - side];
        let line = lines[side].iter().find(|line| !other.contains(line)).unwrap_or(&"");
        shorten(line.trim(), LONGEST_EXCERPT)
    })
}

const LONGEST_EXCERPT: usize = 160;

pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Words that differ on every server and at every time: addresses, folders, secrets, times.
pub(crate) struct Mask {
    replaced: Vec<(String, &'static str)>,
    volatile: &'static [(&'static str, &'static str)],
}

impl Mask {
    /// For pages of the server on `stage`. `volatile` are pairs of texts, between which everything
    /// is left out.
    pub(crate) fn new(stage: &Stage, volatile: &'static [(&'static str, &'static str)]) -> Mask {
        let host = stage.address.ip();
        let replaced = vec![
            (host.to_string(), "HOST"),
            (stage.path().display().to_string(), "FOLDER"),
            (stage.path().display().to_string().replace('/', "%2F"), "FOLDER"),
        ];
        Mask { replaced, volatile }
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        for (before, after) in self.volatile {
            text = without(&text, before, after);
        }
        without_secrets(&text)
    }
}

/// `text` without what is between `before` and `after`, each time.
fn without(text: &str, before: &str, after: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((first, second)) = rest.split_once(before) {
        kept.push_str(first);
        kept.push_str(before);
        match second.find(after) {
            Some(end) => rest = &second[end..],
            None => return kept,
        }
    }
    kept + rest
}

/// `text` with a `#` in the place of words that look random, and of times of the day.
fn without_secrets(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        kept.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(after) = after_time(rest).filter(|_| !kept.ends_with(':')) {
            kept.push('#');
            rest = after;
            continue;
        }
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        // 2026-11-22T12:34:56
        if let Some(hour) = end.checked_sub(2).filter(|hour| word[..*hour].ends_with('T'))
            && let Some(after) = after_time(&rest[hour..])
        {
            kept.push_str(&word[..hour]);
            kept.push('#');
            rest = after;
            continue;
        }
        kept.push_str(if is_random(word) { "#" } else { word });
        rest = &rest[end..];
    }
    kept + rest
}

/// Returns whether no person has written the word: a long number, or letters and digits mixed.
fn is_random(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    match digits {
        0 => word.len() >= 40,
        all if all == word.len() => all >= 6,
        _ => word.len() >= 8,
    }
}

/// The rest of the text after `hh:mm`, `h:mm` or `hh:mm:ss`, if it begins with one.
fn after_time(text: &str) -> Option<&str> {
    let two = |text: &str| {
        let bytes = text.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_digit)
    };
    let (hour, minutes) = text.split_once(':')?;
    let is_hour = matches!(hour.len(), 1 | 2) && hour.bytes().all(|byte| byte.is_ascii_digit());
    let minutes = Some(minutes).filter(|_| is_hour)?;
    let rest = minutes.get(2..).filter(|_| two(minutes))?;
    let seconds = rest.strip_prefix(':').filter(|seconds| two(seconds));
    Some(seconds.and_then(|seconds| seconds.get(2..)).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_random_is_masked() {
        let text = "twentytwentythree 6.1.9 at 12:34:56, 7:08, 2026-11-22T12:34:56+00:00, \
                    key 8f3a1b2c0d, id 42";
        let masked = "twentytwentythree 6.1.9 at #, #, 2026-11-22T#+#, key #, id 42";
        assert_eq!(without_secrets(text), masked);
        assert_eq!(without("a<1>b<2>c", "<", ">"), "a<>b<>c");
    }

    #[test]
    fn a_cookie_keeps_its_name_and_its_attributes() {
        let told = cookie("id=8f3a; expires=Sun, 22 Nov 2026 10:00:00 GMT; path=/; HttpOnly");
        assert_eq!(told, "id; expires; path=/; HttpOnly\n");
    }
}
