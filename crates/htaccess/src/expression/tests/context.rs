//! The request that the tested expressions read.

use crate::client::Unrepeatable;
use crate::evaluation_context::{EvaluationContext, SubRequestFacts};
use crate::host::{DirectiveHost, Owners, Probe, ProbeKind};
use crate::transaction::Transaction;

/// `/files` with some things in it, and `OS` in the environment.
pub(super) struct FilesContext;

impl EvaluationContext for FilesContext {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
    fn lookup(&mut self, _from: &mut Transaction<'_>, uri: &[u8]) -> SubRequestFacts {
        let status = match uri {
            b"/there" => 200,
            b"/moved" => 302,
            b"/refused" => 403,
            _ => 404,
        };
        SubRequestFacts {
            status: howdah_http::Status::new(status).unwrap(),
            uri: uri.to_vec(),
            ..SubRequestFacts::default()
        }
    }
}

impl DirectiveHost for FilesContext {
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        let (kind, size, mode) = match path {
            b"/files" | b"/files/folder" => (ProbeKind::Directory, 4096, 0o755),
            b"/files/file" | b"/files/link" => (ProbeKind::File, 12, 0o644),
            b"/files/empty" => (ProbeKind::File, 0, 0o644),
            b"/files/script" => (ProbeKind::File, 5, 0o755),
            _ => return None,
        };
        Some(Probe {
            kind,
            size,
            modified: 1_700_000_000_000_000,
            mode,
        })
    }
    fn probe_link(&mut self, path: &[u8]) -> Option<Probe> {
        let link = Probe {
            kind: ProbeKind::Link,
            size: 4,
            modified: 0,
            mode: 0o777,
        };
        match path {
            b"/files/link" | b"/files/dangling" => Some(link),
            path => DirectiveHost::probe(self, path),
        }
    }
    fn owners(&mut self, _: Unrepeatable, path: &[u8]) -> Option<Owners> {
        let owners = Owners {
            user: Some((*b"somebody").into()),
            group: None,
        };
        (path == b"/srv/folder/page.php").then_some(owners)
    }
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name == b"OS").then(|| b"from outside".to_vec())
    }
    fn zone(&mut self, _: Unrepeatable, _seconds: u64) -> i32 {
        3600
    }
}

pub(super) const FIELDS: &str = "Host: example.org:8080
    User-Agent: Some Bot/1.0
    Cookie: a=b
    X-Number: 42
    X-Two: a
    X-Two: b
    X-Escaped: a%2Fb%20c";
