//! Rules on requests. The expected answers are what Apache 2.4.71 does in a folder's file.

use crate::client::Unrepeatable;
use crate::evaluation_context::{EvaluationContext, SubRequestFacts};
use crate::host::{DirectiveHost, Probe, ProbeKind};
use crate::modules::rewrite::{self, RewriteOutcome};
use crate::testing::{request, settings, transaction};
use crate::trace::Trace;
use crate::transaction::{FileKind, Transaction};
use crate::{DirectiveSettings, RequestState};

mod conditions;
mod flags;
mod inherited;
mod lists;
mod order;
mod results;
mod traces;

/// A folder `/srv` with a few files. Everything else that is asked for is not there.
#[derive(Default)]
pub(super) struct Tree {
    /// The questions, in order.
    asked: Vec<String>,
}

const FILES: [&str; 4] = ["/srv/a.html", "/srv/index.php", "/srv/sub/b.html", "/srv/x y.html"];
const FOLDERS: [&str; 2] = ["/srv", "/srv/sub"];

fn kind(path: &[u8]) -> Option<ProbeKind> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let among = |names: &[&str]| names.iter().any(|name| name.as_bytes() == path);
    match path {
        b"/srv/link" => Some(ProbeKind::Link),
        _ if among(&FILES) => Some(ProbeKind::File),
        _ if among(&FOLDERS) => Some(ProbeKind::Directory),
        _ => None,
    }
}

impl EvaluationContext for Tree {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
    fn lookup(&mut self, _from: &mut Transaction<'_>, uri: &[u8]) -> SubRequestFacts {
        self.asked.push(format!("lookup {}", String::from_utf8_lossy(uri)));
        let status = match uri {
            b"/bad" => 400,
            b"/moved" => 301,
            _ if uri.starts_with(b"/private") => 403,
            _ => 200,
        };
        SubRequestFacts {
            status: howdah_http::Status::new(status).unwrap(),
            filename: [b"/srv", uri].concat(),
            uri: uri.to_vec(),
            user: Some(b"somebody".to_vec()),
            ..SubRequestFacts::default()
        }
    }
}

impl DirectiveHost for Tree {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.asked.push(String::from_utf8_lossy(path).into_owned());
        kind(path).map(|kind| Probe {
            kind,
            size: if path.ends_with(b"b.html") { 0 } else { 7 },
            modified: 0,
            mode: if path.ends_with(b".php") { 0o755 } else { 0o644 },
        })
    }
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name == b"OF_THE_SERVER").then(|| b"its own".to_vec())
    }
    fn zone(&mut self, _: Unrepeatable, _seconds: u64) -> i32 {
        3600
    }
}

/// The request after the rules.
pub(super) struct Answer {
    /// `internal /path?query`, `302 http://…`, `403`, `declined`, `continue`, `proxy http://…`.
    pub outcome: String,
    pub state: RequestState,
    pub asked: Vec<String>,
}

/// Applies the rules to `GET target` with these fields, a line each.
pub(super) fn ask(rules: &str, target: &str, fields: &str) -> Answer {
    evaluate(&settings(rules), target, fields, |_| {})
}

/// The same with settings that are there, and a state that is changed before.
pub(super) fn evaluate(
    settings: &DirectiveSettings,
    target: &str,
    fields: &str,
    change: impl FnOnce(&mut RequestState),
) -> Answer {
    let mut request = request(target, &format!("Host: own.example\n{fields}"));
    request.authority = b"own.example".to_vec();
    let mut transaction = transaction(&request);
    let state = &mut transaction.state;
    state.args = request.query().map(<[u8]>::to_vec);
    state.uri = decoded(request.path());
    walk(state);
    change(state);
    let mut tree = Tree::default();
    let config = settings.rewrite.as_deref().expect("the rules");
    let outcome = rewrite::fixup(&mut transaction, config, &mut tree);
    Answer {
        outcome: text_of(&outcome),
        state: transaction.state,
        asked: tree.asked,
    }
}

/// The outcome of `GET target`, with `RewriteEngine On`.
pub(super) fn outcome(rules: &str, target: &str) -> String {
    ask(&format!("RewriteEngine On\n{rules}"), target, "").outcome
}

/// Checks a table of rules, target and outcome.
pub(super) fn check(table: &[(&str, &str, &str)]) {
    for (rules, target, expected) in table {
        assert_eq!(outcome(rules, target), *expected, "{rules}\nGET {target}");
    }
}

/// The name of the file that a URL leads to, as the walk down the folders leaves it.
fn walk(state: &mut RequestState) {
    let mut end = 0;
    let path = [b"/srv", &state.uri[..]].concat();
    state.found = FileKind::Directory;
    while end < path.len() && state.found == FileKind::Directory {
        let next = path[end + 1..].iter().position(|&byte| byte == b'/');
        end = next.map_or(path.len(), |next| end + 1 + next);
        state.found = match kind(&path[..end]) {
            Some(ProbeKind::Directory) => FileKind::Directory,
            Some(_) => FileKind::File,
            None => FileKind::Missing,
        };
        if path[end..] == *b"/" && state.found == FileKind::Directory {
            end += 1;
        }
    }
    state.filename = path[..end].to_vec();
    state.path_info = path[end..].to_vec();
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(path)
        .replace("%20", " ")
        .replace("%3f", "?")
        .replace("%0a", "\n")
        .replace("%7f", "\x7f");
    text.replace("%25", "%").into_bytes()
}

fn text_of(outcome: &RewriteOutcome) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match outcome {
        RewriteOutcome::Declined => "declined".into(),
        RewriteOutcome::Continue => "continue".into(),
        RewriteOutcome::Internal { uri, args: None, .. } => format!("internal {}", text(uri)),
        RewriteOutcome::Internal { uri, args: Some(args), .. } => {
            format!("internal {}?{}", text(uri), text(args))
        }
        RewriteOutcome::Redirect { status, location } => format!("{status} {}", text(location)),
        RewriteOutcome::Status(status) => status.to_string(),
        RewriteOutcome::Proxy { url, .. } => format!("proxy {}", text(url)),
    }
}

/// The events that `explain` would print.
pub(super) fn events(rules: &str, target: &str) -> Vec<String> {
    let answer = evaluate(&settings(rules), target, "", |state| {
        state.trace = Some(Box::new(Trace::default()));
    });
    let trace = answer.state.trace.unwrap();
    let line = |event: &crate::trace::TraceEvent| {
        let facts: Vec<String> =
            event.facts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} [{}] {}", event.text, facts.join(" "), event.outcome)
    };
    trace.events.iter().map(line).collect()
}
