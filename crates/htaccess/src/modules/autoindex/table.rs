//! The list itself: a table, columns of plain text, or bullets.

use howdah_http::date;

use super::SortKey;
use super::items::{EntrySubject, find};
use super::options::{AutoindexOptions, Width};
use super::order::Row;
use super::page::PageMaker;
use crate::escape;
use crate::evaluation_context::EvaluationContext;
use crate::modules::autoindex;

/// The columns' widths in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    pub name: usize,
    pub description: usize,
}

/// Writes the rows in the form that the options ask for.
pub(super) fn table(
    maker: &mut PageMaker<'_>,
    context: &mut dyn EvaluationContext,
    rows: &[Row<'_>],
    widths: Widths,
) {
    if maker.has(AutoindexOptions::TABLE) {
        let rule = table_head(maker);
        for (index, row) in rows.iter().enumerate() {
            if maker.is_full() {
                break;
            }
            table_row(maker, context, row, index, widths);
        }
        maker.put(rule);
        maker.put("</table>\n");
    } else if maker.has(AutoindexOptions::FANCY) {
        text_head(maker, widths);
        for (index, row) in rows.iter().enumerate() {
            if maker.is_full() {
                break;
            }
            text_row(maker, context, row, index, widths);
        }
        if !maker.has(AutoindexOptions::SUPPRESS_RULES) {
            let close = maker.close();
            maker.put("<hr");
            maker.put(close);
        }
        maker.put("</pre>\n");
    } else {
        maker.put("<ul>");
        for (index, row) in rows.iter().enumerate() {
            if maker.is_full() {
                break;
            }
            maker.put("<li><a href=\"");
            maker.put(link(row));
            maker.put("\"> ");
            maker.put(escape::html(shown(row, index)));
            maker.put("</a></li>\n");
        }
        maker.put("</ul>\n");
    }
}

/// Writes the attributes of a cell: the style sheet's class, or the attributes used instead.
fn cell(maker: &mut PageMaker<'_>, element: &str, class: &str, otherwise: &str) {
    maker.put(element);
    match maker.config.style_sheet {
        Some(_) => maker.put(format!(" class=\"{class}\">")),
        None => maker.put(format!("{otherwise}>")),
    }
}

/// Writes the row of headings. Returns the row that draws a line.
fn table_head(maker: &mut PageMaker<'_>) -> String {
    let styled = maker.config.style_sheet.is_some();
    maker.put(match styled {
        true => "  <table id=\"indexlist\">\n   <tr class=\"indexhead\">",
        false => "  <table>\n   <tr>",
    });
    let mut columns = 1;
    if !maker.has(AutoindexOptions::SUPPRESS_ICON) {
        cell(maker, "<th", "indexcolicon", " valign=\"top\"");
        if !blank_icon(maker, "[ICO]") {
            maker.put("&nbsp;");
        }
        maker.put("</th>");
        columns += 1;
    }
    cell(maker, "<th", "indexcolname", "");
    heading(maker, "Name", SortKey::Name);
    let others = [
        (
            AutoindexOptions::SUPPRESS_LAST_MODIFIED,
            "indexcollastmod",
            "Last modified",
            SortKey::Modified,
        ),
        (AutoindexOptions::SUPPRESS_SIZE, "indexcolsize", "Size", SortKey::Size),
        (
            AutoindexOptions::SUPPRESS_DESCRIPTION,
            "indexcoldesc",
            "Description",
            SortKey::Description,
        ),
    ];
    for (suppressed, class, text, key) in others {
        if !maker.has(suppressed) {
            cell(maker, "</th><th", class, "");
            heading(maker, text, key);
            columns += 1;
        }
    }
    let class = if styled { " class=\"indexbreakrow\"" } else { "" };
    let rule = match maker.has(AutoindexOptions::SUPPRESS_RULES) {
        true => String::new(),
        false => {
            format!("   <tr{class}><th colspan=\"{columns}\"><hr{}</th></tr>\n", maker.close())
        }
    };
    maker.put("</th></tr>\n");
    maker.put(&rule);
    rule
}

/// Writes a column's name, as a link that sorts by the column, in the opposite order if it is
/// sorted by the column already.
fn heading(maker: &mut PageMaker<'_>, text: &str, key: SortKey) {
    if maker.has(AutoindexOptions::SUPPRESS_SORTING) {
        return maker.put(text);
    }
    let is_sorted = maker.wanted.key == key && !maker.wanted.descending;
    let direction = if is_sorted { 'D' } else { 'A' };
    maker.put(format!("<a href=\"?C={};O={direction}", key.letter()));
    let carried = maker.wanted.carried.clone();
    maker.put(carried);
    maker.put(format!("\">{text}</a>"));
}

/// Writes the icon above the others. Returns whether there is one.
fn blank_icon(maker: &mut PageMaker<'_>, alt: &str) -> bool {
    let config = maker.config;
    match find(&config.icons, &EntrySubject::path(b"^^BLANKICON^^")) {
        Some(icon) => {
            image(maker, icon, alt.as_bytes());
            true
        }
        None => false,
    }
}

fn image(maker: &mut PageMaker<'_>, icon: &[u8], alt: &[u8]) {
    let autoindex::Config { icon_width, icon_height, .. } = *maker.config;
    maker.put("<img src=\"");
    maker.put(escape::html(icon));
    maker.put("\" alt=\"");
    maker.put(alt);
    maker.put("\"");
    if icon_width > 0 {
        maker.put(format!(" width=\"{icon_width}\""));
    }
    if icon_height > 0 {
        maker.put(format!(" height=\"{icon_height}\""));
    }
    let close = maker.close();
    maker.put(close);
}

/// Writes a row's icon, as a link where the options say so.
fn linked_icon(maker: &mut PageMaker<'_>, row: &Row<'_>, anchor: &[u8], otherwise: &str) {
    let is_link = maker.has(AutoindexOptions::ICONS_ARE_LINKS);
    if is_link {
        maker.put([b"<a href=\"", anchor, b"\">"].concat());
    }
    icon(maker, row, otherwise);
    if is_link {
        maker.put("</a>");
    }
}

/// Writes a row's icon, or `otherwise` where it has none.
fn icon(maker: &mut PageMaker<'_>, row: &Row<'_>, otherwise: &str) {
    let config = maker.config;
    match row.icon.or(config.default_icon.as_deref()) {
        Some(icon) => {
            let alt = [b"[", row.alt.unwrap_or(b"   "), b"]"].concat();
            image(maker, icon, &alt);
        }
        None => maker.put(otherwise),
    }
}

fn table_row(
    maker: &mut PageMaker<'_>,
    context: &mut dyn EvaluationContext,
    row: &Row<'_>,
    index: usize,
    widths: Widths,
) {
    let parity = if index % 2 == 1 { "odd" } else { "even" };
    match (&maker.config.style_sheet, row.alt) {
        (None, _) => maker.put("<tr>"),
        (Some(_), Some(alt)) if maker.has(AutoindexOptions::ALT_CLASS) => {
            maker.put(format!("   <tr class=\"{parity}-"));
            maker.put(alt.to_ascii_lowercase());
            maker.put("\">");
        }
        (Some(_), _) => maker.put(format!("   <tr class=\"{parity}\">")),
    }
    let anchor = link(row);
    if !maker.has(AutoindexOptions::SUPPRESS_ICON) {
        cell(maker, "<td", "indexcolicon", " valign=\"top\"");
        linked_icon(maker, row, &anchor, "&nbsp;");
        maker.put("</td>");
    }
    cell(maker, "<td", "indexcolname", "");
    let adjusts = matches!(maker.config.name_width, Some(Width::Longest));
    name(maker, row, index, &anchor, if adjusts { usize::MAX } else { widths.name });
    if !maker.has(AutoindexOptions::SUPPRESS_LAST_MODIFIED) {
        last_modified(maker, context, row);
    }
    if !maker.has(AutoindexOptions::SUPPRESS_SIZE) {
        cell(maker, "</td><td", "indexcolsize", " align=\"right\"");
        maker.put(size(row.size));
    }
    if !maker.has(AutoindexOptions::SUPPRESS_DESCRIPTION) {
        cell(maker, "</td><td", "indexcoldesc", "");
        let adjusts = matches!(maker.config.description_width, Some(Width::Longest));
        match row.description {
            None => maker.put("&nbsp;"),
            Some(text) if adjusts => maker.put(text),
            Some(text) => {
                let text = shortened(maker, text, widths.description);
                maker.put(text);
            }
        }
    }
    maker.put("</td></tr>\n");
}

fn last_modified(maker: &mut PageMaker<'_>, context: &mut dyn EvaluationContext, row: &Row<'_>) {
    match row.modified {
        Some(modified) => {
            cell(maker, "</td><td", "indexcollastmod", " align=\"right\"");
            let text = date_of(maker, context, modified);
            maker.put(text);
            maker.put("  ");
        }
        None => {
            cell(maker, "</td><td", "indexcollastmod", "");
            maker.put("&nbsp;");
        }
    }
}

fn text_head(maker: &mut PageMaker<'_>, widths: Widths) {
    maker.put("<pre>");
    if !maker.has(AutoindexOptions::SUPPRESS_ICON) {
        match blank_icon(maker, "Icon ") {
            true => maker.put(" "),
            false => maker.put("      "),
        }
    }
    heading(maker, "Name", SortKey::Name);
    maker.put(vec![b' '; widths.name.saturating_sub(4) + 1]);
    if !maker.has(AutoindexOptions::SUPPRESS_LAST_MODIFIED) {
        heading(maker, "Last modified", SortKey::Modified);
        maker.put("      ");
    }
    if !maker.has(AutoindexOptions::SUPPRESS_SIZE) {
        heading(maker, "Size", SortKey::Size);
        maker.put("  ");
    }
    if !maker.has(AutoindexOptions::SUPPRESS_DESCRIPTION) {
        heading(maker, "Description", SortKey::Description);
    }
    match maker.has(AutoindexOptions::SUPPRESS_RULES) {
        true => maker.put("\n"),
        false => {
            let close = maker.close();
            maker.put("<hr");
            maker.put(close);
        }
    }
}

fn text_row(
    maker: &mut PageMaker<'_>,
    context: &mut dyn EvaluationContext,
    row: &Row<'_>,
    index: usize,
    widths: Widths,
) {
    let anchor = link(row);
    if !maker.has(AutoindexOptions::SUPPRESS_ICON) {
        linked_icon(maker, row, &anchor, "     ");
        maker.put(" ");
    }
    name(maker, row, index, &anchor, widths.name);
    maker.put(" ");
    if !maker.has(AutoindexOptions::SUPPRESS_LAST_MODIFIED) {
        match row.modified {
            Some(modified) => {
                let text = date_of(maker, context, modified);
                maker.put(text);
                maker.put("  ");
            }
            None => maker.put("                   "),
        }
    }
    if !maker.has(AutoindexOptions::SUPPRESS_SIZE) {
        maker.put(size(row.size));
        maker.put("  ");
    }
    if let Some(text) =
        row.description.filter(|_| !maker.has(AutoindexOptions::SUPPRESS_DESCRIPTION))
    {
        let text = shortened(maker, text, widths.description);
        maker.put(text);
    }
    maker.put("\n");
}

fn link(row: &Row<'_>) -> Vec<u8> {
    escape::html(&escape::path(&row.name))
}

fn shown<'r>(row: &'r Row<'_>, index: usize) -> &'r [u8] {
    match index == 0 && row.name.starts_with(b"/") {
        true => b"Parent Directory",
        false => &row.name,
    }
}

/// Writes a link with the name, cut to the width, and the filling; `usize::MAX` is the name's own
/// width.
fn name(maker: &mut PageMaker<'_>, row: &Row<'_>, index: usize, anchor: &[u8], width: usize) {
    let mut text = shown(row, index).to_vec();
    if text.len() > width && width > 3 {
        text.truncate(width - 3);
        text.extend_from_slice(b"..>");
    }
    maker.put([b"<a href=\"", anchor, b"\">", &escape::html(&text), b"</a>"].concat());
    if width != usize::MAX {
        maker.put(vec![b' '; width.saturating_sub(text.len())]);
    }
}

/// `2024-05-31 12:00`, in local time; `31-May-2024 12:00` with UseOldDateFormat.
fn date_of(maker: &PageMaker<'_>, context: &mut dyn EvaluationContext, modified: i64) -> Vec<u8> {
    let seconds = u64::try_from(modified / 1_000_000).unwrap_or_default();
    let zone = context.host().zone(maker.client.depends_on_everything(), seconds);
    let local = seconds.saturating_add_signed(i64::from(zone));
    // `Fri, 31 May 2024 12:00:00 GMT`
    let text = date::format(local);
    let (day, month, year, clock) = (&text[5..7], &text[8..11], &text[12..16], &text[17..22]);
    match maker.config.old_dates {
        true => [day, b"-", month, b"-", year, b" ", clock].concat(),
        false => {
            let number =
                MONTHS.iter().position(|name| name.as_bytes() == month).unwrap_or_default() + 1;
            [year, format!("-{number:02}-").as_bytes(), day, b" ", clock].concat()
        }
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Four characters: `972 `, `1.0K`, ` 12M` (`apr_strfsize`).
fn size(size: Option<u64>) -> String {
    let Some(mut size) = size else {
        return "  - ".to_owned();
    };
    if size < 973 {
        return format!("{size:3} ");
    }
    for unit in ['K', 'M', 'G', 'T', 'P', 'E'] {
        let rest = size & 1023;
        size >>= 10;
        if size >= 973 {
            continue;
        }
        if size < 9 || (size == 9 && rest < 973) {
            let tenths = (rest * 5 + 256) / 512;
            return match tenths >= 10 {
                true => format!("{}.0{unit}", size + 1),
                false => format!("{size}.{tenths}{unit}"),
            };
        }
        return format!("{:3}{unit}", size + u64::from(rest >= 512));
    }
    "****".to_owned()
}

/// Returns a description cut to the width. Tags do not count, and an entity is one character; a tag
/// that is cut ends in `>`.
fn shortened(maker: &PageMaker<'_>, text: &[u8], width: usize) -> Vec<u8> {
    let mut left = width;
    if maker.config.description_width.is_none() {
        let columns = [
            (AutoindexOptions::SUPPRESS_ICON, 6),
            (AutoindexOptions::SUPPRESS_LAST_MODIFIED, 19),
            (AutoindexOptions::SUPPRESS_SIZE, 7),
        ];
        left += columns
            .iter()
            .filter(|(option, _)| maker.has(*option))
            .map(|(_, width)| width)
            .sum::<usize>();
    }
    let mut at = 0;
    while let Some(&byte) = text.get(at).filter(|byte| left > 0 || **byte == b'<') {
        let end = match byte {
            b'<' => b'>',
            b'&' => b';',
            _ => {
                left -= 1;
                at += 1;
                continue;
            }
        };
        left = left.saturating_sub(usize::from(byte == b'&'));
        match text[at..].iter().position(|&byte| byte == end) {
            Some(length) => at += length + 1,
            None => return text.to_vec(),
        }
    }
    match left == 0 && at < text.len() {
        true => [&text[..at.saturating_sub(1)], b">"].concat(),
        false => text.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            (None, "  - "),
            (Some(0), "  0 "),
            (Some(972), "972 "),
            (Some(973), "1.0K"),
            (Some(1024), "1.0K"),
            (Some(1536), "1.5K"),
            (Some(10_188), "9.9K"),
            (Some(10_189), " 10K"),
            (Some(2 * 1024 + 51), "2.0K"),
            (Some(2 * 1024 + 52), "2.1K"),
            (Some(2 * 1024 + 972), "2.9K"),
            (Some(2 * 1024 + 973), "3.0K"),
            (Some(8 * 1024 + 1023), "9.0K"),
            (Some(10 * 1024 + 511), " 10K"),
            (Some(10 * 1024 + 512), " 11K"),
            (Some(996_351), "973K"),
            (Some(996_352), "1.0M"),
            (Some(12 << 20), " 12M"),
            (Some(1 << 30), "1.0G"),
            (Some(3 << 40), "3.0T"),
            (Some(1 << 50), "1.0P"),
            (Some(u64::MAX), " 16E"),
        ];
        for (bytes, expected) in table {
            assert_eq!(size(bytes), expected, "{bytes:?}");
        }
    }
}
