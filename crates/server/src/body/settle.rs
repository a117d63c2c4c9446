//! The last step before the head: content that is short and available passes its filters, so that
//! the head can state its length.

use std::future::poll_fn;
use std::task::Poll;

use howdah_files::CompressedCache;

use super::filtering::{FilterPlace, FilteredContent, TURN, filtered};
use super::filters::{coding, usual_memory};
use super::pump::{PumpError, of_file};
use super::residence::Residence;
use super::source::{AvailableContent, Body, BodySource};
use super::spool::SpoolLimits;
use crate::pipeline::Response;

/// Output of a script up to this length is copied out when the script has ended, so that its slot
/// is free before the client has the response.
const SCRIPT: usize = 64 * 1024;
/// Stored content up to this length passes its filters before the head is sent.
const STORED: u64 = 1 << 20;

/// Filters the content of `response`, if it is short and available. `buffer` lends its memory to a
/// script's output; `place` is where the filters work. Content that is long, or becomes so, is
/// filtered while it is sent. The memory of the filters is counted in the client's account; where
/// that has no room for a compressor, the content is sent as it is.
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
    if let Body::Script(_) = response.body {
        let available = poll_fn(|context| Poll::Ready(response.body.poll_available(context))).await;
        match available {
            Poll::Ready(Err(error)) => return Err(PumpError::Source(error)),
            Poll::Ready(Ok(available)) if available.is_last => {
                return settle_script(response, buffer, available, place).await;
            }
            Poll::Pending | Poll::Ready(Ok(_)) => hold_memory(response, place, 0),
        }
        return Ok(());
    }
    if response.filters.is_empty() {
        return Ok(());
    }
    let length = response.body.length().filter(|length| *length <= STORED);
    let Some(length) = length.filter(|_| response.body.is_stored()) else {
        hold_memory(response, place, 0);
        return Ok(());
    };
    let kept = response.representation.clone().zip(coding(&response.filters));
    if let Some((representation, coding)) = &kept
        && let Some(content) = cache.find(representation, *coding)
    {
        response.body = Body::shared(content);
        response.filters.clear();
        return Ok(());
    }
    // Nothing is read before its memory is counted.
    hold_memory(response, place, length as usize);
    if response.filters.is_empty() {
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
                response.body = Body::whole(plain.into());
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
    response.body = Body::shared(content);
    response.filters.clear();
    response.filter_memory = None;
    Ok(())
}

/// The output of a script that has ended, unless it is long.
async fn settle_script(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    available: AvailableContent,
    place: FilterPlace<'_>,
) -> Result<(), PumpError> {
    hold_memory(response, place, available.bytes.max(1));
    if available.bytes > SCRIPT {
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
    if !response.filters.is_empty() {
        // The slot is for others: filters may wait for their turn.
        response.body.release();
        let memory = response.filter_memory.clone();
        content = match Box::pin(filtered(content, &response.filters, place, memory)).await? {
            FilteredContent::Whole(content) => {
                response.filters.clear();
                response.filter_memory = None;
                content
            }
            FilteredContent::TooLong(content) => content,
        };
    }
    response.body = Body::Buffer(content, 0);
    Ok(())
}

/// Counts the memory that the filters of content of `length` bytes take. Where the client's
/// responses have as much as they may, the content is not compressed; other filters take little.
fn hold_memory(response: &mut Response, place: FilterPlace<'_>, length: usize) {
    if response.filters.is_empty() {
        return;
    }
    let memory = place.memory();
    // Short content leaves the filters at once.
    let is_short = (1..=TURN).contains(&length);
    if !is_short && !memory.hold_of_account(usual_memory(&response.filters) + 2 * length) {
        response.leave_plain();
    }
    response.filter_memory = Some(memory);
}

/// Returns all of the content of a stored body.
async fn read(body: &mut Body, limits: &SpoolLimits) -> Result<Vec<u8>, PumpError> {
    let mut content = Vec::new();
    let mut residence = Residence::new(limits);
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
