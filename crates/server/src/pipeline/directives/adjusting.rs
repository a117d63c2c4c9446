//! Directives change the head of a response, and choose the filters of its content.

use std::rc::Rc;
use std::time::Instant;

use howdah_htaccess::modules::filter::{ContentProperties, Filter};
use howdah_htaccess::response::{ResponseProperties, may_take_long, passes_filters};
use howdah_http::{ResponseHead, Status};
use howdah_site::{RuledRequest, Site};
use howdah_sys::open::Lookup;

use super::super::context::RequestContext;
use super::super::response::{Response, ResponseHeadSource};
use super::crew_request::{CrewRequest, Responded};
use super::{MOST_LINK_STEPS_HERE, budget_here, is_done, not_evaluated, wait_for_turn};
use crate::body::{BodySource, FilterRoom};
use crate::observe::RespondError;

/// Lets the directives change the head of a response and choose the filters of its content.
///
/// # Errors
/// A directive turns the response into an error.
pub(crate) async fn adjust(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: Option<&mut Rc<RuledRequest>>,
    response: &mut Response,
) -> Result<(), RespondError> {
    let Some(ruled) = ruled.filter(|_| matches!(response.head, ResponseHeadSource::Own(_))) else {
        return Ok(());
    };
    let room = match !response.is_own && passes_filters(&ruled.state, &ruled.settings) {
        true => {
            let place = context.thread.filter_place(Some(site), context.peer);
            FilterRoom::of(response, context.request, place)
        }
        false => FilterRoom::default(),
    };
    let stored = if response.body.is_stored() {
        response.body.length()
    } else {
        None
    };
    let about = ResponseProperties {
        is_error: response.is_own,
        modified: response.modified,
        content: ContentProperties {
            length: response.length_hint.or(stored),
            memory: room.bytes(),
            is_known: response.status() == Status::NOT_MODIFIED
                && response.representation.is_some(),
        },
    };
    let ResponseHeadSource::Own(head) = &mut response.head else {
        return Ok(());
    };
    response.filters = match may_take_long(&ruled.state, &ruled.settings, head) {
        false => respond(context, site, ruled, head, about)?,
        true => Box::pin(respond_within(context, site, ruled, head, about)).await?,
    };
    room.fill(response);
    Ok(())
}

/// Lets the directives change a head where that is known to take little: nothing is counted.
fn respond(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    head: &mut ResponseHead,
    about: ResponseProperties,
) -> Result<Vec<Filter>, Status> {
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let scratch = &mut context.scratch.paths;
    howdah_site::respond(site, &client, ruled, head, about, &mut host, scratch)
}

/// Lets the directives change the head like [`respond`], if that takes little work. `None`: it
/// takes more, and the head is void.
fn respond_here(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    head: &mut ResponseHead,
    about: ResponseProperties,
) -> Option<Result<Vec<Filter>, Status>> {
    let budget = budget_here(context, site);
    if budget.most() == 0 {
        return None;
    }
    let began = Instant::now();
    let client = context.peer.client(context.request, context.arrival.began.microseconds);
    let mut host = context.thread.host(site, context.arrival.started, &context.compared);
    let scratch = &mut context.scratch.paths;
    let bounds = (Lookup::Cached, MOST_LINK_STEPS_HERE);
    let chosen = host.bounded(bounds, |host| {
        let client = client.within(&budget);
        howdah_site::respond(site, &client, ruled, head, about, host, scratch)
    });
    let is_done = is_done(context, site, &budget, began);
    chosen.ok().filter(|_| is_done)
}

/// Does the work of [`respond`], on the event loop or elsewhere.
async fn respond_within(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    ruled: &mut Rc<RuledRequest>,
    head: &mut ResponseHead,
    about: ResponseProperties,
) -> Result<Vec<Filter>, RespondError> {
    wait_for_turn(context, site).await;
    let before = (Rc::new(RuledRequest::clone(ruled)), head.clone());
    if let Some(chosen) = respond_here(context, site, ruled, head, about) {
        return Ok(chosen?);
    }
    let responded =
        CrewRequest::new(context, site).respond(Rc::unwrap_or_clone(before.0), before.1, about);
    let responded = responded.await.map_err(|refusal| not_evaluated(context, refusal))?;
    let Some(responded) = responded else {
        return Err(Status::INTERNAL_SERVER_ERROR.into());
    };
    let Responded { head: changed, ruled: after, chosen } = responded;
    *head = changed;
    *ruled = Rc::new(after);
    Ok(chosen?)
}
