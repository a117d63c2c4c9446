//! What a request is answered with, whatever protocol carries it and whoever made it.

use std::ops::Range;
use std::rc::Rc;

use howdah_files::OpenFile;
use howdah_htaccess::modules::filter::Filter;
use howdah_http::{ResponseHead, Status};
use howdah_php::Exchange;
use howdah_site::Resolution;

use super::upstream::Reply;

/// A response before it is encoded for a protocol.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) body: Body,
    /// What the content passes on its way out, the first one first.
    pub(super) filters: Vec<Filter>,
    /// The file that it is, by the head that is kept for it: what is made of its content can be
    /// kept as well.
    pub(super) document: Option<Rc<[u8]>>,
    /// Bytes of the content where the body does not tell.
    pub(super) length: Option<u64>,
    /// When the file was modified, in microseconds since 1970.
    pub(super) modified: Option<i64>,
    /// Whether the server makes its page: an error, or a redirect.
    pub(super) is_own: bool,
}

/// Status and fields.
#[derive(Debug)]
pub(super) enum Head {
    /// To be encoded.
    Plain(ResponseHead),
    /// Encoded for HTTP/1 once and kept: everything of a 200 but Date, Connection and the empty
    /// line.
    Prepared(Rc<[u8]>),
}

/// The content.
#[derive(Debug)]
pub(super) enum Body {
    /// Bytes in memory.
    Memory(Rc<[u8]>, Range<usize>),
    /// Part of a file.
    File {
        file: Rc<OpenFile>,
        offset: u64,
        length: u64,
    },
    /// Several pieces, one after the other.
    Pieces(Vec<Body>),
    /// What a worker makes of it.
    Script(Exchange),
    /// What an upstream sends.
    Upstream(Box<Reply>),
}

impl Answer {
    /// A page that says what `status` means.
    pub(super) fn error(status: Status) -> Answer {
        let mut head = ResponseHead::new(status);
        push(&mut head, b"Content-Type", b"text/html; charset=utf-8");
        Answer {
            is_own: true,
            ..Answer::new(Head::Plain(head), page(status))
        }
    }

    /// The same, where Howdah itself could not serve: a 503 of ours passes soon, one that a site's
    /// rules make may last for hours.
    pub(super) fn of_trouble(mut self) -> Answer {
        let has_own =
            matches!(&self.head, Head::Plain(head) if head.fields.value(b"retry-after").is_some());
        if self.status() == Status::SERVICE_UNAVAILABLE && !has_own {
            self.push(b"Retry-After", b"2");
        }
        self
    }

    /// Nothing but head and content.
    pub(super) fn new(head: Head, body: Body) -> Answer {
        Answer {
            head,
            body,
            filters: Vec::new(),
            document: None,
            length: None,
            modified: None,
            is_own: false,
        }
    }

    /// What needs neither a file nor a script.
    pub(super) fn of(resolution: Resolution) -> Answer {
        match resolution {
            Resolution::Redirect { status, location } => Answer::redirect(status, &location),
            Resolution::Allow { status, methods } => Answer::allow(status, methods),
            Resolution::Page { status, body } => Answer::page(status, body),
            Resolution::Status(status) => Answer::error(status),
            Resolution::Directory { .. } => Answer::error(Status::FORBIDDEN),
            Resolution::File { .. }
            | Resolution::Php(_)
            | Resolution::Listing { .. }
            | Resolution::Verify { .. }
            | Resolution::Proxy { .. }
            | Resolution::Discard { .. } => Answer::error(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// An error's page that the site's directives hold.
    fn page(status: Status, text: Vec<u8>) -> Answer {
        let all = 0..text.len();
        Answer {
            body: Body::Memory(text.into(), all),
            ..Answer::error(status)
        }
    }

    /// Look elsewhere.
    fn redirect(status: Status, location: &[u8]) -> Answer {
        let mut answer = Answer::error(status);
        answer.push(b"Location", location);
        answer
    }

    /// Which methods there are.
    fn allow(status: Status, methods: &str) -> Answer {
        let mut answer = match status.is_success() {
            true => Answer::new(Head::Plain(ResponseHead::new(status)), Body::none()),
            false => Answer::error(status),
        };
        answer.push(b"Allow", methods.as_bytes());
        answer
    }

    /// Adds a field.
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        if let Head::Plain(head) = &mut self.head {
            push(head, name, value);
        }
    }

    /// The status, for logs.
    pub(super) fn status(&self) -> Status {
        match &self.head {
            Head::Plain(head) => head.status,
            Head::Prepared(_) => Status::OK,
        }
    }
}

impl Body {
    /// No bytes.
    pub(super) fn none() -> Body {
        Body::Pieces(Vec::new())
    }

    /// All of these bytes.
    pub(super) fn whole(bytes: Rc<[u8]>) -> Body {
        let all = 0..bytes.len();
        Body::Memory(bytes, all)
    }

    /// Bytes of it, if they are known before they are sent.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Body::Memory(_, range) => Some(range.len() as u64),
            Body::File { length, .. } => Some(*length),
            Body::Pieces(pieces) => pieces.iter().map(Body::length).sum(),
            Body::Script(_) => None,
            Body::Upstream(reply) => reply.length(),
        }
    }
}

/// Adds a field of ours, or of a checked path; a value that cannot stand in a field line is left
/// out.
fn push(head: &mut ResponseHead, name: &[u8], value: &[u8]) {
    let pushed = head.push(name, value);
    debug_assert!(pushed.is_ok(), "our own fields can be sent");
}

fn page(status: Status) -> Body {
    let (code, reason) = (status.code(), status.reason());
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{code} {reason}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <style>body{{font:1.1em/1.5 system-ui,sans-serif;margin:15vh auto;max-width:30em;padding:0 1em}}\
         h1{{font-weight:600}}</style></head>\n<body><h1>{code} {reason}</h1><p>{}</p></body></html>\n",
        advice(status)
    );
    let bytes: Rc<[u8]> = text.into_bytes().into();
    let all = 0..bytes.len();
    Body::Memory(bytes, all)
}

/// What a visitor can make of it. Never what happened inside: that is in the log.
fn advice(status: Status) -> &'static str {
    match status.code() {
        400 => "The request could not be understood.",
        301 | 302 | 303 | 307 | 308 => "This page has moved.",
        403 => "You may not see this page.",
        404 => "There is no such page here.",
        405 => "This page cannot be used that way.",
        408 => "The request took too long to arrive.",
        413 => "What was sent is larger than this site accepts.",
        414 | 431 => "The request's address or headers are longer than this site accepts.",
        421 => "This server does not serve that site.",
        416 => "The file does not have that part.",
        502 => "The page broke off while it was being made. Trying again may help.",
        503 => "The site is busy. Please try again in a moment.",
        504 => "The page took too long to be made.",
        500..=599 => "Something went wrong on our side.",
        _ => "The request was not carried out.",
    }
}
