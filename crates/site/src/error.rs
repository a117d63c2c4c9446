//! Errors that were found after a request was resolved.

use std::rc::Rc;

use howdah_htaccess::ClientRequest;
use howdah_http::Status;

use crate::documents::SiteHost;
use crate::path::Scratch;
use crate::phases::RequestEvaluation;
use crate::resolution::Resolved;
use crate::ruled_request::RuledRequest;
use crate::sites::Site;

/// Resolves an error that was found after the request had been resolved (413, 502, 503, 504…): by
/// ErrorDocument, where one is in force. `ruled` is the one of the resolution that failed.
pub fn error(
    site: &Site,
    client: &ClientRequest<'_>,
    ruled: Option<Rc<RuledRequest>>,
    status: Status,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> Resolved {
    match ruled {
        Some(ruled) => RequestEvaluation::new(site, *client, host, scratch)
            .fail(Rc::unwrap_or_clone(ruled), status),
        None if site.directives().is_some() => {
            RequestEvaluation::new(site, *client, host, scratch).refuse(status)
        }
        None => Resolved::status(status),
    }
}
