//! Answers to requests for files: whole, conditional, in parts.

use std::rc::Rc;

use howdah_htaccess::modules::core::EtagParts;
use howdah_http::conditional::{self, Decision, Validators};
use howdah_http::range::{self, Ranges, Span};
use howdah_http::{Fields, Method, Request, ResponseHead, Status, Text, date};
use howdah_site::ContentCoding;
use howdah_sys::stat::Stat;

use crate::body::FileBody;
use crate::document::Document;
use crate::file_parts::FileParts;
use crate::representation::Representation;

/// The answer to a request for a file.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The plain 200 to GET or HEAD.
    Whole {
        /// Its head: Content-Type, Last-Modified, ETag, Accept-Ranges.
        representation: Rc<Representation>,
        /// [`FileBody::None`] for HEAD and for an empty file.
        body: FileBody,
    },
    /// The same as `Whole` with another entity tag, which directives choose.
    Retagged {
        /// As in `Whole`, with the file's own tag.
        representation: Rc<Representation>,
        /// The entity tag to send instead; `None` for no entity tag.
        tag: Option<Text>,
        /// As in `Whole`.
        body: FileBody,
    },
    /// Several parts: 206. The media type is that of the file until [`FileParts::settle`] is
    /// called.
    Parts {
        /// Without framing, Date, Server and Connection. Content-Type is that of each part.
        head: ResponseHead,
        /// The parts, in order.
        parts: FileParts,
        /// When the file was modified, in seconds since 1970.
        modified: u64,
    },
    /// Every other answer that has fields of its own: 206 with one part, 304, 412, 416.
    Composed {
        /// Without framing, Date, Server and Connection.
        head: ResponseHead,
        /// The length of the content, for the framing.
        length: u64,
        /// As long as `length`, or [`FileBody::None`].
        body: FileBody,
        /// The time when the file was modified, in seconds since 1970.
        modified: u64,
    },
    /// An error without fields of its own: 403, 404, 405, 503. The caller makes the page.
    Status(Status),
}

impl Answer {
    /// The status, for the log.
    pub fn status(&self) -> Status {
        match self {
            Answer::Whole { .. } | Answer::Retagged { .. } => Status::OK,
            Answer::Composed { head, .. } | Answer::Parts { head, .. } => head.status,
            Answer::Status(status) => *status,
        }
    }

    /// The content; none with an error, and none of several parts.
    pub fn body(&self) -> &FileBody {
        match self {
            Answer::Whole { body, .. }
            | Answer::Retagged { body, .. }
            | Answer::Composed { body, .. } => body,
            Answer::Parts { .. } | Answer::Status(_) => &FileBody::None,
        }
    }
}

/// The form of the answer for a file, as directives demand it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerForm {
    /// The form in which the file is sent.
    pub variant: NegotiatedForm,
    /// The file is an error page: it is sent whole, and the request's conditions and ranges do not
    /// count.
    pub is_error_page: bool,
    /// The parts of the entity tag (FileETag).
    pub tag: EtagParts,
}

/// The form in which a file is sent, where content codings are negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiatedForm {
    /// As it is, and there is no other form.
    Only,
    /// As it is; another request may get another form.
    Varying,
    /// A file with that coding, in place of the file that is called the same without the ending.
    Coded(ContentCoding),
}

/// The form of the answer with a file that a script has named. Each value that the script has set
/// itself takes the place of the file's own.
#[derive(Clone, Copy, Debug)]
pub struct ScriptManner<'s> {
    /// The file is sent whole, and the request's conditions and ranges do not count.
    pub is_whole: bool,
    /// The media type.
    pub content_type: Option<&'s [u8]>,
    /// The value of Last-Modified.
    pub last_modified: Option<&'s [u8]>,
    /// The entity tag.
    pub tag: Option<&'s [u8]>,
}

/// A file, with the validators and the media type that it is sent with.
#[derive(Clone, Copy)]
struct Tagged<'d> {
    document: &'d Document,
    variant: NegotiatedForm,
    representation: &'d Rc<Representation>,
    tag: Option<&'d [u8]>,
    /// In seconds since 1970.
    modified: Option<u64>,
    last_modified: &'d [u8],
    content_type: &'d [u8],
}

