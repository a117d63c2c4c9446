//! A listing's HTML.

use super::items::{EntrySubject, description, find, is_ignored, steps_for_entry};
use super::options::{AutoindexOptions, DEFAULT_WIDTH, Width};
use super::order::{Row, RowOrder};
use super::query::ListingOrder;
use super::table::{self, Widths};
use super::{FolderEntry, Insert, Listing};
use crate::client::ClientRequest;
use crate::escape;
use crate::evaluation_context::EvaluationContext;
use crate::modules::autoindex;
use crate::transaction::Transaction;
use crate::work;

/// The context that every part of the page needs.
pub(super) struct PageMaker<'m> {
    pub client: ClientRequest<'m>,
    pub config: &'m autoindex::Config,
    pub wanted: ListingOrder,
    pub out: Vec<u8>,
}

impl PageMaker<'_> {
    /// Appends a text, and counts the work.
    pub(super) fn put(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.client.meter().note(1 + work::bytes(text.len()));
        self.out.extend_from_slice(text);
    }

    /// Returns whether the page gets no further rows: it is as long as a page may be, or the
    /// request's budget is used up.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() > LONGEST_PAGE || self.client.meter().is_exhausted()
    }

    pub(super) fn has(&self, option: u32) -> bool {
        self.wanted.options.has(option)
    }

    /// Returns the end of an empty element.
    pub(super) fn close(&self) -> &'static str {
        if self.has(AutoindexOptions::XHTML) { " />" } else { ">" }
    }
}

/// The bytes of a page after which it gets no further rows. A row repeats what directives say for
/// it: up to 64 KiB.
const LONGEST_PAGE: usize = 16 << 20;

/// Returns the whole page.
pub(super) fn page(
    tx: &Transaction<'_>,
    config: &autoindex::Config,
    context: &mut dyn EvaluationContext,
    listing: &Listing,
) -> Vec<u8> {
    let mut maker = PageMaker {
        client: tx.client,
        config,
        wanted: ListingOrder::of(config, tx.state.args.as_deref()),
        out: Vec::new(),
    };
    let folder = match tx.state.filename.ends_with(b"/") {
        true => tx.state.filename.clone(),
        false => [&tx.state.filename[..], b"/"].concat(),
    };
    let rows = rows(&maker, &folder, &tx.state.uri, listing);
    head(&mut maker, &title(&tx.state.uri), listing.header.as_ref());
    let widths = Widths {
        name: width(config.name_width, rows.iter().map(|row| row.name.len())),
        description: width(
            config.description_width,
            rows.iter().filter_map(|row| row.description).map(<[u8]>::len),
        ),
    };
    table::table(&mut maker, context, &rows, widths);
    tail(&mut maker, listing);
    maker.out
}

/// Returns the URL's path without slashes at its end, for HTML.
fn title(uri: &[u8]) -> Vec<u8> {
    let mut title = escape::html(uri);
    while title.len() > 1 && title.ends_with(b"/") {
        title.pop();
    }
    title
}

fn width(width: Option<Width>, lengths: impl Iterator<Item = usize>) -> usize {
    match width {
        Some(Width::Fixed(width)) => width,
        Some(Width::Longest) => lengths.fold(DEFAULT_WIDTH, usize::max),
        None => DEFAULT_WIDTH,
    }
}

/// Returns the rows that are shown, in order.
fn rows<'r>(maker: &PageMaker<'r>, folder: &[u8], uri: &[u8], listing: &Listing) -> Vec<Row<'r>> {
    let order = RowOrder {
        key: maker.wanted.key,
        descending: maker.wanted.descending,
        by_version: maker.has(AutoindexOptions::VERSION_SORT),
        ignore_case: maker.has(AutoindexOptions::IGNORE_CASE),
    };
    // Every pattern may be compared with every entry. Entries beyond the budget are left out, as
    // those whose own directives take too much.
    let (meter, steps) = (maker.client.meter(), steps_for_entry(maker.config, folder.len()));
    let affordable =
        listing.entries.iter().take_while(|_| steps == 0 || meter.spend(steps).is_ok());
    let entries = affordable.filter_map(|entry| row(maker, folder, entry));
    order.sort(parent(maker, folder, uri).into_iter().chain(entries).collect())
}

fn parent<'r>(maker: &PageMaker<'r>, folder: &[u8], uri: &[u8]) -> Option<Row<'r>> {
    let path = [folder, b".."].concat();
    let own = uri.strip_suffix(b"/").unwrap_or(uri);
    let above = own.iter().rposition(|&byte| byte == b'/')?;
    if own.is_empty() || is_ignored(maker.config, &path) {
        return None;
    }
    let mut row = Row {
        name: own[..=above].to_vec(),
        ..Row::default()
    };
    if maker.has(AutoindexOptions::FANCY) {
        let config = maker.config;
        let subject = EntrySubject::path(&path);
        row.icon = find(&config.icons, &subject).or_else(|| find(&config.icons, &DIRECTORY));
        let alt = find(&config.alts, &subject).or_else(|| find(&config.alts, &DIRECTORY));
        row.alt = Some(alt.unwrap_or(b"PARENTDIR"));
        row.description = description(config, &path);
    }
    Some(row)
}

