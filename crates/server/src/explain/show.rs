//! Formats of an explanation: text for people, JSON for programs.

use std::fmt::Write;

use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::trace::TraceEvent;
use howdah_http::Scheme;
use howdah_watch::printed::visible;
use serde_json::{Value, json as value};

use super::{ExplainedOutcome, ExplainedWork, Explanation, NamesAndValues};

/// Returns the explanation as text: the events of each round, with file and line.
pub(crate) fn text(explanation: &Explanation) -> String {
    let request = &explanation.request;
    let mut page = Page {
        text: String::new(),
        root: explanation.root.clone(),
        width: 0,
        rounds: 1,
    };
    page.width = explanation
        .events
        .iter()
        .map(|event| page.place(event).len())
        .max()
        .unwrap_or(0);
    let scheme = if request.scheme == Scheme::Https {
        "https"
    } else {
        "http"
    };
    let (method, host, target) =
        (request.method.as_str(), bytes(&request.authority), bytes(&request.target));
    page.line(
        0,
        &format!(
            "{method} {scheme}://{host}{target}, site {} in {}",
            explanation.site, explanation.root
        ),
    );
    if let Some(arrival) = &explanation.arrival
        && !arrival.listeners.is_empty()
    {
        page.line(0, &format!("arrives on {}", arrival.listeners.join(", ")));
    }
    page.line(0, "");
    if explanation.events.is_empty() {
        page.line(1, "no directives apply");
    } else {
        page.line(0, &format!("round 1: {target}"));
    }
    for event in &explanation.events {
        page.event(event);
    }
    page.line(0, "");
    page.outcome(explanation);
    page.work(&explanation.work);
    for complaint in &explanation.complaints {
        page.line(0, &format!("error log: {complaint}"));
    }
    for note in notes(explanation) {
        page.line(0, &format!("note: {note}"));
    }
    page.text
}

/// The note about the arrival, then the others.
fn notes(explanation: &Explanation) -> impl Iterator<Item = &String> {
    let about_arrival = explanation.arrival.as_ref().and_then(|arrival| arrival.note.as_ref());
    about_arrival.into_iter().chain(&explanation.notes)
}

struct Page {
    text: String,
    /// The document root, which is left out of the names of files.
    root: String,
    /// The width of the column with file and line.
    width: usize,
    rounds: usize,
}

impl Page {
    fn event(&mut self, event: &TraceEvent) {
        match event.step {
            // The end of the text has the resolution in full.
            "resolution" => return,
            "internal redirect" => {
                self.rounds += 1;
                let words = format!("round {}: {}", self.rounds, event.text);
                self.line(0, "");
                return self.line(0, &words);
            }
            _ => {}
        }
        let place = self.place(event);
        let label = if event.place.is_some() {
            String::new()
        } else {
            format!("{}: ", event.step)
        };
        let inner = if matches!(event.step, "condition" | "rewrite") {
            "  "
        } else {
            ""
        };
        let mut words = format!("{place:<0$}  {inner}{label}{1}", self.width, event.text);
        if !event.outcome.is_empty() {
            let _ = write!(words, "  → {}", event.outcome);
        }
        self.line(1, &words);
        let facts = event.facts.iter().filter(|(_, fact)| !fact.is_empty());
        let facts: Vec<String> = facts.map(|(name, fact)| format!("{name}: {fact}")).collect();
        if !facts.is_empty() {
            let margin = " ".repeat(self.width + inner.len());
            self.line(1, &format!("{margin}      {}", facts.join("  ·  ")));
        }
    }

    /// Returns the file, relative to the root, and the line.
    fn place(&self, event: &TraceEvent) -> String {
        let Some(place) = &event.place else {
            return String::new();
        };
        let file = place.file.strip_prefix(&self.root).unwrap_or(&place.file);
        format!("{}:{}", file.trim_start_matches('/'), place.line)
    }

    fn outcome(&mut self, explanation: &Explanation) {
        let status = explanation.head.status;
        let what = match &explanation.outcome {
            ExplainedOutcome::File(path) => format!("the file {path}"),
            ExplainedOutcome::Script { path, .. } => {
                format!("the output of {path} (it was not run)")
            }
            ExplainedOutcome::Listing(path) => format!("a list of the folder {path}"),
            ExplainedOutcome::Proxy(url) => format!("proxy: {url} (it was not asked)"),
            ExplainedOutcome::PoolPage(key) => format!("the page of `{key}`"),
            ExplainedOutcome::Page if status.is_redirection() => "a redirect".to_owned(),
            ExplainedOutcome::Page => "a page of the server's own, or of ErrorDocument".to_owned(),
        };
        self.line(0, &format!("{status} {}: {what}", status.reason()));
        for (name, content) in explanation.head.fields.iter() {
            self.line(1, &format!("{}: {}", bytes(name), bytes(content)));
        }
        for filter in &explanation.filters {
            self.line(1, &format!("(the content passes {})", name(filter)));
        }
        if let Some(lane) = &explanation.lane {
            self.line(1, &format!("(it waits for a worker in the lane {lane})"));
        }
        if let ExplainedOutcome::Script { variables, settings, .. } = &explanation.outcome {
            let told = |name: &str| {
                explanation.set.iter().any(|set| set == name)
                    || name.starts_with("REDIRECT_")
                    || TOLD.contains(&name)
            };
            let variables: NamesAndValues =
                variables.iter().filter(|(name, _)| told(name)).cloned().collect();
            self.pairs("$_SERVER, as directives have left it", &variables);
            self.pairs("settings of PHP", settings);
        }
    }

