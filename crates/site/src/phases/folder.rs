//! mod_dir: index files and FallbackResource; then the site's own `try` steps.

use std::sync::Arc;

use howdah_config::TryStep;
use howdah_http::{Method, Status};

use super::handler::has_stray_path_info;
use super::sub_request::overlay;
use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step, target};
use crate::documents::{PathKind, SiteHost};
use crate::redirect;

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Finds what is served instead of a folder, or of a missing file.
    ///
    /// # Errors
    /// The request ends with a redirect to the URL with a slash, or with an error.
    pub(super) fn fix_up_folder(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        match request.kind {
            PathKind::Directory => self.serve_folder(request)?,
            PathKind::Missing => self.fall_back(request)?,
            PathKind::File | PathKind::Forbidden => {}
        }
        if request.internal.is_none()
            && request.proxied.is_none()
            && !request.tx.state.is_subrequest
        {
            self.try_steps(request)?;
        }
        Ok(())
    }

    fn serve_folder(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let settings = Arc::clone(&request.settings);
        let config = settings.dir.as_deref();
        let state = &mut request.tx.state;
        if !state.uri.ends_with(b"/") {
            let is_careful =
                state.method != Method::Get && state.env.contains(b"redirect-carefully");
            if config.and_then(|config| config.slash) == Some(false) || is_careful {
                return Ok(());
            }
            // Apache answers TRACE before it looks for a file.
            if state.method == Method::Trace {
                return Err(PhaseEnd::Status(Status::METHOD_NOT_ALLOWED));
            }
            let location = redirect::to_directory(&request.path, state.args.as_deref());
            state.fields.set(b"Location", &location);
            return Err(PhaseEnd::Status(Status::MOVED_PERMANENTLY));
        }
        let has_handler = state.handler.as_deref().is_some_and(|handler| handler != FOLDER);
        let is_left = has_handler && config.and_then(|config| config.check_handler) == Some(true);
        if request.internal.is_some() || is_left {
            return Ok(());
        }
        match config.and_then(|config| config.index.as_deref()) {
            Some(names) => self.try_index(request, names.iter().map(|name| &name[..])),
            None => {
                let site = self.site;
                self.try_index(request, site.index().iter().map(String::as_bytes))
            }
        }
    }

    /// DirectoryIndex: the first of `names` that is a file, or the answer that a name led to
    /// instead.
    fn try_index<'n>(
        &mut self,
        request: &mut PhaseRequest<'r>,
        names: impl ExactSizeIterator<Item = &'n [u8]>,
    ) -> Result<(), PhaseEnd> {
        let last = names.len().saturating_sub(1);
        let mut error = None;
        for (number, name) in names.enumerate() {
            if self.is_plainly_missing(request, name) {
                continue;
            }
            let passed = self.passed(request);
            let uri = target::join(name, request.tx.state.args.as_deref());
            let (found, status) = self.sub_request(&mut request.tx.state, &uri, Some(&passed));
            if status == Status::OK && (found.kind == PathKind::File || found.proxied.is_some()) {
                return self.take_index(request, found);
            }
            let is_final =
                matches!(status, Status::NOT_ACCEPTABLE | Status::UNAUTHORIZED) && number == last;
            if status.is_redirection() || is_final {
                return Err(self.pass_on(request, found, status));
            }
            if !matches!(status, Status::OK | Status::NOT_FOUND) {
                error = Some(status);
            }
            self.scratch.reuse(found.path);
        }
        match error {
            Some(status) => Err(PhaseEnd::Status(status)),
            None => Ok(()),
        }
    }

    /// Returns whether one question to the host shows that a sub-request for `name` finds nothing.
    fn is_plainly_missing(&mut self, request: &mut PhaseRequest<'r>, name: &[u8]) -> bool {
        let settings = &request.settings;
        let has_site_rules = request.rules.as_ref().is_some_and(|rules| rules.server().is_some());
        let is_watched = has_site_rules
            || settings.rewrite.is_some()
            || settings.alias.is_some()
            || settings.negotiation.is_some()
            || settings.core.is_some()
            || settings.dir.as_ref().is_some_and(|config| config.fallback().is_some())
            || !settings.files.is_empty()
            || !settings.conditions.is_empty();
        if is_watched
            || name.is_empty()
            || name.starts_with(b".")
            || name.iter().any(|byte| b"/%?#".contains(byte))
        {
            return false;
        }
        let length = request.path.relative().len();
        request.path.push_component(name);
        let missing = !request.path.fits() || self.host.kind(&request.path) == PathKind::Missing;
        request.path.truncate_relative(length);
        missing
    }

    fn take_index(
        &mut self,
        request: &mut PhaseRequest<'r>,
        found: PhaseRequest<'r>,
    ) -> Result<(), PhaseEnd> {
        let config = request.settings.dir.as_ref();
        if let Some(status) = config.and_then(|config| config.index_redirect()) {
            let mut location = Vec::new();
            target::escape(&found.tx.state.uri, &mut location);
            request.tx.state.fields.set(b"Location", &location);
            return Err(PhaseEnd::Status(status));
        }
        request
            .tx
            .trace(|| step("index", shown(&found.tx.state.uri), "is the folder's index"));
        self.become_other(request, found);
        Ok(())
    }

    /// FallbackResource.
    fn fall_back(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let settings = Arc::clone(&request.settings);
        let fallback = settings.dir.as_ref().and_then(|config| config.fallback());
        let (Some(fallback), None, None) = (fallback, &request.internal, &request.tx.state.handler)
        else {
            return Ok(());
        };
        let uri = target::join(fallback, request.tx.state.args.as_deref());
        let passed = self.passed(request);
        let (found, status) = self.sub_request(&mut request.tx.state, &uri, Some(&passed));
        if status == Status::OK && found.kind == PathKind::File {
            request.tx.trace(|| {
                step("fallback", shown(&found.tx.state.uri), "answers for the missing file")
            });
            self.become_other(request, found);
            return Ok(());
        }
        match status {
            Status::OK | Status::NOT_FOUND => Ok(()),
            status => Err(self.pass_on(request, found, status)),
        }
    }

    /// The site's `try` steps, for a missing file.
    fn try_steps(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        let site = self.site;
        for try_step in site.steps() {
            let (uri, is_other) = match try_step {
                TryStep::Uri if request.kind == PathKind::File && !has_stray_path_info(request) => {
                    return Ok(());
                }
                TryStep::UriDirectory if request.kind == PathKind::Directory => return Ok(()),
                TryStep::Uri | TryStep::UriDirectory => continue,
                TryStep::UriSuffix(_) if request.slash || request.kind != PathKind::Missing => {
                    continue;
                }
                TryStep::UriSuffix(suffix) => {
                    let mut uri = Vec::new();
                    target::escape(&request.tx.state.uri, &mut uri);
                    uri.extend_from_slice(suffix.as_bytes());
                    (uri, false)
                }
                TryStep::Path(path) => (path.as_bytes().to_vec(), true),
                TryStep::Status(code) => {
                    let status = Status::new(*code).unwrap_or(Status::NOT_FOUND);
                    return Err(PhaseEnd::Status(status));
                }
            };
            let passed = self.passed(request);
            let uri = target::join(&uri, request.tx.state.args.as_deref());
            let (found, status) = self.sub_request(&mut request.tx.state, &uri, Some(&passed));
            if found.kind == PathKind::File {
                if status != Status::OK {
                    return Err(self.pass_on(request, found, status));
                }
                let url = is_other.then(|| request.tx.state.uri.clone());
                request.tx.trace(|| step("try", shown(&found.tx.state.uri), "answers instead"));
                self.become_other(request, found);
                request.redirect_url = url;
                return Ok(());
            }
            self.scratch.reuse(found.path);
        }
        Ok(())
    }

    /// `ap_internal_fast_redirect`: the sub-request becomes the request.
    pub(super) fn become_other(&mut self, request: &mut PhaseRequest<'r>, found: PhaseRequest<'r>) {
        let old = std::mem::replace(&mut request.path, found.path);
        self.scratch.reuse(old);
        request.kind = found.kind;
        request.file = found.file;
        request.slash = found.slash;
        request.dotted = found.dotted;
        request.rules = found.rules;
        request.settings = found.settings;
        request.section_sets_handler = found.section_sets_handler;
        request.is_silent = found.is_silent;
        request.internal = found.internal;
        request.proxied = found.proxied;
        request.has_become_other = true;
        let (state, new) = (&mut request.tx.state, found.tx.state);
        state.env = overlay(&new.env, &state.env);
        state.notes = overlay(&new.notes, &state.notes);
        state.fields = overlay(&new.fields, &state.fields);
        state.error_fields = overlay(&new.error_fields, &state.error_fields);
        state.uri = new.uri;
        state.args = new.args;
        state.filename = new.filename;
        state.path_info = new.path_info;
        state.found = new.found;
        state.handler = new.handler;
        state.content_type = new.content_type;
        state.charset = new.charset;
        state.encoding = new.encoding;
        state.languages = new.languages;
        state.output_filters = new.output_filters;
    }

    /// Ends the request with the result of a sub-request.
    pub(super) fn pass_on(
        &mut self,
        request: &mut PhaseRequest<'r>,
        found: PhaseRequest<'r>,
        status: Status,
    ) -> PhaseEnd {
        let (state, new) = (&mut request.tx.state, found.tx.state);
        state.fields = overlay(&new.fields, &state.fields);
        state.error_fields = overlay(&new.error_fields, &state.error_fields);
        self.scratch.reuse(found.path);
        PhaseEnd::Status(status)
    }
}

/// The handler of folders, and their media type.
pub(super) const FOLDER: &[u8] = b"httpd/unix-directory";