impl<'d> Tagged<'d> {
    fn new(document: &'d Document, tag: Option<&'d [u8]>) -> Tagged<'d> {
        Tagged {
            document,
            variant: NegotiatedForm::Only,
            representation: document.representation(),
            tag,
            modified: Some(document.modified()),
            last_modified: document.last_modified(),
            content_type: document.content_type().as_bytes(),
        }
    }

    /// The file in another form. `tag` chooses the entity tag, given the form's own.
    fn varied(
        document: &'d Document,
        variant: NegotiatedForm,
        name: &[u8],
        tag: impl FnOnce(&'d [u8]) -> Option<&'d [u8]>,
    ) -> Tagged<'d> {
        if variant == NegotiatedForm::Only {
            return Tagged::new(document, tag(document.tag()));
        }
        let form = document.form(variant, name);
        Tagged {
            variant,
            representation: form.representation(),
            content_type: form.content_type().as_bytes(),
            ..Tagged::new(document, tag(form.tag()))
        }
    }

    fn of_script(document: &'d Document, manner: ScriptManner<'d>) -> Tagged<'d> {
        let own = Tagged::new(document, Some(document.tag()));
        Tagged {
            tag: manner.tag.or(own.tag),
            modified: match manner.last_modified {
                Some(date) => date::parse(date),
                None => own.modified,
            },
            last_modified: manner.last_modified.unwrap_or(own.last_modified),
            content_type: manner.content_type.unwrap_or(own.content_type),
            ..own
        }
    }

    fn validators(self) -> Validators<'d> {
        Validators {
            etag: self.tag,
            last_modified: self.modified,
        }
    }

    fn push_validators(self, fields: &mut Fields) {
        if self.variant != NegotiatedForm::Only {
            fields.push(b"Vary", b"Accept-Encoding");
        }
        fields.push(b"Last-Modified", self.last_modified);
        if let Some(tag) = self.tag {
            fields.push(b"ETag", tag);
        }
    }

    /// Returns a head that tells the type, the validators, and that parts may be asked for.
    fn head(self, status: Status) -> ResponseHead {
        let mut head = ResponseHead::new(status);
        head.fields.push(b"Content-Type", self.content_type);
        self.push_validators(&mut head.fields);
        head.fields.push(b"Accept-Ranges", b"bytes");
        head
    }

    fn push_coding(self, fields: &mut Fields) {
        if let NegotiatedForm::Coded(coding) = self.variant {
            fields.push(b"Content-Encoding", coding.token().as_bytes());
        }
    }

    /// The plain 200.
    fn whole(self, body: FileBody) -> Answer {
        let representation = Rc::clone(self.representation);
        let own = match self.variant {
            NegotiatedForm::Only => Some(self.document.tag()),
            _ => representation.head().head().fields.value(b"etag"),
        };
        if self.tag == own {
            return Answer::Whole { representation, body };
        }
        let tag = self.tag.map(|tag| {
            let mut text = Text::new();
            text.push(tag);
            text
        });
        Answer::Retagged { representation, tag, body }
    }
}

/// Answers `request` for `document` where directives apply. `stat` is the file's state, `now` the
/// time in seconds since 1970.
pub(crate) fn answer_in_manner(
    document: &Document,
    stat: Option<&Stat>,
    name: &[u8],
    request: &Request,
    manner: AnswerForm,
    now: u64,
) -> Answer {
    let made = match manner.tag {
        EtagParts::NONE | EtagParts::DEFAULT => None,
        parts => stat.and_then(|stat| tag_of(parts, stat)),
    };
    let tagged = Tagged::varied(document, manner.variant, name, |own| match manner.tag {
        EtagParts::NONE => None,
        // The file's own tag is made of length and time, and for a small file of a digest of its
        // bytes.
        EtagParts::DEFAULT => Some(own),
        parts if parts.has(EtagParts::DIGEST) => Some(own),
        _ => made.as_deref(),
    });
    let body = document.body(0, document.size());
    if manner.is_error_page || !has_conditions(&request.fields) {
        return tagged.whole(body);
    }
    conditional(tagged, request, now, body)
}

/// Answers `request` for `document`, which a script has named. All answers but errors have a head
/// of their own.
pub(crate) fn answer_for_script(
    document: &Document,
    request: &Request,
    manner: ScriptManner<'_>,
    now: u64,
) -> Answer {
    let tagged = Tagged::of_script(document, manner);
    let body = document.body(0, document.size());
    let is_conditional = !manner.is_whole
        && matches!(request.method, Method::Get | Method::Head)
        && has_conditions(&request.fields);
    let answer = match is_conditional {
        true => conditional(tagged, request, now, body),
        false => tagged.whole(body),
    };
    match answer {
        Answer::Whole { body, .. } | Answer::Retagged { body, .. } => Answer::Composed {
            head: tagged.head(Status::OK),
            length: document.size(),
            body,
            modified: document.modified(),
        },
        other => other,
    }
}

