//! Answers to requests for files: whole, conditional, in parts.

use std::rc::Rc;

use howdah_htaccess::modules::core::EtagParts;
use howdah_http::conditional::{self, PreconditionOutcome, Validators};
use howdah_http::range::{self, Ranges};
use howdah_http::{Fields, Method, Request, ResponseHead, ShortText, Status, date};
use howdah_site::ContentCoding;
use howdah_sys::stat::Stat;

use crate::body::FileBody;
use crate::document::Document;
use crate::file_parts::FileParts;
use crate::representation::Representation;

/// The answer to a request for a file: the file as it is sent whole, and what is asked for of it.
/// Directives and codings change the head of the former, whatever is asked for.
#[derive(Clone, Debug)]
pub struct FileAnswer {
    /// The file, with the head of the plain 200: Content-Type, Last-Modified, ETag, Accept-Ranges.
    pub representation: Rc<Representation>,
    /// The entity tag of the plain 200.
    pub tag: SentTag,
    /// The content of the plain 200; [`FileBody::None`] for an empty file.
    pub body: FileBody,
    /// The part of the plain 200 that is sent.
    pub asked: RequestedPart,
}

/// The entity tag with which a file is sent.
#[derive(Clone, Debug)]
pub enum SentTag {
    /// The tag of the representation.
    Own,
    /// One that directives choose; `None` for no entity tag.
    Other(Option<ShortText>),
}

/// The part of a file that a request asks for, or that it gets.
#[derive(Clone, Debug)]
pub enum RequestedPart {
    /// All of it: 200.
    Whole,
    /// Nothing, because the client has it: 304.
    NotModified,
    /// One part: 206.
    Part(FilePart),
    /// Several parts: 206.
    Parts(FileParts),
    /// Something that it cannot have: 412 or 416, with a head of its own, and without content.
    Failed(Box<ResponseHead>),
}

/// One part of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    /// The value of Content-Range.
    content_range: ShortText,
    pub(crate) body: FileBody,
}

impl FileAnswer {
    /// Returns the head for directives and codings to change, before [`RequestedPart::select`]:
    /// that of the plain 200, or of the 304. Framing, Date, Server and Connection are the
    /// protocol's.
    pub fn head(&self) -> ResponseHead {
        let mut head = self.representation.head().head().clone();
        if let SentTag::Other(tag) = &self.tag {
            head.fields.remove(b"etag");
            tag.iter().for_each(|tag| head.fields.push(b"ETag", tag));
        }
        self.asked.begin(&mut head);
        head
    }
}

impl RequestedPart {
    /// Returns whether a part of the content is asked for.
    pub fn is_part(&self) -> bool {
        matches!(self, RequestedPart::Part(_) | RequestedPart::Parts(_))
    }

    /// Makes the head of a plain 200 that of a 304, if the client has the file: it has the fields
    /// that a cache needs to find and refresh what it has (RFC 9110 §15.4.5). The media type is
    /// there for directives that depend on it.
    fn begin(&self, head: &mut ResponseHead) {
        if matches!(self, RequestedPart::NotModified) {
            head.status = Status::NOT_MODIFIED;
            head.fields.remove(b"content-encoding");
            head.fields.remove(b"accept-ranges");
        }
    }

