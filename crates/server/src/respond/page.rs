//! Pages of the server's own: errors, redirects, and the list of methods.

use std::time::Duration;

use howdah_http::{Request, ResponseHead, Status};
use howdah_site::Resolution;

use crate::body::ResponseBody;
use crate::pipeline::{Response, ResponseHeadSource};

impl Response {
    /// Returns a page that explains `status`.
    pub(crate) fn error(status: Status) -> Response {
        let head = ResponseHeadSource::Own(ResponseHead::new(status));
        let mut response = Response {
            is_own: true,
            ..Response::new(head, page(status, advice(status)))
        };
        response.push(b"Content-Type", b"text/html; charset=utf-8");
        response
    }

    /// Returns the page for a request in the clear on a port for https.
    pub(crate) fn for_https_only(request: &Request) -> Response {
        let authority = String::from_utf8_lossy(&request.authority);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let advice = match !authority.is_empty() && authority.chars().all(is_plain) {
            true => format!(
                "This port is for https. Use <a \
                 href=\"https://{authority}/\">https://{authority}/</a>."
            ),
            false => "This port is for https. Use an address that begins with https://.".to_owned(),
        };
        Response {
            body: page(Status::BAD_REQUEST, &advice),
            ..Response::error(Status::BAD_REQUEST)
        }
    }

    /// Adds Retry-After to a 503 of the server's own, which is over soon. A 503 of a site's rules
    /// may last for hours.
    pub(crate) fn with_retry_after(mut self) -> Response {
        let has_own = self.head.get().fields.value(b"retry-after").is_some();
        if self.status() == Status::SERVICE_UNAVAILABLE && !has_own {
            self.push(b"Retry-After", b"2");
        }
        self
    }

    /// Says when a client that has sent too many requests may send the next one.
    pub(crate) fn retry_after(&mut self, wait: Duration) {
        self.own_head();
        if let ResponseHeadSource::Own(head) = &mut self.head {
            head.fields.remove(b"retry-after");
        }
        let seconds = wait.as_secs_f64().ceil().max(1.0);
        self.push(b"Retry-After", seconds.to_string().as_bytes());
    }

    /// The response to a request whose resolution needs neither a file nor a script.
    pub(crate) fn of(resolution: Resolution) -> Response {
        match resolution {
            Resolution::Redirect { status, location } => Response::redirect(status, &location),
            Resolution::Allow { status, methods, .. } => Response::allow(status, methods),
            Resolution::Page { status, body } => Response::page(status, body),
            Resolution::Status(status) => Response::error(status),
            Resolution::Directory { .. } => Response::error(Status::FORBIDDEN),
            Resolution::File { .. }
            | Resolution::Php(_)
            | Resolution::Listing { .. }
            | Resolution::Verify { .. }
            | Resolution::Proxy { .. }
            | Resolution::Discard { .. }
            | Resolution::Exhausted => Response::error(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// A page whose text the site's directives hold (ErrorDocument).
    fn page(status: Status, text: Vec<u8>) -> Response {
        Response {
            body: ResponseBody::whole(text.into()),
            ..Response::error(status)
        }
    }

    /// A redirect.
    pub(crate) fn redirect(status: Status, location: &[u8]) -> Response {
        let mut response = Response::error(status);
        response.push(b"Location", location);
        response
    }

    /// The methods that a resource has.
    fn allow(status: Status, methods: &str) -> Response {
        let mut response = match status.is_success() {
            true => Response::new(
                ResponseHeadSource::Own(ResponseHead::new(status)),
                ResponseBody::none(),
            ),
            false => Response::error(status),
        };
        response.push(b"Allow", methods.as_bytes());
        response
    }
}

fn page(status: Status, advice: &str) -> ResponseBody {
    let (code, reason) = (status.code(), status.reason());
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{code} \
         {reason}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" \
         content=\"light dark\">\
         <style>body{{font:1.1em/1.5 system-ui,sans-serif;margin:15vh \
         auto;max-width:30em;padding:0 1em}}\
         h1{{font-weight:600}}</style></head>\n<body><h1>{code} \
         {reason}</h1><p>{advice}</p></body></html>\n"
    );
    ResponseBody::whole(text.into_bytes().into())
}

/// Returns advice for a visitor. The cause of an error is only in the log.
fn advice(status: Status) -> &'static str {
    match status.code() {
        400 => "The request could not be understood.",
        301 | 302 | 303 | 307 | 308 => "This page has moved.",
        403 => "You may not see this page.",
        404 => "There is no such page here.",
        405 => "This page cannot be used that way.",
        408 => "The request took too long to arrive.",
        413 => "The request is larger than this site accepts.",
        414 | 431 => "The request's address or headers are longer than this site accepts.",
        421 => "This site is not served over this connection.",
        416 => "The file does not have that part.",
        502 => "The page broke off while it was being made. Trying again may help.",
        503 => "The site cannot answer now. Please try again in a moment.",
        504 => "The page took too long to be made.",
        500..=599 => "Something went wrong on our side.",
        _ => "The request was not carried out.",
    }
}
