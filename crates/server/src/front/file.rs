//! Answering from a file.

use std::rc::Rc;

use howdah_files::{self as files, FileBody, Manner};
use howdah_htaccess::modules::core::EtagParts;
use howdah_htaccess::response::passes_filters;
use howdah_http::conditional::{self, Decision, Validators};
use howdah_http::{Method, ResponseHead, Status, Text, date};
use howdah_site::{DocumentPath, FileHandle, Ruled, Site};

use super::answer::{Answer, Body, Head};
use super::connection::Connection;
use super::rules::{self, Arrival};
use super::trouble::Failed;
use super::wardrobe;
use super::workspace::Workspace;

/// What the request in `work` gets of the file at `path`.
pub(super) fn answer(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: Option<&mut Rc<Ruled>>,
    (path, file): (DocumentPath, FileHandle),
) -> Result<Answer, Failed> {
    if let Some(ruled) = ruled {
        return answer_ruled(connection, work, site, arrival, ruled, (path, file));
    }
    let answer = connection.thread().store().answer(&work.request, &path, file);
    work.scratch.reuse(path);
    match answer {
        files::Answer::Prepared { head, body } | files::Answer::Retagged { head, body, .. } => {
            Ok(Answer::new(Head::Prepared(head), body.into()))
        }
        files::Answer::Composed { head, body, .. } => {
            Ok(Answer::new(Head::Plain(head), body.into()))
        }
        files::Answer::Status(status) => Err(status.into()),
    }
}

/// The same where directives apply.
fn answer_ruled(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: &mut Rc<Ruled>,
    (path, file): (DocumentPath, FileHandle),
) -> Result<Answer, Failed> {
    let core = ruled.settings.core.as_ref();
    let manner = Manner {
        is_error_page: ruled.state.status != Status::OK,
        tag: core.map_or(EtagParts::DEFAULT, |core| core.etag_parts()),
    };
    let ask = |work: &Workspace, manner| {
        let mut host = connection.thread().host(site, arrival.started);
        host.store.answer_in_manner(&work.request, &path, file, manner)
    };
    let mut found = ask(work, manner);
    let status = found.status();
    if status == Status::PARTIAL_CONTENT && passes_filters(&ruled.state, &ruled.settings) {
        // A part of compressed content is no part of the content compressed. RFC 9110 §14.2 lets a
        // server leave Range alone.
        let kept = (ruled.state.fields.clone(), ruled.state.error_fields.clone());
        let is_error_page = true;
        let all = ask(work, Manner { is_error_page, ..manner });
        let answer = dressed(connection, work, site, arrival, ruled, all)?;
        if !answer.filters.is_empty() {
            work.scratch.reuse(path);
            return Ok(answer);
        }
        let state = &mut Rc::make_mut(ruled).state;
        (state.fields, state.error_fields) = kept;
        found = ask(work, manner);
    }
    work.scratch.reuse(path);
    dressed(connection, work, site, arrival, ruled, found)
}

