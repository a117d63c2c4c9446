//! A request as directives have left it.

use std::sync::Arc;

use howdah_htaccess::{DirectiveSettings, RequestState};

/// A request as directives have left it, for the code that answers it.
#[derive(Clone, Debug)]
pub struct RuledRequest {
    /// The request after the last internal redirect. `state.status` is the status that a file or a
    /// script is sent with: that of the error where the file or script is an ErrorDocument.
    pub state: RequestState,
    /// The settings in force for the response: response fields, expiry, filters, PHP's settings.
    pub settings: Arc<DirectiveSettings>,
    /// Whether the request's content is discarded: the request was for something that takes no
    /// content. A script that makes the error's page does not see it.
    pub is_content_gone: bool,
    /// The settings of the requests that led to this one by redirects, the client's own first.
    pub(crate) before: Vec<PassedAccess>,
}

/// The rules under which a request was let through.
#[derive(Clone, Debug)]
pub(crate) struct PassedAccess {
    pub(crate) settings: Arc<DirectiveSettings>,
    /// Whether the file is named like a script: Debian's Apache has a section for these, so they
    /// have rules of their own.
    pub(crate) is_script: bool,
}

impl RuledRequest {
    /// Returns the entries of settings that no other request shares.
    pub(crate) fn unshared(&self) -> usize {
        let before = self.before.iter().map(|passed| &passed.settings);
        before.chain([&self.settings]).map(|settings| settings.unshared).sum()
    }
}

impl PassedAccess {
    pub(crate) fn is_same(&self, other: &PassedAccess) -> bool {
        Arc::ptr_eq(&self.settings, &other.settings) && self.is_script == other.is_script
    }
}
