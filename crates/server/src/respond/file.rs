//! Answering with a file.

use std::rc::Rc;

use howdah_files::{
    self as files, AnswerForm, FileBody, FileParts, NegotiatedForm, Representation,
};
use howdah_htaccess::modules::core::EtagParts;
use howdah_htaccess::response::{self, passes_filters};
use howdah_http::{Fields, Request, ResponseHead, Status, Text};
use howdah_site::{DocumentPath, FileHandle, Ruled, Site};

use super::codings::{self, CodingFacts};
use super::not_modified;
use super::prepared::{HeadConditions, PreparedResponse};
use crate::body::{Body, coding};
use crate::observe::{RequestError, RespondError};
use crate::pipeline::{Head, RequestContext, Response, adjust};

/// Responds with the file at `path`. Content of the request, such as a form that is posted to a
/// page, is received first and discarded.
///
/// # Errors
/// The status of an error without fields of its own, or the content cannot be received.
pub(crate) async fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<Ruled>>,
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
        return Ok(respond_coded(context, site, (path, file, variant))?);
    }
    let answer = context.thread.store().answer(context.request, &path, file);
    context.scratch.paths.reuse(path);
    match answer {
        files::Answer::Whole { representation, body }
        | files::Answer::Retagged { representation, body, .. } => {
            Ok(Response::new(Head::File(representation), body.into()))
        }
        files::Answer::Composed { head, body, .. } => {
            Ok(Response::new(Head::Own(head), body.into()))
        }
        files::Answer::Parts { head, parts, .. } => Ok(settled(head, parts)),
        files::Answer::Status(status) => Err(status.into()),
    }
}

/// Responds to OPTIONS for the file at `path` with the media type of the file, as Apache does, so
/// that directives which depend on the type act.
///
/// # Errors
/// A directive turns the response into an error.
pub(crate) async fn respond_with_methods(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<Ruled>>,
    (methods, path): (&str, DocumentPath),
) -> Result<Response, RespondError> {
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(b"Allow", methods.as_bytes());
    push_media_type(&mut head, &path, ruled.as_deref().map(Rc::as_ref));
    let mut response = Response::new(Head::Own(head), Body::none());
    adjust(context, site, ruled, &mut response).await?;
    response.filters.clear();
    Ok(response)
}

/// As [`respond`], where the site's configuration asks for content codings.
fn respond_coded(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    (path, file, variant): (DocumentPath, FileHandle, NegotiatedForm),
) -> Result<Response, Status> {
    let manner = AnswerForm {
        variant,
        is_error_page: false,
        tag: EtagParts::DEFAULT,
    };
    let ask = |manner| {
        let mut store = context.thread.store();
        store.answer_in_manner(context.request, &path, file, manner)
    };
    let found = ask(manner);
    let whole = is_about_part(site, None, &found)
        .then(|| whole_of(ask(AnswerForm { is_error_page: true, ..manner })))
        .flatten();
    context.scratch.paths.reuse(path);
    let complete = |head: &mut ResponseHead| {
        let Some(whole) = whole else { return };
        let (whole, length) = (whole.head().head().clone(), whole.head().length());
        let facts = CodingFacts {
            fields: &context.request.fields,
            environment: None,
        };
        codings::complete(site, facts, whole, length, head);
    };
    match found {
        files::Answer::Whole { representation, body }
        | files::Answer::Retagged { representation, body, .. } => {
            let head = Head::File(Rc::clone(&representation));
            let response = Response {
                representation: Some(representation),
                ..Response::new(head, body.into())
            };
            match codings::compresses(site, false, None) {
                true => {
                    let request = &*context.request;
                    let facts = CodingFacts {
                        fields: &request.fields,
                        environment: None,
                    };
                    Ok(codings::compress(site, request, facts, response))
                }
                false => Ok(response),
            }
        }
        files::Answer::Composed { mut head, body, .. } => {
            complete(&mut head);
            Ok(Response::new(Head::Own(head), body.into()))
        }
        files::Answer::Parts { mut head, parts, .. } => {
            complete(&mut head);
            Ok(settled(head, parts))
        }
        files::Answer::Status(status) => Err(status),
    }
}

