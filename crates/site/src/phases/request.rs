//! One request in the phases: the client's, one that it was redirected to, or a sub-request.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::{ClientRequest, DirectiveSettings, RequestState, Transaction};

use crate::documents::{DocumentLook, FileHandle, PathKind};
use crate::path::DocumentPath;
use crate::rules::Rules;

/// The known part of the client's request before the phases begin.
pub(crate) struct KnownPath {
    /// Its path.
    pub(crate) path: DocumentPath,
    /// Whether a slash followed in the URL.
    pub(crate) slash: bool,
    /// Whether some component starts with a dot.
    pub(crate) dotted: bool,
    /// The host's answer about the path.
    pub(crate) look: DocumentLook,
}

/// One request in the phases.
pub(crate) struct PhaseRequest<'r> {
    /// The part that directives see.
    pub(crate) tx: Transaction<'r>,
    /// The document path of `tx.state.filename`.
    pub(crate) path: DocumentPath,
    /// Whether a slash followed in the URL.
    pub(super) slash: bool,
    /// Whether some component of the path starts with a dot.
    pub(super) dotted: bool,
    /// The kind of `path`; never [`PathKind::Forbidden`].
    pub(super) kind: PathKind,
    /// The place where the host keeps what is at `path`.
    pub(super) file: FileHandle,
    /// The host's answer about `path`, where that is known before the phases begin.
    pub(super) look: Option<DocumentLook>,
    /// The rules of the folder.
    pub(super) rules: Option<Rc<Rules>>,
    /// The settings in force, sections included.
    pub(crate) settings: Arc<DirectiveSettings>,
    /// Whether `settings` leave a response unchanged.
    pub(super) is_silent: bool,
    /// Whether a section, and not the file's name, decides the handler.
    pub(super) section_sets_handler: bool,
    /// Whether names that start with a dot are refused: in the URL that the client itself sent.
    pub(super) is_first: bool,
    /// The path and the query of the URL that replaces this request's after the fixups; they have
    /// to be parsed as a URL.
    pub(super) internal: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The handler and the type that the site's own rules have forced.
    pub(super) forced: Option<Box<ForcedHandler>>,
    /// The number of the upstream that the request is for, and the target to ask it for.
    pub(super) proxied: Option<(usize, Vec<u8>)>,
    /// Whether a sub-request has taken its place.
    pub(super) has_become_other: bool,
    /// The URL for which a `try` step of the site has chosen this file.
    pub(super) redirect_url: Option<Vec<u8>>,
}

/// A handler and a media type that rules have forced (`H=`, `T=`).
#[derive(Default)]
pub(super) struct ForcedHandler {
    pub(super) handler: Option<Vec<u8>>,
    pub(super) content_type: Option<Vec<u8>>,
    pub(super) charset: Option<Vec<u8>>,
}

impl<'r> PhaseRequest<'r> {
    /// A request of which only `state` is known.
    pub(super) fn new(
        client: ClientRequest<'r>,
        state: RequestState,
        settings: &Arc<DirectiveSettings>,
    ) -> PhaseRequest<'r> {
        PhaseRequest {
            tx: Transaction { client, state },
            path: DocumentPath::nowhere(),
            slash: false,
            dotted: false,
            kind: PathKind::Missing,
            file: FileHandle::NONE,
            look: None,
            rules: None,
            settings: Arc::clone(settings),
            is_silent: true,
            section_sets_handler: false,
            is_first: false,
            internal: None,
            forced: None,
            proxied: None,
            has_become_other: false,
            redirect_url: None,
        }
    }

    /// Takes what is known already.
    pub(super) fn start(&mut self, start: KnownPath) {
        self.path = start.path;
        self.slash = start.slash;
        self.dotted = start.dotted;
        self.look = Some(start.look);
        self.note_uri();
    }

    /// Takes the path out of the request, which is at its end.
    pub(super) fn take_path(&mut self) -> DocumentPath {
        std::mem::replace(&mut self.path, DocumentPath::nowhere())
    }

    /// Sets the URL's path to that of `path`.
    pub(super) fn note_uri(&mut self) {
        let uri = &mut self.tx.state.uri;
        uri.clear();
        uri.extend_from_slice(self.path.url_path());
        if self.slash && !uri.ends_with(b"/") {
            uri.push(b'/');
        }
    }

    /// Redirects to the URL that a RewriteRule has made. As in Apache, it stands for the file in
    /// logs, and its query for that of the request.
    pub(super) fn redirect_by_rule(&mut self, location: Vec<u8>) {
        let state = &mut self.tx.state;
        state.fields.set(b"Location", &location);
        let query = memchr::memchr(b'?', &location);
        state.args = query.map(|at| location[at + 1..].to_vec());
        state.filename = location;
    }

    /// Returns whether the method only reads.
    pub(super) fn reads(&self) -> bool {
        use howdah_http::Method::{Get, Head};
        matches!(self.tx.state.method, Get | Head)
    }
}
