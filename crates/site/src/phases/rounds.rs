//! Rounds through the phases: internal redirects, and ErrorDocument (`ap_internal_redirect`,
//! `ap_die`).

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::module_notes::{CarryOver, ModuleNotes};
use howdah_htaccess::modules::core::{ErrorDestination, ErrorDocument, destination};
use howdah_htaccess::trace::Trace;
use howdah_htaccess::work::ROUND;
use howdah_htaccess::{ClientRequest, DirectivePlace, NoVariableRoom, RequestState};
use howdah_http::{Fields, Method, Scheme, Status};

use super::content;
use super::evaluation_context::PhaseContext;
use super::handler::HandlerResult;
use super::{KnownPath, PhaseEnd, PhaseRequest, RequestEvaluation, shown, step, target};
use crate::documents::SiteHost;
use crate::normal::without_normal_form;
use crate::resolution::{Resolution, Resolved};
use crate::resolve::ALLOW_FILE;
use crate::ruled_request::{PassedAccess, RuledRequest};

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Resolves the client's request.
    pub(crate) fn run(mut self, start: Option<KnownPath>, trace: Option<Box<Trace>>) -> Resolved {
        let state = RequestState {
            method: self.client.method().clone(),
            document_root: self.site.document_root(self.client.host()),
            args: self.client.query().map(<[u8]>::to_vec),
            trace,
            uri: self.scratch.text(),
            filename: self.scratch.text(),
            ..RequestState::default()
        };
        let mut request = PhaseRequest::new(self.client, state, self.site.bare_settings());
        request.is_first = true;
        if let Some(start) = start {
            request.start(start);
        }
        let ended = self.round(&mut request, self.client.path(), None);
        self.go_on(&mut request, Vec::new(), ended)
    }

    /// Resolves the error `status` of a request that was resolved before.
    pub(crate) fn fail(mut self, ruled: RuledRequest, status: Status) -> Resolved {
        let mut request = PhaseRequest::new(self.client, ruled.state, &ruled.settings);
        if let Ok(path) = self.site.root(self.client.host(), self.scratch.take()) {
            request.path = path;
        }
        request.is_silent = false;
        self.go_on(&mut request, ruled.before, Err(PhaseEnd::Status(status)))
    }

    /// Resolves the error `status` of a request whose path has no meaning yet. Only the directives
    /// of the configuration itself are in force.
    pub(crate) fn refuse(mut self, status: Status) -> Resolved {
        let state = RequestState {
            method: self.client.method().clone(),
            document_root: self.site.document_root(self.client.host()),
            args: self.client.query().map(<[u8]>::to_vec),
            ..RequestState::default()
        };
        let mut request = PhaseRequest::new(self.client, state, self.site.bare_settings());
        self.enter_site(&mut request);
        let path = self.client.path();
        if path.starts_with(b"/") {
            request.tx.state.uri = without_normal_form(path, self.site.encoded_slashes());
        }
        self.go_on(&mut request, Vec::new(), Err(PhaseEnd::Status(status)))
    }

    /// Goes through the phases and the handler once.
    fn round(
        &mut self,
        request: &mut PhaseRequest<'r>,
        path: &[u8],
        before: Option<&PassedAccess>,
    ) -> Result<HandlerResult, PhaseEnd> {
        let ended = self.process(request, path, before);
        if self.unverified.is_some() {
            return Err(PhaseEnd::Later);
        }
        ended?;
        self.handle(request)
    }

    /// Turns the end of a round into an answer, with as many more rounds as that takes. `before`:
    /// the rules of the requests that `request` was redirected from, the client's own first.
    fn go_on(
        &mut self,
        request: &mut PhaseRequest<'r>,
        mut before: Vec<PassedAccess>,
        mut ended: Result<HandlerResult, PhaseEnd>,
    ) -> Resolved {
        loop {
            if let Some(failure) = self.client.meter().failure() {
                return self.give_up(request, before, failure);
            }
            let mut keeps_vary = false;
            let next = match ended {
                Ok(HandlerResult::Answer(resolution)) => {
                    return self.answer(request, before, resolution);
                }
                Ok(HandlerResult::Internal(target)) => {
                    keeps_vary = true;
                    NextRound::Request(target)
                }
                Err(PhaseEnd::Later) => return self.put_off(),
                Err(PhaseEnd::Discard { most }) => NextRound::Answer(Resolution::Discard { most }),
                Err(PhaseEnd::Status(status)) => self.die(request, &mut before, status),
            };
            let target = match next {
                NextRound::Request(target) => target,
                NextRound::Answer(resolution) => {
                    return match self.client.meter().failure() {
                        Some(failure) => self.give_up(request, before, failure),
                        None => self.answer(request, before, resolution),
                    };
                }
            };
            if before.len() >= MOST_REDIRECTS {
                request.tx.complain(None, EXCEEDED);
                ended = Err(PhaseEnd::FAILED);
                continue;
            }
            // Every variable is there once more, with a longer name.
            let env = &request.tx.state.env;
            if request.tx.state.room_for(env.size() + RENAMED.len() * env.len()).is_err() {
                request.tx.complain(None, NoVariableRoom::MESSAGE);
                ended = Err(PhaseEnd::FAILED);
                continue;
            }
            request.tx.trace(|| {
                step("internal redirect", shown(&target), format!("round {}", before.len() + 2))
            });
            self.client.meter().note(ROUND);
            before.push(self.passed(request));
            self.redirects = before.len();
            let (path, args) = target::split(&target);
            let mut old = std::mem::take(&mut request.tx.state);
            let mut state = redirected(&mut old, args);
            if keeps_vary && let Some(vary) = old.fields.value(b"vary") {
                state.fields.push(b"Vary", vary);
            }
            state.previous = Some(Box::new(old));
            self.scratch.reuse(request.take_path());
            *request = PhaseRequest::new(self.client, state, self.site.bare_settings());
            ended = self.round(request, path, before.last());
        }
    }

    /// Answers a status.
    fn die(
        &mut self,
        request: &mut PhaseRequest<'r>,
        before: &mut Vec<PassedAccess>,
        status: Status,
    ) -> NextRound {
        let is_second = request.tx.state.status != Status::OK;
        request.tx.state.status = status;
        if is_second {
            request
                .tx
                .trace(|| step("error", "an ErrorDocument fails itself", status.to_string()));
            back_to_first_error(request, before);
            return NextRound::Answer(bare(&request.tx.state));
        }
        match self.error_document(request, status) {
            // Before the answer the content is discarded, which may fail.
            NextRound::Answer(resolution) => NextRound::Answer(match content::discard(request) {
                Ok(()) | Err(PhaseEnd::Later) => resolution,
                Err(PhaseEnd::Discard { most }) => Resolution::Discard { most },
                Err(PhaseEnd::Status(status)) => {
                    request.tx.state.status = status;
                    Resolution::Status(status)
                }
            }),
            next => next,
        }
    }

    fn error_document(&mut self, request: &mut PhaseRequest<'r>, status: Status) -> NextRound {
        let settings = Arc::clone(&request.settings);
        let Some(document) = settings.core.as_ref().and_then(|core| core.error_document(status))
        else {
            return NextRound::Answer(bare(&request.tx.state));
        };
        let text = match document {
            ErrorDocument::Default => None,
            ErrorDocument::Message(text) | ErrorDocument::Url(text) => {
                let mut context = PhaseContext::new(self, &request.path, request.kind);
                match text.render(&mut request.tx, &mut context) {
                    Ok(text) => Some(text.into_owned()),
                    Err(error) => {
                        request.tx.complain(None, format!("ErrorDocument {status}: {error}"));
                        None
                    }
                }
            }
        };
        let Some(text) = text else {
            return NextRound::Answer(bare(&request.tx.state));
        };
        request
            .tx
            .trace(|| step("error", format!("ErrorDocument {status}"), shown(&text)));
        self.send_document(request, status, document, text)
    }

    fn send_document(
        &mut self,
        request: &mut PhaseRequest<'r>,
        status: Status,
        document: &ErrorDocument,
        text: Vec<u8>,
    ) -> NextRound {
        let state = &mut request.tx.state;
        if status == Status::METHOD_NOT_ALLOWED {
            // RFC 9110 §15.5.6: whatever page answers.
            state.error_fields.set(b"Allow", ALLOW_FILE.as_bytes());
        }
        if !matches!(document, ErrorDocument::Url(_)) {
            if let Some(location) =
                state.fields.value(b"location").filter(|_| status.is_redirection())
            {
                let location = location.to_vec();
                state.error_fields.set(b"Location", &location);
            }
            return NextRound::Answer(Resolution::Page { status, body: text });
        }
        match destination(&text) {
            ErrorDestination::Local => {
                let method = state.method.as_str().to_owned();
                state.env.set(b"REQUEST_METHOD", method.as_bytes());
                state.method = Method::Get;
                NextRound::Request(text)
            }
            ErrorDestination::Remote => {
                state.status = Status::FOUND;
                for name in [&b"allow"[..], b"content-range"] {
                    state.error_fields.remove(name);
                }
                state.fields.set(b"Location", &text);
                NextRound::Answer(bare(state))
            }
            ErrorDestination::Invalid => {
                request
                    .tx
                    .complain(None, format!("ErrorDocument {status}: {} is no URL", shown(&text)));
                NextRound::Answer(bare(&request.tx.state))
            }
        }
    }

    fn answer(
        &mut self,
        request: &mut PhaseRequest<'r>,
        before: Vec<PassedAccess>,
        resolution: Resolution,
    ) -> Resolved {
        request.tx.trace(|| step("resolution", format!("{resolution:?}"), ""));
        self.scratch.reuse(request.take_path());
        let state = &mut request.tx.state;
        if request.is_silent && is_plain(state, &self.client, &resolution) {
            self.scratch.reuse_text(std::mem::take(&mut state.uri));
            self.scratch.reuse_text(std::mem::take(&mut state.filename));
            return Resolved { resolution, ruled: None };
        }
        Resolved {
            resolution,
            ruled: Some(Rc::new(RuledRequest {
                state: std::mem::take(state),
                settings: Arc::clone(&request.settings),
                is_content_gone: self.is_content_gone,
                before,
            })),
        }
    }

    /// Ends an evaluation that takes too much work. `failure` is the line for the log, with the
    /// place of the directive that failed first for this reason.
    fn give_up(
        &mut self,
        request: &mut PhaseRequest<'r>,
        before: Vec<PassedAccess>,
        failure: (Option<Arc<DirectivePlace>>, String),
    ) -> Resolved {
        request.tx.state.complaints.push(failure);
        self.answer(request, before, Resolution::Exhausted)
    }

    fn put_off(&mut self) -> Resolved {
        let (hash, password) = self.unverified.take().unwrap_or_default();
        Resolved {
            resolution: Resolution::Verify { hash, password },
            ruled: None,
        }
    }
}