/// Returns the response with several parts of a file.
fn settled(mut head: ResponseHead, parts: FileParts) -> Response {
    let body = parts.settle(&mut head);
    Response::new(Head::Own(head), body.into())
}

/// Returns whether `found` is an answer about the content that the client has, or to a part of it,
/// and the site has content compressed.
fn is_about_part(site: &Site, ruled: Option<&Ruled>, found: &files::Answer) -> bool {
    matches!(found.status(), Status::NOT_MODIFIED | Status::PARTIAL_CONTENT)
        && codings::compresses(site, false, ruled.map(|ruled| &ruled.state.env))
}

/// Returns the file of an answer with the whole of it.
fn whole_of(answer: files::Answer) -> Option<Rc<Representation>> {
    match answer {
        files::Answer::Whole { representation, .. }
        | files::Answer::Retagged { representation, .. } => Some(representation),
        files::Answer::Composed { .. } | files::Answer::Parts { .. } | files::Answer::Status(_) => {
            None
        }
    }
}

/// As [`respond`], where directives apply.
async fn respond_ruled(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<Ruled>,
    (path, file, variant): (DocumentPath, FileHandle, NegotiatedForm),
) -> Result<Response, RespondError> {
    let core = ruled.settings.core.as_ref();
    let manner = AnswerForm {
        variant,
        is_error_page: ruled.state.status != Status::OK,
        tag: core.map_or(EtagParts::DEFAULT, |core| core.etag_parts()),
    };
    // Directives may remove Range and conditions.
    let edited = ruled.state.request_fields.clone();
    let edited = edited.map(|fields| Request { fields, ..context.request.clone() });
    let ask = |context: &RequestContext<'_, '_>, manner| {
        let mut host = context.thread.host(site, context.arrival.started, &context.compared);
        let request = edited.as_ref().unwrap_or(context.request);
        host.store.answer_in_manner(request, &path, file, manner)
    };
    let mut found = ask(context, manner);
    let status = found.status();
    if status == Status::PARTIAL_CONTENT && passes_filters(&ruled.state, &ruled.settings) {
        // Compressing a part does not give a part of the compressed content. RFC 9110 §14.2 lets a
        // server ignore Range.
        let all = ask(context, AnswerForm { is_error_page: true, ..manner });
        let (response, fields) = tried(context, site, ruled, all).await?;
        if !response.filters.is_empty() {
            context.scratch.paths.reuse(path);
            return Ok(response);
        }
        let state = &mut Rc::make_mut(ruled).state;
        (state.fields, state.error_fields) = fields;
        found = ask(context, manner);
    }
    let is_known = found.status() == Status::NOT_MODIFIED;
    let mut filtered = None;
    if is_known && passes_filters(&ruled.state, &ruled.settings) {
        let all = ask(context, AnswerForm { is_error_page: true, ..manner });
        let (response, fields) = tried(context, site, ruled, all).await?;
        let state = &mut Rc::make_mut(ruled).state;
        (state.fields, state.error_fields) = fields;
        filtered = Some(response.head);
    }
    let whole = (is_known || is_about_part(site, Some(ruled), &found))
        .then(|| whole_of(ask(context, AnswerForm { is_error_page: true, ..manner })))
        .flatten();
    context.scratch.paths.reuse(path);
    if let (Some(whole), true) = (&whole, is_known) {
        not_modified::add_type(&mut found, whole);
    }
    let whole = whole.filter(|_| codings::compresses(site, false, Some(&ruled.state.env)));
    let fields = whole.is_some().then(|| ruled.state.request_fields.clone()).flatten();
    let mut response = adjusted(context, site, ruled, found).await?;
    if let (Some(whole), Head::Own(head)) = (whole, &mut response.head) {
        let fields = fields.as_ref().unwrap_or(&context.request.fields);
        complete_coded(site, ruled, &whole, fields, head);
    } else if let (Some(filtered), Head::Own(head)) = (filtered, &mut response.head) {
        not_modified::complete(context.request, filtered.get(), head);
    }
    Ok(response)
}

