//! One request on its way through the phases: the client's, one it was redirected to, or a sub-request.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::{Client, Settings, State, Transaction};

use crate::disk::Kind;
use crate::path::DocumentPath;
use crate::rules::Rules;

/// One request on its way through the phases.
pub(crate) struct Asked<'r> {
    /// What directives see of it.
    pub(crate) tx: Transaction<'r>,
    /// Where `tx.state.filename` is, below the root.
    pub(crate) path: DocumentPath,
    /// Whether a slash followed in the URL.
    pub(super) slash: bool,
    /// Whether some component of the path starts with a dot.
    pub(super) dotted: bool,
    /// What is at `path`; never [`Kind::Forbidden`].
    pub(super) kind: Kind,
    /// The rules of the folder.
    pub(super) rules: Option<Rc<Rules>>,
    /// What is in force, sections included.
    pub(crate) settings: Arc<Settings>,
    /// Whether a section says which handler there is, and not the file's name.
    pub(super) section_sets_handler: bool,
    /// Whether names that start with a dot are looked for: in the URL that the client itself sent.
    pub(super) is_first: bool,
    /// The path and the query that take the place of this request's, once the fixups are through. They are to be parsed as a URL.
    pub(super) internal: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The URL that a `try` step of the site stands in for.
    pub(super) redirect_url: Option<Vec<u8>>,
}

impl<'r> Asked<'r> {
    /// A request that nothing is known of yet but `state`.
    pub(super) fn new(client: Client<'r>, state: State, settings: &Arc<Settings>) -> Asked<'r> {
        Asked {
            tx: Transaction { client, state },
            path: DocumentPath::nowhere(),
            slash: false,
            dotted: false,
            kind: Kind::Missing,
            rules: None,
            settings: Arc::clone(settings),
            section_sets_handler: false,
            is_first: false,
            internal: None,
            redirect_url: None,
        }
    }

    /// Whether the client wants no more than to read.
    pub(super) fn reads(&self) -> bool {
        use howdah_http::Method::{Get, Head};
        matches!(self.tx.state.method, Get | Head)
    }
}
