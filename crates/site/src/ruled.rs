//! What directives made of a request, for those who answer it.

use std::sync::Arc;

use howdah_htaccess::{Settings, State};

/// What directives made of a request.
#[derive(Debug)]
pub struct Ruled {
    /// The request as the last internal redirect has left it. `state.status` is what a file or a script is sent with: that of
    /// the error where it is an ErrorDocument.
    pub state: State,
    /// What is in force for what is sent: response fields, expiry, filters, PHP's settings.
    pub settings: Arc<Settings>,
    /// What was in force for the requests that it was redirected from, the client's own first.
    pub(crate) before: Vec<Arc<Settings>>,
}
