//! A listing for people and programs: the site's `listing` key, where no directive of mod_autoindex
//! is in force.
//!
//! The page needs no script: the heads of its columns are links that sort it by name, date or size.

use std::cmp::Ordering;
use std::fmt::Write;

use howdah_htaccess::modules::autoindex::FolderEntry;
use howdah_http::{Fields, codings, date};

use super::super::target;

/// A listing to be written.
pub(super) struct FolderPage<'l> {
    /// The path of the URL, decoded, with a slash at its end.
    pub(super) path: &'l [u8],
    pub(super) entries: Vec<FolderEntry>,
    pub(super) order: EntryOrder,
}

/// The order of the entries. Folders always come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryOrder {
    column: EntryColumn,
    is_descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryColumn {
    Name,
    Modified,
    Size,
}

impl EntryColumn {
    const ALL: [EntryColumn; 3] = [EntryColumn::Name, EntryColumn::Modified, EntryColumn::Size];

    fn key(self) -> &'static str {
        match self {
            EntryColumn::Name => "name",
            EntryColumn::Modified => "modified",
            EntryColumn::Size => "size",
        }
    }

    fn title(self) -> &'static str {
        match self {
            EntryColumn::Name => "Name",
            EntryColumn::Modified => "Modified",
            EntryColumn::Size => "Size",
        }
    }
}

impl EntryOrder {
    /// Returns the order that a query such as `sort=size&order=desc` asks for. Arguments that
    /// cannot be read are ignored.
    pub(super) fn of(query: Option<&[u8]>) -> EntryOrder {
        let arguments = || query.unwrap_or_default().split(|&byte| byte == b'&');
        let value = |name: &[u8]| arguments().find_map(|argument| argument.strip_prefix(name));
        let sort = value(b"sort=").unwrap_or_default();
        let column = EntryColumn::ALL.into_iter().find(|column| column.key().as_bytes() == sort);
        EntryOrder {
            column: column.unwrap_or(EntryColumn::Name),
            is_descending: value(b"order=") == Some(b"desc"),
        }
    }

    fn compare(self, one: &FolderEntry, two: &FolderEntry) -> Ordering {
        let by_name = || {
            let folded = |entry: &FolderEntry| entry.name.to_ascii_lowercase();
            folded(one).cmp(&folded(two)).then_with(|| one.name.cmp(&two.name))
        };
        let by_column = match self.column {
            EntryColumn::Name => by_name(),
            EntryColumn::Modified => one.modified.cmp(&two.modified),
            // The size of a folder says nothing about its content.
            EntryColumn::Size if one.is_directory => Ordering::Equal,
            EntryColumn::Size => one.size.cmp(&two.size),
        };
        let directed = if self.is_descending {
            by_column.reverse()
        } else {
            by_column
        };
        two.is_directory.cmp(&one.is_directory).then(directed).then_with(by_name)
    }
}

/// Returns whether a client with these request fields gets JSON: it accepts `application/json`, and
/// no less than `text/html`.
pub(super) fn wants_json(fields: &Fields) -> bool {
    let weight = |media_type| codings::weight(fields, b"accept", media_type);
    weight("application/json").is_some_and(|json| json > 0 && Some(json) >= weight("text/html"))
}

