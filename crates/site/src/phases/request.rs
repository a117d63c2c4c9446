//! One request on its way through the phases: the client's, one it was redirected to, or a
//! sub-request.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::{Client, Settings, State, Transaction};

use crate::documents::{FileHandle, Look, PathKind};
use crate::path::DocumentPath;
use crate::rules::Rules;

/// What is known already of the request that a client has sent.
pub(crate) struct KnownPath {
    /// Its path.
    pub(crate) path: DocumentPath,
    /// Whether a slash followed in the URL.
    pub(crate) slash: bool,
    /// Whether some component starts with a dot.
    pub(crate) dotted: bool,
    /// What is there.
    pub(crate) look: Look,
}

/// One request on its way through the phases.
pub(crate) struct PhaseRequest<'r> {
    /// What directives see of it.
    pub(crate) tx: Transaction<'r>,
    /// Where `tx.state.filename` is, below the root.
    pub(crate) path: DocumentPath,
    /// Whether a slash followed in the URL.
    pub(super) slash: bool,
    /// Whether some component of the path starts with a dot.
    pub(super) dotted: bool,
    /// What is at `path`; never [`PathKind::Forbidden`].
    pub(super) kind: PathKind,
    /// Where the host keeps what is at `path`.
    pub(super) file: FileHandle,
    /// What is at `path`, where that is known before the phases begin.
    pub(super) look: Option<Look>,
    /// The rules of the folder.
    pub(super) rules: Option<Rc<Rules>>,
    /// What is in force, sections included.
    pub(crate) settings: Arc<Settings>,
    /// Whether nothing of `settings` can be seen in a response.
    pub(super) is_silent: bool,
    /// Whether a section says which handler there is, and not the file's name.
    pub(super) section_sets_handler: bool,
    /// Whether names that start with a dot are looked for: in the URL that the client itself sent.
    pub(super) is_first: bool,
    /// The path and the query that take the place of this request's, once the fixups are through.
    /// They are to be parsed as a URL.
    pub(super) internal: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Which of the site's upstreams it is for, and the path and the query there.
    pub(super) proxied: Option<(usize, Vec<u8>)>,
    /// Whether a sub-request has taken its place.
    pub(super) has_become_other: bool,
    /// The URL that a `try` step of the site stands in for.
    pub(super) redirect_url: Option<Vec<u8>>,
}

impl<'r> PhaseRequest<'r> {
    /// A request that nothing is known of yet but `state`.
    pub(super) fn new(
        client: Client<'r>,
        state: State,
        settings: &Arc<Settings>,
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

    /// The path, to be handed on or to be used again. Nobody asks for it afterwards.
    pub(super) fn take_path(&mut self) -> DocumentPath {
        std::mem::replace(&mut self.path, DocumentPath::nowhere())
    }

    /// The URL's path, as it follows from `path`.
    pub(super) fn note_uri(&mut self) {
        let uri = &mut self.tx.state.uri;
        uri.clear();
        uri.extend_from_slice(self.path.url_path());
        if self.slash && !uri.ends_with(b"/") {
            uri.push(b'/');
        }
    }

    /// Whether the client wants no more than to read.
    pub(super) fn reads(&self) -> bool {
        use howdah_http::Method::{Get, Head};
        matches!(self.tx.state.method, Get | Head)
    }
}