fn row<'r>(maker: &PageMaker<'r>, folder: &[u8], entry: &FolderEntry) -> Option<Row<'r>> {
    let config = maker.config;
    let path = [folder, &entry.name].concat();
    if !maker.wanted.takes(&entry.name) || is_ignored(config, &path) {
        return None;
    }
    let mut row = Row {
        name: entry.name.clone(),
        ..Row::default()
    };
    if entry.is_directory {
        row.name.push(b'/');
    }
    if !maker.has(AutoindexOptions::FANCY) && !maker.has(AutoindexOptions::TABLE) {
        return Some(row);
    }
    row.modified = Some(entry.modified);
    row.description = description(config, &path);
    if entry.is_directory {
        let subject = EntrySubject::path(&path);
        row.is_first = maker.has(AutoindexOptions::FOLDERS_FIRST);
        row.icon = find(&config.icons, &subject).or_else(|| find(&config.icons, &DIRECTORY));
        let alt = find(&config.alts, &subject).or_else(|| find(&config.alts, &DIRECTORY));
        row.alt = Some(alt.unwrap_or(b"DIR"));
    } else {
        let media_type = entry.content_type.as_deref();
        let subject = EntrySubject {
            path: &path,
            media_type: media_type
                .and_then(|value| value.split(|byte| b"; \t".contains(byte)).next()),
            encoding: entry.encoding.as_deref(),
            path_only: false,
        };
        row.size = Some(entry.size);
        row.icon = find(&config.icons, &subject);
        row.alt = find(&config.alts, &subject);
    }
    Some(row)
}

/// The subject for every folder.
const DIRECTORY: EntrySubject<'static> = EntrySubject {
    path: b"^^DIRECTORY^^",
    media_type: None,
    encoding: None,
    path_only: true,
};

/// Writes the page up to the heading.
fn head(maker: &mut PageMaker<'_>, title: &[u8], header: Option<&Insert>) {
    let suppressed = maker.has(AutoindexOptions::SUPPRESS_PREAMBLE);
    match header {
        Some(Insert::Html(html)) => {
            if !suppressed {
                preamble(maker, title);
            }
            maker.put(html);
        }
        Some(Insert::Text(text)) => {
            preamble(maker, title);
            plain(maker, text);
        }
        None => {
            preamble(maker, title);
            let id = match maker.config.style_sheet {
                Some(_) => "  <h1 id=\"indextitle\">",
                None => "<h1>",
            };
            maker.put(id);
            maker.put("Index of ");
            maker.put(title);
            maker.put("</h1>\n");
        }
    }
}

fn preamble(maker: &mut PageMaker<'_>, title: &[u8]) {
    let config = maker.config;
    maker.put(match maker.has(AutoindexOptions::XHTML) {
        true => {
            "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
             \"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
             <html xmlns=\"http://www.w3.org/1999/xhtml\">\n <head>\n  <title>Index of "
        }
        false => {
            "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \
             \"http://www.w3.org/TR/html4/strict.dtd\">\n\
             <html>\n <head>\n  <title>Index of "
        }
    });
    maker.put(title);
    maker.put("</title>\n");
    if let Some(sheet) = &config.style_sheet {
        let close = maker.close();
        maker.put("  <link rel=\"stylesheet\" href=\"");
        maker.put(sheet);
        maker.put("\" type=\"text/css\"");
        maker.put(close);
        maker.put("\n");
    }
    maker.put(config.head_insert.as_deref().unwrap_or_default());
    maker.put(" </head>\n <body>\n");
}

fn plain(maker: &mut PageMaker<'_>, text: &[u8]) {
    maker.put("<pre>\n");
    for &byte in text {
        match byte {
            b'<' => maker.put("&lt;"),
            b'>' => maker.put("&gt;"),
            b'&' => maker.put("&amp;"),
            other => maker.out.push(other),
        }
    }
    maker.put("</pre>\n");
}

/// Writes the part below the list.
fn tail(maker: &mut PageMaker<'_>, listing: &Listing) {
    match &listing.readme {
        Some(Insert::Html(html)) => {
            maker.put(html);
            if maker.has(AutoindexOptions::SUPPRESS_PREAMBLE) {
                return;
            }
        }
        Some(Insert::Text(text)) => plain(maker, text),
        None => maker.put(&listing.signature),
    }
    maker.put("</body></html>\n");
}