impl FolderPage<'_> {
    fn sorted(mut self) -> Self {
        let order = self.order;
        self.entries.sort_by(|one, two| order.compare(one, two));
        self
    }

    /// Returns the listing as a JSON array of objects: `name`, `href` (relative to the folder),
    /// `type`, `size` (of files, in bytes) and `modified` (ISO 8601).
    pub(super) fn json(self) -> Vec<u8> {
        let rows = self.sorted().entries.into_iter().map(|entry| {
            let kind = if entry.is_directory { "directory" } else { "file" };
            let (name, link) = (quoted(&entry.name), quoted(&link(&entry)));
            let mut row = format!("{{\"name\":{name},\"href\":{link},\"type\":\"{kind}\"");
            if !entry.is_directory {
                // Writing to a String cannot fail.
                let _ = write!(row, ",\"size\":{}", entry.size);
            }
            if let Some(time) = iso(entry.modified) {
                let _ = write!(row, ",\"modified\":\"{time}\"");
            }
            row + "}"
        });
        let rows: Vec<String> = rows.collect();
        format!("[{}]\n", rows.join(",\n")).into_bytes()
    }

    /// Returns the listing as a page.
    pub(super) fn html(self) -> Vec<u8> {
        let folder = self.sorted();
        let title = escaped(&String::from_utf8_lossy(folder.path));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta \
             charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <meta name=\"color-scheme\" content=\"light dark\"><style>{STYLE}</style></head>\n\
             <body>\
             <nav aria-label=\"Path\"><h1>{}</h1></nav>\n<table><thead><tr>{}</tr></thead>\n\
             <tbody>\n",
            folder.trail(),
            folder.heads(),
        );
        if folder.path != b"/" {
            page.push_str(
                "<tr><td class=\"up\" colspan=\"3\"><a href=\"../\">Folder above</a></td></tr>\n",
            );
        }
        for entry in &folder.entries {
            row(entry, &mut page);
        }
        let _ = write!(page, "</tbody></table>\n<p>{}</p></body></html>\n", folder.summary());
        page.into_bytes()
    }

    /// The path, each folder of it a link.
    fn trail(&self) -> String {
        let names: Vec<&[u8]> =
            self.path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        let mut trail = match names.is_empty() {
            true => "<b>/</b>".to_owned(),
            false => {
                format!("<a href=\"{}\" aria-label=\"Top folder\">/</a>", "../".repeat(names.len()))
            }
        };
        for (index, name) in names.iter().enumerate() {
            let name = escaped(&String::from_utf8_lossy(name));
            let _ = match names.len() - 1 - index {
                0 => write!(trail, "<b>{name}</b>"),
                up => write!(trail, "<a href=\"{}\">{name}</a><i>/</i>", "../".repeat(up)),
            };
        }
        trail
    }

    /// The heads of the columns. The head of the present order reverses it; dates and sizes begin
    /// with the greatest.
    fn heads(&self) -> String {
        let EntryOrder { column: present, is_descending } = self.order;
        let head = |column: EntryColumn| {
            let is_present = column == present;
            let reverses = if is_present {
                !is_descending
            } else {
                column != EntryColumn::Name
            };
            let (sorted, arrow) = match (is_present, is_descending) {
                (false, _) => ("", ""),
                (true, false) => (" aria-sort=\"ascending\"", " <i>\u{25b4}</i>"),
                (true, true) => (" aria-sort=\"descending\"", " <i>\u{25be}</i>"),
            };
            let order = if reverses { "desc" } else { "asc" };
            format!(
                "<th scope=\"col\" class=\"{0}\"{sorted}><a \
                 href=\"?sort={0}&amp;order={order}\">{1}{arrow}</a></th>",
                column.key(),
                column.title(),
            )
        };
        EntryColumn::ALL.map(head).concat()
    }

    fn summary(&self) -> String {
        let folders = self.entries.iter().filter(|entry| entry.is_directory).count();
        let files = self.entries.len() - folders;
        let bytes: u64 = self
            .entries
            .iter()
            .filter(|entry| !entry.is_directory)
            .fold(0, |sum, entry| sum.saturating_add(entry.size));
        let plural = |count: usize, word: &str| {
            format!("{count} {word}{}", if count == 1 { "" } else { "s" })
        };
        match (folders, files) {
            (0, 0) => "This folder is empty.".to_owned(),
            (0, _) => format!("{}, {}", plural(files, "file"), size(bytes)),
            (_, 0) => plural(folders, "folder"),
            _ => {
                format!("{}, {}, {}", plural(folders, "folder"), plural(files, "file"), size(bytes))
            }
        }
    }
}

