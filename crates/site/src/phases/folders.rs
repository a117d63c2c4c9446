//! The first phases: from a URL's path to the file, and to the rules of its folder
//! (`ap_core_translate`, `ap_directory_walk`).

use howdah_htaccess::transaction::FileKind;
use howdah_http::Status;
use memchr::memchr;

use super::{PhaseEnd, PhaseRequest, RequestEvaluation, shown, step};
use crate::documents::{DocumentLook, FileHandle, PathKind, SiteHost};
use crate::normal::{normalize, without_normal_form};
use crate::rules::Rules;

impl<'r, H: SiteHost> RequestEvaluation<'_, 'r, H> {
    /// Sets the request's path to `path`, as a URL has it.
    ///
    /// # Errors
    /// 404 or 400, where the host or the path has no meaning.
    pub(super) fn translate(
        &mut self,
        request: &mut PhaseRequest<'r>,
        path: &[u8],
    ) -> Result<(), PhaseEnd> {
        request.path = self.site.root(self.client.host(), self.scratch.take())?;
        let slashes = self.site.encoded_slashes();
        let normal = request.path.write_relative(|bytes| normalize(path, slashes, bytes));
        if normal == Err(Status::NOT_FOUND) {
            request.tx.trace(|| {
                let why = "404: an encoded slash, and `encoded_slashes` is \"refuse\"";
                step("path", shown(path), why)
            });
        }
        let shape = normal.inspect_err(|_| {
            request.tx.state.uri = without_normal_form(path, slashes);
        })?;
        request.slash = shape.slash;
        request.dotted = shape.dotted;
        request.note_uri();
        Ok(())
    }

    /// Finds the file. The path keeps the first missing component; the rest becomes PATH_INFO.
    pub(super) fn find_file(&mut self, request: &mut PhaseRequest<'r>) {
        request.tx.state.path_info.clear();
        let known = request.look.take();
        let mut look = known.unwrap_or_else(|| self.look(request));
        if look.kind == PathKind::Missing && memchr(b'/', request.path.relative()).is_some() {
            look = self.walk_down(request);
        }
        request.rules = look.rules;
        request.kind = look.kind;
        request.file = look.file;
        self.note_filename(request);
        note_path(request);
    }

    /// Puts the rules of the file's folder into force.
    ///
    /// # Errors
    /// The file may not be read, or a file of rules is broken.
    pub(super) fn enter_folder(&mut self, request: &mut PhaseRequest<'r>) -> Result<(), PhaseEnd> {
        if let Some(rules) = &request.rules {
            request.settings.clone_from(rules.settings());
        } else {
            request.settings.clone_from(self.site.bare_settings());
        }
        note_files(request);
        if request.kind == PathKind::Forbidden {
            let path = request.path.absolute().display();
            request.tx.complain(
                None,
                format!("{path} may not be read, or is reached by a link that may not be followed"),
            );
            return Err(PhaseEnd::FORBIDDEN);
        }
        match request.rules.as_ref().and_then(|rules| rules.mistake()) {
            Some(mistake) => {
                let text = mistake.message.clone();
                let place = std::sync::Arc::new(mistake.place.clone());
                // Neither a broken file nor the files above it are in force, but what the site's
                // configuration says is, as with Apache.
                let site = request.rules.as_deref().and_then(Rules::of_site);
                request.settings.clone_from(site.unwrap_or(self.site.bare_settings()));
                request.tx.complain(Some(&place), text);
                Err(PhaseEnd::FAILED)
            }
            None => Ok(()),
        }
    }

    /// Puts the directives of the configuration itself into force, for a request without a path.
    pub(super) fn enter_site(&mut self, request: &mut PhaseRequest<'r>) {
        request.is_silent = false;
        if self.site.directives().is_none() {
            return;
        }
        if let Ok(path) = self.site.root(self.client.host(), self.scratch.take()) {
            request.path = path;
            if let Some(rules) = self.look(request).rules {
                request.settings.clone_from(rules.outermost().settings());
            }
        }
    }

    fn look(&mut self, request: &PhaseRequest<'r>) -> DocumentLook {
        if request.path.fits() {
            self.host.look(&request.path)
        } else {
            DocumentLook {
                kind: PathKind::Missing,
                file: FileHandle::NONE,
                rules: None,
            }
        }
    }

    /// Goes down from the root to the first component that is not a folder.
    fn walk_down(&mut self, request: &mut PhaseRequest<'r>) -> DocumentLook {
        let whole = request.path.relative().to_vec();
        request.path.truncate_relative(0);
        let mut start = 0;
        loop {
            let end = memchr(b'/', &whole[start..]).map_or(whole.len(), |at| start + at);
            request.path.push_component(&whole[start..end]);
            let look = self.look(request);
            if look.kind != PathKind::Directory || end == whole.len() {
                request.tx.state.path_info.extend_from_slice(&whole[end..]);
                return look;
            }
            start = end + 1;
        }
    }

    fn note_filename(&mut self, request: &mut PhaseRequest<'r>) {
        let state = &mut request.tx.state;
        state.filename.clear();
        state.filename.extend_from_slice(request.path.absolute_bytes());
        state.found = match request.kind {
            PathKind::File => FileKind::File,
            PathKind::Directory => FileKind::Directory,
            PathKind::Missing | PathKind::Forbidden => FileKind::Missing,
        };
        if !request.slash {
            return;
        }
        match request.kind {
            PathKind::Directory if state.path_info.is_empty() => {
                if !state.filename.ends_with(b"/") {
                    state.filename.push(b'/');
                }
            }
            _ => state.path_info.push(b'/'),
        }
    }
}

/// Tells `explain` which files were read.
fn note_files(request: &mut PhaseRequest<'_>) {
    if !request.tx.is_traced() {
        return;
    }
    let mut files = Vec::new();
    let mut rules = request.rules.as_ref();
    while let Some(some) = rules {
        let outcome = match &some.own().mistake {
            Some(mistake) => format!("broken: {mistake}"),
            None => "applies".to_owned(),
        };
        files.push(step("file", some.own().file.to_string(), outcome));
        rules = some.above();
    }
    for event in files.into_iter().rev() {
        request.tx.trace(|| event);
    }
}

/// Tells `explain` what is at the path.
fn note_path(request: &mut PhaseRequest<'_>) {
    if !request.tx.is_traced() {
        return;
    }
    let state = &request.tx.state;
    let found = match request.kind {
        PathKind::File => "a file",
        PathKind::Directory => "a folder",
        PathKind::Missing => "nothing is there",
        PathKind::Forbidden => "may not be read",
    };
    let mut event = step("path", shown(&state.filename), found);
    event.facts.push(("url", shown(&state.uri)));
    if !state.path_info.is_empty() {
        event.facts.push(("path info", shown(&state.path_info)));
    }
    request.tx.trace(|| event);
}
