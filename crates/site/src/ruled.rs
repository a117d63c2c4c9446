//! What directives made of a request, for those who answer it.

use std::sync::Arc;

use howdah_htaccess::{Settings, State};

/// What directives made of a request.
#[derive(Clone, Debug)]
pub struct Ruled {
    /// The request as the last internal redirect has left it. `state.status` is what a file or a
    /// script is sent with: that of the error where it is an ErrorDocument.
    pub state: State,
    /// What is in force for what is sent: response fields, expiry, filters, PHP's settings.
    pub settings: Arc<Settings>,
    /// Whether the request's content is thrown away: it was for something that has no use for any,
    /// and a script that makes the error's page does not see it.
    pub is_content_gone: bool,
    /// What was in force for the requests that it was redirected from, the client's own first.
    pub(crate) before: Vec<PassedAccess>,
}

/// Under which rules a request has been let through.
#[derive(Clone, Debug)]
pub(crate) struct PassedAccess {
    pub(crate) settings: Arc<Settings>,
    /// Whether its file is called like a script: Debian's Apache has a section for these, so they
    /// have rules of their own.
    pub(crate) is_script: bool,
}

impl PassedAccess {
    pub(crate) fn is_same(&self, other: &PassedAccess) -> bool {
        Arc::ptr_eq(&self.settings, &other.settings) && self.is_script == other.is_script
    }
}
