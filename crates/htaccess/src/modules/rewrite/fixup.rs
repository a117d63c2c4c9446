//! The fixup phase: whether rules apply, and the meaning of their result (`hook_fixup`).

use howdah_http::Status;

use super::run::{PASS_THROUGH, PROXY, RewriteRun, RulesOutcome};
use super::{RewriteOptions, RewriteOutcome, notes, trace, url};
use crate::escape;
use crate::evaluation_context::EvaluationContext;
use crate::fields::can_be_sent;
use crate::modules::rewrite;
use crate::transaction::{FileKind, RequestState, Transaction};

/// Rewrites a request by the rules of a folder.
pub fn fixup(
    transaction: &mut Transaction<'_>,
    config: &rewrite::Config,
    context: &mut dyn EvaluationContext,
) -> RewriteOutcome {
    // The configuration of the server alone has no folder.
    if config.engine != Some(true) || config.directory.is_empty() {
        return RewriteOutcome::Declined;
    }
    if let Some(why) = standing_off(&transaction.state, config) {
        trace::declined(transaction, &config.directory, why);
        return RewriteOutcome::Declined;
    }
    if transaction.state.links_forbidden {
        let message = format!(
            "AH00670: Options FollowSymLinks and SymLinksIfOwnerMatch are both off, so the \
             RewriteRule directive is also forbidden due to its similar ability to circumvent \
             directory restrictions : {}",
            String::from_utf8_lossy(&transaction.state.filename)
        );
        transaction.complain(None, message);
        return RewriteOutcome::Status(Status::FORBIDDEN);
    }
    let mut run = RewriteRun::new(transaction, config, context);
    match run.all() {
        Ok(outcome) => result(&mut run, config, outcome, internal),
        Err(_) => RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR),
    }
}

/// Rewrites a request by the rules of a site's configuration, before those of any folder. An
/// [`RewriteOutcome::Internal`] is a path, decoded, of the same request: the rules do not see it
/// again, nor those of its sub-requests once [`note_path_by_site`](super::note_path_by_site) was
/// called.
pub fn translate(
    transaction: &mut Transaction<'_>,
    config: &rewrite::Config,
    context: &mut dyn EvaluationContext,
) -> RewriteOutcome {
    let state = &transaction.state;
    let is_below = state.is_subrequest && notes::is_by_site(state);
    if config.engine != Some(true) || is_below || notes::has_ended(state) {
        return RewriteOutcome::Declined;
    }
    let mut run = RewriteRun::new(transaction, config, context);
    match run.all() {
        Ok(outcome) => result(&mut run, config, outcome, new_path),
        Err(_) => RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR),
    }
}

/// Returns why the rules do not apply to this request.
fn standing_off(state: &RequestState, config: &rewrite::Config) -> Option<&'static str> {
    let is_folder_itself = config.directory.strip_suffix(b"/") == Some(&*state.filename);
    if is_folder_itself && !config.options.has(RewriteOptions::ALLOW_NO_SLASH) {
        return Some("not applied: the URL of the folder lacks its slash");
    }
    notes::has_ended(state).then_some("not applied: a rule with END has applied before")
}

