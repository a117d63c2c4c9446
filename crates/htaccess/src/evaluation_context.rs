//! Questions of directives about the evaluation that they are part of.

use howdah_http::{Fields, Status};

use crate::host::{DirectiveHost, Probe, ProbeKind};
use crate::transaction::Transaction;
use crate::work::Exhausted;

/// The evaluation of one request, as its directives see it: the way to the [`DirectiveHost`], what
/// is known of the request's own files, and sub-requests.
pub trait EvaluationContext {
    /// Returns the host of the evaluation.
    fn host(&mut self) -> &mut dyn DirectiveHost;

    /// Returns what is at an absolute path, links followed; `None` if nothing is there. Cheaper
    /// than [`DirectiveHost::probe`] below the document root.
    fn probe(&mut self, path: &[u8]) -> Option<Probe> {
        self.host().probe(path)
    }

    /// Returns the type of the file at an absolute path, links followed; `None` if nothing is
    /// there. Cheaper than [`probe`](EvaluationContext::probe) for the file that the request is
    /// for, which nearly every rewrite condition asks about.
    fn kind(&mut self, path: &[u8]) -> Option<ProbeKind> {
        self.probe(path).map(|probe| probe.kind)
    }

    /// Resolves a GET for this URL path (and query), asked from within `from` (Apache's
    /// `ap_sub_req_lookup_uri`). Complaints and trace go to `from`. Where sub-requests are nested
    /// too deeply, or there are too many: 500.
    fn lookup(&mut self, _from: &mut Transaction<'_>, _uri: &[u8]) -> SubRequestFacts {
        SubRequestFacts {
            status: Status::NOT_FOUND,
            ..SubRequestFacts::default()
        }
    }

    /// Counts work that is not counted against the client's own meter.
    ///
    /// # Errors
    /// The request's budget is used up.
    fn spend(&mut self, _steps: u64) -> Result<(), Exhausted> {
        Ok(())
    }

    /// Notes the comparison that the evaluation is given up for
    /// ([`PasswordVerdict::Later`](crate::host::PasswordVerdict::Later)).
    fn await_password(&mut self, _hash: &[u8], _password: &[u8]) {}
}

/// The result of a sub-request.
#[derive(Clone, Debug, Default)]
pub struct SubRequestFacts {
    /// 200 where the file would be served, and also where nothing is there: only a handler would
    /// find that out. Otherwise the error or redirect.
    pub status: Status,
    /// The sub-request's `r->filename`; where rules have rewritten the URL, `redirect:` and the
    /// URL.
    pub filename: Vec<u8>,
    /// The sub-request's `r->uri`.
    pub uri: Vec<u8>,
    /// The sub-request's variables.
    pub env: Fields,
    /// The sub-request's user.
    pub user: Option<Vec<u8>>,
    /// The way in which the user has authenticated.
    pub auth_type: Option<&'static str>,
    /// The sub-request's `r->path_info`.
    pub path_info: Vec<u8>,
    /// The sub-request's `r->args`.
    pub args: Option<Vec<u8>>,
}