/// Returns whether the directives have changed nothing that can be seen in the answer.
fn is_plain(state: &RequestState, client: &ClientRequest<'_>, resolution: &Resolution) -> bool {
    let is_same = match resolution {
        Resolution::Php(script) => {
            state.env.iter().all(|variable| is_usual(variable, client))
                && state.request_fields.is_none()
                && state.user.is_none()
                && state.auth_type.is_none()
                && state.args.as_deref() == client.query()
                && script.redirect_url.is_none()
        }
        // The access log tells the user.
        Resolution::File { .. } => state.user.is_none(),
        _ => false,
    };
    is_same
        && state.status == Status::OK
        && state.previous.is_none()
        && state.trace.is_none()
        && state.complaints.is_empty()
        && state.fields.is_empty()
        && state.error_fields.is_empty()
        && state.content_type.is_none()
        && state.encoding.is_none()
        && state.languages.is_empty()
        && state.output_filters.is_empty()
}

/// Returns whether scripts have this variable without directives: HTTPS of a request over https.
fn is_usual((name, value): (&[u8], &[u8]), client: &ClientRequest<'_>) -> bool {
    name == b"HTTPS" && value == b"on" && client.scheme() == Scheme::Https
}

/// The next step after an error.
enum NextRound {
    Answer(Resolution),
    /// A round with this URL.
    Request(Vec<u8>),
}