/// Returns the meaning of the rules' result. `path`: that of a path of this server.
fn result(
    run: &mut RewriteRun<'_, '_>,
    config: &rewrite::Config,
    outcome: RulesOutcome,
    path: fn(&mut RewriteRun<'_, '_>, &rewrite::Config) -> RewriteOutcome,
) -> RewriteOutcome {
    let state = &run.transaction.state;
    let scheme = url::scheme(&state.filename);
    let escape = match outcome {
        RulesOutcome::Unchanged => {
            return force_type(run, RewriteOutcome::Declined);
        }
        RulesOutcome::Changed { escape } => escape,
        RulesOutcome::Status(_) => false,
    };
    let will_escape = scheme.is_some() && outcome != (RulesOutcome::Changed { escape: false });
    if !will_escape && state.args.as_deref().is_some_and(has_controls) {
        run.transaction.complain(
            None,
            "AH10411: Rewritten query string contains control characters or spaces",
        );
        return RewriteOutcome::Status(Status::FORBIDDEN);
    }
    if let RulesOutcome::Status(status) = outcome {
        // An error by a rule is a first error, also where the rule applies to an ErrorDocument.
        run.transaction.state.status = Status::OK;
        let status = Status::new(status).unwrap_or(Status::INTERNAL_SERVER_ERROR);
        return RewriteOutcome::Status(status);
    }
    if state.filename.len() > 6 && state.filename.starts_with(PROXY) {
        return proxy(run, escape);
    }
    if let Some(scheme) = scheme {
        return redirect(run, config, scheme, escape);
    }
    path(run, config)
}

/// Returns a URL for mod_proxy. Its path is escaped as mod_proxy does, with capital letters, unless
/// `NE` is on.
fn proxy(run: &mut RewriteRun<'_, '_>, escape: bool) -> RewriteOutcome {
    let original = run.take_original();
    let state = &mut run.transaction.state;
    let name = std::mem::replace(&mut state.filename, original.unwrap_or_default());
    let mut url = name[PROXY.len()..].to_vec();
    if escape && let Some(scheme) = url::scheme(&url) {
        url = url::escape_absolute(&url, scheme);
        url::capitalize_escapes(&mut url[scheme.length..]);
    }
    if let Some(args) = &state.args {
        url.push(b'?');
        url.extend_from_slice(args);
    }
    RewriteOutcome::Proxy { url, is_escaped: escape }
}

/// Returns a redirect to a URL. The folder's own path in it is replaced by RewriteBase.
fn redirect(
    run: &mut RewriteRun<'_, '_>,
    config: &rewrite::Config,
    scheme: url::UrlScheme,
    escape: bool,
) -> RewriteOutcome {
    let same_query = run.has_first_query();
    let original = run.take_original().unwrap_or_default();
    let mut location = std::mem::replace(&mut run.transaction.state.filename, original);
    if let Some(base) = &config.base
        && let Some(at) = memchr::memchr(b'/', &location[scheme.length..])
    {
        let at = scheme.length + at + 1;
        let directory = config.directory.strip_prefix(b"/").unwrap_or(&config.directory);
        if let Some(path) = url::replace_prefix(&location[at..], directory, &base[1..]) {
            location.truncate(at);
            location.extend_from_slice(&path);
        }
    }
    if escape {
        location = url::escape_absolute(&location, scheme);
    }
    if let Some(args) = &run.transaction.state.args {
        location.push(b'?');
        if !escape || same_query {
            location.extend_from_slice(args);
        } else {
            escape::push_uri(args, &mut location);
        }
    }
    if !can_be_sent(&location) {
        run.transaction
            .complain(None, "mod_rewrite: the redirect's URL has control characters in it");
        return RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR);
    }
    run.transaction.state.status = Status::OK; // As with an error by a rule.
    let status = Status::new(run.status).filter(|status| status.is_redirection());
    RewriteOutcome::Redirect {
        status: status.unwrap_or(Status::FOUND),
        location,
    }
}

/// Returns the path that rules of a site's configuration lead to.
fn new_path(run: &mut RewriteRun<'_, '_>, config: &rewrite::Config) -> RewriteOutcome {
    let is_passed_through = run.transaction.state.filename.starts_with(PASS_THROUGH);
    let name = passed_through(&run.transaction.state);
    if !name.starts_with(b"/") {
        return RewriteOutcome::Status(Status::BAD_REQUEST);
    }
    let original = run.take_original().unwrap_or_default();
    let state = &mut run.transaction.state;
    state.filename = original;
    let uri = as_url(name, state, config);
    let args = state.args.clone();
    force_type(run, RewriteOutcome::Internal { uri, args, is_passed_through })
}

