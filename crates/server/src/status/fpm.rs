//! php-fpm's status page, with php-fpm's words, for monitors that were made for php-fpm.

mod formats;
mod openmetrics;

use std::fmt::Write;

use howdah_http::date;
use howdah_php::FULL_PIECE;

use self::formats::{html, json, text, xml};
use self::openmetrics::openmetrics;
use super::{PoolSnapshot, WorkerSnapshot, WorkerState};

/// The formats of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FpmFormat {
    Text,
    Json,
    Html,
    Xml,
    OpenMetrics,
}

/// The page that a query asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FpmQuery {
    pub(crate) format: FpmFormat,
    /// Every worker is listed.
    pub(crate) is_full: bool,
}

impl FpmQuery {
    /// Reads a query such as `json&full`, or `json=1&full=1`: a value does not matter.
    pub(crate) fn of(query: Option<&[u8]>) -> FpmQuery {
        let words = || query.unwrap_or_default().split(|&byte| byte == b'&');
        let is_named = |found: &[u8], word: &[u8]| {
            let value = found.strip_prefix(word);
            value.is_some_and(|value| value.is_empty() || value.starts_with(b"="))
        };
        let has = |word: &[u8]| words().any(|found| is_named(found, word));
        let format = match () {
            () if has(b"html") => FpmFormat::Html,
            () if has(b"xml") => FpmFormat::Xml,
            () if has(b"json") => FpmFormat::Json,
            () if has(b"openmetrics") => FpmFormat::OpenMetrics,
            () => FpmFormat::Text,
        };
        FpmQuery { format, is_full: has(b"full") }
    }