/// A file as directives want it. What they make of its head is kept beside it where it depends on
/// nothing else.
fn dressed(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: &mut Rc<Ruled>,
    found: files::Answer,
) -> Result<Answer, Failed> {
    let thread = connection.thread();
    let (document, tag, body) = match found {
        files::Answer::Prepared { head, body } => (head, Tag::Own, body),
        files::Answer::Retagged { head, tag, body } => (head, Tag::Other(tag), body),
        files::Answer::Composed { head, body, .. } => {
            return composed(connection, work, site, arrival, ruled, head, body);
        }
        files::Answer::Status(status) => return Err(status.into()),
    };
    let (is_head, is_error_page) =
        (work.request.method == Method::Head, ruled.state.status != Status::OK);
    let content = |body: Body| if is_head { Body::none() } else { body };
    let second = arrival.began.seconds();
    let fields = &work.request.fields;
    let is_plain =
        !is_error_page && !fields.contains(b"if-none-match") && !fields.contains(b"range");
    if is_plain && let Some(head) = thread.wardrobe().find_recent(&document, ruled, second) {
        return Ok(Answer::new(Head::Prepared(head), content(body.into())));
    }
    if matches!(tag, Tag::Own) && wardrobe::is_left_alone(ruled, &document) {
        return Ok(Answer::new(Head::Prepared(document), content(body.into())));
    }
    if is_plain
        && let Some((head, filters)) =
            thread.wardrobe().find(&document, ruled, &work.request, second)
    {
        let pressed = thread.pressed().of(&document, filters);
        if filters.is_empty() || pressed.is_some() {
            let body = pressed.map_or_else(|| body.into(), Body::whole);
            return Ok(Answer::new(Head::Prepared(head), content(body)));
        }
    }
    let dress = wardrobe::Dress::of(ruled, &work.request).filter(|_| is_plain);
    let length = body.length();
    let mut head = wardrobe::read_head(&document);
    head.status = ruled.state.status;
    if let Tag::Other(tag) = tag {
        head.fields.remove(b"etag");
        tag.iter().for_each(|tag| head.fields.push(b"ETag", tag));
    }
    wardrobe::set_content_type(&mut head, ruled);
    let mut answer = Answer::new(Head::Plain(head), body.into());
    answer.modified = answer.last_modified();
    let answer = rules::dress(connection, work, site, arrival, Some(ruled), answer)?;
    let Head::Plain(head) = &answer.head else {
        return Ok(answer);
    };
    // What has passed filters can be kept once it has, which it has not at first.
    let pressed = thread.pressed().of(&document, &answer.filters);
    if let Some(dress) = dress
        && (answer.filters.is_empty() || pressed.is_some())
    {
        let length = pressed.as_ref().map_or(length, |pressed| pressed.len() as u64);
        let mut wardrobe = thread.wardrobe();
        let head = wardrobe.keep(&document, ruled, dress, second, head, length, &answer.filters);
        let body = pressed.map_or(answer.body, Body::whole);
        return Ok(Answer::new(Head::Prepared(head), content(body)));
    }
    if !answer.filters.is_empty() && is_known_compressed(work, head) {
        return Ok(not_modified(answer));
    }
    Ok(Answer { document: Some(document), ..answer })
}

/// The entity tag that a file is sent with.
enum Tag {
    Own,
    Other(Option<Text>),
}

/// A part, or that nothing has changed, or an error with fields of its own.
fn composed(
    connection: &Connection,
    work: &mut Workspace,
    site: &Site,
    arrival: &Arrival,
    ruled: &mut Rc<Ruled>,
    mut head: ResponseHead,
    body: FileBody,
) -> Result<Answer, Failed> {
    let core = ruled.settings.core.as_ref();
    if head.status.code() >= 400
        && core.is_some_and(|core| core.error_document(head.status).is_some())
    {
        return Err(head.status.into());
    }
    let in_parts = matches!(body, FileBody::Multipart(_));
    if head.status.is_success() && !in_parts {
        wardrobe::set_content_type(&mut head, ruled);
    }
    let mut answer = Answer::new(Head::Plain(head), body.into());
    answer.modified = answer.last_modified();
    // For directives a 304 is what the file said, and no error.
    answer.is_own = answer.status().code() >= 400;
    let dressed = rules::dress(connection, work, site, arrival, Some(ruled), answer)?;
    Ok(Answer { filters: Vec::new(), ..dressed })
}

/// Whether the client has the content already in the form that the filters would give it. The tag
/// says which form that is, and it is known only when they have been chosen.
fn is_known_compressed(work: &Workspace, head: &ResponseHead) -> bool {
    let request = &work.request;
    if head.status != Status::OK || !request.fields.contains(b"if-none-match") {
        return false;
    }
    let validators = Validators {
        etag: head.fields.value(b"etag"),
        last_modified: None,
    };
    conditional::decide(&request.method, &request.fields, Some(&validators))
        == Decision::NotModified
}

fn not_modified(mut answer: Answer) -> Answer {
    if let Head::Plain(head) = &mut answer.head {
        head.status = Status::NOT_MODIFIED;
        for name in ["Content-Type", "Content-Encoding", "Content-Language", "Accept-Ranges"] {
            head.fields.remove(name.as_bytes());
        }
    }
    Answer::new(answer.head, Body::none())
}

impl Answer {
    fn last_modified(&self) -> Option<i64> {
        let Head::Plain(head) = &self.head else {
            return None;
        };
        let seconds = date::parse(head.fields.value(b"last-modified")?)?;
        i64::try_from(seconds).ok()?.checked_mul(1_000_000)
    }
}

impl From<FileBody> for Body {
    fn from(body: FileBody) -> Body {
        match body {
            FileBody::None => Body::none(),
            FileBody::Memory(bytes, range) => Body::Memory(bytes, range),
            FileBody::File { file, offset, length } => Body::File { file, offset, length },
            FileBody::Multipart(parts) => Body::Pieces(parts.into_iter().map(Body::from).collect()),
        }
    }
}
