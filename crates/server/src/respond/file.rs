//! Answering with a file.

use std::rc::Rc;

use howdah_files::{
    self as files, AnswerForm, FileAnswer, FileBody, NegotiatedForm, Representation, RequestedPart,
    SentTag,
};
use howdah_htaccess::modules::core::EtagParts;
use howdah_htaccess::response;
use howdah_http::{Fields, Request, ResponseHead, Status};
use howdah_site::{DocumentPath, FileHandle, RuledRequest, Site};

use super::codings::{self, CodingFacts};
use super::not_modified;
use super::prepared::{HeadConditions, PreparedResponse};
use crate::body::{ResponseBody, coding};
use crate::observe::{RequestError, RespondError};
use crate::pipeline::{RequestContext, Response, ResponseHeadSource, adjust};

/// Responds with the file at `path`. Content of the request, such as a form that is posted to a
/// page, is received first and discarded.
///
/// # Errors
/// The status of an error without fields of its own, or the content cannot be received.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    (path, file): (DocumentPath, FileHandle),
) -> Result<Response, RespondError> {
    // Behind an error, such as 413, the rest of the content is not waited for.
    let is_error = ruled.as_ref().is_some_and(|ruled| ruled.state.status != Status::OK);
    if !is_error && let Err(error) = context.skip_content().await {
        return Err(RequestError::body(context.situation(), &error).into());
    }
    let (path, file, variant) = if site.config().precompressed.is_empty() {
        (path, file, NegotiatedForm::Only)
    } else {
        let edited = ruled.as_ref().and_then(|ruled| ruled.state.request_fields.as_ref());
        let fields = edited.unwrap_or(&context.request.fields);
        codings::select(&mut context.thread.store(), site, (path, file), fields)
    };
    if let Some(ruled) = ruled {
        return respond_ruled(context, site, ruled, (path, file, variant)).await;
    }
    if variant != NegotiatedForm::Only || codings::compresses(site, false, None) {
        return respond_coded(context, site, (path, file, variant));
    }
    let answer = context.thread.store().answer(context.request, &path, file);
    context.scratch.paths.reuse(path);
    let answer = answer.map_err(|none| RequestError::no_answer(context.situation(), none))?;
    if let RequestedPart::Whole = answer.asked {
        return Ok(Response::new(
            ResponseHeadSource::File(answer.representation),
            answer.body.into(),
        ));
    }
    let whole = Response::new(ResponseHeadSource::Own(answer.head()), answer.body.into());
    Ok(select(whole, answer.asked, None))
}

/// Responds to OPTIONS for the file at `path` with the media type of the file, as Apache does, so
/// that directives which depend on the type act.
///
/// # Errors
/// A directive turns the response into an error.
pub(crate) async fn respond_with_methods(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    (methods, path): (&str, DocumentPath),
) -> Result<Response, RespondError> {
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(b"Allow", methods.as_bytes());
    push_media_type(&mut head, &path, ruled.as_deref().map(Rc::as_ref));
    let mut response = Response::new(ResponseHeadSource::Own(head), ResponseBody::none());
    adjust(context, site, ruled, &mut response).await?;
    response.drop_filters();
    Ok(response)
}

/// Answers like [`respond`], where the site's configuration asks for content codings.
fn respond_coded(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    (path, file, variant): (DocumentPath, FileHandle, NegotiatedForm),
) -> Result<Response, RespondError> {
    let manner = AnswerForm {
        variant,
        is_error_page: false,
        tag: EtagParts::DEFAULT,
    };
    let answer = context.thread.store().answer_in_manner(context.request, &path, file, manner);
    context.scratch.paths.reuse(path);
    let answer = answer.map_err(|none| RequestError::no_answer(context.situation(), none))?;
    let facts = CodingFacts {
        fields: &context.request.fields,
        environment: None,
        asked: Some(&answer.asked),
    };
    let tag = named_tag(&answer, facts.fields);
    let head = match answer.asked {
        RequestedPart::Whole => ResponseHeadSource::File(Rc::clone(&answer.representation)),
        _ => ResponseHeadSource::Own(answer.head()),
    };
    let whole = Response {
        representation: Some(answer.representation),
        ..Response::new(head, answer.body.into())
    };
    let whole = match codings::compresses(site, false, None) {
        true => codings::compress(context, site, facts, whole),
        false => whole,
    };
    Ok(select(whole, answer.asked, tag))
}

/// Returns what is asked for of a file. `whole` is the response with all of it, or with the head of
/// the 304, as directives and codings have made it. `named`: see [`named_tag`].
pub(super) fn select(whole: Response, asked: RequestedPart, named: Option<Vec<u8>>) -> Response {
    let is_filtered = !whole.filters.is_empty();
    if sends_whole(&asked, is_filtered || whole.status() == Status::NOT_MODIFIED) {
        return whole;
    }
    let mut head = whole.head.into_own();
    let body = select_head(&mut head, is_filtered, asked, named);
    Response::new(ResponseHeadSource::Own(head), body.into())
}

