//! The formats of php-fpm's page: the same figures as text, JSON, HTML and XML.

use std::fmt::Write;

use super::{FpmFigure, FpmFigures};

/// The page as text.
pub(super) fn text(figures: &FpmFigures, workers: &[FpmFigures]) -> String {
    let mut page = String::new();
    let mut lines = |figures: &FpmFigures| {
        for (name, value) in figures {
            let name = match *name {
                "request uri" => "request URI",
                name => name,
            };
            let label = format!("{name}:");
            // Writing to a String cannot fail.
            let _ = writeln!(page, "{label:<22}{}", howdah_watch::printed::visible(&value.plain()));
        }
    };
    lines(figures);
    for worker in workers {
        let _ = writeln!(page, "\n************************");
        for (name, value) in worker {
            let name = match *name {
                "request uri" => "request URI",
                name => name,
            };
            let label = format!("{name}:");
            let _ = writeln!(page, "{label:<22}{}", howdah_watch::printed::visible(&value.plain()));
        }
    }
    page
}

/// The page as JSON.
pub(super) fn json(figures: &FpmFigures, workers: &[FpmFigures], is_full: bool) -> String {
    let object = |figures: &FpmFigures| {
        let pairs = figures.iter().map(|(name, value)| format!("\"{name}\":{}", value.json()));
        pairs.collect::<Vec<_>>().join(",")
    };
    if !is_full {
        return format!("{{{}}}", object(figures));
    }
    let workers: Vec<String> =
        workers.iter().map(|worker| format!("{{{}}}", object(worker))).collect();
    format!("{{{}, \"processes\":[{}]}}", object(figures), workers.join(","))
}

/// The page as HTML.
pub(super) fn html(figures: &FpmFigures, workers: &[FpmFigures]) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <title>PHP-FPM Status Page</title></head>\n<body>\n<table>\n",
    );
    for (name, value) in figures {
        let _ = writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", escaped(&value.plain()));
    }
    page.push_str("</table>\n");
    if let Some(first) = workers.first() {
        let names = first.iter().map(|(name, _)| format!("<th>{name}</th>"));
        let _ = writeln!(page, "<table border=\"1\">\n<tr>{}</tr>", names.collect::<String>());
        for worker in workers {
            let values =
                worker.iter().map(|(_, value)| format!("<td>{}</td>", escaped(&value.plain())));
            let _ = writeln!(page, "<tr>{}</tr>", values.collect::<String>());
        }
        page.push_str("</table>\n");
    }
    page.push_str("</body></html>\n");
    page
}

/// The page as XML.
pub(super) fn xml(figures: &FpmFigures, workers: &[FpmFigures], is_full: bool) -> String {
    let mut page = String::from("<?xml version=\"1.0\" ?>\n<status>\n");
    let element = |(name, value): &(&'static str, FpmFigure)| {
        let name = name.replace(' ', "-");
        // php-fpm gives a time as a number here.
        let value = match value {
            FpmFigure::Time(seconds) => seconds.to_string(),
            other => escaped(&other.plain()),
        };
        format!("<{name}>{value}</{name}>")
    };
    for figure in figures {
        let _ = writeln!(page, "{}", element(figure));
    }
    if is_full {
        page.push_str("<processes>\n");
        for worker in workers {
            let elements: String = worker.iter().map(element).collect();
            let _ = writeln!(page, "<process>{elements}</process>");
        }
        page.push_str("</processes>\n");
    }
    page.push_str("</status>");
    page
}

/// Escapes text for HTML and XML. Characters that XML does not have are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#039;"),
            control if control.is_control() => out.push('\u{fffd}'),
            plain => out.push(plain),
        }
    }
    out
}
