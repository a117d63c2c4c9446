//! The last step before the head: content that is short and available passes its filters, so that
//! the head can state its length.

use std::future::poll_fn;
use std::task::Poll;

use howdah_files::CompressedCache;

use super::filtering::{FilterPlace, FilteredContent, filtered, wait_for_memory};
use super::filters::coding;
use super::pump::{PumpError, of_file};
use super::residence::Residence;
use super::source::{AvailableContent, Body, BodySource};
use super::spool::SpoolLimits;
use crate::net::HeldMemory;
use crate::pipeline::Response;

/// Output of a script up to this length is copied out when the script has ended, so that its slot
/// is free before the client has the response.
const SCRIPT: usize = 64 * 1024;
/// Stored content up to this length passes its filters before the head is sent.
const STORED: u64 = 1 << 20;

/// Filters the content of `response`, if it is short and available. `buffer` lends its memory to a
/// script's output; `place` is where the filters work, and `held` counts their memory. Content that
/// becomes too long in them stays as it is, to be filtered while it is sent.
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
    mut held: HeldMemory<'_>,
) -> Result<(), PumpError> {
    if let Body::Script(_) = response.body {
        let available = poll_fn(|context| Poll::Ready(response.body.poll_available(context))).await;
        return match available {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(PumpError::Source(error)),
            Poll::Ready(Ok(available)) => {
                settle_script(response, buffer, available, place, &mut held).await
            }
        };
    }
    let length = response.body.length().filter(|length| *length <= STORED);
    let Some(length) = length.filter(|_| response.body.is_stored()) else {
        return Ok(());
    };
    if response.filters.is_empty() {
        return Ok(());
    }
    let kept = response.representation.as_ref().zip(coding(&response.filters));
    if let Some((representation, coding)) = kept
        && let Some(content) = cache.find(representation, coding)
    {
        response.body = Body::shared(content);
        response.filters.clear();
        return Ok(());
    }
    // Nothing is read before its memory has room.
    Box::pin(wait_for_memory(&mut held, &response.filters, length as usize)).await?;
    let plain = Box::pin(read(&mut response.body, limits)).await?;
    // Another response may have made the content meanwhile.
    let made =
        kept.and_then(|(representation, coding)| cache.share(representation, coding, &plain));
    if let Some(content) = made {
        response.body = Body::shared(content);
        response.filters.clear();
        return Ok(());
    }
    let content = match Box::pin(filtered(plain, &response.filters, place, &mut held)).await? {
        FilteredContent::Whole(content) => content,
        FilteredContent::TooLong(plain) => {
            response.body = Body::whole(plain.into());
            return Ok(());
        }
    };
    response.body = match kept {
        Some((representation, coding)) => {
            let content = content.into();
            cache.keep(representation, coding, &content);
            Body::shared(content)
        }
        None => Body::whole(content.into()),
    };
    response.filters.clear();
    Ok(())
}

/// The output of a script that has ended, unless it is long.
async fn settle_script(
    response: &mut Response,
    buffer: &mut Vec<u8>,
    available: AvailableContent,
    place: FilterPlace<'_>,
    held: &mut HeldMemory<'_>,
) -> Result<(), PumpError> {
    if !available.is_last {
        return Ok(());
    }
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
        content = match Box::pin(filtered(content, &response.filters, place, held)).await? {
            FilteredContent::Whole(content) => {
                response.filters.clear();
                content
            }
            FilteredContent::TooLong(content) => content,
        };
    }
    response.body = Body::Buffer(content, 0);
    Ok(())
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