/// Gives the head of a 206 or a 304 the fields that the whole file has because the site compresses
/// it.
fn complete_coded(
    site: &Site,
    ruled: &Ruled,
    whole: &Representation,
    fields: &Fields,
    head: &mut ResponseHead,
) {
    let (mut plain, length) = (whole.head().head().clone(), whole.head().length());
    set_content_type(&mut plain, ruled);
    let facts = CodingFacts {
        fields,
        environment: Some(&ruled.state.env),
    };
    codings::complete(site, facts, plain, length, head);
}

/// Applies the directives as [`adjusted`] does. Also returns the fields that they had set before,
/// for another attempt.
async fn tried(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<Ruled>,
    found: files::Answer,
) -> Result<(Response, (Fields, Fields)), RespondError> {
    let before = (ruled.state.fields.clone(), ruled.state.error_fields.clone());
    Ok((adjusted(context, site, ruled, found).await?, before))
}

/// Applies the directives to the answer for a file.
async fn adjusted(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<Ruled>,
    found: files::Answer,
) -> Result<Response, RespondError> {
    match found {
        files::Answer::Whole { representation, body } => {
            adjusted_whole(context, site, ruled, (representation, SentTag::Own, body)).await
        }
        files::Answer::Retagged { representation, tag, body } => {
            adjusted_whole(context, site, ruled, (representation, SentTag::Other(tag), body)).await
        }
        files::Answer::Composed { head, body, modified, .. } => {
            let response = Response::new(Head::Own(head), body.into());
            composed(context, site, ruled, response, modified).await
        }
        files::Answer::Parts { head, parts, modified } => {
            let mut response = Response::new(Head::Own(head), Body::none());
            response.length_hint = Some(parts.length());
            let mut response = composed(context, site, ruled, response, modified).await?;
            if let Head::Own(head) = &mut response.head {
                response.body = parts.settle(head).into();
            }
            Ok(response)
        }
        files::Answer::Status(status) => Err(status.into()),
    }
}

/// Applies the directives to a whole file. The resulting head is kept if it depends on the
/// directives alone.
async fn adjusted_whole(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<Ruled>,
    (document, tag, body): (Rc<Representation>, SentTag, FileBody),
) -> Result<Response, RespondError> {
    let is_error_page = ruled.state.status != Status::OK;
    let second = context.arrival.began.seconds();
    let fields = &context.request.fields;
    let is_plain =
        !is_error_page && !fields.contains(b"if-none-match") && !fields.contains(b"range");
    let prepared = context.prepared.clone().filter(|_| is_plain);
    let known = prepared.as_ref().and_then(|prepared| {
        let cache = context.thread.compressed_cache();
        prepared.file(&document, ruled, context.request, second, cache, || body.clone().into())
    });
    if let Some(response) = known {
        return Ok(response);
    }
    let compresses = codings::compresses(site, false, Some(&ruled.state.env));
    if !compresses && matches!(tag, SentTag::Own) && is_left_alone(ruled, &document) {
        return Ok(Response::new(Head::File(document), body.into()));
    }
    let conditions = HeadConditions::of(ruled, context.request, second, compresses);
    let kept = prepared.zip(conditions);
    let length = body.length();
    let head = own_head(&document, tag, ruled);
    let mut response = Response::new(Head::Own(head), body.into());
    response.modified = microseconds(document.modified());
    adjust(context, site, Some(ruled), &mut response).await?;
    if compresses && !is_error_page {
        let fields = ruled.state.request_fields.as_ref().unwrap_or(&context.request.fields);
        let facts = CodingFacts {
            fields,
            environment: Some(&ruled.state.env),
        };
        response = codings::compress(site, context.request, facts, response);
    }
    Ok(keep_head(context, (document, length), kept, response))
}

