//! What an error is answered with that came after a request was resolved.

use std::rc::Rc;

use howdah_htaccess::Client;
use howdah_http::Status;

use crate::documents::DocumentHost;
use crate::path::Scratch;
use crate::phases::Evaluation;
use crate::resolution::Resolved;
use crate::ruled::Ruled;
use crate::sites::Site;

/// What `status` is answered with, which was found after the request had been resolved (413, 502,
/// 503, 504…): ErrorDocument says, where one is in force. `ruled` is what came with the resolution
/// that failed.
pub fn error(
    site: &Site,
    client: &Client<'_>,
    ruled: Option<Rc<Ruled>>,
    status: Status,
    host: &mut impl DocumentHost,
    scratch: &mut Scratch,
) -> Resolved {
    match ruled {
        Some(ruled) => {
            Evaluation::new(site, *client, host, scratch).fail(Rc::unwrap_or_clone(ruled), status)
        }
        None => Resolved::status(status),
    }
}