fn passed_through(state: &RequestState) -> Vec<u8> {
    match state.filename.strip_prefix(PASS_THROUGH) {
        Some(rest) if !rest.is_empty() => rest.to_vec(),
        _ => state.filename.clone(),
    }
}

/// Returns an internal redirect to a path of this server.
fn internal(run: &mut RewriteRun<'_, '_>, config: &rewrite::Config) -> RewriteOutcome {
    let name = passed_through(&run.transaction.state);
    if !name.starts_with(b"/") {
        return RewriteOutcome::Status(Status::BAD_REQUEST);
    }
    let original = run.take_original().unwrap_or_default();
    run.transaction.state.filename = original;
    if let Some(status) = Status::new(run.status) {
        run.transaction.state.status = status;
    }
    if name == run.transaction.state.filename {
        trace::declined(run.transaction, &config.directory, "the result is what was asked for");
        return force_type(run, RewriteOutcome::Continue);
    }
    // The handler that `H=` names takes the place of the one that would begin the request anew, and
    // looks for a file `redirect:/…`, which is not there; where there is a file for what was asked,
    // it cannot be opened. A folder without its slash gets it first.
    if let Some(handler) = &run.handler {
        let is_php = memchr::memmem::find(handler, b"php").is_some();
        let is_whole = run.transaction.state.path_info.is_empty();
        match run.transaction.state.found {
            FileKind::File if !is_php && is_whole => {
                return RewriteOutcome::Status(Status::FORBIDDEN);
            }
            FileKind::Directory if !run.transaction.state.filename.ends_with(b"/") => {}
            _ => run.transaction.state.found = FileKind::Missing,
        }
        return force_type(run, RewriteOutcome::Continue);
    }
    let state = &run.transaction.state;
    let uri = as_url(name, state, config);
    RewriteOutcome::Internal {
        uri,
        args: state.args.clone(),
        is_passed_through: false,
    }
}

/// Returns a path's URL: with the folder replaced by RewriteBase, or without the document root.
fn as_url(name: Vec<u8>, state: &RequestState, config: &rewrite::Config) -> Vec<u8> {
    let root = &*state.document_root;
    let found = match &config.base {
        Some(base) => url::replace_prefix(&name, &config.directory, base),
        None => name
            .strip_prefix(root)
            .filter(|rest| rest.starts_with(b"/"))
            .map(<[u8]>::to_vec),
    };
    // Apache's context prefix is the empty string: what lies below the document root, but not below
    // the folder that RewriteBase speaks of, comes out without a slash at its beginning, and the
    // internal redirect fails.
    found
        .or_else(|| {
            let ignored = config.options.has(RewriteOptions::IGNORE_CONTEXT_INFO);
            (!ignored).then(|| url::replace_prefix(&name, root, b"")).flatten()
        })
        .unwrap_or(name)
}

/// Sets the type and the handler of `T=` and `H=`.
fn force_type(run: &mut RewriteRun<'_, '_>, outcome: RewriteOutcome) -> RewriteOutcome {
    let state = &mut run.transaction.state;
    if let Some(handler) = run.handler.take() {
        state.handler = Some(handler);
    }
    let Some(media_type) = run.media_type.take() else {
        return outcome;
    };
    if !can_be_sent(&media_type) {
        run.transaction
            .complain(None, "mod_rewrite: a type has control characters in it");
        return RewriteOutcome::Status(Status::INTERNAL_SERVER_ERROR);
    }
    let mut parameters = media_type.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    state.content_type = parameters.next().map(<[u8]>::to_vec);
    state.charset = parameters
        .find_map(|parameter| parameter.strip_prefix(b"charset="))
        .map(<[u8]>::to_vec);
    outcome
}

/// Returns whether there is a byte that is not allowed in a request line.
fn has_controls(args: &[u8]) -> bool {
    args.iter().any(|&byte| byte <= b' ' || byte == 0x7f)
}
