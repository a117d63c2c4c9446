//! Helpers for tests of single modules: the settings of a few lines, a request, and an empty
//! context.

use std::net::SocketAddr;

use howdah_http::Request;

use crate::client::Unrepeatable;
use crate::evaluation_context::EvaluationContext;
use crate::host::{DirectiveHost, PasswordVerdict, Probe, ProbeKind};
use crate::mistake::Complaint;
use crate::transaction::Transaction;
use crate::{ClientRequest, DirectiveSettings, RequestState};
use crate::{CompileContext, compile};

/// Settings of a file that holds these lines, which are directives without sections and without
/// continuation lines.
///
/// # Panics
/// Where one has something wrong with it.
pub(crate) fn settings(lines: &str) -> DirectiveSettings {
    try_settings(lines).unwrap_or_else(|complaint| panic!("{lines}: {complaint:?}"))
}

/// The same, with the first complaint.
///
/// # Errors
/// The first mistake.
pub(crate) fn try_settings(lines: &str) -> Result<DirectiveSettings, Complaint> {
    let compiled = compile(lines.as_bytes(), &CompileContext::new("test", b"/srv/"));
    match compiled.mistake {
        None => Ok(compiled.settings),
        Some(mistake) => Err(Complaint {
            hint: mistake.hint,
            ..Complaint::new(mistake.message)
        }),
    }
}

/// Returns a GET for that target, with these fields, a line each.
pub(crate) fn request(target: &str, fields: &str) -> Request {
    let mut request = Request::new();
    request.target = target.into();
    for line in fields.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').expect("a field has a colon");
        request.fields.push(name.as_bytes(), value.trim().as_bytes());
    }
    request
}

/// Returns the request on its way through the phases, from 192.0.2.1, on 2023-11-14 at 22:13:20.
pub(crate) fn transaction(request: &Request) -> Transaction<'_> {
    let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
    Transaction {
        client: ClientRequest::new(
            request,
            address("192.0.2.1:1234"),
            address("192.0.2.2:80"),
            1_700_000_000_000_000,
        ),
        state: RequestState {
            uri: request.path().to_vec(),
            document_root: (*b"/srv").into(),
            filename: [b"/srv", request.path()].concat(),
            ..RequestState::default()
        },
    }
}

/// A context in which nothing exists but the names that `entries` gives.
#[derive(Debug, Default)]
pub(crate) struct Nowhere {
    /// The files of every folder.
    pub names: Vec<&'static str>,
}

impl EvaluationContext for Nowhere {
    fn host(&mut self) -> &mut dyn DirectiveHost {
        self
    }
}

impl DirectiveHost for Nowhere {
    /// The n-th file has n bytes.
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let index = self.names.iter().position(|known| known.as_bytes() == name)?;
        Some(Probe {
            kind: ProbeKind::File,
            size: index as u64,
            modified: 0,
            mode: 0o644,
        })
    }
    fn probe_link(&mut self, _path: &[u8]) -> Option<Probe> {
        None
    }
    fn entries(&mut self, _folder: &[u8]) -> Vec<Box<[u8]>> {
        self.names.iter().map(|name| name.as_bytes().into()).collect()
    }
    fn verify(&mut self, _: Unrepeatable, _hash: &[u8], _password: &[u8]) -> PasswordVerdict {
        PasswordVerdict::No
    }
    fn elapsed(&mut self, _: Unrepeatable) -> u64 {
        42
    }
}
