//! The last step of answering with a file: a place for its descriptor.

use howdah_http::Status;
use howdah_site::Site;

use crate::body::{self, BodySource, ResponseBody, SentFile};
use crate::budget::BudgetUsedUp;
use crate::observe::{RequestError, RespondError};
use crate::pipeline::{RequestContext, Response};

/// Takes a place for the file that `response` sends, if it sends one. Beyond the places of the site
/// and of the client, content of up to a mebibyte is read into memory of the client's account.
///
/// # Errors
/// There is no place, and the content is not read: 503.
#[inline]
pub(crate) async fn hold(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    response: &mut Response,
) -> Result<(), RespondError> {
    let Some(file) = response.body.file() else {
        return Ok(());
    };
    let thread = context.thread;
    let client = (thread.clients(), context.peer.remote.ip());
    match thread.shared.sent_files.take(file, site.number(), client) {
        Ok(place) => response.sent_file = Some(place),
        Err(no_room) => Box::pin(read(context, site, response, no_room)).await?,
    }
    Ok(())
}

/// Reads the content of `response` into memory.
///
/// # Errors
/// The content is too long, or is not at hand, or the client's account has no memory for it: 503.
#[cold]
async fn read(
    context: &mut RequestContext<'_, '_>,
    site: &Site,
    response: &mut Response,
    no_room: BudgetUsedUp,
) -> Result<(), RespondError> {
    let place = context.thread.filter_place(Some(site), context.peer);
    let memory = place.memory();
    let length = response.body.length().filter(|length| *length <= MOST);
    // The disk is not waited for: the file would be open meanwhile.
    let is_read =
        response.body.is_at_hand() && length.is_some_and(|length| memory.hold(length as usize));
    if !is_read {
        return Err(RequestError::too_many_files(context.situation(), no_room).into());
    }
    match body::read(&mut response.body, context.thread.spool_limits(Some(site))).await {
        Ok(content) => response.body = ResponseBody::whole(content.into()),
        Err(error) => {
            if let Some(error) = RequestError::content(context.situation(), error) {
                context.thread.report(&error);
            }
            return Err(Status::INTERNAL_SERVER_ERROR.into());
        }
    }
    response.sent_file = Some(SentFile::Memory(memory));
    Ok(())
}

/// Bytes of content that are read into memory where there is no place for another descriptor. Most
/// files that pages consist of are shorter.
const MOST: u64 = 1 << 20;
