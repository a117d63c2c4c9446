//! The directives' part in a response's head.

use std::rc::Rc;
use std::sync::Arc;

use howdah_htaccess::modules::filter::Filter;
use howdah_htaccess::response::{self, ResponseProperties};
use howdah_htaccess::{ClientRequest, Transaction};
use howdah_http::{ResponseHead, Status};

use super::RequestEvaluation;
use super::evaluation_context::PhaseContext;
use crate::documents::{PathKind, SiteHost};
use crate::path::{DocumentPath, Scratch};
use crate::ruled_request::RuledRequest;
use crate::sites::Site;

/// Changes the head of a response as directives say, and returns the filters that its content
/// passes, the first one first. `ruled` is the one of the resolution.
///
/// # Errors
/// The status of the error that is to be sent instead.
pub fn respond(
    site: &Site,
    client: &ClientRequest<'_>,
    ruled: &mut Rc<RuledRequest>,
    head: &mut ResponseHead,
    about: ResponseProperties,
    host: &mut impl SiteHost,
    scratch: &mut Scratch,
) -> Result<Vec<Filter>, Status> {
    if response::respond_plainly(&ruled.state, &ruled.settings, head, about.is_error) {
        return Ok(Vec::new());
    }
    let settings = Arc::clone(&ruled.settings);
    let mut evaluation = RequestEvaluation::new(site, *client, host, scratch);
    let nowhere = DocumentPath::nowhere();
    let mut context = PhaseContext::new(&mut evaluation, &nowhere, PathKind::Forbidden);
    let state = match Rc::get_mut(ruled) {
        Some(ruled) => std::mem::take(&mut ruled.state),
        // The resolution cache holds it for other requests.
        None => response::part_for_response(&ruled.state, &settings),
    };
    let client = *client;
    let mut tx = Transaction { client, state };
    let filters = response::respond(&mut tx, &settings, &mut context, head, about);
    match Rc::get_mut(ruled) {
        Some(ruled) => ruled.state = tx.state,
        None if tx.state.complaints.is_empty() => {}
        None => Rc::make_mut(ruled).state.complaints = tx.state.complaints,
    }
    filters
}