/// Returns the head of a file's response as the directives begin with it.
fn own_head(document: &Representation, tag: SentTag, ruled: &Ruled) -> ResponseHead {
    let mut head = document.head().head().clone();
    head.status = ruled.state.status;
    if let SentTag::Other(tag) = tag {
        head.fields.remove(b"etag");
        tag.iter().for_each(|tag| head.fields.push(b"ETag", tag));
    }
    set_content_type(&mut head, ruled);
    head
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
    let is_settled = response.filters.is_empty() || compressed.is_some();
    let (head, body) = match (response.head, kept.filter(|_| is_settled)) {
        (Head::Own(head), Some((prepared, conditions))) => {
            let length = compressed.as_ref().map_or(length, |content| content.len() as u64);
            let body = compressed.map_or(response.body, Body::shared);
            let head = prepared.keep_head(document, conditions, head, length, coding);
            return Response::new(Head::Shared(head), body);
        }
        (head, _) => (head, response.body),
    };
    let response = Response { head, body, ..response };
    if !response.filters.is_empty() && not_modified::is_known(context.request, response.head.get())
    {
        return not_modified::respond(response);
    }
    Response {
        representation: Some(document),
        ..response
    }
}

/// The entity tag with which a file is sent.
enum SentTag {
    Own,
    Other(Option<Text>),
}

/// Adjusts a part, a 304, a 412, or an error with fields of its own. Several parts have no content
/// yet, because their heads state the media type that the directives choose.
async fn composed(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<Ruled>,
    mut response: Response,
    modified: u64,
) -> Result<Response, RespondError> {
    let core = ruled.settings.core.as_ref();
    let status = response.status();
    let is_error = is_error(status);
    if is_error && core.is_some_and(|core| core.error_document(status).is_some()) {
        if let Some(range) = response.head.get().fields.value(b"content-range") {
            // The page of a 416 tells the length as well (RFC 9110 §15.5.17).
            Rc::make_mut(ruled).state.error_fields.set(b"Content-Range", range);
        }
        return Err(status.into());
    }
    if let Head::Own(head) = &mut response.head
        && !is_error
    {
        set_content_type(head, ruled);
    }
    response.modified = microseconds(modified);
    response.is_own = is_error;
    adjust(context, site, Some(ruled), &mut response).await?;
    response.filters.clear();
    Ok(response)
}

/// Returns whether directives treat an answer for a file as an error of the server's own. A 304 and
/// a 412 are answers about the file, as with Apache: without a page, and with `Header`.
pub(crate) fn is_error(status: Status) -> bool {
    status.code() >= 400 && status != Status::PRECONDITION_FAILED
}

/// Seconds since 1970 in microseconds; `None` where that is too much.
fn microseconds(seconds: u64) -> Option<i64> {
    i64::try_from(seconds).ok()?.checked_mul(1_000_000)
}

/// Returns whether the directives leave the file's own head as it is, including its media type.
fn is_left_alone(ruled: &Ruled, document: &Representation) -> bool {
    let state = &ruled.state;
    state.status == Status::OK
        && state.charset.is_none()
        && (is_by_name(ruled)
            || state.content_type.as_deref()
                == document.head().head().fields.value(b"content-type"))
        && response::is_left_alone(state, &ruled.settings)
}

/// Returns whether no directive sets the media type.
fn is_by_name(ruled: &Ruled) -> bool {
    ruled.settings.mime.is_none() && ruled.state.content_type.is_none()
}

/// Adds the media type of the file at `path`.
pub(crate) fn push_media_type(head: &mut ResponseHead, path: &DocumentPath, ruled: Option<&Ruled>) {
    let by_name = files::media_type(path.file_name());
    head.fields.push(b"Content-Type", by_name.as_bytes());
    if let Some(ruled) = ruled {
        set_content_type(head, ruled);
    }
}

/// Sets the media type that the directives chose. Without one, the type is
/// `application/octet-stream`, so that no browser guesses.
pub(crate) fn set_content_type(head: &mut ResponseHead, ruled: &Ruled) {
    if is_by_name(ruled) {
        return;
    }
    let found = ruled.state.content_type_field();
    head.fields.remove(b"content-type");
    let value = found.as_deref().filter(|value| howdah_http::is_field_value(value));
    head.fields.push(b"Content-Type", value.unwrap_or(b"application/octet-stream"));
}