fn row(entry: &FolderEntry, page: &mut String) {
    let (class, slash) = if entry.is_directory { ("dir", "/") } else { ("file", "") };
    let link = escaped(&String::from_utf8_lossy(&link(entry)));
    let name = escaped(&String::from_utf8_lossy(&entry.name));
    let _ = write!(page, "<tr><td class=\"{class}\"><a href=\"{link}\">{name}{slash}</a></td><td>");
    if let Some(time) = iso(entry.modified) {
        let shown = format!("{} <i>{}</i>", &time[..10], &time[11..16]);
        let _ = write!(page, "<time datetime=\"{time}\" title=\"{time}\">{shown}</time>");
    }
    page.push_str("</td><td>");
    if !entry.is_directory {
        let _ = write!(
            page,
            "<data value=\"{0}\" title=\"{0} bytes\">{1}</data>",
            entry.size,
            size(entry.size)
        );
    }
    page.push_str("</td></tr>\n");
}

/// Returns the URL of a file or folder, relative to the folder that is listed.
fn link(entry: &FolderEntry) -> Vec<u8> {
    let mut link = b"./".to_vec();
    target::escape(&entry.name, &mut link);
    if entry.is_directory {
        link.push(b'/');
    }
    link
}

/// Microseconds since 1970 as an ISO 8601 time of UTC. `None` for times before 1970.
fn iso(microseconds: i64) -> Option<String> {
    let seconds = u64::try_from(microseconds).ok()? / 1_000_000;
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let text = date::format(seconds);
    let text = std::str::from_utf8(&text).ok()?;
    let month = MONTHS.iter().position(|month| *month == &text[8..11])? + 1;
    Some(format!("{}-{month:02}-{}T{}Z", &text[12..16], &text[5..7], &text[17..25]))
}

/// Bytes in a form that people read: `512 B`, `1.5 kB`, `23 MB`.
fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut whole = bytes as f64;
    while whole >= 999.5 && unit + 1 < UNITS.len() {
        whole /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if whole < 9.95 => format!("{whole:.1} {}", UNITS[unit]),
        _ => format!("{whole:.0} {}", UNITS[unit]),
    }
}

