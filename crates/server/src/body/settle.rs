//! The last step before the head: content that is short and available passes its filters, so that
//! the head can state its length.

use std::future::poll_fn;
use std::task::Poll;

use howdah_files::CompressedCache;

use super::file_residence::FileResidence;
use super::filtering::{FilterPlace, FilteredContent, TURN, filtered};
use super::filters::{coding, usual_memory};
use super::pump::{PumpError, of_file};
use super::source::{AvailableContent, BodySource, ResponseBody};
use super::spool::SpoolLimits;
use crate::pipeline::Response;

/// Output of a script up to this length is copied out when the script has ended, so that its slot
/// is free before the client has the response.
const SCRIPT: usize = 64 * 1024;
/// Stored content up to this length passes its filters before the head is sent.
const STORED: u64 = 1 << 20;

/// Filters the content of `response`, if it is short and available. `buffer` lends its memory to a
/// script's output; `place` is where the filters work. Content that is long, or becomes so, is
/// filtered while it is sent, and so is content that the client's account has no memory for.
///
/// # Errors
/// The content cannot be read; nothing was sent yet.
// Steps that most responses do not need are in boxes: all would have room for them otherwise.
pub(crate) async fn settle(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    cache: &CompressedCache,
    place: FilterPlace<'_>,
    limits: &SpoolLimits,
) -> Result<(), PumpError> {
    if let ResponseBody::Script(_) = response.body {
        let available = poll_fn(|context| Poll::Ready(response.body.poll_available(context))).await;
        match available {
            Poll::Ready(Err(error)) => return Err(PumpError::Source(error)),
            Poll::Ready(Ok(available)) if available.is_last => {
                return settle_script(response, buffer, available, place).await;
            }
            Poll::Pending | Poll::Ready(Ok(_)) => return Ok(()),
        }
    }
    settle_stored(response, cache, place, limits).await
}

/// Content in memory or in a file, unless it is long. The result of a coding is kept in `cache`.
async fn settle_stored(
    response: &mut Response,
    cache: &CompressedCache,
    place: FilterPlace<'_>,
    limits: &SpoolLimits,
) -> Result<(), PumpError> {
    let length = response.body.length().filter(|length| *length <= STORED);
    let Some(length) = length.filter(|_| response.body.is_stored()) else {
        return Ok(());
    };
    if response.filters.is_empty() {
        return Ok(());
    }
    let kept = response.representation.clone().zip(coding(&response.filters));
    if let Some((representation, coding)) = &kept
        && let Some(content) = cache.find(representation, *coding)
    {
        response.body = ResponseBody::shared(content);
        response.sent_file = None;
        response.drop_filters();
        return Ok(());
    }
    // Nothing is read before its memory is counted.
    if !holds_memory(response, place, length as usize) {
        return Ok(());
    }
    let plain = Box::pin(read(&mut response.body, limits)).await?;
    // Another response may have made the content meanwhile.
    let made = kept
        .as_ref()
        .and_then(|(representation, coding)| cache.share(representation, *coding, &plain));
    let memory = response.filter_memory.clone();
    let content = match made {
        Some(content) => content,
        None => match Box::pin(filtered(plain, &response.filters, place, memory)).await? {
            FilteredContent::TooLong(plain) => {
                response.body = ResponseBody::whole(plain.into());
                return Ok(());
            }
            FilteredContent::Whole(content) => {
                let content = content.into();
                if let Some((representation, coding)) = &kept {
                    cache.keep(place.site, representation, *coding, &content);
                }
                content
            }
        },
    };
    response.body = ResponseBody::shared(content);
    response.sent_file = None;
    response.drop_filters();
    Ok(())
}

/// The output of a script that has ended, unless it is long.
async fn settle_script(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    available: AvailableContent,
    place: FilterPlace<'_>,
) -> Result<(), PumpError> {
    let is_filtered = !response.filters.is_empty();
    if available.bytes > SCRIPT || (is_filtered && !holds_memory(response, place, available.bytes))
    {
        // A script's own Content-Length may be wrong; the bytes that are there are not.
        response.body.set_length(available.bytes as u64);
        return Ok(());
    }
    let mut content = std::mem::take(buffer);
    content.clear();
    content.resize(available.bytes, 0);
    if available.bytes > 0 {
        response.body.piece().read(&mut content).map_err(of_file)?;
        response.body.consume(available.bytes);
    }
    if is_filtered {
        // The slot is for others: filters may wait for their turn.
        response.body.release();
        let memory = response.filter_memory.clone();
        content = match Box::pin(filtered(content, &response.filters, place, memory)).await? {
            FilteredContent::Whole(content) => {
                response.drop_filters();
                content
            }
            FilteredContent::TooLong(content) => content,
        };
    }
    response.body = ResponseBody::Buffer(content, 0);
    Ok(())
}

/// Counts `length` bytes of content before and behind the filters, beside the memory of these.
/// Returns `false` where the client's account has no room.
fn holds_memory(response: &mut Response, place: FilterPlace<'_>, length: usize) -> bool {
    // Short content leaves the filters at once.
    length <= TURN || {
        let memory = response.filter_memory.get_or_insert_with(|| place.memory());
        memory.hold_of_account(usual_memory(&response.filters) + 2 * length)
    }
}

/// Returns all of the content of a stored body.
///
/// # Errors
/// The content cannot be read.
pub(crate) async fn read(
    body: &mut ResponseBody,
    limits: &SpoolLimits,
) -> Result<Vec<u8>, PumpError> {
    let mut content = Vec::new();
    let mut residence = FileResidence::new(limits);
    loop {
        let in_memory = poll_fn(|context| residence.poll(body.piece(), context)).await;
        let length = usize::try_from(in_memory).unwrap_or(usize::MAX);
        if length == 0 {
            return Ok(content);
        }
        let start = content.len();
        content.resize(start + length, 0);
        let count = body.piece().read(&mut content[start..]).map_err(of_file)?;
        content.truncate(start + count);
        body.consume(count);
    }
}
