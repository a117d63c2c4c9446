//! Apache's phases, for a request to which directives apply.
//!
//! ```text
//! translate   the URL's path, decoded and normal, below the document root; what is there
//! site rules  SetEnvIf, RewriteRule and Redirect of the site's configuration; perhaps another path
//! folders     which rules are in force; where a file of them is broken: 500
//! sections    <Files>, then <If>
//! header      SetEnvIf                                            (not of sub-requests)
//! access      names that are never served, Require, AuthType      (not again under the same rules)
//! type        MultiViews, then the extensions
//! fixups      SetHandler · RewriteRule · Redirect · SetEnv · DirectoryIndex · RequestHeader
//! handler     a file, a script, a listing, or once more from the top with another URL
//! ```
//!
//! The order is that of `ap_process_request_internal`, and the order of the fixups that of a Debian
//! Apache (`/server-info?hooks`). A [`PhaseEnd`] ends the phases early; [`rounds`] turns it into an
//! ErrorDocument.

mod access;
mod content;
mod evaluation_context;
mod fixups;
mod folder;
mod folders;
pub(crate) mod handler;
mod links;
mod listing;
mod request;
mod respond;
mod rounds;
mod sections;
mod site_rules;
mod sub_request;
mod target;
mod types;

use std::sync::Arc;

use howdah_htaccess::trace::TraceEvent;
use howdah_htaccess::{ClientRequest, DirectiveSettings};
use howdah_http::Status;

use crate::documents::{PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::ruled_request::PassedAccess;
use crate::sites::Site;

pub use listing::{ListingPage, list, listing_type};
pub(crate) use request::{KnownPath, PhaseRequest};
pub use respond::respond;

/// The evaluation of one request of a client, with its internal redirects and sub-requests.
pub(crate) struct RequestEvaluation<'a, 'r, H> {
    pub(crate) site: &'a Site,
    pub(crate) client: ClientRequest<'r>,
    pub(crate) host: &'a mut H,
    pub(crate) scratch: &'a mut Scratch,
    /// Internal redirects so far.
    redirects: usize,
    /// The depth of the present sub-request.
    depth: u32,
    /// Sub-requests so far.
    lookups: u32,
    /// The hash and the password that have to be compared elsewhere.
    unverified: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether a handler has discarded the client's content.
    is_content_gone: bool,
}

/// The reason why a request leaves the phases.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PhaseEnd {
    /// The request is answered with this status. A redirect has its Location in the state's fields.
    Status(Status),
    /// The evaluation begins again when a password has been compared.
    Later,
    /// The evaluation begins again when the content, or more than `most` bytes of it, has arrived.
    Discard { most: u64 },
}

impl PhaseEnd {
    const FORBIDDEN: PhaseEnd = PhaseEnd::Status(Status::FORBIDDEN);
    const FAILED: PhaseEnd = PhaseEnd::Status(Status::INTERNAL_SERVER_ERROR);
}

impl From<Status> for PhaseEnd {
    fn from(status: Status) -> PhaseEnd {
        PhaseEnd::Status(status)
    }
}

impl<'a, 'r, H: SiteHost> RequestEvaluation<'a, 'r, H> {
    pub(crate) fn new(
        site: &'a Site,
        client: ClientRequest<'r>,
        host: &'a mut H,
        scratch: &'a mut Scratch,
    ) -> RequestEvaluation<'a, 'r, H> {
        RequestEvaluation {
            site,
            client,
            host,
            scratch,
            redirects: 0,
            depth: 0,
            lookups: 0,
            unverified: None,
            is_content_gone: false,
        }
    }

    /// Returns the rules under which this request is, or has been, let through.
    fn passed(&self, request: &PhaseRequest<'r>) -> PassedAccess {
        self.passed_as(&request.settings, &request.path, request.kind, request.slash)
    }

    fn passed_as(
        &self,
        settings: &Arc<DirectiveSettings>,
        path: &DocumentPath,
        kind: PathKind,
        slash: bool,
    ) -> PassedAccess {
        let is_name = kind != PathKind::Directory || !slash;
        PassedAccess {
            settings: Arc::clone(settings),
            is_script: is_name && self.site.names.runs(path.file_name()),
        }
    }

    /// Runs every phase before the handler. `path` is a URL's, as sent. `before`: the rules under
    /// which the request was let through that this one comes from; access is not checked again
    /// under the same rules.
    fn process(
        &mut self,
        request: &mut PhaseRequest<'r>,
        path: &[u8],
        before: Option<&PassedAccess>,
    ) -> Result<(), PhaseEnd> {
        if request.look.is_none()
            && let Err(end) = self.translate(request, path)
        {
            self.enter_site(request);
            return Err(end);
        }
        self.find_file(request);
        self.obey_site(request)?;
        self.enter_folder(request)?;
        self.check_links(request)?;
        self.walk_sections(request);
        if !request.tx.state.is_subrequest {
            self.parse_headers(request)?;
        }
        self.check_access(request, before)?;
        if request.proxied.is_some() {
            return self.fix_up_proxied(request);
        }
        self.find_type(request)?;
        self.fix_up(request)
    }
}

/// An event without a directive.
fn step(step: &'static str, text: impl Into<String>, outcome: impl Into<String>) -> TraceEvent {
    TraceEvent {
        step,
        place: None,
        text: text.into(),
        facts: Vec::new(),
        outcome: outcome.into(),
    }
}

/// Bytes for people.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests;