/// An error without a page of the site, or a redirect.
fn bare(state: &RequestState) -> Resolution {
    let status = state.status;
    let location = state.fields.value(b"location");
    match location.or_else(|| state.error_fields.value(b"location")) {
        Some(location) if status.is_redirection() => {
            Resolution::Redirect { status, location: location.to_vec() }
        }
        _ if status == Status::METHOD_NOT_ALLOWED => {
            Resolution::Allow { status, methods: ALLOW_FILE, path: None }
        }
        _ => Resolution::Status(status),
    }
}

/// Goes back from a failed ErrorDocument to the error that it was for, and to the rules that were
/// in force there.
fn back_to_first_error(request: &mut PhaseRequest<'_>, before: &mut Vec<PassedAccess>) {
    while request
        .tx
        .state
        .previous
        .as_ref()
        .is_some_and(|previous| previous.status != Status::OK)
    {
        let state = &mut request.tx.state;
        let Some(mut previous) = state.previous.take() else {
            return;
        };
        previous.trace = state.trace.take();
        previous.complaints = std::mem::take(&mut state.complaints);
        previous.error_fields = std::mem::take(&mut state.error_fields);
        previous.request_fields = state.request_fields.take();
        *state = *previous;
        if let Some(passed) = before.pop() {
            request.settings = passed.settings;
        }
    }
}