/// Text for HTML, also within a quoted attribute.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A name as a string of JSON. Bytes that are not UTF-8 are replaced.
fn quoted(name: &[u8]) -> String {
    let mut text = String::from("\"");
    for character in String::from_utf8_lossy(name).chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text + "\""
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

const STYLE: &str = "\
:root{--text:#1c2024;--soft:#687076;--line:#e4e7ea;--hover:#f3f5f7;--link:#0b5cad;--page:#fff;--folder:#d9a441}\
@media(prefers-color-scheme:dark){:root{--text:#e6e8ea;--soft:#9ba1a6;--line:#2b2f33;--hover:#1f2327;--link:#7cb8f2;--page:#151718;--folder:#c99a45}}\
body{font:1rem/1.5 \
system-ui,sans-serif;color:var(--text);background:var(--page);max-width:60rem;margin:2.5rem \
auto;padding:0 1rem}\
h1{font-size:1.35rem;font-weight:400;overflow-wrap:anywhere;margin:0 0 1rem}h1 \
b{font-weight:600}h1 a{padding:0 .15em}\
i{font-style:normal;color:var(--soft)}a{color:var(--link);text-decoration:none}a:hover,a:focus-visible{text-decoration:underline}\
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}\
th{font-weight:500;font-size:.875rem;text-align:left;border-bottom:2px solid var(--line)}th \
a{color:var(--soft);display:block}\
th[aria-sort] a{color:var(--text)}th a,td{padding:.4rem .6rem}td{border-bottom:1px solid \
var(--line)}tbody tr:hover{background:var(--hover)}\
td:first-child{overflow-wrap:anywhere}td:first-child \
a{display:block;padding-left:1.45em;text-indent:-1.45em}td:first-child \
a::before{text-indent:0}td+td{white-space:nowrap;color:var(--soft)}td:last-child,th:last-child{text-align:right}td.up{text-align:left}\
td:first-child \
a::before{content:'';display:inline-block;width:.8em;height:.95em;margin-right:.65em;vertical-align:-.12em;\
border:1.5px solid var(--soft);border-radius:2px;box-sizing:border-box}\
td.dir \
a::before{width:1.05em;height:.8em;margin-right:.4em;vertical-align:-.05em;background:var(--folder);border-color:var(--folder);border-radius:3px}\
td.up a::before{content:'\\2191';width:auto;height:auto;border:0;margin:0 .6em 0 \
.1em;vertical-align:0;color:var(--soft)}\
p{color:var(--soft);font-size:.875rem;padding:0 .6rem}\
@media(max-width:36rem){time i{display:none}td,th a{padding:.4rem .3rem}body{margin-top:1rem}}";

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64, modified: i64) -> FolderEntry {
        FolderEntry {
            name: name.trim_end_matches('/').as_bytes().to_vec(),
            is_directory: name.ends_with('/'),
            size,
            modified: modified * 1_000_000,
            ..FolderEntry::default()
        }
    }

    fn names(query: &str) -> String {
        let entries = vec![
            entry("b.txt", 5, 30),
            entry("A.txt", 9, 10),
            entry("z/", 4096, 20),
            entry("c.txt", 9, 20),
            entry("y/", 1, 40),
        ];
        let order = EntryOrder::of(Some(query.as_bytes()));
        let folder = FolderPage { path: b"/", entries, order }.sorted();
        let names = folder.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn folders_come_first_in_every_order() {
        for (query, expected) in [
            ("", "y z A.txt b.txt c.txt"),
            ("sort=name&order=desc", "z y c.txt b.txt A.txt"),
            ("sort=size", "y z b.txt A.txt c.txt"),
            ("order=desc&sort=size", "y z A.txt c.txt b.txt"),
            ("sort=modified", "z y A.txt c.txt b.txt"),
            ("sort=modified&order=desc", "y z b.txt c.txt A.txt"),
            ("sort=none&x", "y z A.txt b.txt c.txt"),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
    }

    #[test]
    fn sizes_and_dates_can_be_read() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (1536, "1.5 kB"),
            (9_960, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (23_400_000, "23 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
        assert_eq!(iso(784_111_777_000_000).as_deref(), Some("1994-11-06T08:49:37Z"));
        assert_eq!(iso(-1), None);
    }

    #[test]
    fn a_name_is_only_text() {
        let evil = "<script>\"'&\u{1}.txt";
        let folder = |path| FolderPage {
            path,
            entries: vec![entry(evil, 1, 0)],
            order: EntryOrder::of(None),
        };
        let page = String::from_utf8(folder(b"/<b>&\"/").html()).unwrap();
        assert!(!page.contains("<script>") && !page.contains("<b>&\""), "{page}");
        assert!(page.contains("href=\"./%3Cscript%3E%22"), "{page}");
        let json = String::from_utf8(folder(b"/").json()).unwrap();
        let expected = "[{\"name\":\"<script>\\\"'&\\u0001.txt\",\"href\":\"./%3Cscript%3E%22'&%01.txt\",\"type\":\"file\",\"size\":1,\"modified\":\"1970-01-01T00:00:00Z\"}]\n";
        assert_eq!(json, expected);
    }

    #[test]
    fn json_is_for_those_who_ask() {
        for (accept, expected) in [
            ("application/json", true),
            ("text/html, application/json", true),
            ("text/html;q=0.5, application/json;q=0.4", false),
            ("application/json;q=0", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("*/*", false),
        ] {
            let mut fields = Fields::new();
            fields.push(b"Accept", accept.as_bytes());
            assert_eq!(wants_json(&fields), expected, "{accept}");
        }
    }
}
