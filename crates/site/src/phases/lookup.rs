//! Sub-requests: what another URL would come to, without serving it (`ap_sub_req_lookup_uri`).

use std::sync::Arc;

use howdah_htaccess::transaction::RewriteNotes;
use howdah_htaccess::world::Lookup;
use howdah_htaccess::{State, Transaction};
use howdah_http::{Fields, Method, Status};

use super::rounds::MOST_REDIRECTS;
use super::{Asked, Stop, Walk, shown, step, target};
use crate::documents::DocumentHost;
use crate::ruled::Passed;

impl<'r, H: DocumentHost> Walk<'_, 'r, H> {
    /// What a rule or a condition learns of `uri`.
    pub(super) fn lookup(
        &mut self,
        from: &mut Transaction<'_>,
        uri: &[u8],
        passed: Option<&Passed>,
    ) -> Lookup {
        let (asked, status) = self.sub_request(&mut from.state, uri, passed);
        let state = asked.tx.state;
        self.scratch.reuse(asked.path);
        Lookup {
            status,
            filename: match &asked.internal {
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
    /// relative to the folder of `from`). Also says how that ended: 200 where it would be served.
    pub(super) fn sub_request(
        &mut self,
        from: &mut State,
        uri: &[u8],
        passed: Option<&Passed>,
    ) -> (Asked<'r>, Status) {
        let whole = target::relative_to(&from.uri, uri);
        let (path, args) = target::split(&whole);
        let mut state = below(from);
        state.args = args.map(<[u8]>::to_vec);
        let mut asked = Asked::new(self.client, state, self.site.bare_settings());
        asked.tx.trace(|| step("sub-request", shown(&whole), "begins"));
        let ended = self.run_below(&mut asked, path, passed);
        let status = match ended {
            Ok(()) => Status::OK,
            Err(Stop::Status(status)) => status,
            // Whoever asked is going to be given up as well.
            Err(Stop::Later | Stop::Discard { .. }) => Status::INTERNAL_SERVER_ERROR,
        };
        asked.tx.trace(|| step("sub-request", shown(&whole), status.to_string()));
        give_back(&mut asked.tx.state, from);
        (asked, status)
    }

    fn run_below(
        &mut self,
        asked: &mut Asked<'r>,
        path: &[u8],
        passed: Option<&Passed>,
    ) -> Result<(), Stop> {
        // Apache counts sub-requests and internal redirects alike: after the last redirect nothing
        // is looked up any more.
        let is_last = self.redirects >= MOST_REDIRECTS;
        if is_last || self.depth >= MOST_NESTED || self.lookups >= MOST_LOOKUPS {
            let text = format!(
                "more than {MOST_REDIRECTS} internal redirects, or {MOST_NESTED} nested or {MOST_LOOKUPS} sub-requests: \
                 probably rules that look themselves up"
            );
            asked.tx.complain(None, text);
            self.translate(asked, path)?; // What is asked for is known all the same.
            return Err(Stop::FAILED);
        }
        self.lookups += 1;
        self.depth += 1;
        let ended = self.process(asked, path, passed);
        self.depth -= 1;
        ended
    }
}

/// What a sub-request begins with (`ap_set_sub_req_protocol`). The trace, the complaints and the
/// cookies that rules have set go along.
fn below(from: &mut State) -> State {
    State {
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
        rewriting: RewriteNotes {
            cookies: std::mem::take(&mut from.rewriting.cookies),
            ..RewriteNotes::default()
        },
        ..State::default()
    }
}

/// What went along comes back; cookies are set for the client's request, whatever the sub-request
/// is used for.
fn give_back(from: &mut State, to: &mut State) {
    to.trace = from.trace.take();
    to.complaints = std::mem::take(&mut from.complaints);
    to.rewriting.cookies = std::mem::take(&mut from.rewriting.cookies);
    for cookie in from.error_fields.values(b"set-cookie") {
        to.error_fields.push(b"Set-Cookie", cookie);
    }
    from.error_fields.remove(b"set-cookie");
}

/// Both, those of `above` first.
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

/// Each variable once, where it was first, with the value that came last
/// (`APR_OVERLAP_TABLES_SET`). So scripts get those of a request that has become another.
pub(super) fn each_once(env: &Fields) -> Fields {
    let mut once = Fields::new();
    for (name, _) in env.iter() {
        if let Some(last) = env.values(name).last().filter(|_| !once.contains(name)) {
            once.push(name, last);
        }
    }
    once
}

/// How deep sub-requests may be in each other: Apache's own limit (`LimitInternalRecursion`).
const MOST_NESTED: u32 = 10;

/// Sub-requests that one request of a client may lead to. Nested ones multiply, so their depth
/// alone bounds nothing.
const MOST_LOOKUPS: u32 = 200;