    /// Tells the work of the directives, and how near the limit it is.
    fn work(&mut self, work: &ExplainedWork) {
        let ExplainedWork { request, response, most } = *work;
        if request == 0 && response == 0 {
            return;
        }
        let larger = request.max(response);
        let near = if larger > most / 2 { ", and this is near it" } else { "" };
        self.line(
            0,
            &format!(
                "work of the directives: {request} steps for the request, {response} for the \
                 response; `htaccess_work` allows {most} for each{near}"
            ),
        );
    }

    fn pairs(&mut self, title: &str, pairs: &NamesAndValues) {
        if !pairs.is_empty() {
            self.line(0, &format!("{title}:"));
        }
        for (name, content) in pairs {
            self.line(1, &format!("{name} = {content}"));
        }
    }

    /// Appends a line. Control characters are replaced: files and clients must not control the
    /// terminal.
    fn line(&mut self, depth: usize, words: &str) {
        self.text.extend(std::iter::repeat_n("  ", depth));
        self.text.push_str(&visible(words.trim_end()));
        self.text.push('\n');
    }
}

fn name(filter: &Filter) -> &'static str {
    match filter {
        Filter::Deflate => "DEFLATE",
        Filter::Inflate(_) => "INFLATE",
        Filter::Brotli => "BROTLI_COMPRESS",
        Filter::Zstandard => "zstd",
        Filter::Substitute(_) => "SUBSTITUTE",
    }
}

/// Variables that rewriting and passwords change, besides those that directives name.
const TOLD: [&str; 6] =
    ["SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REMOTE_USER", "AUTH_TYPE"];

fn bytes(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the explanation as a JSON object.
pub(crate) fn json(explanation: &Explanation) -> String {
    let request = &explanation.request;
    let fields = |fields: &howdah_http::Fields| -> Vec<Value> {
        fields
            .iter()
            .map(|(name, content)| value!({ "name": bytes(name), "value": bytes(content) }))
            .collect()
    };
    let object = |pairs: &NamesAndValues| -> Value {
        pairs
            .iter()
            .map(|(name, content)| (name.clone(), Value::from(content.as_str())))
            .collect()
    };
    let outcome = match &explanation.outcome {
        ExplainedOutcome::File(path) => value!({ "kind": "file", "path": path }),
        ExplainedOutcome::Script { path, variables, settings } => value!({
            "kind": "script",
            "path": path,
            "variables": object(variables),
            "settings": object(settings),
        }),
        ExplainedOutcome::Listing(path) => value!({ "kind": "listing", "path": path }),
        ExplainedOutcome::Proxy(url) => value!({ "kind": "proxy", "url": url }),
        ExplainedOutcome::PoolPage(key) => value!({ "kind": "pool page", "key": key }),
        ExplainedOutcome::Page => value!({ "kind": "page" }),
    };
    let page = value!({
        "request": {
            "method": request.method.as_str(),
            "host": bytes(&request.authority),
            "target": bytes(&request.target),
            "fields": fields(&request.fields),
        },
        "listeners": explanation.arrival.as_ref().map(|arrival| &arrival.listeners),
        "site": explanation.site,
        "root": explanation.root,
        "events": explanation.events.iter().map(event).collect::<Vec<_>>(),
        "complaints": explanation.complaints,
        "notes": notes(explanation).collect::<Vec<_>>(),
        "outcome": outcome,
        "lane": explanation.lane,
        "work": {
            "request": explanation.work.request,
            "response": explanation.work.response,
            "limit": explanation.work.most,
        },
        "response": {
            "status": explanation.head.status.code(),
            "fields": fields(&explanation.head.fields),
            "filters": explanation.filters.iter().map(name).collect::<Vec<_>>(),
        },
    });
    page.to_string()
}

fn event(event: &TraceEvent) -> Value {
    let facts = event.facts.iter();
    let facts: Vec<Value> =
        facts.map(|(name, fact)| value!({ "name": name, "value": fact })).collect();
    let place = event
        .place
        .as_ref()
        .map(|place| value!({ "file": &*place.file, "line": place.line, "column": place.column }));
    value!({
        "step": event.step,
        "place": place,
        "text": event.text,
        "facts": facts,
        "outcome": event.outcome,
    })
}
