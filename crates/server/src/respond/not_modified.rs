//! 304: the client has the content already, in the form that would be sent.

use howdah_http::conditional::{self, PreconditionOutcome, Validators};
use howdah_http::{Request, Status};

use crate::body::ResponseBody;
use crate::pipeline::{Response, ResponseHeadSource};

/// Returns whether the client already has the content in the form with that entity tag, which is
/// known only when the filters have been chosen.
pub(super) fn is_known(request: &Request, etag: Option<&[u8]>) -> bool {
    if !request.fields.contains(b"if-none-match") {
        return false;
    }
    let validators = Validators { etag, last_modified: None };
    // The entity tag alone counts, so no date is compared with the current time.
    conditional::decide(&request.method, &request.fields, Some(&validators), 0)
        == PreconditionOutcome::NotModified
}

/// Returns the 304 in place of a response.
pub(super) fn respond(mut response: Response) -> Response {
    if let ResponseHeadSource::Own(head) = &mut response.head {
        head.status = Status::NOT_MODIFIED;
        for name in ["Content-Type", "Content-Encoding", "Content-Language", "Accept-Ranges"] {
            head.fields.remove(name.as_bytes());
        }
    }
    Response::new(response.head, ResponseBody::none())
}
