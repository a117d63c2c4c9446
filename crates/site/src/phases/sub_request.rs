//! Sub-requests: resolving another URL without serving it (`ap_sub_req_lookup_uri`).

use std::sync::Arc;

use howdah_htaccess::evaluation_context::SubRequestFacts;
use howdah_htaccess::module_notes::{CarryOver, ModuleNotes};
use howdah_htaccess::work::ROUND;
use howdah_htaccess::{RequestState, Transaction};
use howdah_http::{Fields, Method, Status};

use super::rounds::MOST_REDIRECTS;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step, target};
use crate::documents::SiteHost;
use crate::line_index::LineIndex;
use crate::ruled_request::PassedAccess;

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Returns what a rule or a condition learns of `uri`.
    pub(super) fn lookup(
        &mut self,
        from: &mut Transaction<'_>,
        uri: &[u8],
        passed: Option<&PassedAccess>,
    ) -> SubRequestFacts {
        let (request, status) = self.sub_request(&mut from.state, uri, passed);
        let state = request.tx.state;
        self.scratch.reuse(request.path);
        SubRequestFacts {
            status,
            filename: match &request.internal {
                Some((uri, _)) => [b"redirect:", &uri[..]].concat(),
                None => state.filename,
            },
            uri: state.uri,
            env: state.env,
            user: state.user,
            auth_type: state.auth_type,
            path_info: state.path_info,
            args: state.args,
        }
    }

    /// Runs the phases, without the handler, for `uri` (a path and a query, as a URL has them;
    /// relative to the folder of `from`). Also returns the status: 200 where the file would be
    /// served.
    pub(super) fn sub_request(
        &mut self,
        from: &mut RequestState,
        uri: &[u8],
        passed: Option<&PassedAccess>,
    ) -> (PhaseRequest<'r>, Status) {
        let whole = target::relative_to(&from.uri, uri);
        let (path, args) = target::split(&whole);
        let mut state = below(from);
        state.args = args.map(<[u8]>::to_vec);
        let mut request = PhaseRequest::new(self.client, state, self.site.bare_settings());
        request.tx.trace(|| step("sub-request", shown(&whole), "begins"));
        let ended = self.run_below(&mut request, path, passed);
        let status = match ended {
            // The evaluation has no valid result.
            _ if self.client.meter().is_exhausted() => Status::INTERNAL_SERVER_ERROR,
            Ok(()) => Status::OK,
            Err(PhaseEnd::Status(status)) => status,
            // The request itself is given up as well.
            Err(PhaseEnd::Later | PhaseEnd::Discard { .. }) => Status::INTERNAL_SERVER_ERROR,
        };
        request.tx.trace(|| step("sub-request", shown(&whole), status.to_string()));
        give_back(&mut request.tx.state, from);
        (request, status)
    }

    fn run_below(
        &mut self,
        request: &mut PhaseRequest<'r>,
        path: &[u8],
        passed: Option<&PassedAccess>,
    ) -> Result<(), PhaseEnd> {
        // Apache counts sub-requests and internal redirects alike: after the last redirect no
        // sub-request is made.
        let is_last = self.redirects >= MOST_REDIRECTS;
        if is_last || self.depth >= MOST_NESTED || self.lookups >= MOST_LOOKUPS {
            let text = format!(
                "more than {MOST_REDIRECTS} internal redirects, or {MOST_NESTED} nested or \
                 {MOST_LOOKUPS} sub-requests: probably rules that look themselves up"
            );
            request.tx.complain(None, text);
            self.translate(request, path)?; // The file is known nevertheless.
            return Err(PhaseEnd::FAILED);
        }
        self.client.meter().note(ROUND);
        self.lookups += 1;
        self.depth += 1;
        let ended = self.process(request, path, passed);
        self.depth -= 1;
        ended
    }
}

/// The state of a sub-request at its start (`ap_set_sub_req_protocol`). It takes over the trace,
/// the complaints and what modules carry over.
fn below(from: &mut RequestState) -> RequestState {
    let mut module_notes = ModuleNotes::default();
    from.module_notes.carry_over(CarryOver::ToSubRequest, &mut module_notes);
    RequestState {
        method: Method::Get,
        document_root: Arc::clone(&from.document_root),
        env: from.env.clone(),
        request_fields: from.request_fields.clone(),
        user: from.user.clone(),
        auth_type: from.auth_type,
        is_subrequest: true,
        main_uri: Some(from.uri.clone()),
        trace: from.trace.take(),
        complaints: std::mem::take(&mut from.complaints),
        module_notes,
        ..RequestState::default()
    }
}

/// Gives back what the sub-request took over. A `Set-Cookie` is for the client's request, whatever
/// the sub-request is used for.
fn give_back(from: &mut RequestState, to: &mut RequestState) {
    to.trace = from.trace.take();
    to.complaints = std::mem::take(&mut from.complaints);
    from.module_notes.carry_over(CarryOver::FromSubRequest, &mut to.module_notes);
    for cookie in from.error_fields.values(b"set-cookie") {
        to.error_fields.push(b"Set-Cookie", cookie);
    }
    from.error_fields.remove(b"set-cookie");
}

/// The fields of both, those of `above` first.
pub(super) fn overlay(above: &Fields, below: &Fields) -> Fields {
    if below.is_empty() {
        return above.clone();
    }
    let mut joined = above.clone();
    for (name, value) in below.iter() {
        joined.push(name, value);
    }
    joined
}

/// Each variable once, at its first place, with its last value (`APR_OVERLAP_TABLES_SET`), as
/// scripts get those of a request that another has replaced.
pub(super) fn each_once(env: &Fields) -> Fields {
    let (index, mut once) = (LineIndex::of(env), Fields::new());
    for (place, (name, _)) in env.iter().enumerate() {
        if let Some(same) = index.find(name).filter(|same| same.first == place) {
            once.push(name, same.last_line.1);
        }
    }
    once
}

/// Sub-requests within each other: Apache's own limit (`LimitInternalRecursion`). A deeper one
/// fails, and the log says so.
const MOST_NESTED: u32 = 10;

/// Sub-requests of one request of a client. Nested ones multiply, so a limit on depth alone is not
/// enough. Further ones fail, and the log says so.
const MOST_LOOKUPS: u32 = 200;