    /// Changes the [head](FileAnswer::head) to the one of what is asked for. Returns the content,
    /// which is `whole` where all of it is asked for.
    pub fn select(self, head: &mut ResponseHead, whole: FileBody) -> FileBody {
        match self {
            RequestedPart::Whole => whole,
            RequestedPart::NotModified => {
                head.fields.remove(b"content-type");
                FileBody::None
            }
            RequestedPart::Part(part) => {
                head.status = Status::PARTIAL_CONTENT;
                head.fields.set(b"Content-Range", &part.content_range);
                part.body
            }
            RequestedPart::Parts(parts) => {
                head.status = Status::PARTIAL_CONTENT;
                parts.settle(head)
            }
            RequestedPart::Failed(failed) => {
                *head = *failed;
                FileBody::None
            }
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
    /// The file itself. There is no other form.
    Only,
    /// The file itself. Another request may get another form.
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
struct TaggedFile<'d> {
    document: &'d Document,
    variant: NegotiatedForm,
    representation: &'d Rc<Representation>,
    tag: Option<&'d [u8]>,
    /// In seconds since 1970.
    modified: Option<u64>,
    last_modified: &'d [u8],
    content_type: &'d [u8],
}

impl<'d> TaggedFile<'d> {
    fn new(document: &'d Document, tag: Option<&'d [u8]>) -> TaggedFile<'d> {
        TaggedFile {
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
    ) -> TaggedFile<'d> {
        if variant == NegotiatedForm::Only {
            return TaggedFile::new(document, tag(document.tag()));
        }
        let form = document.form(variant, name);
        TaggedFile {
            variant,
            representation: form.representation(),
            content_type: form.content_type().as_bytes(),
            ..TaggedFile::new(document, tag(form.tag()))
        }
    }

    fn of_script(document: &'d Document, manner: ScriptManner<'d>) -> TaggedFile<'d> {
        let own = TaggedFile::new(document, Some(document.tag()));
        TaggedFile {
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

    /// Returns a head that tells the type, the validators, and that parts may be asked for.
    fn head(self, status: Status) -> ResponseHead {
        let mut head = ResponseHead::new(status);
        head.fields.push(b"Content-Type", self.content_type);
        if self.variant != NegotiatedForm::Only {
            head.fields.push(b"Vary", b"Accept-Encoding");
        }
        head.fields.push(b"Last-Modified", self.last_modified);
        self.tag.iter().for_each(|tag| head.fields.push(b"ETag", tag));
        head.fields.push(b"Accept-Ranges", b"bytes");
        head
    }

    /// Returns the answer with that content, of which `asked` is asked for.
    fn answer(self, body: FileBody, asked: RequestedPart) -> FileAnswer {
        let own = match self.variant {
            NegotiatedForm::Only => Some(self.document.tag()),
            _ => self.representation.head().head().fields.value(b"etag"),
        };
        let text = |tag: &[u8]| {
            let mut text = ShortText::new();
            text.push(tag);
            text
        };
        FileAnswer {
            representation: Rc::clone(self.representation),
            tag: match self.tag == own {
                true => SentTag::Own,
                false => SentTag::Other(self.tag.map(text)),
            },
            body,
            asked,
        }
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
) -> FileAnswer {
    let made = match manner.tag {
        EtagParts::NONE | EtagParts::DEFAULT => None,
        parts => stat.and_then(|stat| tag_of(parts, stat)),
    };
    let tagged = TaggedFile::varied(document, manner.variant, name, |own| match manner.tag {
        EtagParts::NONE => None,
        // The file's own tag is made of length and time, and for a small file of a digest of its
        // bytes.
        EtagParts::DEFAULT => Some(own),
        parts if parts.has(EtagParts::DIGEST) => Some(own),
        _ => made.as_deref(),
    });
    let body = document.body(0, document.size());
    let asked = match manner.is_error_page || !has_conditions(&request.fields) {
        true => RequestedPart::Whole,
        false => conditional(tagged, request, now),
    };
    tagged.answer(body, asked)
}

/// Answers `request` for `document`, which a script has named. Returns the head to begin with as
/// well, which has what the script has set.
pub(crate) fn answer_for_script(
    document: &Document,
    request: &Request,
    manner: ScriptManner<'_>,
    now: u64,
) -> (ResponseHead, FileAnswer) {
    let tagged = TaggedFile::of_script(document, manner);
    let is_conditional = !manner.is_whole
        && matches!(request.method, Method::Get | Method::Head)
        && has_conditions(&request.fields);
    let asked = match is_conditional {
        true => conditional(tagged, request, now),
        false => RequestedPart::Whole,
    };
    let mut head = tagged.head(Status::OK);
    asked.begin(&mut head);
    (head, tagged.answer(document.body(0, document.size()), asked))
}

/// Returns an entity tag of Apache's form: inode, length and time in microseconds, in hexadecimal.
fn tag_of(parts: EtagParts, stat: &Stat) -> Option<ShortText> {
    let microseconds = stat.modified.seconds.saturating_mul(1_000_000)
        + i64::from(stat.modified.nanoseconds / 1000);
    let known = [
        (EtagParts::INODE, stat.inode),
        (EtagParts::SIZE, stat.size),
        (EtagParts::MTIME, microseconds.cast_unsigned()),
    ];
    let mut text = ShortText::new();
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
///
/// # Errors
/// 405.
#[inline]
pub(crate) fn answer(
    document: &Document,
    request: &Request,
    now: u64,
) -> Result<FileAnswer, Status> {
    let body = match request.method {
        Method::Get | Method::Post => document.body(0, document.size()),
        Method::Head => FileBody::None,
        // `site` lets nothing else through.
        _ => return Err(Status::METHOD_NOT_ALLOWED),
    };
    let asked = match has_conditions(&request.fields) {
        true => conditional(TaggedFile::new(document, Some(document.tag())), request, now),
        false => RequestedPart::Whole,
    };
    Ok(FileAnswer {
        representation: Rc::clone(document.representation()),
        tag: SentTag::Own,
        body,
        asked,
    })
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
fn conditional(tagged: TaggedFile<'_>, request: &Request, now: u64) -> RequestedPart {
    let (document, validators) = (tagged.document, tagged.validators());
    match conditional::decide(&request.method, &request.fields, Some(&validators), now) {
        // A 412 without content tells the validators that the file has now, as with Apache.
        PreconditionOutcome::PreconditionFailed => {
            return RequestedPart::Failed(Box::new(tagged.head(Status::PRECONDITION_FAILED)));
        }
        PreconditionOutcome::NotModified => return RequestedPart::NotModified,
        PreconditionOutcome::Proceed => {}
    }
    if !conditional::range_applies(&request.fields, &validators, now) {
        return RequestedPart::Whole;
    }
    match range::requested(&request.method, &request.fields, document.size()) {
        Ranges::Whole => RequestedPart::Whole,
        Ranges::One(span) => RequestedPart::Part(FilePart {
            content_range: range::content_range(span, document.size()),
            body: document.body(span.first, span.length()),
        }),
        Ranges::Many(spans) => RequestedPart::Parts(FileParts::new(document, &spans)),
        Ranges::Unsatisfiable => RequestedPart::Failed(Box::new(unsatisfiable(document))),
    }
}

/// RFC 9110 §15.5.17.
fn unsatisfiable(document: &Document) -> ResponseHead {
    let mut head = ResponseHead::new(Status::RANGE_NOT_SATISFIABLE);
    head.fields
        .push(b"Content-Range", &range::unsatisfied_content_range(document.size()));
    head.fields.push(b"Accept-Ranges", b"bytes");
    head
}