/// Returns whether the response for the whole file is sent. Compressing a part does not give a part
/// of the compressed content: RFC 9110 §14.2 lets a server ignore Range. `is_other`: the filters
/// make other content, or the client has that.
pub(crate) fn sends_whole(asked: &RequestedPart, is_other: bool) -> bool {
    matches!(asked, RequestedPart::Whole) || (asked.is_part() && is_other)
}

/// Changes the head of the whole file as [`select`] does. Returns the content.
pub(crate) fn select_head(
    head: &mut ResponseHead,
    is_filtered: bool,
    asked: RequestedPart,
    named: Option<Vec<u8>>,
) -> FileBody {
    if is_filtered {
        head.fields.remove(b"content-encoding");
        if let Some(tag) = named.filter(|_| head.fields.contains(b"etag")) {
            head.fields.set(b"ETag", &tag);
        }
    }
    asked.select(head, FileBody::None)
}

/// Returns the entity tag of the file without filters, where the client has named the tag of its
/// copy: it gets that tag with a 304. `None`: the answer is no 304 to a named tag.
pub(crate) fn named_tag(answer: &FileAnswer, fields: &Fields) -> Option<Vec<u8>> {
    if !matches!(answer.asked, RequestedPart::NotModified) || !fields.contains(b"if-none-match") {
        return None;
    }
    let own = || answer.representation.head().head().fields.value(b"etag");
    match &answer.tag {
        SentTag::Own => own().map(<[u8]>::to_vec),
        SentTag::Other(tag) => tag.as_ref().map(|tag| tag.to_vec()),
    }
}

/// Answers like [`respond`], where directives apply.
async fn respond_ruled(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    (path, file, variant): (DocumentPath, FileHandle, NegotiatedForm),
) -> Result<Response, RespondError> {
    let core = ruled.settings.core.as_ref();
    let manner = AnswerForm {
        variant,
        is_error_page: ruled.state.status != Status::OK,
        tag: core.map_or(EtagParts::DEFAULT, |core| core.etag_parts()),
    };
    let (answer, named) = {
        // Directives may remove Range and conditions.
        let edited = ruled.state.request_fields.clone();
        let edited = edited.map(|fields| Request { fields, ..context.request.clone() });
        let request = edited.as_ref().unwrap_or(context.request);
        let answer = context.thread.store().answer_in_manner(request, &path, file, manner);
        let named = answer.as_ref().ok().and_then(|answer| named_tag(answer, &request.fields));
        (answer, named)
    };
    context.scratch.paths.reuse(path);
    let answer = answer.map_err(|none| RequestError::no_answer(context.situation(), none))?;
    let (whole, asked) = adjusted(context, site, ruled, answer).await?;
    Ok(select(whole, asked, named))
}

/// Applies the directives to a whole file, or to the head of the 304. The resulting head is kept if
/// it depends on the directives alone. Returns what is asked for of the file as well.
async fn adjusted(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    answer: FileAnswer,
) -> Result<(Response, RequestedPart), RespondError> {
    if let RequestedPart::Failed(head) = answer.asked {
        let modified = answer.representation.modified();
        return Ok((failed(context, site, ruled, *head, modified).await?, RequestedPart::Whole));
    }
    let is_error_page = ruled.state.status != Status::OK;
    let second = context.arrival.began.seconds();
    let fields = &context.request.fields;
    let is_whole = matches!(answer.asked, RequestedPart::Whole);
    let is_plain = is_whole
        && !is_error_page
        && !fields.contains(b"if-none-match")
        && !fields.contains(b"range");
    let prepared = context.prepared.clone().filter(|_| is_plain);
    let known = prepared.as_ref().and_then(|prepared| {
        let cache = context.thread.compressed_cache();
        let body = || answer.body.clone().into();
        prepared.file(&answer.representation, ruled, context.request, second, cache, body)
    });
    if let Some(response) = known {
        return Ok((response, answer.asked));
    }
    let compresses = codings::compresses(site, false, Some(&ruled.state.env));
    let is_own = is_whole && matches!(answer.tag, SentTag::Own);
    if !compresses && is_own && is_left_alone(ruled, &answer.representation) {
        let head = ResponseHeadSource::File(answer.representation);
        return Ok((Response::new(head, answer.body.into()), answer.asked));
    }
    let conditions = HeadConditions::of(ruled, context.request, second, compresses);
    let kept = prepared.zip(conditions);
    let mut head = answer.head();
    let FileAnswer {
        representation: document, body, asked, ..
    } = answer;
    let length = body.length();
    if is_error_page {
        head.status = ruled.state.status;
    }
    set_content_type(&mut head, ruled);
    // A 304 loses its type to the directives, and whether content is compressed depends on it.
    let is_known = compresses && matches!(asked, RequestedPart::NotModified);
    let kind = head.fields.value(b"content-type").filter(|_| is_known).map(<[u8]>::to_vec);
    let mut response = Response::new(ResponseHeadSource::Own(head), body.into());
    response.modified = microseconds(document.modified());
    response.representation = Some(Rc::clone(&document));
    adjust(context, site, Some(ruled), &mut response).await?;
    if let (Some(kind), ResponseHeadSource::Own(head)) = (&kind, &mut response.head) {
        head.fields.set(b"Content-Type", kind);
    }
    if compresses && !is_error_page {
        let fields = ruled.state.request_fields.as_ref().unwrap_or(&context.request.fields);
        let facts = CodingFacts {
            fields,
            environment: Some(&ruled.state.env),
            asked: Some(&asked),
        };
        response = codings::compress(context, site, facts, response);
    }
    Ok((keep_head(context, (document, length), kept, response), asked))
}