    /// The value of Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self.format {
            FpmFormat::Text => "text/plain;charset=UTF-8",
            FpmFormat::Json => "application/json",
            FpmFormat::Html => "text/html;charset=UTF-8",
            FpmFormat::Xml => "text/xml;charset=UTF-8",
            FpmFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes the page of a pool. `now` is in seconds since 1970.
pub(crate) fn page(name: &str, pool: &PoolSnapshot, query: FpmQuery, now: f64) -> String {
    let figures = pool_figures(name, pool, now);
    let workers: Vec<FpmFigures> = match query.is_full {
        true => pool.workers.iter().map(|worker| worker_figures(worker, now)).collect(),
        false => Vec::new(),
    };
    match query.format {
        FpmFormat::Text => text(&figures, &workers),
        FpmFormat::Json => json(&figures, &workers, query.is_full),
        FpmFormat::Html => html(&figures, &workers),
        FpmFormat::Xml => xml(&figures, &workers, query.is_full),
        FpmFormat::OpenMetrics => openmetrics(name, pool, now),
    }
}

/// Names and values in php-fpm's order.
type FpmFigures = Vec<(&'static str, FpmFigure)>;

/// A value.
#[derive(Debug, Clone, PartialEq)]
enum FpmFigure {
    Text(String),
    Number(u64),
    /// A share in per cent.
    Share(f64),
    /// Seconds since 1970.
    Time(u64),
}

fn pool_figures(name: &str, pool: &PoolSnapshot, now: f64) -> FpmFigures {
    let number = |number: usize| FpmFigure::Number(number as u64);
    vec![
        ("pool", FpmFigure::Text(name.to_owned())),
        ("process manager", FpmFigure::Text(process_manager(pool).to_owned())),
        ("start time", FpmFigure::Time(pool.counted_since as u64)),
        ("start since", FpmFigure::Number(since(pool.counted_since, now))),
        ("accepted conn", FpmFigure::Number(pool.requests)),
        ("listen queue", number(pool.queue)),
        ("max listen queue", number(pool.most_queued)),
        ("listen queue len", number(pool.queue_limit)),
        ("idle processes", number(pool.idle)),
        ("active processes", number(pool.active)),
        ("total processes", number(pool.workers.len())),
        ("max active processes", number(pool.most_active)),
        ("max children reached", FpmFigure::Number(pool.exhausted)),
        ("slow requests", FpmFigure::Number(pool.slow)),
    ]
}

/// The name of the pool's mode, as php-fpm has it.
fn process_manager(pool: &PoolSnapshot) -> &str {
    match pool.mode.as_str() {
        "" => "static",
        // php-fpm does not know it.
        "auto" => "dynamic",
        mode => mode,
    }
}

fn worker_figures(worker: &WorkerSnapshot, now: f64) -> FpmFigures {
    let text = |text: &Option<String>| {
        FpmFigure::Text(text.clone().filter(|text| !text.is_empty()).unwrap_or("-".to_owned()))
    };
    let is_idle = worker.state == WorkerState::Idle;
    let share = match worker.last_cpu {
        Some(spent) if is_idle && worker.time > 0.0 => 100.0 * spent / worker.time,
        _ => 0.0,
    };
    vec![
        ("pid", FpmFigure::Number(worker.pid)),
        ("state", FpmFigure::Text(if is_idle { "Idle" } else { "Running" }.to_owned())),
        ("start time", FpmFigure::Time(worker.started as u64)),
        ("start since", FpmFigure::Number(since(worker.started, now))),
        ("requests", FpmFigure::Number(worker.requests.saturating_add(u64::from(!is_idle)))),
        ("request duration", FpmFigure::Number((worker.time * 1e6) as u64)),
        ("request method", text(&worker.method)),
        ("request uri", text(&worker.url)),
        ("content length", FpmFigure::Number(worker.content_length)),
        ("user", FpmFigure::Text("-".to_owned())),
        ("script", text(&worker.script)),
        ("last request cpu", FpmFigure::Share(share)),
        ("last request memory", FpmFigure::Number(if is_idle { worker.last_peak } else { 0 })),
    ]
}

fn since(started: f64, now: f64) -> u64 {
    match started > 0.0 {
        true => (now - started).max(0.0) as u64,
        false => 0,
    }
}

impl FpmFigure {
    /// The value in the text, HTML and XML pages, before it is escaped.
    fn plain(&self) -> String {
        match self {
            FpmFigure::Text(text) => text.clone(),
            FpmFigure::Number(number) => number.to_string(),
            FpmFigure::Share(share) => format!("{share:.2}"),
            FpmFigure::Time(seconds) => {
                let date = date::format(*seconds);
                let part = |range| String::from_utf8_lossy(&date[range]).into_owned();
                let [day, month, year, time] = [5..7, 8..11, 12..16, 17..25].map(part);
                format!("{day}/{month}/{year}:{time} +0000")
            }
        }
    }

    fn json(&self) -> String {
        match self {
            FpmFigure::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            FpmFigure::Time(seconds) => seconds.to_string(),
            other => other.plain(),
        }
    }
}

/// Writes a piece of the value that `fpm_get_status()` returns, as JSON, in the words of php-fpm's
/// function, which are not those of its page. The first piece begins with the pool's own figures,
/// the last one has the end. Returns also the worker with which the next piece begins; `None` for
/// the last one.
pub(crate) fn function_piece(
    name: &str,
    pool: &PoolSnapshot,
    first: usize,
    now: f64,
) -> (String, Option<usize>) {
    let object = |figures: &FpmFigures| {
        let mut pairs = Vec::new();
        for (name, value) in figures {
            let mut pair = |name: &str, value: String| pairs.push(format!("\"{name}\":{value}"));
            match (*name, value) {
                ("request uri", FpmFigure::Text(uri)) => {
                    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
                    pair("request-uri", FpmFigure::Text(path.to_owned()).json());
                    pair("query-string", FpmFigure::Text(query.to_owned()).json());
                }
                ("content length", value) => pair("request-length", value.json()),
                (name, value) => pair(&name.replace(' ', "-"), value.json()),
            }
        }
        pairs.join(",")
    };
    let mut piece = match first {
        0 => format!("{{{},\"procs\":[", object(&pool_figures(name, pool, now))),
        _ => String::new(),
    };
    for (number, worker) in pool.workers.iter().filter(|one| one.index >= first).enumerate() {
        if piece.len() >= FULL_PIECE {
            return (piece, Some(worker.index));
        }
        let comma = if first == 0 && number == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(piece, "{comma}{{{}}}", object(&worker_figures(worker, now)));
    }
    piece.push_str("]}");
    (piece, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> PoolSnapshot {
        let worker = WorkerSnapshot {
            pid: 7,
            started: 784_111_777.0,
            url: Some("/a?b=<\"'&\u{1b}".into()),
            time: 0.5,
            last_cpu: Some(0.25),
            ..WorkerSnapshot::default()
        };
        PoolSnapshot {
            workers: vec![worker],
            counted_since: 784_111_700.0,
            ..PoolSnapshot::default()
        }
    }

    fn of(query: &str) -> String {
        page("shop", &pool(), FpmQuery::of(Some(query.as_bytes())), 784_111_787.0)
    }

    #[test]
    fn the_query_chooses_the_format() {
        let full = |format| FpmQuery { format, is_full: true };
        assert_eq!(FpmQuery::of(Some(b"json&full")), full(FpmFormat::Json));
        assert_eq!(FpmQuery::of(Some(b"full&xml")), full(FpmFormat::Xml));
        assert_eq!(FpmQuery::of(Some(b"json=1&full=")), full(FpmFormat::Json));
        assert!(!FpmQuery::of(Some(b"fully&html=")).is_full);
        assert_eq!(FpmQuery::of(None), FpmQuery { format: FpmFormat::Text, is_full: false });
    }

    #[test]
    fn times_and_shares_are_php_fpms() {
        let text = of("full");
        assert!(text.contains("start time:           06/Nov/1994:08:49:37 +0000\n"), "{text}");
        assert!(text.contains("start since:          87\n"), "{text}");
        assert!(text.contains("last request cpu:     50.00\n"), "{text}");
    }

    #[test]
    fn the_function_has_names_of_its_own() {
        let (text, next) = function_piece("shop", &pool(), 0, 784_111_787.0);
        assert_eq!(next, None);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["start-time"], 784_111_700);
        let process = &json["procs"][0];
        assert_eq!(process["request-uri"], "/a");
        assert_eq!(process["query-string"], "b=<\"'&\u{1b}");
        assert_eq!(process["request-length"], 0);
        assert_eq!(process["last-request-cpu"], 50.0);
    }

    #[test]
    fn the_function_has_pieces_for_any_number_of_workers() {
        let worker = |index| WorkerSnapshot {
            index,
            pid: 1000 + index as u64,
            url: Some("\u{1}".repeat(2048)),
            script: Some("\u{1}".repeat(2048)),
            ..WorkerSnapshot::default()
        };
        let mut pool = PoolSnapshot {
            workers: (0..1024).map(worker).collect(),
            ..PoolSnapshot::default()
        };
        let (mut text, mut next) = function_piece("shop", &pool, 0, 0.0);
        let mut pieces = 1;
        while let Some(first) = next {
            // One of the next piece has ended meanwhile.
            pool.workers.retain(|worker| worker.index != first);
            let (piece, after) = function_piece("shop", &pool, first, 0.0);
            assert!(piece.len() < 170 * 1024, "it fits into a slot: {}", piece.len());
            (text, next, pieces) = (text + &piece, after, pieces + 1);
        }
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let found: Vec<u64> = json["procs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|process| process["pid"].as_u64().unwrap())
            .collect();
        let expected: Vec<u64> = pool.workers.iter().map(|worker| worker.pid).collect();
        assert!(found == expected && pieces < 1000, "{pieces} pieces, {found:?}");
    }

    #[test]
    fn what_a_site_says_is_escaped() {
        let json: serde_json::Value = serde_json::from_str(&of("json&full")).unwrap();
        assert_eq!(json["processes"][0]["request uri"], "/a?b=<\"'&\u{1b}");
        for query in ["html&full", "xml&full"] {
            let page = of(query);
            assert!(page.contains("/a?b=&lt;&quot;&#039;&amp;\u{fffd}"), "{page}");
        }
        assert!(!of("full").contains('\u{1b}'));
    }
}
