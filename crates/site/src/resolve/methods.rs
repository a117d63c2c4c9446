//! Methods that have a meaning of their own, whatever the path.

use howdah_htaccess::ClientRequest;
use howdah_http::{Method, Request, Status};

use crate::path::DocumentPath;
use crate::resolution::{Resolution, Resolved};

/// Refuses TRACE for what is no file: no script gets it, and no upstream. The page of an error is
/// made with GET.
pub(super) fn refuse_trace(client: &ClientRequest<'_>, resolved: Resolved) -> Resolved {
    if *client.method() != Method::Trace {
        return resolved;
    }
    let ruled = resolved.ruled.as_ref();
    let is_traced = ruled.is_none_or(|ruled| ruled.state.method == Method::Trace);
    match resolved.resolution {
        Resolution::Php(_) | Resolution::Proxy { .. } if is_traced => Resolved {
            resolution: not_allowed(ALLOW_SCRIPT),
            ..resolved
        },
        resolution => Resolved { resolution, ..resolved },
    }
}

/// Answers methods that have no meaning for a path. `None`: the method has a meaning for a path.
pub(super) fn without_path(request: &Request) -> Option<Resolution> {
    match request.method {
        Method::Connect => Some(not_allowed(ALLOW_SCRIPT)),
        Method::Options if request.target == b"*" => Some(options(ALLOW_SCRIPT, None)),
        _ => None,
    }
}

/// Returns the methods that a resource takes, which is the file at `path` if there is one.
pub(crate) fn options(methods: &'static str, path: Option<DocumentPath>) -> Resolution {
    Resolution::Allow { status: Status::OK, methods, path }
}

/// Refuses a method. The resource takes the others.
pub(super) fn not_allowed(methods: &'static str) -> Resolution {
    Resolution::Allow {
        status: Status::METHOD_NOT_ALLOWED,
        methods,
        path: None,
    }
}

/// The methods of files, in Apache's words.
pub(crate) const ALLOW_FILE: &str = "GET,POST,OPTIONS,HEAD";

/// Scripts get every method that has no meaning of its own to a server.
const ALLOW_SCRIPT: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