/// Returns an entity tag of Apache's form: inode, length and time in microseconds, in hexadecimal.
fn tag_of(parts: EtagParts, stat: &Stat) -> Option<Text> {
    let microseconds = stat.modified.seconds.saturating_mul(1_000_000)
        + i64::from(stat.modified.nanoseconds / 1000);
    let known = [
        (EtagParts::INODE, stat.inode),
        (EtagParts::SIZE, stat.size),
        (EtagParts::MTIME, microseconds.cast_unsigned()),
    ];
    let mut text = Text::new();
    text.push(b"\"");
    for (_, number) in known.into_iter().filter(|(part, _)| parts.has(*part)) {
        if text.len() > 1 {
            text.push(b"-");
        }
        text.push_hexadecimal(number);
    }
    text.push(b"\"");
    (text.len() > 2).then_some(text)
}

/// Answers `request` for `document`. `now` is in seconds since 1970.
#[inline]
pub(crate) fn answer(document: &Document, request: &Request, now: u64) -> Answer {
    let body = match request.method {
        Method::Get | Method::Post => document.body(0, document.size()),
        Method::Head => FileBody::None,
        // `site` lets nothing else through.
        _ => return Answer::Status(Status::METHOD_NOT_ALLOWED),
    };
    if has_conditions(&request.fields) {
        let tagged = Tagged::new(document, Some(document.tag()));
        return conditional(tagged, request, now, body);
    }
    Answer::Whole {
        representation: Rc::clone(document.representation()),
        body,
    }
}

/// Returns whether any field of the request can change the answer from the plain 200: Range,
/// If-Match, If-Range, If-None-Match, If-Modified-Since, If-Unmodified-Since. Fields are compared
/// by length and first letter only, since this runs for every request. A wrong guess costs only
/// time.
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
fn conditional(tagged: Tagged<'_>, request: &Request, now: u64, body: FileBody) -> Answer {
    let document = tagged.document;
    let validators = tagged.validators();
    match conditional::decide(&request.method, &request.fields, Some(&validators), now) {
        Decision::PreconditionFailed => return precondition_failed(tagged),
        Decision::NotModified => return not_modified(tagged),
        Decision::Proceed => {}
    }
    let size = document.size();
    let ranges = if conditional::range_applies(&request.fields, &validators, now) {
        range::requested(&request.method, &request.fields, size)
    } else {
        Ranges::Whole
    };
    match ranges {
        Ranges::Whole => tagged.whole(body),
        Ranges::One(span) => part(tagged, span),
        Ranges::Many(spans) => parts(tagged, &spans),
        Ranges::Unsatisfiable => unsatisfiable(document),
    }
}

/// RFC 9110 §15.4.5: the fields that a cache needs to find and refresh what it has, and no
/// description of the content.
fn not_modified(tagged: Tagged<'_>) -> Answer {
    let mut head = ResponseHead::new(Status::NOT_MODIFIED);
    tagged.push_validators(&mut head.fields);
    without_content(head, tagged.document)
}

/// A 412 without content tells the validators that the file has now, as with Apache.
fn precondition_failed(tagged: Tagged<'_>) -> Answer {
    without_content(tagged.head(Status::PRECONDITION_FAILED), tagged.document)
}

fn part(tagged: Tagged<'_>, span: Span) -> Answer {
    let document = tagged.document;
    let mut head = ResponseHead::new(Status::PARTIAL_CONTENT);
    head.fields.push(b"Content-Type", tagged.content_type);
    tagged.push_coding(&mut head.fields);
    head.fields.push(b"Content-Range", &range::content_range(span, document.size()));
    tagged.push_validators(&mut head.fields);
    head.fields.push(b"Accept-Ranges", b"bytes");
    Answer::Composed {
        head,
        length: span.length(),
        body: document.body(span.first, span.length()),
        modified: document.modified(),
    }
}

fn parts(tagged: Tagged<'_>, spans: &[Span]) -> Answer {
    let document = tagged.document;
    let mut head = ResponseHead::new(Status::PARTIAL_CONTENT);
    head.fields.push(b"Content-Type", tagged.content_type);
    tagged.push_coding(&mut head.fields);
    tagged.push_validators(&mut head.fields);
    head.fields.push(b"Accept-Ranges", b"bytes");
    Answer::Parts {
        head,
        parts: FileParts::new(document, spans),
        modified: document.modified(),
    }
}

/// RFC 9110 §15.5.17.
fn unsatisfiable(document: &Document) -> Answer {
    let mut head = ResponseHead::new(Status::RANGE_NOT_SATISFIABLE);
    head.fields
        .push(b"Content-Range", &range::unsatisfied_content_range(document.size()));
    head.fields.push(b"Accept-Ranges", b"bytes");
    without_content(head, document)
}

fn without_content(head: ResponseHead, document: &Document) -> Answer {
    Answer::Composed {
        head,
        length: 0,
        body: FileBody::None,
        modified: document.modified(),
    }
}
