//! 304: the client has the content already, in the form that would be sent.

use howdah_files::{self as files, Representation};
use howdah_http::conditional::{self, Decision, Validators};
use howdah_http::{Request, ResponseHead, Status};

use crate::body::Body;
use crate::pipeline::{Head, Response};

/// Returns whether the client already has the content in the form that the filters produce. The
/// entity tag tells the form, and it is known only when the filters have been chosen.
pub(super) fn is_known(request: &Request, head: &ResponseHead) -> bool {
    if head.status != Status::OK || !request.fields.contains(b"if-none-match") {
        return false;
    }
    let validators = Validators {
        etag: head.fields.value(b"etag"),
        last_modified: None,
    };
    // The entity tag alone counts, so no date is compared with the current time.
    conditional::decide(&request.method, &request.fields, Some(&validators), 0)
        == Decision::NotModified
}

/// Returns the 304 in place of a response.
pub(super) fn respond(mut response: Response) -> Response {
    if let Head::Own(head) = &mut response.head {
        head.status = Status::NOT_MODIFIED;
        for name in ["Content-Type", "Content-Encoding", "Content-Language", "Accept-Ranges"] {
            head.fields.remove(name.as_bytes());
        }
    }
    Response::new(response.head, Body::none())
}

/// Gives a 304 the media type of the whole file, for directives that depend on the type. The type
/// itself is not sent.
pub(super) fn add_type(found: &mut files::Answer, whole: &Representation) {
    if let files::Answer::Composed { head, .. } = found {
        let kind = whole.head().head().fields.value(b"content-type");
        kind.iter().for_each(|kind| head.fields.push(b"Content-Type", kind));
    }
}

/// Gives a 304 what the 200 would have of filters (RFC 9110 §15.4.5): Vary, and the entity tag
/// where the client has not sent one itself.
pub(super) fn complete(request: &Request, whole: &ResponseHead, head: &mut ResponseHead) {
    let mut copy = |name: &str, is_wanted: bool| {
        let name = name.as_bytes();
        if is_wanted && whole.fields.contains(name) {
            head.fields.remove(name);
            whole.fields.values(name).for_each(|value| head.fields.push(name, value));
        }
    };
    copy("Vary", true);
    copy("ETag", !request.fields.contains(b"if-none-match"));
}
