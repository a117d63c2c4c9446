//! A response that a script has begun: directives and the site's configuration change its head, and
//! choose the filters of its output.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use howdah_htaccess::modules::filter;
use howdah_htaccess::response;
use howdah_http::{Method, ResponseHead, members};
use howdah_php::ScriptExchange;
use howdah_site::{RuledRequest, Script, Site, SiteHost};

use super::super::codings::{self, CodingFacts};
use crate::body::{PAUSE, ResponseBody, Unchunked};
use crate::observe::{RequestError, RespondError};
use crate::pipeline::{RangeRequest, RequestContext, Response, ResponseHeadSource, adjust};

/// A response whose head has come.
pub(super) struct BegunResponse {
    pub(super) head: ResponseHead,
    pub(super) exchange: Box<ScriptExchange>,
    /// The script makes an error page.
    pub(super) is_error: bool,
}

impl BegunResponse {
    /// Lets directives and the site's configuration change the head, and choose the filters of the
    /// content.
    ///
    /// # Errors
    /// A directive turns the response into an error.
    pub(super) async fn respond(
        mut self,
        context: &mut RequestContext<'_, '_>,
        site: &Site,
        mut ruled: Option<&mut Rc<RuledRequest>>,
        script: &Script,
    ) -> Result<Response, RespondError> {
        let rules = ruled.as_deref().map(Rc::as_ref);
        let environment = rules.map(|ruled| &ruled.state.env);
        let environment = environment.or(context.script_environment.as_deref());
        let compresses = codings::compresses(site, true, environment) && !self.is_error;
        let is_head = context.request.method == Method::Head;
        let is_chunked = take_chunked(&mut self.head);
        let mut length_hint = None;
        if !is_chunked {
            length_hint = short_length(rules, compresses && !is_head, &mut self.exchange).await;
        }
        let modified = rules.and_then(|ruled| modified(context, site, ruled, script));
        let edited = rules.and_then(|ruled| ruled.state.request_fields.clone());
        let fields = edited.as_ref().unwrap_or(&context.request.fields);
        let range = (fields.contains(b"range") && !self.is_error).then(|| RangeRequest {
            fields: fields.clone(),
            ruled: ruled.as_deref().cloned(),
        });
        let body = match is_chunked {
            false => ResponseBody::script(self.exchange, self.head.content_length()),
            true => unchunked(context, script, self.exchange),
        };
        let mut response = Response::new(ResponseHeadSource::Own(self.head), body);
        (response.length_hint, response.modified) = (length_hint, modified);
        adjust(context, site, ruled.as_deref_mut(), &mut response).await?;
        let fields = edited.as_ref().unwrap_or(&context.request.fields);
        if compresses {
            let environment = ruled.as_deref().map(|ruled| &ruled.state.env);
            let environment = environment.or(context.script_environment.as_deref());
            let facts = CodingFacts { fields, environment, asked: None };
            // PHP makes no output for HEAD. The fields are those of the output that GET would get.
            response.length_hint = response.length_hint.filter(|_| !is_head);
            response = codings::compress(context, site, facts, response);
        }
        response.range = range.filter(|_| response.filters.is_empty()).map(Box::new);
        Ok(response)
    }
}

/// Returns whether the script says that it has divided its output into chunks. Takes the fields
/// that say so from the head, and a length, which would be that of the chunks.
fn take_chunked(head: &mut ResponseHead) -> bool {
    let last = head.fields.values(b"transfer-encoding").flat_map(members).last();
    let is_chunked = last.is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    if is_chunked {
        head.fields.remove(b"transfer-encoding");
        head.fields.remove(b"content-length");
    }
    is_chunked
}

/// The output of a script that has divided it into chunks itself.
fn unchunked(
    context: &RequestContext<'_, '_>,
    script: &Script,
    exchange: Box<ScriptExchange>,
) -> ResponseBody {
    let thread = Rc::clone(context.thread);
    let error = RequestError::chunks(context.situation(), script);
    let report = Box::new(move |malformed| thread.report(&error(malformed)));
    ResponseBody::Stream(Box::new(Unchunked::new(ResponseBody::script(exchange, None), report)))
}

/// Returns the length of the script's output, if there are filters and the output is short and ends
/// at once.
async fn short_length(
    ruled: Option<&RuledRequest>,
    compresses: bool,
    exchange: &mut ScriptExchange,
) -> Option<u64> {
    let is_filtered =
        ruled.is_some_and(|ruled| response::passes_filters(&ruled.state, &ruled.settings));
    if !is_filtered && !compresses {
        return None;
    }
    let most = if compresses {
        codings::SHORTEST
    } else {
        filter::TOO_SMALL
    };
    let known = poll_fn(|context| match exchange.poll_progress(context) {
        Ok(news) if news.complete => Poll::Ready(Some(news.available as u64)),
        Ok(news) if news.available as u64 <= most => Poll::Pending,
        // The failure is reported when the content is sent.
        Ok(_) | Err(_) => Poll::Ready(None),
    });
    tokio::time::timeout(PAUSE, known).await.ok().flatten()
}

/// Returns the script's modification time, if ExpiresByType may need it.
fn modified(
    context: &RequestContext<'_, '_>,
    site: &Site,
    ruled: &RuledRequest,
    script: &Script,
) -> Option<i64> {
    ruled.settings.expires.as_ref().filter(|expires| expires.is_active())?;
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let probe = host.probe_document(script.path())??;
    Some(probe.modified)
}
