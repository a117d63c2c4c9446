//! What a request is answered with, whatever protocol carries it and whoever made it.

use std::ops::Range;
use std::rc::Rc;

use howdah_files::OpenFile;
use howdah_http::{ResponseHead, Status};
use howdah_php::Exchange;

use super::trouble::Trouble;

/// A response before it is encoded for a protocol.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) body: Body,
}

/// Status and fields.
#[derive(Debug)]
pub(super) enum Head {
    /// To be encoded.
    Plain(ResponseHead),
    /// Encoded for HTTP/1 once and kept: everything of a 200 but Date, Connection and the empty line.
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
}

impl Answer {
    /// A page that says what `status` means.
    pub(super) fn error(status: Status) -> Answer {
        let mut head = ResponseHead::new(status);
        push(&mut head, b"Content-Type", b"text/html; charset=utf-8");
        Answer {
            head: Head::Plain(head),
            body: page(status),
        }
    }

    /// 503, with the time after which it is worth trying again.
    pub(super) fn busy() -> Answer {
        let mut answer = Answer::error(Status::SERVICE_UNAVAILABLE);
        answer.push(b"Retry-After", b"2");
        answer
    }

    /// Look elsewhere.
    pub(super) fn redirect(status: Status, location: &[u8]) -> Answer {
        let mut answer = Answer::error(status);
        answer.push(b"Location", location);
        answer
    }

    /// Which methods there are.
    pub(super) fn allow(status: Status, methods: &str) -> Answer {
        let mut answer = Answer::error(status);
        if status.is_success() {
            answer.body = Body::none();
        }
        answer.push(b"Allow", methods.as_bytes());
        answer
    }

    /// What the client is told of `trouble`; `None` if there is nobody to tell.
    pub(super) fn to_trouble(trouble: &Trouble) -> Option<Answer> {
        let status = trouble.status?;
        Some(if status == Status::SERVICE_UNAVAILABLE {
            Answer::busy()
        } else {
            Answer::error(status)
        })
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

    /// Bytes of it, if they are known before they are sent.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Body::Memory(_, range) => Some(range.len() as u64),
            Body::File { length, .. } => Some(*length),
            Body::Pieces(pieces) => pieces.iter().map(Body::length).sum(),
            Body::Script(_) => None,
        }
    }
}

/// Adds a field of ours, or of a checked path; a value that cannot stand in a field line is left out.
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