/// The state of a request at the start of an internal redirect (`internal_internal_redirect`).
fn redirected(old: &mut RequestState, args: Option<&[u8]>) -> RequestState {
    let mut fields = Fields::new();
    if old.status.is_redirection()
        && let Some(location) = old.fields.value(b"location")
    {
        fields.push(b"Location", location);
    }
    let mut module_notes = ModuleNotes::default();
    old.module_notes.carry_over(CarryOver::Redirect, &mut module_notes);
    RequestState {
        method: old.method.clone(),
        document_root: Arc::clone(&old.document_root),
        args: args.map(<[u8]>::to_vec),
        env: renamed(&old.env, old.status),
        request_fields: old.request_fields.take(),
        error_fields: std::mem::take(&mut old.error_fields),
        fields,
        status: old.status,
        module_notes,
        complaints: std::mem::take(&mut old.complaints),
        trace: old.trace.take(),
        ..RequestState::default()
    }
}

/// Every variable with `REDIRECT_` before its name, and the status that led on.
fn renamed(env: &Fields, status: Status) -> Fields {
    let mut renamed = Fields::new();
    let mut name = RENAMED.to_vec();
    for (old, value) in env.iter() {
        name.truncate(RENAMED.len());
        name.extend_from_slice(old);
        renamed.push(&name, value);
    }
    renamed.set(b"REDIRECT_STATUS", status.code().to_string().as_bytes());
    renamed
}

/// The beginning of the names that variables have after a redirect.
const RENAMED: &[u8] = b"REDIRECT_";

/// Internal redirects of one request: Apache's own limit (`LimitInternalRecursion`). A request with
/// more gets 500.
pub(super) const MOST_REDIRECTS: usize = 10;

const EXCEEDED: &str =
    "Request exceeded the limit of 10 internal redirects due to probable configuration error.";