/// Keeps the head of a file's response for the next requests, if `kept` has a place for it and
/// nothing else has to be done to the content.
fn keep_head(
    context: &RequestContext<'_, '_>,
    (document, length): (Rc<Representation>, u64),
    kept: Option<(Rc<PreparedResponse>, HeadConditions)>,
    response: Response,
) -> Response {
    // A head for compressed content is kept only once the compressed content is kept, too.
    let coding = coding(&response.filters);
    let cache = context.thread.compressed_cache();
    let compressed = coding.and_then(|coding| cache.find(&document, coding));
    let is_settled =
        compressed.is_some() || (response.filters.is_empty() && !response.lacks_memory);
    let (head, body) = match (response.head, kept.filter(|_| is_settled)) {
        (ResponseHeadSource::Own(head), Some((prepared, conditions))) => {
            let length = compressed.as_ref().map_or(length, |content| content.len() as u64);
            let body = compressed.map_or(response.body, ResponseBody::shared);
            let head = prepared.keep_head(document, conditions, head, length, coding);
            return Response::new(ResponseHeadSource::Shared(head), body);
        }
        (head, _) => (head, response.body),
    };
    let response = Response { head, body, ..response };
    let head = response.head.get();
    if !response.filters.is_empty()
        && head.status == Status::OK
        && not_modified::is_known(context.request, head.fields.value(b"etag"))
    {
        return not_modified::respond(response);
    }
    response
}

/// Applies the directives to a 412 or 416.
async fn failed(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    mut head: ResponseHead,
    modified: u64,
) -> Result<Response, RespondError> {
    let core = ruled.settings.core.as_ref();
    let is_error = is_error(head.status);
    if is_error && core.is_some_and(|core| core.error_document(head.status).is_some()) {
        if let Some(range) = head.fields.value(b"content-range") {
            // The page of a 416 tells the length as well (RFC 9110 §15.5.17).
            Rc::make_mut(ruled).state.error_fields.set(b"Content-Range", range);
        }
        return Err(head.status.into());
    }
    if !is_error {
        set_content_type(&mut head, ruled);
    }
    let mut response = Response::new(ResponseHeadSource::Own(head), ResponseBody::none());
    response.modified = microseconds(modified);
    response.is_own = is_error;
    adjust(context, site, Some(ruled), &mut response).await?;
    response.drop_filters();
    Ok(response)
}

/// Returns whether directives treat an answer for a file as an error of the server's own. A 304 and
/// a 412 are answers about the file, as with Apache: without a page, and with `Header`.
pub(crate) fn is_error(status: Status) -> bool {
    status.code() >= 400 && status != Status::PRECONDITION_FAILED
}

/// Seconds since 1970 in microseconds; `None` where that is too much.
pub(super) fn microseconds(seconds: u64) -> Option<i64> {
    i64::try_from(seconds).ok()?.checked_mul(1_000_000)
}

/// Returns whether the directives leave the file's own head as it is, including its media type.
fn is_left_alone(ruled: &RuledRequest, document: &Representation) -> bool {
    let state = &ruled.state;
    state.status == Status::OK
        && state.charset.is_none()
        && (is_by_name(ruled)
            || state.content_type.as_deref()
                == document.head().head().fields.value(b"content-type"))
        && response::is_left_alone(state, &ruled.settings)
}

/// Returns whether no directive sets the media type.
fn is_by_name(ruled: &RuledRequest) -> bool {
    ruled.settings.mime.is_none() && ruled.state.content_type.is_none()
}

/// Adds the media type of the file at `path`.
pub(crate) fn push_media_type(
    head: &mut ResponseHead,
    path: &DocumentPath,
    ruled: Option<&RuledRequest>,
) {
    let by_name = files::media_type(path.file_name());
    head.fields.push(b"Content-Type", by_name.as_bytes());
    if let Some(ruled) = ruled {
        set_content_type(head, ruled);
    }
}

/// Sets the media type that the directives chose. Without one, the type is
/// `application/octet-stream`, so that no browser guesses.
pub(crate) fn set_content_type(head: &mut ResponseHead, ruled: &RuledRequest) {
    if is_by_name(ruled) {
        return;
    }
    let found = ruled.state.content_type_field();
    head.fields.remove(b"content-type");
    let value = found.as_deref().filter(|value| howdah_http::is_field_value(value));
    head.fields.push(b"Content-Type", value.unwrap_or(b"application/octet-stream"));
}
