//! What a request for a file gets.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;

use howdah_http::conditional::{self, Decision};
use howdah_http::range::{self, Multipart, Ranges, Span};
use howdah_http::{Fields, Method, Request, ResponseHead, Status};

use crate::body::FileBody;
use crate::document::Document;

/// What a request for a file gets.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The plain 200 to GET or HEAD, encoded already.
    Prepared {
        /// `HTTP/1.1 200 OK`, Server, Content-Type, Content-Length, Last-Modified, ETag, Accept-Ranges; each line with its
        /// CRLF. What is missing is Date, Connection where it must be said, and the empty line.
        head: Rc<[u8]>,
        /// [`FileBody::None`] for HEAD and for an empty file.
        body: FileBody,
    },
    /// Everything else that succeeds or has fields of its own: 206, 304, 416.
    Composed {
        /// Without framing, Date, Server and Connection.
        head: ResponseHead,
        /// The length of the content, for the framing.
        length: u64,
        /// As long as `length`, or [`FileBody::None`].
        body: FileBody,
    },
    /// An error without fields of its own: 403, 404, 405, 412, 503. The caller makes the page.
    Status(Status),
}

impl Answer {
    /// The status, for the log.
    pub fn status(&self) -> Status {
        match self {
            Answer::Prepared { .. } => Status::OK,
            Answer::Composed { head, .. } => head.status,
            Answer::Status(status) => *status,
        }
    }

    /// The content; none with an error.
    pub fn body(&self) -> &FileBody {
        match self {
            Answer::Prepared { body, .. } | Answer::Composed { body, .. } => body,
            Answer::Status(_) => &FileBody::None,
        }
    }
}

/// What `request` for `document` gets at that second.
#[inline]
pub(crate) fn answer(document: &Document, request: &Request, now: u64) -> Answer {
    let body = match request.method {
        Method::Get => document.body(0, document.size()),
        Method::Head => FileBody::None,
        // `site` lets nothing else through.
        _ => return Answer::Status(Status::METHOD_NOT_ALLOWED),
    };
    if has_conditions(&request.fields) {
        return conditional(document, request, now, body);
    }
    Answer::Prepared {
        head: Rc::clone(document.prepared_head()),
        body,
    }
}

/// Whether anything in the request can make the answer another than the plain 200: Range, If-Match, If-Range,
/// If-None-Match, If-Modified-Since, If-Unmodified-Since. By length and first letter, since this runs for every request;
/// another field that looks alike only costs the longer way.
#[inline]
fn has_conditions(fields: &Fields) -> bool {
    fields.iter().any(|(name, _)| match name.len() {
        5 => name[0] | 0x20 == b'r',
        8 | 13 | 17 | 19 => name[0] | 0x20 == b'i',
        _ => false,
    })
}

/// RFC 9110 §13.2.2: preconditions, then If-Range and Range.
#[cold]
fn conditional(document: &Document, request: &Request, now: u64, body: FileBody) -> Answer {
    let validators = document.validators();
    match conditional::decide(&request.method, &request.fields, Some(&validators)) {
        Decision::PreconditionFailed => return Answer::Status(Status::PRECONDITION_FAILED),
        Decision::NotModified => return not_modified(document),
        Decision::Proceed => {}
    }
    let size = document.size();
    let ranges = if conditional::range_applies(&request.fields, &validators, now) {
        range::requested(&request.method, &request.fields, size)
    } else {
        Ranges::Whole
    };
    match ranges {
        Ranges::Whole => Answer::Prepared {
            head: Rc::clone(document.prepared_head()),
            body,
        },
        Ranges::One(span) => part(document, span),
        Ranges::Many(spans) => parts(document, &spans),
        Ranges::Unsatisfiable => unsatisfiable(document),
    }
}

/// RFC 9110 §15.4.5: the fields that a cache needs to find and refresh what it has, and no description of the content.
fn not_modified(document: &Document) -> Answer {
    let mut head = ResponseHead::new(Status::NOT_MODIFIED);
    document.push_validators(&mut head.fields);
    Answer::Composed {
        head,
        length: 0,
        body: FileBody::None,
    }
}

fn part(document: &Document, span: Span) -> Answer {
    let mut head = ResponseHead::new(Status::PARTIAL_CONTENT);
    head.fields
        .push(b"Content-Type", document.content_type().as_bytes());
    head.fields
        .push(b"Content-Range", &range::content_range(span, document.size()));
    document.push_validators(&mut head.fields);
    head.fields.push(b"Accept-Ranges", b"bytes");
    Answer::Composed {
        head,
        length: span.length(),
        body: document.body(span.first, span.length()),
    }
}

fn parts(document: &Document, spans: &[Span]) -> Answer {
    // The boundary must not stand in the content. 64 bits that nobody can foresee will not, and no one can upload a file
    // that makes them.
    let token = RandomState::new().hash_one(spans.len());
    let plan = Multipart::plan(spans, document.size(), document.content_type().as_bytes(), token);
    let mut head = ResponseHead::new(Status::PARTIAL_CONTENT);
    head.fields.push(b"Content-Type", &plan.content_type);
    document.push_validators(&mut head.fields);
    head.fields.push(b"Accept-Ranges", b"bytes");
    let mut body = Vec::with_capacity(2 * plan.parts.len() + 1);
    for part in plan.parts {
        body.push(memory(part.head));
        body.push(document.body(part.span.first, part.span.length()));
    }
    body.push(memory(plan.tail));
    Answer::Composed {
        head,
        length: plan.length,
        body: FileBody::Multipart(body),
    }
}

fn memory(bytes: Vec<u8>) -> FileBody {
    let length = bytes.len();
    FileBody::Memory(bytes.into(), 0..length)
}

/// RFC 9110 §15.5.17.
fn unsatisfiable(document: &Document) -> Answer {
    let mut head = ResponseHead::new(Status::RANGE_NOT_SATISFIABLE);
    head.fields.push(
        b"Content-Range",
        &range::unsatisfied_content_range(document.size()),
    );
    head.fields.push(b"Accept-Ranges", b"bytes");
    Answer::Composed {
        head,
        length: 0,
        body: FileBody::None,
    }
}
